"""Targets of tokens: read back, and against the trainers' own code."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from packcli.export.targets.llamafactory import NO_SAMPLE
from tests.contract.making import MODELS
from tests.export.conftest import packs_in, refused_in, samples_of


def rows_in(output):
    return [
        row for path in sorted(output.glob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def refused_ids(output):
    return {line["sample"] for line in refused_in(output)}


def with_media(path, kind=None):
    found = set()
    for group in packs_in(path):
        owners = group.axes["medium"].segment_ids().tolist()
        kinds = group.columns["media.kind"].tolist()
        held = {o for o, k in zip(owners, kinds, strict=True) if kind in (None, k)}
        found |= {group.columns["sample_ids"][sample] for sample in held}
    return found


def test_megatron_bridge_reads_what_is_learnt(packed, exported):
    output, summary = exported(packed, "megatron-bridge")
    assert refused_ids(output) == with_media(packed)
    expected = samples_of(packed, refused_ids(output))
    rows = rows_in(output)
    assert len(rows) == len(expected) > 1
    assert summary.samples == sum(map(len, expected))
    for row, samples in zip(rows, expected, strict=True):
        assert list(row) == ["input_ids", "seq_start_id", "loss_mask"]
        bounds = [*row["seq_start_id"], len(row["input_ids"])]
        # gpt_sft takes tokens [:-1], labels [1:] and the mask as it stands, without its last
        for (start, stop), (_, ids, labels) in zip(pairwise(bounds), samples, strict=True):
            assert row["input_ids"][start:stop] == ids
            mask = row["loss_mask"][start : stop - 1]
            assert [t for t, m in zip(ids[1:], mask, strict=True) if m] == [
                label for label in labels if label != -100
            ]
            assert row["loss_mask"][stop - 1] == 0


def test_automodel_rows_are_shifted_and_equally_long(packed, exported):
    output, _ = exported(packed, "automodel", pad_token=7)
    expected = samples_of(packed, refused_ids(output))
    rows = rows_in(output)
    assert {len(row["input_ids"]) for row in rows} == {2048}
    for row, samples in zip(rows, expected, strict=True):
        ids = [token for _, sample, _ in samples for token in sample[:-1]]
        labels = [label for _, _, sample in samples for label in sample[1:]]
        rest = 2048 - len(ids)
        assert row["input_ids"] == ids + [7] * rest
        assert row["labels"] == labels + [-100] * rest
        assert row["seq_lens"] == [len(sample) - 1 for _, sample, _ in samples]
        assert row["seq_lens_padded"][:-1] == row["seq_lens"][:-1]
        assert sum(row["seq_lens_padded"]) == 2048
        last = len(samples[-1][1]) - 1
        assert row["position_ids"][len(ids) - last :] == list(range(last + rest))


MEGATRON = """
import ast, glob, types
import numpy as np, pyarrow.parquet as pq, torch
tree = ast.parse(open(given["package"] + "/megatron/bridge/data/datasets/sft.py").read())
(theirs,) = [n for n in tree.body if getattr(n, "name", "") == "GPTSFTPackedDataset"]
theirs.bases = []
theirs.body = [n for n in theirs.body if getattr(n, "name", "") != "__init__"]
space = {"np": np, "torch": torch}
compiled = compile(ast.Module([theirs], []), "sft", "exec")
exec(compiled, space)
class Ours(space["GPTSFTPackedDataset"]):
    samples_mapping = None
    answer_only_loss = True
    pad_to_max_length = pad_cu_seqlens = return_cu_seqlen = False
    max_seq_length, pad_seq_length_to_mult, _pad_seq_to_mult = 4096, 1, 1
    tokenizer = types.SimpleNamespace(eos_id=-1)
    def _ceil_to_nearest(self, n, m):
        return n
    def _create_attention_mask(self, length):
        return torch.ones(1)
    def _collate_item(self, items, max_length, pad_id):
        return [[*one, *[pad_id] * (max_length - len(one))] for one in items]
ours, files = Ours(), sorted(glob.glob(given["output"] + "/*.parquet"))
ours.indexed_dataset = [row for path in files for row in pq.read_table(path).to_pylist()]
learnt = []
for number in range(len(ours.indexed_dataset)):
    batch = ours.collate_fn([ours[number]])
    learnt.append(batch["labels"][batch["loss_mask"] == 1].tolist())
print(json.dumps(learnt))
"""


@pytest.mark.slow
def test_megatron_bridge_learns_the_labels(packed, exported, consumer):
    output, _ = exported(packed, "megatron-bridge")
    package = f"{os.environ.get('PACKCLI_CONSUMERS')}/megatron-bridge"
    learnt = consumer("megatron-bridge", MEGATRON, output=str(output), package=package)
    packs = samples_of(packed, refused_ids(output))
    assert learnt == [
        [label for _, _, labels in pack for label in labels if label != -100] for pack in packs
    ]


AUTOMODEL = """
import glob, pyarrow.parquet as pq
from nemo_automodel.components.datasets.llm.packed_sequence import pack_dataset
from nemo_automodel.components.datasets.utils import packed_sequence_thd_collater
files = sorted(glob.glob(given["output"] + "/*.parquet"))
rows = [row for path in files for row in pq.read_table(path).to_pylist()]
batch = packed_sequence_thd_collater([dict(row) for row in rows])
shapes = {name: list(value.shape) for name, value in batch.items() if name != "qkv_format"}
differ = []
for row, pack in zip(rows, given["packs"], strict=True):
    shifted = [{"input_ids": ids[:-1], "labels": labels[1:]} for _, ids, labels in pack]
    (theirs,) = pack_dataset(shifted, None, 2048, padding_idx=7).to_list()
    differ += [name for name in theirs if list(theirs[name]) != row[name]]
print(json.dumps([shapes, differ]))
"""


@pytest.mark.slow
def test_automodel_packs_the_same_rows(packed, exported, consumer):
    output, _ = exported(packed, "automodel", pad_token=7)
    packs = samples_of(packed, refused_ids(output))
    shapes, differ = consumer("nemo-automodel", AUTOMODEL, output=str(output), packs=packs)
    assert differ == []
    assert shapes["labels"] == [len(packs), 2048]
    assert shapes["seq_lens"] == [len(packs), max(map(len, packs))]


def expected_llamafactory(samples, images):
    ids = [token for _, sample, _ in samples for token in sample]
    width, owners = 2049, [n for n, (name, *_) in enumerate(samples) for _ in images.get(name, ())]
    rest = width - len(ids)
    sizes = [len(sample) for _, sample, _ in samples]
    return {
        "input_ids": ids + [0] * rest,
        "attention_mask": [n for n, size in enumerate(sizes, 1) for _ in range(size)] + [0] * rest,
        "position_ids": [n for size in sizes for n in range(size)] + [0] * rest,
        "labels": [label for _, _, one in samples for label in one] + [-100] * rest,
        "images": [uri for name, *_ in samples for uri in images.get(name, ())] or None,
        "videos": None,
        "audios": None,
        "packing_params": {
            "sequence_boundaries": [0, *np.cumsum(sizes).tolist(), width],
            "image_subseq_ids": owners or [NO_SAMPLE],
            "video_subseq_ids": [NO_SAMPLE],
            "audio_subseq_ids": [NO_SAMPLE],
            "right_padding_length": rest,
        },
    }


def images_in(path):
    found = {}
    for group in packs_in(path):
        media = group.axes["medium"]
        for sample, span in enumerate(media.slices()):
            found[group.columns["sample_ids"][sample]] = group.columns["media.uri"][span].tolist()
    return found


def test_llamafactory_loads_rows_with_segments_and_images(packed, exported):
    output, _ = exported(packed, "llamafactory", shard_bytes=60_000)
    assert with_media(packed, "video") < refused_ids(output)
    assert len(list(output.glob("*.arrow"))) > 1
    rows = datasets.load_from_disk(str(output)).to_list()
    images = images_in(packed)
    packs = samples_of(packed, refused_ids(output))
    assert rows == [expected_llamafactory(samples, images) for samples in packs]
    assert any(row["images"] for row in rows)
    several = [row["packing_params"]["image_subseq_ids"] for row in rows]
    assert any(len(set(ids)) > 1 for ids in several)


LLAMAFACTORY = """
import importlib.util, sys, types
from types import SimpleNamespace
class Stub(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        return name
for name in ("peft", "peft.utils", "trl"):
    sys.modules[name] = Stub(name)
root = importlib.util.find_spec("llamafactory").submodule_search_locations[0]
for name in ("llamafactory.data", "llamafactory.data.processor"):
    package = types.ModuleType(name)
    package.__path__ = [root + "/" + "/".join(name.split(".")[1:])]
    sys.modules[name] = package
from llamafactory.data.processor import supervised
class Ours(supervised.PackedSupervisedDatasetProcessor):
    def __init__(self):
        self.data_args = SimpleNamespace(cutoff_len=2048, neat_packing=True)
        self.tokenizer = SimpleNamespace(pad_token_id=0)
    def _encode_data_example(self, prompt, **_):
        return prompt[0]
supervised.greedy_knapsack = lambda lengths, _: [list(lengths)]
rows = []
for pack in given["packs"]:
    # equal lengths are taken from the back: turn each length's samples round
    by = {}
    for one in pack: by.setdefault(len(one[1]), []).append(one)
    turned = [by[len(one[1])].pop() for one in pack]
    held = [given["images"].get(name) or None for name, *_ in turned]
    none = [None] * len(pack)
    made = Ours().preprocess_dataset({
        "_prompt": [[(ids, labels)] for _, ids, labels in turned], "_response": [[0]] * len(pack),
        "_system": none, "_tools": none, "_images": held, "_videos": none, "_audios": none})
    rows.append({name: values[0] for name, values in made.items()})
print(json.dumps(rows))
"""


@pytest.mark.slow
def test_llamafactory_packs_the_same_rows(packed, exported, consumer):
    output, _ = exported(packed, "llamafactory")
    packs = samples_of(packed, refused_ids(output))
    theirs = consumer("llamafactory", LLAMAFACTORY, packs=packs, images=images_in(packed))
    assert datasets.load_from_disk(str(output)).to_list() == theirs


def mds_rows(output):
    """Read shards by the format's description alone."""
    index = json.loads((output / "index.json").read_text())
    for shard in index["shards"]:
        data = (output / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        count = int(np.frombuffer(data[:4], np.uint32)[0])
        ends = np.frombuffer(data[4 : 4 * (count + 2)], np.uint32)
        assert (count, int(ends[-1])) == (shard["samples"], len(data))
        for start, stop in pairwise(ends.tolist()):
            yield decoded(shard, data[start:stop])


def decoded(shard, sample):
    sizes = np.frombuffer(sample[: 4 * len(shard["column_names"])], np.uint32)
    place, row = 4 * len(sizes), {}
    for name, kind, size in zip(
        shard["column_names"], shard["column_encodings"], sizes.tolist(), strict=True
    ):
        data, place = sample[place : place + size], place + size
        row[name] = json.loads(data) if kind == "json" else array(data, kind.split(":")[1])
    return row


def array(data, dtype):
    dims, width = data[0] >> 2, 1 << data[0] % 4
    shape = np.frombuffer(data[1 : 1 + dims * width], f"<u{width}")
    return np.frombuffer(data[1 + dims * width :], dtype).reshape(shape)


def test_mds_holds_every_column_of_a_pack(packed, exported):
    output, _ = exported(packed, "mds", shard_bytes=50_000)
    rows = list(mds_rows(output))
    expected = [
        row
        for path in sorted((packed / "data").iterdir())
        for row in pq.read_table(path).to_pylist()
    ]
    assert len(list(output.glob("*.mds"))) > 1
    assert len(rows) == len(expected)
    for row, stored in zip(rows, expected, strict=True):
        for name in row:
            field, _, inner = name.partition(".")
            want = [one[inner] for one in stored[field]] if inner else stored[field]
            got = row[name] if isinstance(row[name], list) else row[name].tolist()
            assert got == want, name


MDS = """
import numpy as np
from streaming.base.format.mds.writer import MDSWriter
from streaming.base.format.mds.reader import MDSReader
index = json.load(open(given["output"] + "/index.json"))
same, count = [], 0
columns = dict(zip(index["shards"][0]["column_names"], index["shards"][0]["column_encodings"]))
limit = index["shards"][0]["size_limit"]
with MDSWriter(columns=columns, out=given["again"], size_limit=limit) as out:
    for shard in index["shards"]:
        reader = MDSReader.from_json(given["output"], None, shard)
        for place in range(reader.size):
            out.write(reader[place])
            count += 1
for shard in index["shards"]:
    name = shard["raw_data"]["basename"]
    mine = open(given["output"] + "/" + name, "rb").read()
    same.append(open(given["again"] + "/" + name, "rb").read() == mine)
same.append(json.load(open(given["again"] + "/index.json")) == index)
print(json.dumps([count, same]))
"""


@pytest.mark.slow
def test_mosaicml_reads_the_shards_and_writes_the_same_bytes(packed, exported, consumer, tmp_path):
    output, summary = exported(packed, "mds")
    again = str(tmp_path / "again")
    count, same = consumer("mosaicml-streaming", MDS, output=str(output), again=again)
    assert count == summary.packs
    assert all(same)


def test_weights_are_refused_where_there_is_no_place(tmp_path):
    from dataclasses import replace

    from packcli.export.refusals import unpredictable, weighted, without
    from tests.contract.making import make_packs

    facts = replace(MODELS["text"], loss_scale=True)
    packs = make_packs(np.random.default_rng(0), facts, packs=4)
    learnt = packs.columns["labels"] != -100
    scale = learnt.astype(np.float32)
    packs = replace(packs, columns={**packs.columns, "loss_scale": scale})
    assert weighted(packs) == {}
    token = int(np.flatnonzero(learnt)[0])
    scale[token] = 0.5
    (sample,) = weighted(packs)
    assert packs.tokens.values[sample] <= token < packs.tokens.values[sample + 1]
    kept = without(packs, weighted(packs))
    assert kept.members.total == packs.members.total - 1
    short = np.flatnonzero(packs.tokens.lengths == 1).tolist()
    assert sorted(unpredictable(packs)) == short
