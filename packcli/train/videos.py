"""Frames of a video: exactly those that encode chose."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av.error import FFmpegError

from packcli.contract.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from packcli.shards.media_files import MediaBytes


def read_frames(file: MediaBytes, frames: tuple[int, ...]) -> NDArray[np.uint8]:
    """Decode frames by their number; a number may repeat.

    Frames are counted as the decoder gives them. Matches transformers' `read_video_pyav`
    (video_utils).

    Args:
        file: where the video lies.
        frames: (frames,) numbers, rising.

    Returns:
        (frames, height, width, 3) uint8.

    Raises:
        InputError: it cannot be decoded, or has fewer frames than encode read.
    """
    wanted = set(frames)
    found: dict[int, NDArray[np.uint8]] = {}
    source = io.BytesIO(file.data) if file.path is None else str(file.path)
    try:
        with av.open(source, mode="r", metadata_errors="ignore") as container:
            for number, frame in _decoded(container, max(wanted, default=-1)):
                if number in wanted:
                    found[number] = frame.to_ndarray(format="rgb24")
    except (FFmpegError, ValueError) as error:
        raise InputError(f"{file.name}: cannot be decoded: {error}; copy it again") from error
    if missing := wanted - found.keys():
        raise InputError(
            f"{file.name}: frame {min(missing)} cannot be decoded, encode counted on it; "
            "copy the file again or drop the record"
        )
    return np.stack([found[number] for number in frames])


def _decoded(container: Any, last: int) -> Iterator[tuple[int, Any]]:  # noqa: ANN401 - PyAV classes differ by version
    for number, frame in enumerate(container.decode(video=0)):
        if number > last:
            return
        yield number, frame
