from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packcli.contract.errors import Rejection
from packcli.families.family import VideoMetadata, VideoOptions

NAMES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
OLD = ("qwen2_vl", "qwen2_5_vl")
RATES = st.sampled_from([1.0, 5.0, 7.5, 12.0, 23.976, 24.0, 25.0, 29.97, 30.0, 59.94])
CASES = [
    # frames, fps of the video, height, width, options
    (2, 24.0, 20, 30, {}),
    (5, 24.0, 20, 30, {}),
    (7, 10.0, 3, 9, {}),
    (9, 10.0, 40, 130, {"fps": 2}),
    (31, 29.97, 64, 48, {"fps": 2}),
    (31, 29.97, 64, 48, {"fps": 5.5}),
    (48, 24.0, 1, 90, {"fps": 3, "max_pixels": 30_000, "min_pixels": 5_000}),
    (40, 23.976, 36, 64, {"num_frames": 7}),
    (40, 5.0, 36, 64, {"num_frames": 12}),
    (41, 5.0, 36, 64, {"fps": 1, "cap_pixels_per_frame": True, "max_pixels": 9_000}),
    (6, 5.0, 90, 160, {"fps": 4, "cap_pixels_per_frame": True}),
    (12, 5.0, 90, 160, {"cap_pixels_per_frame": True, "fps": 5, "min_pixels": 40_000}),
]


def as_call(options, video_processor):
    """Our options in the words of transformers."""
    call = {key: value for key, value in options.items() if not key.endswith("_pixels")}
    sampled = "fps" in call or "num_frames" in call
    if "num_frames" in call:
        call["fps"] = None
    if sampled:
        call["do_sample_frames"] = True
    edges = {"shortest_edge": "min_pixels", "longest_edge": "max_pixels"}
    call["size"] = {k: options.get(v, video_processor.size[k]) for k, v in edges.items()}
    return call


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_whole_processor_agrees(name, case, family_of, processor_of):
    from transformers.video_utils import VideoMetadata as Upstream

    frames, fps, height, width, options = case
    processor = processor_of(name)
    pixels = np.zeros((frames, 3, height, width), dtype=np.uint8)
    meta = Upstream(total_num_frames=frames, fps=fps)
    done = processor._process_videos(
        [pixels],
        video_metadata=[meta],
        return_metadata=True,
        **as_call(options, processor.video_processor),
    )[0]
    plan = family_of(name).video_plan(
        VideoMetadata(frames, fps, height, width), VideoOptions(**options)
    )
    assert plan.grid == tuple(done["video_grid_thw"][0].tolist())
    indices = done["video_metadata"][0].frames_indices
    # transformers leaves them unset where no frame was sampled
    expected = range(frames) if indices is None else np.asarray(indices)
    assert plan.frame_indices.tolist() == list(expected)[: plan.frame_indices.size]
    assert plan.second_per_grid == (done["second_per_grid_ts"][0] if name == "qwen2_5_vl" else None)
    if name in ("qwen3_vl", "qwen3_5"):
        times = processor._calculate_timestamps(plan.frame_indices, fps, 2)
        assert list(plan.timestamps) == times


@pytest.mark.parametrize("name", NAMES)
def test_sampled_frames_agree(name, family_of, processor_of):
    from transformers.video_utils import VideoMetadata as Upstream

    family, processor = family_of(name), processor_of(name).video_processor

    @settings(max_examples=200, deadline=None)
    @given(
        total=st.one_of(st.integers(2, 400), st.integers(2, 200_000)),
        fps=RATES,
        by=st.one_of(
            st.fixed_dictionaries({"fps": st.sampled_from([0.1, 0.5, 1, 2, 4.5, 30])}),
            st.fixed_dictionaries({"num_frames": st.integers(2, 900)}),
        ),
    )
    def check(total, fps, by):
        try:
            expected = np.asarray(
                processor.sample_frames(Upstream(total_num_frames=total, fps=fps), **by)
            )
        except ValueError:
            with pytest.raises(Rejection) as caught:
                family.video_plan(VideoMetadata(total, fps, 64, 64), VideoOptions(**by))
            assert caught.value.code == "video_too_short"
            return
        plan = family.video_plan(VideoMetadata(total, fps, 64, 64), VideoOptions(**by))
        # transformers rounds itself past the end now and then and fails there
        assert plan.frame_indices.tolist() == expected[expected < total].tolist()

    check()


@pytest.mark.parametrize("name", NAMES)
def test_grid_of_every_clip_agrees(name, family_of, processor_of, monkeypatch):
    import torch
    from transformers.image_utils import SizeDict

    family, processor = family_of(name), processor_of(name).video_processor
    # the processor decides the size and hands it to this class, which would only move pixels
    backend = next(c for c in type(processor).__mro__[1:] if "resize" in vars(c))
    monkeypatch.setattr(backend, "resize", lambda self, image, size, resample: size)

    @settings(max_examples=200, deadline=None)
    @given(
        frames=st.one_of(st.integers(2, 60), st.integers(2, 800)),
        height=st.one_of(st.integers(1, 40), st.integers(1, 2200)),
        width=st.one_of(st.integers(1, 40), st.integers(1, 4000)),
        cap=st.booleans(),
        low=st.one_of(st.none(), st.integers(1, 30_000_000)),
    )
    @example(frames=60, height=2200, width=4000, cap=True, low=5_000_000)
    def check(frames, height, width, cap, low):
        video = VideoMetadata(frames, 2.0, height, width, listed=True)
        options = VideoOptions(cap_pixels_per_frame=cap, min_pixels=low)
        size = SizeDict(
            shortest_edge=low or processor.size["shortest_edge"],
            longest_edge=processor.size["longest_edge"],
        )
        pixels = torch.empty((1, frames, 3, height, width), device="meta")
        patch = processor.patch_size
        call = {"factor": patch * 2, "temporal_factor": 2, "cap_pixels_per_frame": cap}
        expected = None
        with suppress(ValueError):
            expected = processor.resize(pixels, size, None, **call)
        if expected is None:
            with pytest.raises(Rejection) as caught:
                family.video_plan(video, options)
            assert caught.value.code == "aspect_ratio"
            return
        grid = (-(-frames // 2), expected.height // patch, expected.width // patch)
        assert family.video_plan(video, options).grid == grid

    check()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("frames", [0, 1])
def test_one_frame_is_too_short(name, frames, family_of):
    with pytest.raises(Rejection) as caught:
        family_of(name).video_plan(VideoMetadata(frames, 24.0, 64, 64))
    assert caught.value.code == "video_too_short"


@pytest.mark.parametrize("name", OLD)
def test_more_frames_than_there_are_cannot_be_taken(name, family_of):
    with pytest.raises(Rejection, match="5 frames, 8 asked for") as caught:
        family_of(name).video_plan(VideoMetadata(5, 24.0, 64, 64), VideoOptions(num_frames=8))
    assert caught.value.code == "video_too_short"


@pytest.mark.parametrize("name", NAMES)
def test_frame_list_is_taken_whole_at_its_own_rate(name, family_of):
    video = VideoMetadata(frames=6, fps=1.0, height=64, width=64, listed=True)
    plan = family_of(name).video_plan(video)
    assert plan.frame_indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert plan.timestamps == (0.5, 2.5, 4.5)
    assert plan.grid[0] == 3


@pytest.mark.parametrize("name", NAMES)
def test_fast_frame_list_is_not_thinned_out(name, family_of):
    video = VideoMetadata(frames=32, fps=16.0, height=64, width=64, listed=True)
    plan = family_of(name).video_plan(video, VideoOptions(max_pixels=200_000))
    assert plan.frame_indices.tolist() == list(range(32))
    assert plan.timestamps[:2] == (0.03125, 0.15625)


def test_odd_last_frame_stands_twice(family_of):
    video = VideoMetadata(frames=5, fps=1.0, height=64, width=64, listed=True)
    plan = family_of("qwen3_vl").video_plan(video)
    assert plan.grid[0] == 3
    assert plan.timestamps == (0.5, 2.5, 4.0)
    assert plan.frame_indices.tolist() == [0, 1, 2, 3, 4]


def test_true_times_replace_the_rate(family_of):
    times = tuple(float(i * i) for i in range(8))
    video = VideoMetadata(frames=8, fps=2.0, height=64, width=64, times=times)
    plan = family_of("qwen3_vl").video_plan(video)
    assert plan.frame_indices.tolist() == list(range(8))
    assert plan.timestamps == (0.5, 6.5, 20.5, 42.5)


def test_options_that_contradict_are_rejected(family_of):
    video = VideoMetadata(40, 10.0, 64, 64)
    with pytest.raises(Rejection, match="fps and num_frames exclude each other"):
        family_of("qwen3_vl").video_plan(video, VideoOptions(fps=2, num_frames=4))
    with pytest.raises(Rejection, match="give fps too"):
        family_of("qwen2_vl").video_plan(video, VideoOptions(max_frames=4))
    with pytest.raises(Rejection, match="fps must be above 0"):
        family_of("qwen2_vl").video_plan(video, VideoOptions(fps=0))
    with pytest.raises(Rejection, match="video has fps 0"):
        family_of("qwen3_vl").video_plan(VideoMetadata(40, 0.0, 64, 64))


@pytest.mark.parametrize(
    ("file", "frames", "indices", "grid", "times"),
    [
        (
            "v01_two_videos_diff_frames/media/a.mp4",
            4,
            [0, 5, 10, 15],
            (2, 4, 4),
            ["0.3", "1.6"],
        ),
        (
            "v01_two_videos_diff_frames/media/b.mp4",
            10,
            [0, 4, 9, 13, 17, 22, 26, 30, 35, 39],
            (5, 4, 4),
            ["0.2", "1.4", "2.4", "3.5", "4.6"],
        ),
        (
            "v02_timestamps/media/a.mp4",
            8,
            [0, 4, 9, 13, 18, 22, 27, 31],
            (4, 4, 4),
            ["0.2", "1.4", "2.5", "3.6"],
        ),
    ],
)
def test_cases_with_two_frames_a_second(file, frames, indices, grid, times, shared, family_of):
    av = pytest.importorskip("av")
    with av.open(str(shared / "cases" / file)) as container:
        stream = container.streams.video[0]
        video = VideoMetadata(
            frames=stream.frames,
            fps=float(stream.average_rate),
            height=stream.height,
            width=stream.width,
        )
    plan = family_of("qwen3_vl").video_plan(video, VideoOptions(fps=2, min_frames=4))
    assert plan.frame_indices.tolist() == indices
    assert len(indices) == frames
    assert plan.grid == grid
    assert [f"{time:.1f}" for time in plan.timestamps] == times
