"""Canvases of LLaVA-OneVision-2: text, grids and windows as its trainer makes them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from packcli.contract.rules import check
from packcli.contract.vit import block_order
from packcli.encode.encoder import Encoder
from packcli.encode.media.sources import MediaRoot
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.records.raw import RawRecord
from packcli.encode.sample import packs_of_one
from packcli.shards.arrow import to_batch, to_rows

ROWS, COLUMNS, MERGE = 4, 8, 2
SLOTS = ROWS * COLUMNS // MERGE**2
PAD, START, END = "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"


@pytest.fixture(scope="module")
def model(sample_data, tmp_path_factory):
    """qwen2_vl's files under the name of LLaVA-OneVision-2."""
    model = shutil.copytree(
        sample_data / "models" / "qwen2_vl", tmp_path_factory.mktemp("ov2") / "model"
    )
    changed = {
        "config.json": {"model_type": "llava_onevision2"},
        "preprocessor_config.json": {
            "temporal_patch_size": 1,
            "size": {"shortest_edge": 56 * 56, "longest_edge": 1_003_520},
        },
    }
    for name, settings in changed.items():
        told = json.loads((model / name).read_text()) | settings
        (model / name).write_text(json.dumps(told))
    return model


def stored(folder, frames):
    """Write one canvas for each row of `frames`, which holds the frame of every slot."""
    names = []
    for number, of_slots in enumerate(frames):
        name = f"canvas{number}"
        Image.new("RGB", (COLUMNS * 14, ROWS * 14)).save(folder / f"{name}.png")
        positions = np.zeros((ROWS * COLUMNS, 3), np.int64)
        positions[:, 1:] = np.indices((ROWS, COLUMNS)).reshape(2, -1).T
        order = block_order((1, ROWS, COLUMNS), MERGE)
        positions[order, 0] = np.repeat(of_slots, MERGE**2)
        np.save(folder / f"{name}.npy", positions)
        names.append(name)
    return names


def record(names, content, **extra):
    return {
        "id": "a",
        "images": [f"{name}.png" for name in names],
        "messages": [
            {"role": "user", "content": content},
            {"role": "assistant", "content": "A cat."},
        ],
        **extra,
    }


def encoded(model, folder, told, **options):
    job = EncodeJob(model, None, EncodeOptions(**options))
    encoder = Encoder(job, MediaRoot(folder))
    outcome = encoder.encode("f", [RawRecord(1, 0, json.dumps(told).encode())])
    return encoder, outcome


def seen(model, folder, told):
    """Encode one record: its text with slots counted, and its packs."""
    from transformers import AutoTokenizer

    encoder, outcome = encoded(model, folder, told)
    assert outcome.rejected == []
    packs = packs_of_one(outcome.samples, encoder.facts)
    assert not check(to_rows(to_batch(packs), encoder.facts)).hits
    text = AutoTokenizer.from_pretrained(model).decode(outcome.samples[0].input_ids)
    return text.split("user\n", 1)[1].split("<|im_end|>")[0], packs


def block(slots, time=None):
    stamp = "" if time is None else f"<{time} seconds>"
    return f"{stamp}{START}{PAD * slots}{END}"


FRAMES = [[0, 0, 0, 15, 15, 15, 30, 30], [30, 30, 45, 45, 45, 45, 45, 45]]


def test_with_a_rate_every_frame_is_a_block_behind_its_time(model, tmp_path):
    names = stored(tmp_path, FRAMES)
    told = record(names, "<image>\n<image>\n\nWhat is it?", fps=[30], timestamp_decimal=2)
    text, packs = seen(model, tmp_path, told)
    assert text == (
        f"{block(3, '0.00')}\n{block(3, '0.50')}\n{block(4, '1.00')}\n{block(6, '1.50')}\n"
        "\nWhat is it?"
    )
    assert packs.columns["image_grid_thw"].tolist() == [[2, ROWS, COLUMNS]]
    assert packs.columns["media.frame_indices"][0] == (0, 15, 30, 45)
    assert packs.columns["media.timestamps"][0] == (0.0, 0.5, 1.0, 1.5)
    assert json.loads(packs.columns["media.uri"][0]) == [
        ["canvas0.png", "canvas0.npy"],
        ["canvas1.png", "canvas1.npy"],
    ]
    assert to_batch(packs).column("vit_cu_seqlens").to_pylist() == [[0, 2 * ROWS * COLUMNS]]


def test_without_a_rate_canvases_stay_apart_in_one_grid(model, tmp_path):
    names = stored(tmp_path, [[4] * SLOTS, [2] * SLOTS])
    text, packs = seen(model, tmp_path, record(names, "Look:<image>\n<image>\nWhat is it?"))
    assert text == f"Look:{block(SLOTS)}\n{block(SLOTS)}\nWhat is it?"
    assert packs.columns["image_grid_thw"].tolist() == [[2, ROWS, COLUMNS]]
    assert packs.columns["media.timestamps"][0] == ()


def test_files_named_by_the_record_go_before_those_of_the_same_stem(model, tmp_path):
    names = stored(tmp_path, FRAMES[:1])
    (tmp_path / "canvas0.npy").rename(tmp_path / "elsewhere.npy")
    told = record(names, "<video>\nWhat?", fps=10, patch_positions=["elsewhere.npy"])
    text, packs = seen(model, tmp_path, told)
    assert text == f"{block(3, '0.0')}\n{block(3, '1.5')}\n{block(2, '3.0')}\nWhat?"
    assert json.loads(packs.columns["media.uri"][0]) == [["canvas0.png", "elsewhere.npy"]]


def test_images_without_positions_are_images(model, tmp_path):
    names = stored(tmp_path, FRAMES)
    for name in names:
        (tmp_path / f"{name}.npy").unlink()
    _, packs = seen(model, tmp_path, record(names, "<image><image>What?"))
    assert packs.columns["image_grid_thw"].tolist() == [[1, ROWS, COLUMNS]] * 2


def without(folder, name):
    (folder / name).unlink()


def reordered(folder, name):
    positions = np.load(folder / name)
    np.save(folder / name, positions[block_order((1, ROWS, COLUMNS), MERGE)])


def fewer(folder, name):
    np.save(folder / name, np.load(folder / name)[1:])


def fractions(folder, name):
    np.save(folder / name, np.load(folder / name).astype(float))


def moved(folder, name):
    """As many rows as the canvases need, in the wrong files."""
    first, second = (np.load(folder / f"canvas{n}.npy") for n in (0, 1))
    both = np.concatenate([first, second])
    np.save(folder / "canvas0.npy", both[:48])
    np.save(folder / name, both[48:])


def late(folder, name):
    positions = np.load(folder / name)
    positions[:, 0] += 2**31
    np.save(folder / name, positions)


def claimed(folder, name):
    data = (folder / name).read_bytes().replace(b"(32, 3)", b"(9**9)", 1)
    (folder / name).write_bytes(data)


def zipped(folder, name):
    np.savez(folder / "other.npz", np.load(folder / name))
    (folder / "other.npz").rename(folder / name)


def torn(folder, name):
    (folder / name).write_bytes(b"no array")


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (without, "bad_media_ref", "canvas1.png has no .npy"),
        (reordered, "bad_media_ref", "canvas1.npy is in the order of merger blocks"),
        (fewer, "bad_media_ref", "canvas1.npy holds int64 (31, 3), not whole numbers (32, 3)"),
        (fractions, "bad_media_ref", "canvas1.npy holds float64 (32, 3)"),
        (moved, "bad_media_ref", "canvas0.npy holds int64 (48, 3)"),
        (late, "bad_media_ref", "beyond 32 bits"),
        (claimed, "bad_media_ref", "canvas1.npy is no .npy file"),
        (zipped, "bad_media_ref", "canvas1.npy is no .npy file"),
        (torn, "bad_media_ref", "is no .npy file"),
    ],
)
def test_damaged_positions_are_refused(damage, code, message, model, tmp_path):
    names = stored(tmp_path, FRAMES)
    damage(tmp_path, "canvas1.npy")
    _, outcome = encoded(model, tmp_path, record(names, "<image>\n<image>\nWhat?", fps=30))
    assert outcome.rejected[0]["code"] == code
    assert message in outcome.rejected[0]["message"]


@pytest.mark.parametrize(
    ("frames", "content", "extra", "message"),
    [
        ([[9] * SLOTS, [2] * SLOTS], "<image>\n<image>\nWhat?", {"fps": 3}, "do not rise"),
        (FRAMES, "<image>\nand\n<image>\nWhat?", {"fps": 3}, "words between canvases"),
        (FRAMES, "<image>\n<image>What?", {"patch_positions": ["canvas0.npy"]}, "1 files for 2"),
        (FRAMES, "<image>\n<image>", {"fps": 3, "timestamp_decimal": 3}, "give 1 or 2"),
        (FRAMES, "<image>\n<image>", {"fps": [2, 3]}, "for one clip of canvases"),
        (FRAMES, "<image>\n<image>", {"patch_positions": [{"a": 1}, "b"]}, "names 2 files"),
    ],
)
def test_clips_that_the_trainer_would_garble_are_refused(
    frames, content, extra, message, model, tmp_path
):
    names = stored(tmp_path, frames)
    _, outcome = encoded(model, tmp_path, record(names, content, **extra))
    assert message in outcome.rejected[0]["message"]


def test_a_rate_without_positions_is_refused(model, tmp_path):
    names = stored(tmp_path, FRAMES)
    for name in names:
        (tmp_path / f"{name}.npy").unlink()
    _, outcome = encoded(model, tmp_path, record(names, "<image><image>What?", fps=3))
    assert "fps and its images no .npy" in outcome.rejected[0]["message"]


def test_windows_by_time_need_canvases_of_one_frame_each(model, tmp_path):
    names = stored(tmp_path, FRAMES)
    told = record(names, "<image>\n<image>\nWhat?", fps=30)
    _, outcome = encoded(model, tmp_path, told, vit_windows="temporal")
    assert "frames share canvases" in outcome.rejected[0]["message"]
    names = stored(tmp_path, [[0] * SLOTS, [1] * SLOTS])
    encoder, outcome = encoded(model, tmp_path, told, vit_windows="temporal")
    batch = to_batch(packs_of_one(outcome.samples, encoder.facts))
    assert batch.column("vit_cu_seqlens").to_pylist() == [[0, 32, 64]]
