"""What a user may ask of encode beyond the plain run: weights, embedded media, a look before."""

from __future__ import annotations

import io
import json
import shutil
from hashlib import sha256

import pytest
from PIL import Image

from packcli.contract.errors import InputError
from packcli.encode import run as stage
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.survey import survey
from packcli.pack import run as packing
from packcli.pack.options import PlanOptions
from packcli.verify.run import verify
from tests.encode.running import MODELS, chat, run, tree, write_lines


def png(colour, size=(56, 84)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def weighted(*weights, **more):
    turns = []
    for n, weight in enumerate(weights):
        answer = {"role": "assistant", "content": f"Answer {n}."} | weight
        turns += [{"role": "user", "content": f"Question {n}?"}, answer]
    return {"messages": turns, **more}


RECORDS = [
    weighted({"loss_scale": 0.5}, {}, {"weight": 0}, {"loss_scale": 2.5, "loss": True}, id="a"),
    weighted({}, {"loss": False}, id="b"),
    {"text": "only words", "id": "c"},
]


def test_weights_have_a_column_and_pass_through_pack(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", RECORDS)
    written = run(path, tmp_path / "out", loss_scale=True)
    first, second, third = written.rows
    learned = [w for w, label in zip(first["loss_scale"], first["labels"], strict=True) if w]
    answers = [label for label in first["labels"] if label != -100]
    assert len(learned) == len(answers)
    assert sorted(set(learned)) == [0.5, 1.0, 2.5]
    assert learned == sorted(learned, key=[0.5, 1.0, 2.5].index)
    for row in (first, second, third):
        masked = [label == -100 for label in row["labels"]]
        assert [weight == 0 for weight in row["loss_scale"]] == masked
    assert set(second["loss_scale"]) == set(third["loss_scale"]) == {0.0, 1.0}
    packing.pack(
        [tmp_path / "out"], PlanOptions(capacity=512), packing.Writing(tmp_path / "packed")
    )
    verdict = verify([tmp_path / "out", tmp_path / "packed"])
    assert verdict.passed
    assert "loss_scale.value" not in verdict.skipped


def test_weights_without_the_option_reject_the_record(tmp_path):
    written = run(write_lines(tmp_path / "a.jsonl", RECORDS), tmp_path / "out")
    assert (written.ids, written.codes) == (["b", "c"], ["bad_record"])
    assert "keep it with --loss-scale" in written.rejected[0]["message"]
    assert "loss_scale" not in written.rows[0]


@pytest.fixture
def pictured(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, data in (("a.png", png("red")), ("b.png", png("red")), ("c.png", png("blue"))):
        (folder / name).write_bytes(data)
    records = [
        chat("<image><image>?", "x", images=["a.png", {"bytes": None, "path": "c.png"}], id="1"),
        chat("<image>?", "x", images=["b.png"], id="2"),
        chat("<video>?", "x", videos=[["a.png", "c.png", "a.png", "b.png"]], id="3"),
        chat("<image>?", "", images=["lost.png"], id="4"),
    ]
    return write_lines(folder / "a.jsonl", records)


def test_embedded_media_are_stored_once_and_named_by_their_hash(tmp_path, pictured):
    written = run(pictured, tmp_path / "out", embed_media=True)
    red, blue = (sha256(png(colour)).hexdigest() for colour in ("red", "blue"))
    uris = [[medium["uri"] for medium in row["media"]] for row in written.rows]
    assert uris[:2] == [[f"sha256:{red}", f"sha256:{blue}"], [f"sha256:{red}"]]
    frames = [f"sha256:{name}" for name in (red, blue, red, red)]
    assert json.loads(uris[2][0]) == frames
    stored = {path.name: path for path in (tmp_path / "out" / "media").glob("*/*")}
    assert stored.keys() == {red, blue}
    assert stored[red].parent.name == red[:2]
    assert stored[red].read_bytes() == png("red")
    size = len(png("red")) + len(png("blue"))
    embedded = written.manifest["counts"]["embedded"]
    assert (embedded["files"], embedded["bytes"]) == (2, size)
    verdict = verify([tmp_path / "out"])
    assert verdict.passed
    again = run(pictured, tmp_path / "again", embed_media=True, writing={"workers": 2})
    assert tree(again.folder) == tree(written.folder)


def test_load_dataset_reads_a_dataset_with_embedded_media(tmp_path, pictured):
    from datasets import load_dataset

    run(pictured, tmp_path / "out", embed_media=True)
    rows = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"), split="train")
    assert len(rows) == 3


def test_media_of_rejected_records_and_old_runs_are_swept(tmp_path, pictured):
    lines = pictured.read_bytes().splitlines()
    short = pictured.with_name("b.jsonl")
    short.write_bytes(lines[1] + b"\n" + lines[0].replace(b'"x"', b'""') + b"\n")
    written = run(short, tmp_path / "out", embed_media=True)
    assert written.summary.rejected == 1
    assert len(list((tmp_path / "out/media").glob("*/*"))) == 1
    (tmp_path / "out/media/mine.txt").write_text("not packcli's")
    shutil.copy(short, tmp_path / "in/c.jsonl")
    run(short, tmp_path / "out", writing={"overwrite": True})
    assert [path.name for path in (tmp_path / "out/media").rglob("*")] == ["mine.txt"]


def test_unfinished_work_goes_on_with_its_own_media_root(tmp_path, pictured):
    shutil.copytree(pictured.parent, tmp_path / "other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "_finish", lambda *_: pytest.fail("pulled the plug"))
        with pytest.raises(pytest.fail.Exception):
            run(pictured, tmp_path / "out")
    with pytest.raises(InputError, match="started with another media root"):
        run(pictured, tmp_path / "out", media_root=tmp_path / "other")
    whole = run(pictured, tmp_path / "out", media_root=pictured.parent)
    assert tree(whole.folder) == tree(run(pictured, tmp_path / "whole").folder)


def test_a_survey_counts_what_encode_writes(tmp_path, pictured):
    written = run(pictured, tmp_path / "out")
    job = EncodeJob(MODELS / "qwen3_vl", None, EncodeOptions(embed_media=True))
    seen = survey([pictured], job)
    assert seen.summary.to_json() | {"output": ""} == written.summary.to_json() | {"output": ""}
    assert seen.rejected == written.rejected
    assert sorted(seen.lengths.elements()) == sorted(row["length"] for row in written.rows)
    assert sum(count for _, count in seen.histogram()) == 3
    assert all(top & (top - 1) == 0 for top, _ in seen.histogram())


def test_videos_are_decoded_when_asked(tmp_path):
    from packcli.encode.media.images import ImagePolicy

    clip = next((MODELS.parent / "media").glob("*.mp4"))
    data = bytearray(clip.read_bytes())
    middle = data.index(b"mdat") + 200
    data[middle : middle + 4000] = bytes(b ^ 0x5A for b in data[middle : middle + 4000])
    (tmp_path / "bad.mp4").write_bytes(data)
    shutil.copy(clip, tmp_path / "good.mp4")
    records = [chat("<video>?", "x", videos=[name]) for name in ("good.mp4", "bad.mp4")]
    path = write_lines(tmp_path / "a.jsonl", records)
    assert run(path, tmp_path / "header").summary.kept == 2
    decoded = run(path, tmp_path / "decode", images=ImagePolicy(decode=True))
    assert (decoded.summary.kept, decoded.codes) == (1, ["media_undecodable"])
