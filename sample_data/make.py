"""Make everything in sample_data/ again: `python sample_data/make.py [--out FOLDER]`.

Two runs on one machine give equal bytes. Other versions of Pillow, FFmpeg or zlib may encode the
same pixels into other bytes, and other versions of pyarrow the same packs; the text files do not
depend on them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import make_bad_records
import make_broken
import make_chats
import make_clips
import make_media
import make_models

HERE = Path(__file__).resolve().parent


def _strings(value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    """Return every string in a JSON value, keys left out."""
    if isinstance(value, str):
        return [] if value.startswith(("data:", "media/")) else [value]
    inner = value.values() if isinstance(value, dict) else value
    return (
        [text for item in inner for text in _strings(item)]
        if isinstance(value, dict | list)
        else []
    )


def build(out: Path) -> None:
    """Write all of sample_data.

    Args:
        out: the folder to write into; files of the same names are replaced.
    """
    source = HERE / "source"
    make_media.write(out / "media")
    make_clips.write(out / "media")
    make_chats.write(out / "chats.jsonl", source)
    texts = _strings(make_chats.records(source))
    texts += [json.dumps(tool) for tool in make_chats.TOOLS.values()]
    make_models.write(out / "models", source, texts)
    make_bad_records.write(out / "bad_records")
    make_broken.write(out)


def main() -> None:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(description="Make sample_data/ again.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write into")
    out: Path = parser.parse_args().out
    build(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
