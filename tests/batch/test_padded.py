"""What Megatron's `PackedSeqParams` takes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from packcli.batch import packed_seq_params
from packcli.contract.errors import InputError
from packcli.contract.offsets import Offsets


@dataclass
class Row:
    samples: Offsets
    padded: Offsets | None


def row(samples, padded):
    held = None if padded is None else Offsets.from_values(padded)
    return Row(Offsets.from_values(samples), held)


def test_samples_begin_their_places():
    # samples of 5, 4 and 3 tokens, padded to multiples of 4, and a tail of 4 behind the last
    first = row([0, 5, 8, 12, 15, 20], [0, 8, 12, 20])
    params = packed_seq_params([first, row([0, 4], [0, 4])])
    assert params["qkv_format"] == "thd"
    for side in ("q", "kv"):
        assert params[f"cu_seqlens_{side}"].tolist() == [0, 5, 9, 12, 16]
        assert params[f"cu_seqlens_{side}_padded"].tolist() == [0, 8, 12, 20, 24]
        assert params[f"max_seqlen_{side}"] == 8
    assert params["cu_seqlens_q"] is not params["cu_seqlens_kv"]


def test_rows_that_are_not_padded_are_refused():
    with pytest.raises(InputError, match="pack with --pad-sample-multiple"):
        packed_seq_params([row([0, 4, 8], None)])


@pytest.mark.parametrize("padded", [[0, 6, 8], [0, 4, 12]])
def test_places_that_start_inside_a_sample_are_refused(padded):
    with pytest.raises(InputError, match="does not start where samples do"):
        packed_seq_params([row([0, 4, 8], padded)])
