"""The bundled data: small, readable, made by its script, and usable as model directories."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image, ImageOps

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "sample_data"
TEXT_SUFFIXES = {".jsonl", ".jinja"}
STILLS = {
    "badge.png": ("RGBA", (128, 128)),
    "chart.png": ("RGB", (400, 300)),
    "clock.png": ("L", (240, 240)),
    "dice.jpg": ("RGB", (256, 256)),
    "dot.png": ("RGB", (12, 9)),
    "flower.jpg": ("RGB", (400, 300)),
    "hills.webp": ("RGB", (448, 336)),
    "lighthouse.png": ("RGB", (64, 720)),
    "page.png": ("P", (360, 480)),
    "plant_0.jpg": ("RGB", (160, 120)),
    "plant_1.jpg": ("RGB", (160, 120)),
    "plant_2.jpg": ("RGB", (160, 120)),
    "plant_3.jpg": ("RGB", (160, 120)),
    "shapes.png": ("RGB", (320, 240)),
    "street.jpg": ("RGB", (480, 320)),
    "sunset.jpg": ("RGB", (512, 384)),
    "target.gif": ("P", (200, 200)),
}
CLIPS = {"ball.mp4": (24, 320, 240), "light.mp4": (16, 256, 192)}


@pytest.fixture(scope="module")
def chats() -> list[dict]:
    return [json.loads(line) for line in (DATA / "chats.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sample_data")
    subprocess.run([sys.executable, "-B", DATA / "make.py", "--out", out], check=True)
    return out


def references(value) -> list[str]:
    """Every string of a record that names a file of sample_data."""
    if isinstance(value, str):
        return [value] if re.match(r"\.{0,2}/?media/", value) else []
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return []
    return [path for item in inner for path in references(item)]


def text_files(folder: Path) -> dict[str, bytes]:
    wanted = [
        path
        for path in folder.rglob("*")
        if path.suffix in TEXT_SUFFIXES
        or (path.suffix == ".json" and path.name != "tokenizer.json")
    ]
    names = {path.relative_to(folder).as_posix(): path.read_bytes() for path in wanted}
    ours = {"chats.jsonl", "models", "bad_records"}
    return {name: data for name, data in names.items() if name.split("/")[0] in ours}


def frames(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_all_of_it_is_under_three_megabytes():
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 3_000_000


def test_media_folder_holds_what_is_listed_here():
    found = {path.name for path in (DATA / "media").iterdir()}
    assert found == STILLS.keys() | CLIPS.keys()


@pytest.mark.parametrize("name", STILLS)
def test_picture_opens_with_its_mode_and_size(name):
    with Image.open(DATA / "media" / name) as image:
        image.load()
        assert (image.mode, image.size) == STILLS[name]


def test_flower_lies_on_its_side_and_is_turned_by_its_orientation():
    with Image.open(DATA / "media" / "flower.jpg") as image:
        assert image.getexif()[0x0112] == 6
        upright = np.asarray(ImageOps.exif_transpose(image)).astype(int)
    assert upright.shape == (400, 300, 3)
    red, green, blue = upright[70, 150]  # the topmost petal is violet
    assert red > green + 40
    assert blue > green + 40


@pytest.mark.parametrize("name", CLIPS)
def test_clip_has_its_frames_at_eight_a_second(name):
    count, width, height = CLIPS[name]
    decoded = frames(DATA / "media" / name)
    assert len(decoded) == count
    assert decoded[0].shape == (height, width, 3)
    with av.open(str(DATA / "media" / name)) as container:
        assert container.streams.video[0].average_rate == 8


def test_ball_goes_from_left_to_right_and_light_from_red_to_green():
    ball = frames(DATA / "media" / "ball.mp4")
    assert ball[0][160, 24, 2] < 100 < ball[-1][160, 24, 2]
    assert ball[-1][160, 296, 2] < 100 < ball[0][160, 296, 2]
    light = frames(DATA / "media" / "light.mp4")
    assert light[7][46, 128, 0] > 180 > light[8][46, 128, 0]
    assert light[8][146, 128, 1] > 150 > light[7][146, 128, 1]


def test_chats_have_unique_ids_and_many_shapes(chats):
    ids = [record["id"] for record in chats]
    assert len(set(ids)) == len(ids)
    assert 60 <= len(ids) <= 100
    keys = {key for record in chats for key in record}
    assert keys >= {"messages", "conversations", "images", "videos", "image", "tools", "fps"}
    assert keys >= {"instruction", "prompt", "query", "video"}


def test_every_file_that_a_chat_names_exists(chats):
    named = {path for record in chats for path in references(record)}
    assert {path for path in named if not (DATA / path).is_file()} == set()
    assert {Path(path).name for path in named} == STILLS.keys() | CLIPS.keys()


def test_tags_and_media_of_chats_agree(chats):
    for record in chats:
        if "images" not in record and "videos" not in record:
            continue
        typed = "".join(turn["content"] for turn in record["messages"] if turn["role"] == "user")
        assert typed.count("<image>") == len(record.get("images", [])), record["id"]
        assert typed.count("<video>") == len(record.get("videos", [])), record["id"]


def everything(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_two_runs_give_equal_bytes(made, tmp_path):
    subprocess.run([sys.executable, "-B", DATA / "make.py", "--out", tmp_path], check=True)
    assert everything(tmp_path) == everything(made)


def test_script_makes_the_committed_text_files(made):
    committed = text_files(DATA)
    assert len(committed) > 30
    assert {name for name, data in text_files(made).items() if committed.get(name) != data} == set()
    assert committed.keys() == text_files(made).keys()


def test_script_makes_pictures_and_clips_like_the_committed(made):
    for name, (mode, size) in STILLS.items():
        with Image.open(made / "media" / name) as image:
            assert (image.mode, image.size) == (mode, size), name
    for name, (count, _, _) in CLIPS.items():
        assert len(frames(made / "media" / name)) == count
