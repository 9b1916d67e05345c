"""Targets of records: joined by source, what they would drop is refused, read back by others."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pytest
import yaml

from packcli.contract.data_uri import data_uri_bytes
from packcli.contract.errors import InputError, UsageError
from packcli.export.dialogues import read_dialogue
from packcli.export.records import Records
from packcli.export.refusals import UnfitError
from packcli.shards.manifest import read_manifest
from tests.export.conftest import packs_in, refused_in, samples_of


@pytest.fixture
def chats(sample_data):
    return sample_data / "chats.jsonl"


def test_the_qwen_json_keeps_packs_and_media(packed, exported, chats):
    output, summary = exported(packed, "qwen-vl-finetune", records=(chats,))
    lists = json.loads((output / "packed.json").read_text(encoding="utf-8"))
    refused = {line["sample"] for line in refused_in(output)}
    packs = samples_of(packed, refused)
    assert [[item["id"] for item in one] for one in lists] == [
        [name for name, *_ in pack] for pack in packs
    ]
    sizes = [[item["num_tokens"] for item in one] for one in lists]
    assert sizes == [[len(ids) for _, ids, _ in pack] for pack in packs]
    assert summary.recipe["model_max_length"] == max(map(sum, sizes)) <= 2048
    items = {item["id"]: item for one in lists for item in one}
    assert items["shapes-left-right"] == {
        "id": "shapes-left-right",
        "num_tokens": items["shapes-left-right"]["num_tokens"],
        "image": ["media/shapes.png"],
        "conversations": [
            {"from": "human", "value": "<image>Which shape stands left of the square?"},
            {"from": "gpt", "value": "The red circle."},
            {"from": "human", "value": "And right of it?"},
            {"from": "gpt", "value": "The yellow triangle."},
        ],
    }
    # the rule of its _build_messages: places in user turns use the media up, in order
    for item in items.values():
        asked = "".join(t["value"] for t in item["conversations"] if t["from"] == "human")
        for kind in ("image", "video"):
            assert len(re.findall(f"<{kind}>", asked)) == len(item.get(kind, []))
    assert {"street-describe", "weather-tool", "first-turn-quiet", "think-zh"} <= refused


def test_swift_rows_have_lengths(packed, exported, chats, sample_data):
    output, _ = exported(packed, "ms-swift", records=(chats,), media_root=sample_data)
    refused = {line["sample"] for line in refused_in(output)}
    rows = datasets.load_from_disk(str(output))
    lengths = [len(ids) for pack in samples_of(packed, refused) for _, ids, _ in pack]
    assert rows["lengths"][:] == [[length] for length in lengths]
    described = [row for row in rows if row["messages"][0]["role"] == "system"]
    assert any(row["images"] == [str(sample_data / "media" / "street.jpg")] for row in described)
    for row in rows:
        text = "".join(message["content"] for message in row["messages"])
        assert text.count("<image>") == len(row["images"])
        assert text.count("<video>") == len(row["videos"])
        paths = [path for path in (*row["images"], *row["videos"]) if path[:5] != "data:"]
        assert all(Path(path).is_file() for path in paths)


SWIFT = """
import ast, pathlib, types
import datasets, numpy as np
root = pathlib.Path(given["package"])
tree = ast.parse((root / "swift/pipelines/utils.py").read_text())
keep = [n for n in tree.body if getattr(n, "name", "") == "_select_dataset"]
space = {"np": np, "logger": types.SimpleNamespace(info=lambda *_: None)}
exec(compile(ast.Module(keep, []), "swift", "exec"), space)
rows = datasets.load_from_disk(given["output"])
args = types.SimpleNamespace(max_length=given["limit"], truncation_strategy="delete")
print(json.dumps([len(rows), len(space["_select_dataset"](args, rows))]))
"""


@pytest.mark.slow
def test_swift_filters_by_the_lengths(packed, exported, chats, consumer):
    output, _ = exported(packed, "ms-swift", records=(chats,))
    package = f"{os.environ.get('PACKCLI_CONSUMERS')}/ms-swift"
    every, kept = consumer("ms-swift", SWIFT, output=str(output), limit=100, package=package)
    lengths = [length for (length,) in datasets.load_from_disk(str(output))["lengths"]]
    assert (every, kept) == (len(lengths), sum(length <= 100 for length in lengths))
    assert 0 < kept < every


def bins_in(output):
    for path in sorted(output.glob("*.tar")):
        with tarfile.open(path) as tar:
            index = np.fromfile(f"{path}.idx", "<u8")
            held, starts = {}, {}
            for member in tar.getmembers():
                key, _, name = member.name.partition(".")
                starts.setdefault(key, member.offset)
                held.setdefault(key, {})[name] = tar.extractfile(member).read()
                assert (member.mtime, member.uid, member.gid) == (0, 0, 0)
                end = member.offset_data + -(-member.size // 512) * 512
        assert index.tolist() == [*starts.values(), end]
        yield path.name, held


def test_onevision2_bins(canvases, exported, chats, sample_data):
    output, summary = exported(
        canvases, "llava-onevision2", records=(chats,), media_root=sample_data, shard_bytes=50_000
    )
    refused = {line["sample"]: line["why"] for line in refused_in(output)}
    assert "system turn" in refused["street-describe"]
    assert "video file" in refused["ball-zh"]
    assert "dot-data-uri" not in refused
    shards = list(bins_in(output))
    assert len(shards) > 1
    bins = {key: held for _, one in shards for key, held in one.items()}
    packs = samples_of(canvases, refused)
    assert list(bins) == [f"ps_{n:08d}" for n in range(len(packs))]
    lines = [json.loads(line) for line in chats.read_text().splitlines()]
    records = {line["id"]: line for line in lines}
    for held, pack in zip(bins.values(), packs, strict=True):
        assert list(held)[-1] == "json"
        told = json.loads(held["json"])
        assert told["sample_count"] == len(pack) == len(told["prompts"]) == len(told["captions"])
        for number, (name, *_) in enumerate(pack):
            dialogue = read_dialogue(records[name])
            assert (told["prompts"][number], told["captions"][number]) == dialogue.rounds()
            assert len(told["images"][number]) == len(dialogue.images)
            for place, path in enumerate(dialogue.images):
                data = held[f"img{number}_{place}.jpg"]
                inline = path.startswith("data:")
                assert data == (
                    data_uri_bytes(path) if inline else (sample_data / path).read_bytes()
                )
    meta = {p.name: p.read_text() for p in (output / ".nv-meta").iterdir()}
    counts = {name: len(held) for name, held in shards}
    assert yaml.safe_load(meta[".info.yaml"]) == {"shard_counts": counts}
    assert yaml.safe_load(meta["split.yaml"])["split_parts"]["train"] == list(counts)
    longest = max(sum(len(ids) for _, ids, _ in pack) for pack in packs)
    assert summary.recipe["--seq-length at least"] == longest <= 4096


ENERGON = """
import dataclasses, pathlib, shutil, sys, types
from typing import List, Optional
import megatron.energon as energon
from megatron.energon.flavors.webdataset import BaseWebdatasetFactory
from megatron.energon.epathlib import EPath
stub = types.ModuleType("aiak_training_llm.data.multimodal")
@dataclasses.dataclass
class PackedCaptioningSample(energon.Sample):
    images: list
    prompts: list
    captions: list
    patch_positions: Optional[list] = None
    fps: Optional[list] = None
    timestamp_decimal: Optional[list] = None
stub.PackedCaptioningSample = PackedCaptioningSample
for name in ("aiak_training_llm", "aiak_training_llm.data"):
    sys.modules[name] = types.ModuleType(name)
sys.modules[stub.__name__] = stub
class Encoder(energon.DefaultTaskEncoder):
    def batch(self, samples):
        return samples
output = pathlib.Path(given["output"])
worker = energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
rows = energon.get_val_dataset(str(output), worker_config=worker, batch_size=1,
    split_part="train", task_encoder=Encoder())
seen = [[s.__key__, s.prompts, s.captions, [[i.size() if callable(i.size) else i.size
    for i in one] for one in s.images]] for (s,) in energon.get_loader(rows)]
again = pathlib.Path(given["again"])
again.mkdir()
for tar in output.glob("*.tar"):
    shutil.copy(tar, again)
BaseWebdatasetFactory.prepare_dataset(EPath(again), [t.name for t in sorted(again.glob("*.tar"))],
    split_parts_ratio=[("train", 1.0)], shuffle_seed=None, workers=1)
same = [(again / p.name).read_bytes() == p.read_bytes() for p in sorted(output.glob("*.idx"))]
print(json.dumps([seen, same]))
"""


@pytest.mark.slow
def test_energon_loads_the_bins_and_makes_the_same_index(
    canvases, exported, chats, sample_data, consumer, tmp_path
):
    output, _ = exported(
        canvases, "llava-onevision2", records=(chats,), media_root=sample_data, shard_bytes=50_000
    )
    again = str(tmp_path / "again")
    seen, same = consumer("megatron-energon", ENERGON, output=str(output), again=again)
    assert len(same) > 1
    assert all(same)
    bins = {
        key: json.loads(held["json"]) for _, one in bins_in(output) for key, held in one.items()
    }
    assert len(seen) == len(bins)
    for key, prompts, captions, images in seen:
        told = bins[key.rpartition("/")[2]]
        assert (prompts, captions) == (told["prompts"], told["captions"])
        assert [len(one) for one in images] == [len(one) for one in told["images"]]


def test_other_models_and_missing_flags_are_refused(packed, canvases, exported, chats):
    with pytest.raises(InputError, match="packs were made for qwen3_vl"):
        exported(packed, "llava-onevision2", records=(chats,))
    with pytest.raises(UsageError, match="--media-root"):
        exported(canvases, "llava-onevision2", records=(chats,))
    with pytest.raises(UsageError, match="--records"):
        exported(packed, "ms-swift")


def test_a_missing_or_false_image_is_refused(canvases, exported, chats, sample_data, tmp_path):
    (tmp_path / "media").mkdir()
    for path in (sample_data / "media").iterdir():
        (tmp_path / "media" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "media" / "shapes.png").unlink()
    (tmp_path / "media" / "street.jpg").write_text("<html>")
    output, _ = exported(canvases, "llava-onevision2", records=(chats,), media_root=tmp_path)
    told = {line["sample"]: (line["why"], line["detail"]) for line in refused_in(output)}
    assert told["shapes-count"] == (
        "has an image that cannot be read",
        "media/shapes.png",
    )
    assert told["street-car"] == ("has an image that is no image file", "media/street.jpg")


def test_images_outside_the_root_are_refused(canvases, exported, chats, sample_data, tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "media").symlink_to(sample_data / "media")
    root = tmp_path / "root"
    output, summary = exported(canvases, "llava-onevision2", records=(chats,), media_root=root)
    told = {line["sample"]: (line["why"], line["detail"]) for line in refused_in(output)}
    assert told["shapes-count"] == ("has an image outside --media-root", "media/shapes.png")
    assert summary.samples > 0


def test_records_must_be_those_that_were_encoded(packed, chats, tmp_path):
    manifest = read_manifest(packed)
    copy = tmp_path / "chats.jsonl"
    copy.write_bytes(chats.read_bytes().replace(b"Three:", b"Four: "))
    with pytest.raises(InputError, match="changed since it was encoded"):
        Records([copy], manifest)
    records = Records([chats], manifest)
    for group in packs_in(packed):
        for name, source in zip(
            group.columns["sample_ids"], group.columns["sample_sources"], strict=True
        ):
            assert records.find(source, name)["id"] == name
    with pytest.raises(UnfitError, match=r"its record has another id.* 'shapes-middle'"):
        records.find("chats.jsonl:2", "shapes-count")
    with pytest.raises(InputError, match="has no line 900"):
        records.find("chats.jsonl:900", "x")
    with pytest.raises(InputError, match="give that file as --records"):
        records.find("other.jsonl:1", "x")
    with pytest.raises(InputError, match="convert it"):
        Records([tmp_path / "chats.json"], manifest)


def test_lines_without_a_last_newline(tmp_path, packed):
    path = tmp_path / "few.jsonl"
    lines = ['{"id": "a"}', "", '{"id": "ü"}']
    path.write_text("\n".join(lines), encoding="utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    inputs = [{"name": "few.jsonl", "sha256": digest}]
    records = Records([path], replace(read_manifest(packed), inputs=inputs))
    assert records.find("few.jsonl:3", "ü") == {"id": "ü"}
    with pytest.raises(UnfitError, match="another id"):
        records.find("few.jsonl:1", "few.jsonl:1")


USER, ANSWER = {"role": "user", "content": "<image>a"}, {"role": "assistant", "content": "b"}

FILM = {"role": "user", "content": "<video>a"}
FRAMES = {"role": "user", "content": [{"type": "video", "video": ["a.jpg", "b.jpg"]}]}


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"messages": [USER, ANSWER]}, "a place for a medium and no path"),
        ({"messages": [USER, ANSWER], "images": ["1", "2"]}, "more media than it has places"),
        ({"messages": [USER, ANSWER | {"weight": 0.5}], "images": ["1"]}, "a turn has weight"),
        ({"messages": [USER, ANSWER], "images": [{"bytes": "x"}]}, "images that are no paths"),
        ({"messages": [USER, ANSWER], "images": ["1"], "max_pixels": 9}, "has max_pixels"),
        ({"messages": [USER, ANSWER], "images": ["1"], "fps": 2}, "has fps"),
        ({"messages": [FRAMES, ANSWER]}, "a video that is a list of frames"),
        ({"messages": [FILM, ANSWER], "videos": [["a.jpg"]]}, "a video that is a list of frames"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "neither of user, assistant nor"),
        ({"messages": [{"role": "assistant", "content": "<video>"}]}, "has <video> as words"),
        ({"text": "plain"}, "its record has text"),
        ({"id": "x"}, "neither messages nor conversations"),
    ],
)
def test_what_a_trainer_would_drop_is_refused(record, why):
    with pytest.raises(UnfitError, match=why):
        read_dialogue(record)


@pytest.mark.parametrize("roles", [["user"], ["assistant", "user"], ["user", "user"]])
def test_rounds_alternate(roles):
    dialogue = read_dialogue({"messages": [{"role": role, "content": "x"} for role in roles]})
    with pytest.raises(UnfitError, match="take turns"):
        dialogue.rounds()
