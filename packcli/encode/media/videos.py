"""What a video holds, from its container; no frame is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av
from av.error import FFmpegError

from packcli.contract.errors import Rejection
from packcli.encode.media.endings import boxes_cut_short
from packcli.families.family import VideoMetadata

if TYPE_CHECKING:
    from packcli.encode.media.sources import Source


def video_metadata(source: Source) -> VideoMetadata:
    """Read frames, rate and size.

    Frame count and rate are those that transformers' PyAV loader hands to the processor
    (video_utils `read_video_pyav`): the container's own count and average rate.

    Raises:
        Rejection: `media_undecodable` or `video_no_stream`.
    """
    with source.open() as stream:
        if boxes_cut_short(stream):
            message = f"{source.name}: the file is cut short; copy it again"
            raise Rejection("media_undecodable", message)
        stream.seek(0)
        try:
            with av.open(stream, mode="r", metadata_errors="ignore") as container:
                if not container.streams.video:
                    message = f"{source.name}: no video stream; is it an audio file?"
                    raise Rejection("video_no_stream", message)
                return _describe(source.name, container, container.streams.video[0])
        except (FFmpegError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Rejection("media_undecodable", f"{source.name}: {reason}") from error


def _describe(name: str, container: Any, stream: Any) -> VideoMetadata:  # noqa: ANN401 - PyAV classes differ by version
    frames = int(stream.frames) or sum(packet.size > 0 for packet in container.demux(stream))
    rate = stream.average_rate or stream.guessed_rate
    height, width = int(stream.height or 0), int(stream.width or 0)
    if not frames or not rate or not height or not width:
        message = f"{name}: {frames} frames of {width}x{height} at {rate or 0}/s; nothing to show"
        raise Rejection("media_undecodable", message)
    return VideoMetadata(frames, float(rate), height, width)
