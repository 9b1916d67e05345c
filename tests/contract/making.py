"""Make valid packs of any family for tests, without encode."""

from __future__ import annotations

import numpy as np

from packcli.contract.columns import Axis
from packcli.contract.digests import sample_digests
from packcli.contract.model import ModelFacts, Padding, Rope, Runs, VitWindows
from packcli.contract.offsets import Offsets
from packcli.contract.packs import Packs, boxed
from packcli.contract.rules.slots import media_spans
from packcli.contract.slot_runs import slot_runs
from packcli.pack.padding import padded

IMAGE, VIDEO, START, END = 1001, 1002, 1003, 1004

TEXT_MODEL = ModelFacts("text", vocab_size=1100)
MODELS = {
    "text": TEXT_MODEL,
    "qwen2_vl": ModelFacts("qwen2_vl", 1100, Rope.GRID, IMAGE, VIDEO, 2),
    "qwen2_5_vl": ModelFacts("qwen2_5_vl", 1100, Rope.TIMED, IMAGE, VIDEO, 2, 2.0),
    "qwen3_vl": ModelFacts("qwen3_vl", 1100, Rope.FRAMES, IMAGE, VIDEO, 2),
    "windows": ModelFacts(
        "llava_onevision2",
        1100,
        Rope.TEXT,
        IMAGE,
        None,
        2,
        runs=Runs.TILE,
        vit_windows=VitWindows.FRAMES,
    ),
    "weights": ModelFacts("text", vocab_size=1100, loss_scale=True),
}
PADDED_MODELS = {
    "padded": ModelFacts("text", vocab_size=1100, padding=Padding(3, 8, 32)),
    "padded_vision": ModelFacts(
        "qwen2_vl", 1100, Rope.GRID, IMAGE, VIDEO, 2, padding=Padding(3, 8, 32)
    ),
}


def _words(rng, low, high):
    return rng.integers(1, 1000, rng.integers(low, high)).tolist()


def _medium(rng, facts, kind):
    most = 7 if facts.runs is Runs.TILE else 1 if kind == "image" else 3
    t = int(rng.integers(1, most + 1))
    h, w = (int(2 * rng.integers(1, 4)) for _ in range(2))
    token = IMAGE if kind == "image" else VIDEO
    per_frame = h * w // 4
    if facts.runs is Runs.TILE or (kind == "video" and facts.rope is Rope.FRAMES):
        ids = [i for _ in range(t) for i in (*_words(rng, 1, 3), START, *[token] * per_frame, END)]
    else:
        ids = [START, *[token] * (t * per_frame), END]
    return ids, (t, h, w)


def make_samples(rng, facts, count, first=0):
    """Return `count` valid samples as packs of one."""
    ids, labels, lengths = [], [], []
    grids = {"image": [], "video": []}
    held = {"image": [], "video": []}
    kinds = []
    for _ in range(count):
        prompt = _words(rng, 1, 8)
        mine = {"image": 0, "video": 0}
        for _ in range(int(rng.integers(0, 3)) if facts.has_media else 0):
            kind = "image" if facts.video_token_id is None or rng.random() < 0.7 else "video"
            more, grid = _medium(rng, facts, kind)
            prompt += more + _words(rng, 0, 3)
            grids[kind].append(grid)
            mine[kind] += 1
            kinds.append(kind)
        answer = _words(rng, 1, 9)
        ids += prompt + answer
        labels += [-100] * len(prompt) + answer
        lengths.append(len(prompt) + len(answer))
        for kind, number in mine.items():
            held[kind].append(number)
    axes = {Axis.TOKEN: Offsets.from_lengths(lengths)}
    names = boxed([f"s{first + i}" for i in range(count)])
    columns = {
        "input_ids": np.array(ids, np.int32),
        "labels": np.array(labels, np.int32),
        "sample_ids": names,
        "sample_sources": boxed([f"chat.jsonl:{first + i + 1}" for i in range(count)]),
        "sample_digests": np.zeros((count, 16), np.uint8),
    }
    if facts.loss_scale:
        weights = rng.choice([0.5, 1.0, 2.0], len(ids))
        columns["loss_scale"] = np.where(columns["labels"] == -100, 0, weights).astype(np.float32)
    if facts.has_media:
        _add_media(rng, facts, axes, columns, grids, held, kinds)
        _place_media(Packs(facts, Offsets.unit(count), axes, columns))
    packs = Packs(facts, Offsets.unit(count), axes, columns)
    columns["sample_digests"][:] = sample_digests(packs)
    return Packs(facts, Offsets.unit(count), axes, columns)


def _add_media(rng, facts, axes, columns, grids, held, kinds):
    axes[Axis.IMAGE] = Offsets.from_lengths(held["image"])
    axes[Axis.VIDEO] = Offsets.from_lengths(held["video"])
    axes[Axis.MEDIUM] = Offsets.from_lengths(np.add(held["image"], held["video"]))
    number = axes[Axis.MEDIUM].total
    columns |= {
        "image_grid_thw": np.array(grids["image"], np.int32).reshape(-1, 3),
        "video_grid_thw": np.array(grids["video"], np.int32).reshape(-1, 3),
        "media.kind": boxed(kinds),
        "media.uri": boxed([f"{kind}{i}.png" for i, kind in enumerate(kinds)]),
        "media.token_start": np.zeros(number, np.int32),
        "media.token_count": np.zeros(number, np.int32),
        "media.height": np.full(number, 40, np.int32),
        "media.width": np.full(number, 60, np.int32),
        "media.frame_indices": boxed([[0, 1] if k == "video" else [] for k in kinds]),
        "media.timestamps": boxed([[0.5] if k == "video" else [] for k in kinds]),
    }
    if facts.rope is Rope.TIMED:
        steps = rng.choice([0.5, 1.0, 2.0], len(grids["video"]))
        columns["second_per_grid_ts"] = steps.astype(np.float32)


def _place_media(packs):
    slots = slot_runs(packs.columns["input_ids"], packs.facts)
    start, size = media_spans(packs, slots)
    first_token = np.repeat(packs.tokens.starts, packs.axes[Axis.MEDIUM].lengths)
    packs.columns["media.token_start"][:] = start - first_token
    packs.columns["media.token_count"][:] = size


def make_packs(rng, facts, packs=4, most=5, first=0):
    """Return valid packs of 1 to `most` samples, padded where the facts say so."""
    members = Offsets.from_lengths(rng.integers(1, most + 1, packs))
    return padded(make_samples(rng, facts, members.total, first).grouped(members), facts)
