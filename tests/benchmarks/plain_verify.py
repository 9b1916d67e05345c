"""The contract's checks as one would write them first: a loop over rows, samples and tokens.

What `bench_verify.py` compares with. It checks what `packcli verify --level contract` checks on
sound shards, with lists and no NumPy, and raises at the first fault.
"""

import json
from array import array
from hashlib import blake2b, sha256
from itertools import pairwise

import pyarrow.parquet as pq

IGNORED = -100


def verify(path, facts, digest):
    """Check a shard against its SHA-256, and each of its rows; return its tokens."""
    same_file(path, digest)
    tokens, seen = 0, set()
    shard = pq.ParquetFile(path, page_checksum_verification=True)
    for number in range(shard.num_row_groups):
        for row in shard.read_row_group(number).to_pylist():
            tokens += check_row(row, facts, seen)
    return tokens


def same_file(path, digest):
    """Hold a file to its SHA-256."""
    with path.open("rb") as file:
        state = sha256()
        while part := file.read(1 << 20):
            state.update(part)
        same(state.hexdigest(), digest, "sha256")


def rows_of(path):
    """Read a shard as plain values."""
    shard = pq.ParquetFile(path, page_checksum_verification=True)
    return [row for n in range(shard.num_row_groups) for row in shard.read_row_group(n).to_pylist()]


def same(found, expected, name):
    if found != expected:
        raise AssertionError(f"{name}: {found!r}, expected {expected!r}")


def check_row(row, facts, seen):
    """Check one pack."""
    ids, bounds = row["input_ids"], row["cu_seqlens"]
    total = len(ids)
    for name in ("labels", "position_ids", "loss_mask"):
        same(len(row[name]), total, name)
    same((bounds[0], bounds[-1]), (0, total), "cu_seqlens")
    lengths = [end - start for start, end in pairwise(bounds)]
    if min(lengths) < 1:
        raise AssertionError("cu_seqlens")
    same(row["seq_lengths"], lengths, "seq_lengths")
    same(row["seq_start_id"], bounds[:-1], "seq_start_id")
    same(row["max_seqlen"], max(lengths), "max_seqlen")
    same(row["length"], total, "length")
    same(row["num_samples"], len(lengths), "num_samples")
    same(row["sum_sq_len"], sum(length**2 for length in lengths), "sum_sq_len")
    same(row["num_supervised"], sum(label != IGNORED for label in row["labels"]), "supervised")
    media = {"image": 0, "video": 0, "all": 0}
    for sample, (start, end) in enumerate(pairwise(bounds)):
        check_sample(row, sample, slice(start, end), facts, media)
        key = (row["sample_sources"][sample], row["sample_digests"][sample])
        if key in seen:
            raise AssertionError("sample.duplicate")
        seen.add(key)
    if facts.has_media:
        grids = [*row["image_grid_thw"], *row["video_grid_thw"]]
        same(row["num_patches"], sum(t * h * w for t, h, w in grids), "num_patches")
        same(media["all"], len(row["media"]), "media")
    return total


def check_sample(row, sample, span, facts, media):
    """Check one sample."""
    ids, labels = row["input_ids"][span], row["labels"][span]
    check_tokens(row, span, facts)
    parts = [(len(ids), array("i", ids)), (len(labels), array("i", labels))]
    first = dict(media)
    if facts.has_media:
        grids = check_media(row, sample, span, facts, media).values()
        parts += [(len(own), array("i", [side for grid in own for side in grid])) for own in grids]
    if facts.rope == "timed":
        seconds = row["second_per_grid_ts"][first["video"] : media["video"]]
        parts.append((len(seconds), array("f", seconds)))
    name = row["sample_ids"][sample].encode()
    state = blake2b(digest_size=16)
    for count, part in (*parts, (len(name), array("B", name))):
        state.update(count.to_bytes(8, "little"))
        state.update(part.tobytes())
    if told := row["media"][first["all"] : media["all"]] if facts.has_media else []:
        names = ("kind", "uri", "height", "width", "frame_indices", "timestamps")
        state.update(json.dumps([[medium[name] for medium in told] for name in names]).encode())
    stored = row["sample_digests"][sample]
    same(stored if isinstance(stored, str) else stored.hex(), state.hexdigest(), "sample.digest")


def check_tokens(row, span, facts):
    """Check the tokens of one sample, one by one."""
    ids, labels = row["input_ids"][span], row["labels"][span]
    mask, positions = row["loss_mask"][span], row["position_ids"][span]
    slots = {facts.image_token_id: 1, facts.video_token_id: 2}
    supervised = 0
    for place, (token, label) in enumerate(zip(ids, labels, strict=True)):
        if positions[place] != place or not 0 <= token < facts.vocab_size:
            raise AssertionError("position.reset or vocab.range")
        if label != IGNORED:
            supervised += 1
            if label != token or place == 0 or token in slots:
                raise AssertionError("label")
        following = place + 1 < len(labels) and labels[place + 1] != IGNORED
        if mask[place] != following:
            raise AssertionError("loss_mask.shift")
    same(supervised > 0, True, "label.none")
    types = row["mm_token_type_ids"][span] if facts.has_media else ()
    for token, kind in zip(ids, types, strict=False):
        if kind != slots.get(token, 0):
            raise AssertionError("mm_type.value")


def check_media(row, sample, span, facts, media):
    """Hold slots to grids, media entries and mRoPE planes; return the grids of the sample."""
    ids, merge = row["input_ids"][span], facts.merge_size
    kinds = {facts.image_token_id: "image", facts.video_token_id: "video"}
    taken = {"image": [], "video": []}
    planes, place, at = ([], [], []), 0, 0
    while place < len(ids):
        kind = kinds.get(ids[place])
        if kind is None:
            for plane in planes:
                plane.append(at)
            place, at = place + 1, at + 1
            continue
        grid = row[f"{kind}_grid_thw"][media[kind]]
        step = 1.0
        if kind == "video" and facts.rope == "timed":
            step = row["second_per_grid_ts"][media[kind]] * facts.tokens_per_second
        frames = (
            [(1, *grid[1:])] * grid[0] if kind == "video" and facts.rope == "frames" else [grid]
        )
        entry, count = row["media"][media["all"]], 0
        same(entry["kind"], kind, "media.kind")
        same(entry["sample_index"], sample, "media.sample")
        same(entry["token_start"], span.start + place, "media.span")
        for part in frames:
            while kinds.get(ids[place]) is None:
                for plane in planes:
                    plane.append(at)
                place, at = place + 1, at + 1
            place, at = walk(ids, (place, at), part, step, merge, planes, kind, kinds)
            count += part[0] * part[1] * part[2] // merge**2
        same(entry["token_count"], count, "media.span")
        taken[kind].append(grid)
        media[kind] += 1
        media["all"] += 1
    for plane, stored in zip(planes, row["mrope_position_ids"], strict=True):
        same(stored[span], plane, "mrope.sample")
    return taken


def walk(ids, where, grid, step, merge, planes, kind, kinds):
    """Place the slots of one grid."""
    place, at = where
    rows, columns = grid[1] // merge, grid[2] // merge
    for t in range(grid[0]):
        for h in range(rows):
            for w in range(columns):
                same(kinds.get(ids[place]), kind, "slot.count")
                planes[0].append(at + int(t * step))
                planes[1].append(at + h)
                planes[2].append(at + w)
                place += 1
    return place, at + max(rows, columns)
