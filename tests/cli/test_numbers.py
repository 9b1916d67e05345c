"""Numbers that no job can mean are refused before any work."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner

from packcli.cli import cli
from packcli.contract.errors import InputError, UsageError
from packcli.pack.lengths import read_samples
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack

ENCODE = ["encode", "sample_data/chats.jsonl", "--model", "sample_data/models/qwen3_vl", "-o", "x"]


@pytest.mark.parametrize(
    "call",
    [
        [*ENCODE, "--fps", "nan"],
        [*ENCODE, "--fps", "inf"],
        [*ENCODE, "--fps", "1e300"],
        [*ENCODE, "--num-frames", "999999999"],
        [*ENCODE, "--max-reject-rate", "nan"],
        ["plan", "x", "--capacity", "99999999999999999999"],
        ["pack", "x", "-o", "y", "--capacity", "2147483648"],
        ["pack", "x:1e9", "-o", "y"],
        ["export", "x", "--to", "automodel", "-o", "y", "--pad-token", "99999999999"],
        ["verify", "x", "--level", "contract", "--kernel", "sdpa"],
    ],
)
def test_a_number_out_of_range_is_a_wrong_call(call):
    done = CliRunner().invoke(cli, call)
    refused = isinstance(done.exception, UsageError)
    assert done.exit_code == 2 or refused, (done.output, done.exception)


@pytest.mark.parametrize(
    "more",
    [{"open_packs": 3}, {"strategy": "sequential", "quality": "best"}],
)
def test_options_of_another_strategy_are_refused(more):
    with pytest.raises(UsageError, match="is for --strategy"):
        PlanOptions(**more)


def test_lengths_that_no_int32_holds_are_no_lengths(tmp_path):
    path = tmp_path / "long.npy"
    np.save(path, np.array([2**63], dtype=np.uint64))
    with pytest.raises(InputError, match="below 2"):
        read_samples(path)


def test_a_dataset_is_not_written_into_its_input(encoded):
    source = encoded()
    with pytest.raises(UsageError, match="inside an input"):
        pack([source], PlanOptions(), Writing(source / "inside"))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("lengths.txt", b"5\n10,6,5\n", "line 2 is '10,6,5', expected one whole number a line"),
        ("lengths.txt", b"5\n1.5\n", "line 2 is '1.5'"),
        ("lengths.json", b"[[1, 2], [3, 4]]", "found int64 of shape (2, 2)"),
        ("lengths.json", b"[0.5]", "expected one whole number a sample, found float64"),
    ],
)
def test_what_is_no_length_is_shown(tmp_path, name, content, told):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(told)):
        read_samples(path)
