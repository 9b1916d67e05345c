"""Sizes and sampling of one medium: the record's own before those of the run."""

import pytest

from packcli.contract.errors import Rejection
from packcli.encode.media.limits import contradiction, image_limits, video_options
from packcli.encode.records.conversation import MediaRef
from packcli.families.family import PixelLimits, VideoOptions


def image(**options):
    return MediaRef("image", "a.png", options=options)


def video(**options):
    return MediaRef("video", "a.mp4", options=options)


def test_a_record_goes_before_the_run():
    run = PixelLimits(10, 20)
    assert image_limits(image(), run) is run
    assert image_limits(image(max_pixels=15.0, fps=2), run) == PixelLimits(10, 15)
    assert image_limits(image(min_pixels=20), run) == PixelLimits(20, 20)
    run = VideoOptions(fps=1, min_frames=4, max_pixels=100)
    assert video_options(video(), run) is run
    assert video_options(video(fps=2, max_frames=8.0), run) == VideoOptions(
        fps=2.0, min_frames=4, max_frames=8, max_pixels=100
    )


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda: image_limits(image(min_pixels=21), PixelLimits(10, 20)), "min_pixels 21 is above"),
        (lambda: image_limits(image(min_pixels=2, max_pixels=1), PixelLimits()), "max_pixels 1;"),
        (lambda: video_options(video(max_frames=2), VideoOptions(min_frames=3)), "min_frames 3 is"),
        (lambda: video_options(video(min_pixels=9), VideoOptions(max_pixels=8)), "min_pixels 9 is"),
    ],
)
def test_limits_that_contradict_each_other_reject_the_record(read, told):
    with pytest.raises(Rejection) as caught:
        read()
    assert caught.value.code == "bad_record"
    assert told in caught.value.message


def test_limits_that_agree_say_nothing():
    assert contradiction(PixelLimits()) is contradiction(VideoOptions(max_frames=1)) is None
