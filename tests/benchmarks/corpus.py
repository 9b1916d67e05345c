"""Corpora for benchmarks: unique text from the installed Python library, photos drawn by seed."""

from __future__ import annotations

import json
import sysconfig
from itertools import islice
from pathlib import Path

import numpy as np


def chat_lines(count, characters=1400, first=0):
    """Yield `count` records of one question and one answer; no two texts are alike."""
    pieces = islice(_pieces(characters), 2 * first, None)
    for number in range(first, first + count):
        question, answer = next(pieces), next(pieces)
        yield {
            "id": f"chat-{number}",
            "messages": [
                {"role": "user", "content": f"{number}. What does this do?\n{question[:300]}"},
                {"role": "assistant", "content": answer},
            ],
        }


def _pieces(characters):
    """Cut source files of the standard library and of installed packages into pieces."""
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
        for path in sorted(Path(folder).rglob("*.py")):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            for start in range(0, len(text) - characters, characters):
                yield text[start : start + characters]


def write_chats(path, count, first=0):
    """Write a JSON Lines file of chats, from the chat `first` on."""
    with Path(path).open("w", encoding="utf-8") as stream:
        stream.writelines(
            json.dumps(record, ensure_ascii=False) + "\n"
            for record in chat_lines(count, first=first)
        )


def write_photos(folder, count, *, seed=0):
    """Draw photo-like JPEG files of 0.3 to 2 megapixels; return their names."""
    from PIL import Image, ImageFilter

    rng = np.random.default_rng(seed)
    names = []
    for number in range(count):
        width, height = (int(v) for v in rng.integers(560, 1500, 2))
        small = rng.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), dtype=np.uint8)
        image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        name = f"photo_{number:05d}.jpg"
        image.filter(ImageFilter.GaussianBlur(1)).save(Path(folder) / name, quality=85)
        names.append(name)
    return names


def image_lines(names, count):
    """Yield `count` records with one to three images each."""
    rng = np.random.default_rng(1)
    texts = _pieces(300)
    for number in range(count):
        chosen = [names[i] for i in rng.integers(0, len(names), int(rng.integers(1, 4)))]
        yield {
            "id": f"image-{number}",
            "messages": [
                {"role": "user", "content": "<image>" * len(chosen) + f"{number}: describe."},
                {"role": "assistant", "content": next(texts)},
            ],
            "images": chosen,
        }
