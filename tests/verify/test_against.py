"""Packed shards against the encoded ones, and against the records themselves."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from packcli.contract.errors import InputError, UsageError
from packcli.contract.verdict import Verdict
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.pack import run as pack_stage
from packcli.pack.options import PlanOptions
from packcli.verify.against import surplus
from packcli.verify.run import verify, verify_against

QUESTIONS = [
    ("sky", "What colour is the sky?", "Blue."),
    ("week", "How many days has a week?", "Seven."),
    ("sum", "What is 3 + 4?", "7."),
    ("moon", "What shines at night?", "The moon."),
]


def write_records(path, questions):
    records = [
        {
            "id": name,
            "messages": [
                {"role": "user", "content": question},
                {"role": "assistant", "content": answer},
            ],
        }
        for name, question, answer in questions
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def encoded(folder, name, questions, model):
    (folder / name).mkdir()
    records = write_records(folder / name / "chats.jsonl", questions)
    job = EncodeJob(model, None, EncodeOptions())
    encode([records], job, Writing(folder / name / "encoded"))
    return folder / name / "encoded"


def packed(source, output, capacity=64):
    pack_stage.pack([source], PlanOptions(capacity=capacity), pack_stage.Writing(output))
    return output


@pytest.fixture(scope="module")
def made(tmp_path_factory, sample_data):
    folder = tmp_path_factory.mktemp("against")
    model = sample_data / "models" / "text"
    source = encoded(folder, "all", QUESTIONS, model)
    return folder, model, source, packed(source, folder / "packed")


def against(paths, origin):
    verdict = Verdict()
    verify_against(paths, origin, verdict)
    return verdict


def told(verdict):
    return [(f.code, f.sample_id, f.source) for f in verdict.findings]


def test_order_and_grouping_do_not_matter(made):
    _, _, source, packs = made
    assert told(against([packs], [source])) == []
    assert told(against([source], [packs])) == []


def test_missing_and_extra_samples_are_named(made):
    folder, model, source, packs = made
    fewer = encoded(folder, "fewer", QUESTIONS[:3], model)
    verdict = against([packs], [fewer])
    assert told(verdict) == [("sample.extra", "moon", "chats.jsonl:4")]
    (extra,) = verdict.findings
    assert (extra.shard, extra.row is not None) == ("train-00000-of-00001.parquet", True)
    short = packed(fewer, folder / "short")
    assert told(against([short], [source])) == [("sample.missing", "moon", "chats.jsonl:4")]


def test_a_changed_sample_is_told_from_a_missing_one(made):
    folder, model, _, packs = made
    other = [*QUESTIONS[:2], ("sum", "What is 3 + 4?", "8."), QUESTIONS[3]]
    changed = encoded(folder, "changed", other, model)
    assert told(against([packs], [changed])) == [("sample.changed", "sum", "chats.jsonl:3")]


def test_a_sample_that_is_there_twice_is_extra(made):
    _, _, source, packs = made
    verdict = against([packs, packs], [source])
    assert [code for code, *_ in told(verdict)] == ["sample.extra"] * 4


def test_samples_that_pack_turned_away_are_not_missing(made):
    folder, _, source, _ = made
    lengths = pq.read_table(source / "data", columns=["length"])["length"].to_pylist()
    tight = packed(source, folder / "tight", capacity=max(lengths) - 1)
    assert len((tight / "rejected.jsonl").read_text().splitlines()) == lengths.count(max(lengths))
    assert told(against([tight], [source])) == []
    (tight / "rejected.jsonl").write_text("")
    codes = {code for code, *_ in told(against([tight], [source]))}
    assert codes == {"sample.missing"}


def test_files_without_names_are_skipped_not_passed(made, sample_data):
    _, _, source, _ = made
    verdict = against([sample_data / "good_foreign" / "trl.parquet"], [source])
    assert verdict.findings == []
    reason = "needs sample_ids, sample_sources, sample_digests"
    assert verdict.skipped == dict.fromkeys(
        ("sample.missing", "sample.changed", "sample.extra"), reason
    )


def test_a_shard_that_is_gone_misses_its_samples(made):
    folder, _, source, packs = made
    copy = shutil.copytree(packs, folder / "gone")
    next((copy / "data").iterdir()).unlink()
    verdict = verify([copy])
    verify_against([copy], [source], verdict)
    assert dict(verdict.counts) == {"shard.missing": 1, "sample.missing": 4}


def test_many_samples_are_compared_by_number(made):
    one, other, none = np.array([3, 9, 5, 3]), np.array([9, 3, 9]), np.zeros(0, np.int64)
    assert surplus(one, other).tolist() == [2, 3]
    assert surplus(other, one).tolist() == [2]
    assert surplus(one, none).tolist() == [0, 1, 2, 3]
    assert surplus(none, one).tolist() == surplus(none, none).tolist() == []


def test_one_byte_of_the_input_changed_after_encode(made):
    from packcli.cli.again import Source, encode_again

    folder, model, _, packs = made
    records = folder / "all" / "chats.jsonl"
    whole = records.read_bytes()

    def compared(name):
        again = encode_again([packs], Source([records], model), folder / name)
        return told(against([packs], [again]))

    assert compared("same") == []
    records.write_bytes(whole.replace(b"Seven", b"Eeven"))
    try:
        assert compared("other") == [("sample.changed", "week", "chats.jsonl:2")]
    finally:
        records.write_bytes(whole)


def again(made, name, questions, file="chats.jsonl", *, ids=True):
    """Compare packs with records that are encoded again, from a file of another form."""
    folder, model, _, packs = made
    (folder / name).mkdir()
    records = write_records(folder / name / file, questions)
    if not ids:
        whole = [json.loads(line) for line in records.read_text().splitlines()]
        records.write_text("".join(json.dumps({"messages": r["messages"]}) + "\n" for r in whole))
    encode([records], EncodeJob(model, None, EncodeOptions()), Writing(folder / name / "encoded"))
    return against([packs], [folder / name / "encoded"]), folder / name / "encoded"


def test_a_renamed_file_moves_no_sample(made):
    verdict, _ = again(made, "renamed", QUESTIONS, "talks.jsonl")
    assert (told(verdict), verdict.checked["compared"], verdict.checked["moved"]) == ([], 4, 0)


def test_a_line_of_another_file_is_another_place(made):
    verdict, _ = again(made, "turned", QUESTIONS[::-1])
    assert (told(verdict), verdict.checked["moved"]) == ([], 4)
    more = [*QUESTIONS, ("new", "Is ice cold?", "Yes.")]
    verdict, _ = again(made, "longer and renamed", more, "talks.jsonl")
    assert (len(told(verdict)), verdict.checked["moved"]) == (1, 4)


# ---- files that are spelled otherwise, as they came together with others ----


@pytest.fixture(scope="module")
def spelled(tmp_path_factory, sample_data):
    """Files of one name in two folders, and another, encoded apart and together."""
    folder, model = tmp_path_factory.mktemp("spelled"), sample_data / "models" / "text"
    files = [folder / name for name in ("x/a.jsonl", "x/b.jsonl", "y/a.jsonl")]
    for file, which in zip(files, (QUESTIONS[:2], QUESTIONS[2:3], QUESTIONS[3:]), strict=True):
        file.parent.mkdir(exist_ok=True)
        records = [
            json.loads(line) for line in write_records(file, which).read_text().split("\n")[:-1]
        ]
        file.write_text("".join(json.dumps({"messages": r["messages"]}) + "\n" for r in records))

    def encode_of(name, chosen):
        encode(chosen, EncodeJob(model, None, EncodeOptions()), Writing(folder / name))
        return folder / name

    return folder, files, encode_of


def test_files_keep_their_places_whatever_they_came_together_with(spelled):
    folder, (a, b, other), encode_of = spelled
    first, second = encode_of("first", [a, b]), encode_of("second", [other])
    together = encode_of("together", [b, other, a])
    packs = folder / "packs"
    pack_stage.pack([first, second], PlanOptions(capacity=64), pack_stage.Writing(packs))
    sources = pq.read_table(packs / "data")["sample_sources"].combine_chunks().flatten().to_pylist()
    assert {source.rpartition(":")[0] for source in sources} == {
        "first/a.jsonl",
        "second/a.jsonl",
        "b.jsonl",
    }
    for origin in ([together], [first, second]):
        verdict = against([packs], origin)
        assert (told(verdict), verdict.checked["compared"], verdict.checked["moved"]) == ([], 4, 0)
        verdict = against([first, second], origin)
        assert (told(verdict), verdict.checked["moved"]) == ([], 0)


def test_a_changed_line_is_found_whatever_its_file_is_called(spelled):
    _, (a, b, other), encode_of = spelled
    packs = encode_of("before", [a, b])
    a.write_text(a.read_text().replace("Seven", "Eight"))
    verdict = against([packs], [encode_of("after", [a, b, other])])
    assert [(code, source) for code, _, source in told(verdict)] == [
        ("sample.changed", "a.jsonl:2"),
        ("sample.missing", "y/a.jsonl:1"),
    ]
    assert "now x/a.jsonl:2, gives another digest" in verdict.findings[0].message
    assert verdict.checked["moved"] == 0


def test_an_inserted_line_is_the_one_that_is_missing(made):
    more = [QUESTIONS[0], ("new", "Is ice cold?", "Yes."), *QUESTIONS[1:]]
    verdict, _ = again(made, "inserted", more)
    assert told(verdict) == [("sample.missing", "new", "chats.jsonl:2")]
    assert verdict.checked["moved"] == 3


def test_a_changed_record_of_a_renamed_file_is_found_by_its_id(made):
    other = [QUESTIONS[3], ("sum", "What is 3 + 4?", "8."), *QUESTIONS[:2]]
    verdict, _ = again(made, "both", other, "talks.jsonl")
    assert told(verdict) == [("sample.changed", "sum", "chats.jsonl:3")]
    assert "now talks.jsonl:2, gives" in verdict.findings[0].message
    assert verdict.checked["moved"] == 3


def test_records_without_ids_are_found_by_content_then_by_place(made):
    folder, *_ = made
    _, source = again(made, "nameless", QUESTIONS, ids=False)
    packs = packed(source, folder / "nameless" / "packed")
    here = (*made[:3], packs)
    verdict, _ = again(here, "nameless moved", [QUESTIONS[3], *QUESTIONS[:3]], ids=False)
    assert (told(verdict), verdict.checked["moved"]) == ([], 4)
    other = [*QUESTIONS[:2], ("sum", "What is 3 + 4?", "8."), QUESTIONS[3]]
    verdict, _ = again(here, "nameless changed", other, ids=False)
    assert told(verdict) == [("sample.changed", "chats.jsonl:3", "chats.jsonl:3")]
    assert verdict.checked["moved"] == 0


def test_two_ids_swapped_are_two_changed_samples(made):
    (a, *first), (b, *second) = QUESTIONS[:2]
    verdict, _ = again(made, "swapped", [(b, *first), (a, *second), *QUESTIONS[2:]])
    assert told(verdict) == [
        ("sample.changed", "sky", "chats.jsonl:1"),
        ("sample.changed", "week", "chats.jsonl:2"),
    ]


def test_a_dataset_that_does_not_say_how_it_was_encoded(made, sample_data, tmp_path):
    from packcli.cli.again import Source, encode_again

    folder, model, _, packs = made
    source = Source([folder / "all" / "chats.jsonl"], model)
    with pytest.raises(InputError, match="no manifest"):
        encode_again([sample_data / "good_foreign"], source, tmp_path)
    (tmp_path / "other").mkdir()
    job = EncodeJob(model, None, EncodeOptions(max_length=999))
    encode(source.inputs, job, Writing(tmp_path / "other" / "encoded"))
    with pytest.raises(UsageError, match="different options"):
        encode_again([packs, tmp_path / "other" / "encoded"], source, tmp_path)


def test_a_file_inside_a_dataset_is_read_for_its_model(sample_data):
    (shard,) = (sample_data / "good" / "data").iterdir()
    verdict = verify([shard])
    assert verdict.passed
    assert "slot.count" not in verdict.skipped
    (foreign,) = (sample_data / "broken" / "isolation.model").glob("*.parquet")
    assert verify([foreign]).skipped["slot.count"] == "needs model with media"


# ---- samples that pack turned away ----


LONG = ("long", "word " * 60, "Yes.")


def tight(made, name, questions, *, ids):
    """Pack records of which the last is too long; says where they were encoded."""
    _, source = again(made, name, questions, ids=ids)
    return packed(source, made[0] / name / "packed")


def lines_of(dataset):
    return [json.loads(line) for line in (dataset / "rejected.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("ids", [True, False])
def test_a_rejected_sample_is_known_by_its_content(made, ids):
    name = f"over long {ids}"
    packs = tight(made, name, [*QUESTIONS, LONG], ids=ids)
    (line,) = lines_of(packs)
    assert (line["code"], line["line"], len(line["digest"])) == ("over_pack_length", 5, 32)
    here = (*made[:3], packs)
    verdict, _ = again(here, f"{name} turned", [LONG, *QUESTIONS[::-1]], "talks.jsonl", ids=ids)
    assert (told(verdict), verdict.checked["moved"]) == ([], 4)
    # one more of it is one more that was not rejected
    verdict, _ = again(here, f"{name} twice", [*QUESTIONS, LONG, LONG], ids=ids)
    (code,) = [code for code, *_ in told(verdict)]
    assert code == "sample.missing"
    # a record that stands where the rejected one stood was never turned away
    new = ("long", "Is ice cold?", "Yes.")
    verdict, _ = again(here, f"{name} replaced", [*QUESTIONS, new], ids=ids)
    assert told(verdict) == [
        ("sample.missing", "long" if ids else "chats.jsonl:5", "chats.jsonl:5")
    ]


def test_records_that_encode_rejects_account_for_no_sample(made):
    folder, model, *_ = made
    (folder / "rejects").mkdir()
    records = write_records(folder / "rejects" / "chats.jsonl", QUESTIONS)
    good = records.read_text()
    bad = json.dumps({"id": "sky", "messages": [{"role": "user", "content": "Hello"}]}) + "\n"
    records.write_text(good + bad)  # under the id of a good record
    job = EncodeJob(model, None, EncodeOptions())
    encode([records], job, Writing(folder / "rejects" / "encoded"))
    source = folder / "rejects" / "encoded"
    assert [line["id"] for line in lines_of(source)] == ["sky"]
    assert told(against([source], [source])) == []
    fewer = encoded(folder, "without sky", QUESTIONS[1:], model)
    shutil.copy(source / "rejected.jsonl", fewer / "rejected.jsonl")
    assert told(against([fewer], [source])) == [("sample.missing", "sky", "chats.jsonl:1")]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"digest": "xy"}', '{"digest": "00"}', '{"digest": 1}']
)
def test_a_list_of_rejected_samples_that_was_edited(made, line):
    folder, _, source, packs = made
    copy = shutil.copytree(packs, folder / "edited", dirs_exist_ok=True)
    (copy / "rejected.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match="not as packcli wrote it"):
        against([copy], [source])


# ---- mixtures ----


def mixture(made, name, parts):
    """Mix encoded datasets, each by its epochs."""
    paths, epochs = zip(*parts, strict=True)
    writing = pack_stage.Writing(made[0] / name)
    pack_stage.pack([*paths], PlanOptions(capacity=64), writing, epochs=epochs)
    return made[0] / name


MISSING = {"sample.missing": "needs a dataset that uses every sample once, not a mixture"}


def test_copies_and_omissions_of_a_mixture_are_its_own(made):
    folder, model, source, _ = made
    other = encoded(folder, "mixed in", [("ice", "Is ice cold?", "Yes.")], model)
    mixed = mixture(made, "mixed", [(source, 2.0), (other, 1.0)])
    verdict = against([mixed], [source, other])
    assert (told(verdict), verdict.skipped) == ([], MISSING)
    assert verdict.checked["compared"] == 9
    (extra,) = against([mixed], [source]).findings
    assert (extra.code, extra.sample_id) == ("sample.extra", "ice")
    half = mixture(made, "half", [(source, 0.5)])
    verdict = against([half], [source])
    assert told(verdict) == []
    assert (verdict.checked["compared"], verdict.checked["moved"]) == (2, 0)


def test_a_changed_sample_of_a_mixture_is_told_once(made):
    folder, model, source, _ = made
    mixed = mixture(made, "mixed twice", [(source, 2.0)])
    other = [*QUESTIONS[:2], ("sum", "What is 3 + 4?", "8."), QUESTIONS[3]]
    changed = encoded(folder, "changed under a mixture", other, model)
    verdict = against([mixed], [changed])
    assert told(verdict) == [("sample.changed", "sum", "chats.jsonl:3")]
    assert verdict.skipped == MISSING


def test_another_model_is_told_before_every_sample_is(made, sample_data, tmp_path):
    from packcli.cli.again import Source, encode_again

    folder, model, _, packs = made
    inputs = [folder / "all" / "chats.jsonl"]
    with pytest.raises(InputError, match="family text there, qwen3_vl here") as caught:
        encode_again([packs], Source(inputs, sample_data / "models" / "qwen3_vl"), tmp_path / "a")
    assert "\n" not in str(caught.value)
    other = shutil.copytree(model, tmp_path / "other")
    tokenizer = other / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text("utf-8") + "\n", "utf-8")
    with pytest.raises(InputError, match=r"another tokenizer\.json\); name its own with --model"):
        encode_again([packs], Source(inputs, other), tmp_path / "b")
