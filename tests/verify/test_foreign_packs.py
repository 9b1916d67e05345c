"""Packs that ms-swift made, read as rows and checked by the rules."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from packcli.batch import compile_boundaries
from packcli.contract.model import Rope
from packcli.contract.rows import Cells, Rows
from packcli.contract.rules import check
from packcli.families import open_family
from packcli.verify.bridge import VARLEN, Branch, check_bridge

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")


def cells(values, dtype="list<int32>"):
    flat = np.asarray(values, dtype=dtype.removeprefix("list<").removesuffix(">"))
    return Cells(flat, np.array([0, flat.size]), None, dtype)


def grids(values):
    array = np.asarray(values, dtype=np.int32).reshape(-1, 3)
    inner = np.arange(0, array.size + 1, 3)
    return Cells(array.reshape(-1), np.array([0, len(array)]), inner, "list<list<int32>>")


def rows_of(batch, facts, **changes):
    """One row from what ms-swift's collator gives; boundaries from its own cu_seq_lens_q."""
    planes = np.asarray(batch["position_ids"], dtype=np.int32)[:, 0]
    tokens = planes.shape[1]
    columns = {
        "input_ids": cells(batch["input_ids"][0]),
        "labels": cells(batch["labels"][0]),
        "position_ids": cells(batch["text_position_ids"][0]),
        "mrope_position_ids": Cells(
            planes.reshape(-1),
            np.array([0, 3]),
            np.arange(4) * tokens,
            "list<list<int32>>",
        ),
        "mm_token_type_ids": cells(batch["mm_token_type_ids"][0], "list<int8>"),
        "cu_seqlens": cells(batch["cu_seq_lens_q"]),
        "seq_lengths": cells(np.diff(batch["cu_seq_lens_q"])),
        "max_seqlen": Cells(np.array([batch["max_length_q"]], np.int32), None, None, "int32"),
        "image_grid_thw": grids(batch["image_grid_thw"]),
        "video_grid_thw": grids(batch["video_grid_thw"]),
    }
    if "second_per_grid_ts" in batch:
        columns["second_per_grid_ts"] = cells(batch["second_per_grid_ts"], "list<float32>")
    return Rows(1, columns | changes, facts)


@pytest.fixture(scope="module", params=FAMILIES)
def dump(request, shared):
    models = shared / "models"
    path = models / "reference" / f"{request.param}_packed.json"
    # the directory of Qwen2.5-VL stands for Qwen2-VL too; videos have no time there
    directory = models / ("qwen2_5_vl" if request.param == "qwen2_vl" else request.param)
    facts = open_family(directory).facts
    if request.param == "qwen2_vl":
        facts = replace(facts, rope=Rope.GRID)
    return json.loads(path.read_text("utf-8")), facts


def test_packs_of_ms_swift_keep_the_contract_but_for_named_policies(dump):
    batch, facts = dump[0]["batch"], dump[1]
    checked = check(rows_of(batch, facts))
    found = {(rule.code, hit.sample) for rule, hit in checked.hits}
    assert found == set(), found
    # what its collator does not carry is said to be skipped, not passed over
    assert {"sample.digest", "sample.duplicate", "media.span"} <= checked.skipped.keys()
    ran = {"slot.count", "slot.grid_order", "mrope.sample", "mm_type.value", "label.first"}
    assert not ran & checked.skipped.keys()


def test_such_a_batch_needs_its_text_plane_put_in_front(dump):
    """Where ms-swift differs by policy: the text plane is an argument of its own."""
    batch, facts = dump[0]["batch"], dump[1]
    stored = np.array(batch["cu_seq_lens_q"])
    names = ("input_ids", "position_ids", "image_grid_thw", *VARLEN)
    passed = {name: np.array(batch[name]) for name in names}
    flash = check_bridge(passed, "flash_attention_2", facts)
    assert flash.branch is Branch.KWARGS
    # and no seq_idx, which linear attention needs besides
    assert flash.apart(stored) == (not facts.linear_attention)
    assert ("no seq_idx: the convolution reads the sample before" in flash.warnings) == (
        facts.linear_attention
    )
    assert not check_bridge(passed, "sdpa", facts).apart(stored)
    both = np.concatenate([np.array(batch["text_position_ids"])[None], passed["position_ids"]])
    mended = check_bridge(passed | {"position_ids": both}, "sdpa", facts)
    assert mended.branch is Branch.PACKED_MASK
    assert mended.attention.tolist() == stored.tolist()


def test_boundaries_are_stated_alike_in_four_ways(dump):
    told, _ = dump
    batch = told["batch"]
    stored = batch["cu_seq_lens_q"]
    assert np.diff(stored).tolist() == told["lengths"]
    assert compile_boundaries(batch["text_position_ids"], "zero").tolist() == stored
    assert compile_boundaries(batch["text_position_ids"], "minimum").tolist() == stored
    assert max(told["lengths"]) == batch["max_length_q"]


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("position.reset", "merged"),
        ("label.first", "supervised"),
        ("mrope.sample", "shifted"),
        ("mm_type.value", "typed"),
    ],
)
def test_damage_to_such_packs_is_found(code, change, dump):
    batch, facts = dump[0]["batch"], dump[1]
    second = batch["cu_seq_lens_q"][1]
    rows = rows_of(batch, facts)
    planes = rows.cells["mrope_position_ids"]
    labels = np.array(batch["labels"][0])
    labels[second] = batch["input_ids"][0][second]
    moved = planes.values + (np.arange(planes.values.size) >= planes.values.size - 5)
    typed = np.array(batch["mm_token_type_ids"][0])
    typed[0] = 1
    cut = np.delete(batch["cu_seq_lens_q"], 1)
    changes = {
        "merged": {
            "cu_seqlens": cells(cut),
            "seq_lengths": cells(np.diff(cut)),
        },
        "supervised": {"labels": cells(labels)},
        "shifted": {
            "mrope_position_ids": Cells(
                moved.astype(np.int32), planes.rows, planes.inner, planes.dtype
            )
        },
        "typed": {"mm_token_type_ids": cells(typed, "list<int8>")},
    }
    checked = check(rows_of(batch, facts, **changes[change]))
    assert {rule.code for rule, _ in checked.hits} == {code}
