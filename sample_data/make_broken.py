"""good/, good_text/, good_foreign/ and broken/<code>/: what `packcli verify` passes, or must not.

The name of a folder under broken/ is the expectation: the contract level finds that code and
nothing else. isolation.* need a kernel or a model, named in the folder's args.json, and stand
beside what the contract level says of the same boundary, position.reset or vit.windows;
model.slots stands beside slot.count. sample.missing, .changed and .extra are found against a
dataset that args.json names. Parquet bytes depend on the version of pyarrow; the verdicts do not.
"""

from __future__ import annotations

import copy
import json
import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from faults import FAULTS, Draft

from packcli.contract.digests import digest_total, sample_digests, spell_total
from packcli.contract.model import ModelFacts
from packcli.encode import run as encode_stage
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.pack import run as pack_stage
from packcli.pack.options import PlanOptions
from packcli.shards.arrow import to_rows
from packcli.shards.manifest import Manifest, canonical, file_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHARD = "data/train-00000-of-00001.parquet"
LAYOUT: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
}
CAPACITY = {"text": 96, "vision": 128, "windows": 128, "weights": 96, "padded": 96}
PADDING = {"padded": {"pad_sample_multiple": 8, "pad_pack_multiple": 32}}
QUESTIONS = [
    ("sky", "What colour is the sky?", "Blue."),
    ("two-pictures", "<image><image>Which is larger?", "The second."),
    ("week", "How many days has a week?", "Seven."),
    ("sum", "What is 3 + 4?", "7."),
    ("dot", "<image>What is this?", "A dot."),
    ("cat", "What does a cat say?", "Miaow."),
    ("moon", "What shines at night?", "The moon."),
]
PICTURES = {"two-pictures": ["media/dot.png", "media/badge.png"], "dot": ["media/dot.png"]}


def _records(base: str) -> Iterator[dict[str, Any]]:
    for name, question, answer in QUESTIONS:
        turns = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]
        if base == "weights" and name == "week":
            turns[1]["loss_scale"] = 0.5
        if name not in PICTURES:
            yield {"id": name, "messages": turns}
        elif base in {"vision", "windows"}:
            yield {"id": name, "messages": turns, "images": PICTURES[name]}


def _windowed(out: Path, folder: Path) -> Path:
    """Make a model directory whose vision tower has windows out of the one of Qwen2.5-VL."""
    target = folder / "llava_onevision2"
    shutil.copytree(out / "models" / "qwen2_5_vl", target)
    config = json.loads((target / "config.json").read_bytes())
    document = json.dumps(config | {"model_type": "llava_onevision2"})
    (target / "config.json").write_text(document, "utf-8")
    processor = json.loads((target / "preprocessor_config.json").read_bytes())
    document = json.dumps(processor | {"temporal_patch_size": 1})
    (target / "preprocessor_config.json").write_text(document, "utf-8")
    return target


def _encode(
    out: Path,
    records: list[dict[str, Any]],
    model: Path,
    folder: Path,
    **options: Any,  # noqa: ANN401 - options by name
) -> Path:
    """Encode records, half of them a part, with the model directories and media of `out`."""
    inputs: list[Path] = []
    middle = (len(records) + 1) // 2
    for name, part in (("a.jsonl", records[:middle]), ("b.jsonl", records[middle:])):
        if part:
            inputs.append(folder / name)
            inputs[-1].write_text("".join(json.dumps(r) + "\n" for r in part), "utf-8")
    job = EncodeJob(model, out, EncodeOptions(**options))
    encode_stage.encode(inputs, job, encode_stage.Writing(folder / "encoded"))
    return folder / "encoded"


def _pack(
    encoded: Path,
    target: Path,
    capacity: int,
    padding: dict[str, int] | None = None,
    **writing: Any,  # noqa: ANN401 - options by name
) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    options = PlanOptions(capacity=capacity, **padding or {})
    pack_stage.pack([encoded], options, pack_stage.Writing(target, **writing))
    return target


def _good(out: Path, folder: Path) -> None:
    """Pack all of chats.jsonl, as a user would."""
    job = EncodeJob(out / "models" / "qwen2_5_vl", None, EncodeOptions())
    writing = encode_stage.Writing(folder / "chats")
    encode_stage.encode([out / "chats.jsonl"], job, writing)
    _pack(folder / "chats", out / "good", 2048)


def _open(dataset: Path) -> Draft:
    table = pq.read_table(dataset / SHARD)
    manifest = json.loads((dataset / "manifest.json").read_bytes())
    return Draft(table.to_pylist(), table.schema.remove_metadata(), manifest)


def _close(draft: Draft, target: Path) -> None:
    """Write a damaged dataset: manifest and shard agree, so that nothing but the fault shows."""
    shard = _fresh(target) / SHARD
    shard.parent.mkdir()
    pq.write_table(pa.Table.from_pylist(draft.rows, schema=draft.schema), shard, **LAYOUT)
    draft.manifest["shards"][0] |= {
        "rows": len(draft.rows),
        "samples": sum(row["num_samples"] for row in draft.rows),
        "tokens": sum(len(row["input_ids"]) for row in draft.rows),
    }
    _seal(target, draft.manifest)


def _seal(target: Path, manifest: dict[str, Any]) -> None:
    """Give the manifest its first shard's size and hash and its own fingerprint."""
    shard = target / "data" / manifest["shards"][0]["name"]
    manifest["shards"][0] |= {"bytes": shard.stat().st_size, "sha256": file_sha256(shard)}
    document = Manifest.from_json(manifest).to_json()
    (target / "manifest.json").write_text(canonical(document), encoding="utf-8")
    (target / "_SUCCESS").touch()


def _fresh(target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    return target


def _fingerprint(dataset: Path) -> None:
    """The capacity in the manifest was edited by hand."""
    path = dataset / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["options"]["capacity"] *= 2
    path.write_text(canonical(manifest), encoding="utf-8")


def _extra(dataset: Path) -> None:
    """A file that the manifest does not name lies in data/: trainers would read it."""
    table = pa.table({"input_ids": pa.array([[1, 2, 3]], pa.list_(pa.int32()))})
    pq.write_table(table, dataset / "data" / "more.parquet", **LAYOUT)


def _rewritten(dataset: Path) -> None:
    """The shard was written again by another tool: same values, other bytes."""
    table = pq.read_table(dataset / SHARD)
    pq.write_table(table, dataset / SHARD, **LAYOUT | {"compression": "snappy"})


def _bit(dataset: Path) -> None:
    """One bit of a page is flipped; size and hash of the manifest were made to fit."""
    shard = dataset / SHARD
    chunk = pq.read_metadata(shard).row_group(0).column(0)
    data = bytearray(shard.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    shard.write_bytes(data)
    _seal(dataset, json.loads((dataset / "manifest.json").read_bytes()))


AROUND: dict[str, Callable[[Path], None]] = {
    "manifest.fingerprint": _fingerprint,
    "shard.extra": _extra,
    "shard.sha256": _rewritten,
    "shard.checksum": _bit,
}
"""Faults outside the rows: done to a whole dataset of text."""


def _missing(encoded: Path, target: Path) -> None:
    """The second of two shards is not there."""
    _pack(encoded, target, CAPACITY["text"], shard_bytes=1)
    (target / "data" / "train-00001-of-00002.parquet").unlink()
    _bare(target)


def _embedded(out: Path, broken: Path, folder: Path) -> None:
    """Store a picture with the dataset, and lose it, or damage it."""
    record = next(one for one in _records("vision") if one["id"] == "dot")
    model = out / "models" / "qwen2_5_vl"
    encoded = _encode(out, [record], model, folder, embed_media=True)
    for code in ("media.missing", "media.sha256"):
        shutil.copytree(encoded, broken / code)
        _bare(broken / code)
        (picture,) = (broken / code / "media").glob("*/*")
        if code == "media.missing":
            picture.unlink()
            picture.parent.rmdir()
        else:
            picture.write_bytes(picture.read_bytes()[:-1] + b"?")


def _empty(out: Path, target: Path, folder: Path) -> None:
    """Every record was rejected: rejected.jsonl tells why."""
    encoded = _encode(out, [{"title": "no conversation"}], out / "models" / "text", folder)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(encoded, target)
    (target / "README.md").unlink()


def _bare(dataset: Path) -> None:
    for name in ("README.md", "rejected.jsonl"):
        (dataset / name).unlink()


def _table(rows: list[dict[str, Any]], *names: str) -> pa.Table:
    return pa.table(
        {
            name: pa.array(
                [row[name] for row in rows],
                pa.list_(pa.string() if name == "sample_ids" else pa.int32())
                if isinstance(rows[0][name], list)
                else pa.int32(),
            )
            for name in names
        }
    )


def _foreign(rows: list[dict[str, Any]], target: Path) -> None:
    """Lay rows out as other packers do, in files that say nothing of a model."""
    _fresh(target)
    trl = _table(rows, "input_ids", "labels", "seq_lengths")
    pq.write_table(trl, target / "trl.parquet", **LAYOUT)
    bridge = _table(rows, "input_ids", "loss_mask", "seq_start_id")
    bridge = bridge.set_column(1, "loss_mask", bridge["loss_mask"].cast(pa.list_(pa.int8())))
    pq.write_table(bridge, target / "megatron_bridge.parquet", **LAYOUT)
    flat = _table(rows, "input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen")
    pq.write_table(flat, target / "flattened.parquet", **LAYOUT)


def _isolation(draft: Draft, target: Path, kernel: str) -> None:
    """A foreign file lost one boundary; a kernel shows which sample sees which."""
    row = draft.pack()
    row["cu_seqlens"].pop(1)
    row["max_seqlen"] = max(end - start for start, end in pairwise(row["cu_seqlens"]))
    names = ("input_ids", "position_ids", "cu_seqlens", "max_seqlen", "sample_ids")
    pq.write_table(_table(draft.rows, *names), _fresh(target) / "packs.parquet", **LAYOUT)
    (target / "args.json").write_text(json.dumps({"kernel": kernel}) + "\n", encoding="utf-8")


KERNELS = {
    "isolation.attention": "sdpa",
    "isolation.state": "gated_delta",
    "isolation.conv": "causal_conv",
}
"""Kernels that run without a GPU, by the code that each of them can earn."""


def _modelled(draft: Draft, drafts: dict[str, Draft], broken: Path) -> None:
    """What only a model shows: see args.json for the level and the model."""
    _isolation(draft, broken / "isolation.model", "")
    _arguments(broken / "isolation.model", level="model", model="sample_data/models/text")
    _close(_damaged("slot.count", drafts), broken / "model.slots")
    _arguments(broken / "model.slots", level="model", model="sample_data/models/qwen2_5_vl")


def _damaged(code: str, drafts: dict[str, Draft]) -> Draft:
    (fault,) = [fault for fault in FAULTS if fault.code == code]
    draft = copy.deepcopy(drafts[fault.base])
    fault.damage(draft)
    return draft


def _conserved(draft: Draft, target: Path) -> None:
    """Write a draft whose digests fit what it holds, as another packer of the samples would."""
    digests = [digest for row in draft.rows for digest in row["sample_digests"]]
    flat = np.frombuffer(bytes.fromhex("".join(digests)), np.uint8).reshape(-1, 16)
    draft.manifest["digest"] = spell_total(digest_total(flat))
    samples = len(digests)
    tokens = sum(row["length"] for row in draft.rows)
    packs, capacity = len(draft.rows), draft.manifest["options"]["capacity"]
    bound = -(-tokens // capacity)
    counted = {"packs": packs, "samples": samples, "tokens": tokens}
    counted |= {"lower_bound": bound, "excess": packs - bound, "fill": tokens / (packs * capacity)}
    draft.manifest["counts"] |= counted
    draft.manifest["inputs"][0]["samples"] = samples
    _close(draft, target)


def _against(draft: Draft, out: Path) -> None:
    """Packed samples beside those that they were made from, in good_text/ or sample.missing/."""
    broken = out / "broken"
    _close(copy.deepcopy(draft), out / "good_text")
    fewer = copy.deepcopy(draft)
    fewer.rows.pop()
    _conserved(fewer, broken / "sample.missing")
    other = copy.deepcopy(draft)
    row = other.rows[0]
    row["input_ids"][1] += 1
    table = pa.Table.from_pylist(other.rows, schema=other.schema)
    packs = to_rows(table, ModelFacts.from_json(other.manifest["model"])).packs()
    row["sample_digests"][0] = sample_digests(packs)[0].tobytes().hex()
    _conserved(other, broken / "sample.changed")
    _close(copy.deepcopy(draft), broken / "sample.extra")
    for code in ("sample.missing", "sample.changed"):
        _arguments(broken / code, against="sample_data/good_text")
    _arguments(broken / "sample.extra", against="sample_data/broken/sample.missing")


def _arguments(folder: Path, **flags: str) -> None:
    (folder / "args.json").write_text(json.dumps(flags) + "\n", encoding="utf-8")


WORDS = {
    "isolation.windows": "Two images share a window; a kernel shows which window sees which.",
    "isolation.model": "A foreign file lost one boundary; a tiny model shows who sees whom.",
    "model.slots": "One image slot is a text token: the model's own forward refuses the pack.",
    "sample.missing": "The last pack is gone, and the manifest says nothing of it.",
    "sample.changed": "A token was changed, and every digest made to fit.",
    "sample.extra": "It holds a pack that the dataset it is said to be made from does not.",
}
"""What was done, by the code that needs more than the folder to be found; flags in args.json."""


def _card(broken: Path) -> None:
    told = {fault.code: fault.damage for fault in FAULTS}
    told |= AROUND | {"shard.missing": _missing, "dataset.empty": _empty}
    words = {code: (damage.__doc__ or "").strip() for code, damage in told.items()}
    lost = (_isolation.__doc__ or "").strip()
    words |= {
        "media.missing": "The bytes of an embedded picture are gone.",
        "media.sha256": "A byte of an embedded picture was changed.",
    }
    words |= {code: f"{lost} Run with `--kernel {kernel}`." for code, kernel in KERNELS.items()}
    words |= {code: f"{text} See args.json." for code, text in WORDS.items()}
    lines = ["# Broken on purpose", "", "| folder | what was done |", "|---|---|"]
    lines += [f"| `{code}` | {words[code]} |" for code in sorted(words)]
    (broken / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write(out: Path) -> None:
    """Write the folders; what stood there under the same names is replaced.

    Args:
        out: sample_data, with chats.jsonl, media/ and models/ in place.
    """
    broken = out / "broken"
    shutil.rmtree(broken, ignore_errors=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        _good(out, folder)
        drafts: dict[str, Draft] = {}
        text, vision = out / "models" / "text", out / "models" / "qwen2_5_vl"
        models = {"text": text, "vision": vision, "weights": text, "padded": text}
        models["windows"] = _windowed(out, folder)
        for base, model in models.items():
            (folder / base).mkdir()
            options = {"loss_scale": base == "weights"}
            encoded = _encode(out, [*_records(base)], model, folder / base, **options)
            packed = _pack(encoded, folder / base / "packed", CAPACITY[base], PADDING.get(base))
            drafts[base] = _open(packed)
        for fault in FAULTS:
            _close(_damaged(fault.code, drafts), broken / fault.code)
        for code, damage in AROUND.items():
            _close(copy.deepcopy(drafts["text"]), broken / code)
            damage(broken / code)
        _missing(folder / "text" / "encoded", broken / "shard.missing")
        (folder / "media").mkdir()
        _embedded(out, broken, folder / "media")
        (folder / "none").mkdir()
        _empty(out, broken / "dataset.empty", folder / "none")
    _foreign(drafts["text"].rows, out / "good_foreign")
    for code, kernel in KERNELS.items():
        _isolation(copy.deepcopy(drafts["text"]), broken / code, kernel)
    _close(_damaged("vit.windows", drafts), broken / "isolation.windows")
    _arguments(broken / "isolation.windows", kernel="sdpa")
    _modelled(copy.deepcopy(drafts["text"]), drafts, broken)
    _against(drafts["text"], out)
    _card(broken)
