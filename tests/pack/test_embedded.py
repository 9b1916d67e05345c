"""Embedded media move with the samples that name them."""

from __future__ import annotations

import io
import json
import shutil
from hashlib import sha256

import pytest
from PIL import Image

from packcli.contract.errors import InputError
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing as EncodeWriting
from packcli.encode.run import encode
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.manifest import read_manifest
from packcli.shards.media_store import MediaStore
from packcli.verify.run import verify


def png(colour, size=(56, 84)):
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, "PNG")
    return stream.getvalue()


def record(name, *files):
    asked = [{"type": "image", "image": file} for file in files]
    asked.append({"type": "text", "text": "What?"})
    answer = {"role": "assistant", "content": "A colour."}
    return json.dumps({"id": name, "messages": [{"role": "user", "content": asked}, answer]})


@pytest.fixture
def inputs(tmp_path, sample_data):
    """Two encoded datasets that share a picture; a third picture fits into no pack."""
    for colour in ("red", "blue", "green"):
        (tmp_path / f"{colour}.png").write_bytes(png(colour))
    (tmp_path / "wide.png").write_bytes(png("white", (900, 900)))
    lines = {
        "a": [record("one", "red.png", "blue.png"), record("wide", "wide.png")],
        "b": [record("two", "blue.png"), record("three", "green.png")],
    }
    for name, records in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(records))
        job = EncodeJob(
            sample_data / "models" / "qwen3_vl", tmp_path, EncodeOptions(embed_media=True)
        )
        encode([tmp_path / f"{name}.jsonl"], job, EncodeWriting(tmp_path / name))
    return [tmp_path / "a", tmp_path / "b"]


def stored(path):
    return {file.name: file.read_bytes() for file in MediaStore(path).files()}


def test_what_packs_name_lies_beside_them(tmp_path, inputs):
    pack(inputs, PlanOptions(capacity=256), Writing(tmp_path / "packed", shard_bytes=600))
    contents = [png(colour) for colour in ("red", "blue", "green")]
    assert stored(tmp_path / "packed") == {sha256(c).hexdigest(): c for c in contents}
    told = read_manifest(tmp_path / "packed").counts["embedded"]
    assert (told["files"], told["bytes"]) == (3, sum(map(len, contents)))
    for file in MediaStore(tmp_path / "packed").files():
        assert file.stat().st_nlink > 1
    assert verify([tmp_path / "packed"]).passed
    # packing packs takes them over again
    pack([tmp_path / "packed"], PlanOptions(capacity=512), Writing(tmp_path / "again"))
    assert stored(tmp_path / "again") == stored(tmp_path / "packed")
    assert read_manifest(tmp_path / "again").counts["embedded"] == told


def test_another_disk_gets_copies(tmp_path, inputs, monkeypatch):
    def refuse(_self, _target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    pack(inputs, PlanOptions(capacity=256), Writing(tmp_path / "packed"))
    files = MediaStore(tmp_path / "packed").files()
    assert [file.stat().st_nlink for file in files] == [1, 1, 1]
    assert all(sha256(file.read_bytes()).hexdigest() == file.name for file in files)


def test_links_are_followed(tmp_path, inputs):
    # a snapshot of the hub holds links into a store of its own
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for file in MediaStore(inputs[0]).files():
        file.rename(blobs / file.name)
        file.symlink_to(f"../../../blobs/{file.name}")
    pack(inputs, PlanOptions(capacity=256), Writing(tmp_path / "packed"))
    for file in MediaStore(tmp_path / "packed").files():
        assert not file.is_symlink()
        assert sha256(file.read_bytes()).hexdigest() == file.name


def test_a_medium_that_is_gone_is_named(tmp_path, inputs):
    blue = sha256(png("blue")).hexdigest()
    for path in inputs:
        MediaStore(path).place(blue).unlink(missing_ok=True)
    with pytest.raises(InputError, match=f"sha256:{blue}: no input has it"):
        pack(inputs, PlanOptions(capacity=256), Writing(tmp_path / "packed"))


def test_overwriting_sweeps_them(tmp_path, inputs):
    pack(inputs, PlanOptions(capacity=256), Writing(tmp_path / "packed"))
    pack(inputs[:1], PlanOptions(capacity=256), Writing(tmp_path / "packed", overwrite=True))
    assert len(stored(tmp_path / "packed")) == 2
    shutil.rmtree(tmp_path / "packed" / "media")
    found = verify([tmp_path / "packed"]).findings
    assert {finding.code for finding in found} == {"media.missing"}
