from __future__ import annotations

import multiprocessing
import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor
from operator import itemgetter

import numpy as np
import pyarrow.parquet as pq
import pytest

from packcli.contract.errors import InputError
from packcli.train import Pack, PackDataset


def test_rows_are_those_of_the_shards(made):
    packed = made("qwen2_5_vl").packed
    table = pq.read_table(packed / "data").to_pylist()
    dataset = PackDataset(packed)
    assert len(dataset) == len(table)
    for pack, row in zip(dataset, table, strict=False):
        assert pack.input_ids.tolist() == row["input_ids"]
        assert pack.labels.tolist() == row["labels"]
        assert pack.mrope_position_ids.tolist() == row["mrope_position_ids"]
        assert pack.samples.values.tolist() == row["cu_seqlens"]
        assert pack.image_grid_thw.tolist() == row["image_grid_thw"]
        assert pack.video_grid_thw.tolist() == row["video_grid_thw"]
        assert pack.second_per_grid_ts.tolist() == row["second_per_grid_ts"]
        assert [medium.uri for medium in pack.media] == [m["uri"] for m in row["media"]]
        assert list(pack.sample_ids) == row["sample_ids"]


def test_row_of_other_readers_reads_the_same(made):
    packed = made("qwen3_vl").packed
    for pack, row in zip(
        PackDataset(packed), pq.read_table(packed / "data").to_pylist(), strict=False
    ):
        other = Pack.from_row(row)
        assert other.media == pack.media
        assert np.array_equal(other.mrope_position_ids, pack.mrope_position_ids)
        assert np.array_equal(other.video_grid_thw, pack.video_grid_thw)


def test_any_order_over_shards_and_groups(many):
    dataset = PackDataset(many, kept_groups=1)
    order = np.random.default_rng(0).permutation(len(dataset)).tolist()
    assert [dataset[n].sample_ids[0] for n in order] == [f"s{n}" for n in order]
    assert dataset[-1].sample_ids == ("s100",)
    assert dataset.lengths().tolist() == [len(dataset[n]) for n in range(101)]
    assert dataset.costs().tolist() == [len(dataset[n]) ** 2 for n in range(101)]
    for number in (101, -102):
        with pytest.raises(IndexError):
            dataset[number]


def test_iteration_ends(many):
    assert sum(1 for _ in PackDataset(many)) == 101


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_used_before_and_in_a_worker(many, method):
    dataset = PackDataset(many)
    sixty = itemgetter(60)  # a spawned process need not be able to import the tests
    assert sixty(dataset).sample_ids[0] == "s60"
    # not a Pool: that one waits for ever for a task whose process has died
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, context) as pool:
        assert pool.submit(sixty, dataset).result(timeout=120).sample_ids[0] == "s60"


def test_pickle_holds_no_rows(many):
    dataset = PackDataset(many)
    small = len(pickle.dumps(dataset))
    for number in range(101):
        dataset[number]
    assert len(pickle.dumps(dataset)) == small


def test_few_groups_stay_decoded(many):
    dataset = PackDataset(many, kept_groups=3)
    list(dataset)
    assert len(dataset.source._groups) == 3


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda path: (path / "_SUCCESS").unlink(), "not complete"),
        (lambda path: (path / "manifest.json").unlink(), "no manifest"),
        (lambda path: (path / "data" / "train-00001-of-00003.parquet").unlink(), "missing"),
        (lambda path: (path / "data" / "train-00001-of-00003.parquet").write_bytes(b"x"), "size"),
    ],
)
def test_broken_folder_is_refused(many, tmp_path, break_it, says):
    shutil.copytree(many, tmp_path / "copy")
    break_it(tmp_path / "copy")
    with pytest.raises(InputError, match=says):
        PackDataset(tmp_path / "copy")


def test_damaged_page_is_named(many, tmp_path):
    path = shutil.copytree(many, tmp_path / "copy") / "data" / "train-00000-of-00003.parquet"
    bytes_ = bytearray(path.read_bytes())
    place = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    bytes_[place + 40] ^= 0xFF
    path.write_bytes(bytes_)
    with pytest.raises(InputError, match="train-00000-of-00003"):
        PackDataset(tmp_path / "copy")[0]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"labels": [1]}, "input_ids"),
        ({"input_ids": [1, 2], "labels": [1, 2]}, "boundaries"),
        ({"input_ids": [1, 2], "labels": [1, 2], "cu_seqlens": [0, 1]}, "cut 2 tokens"),
        ({"input_ids": [1, 2], "labels": [1, 2], "cu_seqlens": [0, 0, 2]}, "cut 2 tokens"),
        ({"input_ids": [1, 2], "labels": [1, 2], "cu_seqlens": [0, 2],
          "mrope_position_ids": [[0, 1]]}, "3 planes"),
        ({"input_ids": [1, 2], "labels": [1, 2], "cu_seqlens": [0, 2],
          "image_grid_thw": [[1, 2, 2]]}, "more grids than media"),
    ],
)  # fmt: skip
def test_row_that_is_no_pack(row, says):
    with pytest.raises(InputError, match=says):
        Pack.from_row(row)
