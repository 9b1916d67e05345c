from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image, ImageOps
from transformers.video_utils import load_video

from packcli.contract.errors import InputError
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.families.family import PixelLimits, VideoOptions
from packcli.train import MediaLoader, PackDataset


def media_of(dataset):
    return {medium.uri: medium for pack in dataset for medium in pack.media}


def pixels_of(loader, medium):
    (pixels,) = loader.load(medium).values()
    return pixels


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_images_are_those_of_the_processor(made, family):
    data = made(family)
    loader = data.collator().media
    processor = transformers.AutoImageProcessor.from_pretrained(data.model)
    media = media_of(PackDataset(data.packed))
    images = [m for m in media.values() if m.kind == "image" and not m.uri.startswith("data:")]
    assert len(images) == 13
    for medium in images:
        # not load_image: it drops alpha, where the processor itself lays it on white
        image = ImageOps.exif_transpose(Image.open(data.media_root / medium.uri))
        expected = processor(image, return_tensors="pt")
        assert expected["image_grid_thw"].tolist() == [list(medium.grid)]
        assert torch.equal(loader.load(medium)["pixel_values"], expected["pixel_values"])


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_videos_are_those_of_the_processor(made, family):
    data = made(family)
    loader = data.collator().media
    processor = transformers.AutoVideoProcessor.from_pretrained(data.model)
    media = media_of(PackDataset(data.packed))
    videos = [media[f"media/{name}.mp4"] for name in ("ball", "light")]
    for medium in videos:
        video, metadata = load_video(str(data.media_root / medium.uri), backend="pyav")
        expected = processor([video], video_metadata=[metadata], return_tensors="pt")
        assert expected["video_grid_thw"].tolist() == [list(medium.grid)]
        assert torch.equal(
            loader.load(medium)["pixel_values_videos"], expected["pixel_values_videos"]
        )


def test_frame_lists_and_data_uris(made):
    data = made("qwen3_vl")
    loader = data.collator().media
    media = media_of(PackDataset(data.packed))
    (frames,) = [medium for medium in media.values() if medium.uri.startswith("[")]
    assert pixels_of(loader, frames).shape[0] == np.prod(frames.grid)
    (inline,) = [medium for medium in media.values() if medium.uri.startswith("data:")]
    assert pixels_of(loader, inline).shape[0] == np.prod(inline.grid)


def test_limits_of_the_encoding_call_are_found_again(made, tmp_path):
    data = made("qwen3_vl")
    options = EncodeOptions(
        pixels=PixelLimits(max_pixels=40_000), video=VideoOptions(fps=4, max_pixels=90_000)
    )
    job = EncodeJob(data.model, None, options)
    encode([data.media_root / "chats.jsonl"], job, Writing(tmp_path / "small"))
    dataset = PackDataset(tmp_path / "small")
    loader = MediaLoader(dataset, data.media_root, data.model)
    media, before = media_of(dataset), media_of(PackDataset(data.encoded))
    for medium in media.values():
        assert pixels_of(loader, medium).shape[0] == np.prod(medium.grid)
    smaller = [uri for uri in media if np.prod(media[uri].grid) < np.prod(before[uri].grid)]
    assert {"media/sunset.jpg", "media/ball.mp4"} <= set(smaller)


def first(made, family="qwen3_vl", kind="image", uri="media/sunset.jpg"):
    data = made(family)
    return data, media_of(PackDataset(data.packed))[uri]


def test_missing_file_names_sample_source_and_remedy(made, tmp_path):
    data, medium = first(made)
    loader = MediaLoader(PackDataset(data.packed), tmp_path, data.model)
    with pytest.raises(InputError, match=r"chats.jsonl:\d+.*no such file.*media_root") as error:
        loader.load(medium)
    assert repr(medium.sample) in str(error.value)


def test_roots_of_several_inputs(made):
    data, medium = first(made)
    dataset = PackDataset(data.packed)
    roots = {"chats.jsonl": data.media_root}
    assert pixels_of(MediaLoader(dataset, roots, data.model), medium).shape[0] == np.prod(
        medium.grid
    )
    with pytest.raises(InputError, match=r"no media root for input 'chats.jsonl'"):
        MediaLoader(dataset, {"other": "."}, data.model).load(medium)


def test_file_that_changed_its_size_since_encode(made):
    data, medium = first(made)
    changed = replace(medium, uri="media/flower.jpg")
    with pytest.raises(InputError, match="at encode it was 512x384"):
        data.collator().media.load(changed)


def test_slots_that_the_features_do_not_fill(made):
    data, medium = first(made)
    with pytest.raises(InputError, match=f"sample {medium.sample!r}.*191 slots"):
        data.collator().media.load(replace(medium, slots=191))
    with pytest.raises(InputError, match=f"{medium.source}"):
        data.collator().media.load(replace(medium, grid=(1, 2, 200)))


def test_processor_of_another_model(made):
    data, medium = first(made)
    other = made("qwen2_5_vl").model
    with pytest.raises(InputError, match="holds qwen2_5_vl, the dataset was encoded for qwen3_vl"):
        MediaLoader(PackDataset(data.packed), data.media_root, other).load(medium)


def test_processors_may_be_given(made):
    data, medium = first(made)
    processor = transformers.AutoImageProcessor.from_pretrained(data.model)
    dataset = PackDataset(data.packed)
    loader = MediaLoader(dataset, data.media_root, processors={"image": processor})
    assert torch.equal(pixels_of(loader, medium), pixels_of(data.collator().media, medium))
    with pytest.raises(InputError, match="no image processor; give model="):
        MediaLoader(dataset, data.media_root).load(medium)


def test_embedded_media_are_found_without_a_word(made, tmp_path):
    from packcli.pack.options import PlanOptions
    from packcli.pack.run import Writing as PackWriting
    from packcli.pack.run import pack

    data = made("qwen3_vl")
    lines = (data.media_root / "chats.jsonl").read_text(encoding="utf-8").splitlines()
    chosen = [line for line in lines if "sunset" in line or "ball" in line or "data:" in line]
    (tmp_path / "few.jsonl").write_text("\n".join(chosen), encoding="utf-8")
    job = EncodeJob(data.model, data.media_root, EncodeOptions(embed_media=True))
    encode([tmp_path / "few.jsonl"], job, Writing(tmp_path / "a"))
    pack([tmp_path / "a"], PlanOptions(), PackWriting(tmp_path / "b"))
    dataset = PackDataset(tmp_path / "b")
    loader = MediaLoader(dataset, tmp_path / "nowhere", data.model)
    assert {medium.kind for medium in media_of(dataset).values()} == {"image", "video"}
    for medium in media_of(dataset).values():
        assert medium.uri.startswith(("sha256:", '["sha256:'))
        assert pixels_of(loader, medium).shape[0] == np.prod(medium.grid)


def test_embedded_bytes_need_a_fetch_function(made):
    data, medium = first(made)
    content = (data.media_root / medium.uri).read_bytes()
    name = f"sha256:{sha256(content).hexdigest()}"
    embedded = replace(medium, uri=name)
    with pytest.raises(InputError, match="fetch function"):
        data.collator().media.load(embedded)
    dataset = PackDataset(data.packed)
    loader = MediaLoader(dataset, ".", data.model, fetch={name: content}.__getitem__)
    assert torch.equal(pixels_of(loader, embedded), pixels_of(data.collator().media, medium))


def test_exif_policy_of_encode_holds_after_packing(made, tmp_path):
    from packcli.encode.media.images import ImagePolicy
    from packcli.pack.options import PlanOptions
    from packcli.pack.run import Writing as PackWriting
    from packcli.pack.run import pack

    data = made("qwen3_vl")
    options = EncodeOptions(images=ImagePolicy(exif="ignore"))
    lines = (data.media_root / "chats.jsonl").read_text(encoding="utf-8").splitlines()
    turned = [line for line in lines if "flower" in line][:1]
    record = json.dumps(json.loads(turned[0]))
    (tmp_path / "one.jsonl").write_text(record, encoding="utf-8")
    job = EncodeJob(data.model, data.media_root, options)
    encode([tmp_path / "one.jsonl"], job, Writing(tmp_path / "a"))
    pack([tmp_path / "a"], PlanOptions(), PackWriting(tmp_path / "b"))
    dataset = PackDataset(tmp_path / "b")
    (medium,) = dataset[0].media
    loader = MediaLoader(dataset, data.media_root, data.model)
    assert pixels_of(loader, medium).shape[0] == np.prod(medium.grid)
    # stored sideways: another size than with its orientation applied
    upright = media_of(PackDataset(data.packed))["media/flower.jpg"]
    assert (medium.height, medium.width) == (upright.width, upright.height)
    assert Path(medium.uri).name == "flower.jpg"


def test_family_whose_pixels_are_laid_out_in_another_way(made):
    data, _ = first(made)
    dataset = PackDataset(data.packed)
    dataset.source.manifest = replace(
        dataset.manifest, model=replace(dataset.facts, family="none_such")
    )
    with pytest.raises(InputError, match="does not know how family none_such takes pixels"):
        MediaLoader(dataset, data.media_root, data.model)


WITHOUT = """
import sys
from importlib import util
from packcli.contract.errors import EnvironmentLacksError
found = util.find_spec
util.find_spec = lambda name, *more: None if name == "torchvision" else found(name, *more)
sys.modules["torchvision"] = None
from packcli.train import MediaLoader, PackDataset
packs = PackDataset(sys.argv[1])
loader = MediaLoader(packs, sys.argv[2], sys.argv[3])
media = {medium.uri: medium for pack in packs for medium in pack.media}
print(sorted(loader.load(media["media/shapes.png"])))
try:
    loader.load(media["media/ball.mp4"])
except EnvironmentLacksError as error:
    print(error)
"""


def test_videos_without_torchvision_say_what_to_install(made):
    data = made("qwen3_vl")
    told = [str(data.packed), str(data.media_root), str(data.model)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *told],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "['pixel_values']",
        f"transformers' video processor of {data.model} needs torchvision; pip install torchvision",
    ]
