"""The whole of stage 2: what comes out of encoded shards, on disk."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packcli.contract.columns import Axis, columns_for
from packcli.contract.errors import InputError, UsageError
from packcli.contract.packs import Packs
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing as EncodeWriting
from packcli.encode.run import encode
from packcli.pack.options import PlanOptions
from packcli.pack.reading import SampleReader
from packcli.pack.run import Writing, pack
from packcli.shards.manifest import read_manifest
from packcli.shards.reader import Shard
from packcli.verify.kernel_level import KernelOptions
from packcli.verify.run import verify

FAMILIES = ("text", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5")
SMALL = {"shard_bytes": 3 * 5000, "window_tokens": 2000}
BINPACK, SEQUENTIAL = PlanOptions(2048), PlanOptions(2048, "sequential")


def read(dataset):
    """Every shard of a dataset as packs, in the order of the manifest."""
    manifest = read_manifest(dataset)
    shards = [Shard.open(dataset / "data" / entry.name) for entry in manifest.shards]
    groups = [rows.packs() for shard in shards for rows in shard.groups(manifest.model)]
    return Packs.concatenated(groups)


def samples_of(packs):
    """{source: all that is known of the sample}, by value."""
    found = {}
    facts = packs.facts
    places = {axis: packs.axes[axis] for axis in packs.axes}
    for number, source in enumerate(packs.columns["sample_sources"].tolist()):
        parts = []
        for column in columns_for(facts):
            if column.derived:
                continue
            values = packs.columns[column.name]
            here = slice(number, number + 1)
            if column.axis is not Axis.SAMPLE:
                bounds = places[column.axis].values
                here = slice(bounds[number], bounds[number + 1])
            parts.append((column.name, values[here].tolist()))
        assert source not in found
        found[source] = parts
    return found


def files_of(dataset):
    return {
        path.relative_to(dataset).as_posix(): path.read_bytes()
        for path in sorted(dataset.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def packing(tmp_path):
    """Pack into a fresh folder and return it."""
    count = iter(range(100))

    def run(inputs, options=BINPACK, **writing):
        output = tmp_path / f"packed{next(count)}"
        return output, pack(inputs, options, Writing(output, **writing))

    return run


@pytest.fixture
def encode_lines(sample_data, tmp_path):
    """Encode some of the bundled chats, under a name of its own."""

    def run(name, lines, family="qwen3_vl", options=None, folder=None):
        source = tmp_path / (folder or name) / "chat.jsonl"
        source.parent.mkdir(exist_ok=True)
        chats = (sample_data / "chats.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        source.write_text("".join(chats[lines]), encoding="utf-8")
        output = tmp_path / f"{name}-encoded"
        job = EncodeJob(sample_data / "models" / family, sample_data, options or EncodeOptions())
        encode([source], job, EncodeWriting(output))
        return output

    return run


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", [BINPACK, SEQUENTIAL], ids=["binpack", "sequential"])
def test_every_sample_is_in_one_pack_and_unchanged(encoded, packing, family, options):
    output, summary = packing([encoded(family)], options, **SMALL)
    before, after = read(encoded(family)), read(output)
    assert samples_of(after) == samples_of(before)
    assert read_manifest(output).digest == read_manifest(encoded(family)).digest
    assert after.pack_tokens.lengths.max() <= 2048
    assert summary.samples == before.members.total
    assert summary.tokens == before.tokens.total == after.tokens.total
    assert summary.packs == len(after)
    assert summary.rejected == 0
    assert (output / "rejected.jsonl").read_text() == ""


@pytest.mark.parametrize("family", FAMILIES)
def test_what_pack_writes_passes_the_kernel_level(encoded, packing, family):
    output, summary = packing([encoded(family)], **SMALL)
    verdict = verify([output], kernel=KernelOptions(sample=3))
    assert verdict.passed, verdict.findings
    # a model without media skips the rules of media, and says so; nothing else is skipped
    needs = {why.split(",")[0] for why in verdict.skipped.values()}
    assert needs == (
        {"needs model with media", "needs model with mRoPE"} if family == "text" else set()
    )
    kinds = ["attention", "state", "conv"] if family == "qwen3_5" else ["attention"]
    assert [proof["kind"] for proof in verdict.proofs] == kinds
    assert verdict.checked["packs"] == summary.packs


def test_packing_packs_again_gives_the_same_samples(encoded, packing):
    once, _ = packing([encoded()], **SMALL)
    again, summary = packing([once], PlanOptions(4096))
    assert samples_of(read(again)) == samples_of(read(encoded()))
    assert summary.packs == 4
    assert verify([again]).passed


def test_packs_of_one_sample_give_the_encoded_shards_back(encoded, packing):
    once, _ = packing([encoded()])
    apart, _ = packing([encoded()], replace(SEQUENTIAL, max_samples=1))
    for column in ("input_ids", "labels", "media.token_start", "sample_ids"):
        before, after = (read(path).columns[column] for path in (encoded(), apart))
        assert after.tolist() == before.tolist()
    assert len(read(apart)) == 84
    assert len(read(once)) == 7


def test_sequential_keeps_the_order_over_shards_and_windows(encoded, packing):
    output, summary = packing([encoded()], SEQUENTIAL, **SMALL)
    assert summary.shards > 1
    sources = read(encoded()).columns["sample_sources"].tolist()
    assert read(output).columns["sample_sources"].tolist() == sources


def test_shards_are_cut_and_named_by_token_counts(encoded, packing):
    output, summary = packing([encoded()], shard_bytes=3 * 5000, window_tokens=2000)
    names = sorted(path.name for path in (output / "data").iterdir())
    count = summary.shards
    assert count > 2
    assert names == [f"train-{number:05d}-of-{count:05d}.parquet" for number in range(count)]
    assert [entry.name for entry in read_manifest(output).shards] == names
    # two windows a shard, each at most the group that overflows it over the window
    assert all(entry.tokens <= 2 * (2000 + 1500) for entry in read_manifest(output).shards)


def test_a_window_smaller_than_any_row_group_holds_one(encoded, packing):
    output, summary = packing([encoded()], shard_bytes=1, window_tokens=1)
    groups = [
        Shard.open(path).file.num_row_groups for path in (encoded() / "data").glob("*.parquet")
    ]
    assert summary.shards == sum(groups)
    assert samples_of(read(output)) == samples_of(read(encoded()))


def test_the_lower_bound_is_that_of_the_whole_dataset(encoded, packing):
    _, whole = packing([encoded()])
    _, cut = packing([encoded()], **SMALL)
    assert whole.lower_bound == cut.lower_bound == 7
    assert whole.excess == 0
    assert cut.excess == cut.packs - 7 > 0


@pytest.mark.parametrize("options", [BINPACK, SEQUENTIAL], ids=["binpack", "sequential"])
def test_workers_do_not_change_a_byte(encoded, packing, options):
    one, _ = packing([encoded()], options, **SMALL)
    two, _ = packing([encoded()], options, workers=2, **SMALL)
    assert files_of(two) == files_of(one)


def test_resume_after_an_error_gives_the_same_bytes(encoded, tmp_path, monkeypatch):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    pack([encoded()], BINPACK, Writing(whole, **SMALL))
    loads = iter(range(100))
    load = SampleReader.load

    def failing(*arguments):
        if next(loads) == 3:
            raise KeyboardInterrupt
        return load(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(SampleReader, "load", failing)
        with pytest.raises(KeyboardInterrupt):
            pack([encoded()], BINPACK, Writing(resumed, **SMALL))
    assert not (resumed / "_SUCCESS").exists()
    kept = [path for path in (resumed / "data").iterdir() if path.suffix == ".parquet"]
    assert len(kept) == 1
    stamp = kept[0].stat().st_mtime_ns
    pack([encoded()], BINPACK, Writing(resumed, **SMALL))
    assert files_of(resumed) == files_of(whole)
    assert kept[0].stat().st_mtime_ns == stamp


def test_other_options_do_not_resume(encoded, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(SampleReader, "load", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            pack([encoded()], BINPACK, Writing(tmp_path / "out"))
    with pytest.raises(InputError, match=r"options\.capacity"):
        pack([encoded()], PlanOptions(4096), Writing(tmp_path / "out"))


def test_a_folder_in_use_is_left_alone(encoded, packing, tmp_path):
    output, _ = packing([encoded()])
    before = files_of(output)
    with pytest.raises(UsageError, match="--overwrite"):
        pack([encoded()], BINPACK, Writing(output))
    assert files_of(output) == before
    (output / "notes.txt").write_text("mine")
    (output / "data" / "mine.parquet").write_text("mine")
    pack([encoded()], PlanOptions(4096), Writing(output, overwrite=True))
    assert (output / "notes.txt").read_text() == "mine"
    assert (output / "data" / "mine.parquet").read_text() == "mine"
    assert read_manifest(output).options["capacity"] == 4096


def test_an_input_is_never_overwritten(encoded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(encoded(), copy)
    before = files_of(copy)
    (tmp_path / "link").symlink_to(copy)
    with pytest.raises(UsageError, match="is an input too"):
        pack([tmp_path / "link"], BINPACK, Writing(copy, overwrite=True))
    assert files_of(copy) == before


def test_an_input_named_twice_is_refused(encoded, tmp_path):
    with pytest.raises(UsageError, match="named twice"):
        pack([encoded(), encoded()], BINPACK, Writing(tmp_path / "out"))


def test_several_inputs_become_one_dataset(encode_lines, packing):
    first, second = encode_lines("one", slice(30)), encode_lines("two", slice(30, None))
    output, summary = packing([first, second], SEQUENTIAL)
    assert summary.samples == 84
    ids = [read(path).columns["sample_ids"].tolist() for path in (first, second, output)]
    assert ids[2] == ids[0] + ids[1]
    assert [source["samples"] for source in read_manifest(output).inputs] == [30, 54]
    # both inputs are called chat.jsonl
    names = ["one-encoded/chat.jsonl", "two-encoded/chat.jsonl"]
    told = [source.rpartition(":")[0] for source in read(output).columns["sample_sources"]]
    assert told == [names[0]] * 30 + [names[1]] * 54
    assert verify([output], kernel=KernelOptions(sample=2)).findings == []


def test_inputs_of_another_model_are_refused(encoded, tmp_path):
    with pytest.raises(InputError, match=r"\n  model.family: qwen3_vl, qwen3_5\n"):
        pack([encoded("qwen3_vl"), encoded("qwen3_5")], BINPACK, Writing(tmp_path / "out"))


def test_inputs_of_other_options_are_refused_even_once_packed(encode_lines, packing, tmp_path):
    first = encode_lines("one", slice(30))
    second = encode_lines("two", slice(30, 50), options=EncodeOptions(supervise="last"))
    with pytest.raises(InputError, match=r":\n  options.supervise: all, last$"):
        pack([first, second], BINPACK, Writing(tmp_path / "out"))
    packs = [packing([path])[0] for path in (first, second)]
    with pytest.raises(InputError, match=r":\n  options.supervise: all, last$"):
        pack(packs, BINPACK, Writing(tmp_path / "out"))


def test_what_decides_no_token_makes_inputs_not_unlike(encode_lines, packing):
    policy = EncodeOptions(allow_outside_root=True, max_length=10_000, limit=100)
    first = encode_lines("one", slice(30))
    second = encode_lines("two", slice(30, 50), options=policy)
    _, summary = packing([first, second])
    assert summary.samples == 50


def test_an_incomplete_input_is_refused(encoded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(encoded(), copy)
    (copy / "_SUCCESS").unlink()
    with pytest.raises(InputError, match="not complete"):
        pack([copy], BINPACK, Writing(tmp_path / "out"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="run `packcli encode` on records first"):
        pack([tmp_path / "empty"], BINPACK, Writing(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_changed_input_is_refused(encoded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(encoded(), copy)
    shards = sorted((copy / "data").iterdir())
    shutil.copy(shards[1], shards[0])
    with pytest.raises(InputError, match="not the shard that the manifest names"):
        pack([copy], BINPACK, Writing(tmp_path / "out"))
    shards[0].unlink()
    with pytest.raises(InputError, match=shards[0].name):
        pack([copy], BINPACK, Writing(tmp_path / "out"))


def test_slots_without_a_grid_are_refused(encoded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(encoded("qwen3_vl"), copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    entry, token = manifest["shards"][0], manifest["model"]["image_token_id"]
    shard = copy / "data" / entry["name"]
    table = pq.read_table(shard)
    ids = table["input_ids"].to_pylist()
    ids[-1][-1] = token
    place = table.schema.get_field_index("input_ids")
    field = table.schema.field(place)
    pq.write_table(table.set_column(place, field, pa.array(ids, field.type)), shard)
    entry["bytes"] = shard.stat().st_size
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"slots.*run `packcli verify` on the input"):
        pack([copy], BINPACK, Writing(tmp_path / "out"))
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_what_does_not_fit_is_rejected_with_its_length_and_limit(encoded, packing):
    source = read(encoded())
    lengths = dict(
        zip(source.columns["sample_ids"].tolist(), source.tokens.lengths.tolist(), strict=True)
    )
    output, summary = packing([encoded()], PlanOptions(256), **SMALL)
    long = {name: length for name, length in lengths.items() if length > 256}
    lines = [json.loads(line) for line in (output / "rejected.jsonl").read_text().splitlines()]
    assert long
    assert {line["id"]: line["code"] for line in lines} == dict.fromkeys(long, "over_pack_length")
    for line in lines:
        assert f"{long[line['id']]} tokens, capacity 256" in line["message"]
        assert line["message"].startswith(f"chats.jsonl:{line['line']}: ")
        assert line["file"] == "chats.jsonl"
    assert summary.samples == len(lengths) - len(long)
    assert summary.reasons == Counter(over_pack_length=len(long))
    assert set(samples_of(read(output))).isdisjoint(
        {f"{line['file']}:{line['line']}" for line in lines}
    )
    assert verify([output], kernel=KernelOptions(sample=2)).passed


def test_a_sample_over_another_limit_is_named_with_it(encoded, packing):
    output, summary = packing([encoded()], PlanOptions(4096, max_images=1, max_samples=8))
    images = Counter(read(encoded()).axes[Axis.IMAGE].lengths.tolist())
    lines = [json.loads(line) for line in (output / "rejected.jsonl").read_text().splitlines()]
    assert len(lines) == sum(count for images, count in images.items() if images > 1) > 0
    assert all("images, --max-images 1" in line["message"] for line in lines)
    packs = read(output)
    owners = packs.members.segment_ids()
    in_packs = np.bincount(owners, weights=packs.axes[Axis.IMAGE].lengths)
    assert in_packs.max() == 1
    assert summary.lower_bound == images[1]
    assert summary.excess >= 0


def test_patches_of_a_pack_are_limited(encoded, packing):
    output, summary = packing([encoded()], PlanOptions(4096, max_patches=2000), **SMALL)
    stored = [rows.cells["num_patches"].values for rows in groups_of(output)]
    assert np.concatenate(stored).max() <= 2000
    assert summary.excess >= 0


def groups_of(dataset):
    for path in sorted((dataset / "data").iterdir()):
        yield from Shard.open(path).groups()


def test_nothing_to_pack_is_a_whole_dataset_without_packs(encode_lines, packing):
    empty = encode_lines("empty", slice(3), options=EncodeOptions(max_length=1))
    output, summary = packing([empty])
    assert (summary.packs, summary.samples, summary.fill, summary.lower_bound) == (0, 0, 0.0, 0)
    assert (output / "_SUCCESS").exists()
    verdict = verify([output], kernel=KernelOptions())
    assert dict(verdict.counts) == {"dataset.empty": 1}


def test_nothing_fits(encoded, packing):
    output, summary = packing([encoded()], PlanOptions(2), **SMALL)
    assert (summary.packs, summary.rejected, summary.excess) == (0, 84, 0)
    assert len((output / "rejected.jsonl").read_text().splitlines()) == 84
    assert dict(verify([output]).counts) == {"dataset.empty": 1}


def test_a_full_plan_is_certified(encoded, packing):
    _, summary = packing([encoded()], PlanOptions(2048, quality="best"))
    assert summary.excess == 0
    assert summary.fill == summary.tokens / (summary.packs * 2048)


def test_progress_counts_shards(encoded, packing):
    told = []
    _, summary = packing([encoded()], progress=partial(lambda *pair: told.append(pair)), **SMALL)
    assert told == [(n + 1, summary.shards) for n in range(summary.shards)]


def test_the_card_counts(packed):
    card = (packed / "README.md").read_text(encoding="utf-8")
    counts = read_manifest(packed).counts
    assert f"{counts['packs']} packs of at most 2,048 tokens, 84 samples, 13,871 tokens" in card
    shards = "".join(entry.sha256 for entry in read_manifest(packed).shards)
    name = f"packed-{sha256(shards.encode()).hexdigest()[:16]}"
    assert card.startswith(f"---\nconfigs:\n- config_name: {name}\n")
    assert "(needs `pip install accelerate`)" in card
    assert all(
        f"| `{column.name}` |" in card for column in columns_for(read_manifest(packed).model)
    )


def test_folders_of_one_name_load_as_what_they_hold(encode_lines, tmp_path):
    datasets = pytest.importorskip("datasets")

    def loaded(folder, lines, **writing):
        pack([encode_lines(lines[0], lines[1])], BINPACK, Writing(folder, **writing))
        cache = str(tmp_path / "cache")
        rows = datasets.load_dataset(str(folder), split="train", cache_dir=cache)
        return [name for row in rows for name in row["sample_ids"]]

    first, second = tmp_path / "x" / "packed", tmp_path / "y" / "packed"
    ten, twenty = ("ten", slice(10)), ("twenty", slice(10, 30))
    assert len(loaded(first, ten)) == 10
    assert len(loaded(second, twenty)) == 20
    assert len(loaded(first, ("more", slice(10, 45)), overwrite=True)) == 35


def test_the_card_says_how_it_was_made(packed):
    card = (packed / "README.md").read_text(encoding="utf-8")
    manifest = read_manifest(packed)
    assert manifest.fingerprint in card
    assert "`capacity` 2048" in card
    assert f"dataset `{manifest.inputs[0]['fingerprint']}` made from `chats.jsonl`" in card
    assert "84 samples" in card


def test_loaders_of_the_card_run_as_they_stand(packed, tmp_path, sample_data):
    pytest.importorskip("torch")
    pytest.importorskip("datasets")
    card = (packed / "README.md").read_text(encoding="utf-8")
    snippets = card.split("```python\n")[1:]
    assert len(snippets) == 3
    places = {
        "path/to/this/folder": packed,
        "folder/of/media": sample_data,
        "model/directory": sample_data / "models" / "qwen3_vl",
    }
    datasets, torch, _ = (snippet.split("```")[0] for snippet in snippets)
    for name, place in places.items():
        datasets, torch = datasets.replace(name, str(place)), torch.replace(name, str(place))
    found = {}
    loaded = datasets.replace('split="train"', f'split="train", cache_dir={str(tmp_path)!r}')
    exec(loaded, found)  # noqa: S102 - the card's own text
    manifest = read_manifest(packed)
    assert len(found["rows"]) == manifest.counts["packs"]
    assert sum(found["rows"]["length"]) == manifest.counts["tokens"]
    setting = torch.split("for batch in loader")[0]
    exec(setting, found)  # noqa: S102 - as above
    batch = next(iter(found["loader"]))
    assert batch["input_ids"].shape[0] == 1
