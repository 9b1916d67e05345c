"""bad_records/<code>/: the first record is good, the second is refused with exactly that code."""

from __future__ import annotations

import json
import shutil
import struct
import wave
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from make_chats import BLUE
from make_clips import light, save_clip
from make_media import shapes
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable

Record = dict[str, Any]

LONG = (
    "A pack is one row of a shard. It holds several samples, one after another, and the cumulative "
    "lengths that say where each of them begins and ends. A sample longer than the limit is "
    "refused and counted, because a sample that is cut may lose its answer, and a picture that is "
    "cut no longer matches its grid. Nobody would notice either fault from the loss alone."
)


def _chat(answer: str | None = "Blue.", question: str = "What colour is the sky?") -> Record:
    """Return a text chat; without an answer it ends on the question."""
    turns = [{"role": "user", "content": question}]
    if answer is not None:
        turns.append({"role": "assistant", "content": answer})
    return {"messages": turns}


def _picture(reference: Any) -> Record:  # noqa: ANN401 - a broken reference can be of any type
    """Return a chat about one picture."""
    return {**_chat("Three.", "<image>How many shapes are there?"), "images": [reference]}


def _clip(path: str) -> Record:
    """Return a chat about one clip."""
    return {**_chat("The light.", "<video>What changes?"), "videos": [path]}


def _mid_system() -> Record:
    """Return a chat with a system turn behind the first, for which our template has no place."""
    late = [{"role": "system", "content": "Be short."}, {"role": "assistant", "content": "Blue."}]
    return {"messages": [*_chat(None)["messages"], *late]}


def _bad_role() -> Record:
    record = _chat()
    record["messages"][1]["role"] = "narrator"
    return record


PLAIN: dict[str, Callable[[], Record]] = {
    "bad_record": lambda: {"title": "no conversation in any known shape", "words": 7},
    "bad_role": _bad_role,
    "empty_conversation": lambda: {"messages": []},
    "empty_target": lambda: _chat(" \n"),
    "no_supervised_tokens": lambda: _chat(None),
    "template_error": _mid_system,
    "over_length": lambda: _chat(LONG, "What is a pack?"),
}
PICTURES: dict[str, Callable[[], Record]] = {
    "tag_count_mismatch": lambda: {
        **_picture("media/good.png"),
        **_chat("No.", "<image><image>Do they differ?"),
    },
    "media_missing": lambda: _picture("media/nowhere.png"),
    "media_empty": lambda: _picture("media/empty.jpg"),
    "media_undecodable": lambda: _picture("media/cut.jpg"),
    "media_too_large": lambda: _picture("media/huge.png"),
    "media_outside_root": lambda: _picture("../media_missing/media/good.png"),
    "media_remote_disabled": lambda: _picture("https://example.org/shapes.png"),
    "bad_media_ref": lambda: _picture(17),
    "bad_data_uri": lambda: _picture("data:image/png;base64,this is not base64!"),
    "aspect_ratio": lambda: _picture("media/strip.png"),
}
CLIPS: dict[str, Callable[[], Record]] = {
    "video_too_short": lambda: _clip("media/one_frame.mp4"),
    "video_no_stream": lambda: _clip("media/sound.wav"),
}


def _huge_png(path: Path) -> None:
    """Write a valid one-bit PNG of 13,400 x 13,400 = 179,560,000 pixels in some 20 kB."""
    side = 13_400
    rows = (b"\0" * (1 + side // 8)) * side
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def _cut_jpeg(path: Path) -> None:
    """Write the first half of a JPEG: its header is fine, its end is missing."""
    shapes().save(path, "JPEG", quality=80)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _sound(path: Path) -> None:
    """Write a tenth of a second of silence."""
    with wave.open(str(path), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(8000)
        stream.writeframes(b"\0\0" * 800)


MAKERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "media_empty": ("empty.jpg", Path.touch),
    "media_undecodable": ("cut.jpg", _cut_jpeg),
    "media_too_large": ("huge.png", _huge_png),
    "aspect_ratio": ("strip.png", lambda path: Image.new("RGB", (2010, 10), "navy").save(path)),
    "video_too_short": ("one_frame.mp4", lambda path: save_clip(path, [next(light())])),
    "video_no_stream": ("sound.wav", _sound),
}


def _line(record: Record, name: str) -> bytes:
    """Return one JSON line, with its id first."""
    return json.dumps({"id": name, **record}, ensure_ascii=False).encode("utf-8") + b"\n"


def _put(folder: Path, good: Record, bad: bytes) -> Path:
    """Write input.jsonl afresh and return the media folder (not yet made)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "input.jsonl").write_bytes(_line(good, "good") + bad)
    return folder / "media"


def _raw_lines() -> dict[str, bytes]:
    """Return the lines that are no JSON text at all, or no Unicode."""
    line = _line(_chat("Yes."), "bad")
    return {
        "bad_json": line[: len(line) // 2] + b"\n",
        "bad_utf8": line.replace(b"Yes.", "Café.".encode("latin-1")),
        "bad_unicode": line.replace(b"Yes.", rb"Half of a pair: \ud83d."),
    }


def write(folder: Path) -> None:
    """Write every tree under `folder`; what stood there under the same code is replaced."""
    for code, bad in _raw_lines().items():
        _put(folder / code, _chat(), bad)
    for code, build in PLAIN.items():
        _put(folder / code, _chat(), _line(build(), "bad"))
    for code, build in PICTURES.items():
        inline = code == "bad_data_uri"
        good = _picture(BLUE if inline else "media/good.png")
        if inline:
            good.update(_chat("Blue.", "<image>Which colour is it?"))
        media = _put(folder / code, good, _line(build(), "bad"))
        if not inline:
            media.mkdir()
            shapes().save(media / "good.png", optimize=True)
    for code, build in CLIPS.items():
        media = _put(folder / code, _clip("media/good.mp4"), _line(build(), "bad"))
        media.mkdir()
        save_clip(media / "good.mp4", light())
    for code, (name, make) in MAKERS.items():
        make(folder / code / "media" / name)
    (folder / "over_length" / "args.json").write_bytes(b'{"max_length": 64}\n')
