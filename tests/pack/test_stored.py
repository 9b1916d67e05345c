"""Plans in files, and packs filled from them; mixtures of datasets."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest

from packcli.contract.errors import IncompleteError, InputError, UsageError
from packcli.contract.packs import Packs
from packcli.pack.material import gathered
from packcli.pack.options import PlanOptions, Samples
from packcli.pack.run import Writing, pack
from packcli.pack.sources import open_sources
from packcli.pack.stored import plan_lengths, plan_material, read_stored, write_stored
from packcli.shards.manifest import read_manifest
from packcli.shards.reader import Shard
from packcli.verify.run import verify

OPTIONS = PlanOptions(1024)


def read(dataset):
    paths = sorted((dataset / "data").iterdir())
    facts = read_manifest(dataset).model
    return Packs.concatenated(
        [rows.packs() for path in paths for rows in Shard.open(path).groups(facts)]
    )


def planned(path, inputs, options=OPTIONS, epochs=None):
    material = gathered(inputs, open_sources(inputs), options, epochs=epochs)
    plan, stored = plan_material(material, options, [one.name for one in inputs])
    write_stored(path, stored, material.index.samples, material)
    return plan


def filled(path, inputs, output, **writing):
    stored = read_stored(path)
    return pack(
        inputs, stored.options, Writing(output, **writing), epochs=stored.epochs, stored=stored
    )


def shards_of(dataset):
    return [path.read_bytes() for path in sorted((dataset / "data").iterdir())]


@pytest.mark.parametrize("name", ["plan.parquet", "plan.json"])
def test_a_filled_plan_is_what_pack_would_have_made(encoded, tmp_path, name):
    plan = planned(tmp_path / name, [encoded()])
    summary = filled(tmp_path / name, [encoded()], tmp_path / "filled")
    pack([encoded()], OPTIONS, Writing(tmp_path / "packed"))
    assert (summary.packs, summary.excess) == (plan.packs, plan.excess)
    assert shards_of(tmp_path / "filled") == shards_of(tmp_path / "packed")
    assert verify([tmp_path / "filled"]).passed


def test_a_plan_is_filled_in_bounded_memory(encoded, tmp_path):
    planned(tmp_path / "plan.parquet", [encoded()])
    one = filled(tmp_path / "plan.parquet", [encoded()], tmp_path / "one")
    small = {"shard_bytes": 3 * 5000, "window_tokens": 2000}
    many = filled(tmp_path / "plan.parquet", [encoded()], tmp_path / "many", workers=2, **small)
    assert (one.shards, many.packs) == (1, one.packs)
    assert many.shards > 2
    ids = [read(tmp_path / name).columns["sample_ids"].tolist() for name in ("one", "many")]
    assert ids[0] == ids[1]


def test_rows_of_a_plan_name_samples_where_they_lie(encoded, tmp_path):
    plan = planned(tmp_path / "plan.parquet", [encoded()])
    table = pq.read_table(tmp_path / "plan.parquet").to_pydict()
    assert len(table["pack"]) == 84
    assert table["pack"] == sorted(table["pack"])
    assert Counter(table["pack"]) == dict(enumerate(plan.members.lengths.tolist()))
    shards = {
        path.name: Shard.open(path).whole(["sample_ids", "seq_lengths"]).cells
        for path in (encoded() / "data").iterdir()
    }
    for row in range(84):
        cells = shards[table["shard"][row]]
        assert cells["sample_ids"].values[table["row"][row]] == table["sample_id"][row]
        assert cells["seq_lengths"].values[table["row"][row]] == table["length"][row]
    starts = [row for row in range(84) if table["position"][row] == 0]
    assert len(starts) == plan.packs
    assert set(table["dataset"]) == {0}


def test_a_plan_of_other_data_is_refused(encoded, tmp_path):
    planned(tmp_path / "plan.parquet", [encoded()])
    with pytest.raises(InputError, match="made for other data"):
        filled(tmp_path / "plan.parquet", [encoded("text")], tmp_path / "out")
    twice = [tmp_path / "first", tmp_path / "second"]
    for path in twice:
        pack([encoded()], OPTIONS, Writing(path))
    manifest = tmp_path / "second" / "manifest.json"
    document = json.loads(manifest.read_text())
    document["inputs"][0]["inputs"][0]["sha256"] = "0" * 64
    manifest.write_text(json.dumps(document))
    with pytest.raises(InputError, match="plan is of 1 datasets, 2 are named"):
        filled(tmp_path / "plan.parquet", twice, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda packs: packs[0].append(packs[1][0]), "more often than it is used"),
        (lambda packs: packs.pop(), "leaves out"),
        (lambda packs: packs[0].append(84), "samples that its inputs do not hold"),
        (lambda packs: packs[0].append(-1), "packs or samples are missing"),
        (lambda packs: packs.append([]), "packs or samples are missing"),
        (lambda packs: packs[0].append("x"), "no plan can be read"),
    ],
)
def test_an_edited_plan_is_refused(encoded, tmp_path, change, message):
    planned(tmp_path / "plan.json", [encoded()])
    document = json.loads((tmp_path / "plan.json").read_text())
    change(document["packs"])
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        filled(tmp_path / "plan.json", [encoded()], tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_samples", 1, r"pack 0 of the plan holds \d+ samples, its options allow 1;"),
        ("max_images", 1, r"pack \d+ of the plan holds \d+ images, its options allow 1;"),
        ("max_patches", 1, r"pack \d+ of the plan holds \d+ patches, its options allow 1;"),
        ("capacity", 900, r"pack 0 of the plan holds \d+ tokens, its options allow 900;"),
        ("pad_sample_multiple", 512, r"pack 0 of the plan holds \d+ tokens, .* allow 1024;"),
        ("capacity", 1e9, "options.capacity is 1000000000.0, no whole number"),
        ("capacity", 2**40, "options.capacity is 1099511627776, no whole number"),
        ("capacity", None, "options.capacity is missing"),
        ("pad_sample_multiple", True, "options.pad_sample_multiple is True"),
        ("seed", -1, "options.seed is -1"),
        ("ranks", 4, "balance and ranks go together"),
        ("strategy", "foo", "no strategy is called 'foo'"),
        ("strategy", 3, "options.strategy is 3, no text"),
        ("quality", "good", "quality is 'good'"),
        ("speed", 3, "options.speed is no option"),
    ],
)
def test_a_plan_that_breaks_its_own_options_is_refused(encoded, tmp_path, name, value, message):
    planned(tmp_path / "plan.json", [encoded()])
    document = json.loads((tmp_path / "plan.json").read_text())
    document["options"][name] = value
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        filled(tmp_path / "plan.json", [encoded()], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"packs": [[10**30]]}, "no sample number"),
        ({"packs": [[1.5]]}, "1.5 is no sample number"),
        ({"packs": [[None]]}, "null is no sample number"),
        ({"packs": [[True]]}, "true is no sample number"),
        ({"packs": [3]}, "no list of packs"),
        ({"packs": None}, "no list of packs"),
        ({"inputs": [3]}, r"inputs\[0\] is 3, no object"),
        ({"inputs": {}}, r"inputs is \{\}, no list"),
        ({"inputs": [{"name": "a"}]}, r"inputs\[0\].fingerprint is missing, no text"),
        ({"epochs": "2"}, "epochs is '2', no list"),
        ({"epochs": [float("nan")]}, "epochs holds nan"),
        ({"epochs": ["1"]}, "epochs holds '1', no number"),
        ({"epochs": [1, 2]}, "epochs has 2 numbers for 1 inputs"),
        ({"options": 3}, "options is 3, no object"),
        ({"plan": None}, "plan is missing"),
        ({"format": ["x"]}, "format .* not packcli-plan/1"),
    ],
)
def test_every_field_of_a_plan_is_checked(encoded, tmp_path, change, message):
    planned(tmp_path / "plan.json", [encoded()])
    document = json.loads((tmp_path / "plan.json").read_text()) | change
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        read_stored(tmp_path / "plan.json")


def test_rows_of_a_plan_name_packs_in_their_order(encoded, tmp_path):
    planned(tmp_path / "plan.parquet", [encoded()])
    table = pq.read_table(tmp_path / "plan.parquet")
    far = np.array(table["pack"].to_numpy())
    far[-1] = 2**60
    pq.write_table(
        table.set_column(0, table.schema.field("pack"), [far]), tmp_path / "plan.parquet"
    )
    with pytest.raises(InputError, match="numbers of packs that no row names"):
        read_stored(tmp_path / "plan.parquet")


def test_what_is_no_plan_is_refused(tmp_path, encoded):
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "other.json").write_text('{"packs": [[0]], "format": "other"}')
    for name in ("list.json", "other.json", "none.json"):
        with pytest.raises(InputError):
            read_stored(tmp_path / name)
    with pytest.raises(InputError, match="no plan can be read"):
        read_stored(next((encoded() / "data").iterdir()))


def test_lengths_alone_make_a_plan_that_nothing_can_be_filled_from(encoded, tmp_path):
    samples = Samples(np.array([10, 6, 5, 4, 3, 2]))
    _, stored = plan_lengths(samples, PlanOptions(10))
    for name in ("plan.parquet", "plan.json"):
        write_stored(tmp_path / name, stored, samples, None)
        back = read_stored(tmp_path / name)
        assert (back.order.tolist(), back.counts.tolist()) == ([0, 1, 3, 2, 4, 5], [1, 2, 3])
        with pytest.raises(InputError, match="plan is of 0 datasets"):
            filled(tmp_path / name, [encoded()], tmp_path / "out")
    with pytest.raises(IncompleteError, match="no/plan"):
        write_stored(tmp_path / "no" / "plan.json", stored, samples, None)


def test_samples_that_do_not_fit_are_rejected_by_a_filled_plan(encoded, tmp_path):
    planned(tmp_path / "plan.parquet", [encoded()], PlanOptions(300))
    summary = filled(tmp_path / "plan.parquet", [encoded()], tmp_path / "out")
    expected = pack([encoded()], PlanOptions(300), Writing(tmp_path / "packed"))
    assert summary.reasons == expected.reasons
    lines = [(tmp_path / name / "rejected.jsonl").read_text() for name in ("out", "packed")]
    assert sorted(lines[0].splitlines()) == sorted(lines[1].splitlines())


def test_a_mixture_uses_whole_epochs_and_a_part(encoded, tmp_path):
    def run(name, epochs, seed, **writing):
        options = PlanOptions(1024, seed=seed)
        pack([encoded()], options, Writing(tmp_path / name, **writing), epochs=epochs)
        return read(tmp_path / name).columns["sample_ids"].tolist()

    ids = run("first", [2.25], 1)
    every = set(read(encoded()).columns["sample_ids"].tolist())
    counts = Counter(ids)
    assert set(counts) == every
    assert set(counts.values()) == {2, 3}
    assert len(ids) == 2 * 84 + 21
    assert run("again", [2.25], 1) == ids
    other = run("other", [2.25], 2)
    assert Counter(other) != counts
    small = {"shard_bytes": 3 * 5000, "window_tokens": 2000, "workers": 2}
    assert Counter(run("small", [2.25], 1, **small)) == counts
    for name in ("first", "small"):
        told = read_manifest(tmp_path / name).inputs[0]
        assert (told["epochs"], told["drawn"], told["samples"]) == (2.25, 189, 84)
        assert verify([tmp_path / name]).passed


def test_a_mixture_of_two_draws_from_each(encoded, tmp_path):
    pack([encoded()], OPTIONS, Writing(tmp_path / "first"))
    pack([encoded()], OPTIONS, Writing(tmp_path / "second"))
    inputs = [tmp_path / "first", tmp_path / "second"]
    planned(tmp_path / "plan.parquet", inputs, epochs=[1.0, 0.5])
    summary = filled(tmp_path / "plan.parquet", inputs, tmp_path / "mixed")
    assert summary.samples == 84 + 42
    assert [one["drawn"] for one in read_manifest(tmp_path / "mixed").inputs] == [84, 42]


def test_verify_counts_what_a_mixture_may_repeat(encoded, tmp_path):
    pack([encoded()], OPTIONS, Writing(tmp_path / "out"), epochs=[2])
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["options"]["epochs"] = [1]
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    assert verify([tmp_path / "out"]).counts["sample.duplicate"] > 0


@pytest.mark.parametrize("epochs", [[0.0], [-1.0], [float("inf")], [1.0, 1.0]])
def test_epochs_are_above_zero_and_one_an_input(encoded, tmp_path, epochs):
    with pytest.raises(UsageError, match="epochs above 0"):
        pack([encoded()], OPTIONS, Writing(tmp_path / "out"), epochs=epochs)


def test_a_window_of_a_stored_plan_reads_a_row_group_once(encoded, tmp_path, monkeypatch):
    from packcli.pack import reading

    windows = []

    def noted(shard, numbers, manifest, read=reading.read_groups):
        windows[-1] += [(shard.path.name, number) for number in numbers]
        return read(shard, numbers, manifest)

    def opened(reader, wanted, later, load=reading.SampleReader.load):
        windows.append([])
        return load(reader, wanted, later)

    planned(tmp_path / "plan.parquet", [encoded()])
    monkeypatch.setattr(reading, "read_groups", noted)
    monkeypatch.setattr(reading.SampleReader, "load", opened)
    filled(tmp_path / "plan.parquet", [encoded()], tmp_path / "whole")
    assert len(windows) == 1
    groups = sorted(windows[0])
    windows.clear()
    filled(tmp_path / "plan.parquet", [encoded()], tmp_path / "parts", window_tokens=3000)
    assert len(windows) > 2
    assert all(len(set(window)) == len(window) <= len(groups) for window in windows)
    # what the next window wants of a group is kept: it is not read in two windows that follow
    assert all(not set(a) & set(b) for a, b in pairwise(windows))
    assert sorted({group for window in windows for group in window}) == groups
    assert shards_of(tmp_path / "whole") == shards_of(tmp_path / "parts")
