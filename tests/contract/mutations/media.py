"""Damage to slots, grids, mRoPE planes and the media column."""

from __future__ import annotations

import numpy as np

from packcli.contract.model import VitWindows
from packcli.contract.vit import vit_cu_seqlens
from tests.contract.mutations.bench import MEDIA, Place, UnfitError, mutation

IMAGE, VIDEO = 1001, 1002


def with_slots(bench):
    return bench.sample(lambda row, _n, span: len(bench.slots(row, span)))


def later_with_slots(bench):
    return bench.sample(lambda row, n, span: n > 0 and len(bench.slots(row, span)))


def row_with(bench, name, most=1):
    return bench.pick(row for row in range(bench.count) if len(bench[name][row]) >= most)


def grids_of(bench, row, sample, axis):
    """Place of a sample's grids in its row."""
    flat = int(bench.packs.members.values[row]) + sample
    offsets = bench.packs.axes[axis]
    first = int(offsets.values[bench.packs.members.values[row]])
    return range(offsets.values[flat] - first, offsets.values[flat + 1] - first)


def swap(values, a, b):
    values[a], values[b] = values[b].copy(), values[a].copy()


@mutation("label.media", MEDIA)
def slot_supervised(bench):
    row, sample, span = with_slots(bench)
    at = bench.pick(bench.slots(row, span))
    bench["labels"][row][at] = bench["input_ids"][row][at]
    return Place(row, sample)


@mutation("slot.count", MEDIA)
def slot_lost(bench):
    row, _, span = with_slots(bench)
    bench["input_ids"][row][bench.pick(bench.slots(row, span))] = 7
    return Place(row)


@mutation("slot.count", MEDIA)
def slot_in_the_answer(bench):
    row, _, span = bench.sample()
    bench["input_ids"][row][span.stop - 1] = bench.pick([IMAGE, VIDEO])
    return Place(row)


@mutation("slot.count", MEDIA)
def image_slot_turned_video(bench):
    row, _, span = with_slots(bench)
    at = bench.pick(bench.slots(row, span))
    bench["input_ids"][row][at] = IMAGE + VIDEO - bench["input_ids"][row][at]
    return Place(row)


@mutation("slot.count", MEDIA)
def grid_taller(bench):
    row = row_with(bench, "image_grid_thw")
    bench.pick(bench["image_grid_thw"][row])[1] += 2
    return Place(row)


@mutation("slot.count", MEDIA)
def medium_lost(bench):
    row = row_with(bench, "image_grid_thw")
    bench["image_grid_thw"][row].pop()
    last = np.flatnonzero(bench["media.kind"][row] == "image")[-1]
    for name in [name for name in bench.columns if name.startswith("media.")]:
        keep = [n for n in range(len(bench[name][row])) if n != last]
        values = bench[name][row]
        bench[name][row] = [values[n] for n in keep] if isinstance(values, list) else values[keep]
    return Place(row)


@mutation("slot.count", MEDIA)
def grid_column_not_there(bench):
    row_with(bench, "image_grid_thw")
    bench.drop("image_grid_thw", *[n for n in bench.columns if n.startswith("media.")])
    return Place(None)


def one_image(bench):
    def fits(row, sample, _span):
        return len(grids_of(bench, row, sample, "image")) == 1

    return fits


@mutation("slot.count", MEDIA)
def grids_of_two_samples_swapped(bench):
    row, sample, _ = bench.sample(one_image(bench))
    fits = one_image(bench)
    others = bench.samples(lambda r, n, s: r == row and n > sample and fits(r, n, s))
    _, other, _ = bench.pick(others)
    a, b = (grids_of(bench, row, n, "image")[0] for n in (sample, other))
    grids = bench["image_grid_thw"][row]
    if b != a + 1 or np.prod(grids[a]) == np.prod(grids[b]):
        raise UnfitError
    swap(grids, a, b)
    return Place(row, sample)


@mutation("slot.grid_order", MEDIA)
def grids_of_one_sample_swapped(bench):
    def fits(row, sample, _span):
        return len(grids_of(bench, row, sample, "image")) > 1

    row, sample, _ = bench.sample(fits)
    a, b = grids_of(bench, row, sample, "image")[:2]
    grids = bench["image_grid_thw"][row]
    if np.prod(grids[a]) == np.prod(grids[b]):
        raise UnfitError
    swap(grids, a, b)
    return Place(row, sample)


@mutation("slot.grid_order", ["qwen3_vl"])
def frames_merged_into_one(bench):
    def fits(row, sample, _span):
        grids = [bench["video_grid_thw"][row][n] for n in grids_of(bench, row, sample, "video")]
        return any(grid[0] > 1 for grid in grids)

    row, sample, _ = bench.sample(fits)
    for n in grids_of(bench, row, sample, "video"):
        t, h, w = bench["video_grid_thw"][row][n]
        bench["video_grid_thw"][row][n] = np.array([1, t * h, w], np.int32)
    return Place(row, sample)


@mutation("grid.shape", MEDIA)
def grid_of_two_numbers(bench):
    row = row_with(bench, "image_grid_thw")
    bench["image_grid_thw"][row][0] = bench["image_grid_thw"][row][0][1:]
    return Place(row)


@mutation("grid.shape", MEDIA)
def grid_of_nothing(bench):
    row = row_with(bench, "image_grid_thw")
    bench["image_grid_thw"][row].append(np.array([1, 0, 4], np.int32))
    return Place(row)


@mutation("grid.shape", MEDIA)
def grid_of_half_blocks(bench):
    row = row_with(bench, "image_grid_thw")
    grid = bench["image_grid_thw"][row][0]
    if grid[2] % 4:
        raise UnfitError
    grid[:] = [1, grid[1] // 2, grid[2] * 2] if grid[1] % 4 else [4, grid[1] // 2, grid[2] // 2]
    if grid[1] % 2 == grid[2] % 2 == 0:
        raise UnfitError
    return Place(row)


@mutation("grid.shape", ["qwen2_5_vl"])
def seconds_lost(bench):
    row = row_with(bench, "second_per_grid_ts")
    bench["second_per_grid_ts"][row] = bench["second_per_grid_ts"][row][1:]
    return Place(row)


@mutation("grid.shape", MEDIA)
def media_entry_lost(bench):
    row = row_with(bench, "media.kind")
    for name in [name for name in bench.columns if name.startswith("media.")]:
        bench[name][row] = bench[name][row][1:]
    return Place(row)


@mutation("mrope.sample", MEDIA)
def grid_turned(bench):
    def fits(row, sample, _span):
        grids = [bench["image_grid_thw"][row][n] for n in grids_of(bench, row, sample, "image")]
        return any(grid[1] != grid[2] for grid in grids)

    row, sample, _ = bench.sample(fits)
    for n in grids_of(bench, row, sample, "image"):
        bench["image_grid_thw"][row][n][1:] = bench["image_grid_thw"][row][n][:0:-1].copy()
    return Place(row, sample)


@mutation("mrope.sample", MEDIA)
def one_place_wrong(bench):
    row, sample, span = bench.sample()
    plane = bench["mrope_position_ids"][row][bench.rng.integers(3)]
    plane[bench.pick(range(span.start, span.stop))] += 1
    return Place(row, sample)


@mutation("mrope.sample", MEDIA)
def planes_of_the_whole_pack(bench):
    row = bench.row(samples=2)
    first = np.repeat(bench["seq_start_id"][row], bench["seq_lengths"][row])
    planes = bench["mrope_position_ids"][row]
    bench["mrope_position_ids"][row] = [plane + first for plane in planes]
    return Place(row, 1)


@mutation("mrope.sample", MEDIA)
def plain_range_for_media(bench):
    row, sample, span = with_slots(bench)
    planes, plain = bench["mrope_position_ids"][row], np.arange(span.stop - span.start)
    if all(np.array_equal(plane[span], plain) for plane in planes):
        raise UnfitError
    for plane in planes:
        plane[span] = plain
    return Place(row, sample)


@mutation("mrope.sample", MEDIA)
def planes_swapped(bench):
    row = row_with(bench, "media.kind")
    _, height, width = planes = bench["mrope_position_ids"][row]
    if np.array_equal(height, width):
        raise UnfitError
    planes[1], planes[2] = width, height
    return Place(row)


@mutation("mrope.sample", ["qwen2_5_vl"])
def seconds_wrong(bench):
    row = row_with(bench, "second_per_grid_ts")
    n = bench.pick(np.flatnonzero([grid[0] > 1 for grid in bench["video_grid_thw"][row]]))
    bench["second_per_grid_ts"][row][n] += 1
    return Place(row)


@mutation("mm_type.value", MEDIA)
def slot_typed_text(bench):
    row, sample, span = with_slots(bench)
    bench["mm_token_type_ids"][row][bench.pick(bench.slots(row, span))] = 0
    return Place(row, sample)


@mutation("mm_type.value", MEDIA)
def image_and_video_types_swapped(bench):
    row, sample, span = with_slots(bench)
    at = bench.slots(row, span)
    bench["mm_token_type_ids"][row][at] = 3 - bench["mm_token_type_ids"][row][at]
    return Place(row, sample)


@mutation("mm_type.value", MEDIA)
def types_in_another_order(bench):
    row = row_with(bench, "media.kind")
    before = bench["mm_token_type_ids"][row]
    if np.array_equal(before, before[::-1]):
        raise UnfitError
    bench["mm_token_type_ids"][row] = before[::-1].copy()
    return Place(row)


@mutation("media.span", MEDIA)
def medium_starts_late(bench):
    row = row_with(bench, "media.kind")
    bench["media.token_start"][row][0] += 1
    return Place(row)


@mutation("media.span", MEDIA)
def medium_starts_beyond_the_shard(bench):
    row = row_with(bench, "media.kind")
    bench["media.token_start"][row][0] = bench.pick([10**6, -(10**6)])
    return Place(row)


@mutation("media.span", MEDIA)
def medium_counted_from_its_sample(bench):
    row, sample, span = later_with_slots(bench)
    mine = bench["media.sample_index"][row] == sample
    bench["media.token_start"][row][mine] -= span.start
    return Place(row, sample)


@mutation("media.span", MEDIA)
def medium_with_one_slot_more(bench):
    row = row_with(bench, "media.kind")
    bench["media.token_count"][row][-1] += 1
    return Place(row)


@mutation("media.span", MEDIA)
def medium_of_the_other_kind(bench):
    row = row_with(bench, "media.kind")
    kinds = bench["media.kind"][row]
    kinds[0] = "video" if kinds[0] == "image" else "image"
    return Place(row)


@mutation("media.sample", MEDIA)
def medium_of_the_next_sample(bench):
    row = row_with(bench, "media.kind")
    bench["media.sample_index"][row][-1] += 1
    return Place(row)


WINDOWED = ("windows",)


@mutation("vit.windows", WINDOWED)
def windows_of_two_images_merged(bench):
    row = row_with(bench, "image_grid_thw", most=2)
    bounds = bench["vit_cu_seqlens"][row]
    inner = np.cumsum([np.prod(grid) for grid in bench["image_grid_thw"][row]])[:-1]
    bench["vit_cu_seqlens"][row] = bounds[bounds != bench.pick(inner)]
    return Place(row)


@mutation("vit.windows", WINDOWED)
def window_boundary_moved(bench):
    row = bench.pick(r for r in range(bench.count) if len(bench["vit_cu_seqlens"][r]) > 2)
    bounds = bench["vit_cu_seqlens"][row]
    bounds[bench.pick(range(1, len(bounds) - 1))] += bench.pick([-1, 1])
    return Place(row)


@mutation("vit.windows", WINDOWED)
def windows_read_the_other_way(bench):
    row = bench.pick(r for r in range(bench.count) if len(bench["image_grid_thw"][r]))
    reading = next(r for r in VitWindows if r is not bench.facts.vit_windows)
    other = vit_cu_seqlens(bench["image_grid_thw"][row], reading)
    if np.array_equal(other, bench["vit_cu_seqlens"][row]):
        raise UnfitError
    bench["vit_cu_seqlens"][row] = other
    return Place(row)


@mutation("vit.windows", WINDOWED)
def windows_lost(bench):
    row = bench.pick(r for r in range(bench.count) if len(bench["image_grid_thw"][r]))
    bench["vit_cu_seqlens"][row] = np.zeros(1, np.int32)
    return Place(row)


@mutation("vit.windows", WINDOWED)
def window_too_many(bench):
    row = bench.row()
    bounds = bench["vit_cu_seqlens"][row]
    bench["vit_cu_seqlens"][row] = np.append(bounds, bounds[-1] + 4).astype(np.int32)
    return Place(row)
