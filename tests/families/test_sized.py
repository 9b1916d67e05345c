"""Families that tell slots from sizes: equal to the whole real processor, id by id."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

from packcli.contract.errors import InputError, Rejection
from packcli.contract.mrope import mrope
from packcli.families.family import PixelLimits, VideoMetadata, VideoOptions
from tests.families import upstream

pytest.importorskip("torchvision", reason="the real processors need it")


NAMES = tuple(upstream.MODELS)


@cache
def processor_of(name):
    return upstream.real_processor(upstream.MODELS[name])


@pytest.fixture
def family_of(tmp_path):
    return lambda name: upstream.our_family(upstream.MODELS[name], tmp_path / name)


def sizes(name, count):
    """Small, large and elongated sizes; pairs that fall on edges of tiles among them."""
    rng = random.Random(name)
    largest = upstream.MODELS[name].largest
    edges = [224, 336, 364, 384, 448, 512, 672, 728, 896, 1008, 1456]
    edges = [edge for edge in edges if edge <= largest]
    found = [(rng.choice(edges), rng.choice(edges)) for _ in range(count // 4)]
    found += [(rng.randint(1, 80), rng.randint(1, 80)) for _ in range(count // 8)]
    while len(found) < count:
        found.append((rng.randint(20, largest), rng.randint(20, largest)))
    return found


def placeholder_of(name):
    return processor_of(name).image_token


def real_inputs(name, images):
    """What the real processor makes of a text with images, nested by sample."""
    import torch

    model, processor = upstream.MODELS[name], processor_of(name)
    device = "meta" if model.largest > 500 else "cpu"
    empty = [torch.zeros((3, *size), dtype=torch.uint8, device=device) for size in images]
    text = f"See {' and '.join([placeholder_of(name)] * len(images))}?"
    return processor(images=[empty], text=[text], device=device, **model.call)


def real_ids(name, images):
    return [int(token) for token in real_inputs(name, images)["input_ids"][0]]


def our_ids(name, family, images):
    text = f"See {' and '.join([family.image_placeholder] * len(images))}?"
    pieces = text.split(family.image_placeholder)
    written = []
    for size in images:
        expansion = family.expand_image(family.image_plan(*size, images=len(images)))
        written.append(upstream.repeated(expansion, upstream.pad_of(expansion, family)))
    whole = "".join(p + w for p, w in zip(pieces, [*written, ""], strict=True))
    return processor_of(name).tokenizer(whole)["input_ids"]


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_every_size_equal_the_real_processors(name, family_of):
    family = family_of(name)
    assert family.name == upstream.MODELS[name].family
    assert family.image_placeholder == placeholder_of(name)
    for size in sizes(name, upstream.MODELS[name].sizes):
        assert our_ids(name, family, [size]) == real_ids(name, [size]), size


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_several_images_equal_the_real_processors(name, family_of):
    images = [(300, 410), (31, 17), (480, 120)]
    assert our_ids(name, family_of(name), images) == real_ids(name, images)


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_slots_are_the_parts_of_the_grid(name, family_of):
    family = family_of(name)
    facts = family.facts
    for size in sizes(name, 20):
        plan = family.image_plan(*size)
        slots = family.expand_image(plan).slots
        assert sum(slots) == facts.slots([plan.grid])[0]
        parts = np.cumsum(facts.slots(facts.unbroken([plan.grid])))
        assert set(np.cumsum(slots).tolist()) <= set(parts.tolist())
        assert all(side % facts.merge_size == 0 for side in plan.grid[1:])


@pytest.mark.parametrize(
    ("name", "size", "grid", "tiles"),
    [
        ("internvl3", (480, 640), (13, 32, 32), (3, 4)),
        ("internvl3", (448, 448), (1, 32, 32), (1, 1)),
        ("aya_vision", (364, 728), (3, 26, 26), (1, 2)),
        ("gemma3", (1, 4000), (1, 64, 64), (1, 1)),
        ("gemma4", (480, 640), (1, 42, 57), (1, 1)),
        ("gemma4", (1, 4000), (1, 3, 840), (1, 1)),
        ("idefics3", (364, 364), (17, 26, 26), (4, 4)),
        ("idefics3", (480, 640), (13, 26, 26), (3, 4)),
        ("smolvlm", (480, 640), (13, 32, 32), (3, 4)),
        ("pixtral_12b", (480, 640), (1, 30, 40), (1, 1)),
        ("mistral_small", (480, 640), (1, 36, 46), (1, 1)),
        ("llava_1_5", (480, 640), (1, 24, 24), (1, 1)),
        ("llava_full", (480, 640), (1, 1, 577), (1, 1)),
        ("glm_4_1v", (480, 640), (1, 34, 46), (1, 1)),
        ("kimi_k25", (480, 640), (1, 36, 46), (1, 1)),
    ],
)
def test_known_plans(name, size, grid, tiles, family_of):
    plan = family_of(name).image_plan(*size)
    assert (plan.grid, plan.tiles) == (grid, tiles)


@pytest.mark.parametrize(
    ("size", "grid"),
    [
        ((1, 1024), (1, 1, 64)),
        ((1, 1025), None),
        ((1025, 1), None),
        ((2, 2048), (1, 1, 64)),
        ((3, 5000), None),
    ],
)
def test_pixtral_refuses_what_its_processor_cannot_shrink(size, grid, family_of):
    from PIL import Image

    family, image = family_of("pixtral_12b"), Image.new("RGB", size[::-1])
    processor = processor_of("pixtral_12b").image_processor
    if grid is not None:
        assert family.image_plan(*size).grid == grid
        shape = processor([[image]], return_tensors="pt")["pixel_values"].shape[-2:]
        assert tuple(side // 16 for side in shape) == grid[1:]
        return
    with pytest.raises(Rejection, match=r"aspect_ratio: .* has a side of none; crop it"):
        family.image_plan(*size)
    with pytest.raises(ValueError, match="height"):
        processor([[image]], return_tensors="pt")


def test_texts_of_tiles(family_of):
    def text(name, *size):
        family = family_of(name)
        return family.expand_image(family.image_plan(*size)).text

    around = "<fake_token_around_image>"
    assert text("idefics3_odd", 400, 4601).startswith(f"{around}<row_1_col_1><image>{around}")
    assert text("idefics3_whole", 9, 9) == f"{around}<global-img><image>{around}"
    assert text("pixtral_12b", 32, 16) == "[IMG][IMG_BREAK][IMG][IMG_END]"
    assert text("gemma3", 9, 9) == "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"
    assert text("internvl3", 900, 900) == "<img><IMG_CONTEXT></img>"
    tile = "<|IMG_PATCH|>"
    assert text("aya_vision", 364, 728) == (
        f"<|START_OF_IMG|>TILE_1{tile}TILE_2{tile}TILE_GLOBAL{tile}<|END_OF_IMG|>"
    )
    pad = "<IMG_ATOM>"
    # upstream mixes up rows and columns: a wide image is cut into rows
    assert text("ovis2", 448, 896) == f"<IMG_START>{pad}<IMG_GRID>{pad}<IMG_ROW>{pad}<IMG_END>"


@pytest.mark.parametrize("name", [*dict.fromkeys(m.family for m in upstream.MODELS.values())])
def test_token_ids_are_those_of_the_configuration_class(name, tmp_path):
    import transformers

    if name == "pixtral":
        pytest.skip("its configuration is Mistral3's, which names the token's index only")
    family = upstream.our_family(upstream.Model(name, ("", "", "")), tmp_path)
    config = transformers.AutoConfig.for_model(name)
    assert family.facts.image_token_id == config.image_token_id
    assert family.facts.video_token_id in (None, getattr(config, "video_token_id", None))
    moved = upstream.Model(name, ("", "", ""), {"image_token_index": 7, "vocab_size": 99})
    facts = upstream.our_family(moved, tmp_path).facts
    assert (facts.image_token_id, facts.vocab_size) == (7, 99)


def test_gemma_token_types_are_the_slots(family_of):
    from packcli.contract.columns import columns_for

    facts = family_of("gemma3").facts
    done = real_inputs("gemma3", [(90, 70)])
    pad = processor_of("gemma3").tokenizer.image_token_id
    assert done["token_type_ids"][0] == [int(token == pad) for token in done["input_ids"][0]]
    assert "token_type_ids" in {column.name for column in columns_for(facts)}
    others = family_of("idefics3").facts
    assert "token_type_ids" not in {column.name for column in columns_for(others)}


@pytest.mark.parametrize("name", ["llava_onevision", "internvl3", "gemma4"])
@pytest.mark.parametrize("frames", [4, 7, 40, 333])
@pytest.mark.parametrize("options", [{}, {"num_frames": 5}, {"fps": 1}])
def test_ids_of_videos_equal_the_real_processors(name, frames, options, family_of, monkeypatch):
    import torch
    from transformers.video_utils import VideoMetadata as Upstream

    family, processor = family_of(name), processor_of(name)
    video = VideoMetadata(frames=frames, fps=4.0, height=60, width=90)
    place = family.video_placeholder
    assert place == processor.video_token
    sampling = {"do_sample_frames": True, **options} if options else {}
    if options.get("fps"):
        # its own number of frames goes before a rate, and is no option of ours
        monkeypatch.setattr(processor.video_processor, "num_frames", None, raising=False)
    pixels = torch.zeros((frames, 3, 60, 90), dtype=torch.uint8, device="meta")
    expected = None
    with suppress(ValueError):
        expected = processor(
            videos=[pixels],
            text=[f"See {place}!"],
            video_metadata=[Upstream(total_num_frames=frames, fps=4.0)],
            device="meta",
            **sampling,
        )["input_ids"][0]
    if expected is None:
        with pytest.raises(Rejection) as caught:
            family.video_plan(video, VideoOptions(**options))
        assert caught.value.code == "video_too_short"
        return
    plan = family.video_plan(video, VideoOptions(**options))
    expansion = family.expand_video(plan)
    pad = place if place in expansion.text else family.image_placeholder
    text = f"See {upstream.repeated(expansion, pad)}!"
    assert processor.tokenizer(text)["input_ids"] == [int(token) for token in expected]
    assert plan.timestamps == tuple(index / 4.0 for index in plan.frame_indices.tolist())
    assert sum(expansion.slots) == family.facts.slots([plan.grid])[0]


@pytest.mark.parametrize("total", [9, 100, 7000, 123_457])
def test_middle_frames_are_torchs(total, family_of):
    from transformers.video_utils import VideoMetadata as Upstream

    family, real = family_of("internvl3"), processor_of("internvl3").video_processor
    for count in (1, 2, 7, min(total, 300), min(total, 4321)):
        expected = real.sample_frames(Upstream(total_num_frames=total, fps=1.0), num_frames=count)
        video = VideoMetadata(total, 1.0, 9, 9)
        plan = family.video_plan(video, VideoOptions(num_frames=count))
        assert plan.frame_indices.tolist() == expected[expected < total].tolist(), count


def test_positions_of_glm_equal_get_rope_index(family_of):
    from types import MethodType, SimpleNamespace

    import torch
    import transformers
    from transformers.models.glm4v.modeling_glm4v import Glm4vModel

    facts = family_of("glm_4_1v").facts
    grids = [(1, 4, 6), (1, 2, 10)]
    ids = [5, *[facts.image_token_id] * 6, 8, 9, *[facts.image_token_id] * 5, 3]
    stub = SimpleNamespace(config=transformers.AutoConfig.for_model("glm4v"))
    stub.get_vision_position_ids = MethodType(Glm4vModel.get_vision_position_ids, stub)
    kinds = torch.tensor([[int(token == facts.image_token_id) for token in ids]])
    expected, _ = Glm4vModel.get_rope_index(stub, torch.tensor([ids]), kinds, torch.tensor(grids))
    ours = mrope(np.array(ids, np.int32), grids, [], facts)
    assert ours.tolist() == expected[:, 0].tolist()


@pytest.mark.parametrize("name", ["glm_4_1v", "kimi_k25", "llava_next"])
def test_what_cannot_be_asked_is_refused(name, family_of):
    family = family_of(name)
    with pytest.raises(Rejection, match="knows no min_pixels and max_pixels"):
        family.image_plan(10, 10, PixelLimits(max_pixels=5))
    with pytest.raises(Rejection) as caught:
        family.image_plan(0, 10)
    assert caught.value.code == "media_empty"
    with pytest.raises(Rejection, match=f"no videos for {family.name}"):
        family.video_plan(VideoMetadata(8, 1.0, 10, 10))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (upstream.Model("gemma3", (), image={"do_pan_and_scan": True}), "do_pan_and_scan"),
        (upstream.Model("idefics3", (), image={"size": {"height": 9, "width": 9}}), "longest_edge"),
        (upstream.Model("llava", (), image={"size": {"shortest_edge": 9}}), "height and width"),
        (upstream.Model("internvl", (), image={"size": "large"}), "size needs height and width"),
        (upstream.Model("glm4v", (), image={"size": {"longest_edge": 9}}), "lacks shortest_edge"),
        (upstream.Model("llava_next", (), image={"image_grid_pinpoints": []}), "list of sizes"),
        (upstream.Model("pixtral", (), processor={"image_token": 7}), "must be text"),
    ],
)
def test_unusable_files_are_refused(model, message, tmp_path):
    with pytest.raises(InputError, match=message):
        upstream.our_family(model, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_settings_hold_what_decides_lengths(name, family_of):
    family = family_of(name)
    assert family.settings
    json.dumps(dict(family.settings), allow_nan=False)
