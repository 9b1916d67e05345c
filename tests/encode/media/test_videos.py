"""What a container says equals what transformers reads from it, and no frame is decoded."""

from __future__ import annotations

import http.server
import io
import random
import tempfile
import threading
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import Rejection
from packcli.encode.media import videos
from packcli.encode.media.sources import MediaRoot, Source, locate
from packcli.encode.records.conversation import MediaRef

SIZE = (64, 48)
KINDS = {
    "mp4": ("mp4", "mpeg4", {}),
    "mp4_moov_first": ("mp4", "mpeg4", {"movflags": "faststart"}),
    "mp4_fragments": ("mp4", "mpeg4", {"movflags": "frag_keyframe+empty_moov"}),
    "mov": ("mov", "mjpeg", {}),
    "mkv": ("matroska", "mpeg4", {}),
    "webm": ("webm", "libvpx", {}),
    "avi": ("avi", "mpeg4", {}),
}
if "libvpx" not in av.codecs_available:
    del KINDS["webm"]


def clip(kind, frames=12, rate=Fraction(8)):
    container_format, codec, options = KINDS[kind]
    pixels = np.random.default_rng(3).integers(0, 256, (frames, *SIZE[::-1], 3), dtype=np.uint8)
    # on disk: to put the index first, the muxer reads what it wrote
    with tempfile.NamedTemporaryFile() as file:
        with av.open(file.name, "w", format=container_format, options=options) as container:
            video = container.add_stream(codec, rate=rate)
            video.width, video.height = SIZE
            video.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            for frame in pixels:
                container.mux(video.encode(av.VideoFrame.from_ndarray(frame, "rgb24")))
            container.mux(video.encode())
        return Path(file.name).read_bytes()


def sound():
    stream = io.BytesIO()
    with av.open(stream, "w", format="wav") as container:
        audio = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        frame.rate = 8000
        container.mux(audio.encode(frame))
        container.mux(audio.encode())
    return stream.getvalue()


MADE = {kind: clip(kind) for kind in KINDS}


def read(data, name="clip"):
    return videos.video_metadata(Source(name, None, data, len(data)))


def code(data):
    with pytest.raises(Rejection) as caught:
        read(data)
    assert "; " in caught.value.message
    return caught.value.code


def decoded(data):
    with av.open(io.BytesIO(data)) as container:
        return sum(1 for _ in container.decode(video=0))


@pytest.mark.parametrize("rate", [Fraction(8), Fraction(30000, 1001), Fraction(25)])
@pytest.mark.parametrize("kind", KINDS)
def test_frames_rate_and_size(kind, rate):
    found = read(clip(kind, rate=rate))
    assert (found.frames, found.width, found.height) == (12, *SIZE)
    # Matroska and WebM round times to milliseconds
    assert found.fps == pytest.approx(float(rate), rel=1e-9 if kind[:3] in {"mp4", "mov"} else 0.02)
    assert found.frames == decoded(clip(kind, rate=rate))


@pytest.mark.parametrize("kind", ["mp4", "mp4_moov_first", "mov", "avi"])
def test_frames_and_rate_equal_transformers_own_reading(kind, tmp_path):
    read_video_pyav = pytest.importorskip("transformers.video_utils").read_video_pyav
    path = tmp_path / "clip"
    path.write_bytes(clip(kind, frames=9, rate=Fraction(24000, 1001)))
    found = videos.video_metadata(Source("clip", str(path), None, path.stat().st_size))
    _, expected = read_video_pyav(str(path), lambda metadata: [metadata.total_num_frames - 1])
    assert (found.frames, found.fps) == (expected.total_num_frames, expected.fps)
    assert (found.height, found.width) == (expected.height, expected.width)


def test_the_sample_clips_equal_transformers_own_reading(sample_data):
    read_video_pyav = pytest.importorskip("transformers.video_utils").read_video_pyav
    for path in sorted((sample_data / "media").glob("*.mp4")):
        found = videos.video_metadata(Source("clip", str(path), None, path.stat().st_size))
        _, expected = read_video_pyav(str(path), lambda metadata: [metadata.total_num_frames - 1])
        assert (found.frames, found.fps) == (expected.total_num_frames, expected.fps)


class _Guarded:
    """A container that gives streams and packets, and refuses to decode."""

    def __init__(self, container):
        self._container = container

    def __enter__(self):
        self._container.__enter__()
        return self

    def __exit__(self, *error):
        return self._container.__exit__(*error)

    @property
    def streams(self):
        return self._container.streams

    def demux(self, *streams):
        return self._container.demux(*streams)

    def decode(self, *_):
        raise AssertionError("frames were decoded")


@pytest.mark.parametrize("kind", ["mp4", "mkv"])
def test_no_frame_is_decoded(kind, monkeypatch):
    data = clip(kind)
    opened = av.open
    monkeypatch.setattr(videos.av, "open", lambda *a, **k: _Guarded(opened(*a, **k)))
    assert read(data).frames == 12


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("kind", KINDS)
def test_a_clip_that_was_cut_is_found(kind, share):
    data = clip(kind, frames=40)
    assert code(data[: int(len(data) * share)]) == "media_undecodable"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["mp4", "mp4_moov_first", "mov", "mkv", "avi"]), st.floats(0, 1))
def test_a_clip_that_was_cut_anywhere_is_found(kind, share):
    data = MADE[kind]
    kept = int(len(data) * share)
    if 0 < kept < len(data):
        assert code(data[:kept]) == "media_undecodable"


@pytest.mark.parametrize("kind", ["mp4", "mp4_moov_first", "mkv", "avi"])
@pytest.mark.parametrize("junk", [b"\n", b"\0" * 4, b"\0" * 4096, b"junk" * 9])
def test_junk_behind_the_end_does_no_harm(kind, junk):
    assert read(MADE[kind] + junk) == read(MADE[kind])


@pytest.mark.parametrize(
    "data", [b"\0" * 100_000, b"x", b"hello, world" * 50, b"RIFF", b"\x1aE\xdf\xa3"]
)
def test_what_is_no_video_is_undecodable(data):
    assert code(data) == "media_undecodable"


def test_sound_alone_has_its_code():
    assert code(sound()) == "video_no_stream"


def test_a_live_recording_without_lengths_is_read():
    data = MADE["mkv"]
    place = data.index(b"\x18S\x80g") + 4
    live = data[:place] + b"\x01" + b"\xff" * 7 + data[place + 8 :]
    assert data[place] == 1
    assert read(live).frames == 12


def test_boxes_with_64_bit_lengths_are_walked():
    data = MADE["mp4"]
    place = data.index(b"mdat") - 4
    size = int.from_bytes(data[place : place + 4], "big")
    if data[place - 8 : place - 4] == b"\0\0\0\x08":  # the muxer leaves room for one
        place, size = place - 8, size + 8
        data = data[:place] + b"\0\0\0\1mdat" + size.to_bytes(8, "big") + data[place + 16 :]
    assert read(data).frames == 12
    assert code(data[: place + size - 1]) == "media_undecodable"


@pytest.fixture
def server():
    """A web server of this machine, and the paths that were asked of it."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}", asked
        web.shutdown()


def test_a_playlist_opens_no_address(server, tmp_path):
    address, asked = server
    text = f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{address}/a.ts\n#EXT-X-ENDLIST\n"
    (tmp_path / "list.m3u8").write_text(text)
    with pytest.raises(Rejection) as caught:
        videos.video_metadata(locate(MediaRef("video", uri="list.m3u8"), MediaRoot(tmp_path)))
    assert caught.value.code == "media_undecodable"
    assert asked == []


def test_a_playlist_opens_no_other_file(tmp_path):
    (tmp_path / "clip.mp4").write_bytes(MADE["mp4"])
    (tmp_path / "list.txt").write_text("ffconcat version 1.0\nfile clip.mp4\n")
    with pytest.raises(Rejection) as caught:
        videos.video_metadata(locate(MediaRef("video", uri="list.txt"), MediaRoot(tmp_path)))
    assert caught.value.code == "media_undecodable"


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(MADE)), st.integers(0, 2**32))
def test_damaged_bytes_give_metadata_or_a_rejection(kind, seed):
    chance = random.Random(seed)
    data = bytearray(MADE[kind])
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    try:
        found = read(bytes(data))
    except Rejection:
        return
    assert 0 < found.frames <= videos.MAX_FRAMES
    assert found.fps > 0
    assert min(found.height, found.width) > 0
