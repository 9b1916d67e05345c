"""Media of exports: embedded bytes are found, canvases bring the positions of their patches."""

from __future__ import annotations

import io
import json
import tarfile

import datasets
import numpy as np
import pytest
from PIL import Image

from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing as PackWriting
from packcli.pack.run import pack
from packcli.shards.media_store import MediaStore
from tests.export.conftest import refused_in
from tests.export.test_record_targets import bins_in


@pytest.fixture
def made(tmp_path):
    """Encode records, and pack them."""

    def make(model, lines, root, **options):
        path = tmp_path / "records.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        encode([path], EncodeJob(model, root, EncodeOptions(**options)), Writing(tmp_path / "enc"))
        pack([tmp_path / "enc"], PlanOptions(capacity=2048), PackWriting(tmp_path / "packed"))
        return tmp_path / "packed", path

    return make


def chat(name, question, **more):
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": "yes"}]
    return {"id": name, "messages": turns, **more}


@pytest.mark.parametrize("target", ["llamafactory", "ms-swift", "qwen-vl-finetune"])
def test_embedded_media_are_named_by_their_files(target, made, exported, sample_data):
    lines = [chat("one", "<image>What?", images=["media/sunset.jpg"])]
    model = sample_data / "models" / "qwen3_vl"
    packed, records = made(model, lines, sample_data, embed_media=True)
    (file,) = MediaStore(packed).files()
    output, summary = exported(packed, target, records=(records,))
    assert summary.samples == 1
    assert not refused_in(output)
    if target == "qwen-vl-finetune":
        told = json.loads((output / "packed.json").read_text())[0][0]["image"]
    else:
        told = datasets.load_from_disk(str(output))[0]["images"]
    assert told == [str(file)]
    assert file.read_bytes() == (sample_data / "media" / "sunset.jpg").read_bytes()


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_paths_below_the_one_folder_stay_relative_to_it(scheme, made, exported, sample_data):
    uri = f"{scheme}media/sunset.jpg"
    model = sample_data / "models" / "qwen3_vl"
    packed, records = made(model, [chat("one", "<image>What?", images=[uri])], sample_data)
    output, _ = exported(packed, "qwen-vl-finetune", records=(records,), media_root=sample_data)
    told = json.loads((output / "packed.json").read_text())[0][0]["image"]
    assert told == ["media/sunset.jpg"]


def canvas(folder, name, frame):
    """A canvas of 4 x 8 patches whose lower half shows the next frame."""
    Image.new("RGB", (8 * 14, 4 * 14), (frame, 0, 0)).save(folder / f"{name}.png")
    positions = np.zeros((32, 3), np.int64)
    positions[:, 1:] = np.indices((4, 8)).reshape(2, -1).T
    positions[:, 0] = frame + positions[:, 1] // 2
    np.save(folder / f"{name}.npy", positions)
    return positions


@pytest.mark.parametrize("embed", [False, True])
def test_canvases_keep_positions_and_times(embed, made, exported, canvas_model, tmp_path):
    positions = [canvas(tmp_path, "a", 0), canvas(tmp_path, "b", 2)]
    images, files = ["a.png", "b.png"], ["a.npy", "b.npy"]
    Image.new("RGB", (56, 56)).save(tmp_path / "plain.png")
    clip = {"patch_positions": files, "fps": [2], "timestamp_decimal": 2}
    lines = [
        chat("clip", "<video>\nWhat?", images=images, **clip),
        chat("plain", "<image>Which?", images=["plain.png"]),
        chat("words", "Really?"),
    ]
    packed, records = made(canvas_model, lines, tmp_path, embed_media=embed)
    output, summary = exported(packed, "llava-onevision2", records=(records,), media_root=tmp_path)
    assert (summary.samples, refused_in(output)) == (3, [])
    ((_, bins),) = bins_in(output)
    (held,) = bins.values()
    told = json.loads(held["json"])
    number = next(n for n, one in enumerate(told["images"]) if len(one) == 2)
    assert told["prompts"][number] == ["<image>\n<image>\nWhat?"]
    assert told["fps"][number] == [2]
    assert told["timestamp_decimal"][number] == 2
    assert sorted(map(len, told["patch_positions"])) == [0, 1, 2]
    assert [one for one in told["fps"] if one is not None] == [[2]]
    for place, expected in enumerate(positions):
        found = np.load(io.BytesIO(held[f"img{number}_{place}.npy"]))
        assert np.array_equal(found, expected)
        image = (tmp_path / images[place]).read_bytes()
        assert held[f"img{number}_{place}.jpg"] == image
    with tarfile.open(output / "packs-000000.tar") as tar:
        names = [member.name for member in tar.getmembers()]
    assert [name.endswith(".npy") for name in names].count(True) == 2
