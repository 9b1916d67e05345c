"""The contract's checks as a user of the reference libraries would write them: sample by sample.

The second peer of `bench_verify.py`. Rows come from `datasets` in NumPy format, mRoPE from
transformers' `get_rope_index` on each sample, digests from hashlib; within a sample NumPy does the
work. It checks what `plain_verify.py` checks, and raises at the first fault. The Arrow cache of
`datasets` is built before anything is timed, and page checksums are not looked at: both in its
favour.
"""

import json
from functools import cache
from hashlib import blake2b
from importlib import import_module
from itertools import pairwise
from types import MethodType, SimpleNamespace

import numpy as np
import torch
from datasets import Dataset
from plain_verify import IGNORED, same, same_file

MODELS = {"qwen2_5_vl": "Qwen2_5_VLModel", "qwen3_vl": "Qwen3VLModel"}
KINDS = ("image", "video")


def opened(path, folder):
    """Let `datasets` build its cache, and return the rows."""
    return Dataset.from_parquet(str(path), cache_dir=str(folder)).with_format("numpy")


def verify(rows, path, facts, digest):
    """Check a shard against its SHA-256, and each of its rows; return its tokens."""
    same_file(path, digest)
    tokens, seen = 0, set()
    for row in rows:
        tokens += check_row(row, facts, seen)
    return tokens


def equal(found, expected, name):
    if not np.array_equal(found, expected):
        raise AssertionError(name)


def check_row(row, facts, seen):
    """Check one pack."""
    ids, bounds = row["input_ids"], row["cu_seqlens"]
    for name in ("labels", "position_ids", "loss_mask"):
        same(len(row[name]), len(ids), name)
    same((bounds[0], bounds[-1]), (0, len(ids)), "cu_seqlens")
    lengths = np.diff(bounds)
    if lengths.min() < 1:
        raise AssertionError("cu_seqlens")
    equal(row["seq_lengths"], lengths, "seq_lengths")
    equal(row["seq_start_id"], bounds[:-1], "seq_start_id")
    counted = {
        "max_seqlen": lengths.max(),
        "length": len(ids),
        "num_samples": len(lengths),
        "sum_sq_len": (lengths**2).sum(),
        "num_supervised": (row["labels"] != IGNORED).sum(),
    }
    grids = {kind: row[f"{kind}_grid_thw"] for kind in KINDS if facts.has_media}
    if facts.has_media:
        counted["num_patches"] = sum(int(np.prod(g)) for own in grids.values() for g in own)
    for name, value in counted.items():
        same(row[name], value, name)
    left = {kind: list(own) for kind, own in grids.items()} | {"media": list(row.get("media", []))}
    left["seconds"] = list(row.get("second_per_grid_ts", []))
    for sample, (start, end) in enumerate(pairwise(bounds.tolist())):
        check_sample(row, sample, slice(start, end), facts, left)
        key = (row["sample_sources"][sample], row["sample_digests"][sample])
        if key in seen:
            raise AssertionError("sample.duplicate")
        seen.add(key)
    same(sum(map(len, left.values())), 0, "grids and media without slots")
    return len(ids)


def check_sample(row, sample, span, facts, left):
    """Check one sample."""
    ids, labels = row["input_ids"][span], row["labels"][span]
    equal(row["position_ids"][span], np.arange(len(ids)), "position.reset")
    supervised = labels != IGNORED
    slots = {kind: ids == token_of(facts, kind) for kind in KINDS if facts.has_media}
    if ids.min() < 0 or ids.max() >= facts.vocab_size or not supervised.any() or supervised[0]:
        raise AssertionError("vocab.range or label")
    equal(labels[supervised], ids[supervised], "label.value")
    equal(row["loss_mask"][span], np.append(supervised[1:], False), "loss_mask.shift")
    parts, told = [ids.astype("<i4"), labels.astype("<i4")], []
    if facts.has_media:
        if any(supervised[marked].any() for marked in slots.values()):
            raise AssertionError("label.media")
        kinds = slots["image"] + 2 * slots["video"]
        equal(row["mm_token_type_ids"][span], kinds, "mm_type.value")
        grids, seconds = {k: taken(left[k], slots[k], facts) for k in KINDS}, None
        if facts.rope == "timed":
            seconds = [left["seconds"].pop(0) for _ in grids["video"]]
        equal(
            row["mrope_position_ids"][:, span],
            positions(ids, kinds, grids, seconds, facts),
            "mrope",
        )
        told = check_media(left["media"], (sample, span.start), ids, grids, facts)
        parts += [np.array(grids[kind], "<i4").reshape(-1, 3) for kind in KINDS]
        parts += [] if seconds is None else [np.array(seconds, "<f4")]
    state = blake2b(digest_size=16)
    for part in (*parts, np.frombuffer(str(row["sample_ids"][sample]).encode(), np.uint8)):
        state.update(len(part).to_bytes(8, "little"))
        state.update(part.tobytes())
    if told:
        names = ("kind", "uri", "height", "width", "frame_indices", "timestamps")
        spelled = [[plain(medium[name]) for medium in told] for name in names]
        state.update(json.dumps(spelled).encode())
    same(row["sample_digests"][sample], state.hexdigest(), "sample.digest")


def plain(value):
    return value if isinstance(value, str) else value.tolist()


def token_of(facts, kind):
    return facts.image_token_id if kind == "image" else facts.video_token_id


def taken(grids, slots, facts):
    """Take the grids from the front of a pack's that fill the slots of a sample."""
    found, needed = [], int(slots.sum())
    while needed > 0:
        found.append(grids.pop(0))
        needed -= int(np.prod(found[-1])) // facts.merge_size**2
    same(needed, 0, "slot.count")
    return found


@cache
def rope_index(family, merge, tempo):
    """`get_rope_index` without weights: it reads nothing but the configuration."""
    module = import_module(f"transformers.models.{family}.modeling_{family}")
    model = getattr(module, MODELS[family])
    vision = SimpleNamespace(spatial_merge_size=merge, tokens_per_second=tempo)
    host = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    host.get_vision_position_ids = MethodType(model.get_vision_position_ids, host)
    return MethodType(model.get_rope_index, host)


def positions(ids, kinds, grids, seconds, facts):
    """mRoPE planes of one sample, by transformers."""
    index = rope_index(facts.family, facts.merge_size, facts.tokens_per_second)
    images, videos = (torch.tensor(np.array(grids[k])) if grids[k] else None for k in KINDS)
    more = {"second_per_grid_ts": torch.tensor(np.array(seconds))} if seconds else {}
    ids, kinds = torch.tensor(ids[None]), torch.tensor(kinds[None], dtype=torch.int32)
    return index(ids, kinds, images, videos, **more)[0][:, 0].numpy()


def check_media(media, where, ids, grids, facts):
    """Hold the entries of a sample's media to its slots; return them."""
    own = [media.pop(0) for _ in range(sum(map(len, grids.values())))]
    left, at = {kind: list(grids[kind]) for kind in KINDS}, where[1]
    for medium in own:
        kind, start, count = medium["kind"], int(medium["token_start"]), int(medium["token_count"])
        same(int(medium["sample_index"]), where[0], "media.sample")
        same(count, int(np.prod(left[kind].pop(0))) // facts.merge_size**2, "media.span")
        slots = np.flatnonzero(ids[at - where[1] :] == token_of(facts, kind)) + at
        same(start, int(slots[0]), "media.span")
        at = int(slots[count - 1]) + 1
    return own
