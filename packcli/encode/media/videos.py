"""What a video holds, from its container; no frame is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import av

from packcli.contract.errors import Rejection
from packcli.encode.media.endings import video_cut_short
from packcli.families.family import VideoMetadata

if TYPE_CHECKING:
    from packcli.encode.media.sources import Source

MAX_FRAMES = 10_000_000
"""Frames beyond which a header is not believed: four days at 30 a second."""

_CLOSED = {"protocol_whitelist": "none"}
"""Playlists (HLS, DASH, concat) would open addresses and files of their own, past every rule."""


def video_metadata(source: Source, *, decode: bool = False) -> VideoMetadata:
    """Read frames, rate and size.

    Args:
        source: the file.
        decode: decode every frame to prove that it can be.

    Frame count and rate are those that transformers' PyAV loader hands to the processor
    (video_utils `read_video_pyav`): the container's own count and average rate.

    Raises:
        Rejection: `media_undecodable` or `video_no_stream`.
    """
    with source.open() as stream:
        if video_cut_short(stream):
            message = f"{source.name}: the file is cut short; copy it again"
            raise Rejection("media_undecodable", message)
        stream.seek(0)
        try:
            with av.open(stream, mode="r", metadata_errors="ignore", options=_CLOSED) as container:
                found = _describe(source.name, container)
                if decode:
                    _decode(source.name, container)
                return found
        except Rejection:
            raise
        except Exception as error:
            # on damaged bytes FFmpeg's readers raise anything
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            message = f"{source.name}: {reason}; replace the file"
            raise Rejection("media_undecodable", message) from error


def _describe(name: str, container: Any) -> VideoMetadata:  # noqa: ANN401 - PyAV classes differ by version
    if not container.streams.video:
        raise Rejection("video_no_stream", f"{name}: no video stream; is it an audio file?")
    stream = container.streams.video[0]
    # Matroska stores no count, and transformers reads none from it: packets are counted instead
    frames = int(stream.frames) or sum(packet.size > 0 for packet in container.demux(stream))
    rate = stream.average_rate or stream.guessed_rate
    height, width = int(stream.height or 0), int(stream.width or 0)
    if not 0 < frames <= MAX_FRAMES or not rate or not height or not width:
        message = f"{name}: {frames} frames of {width}x{height} at {rate or 0}/s; replace the file"
        raise Rejection("media_undecodable", message)
    return VideoMetadata(frames, float(rate), height, width)


def _decode(name: str, container: Any) -> None:  # noqa: ANN401 - as above
    # packets may have been counted, and then the file stands at its end
    container.seek(0)
    frames = sum(1 for _ in container.decode(container.streams.video[0]))
    if not frames:
        raise Rejection("media_undecodable", f"{name}: no frame can be decoded; replace the file")
