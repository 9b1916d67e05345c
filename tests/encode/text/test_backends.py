import numpy as np
import orjson
import pytest

from packcli.contract.errors import InputError
from packcli.encode import run as stage
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.records.reading import read_record
from packcli.encode.run import Writing, encode
from packcli.encode.text import backends
from packcli.encode.text.backends import CheckedBackend, FlatIds, HuggingFaceBackend, choose_backend
from packcli.encode.text.quick_template import NotAlikeError
from tests.encode.conftest import write_model
from tests.encode.running import MODELS, chat, tree, write_lines

pytest.importorskip("fastokens")


class Counting:
    """One id a character, and what it was asked."""

    def __init__(self, add=0, only=""):
        self.add, self.only, self.asked = add, only, []

    def encode_many(self, texts):
        self.asked += texts
        ids = [[ord(c) + (self.add if self.only in text else 0) for c in text] for text in texts]
        bounds = np.cumsum([0, *map(len, ids)])
        return FlatIds(np.array([i for one in ids for i in one], np.int32), bounds)


@pytest.fixture
def definition(tmp_path):
    content = orjson.loads((write_model(tmp_path) / "tokenizer.json").read_bytes())
    return backends.plain_definition(content, [])


def test_flat_ids_are_split_at_their_bounds():
    flat = FlatIds(np.array([5, 6, 7], np.int32), np.array([0, 2, 2, 3]))
    assert [ids.tolist() for ids in flat.split()] == [[5, 6], [], [7]]


def test_both_backends_give_the_same_flat_ids(definition):
    texts = ["Hi there\n\n", "", "é e\u0301 你好 😀", "<|im_end|>"]
    slow, fast = HuggingFaceBackend(definition), backends.FastBackend(definition)
    ours, theirs = fast.encode_many(texts), slow.encode_many(texts)
    assert ours.ids.dtype == theirs.ids.dtype == np.int32
    assert ours.bounds.dtype == theirs.bounds.dtype == np.int64
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    assert ours.bounds.tolist() == theirs.bounds.tolist()
    assert len(theirs.split()[2]) > 4


def test_one_text_in_1024_is_checked_whoever_asks():
    texts = [f"text {n}" for n in range(16_000)]
    right = Counting()
    CheckedBackend(Counting(), right).encode_many(texts)
    again = Counting()
    for text in texts:
        CheckedBackend(Counting(), again).encode_many([text])
    assert right.asked == again.asked
    assert 5 < len(right.asked) < 40


def test_another_id_is_noticed():
    right = Counting()
    checked = CheckedBackend(Counting(add=1), right)
    texts = [f"text {n}" for n in range(4000)]
    with pytest.raises(NotAlikeError):
        checked.encode_many(texts)
    unchecked = [text for text in texts if text not in right.asked]
    assert len(checked.encode_many(unchecked).ids) == sum(map(len, unchecked))


def test_the_fast_backend_is_taken_when_it_agrees(definition):
    reference = HuggingFaceBackend(definition)
    assert isinstance(choose_backend("auto", definition, reference), CheckedBackend)
    assert choose_backend("hf", definition, reference) is reference


def test_a_backend_that_differs_at_the_start_is_not_taken(definition, monkeypatch):
    reference = HuggingFaceBackend(definition)
    monkeypatch.setattr(backends, "FastBackend", lambda _: Counting(add=1, only="\u2167"))
    assert choose_backend("auto", definition, reference) is reference
    with pytest.raises(InputError, match=r"other ids than tokenizers; install packcli\[fast\]"):
        choose_backend("fast", definition, reference)


def test_a_library_that_is_not_there(definition, monkeypatch):
    def absent(_name):
        raise ModuleNotFoundError("No module named 'fastokens'")

    monkeypatch.setattr(backends, "import_module", absent)
    reference = HuggingFaceBackend(definition)
    assert choose_backend("auto", definition, reference) is reference
    with pytest.raises(InputError, match="No module named 'fastokens'"):
        choose_backend("fast", definition, reference)


def encoded(path, out, tokenizer):
    stage._encoder.cache_clear()
    job = EncodeJob(MODELS / "qwen3_vl", None, EncodeOptions(), tokenizer)
    return encode([path], job, Writing(out))


@pytest.fixture
def lines(tmp_path):
    records = [chat(f"Question {n}? 你好", f"\nAnswer <|im_end|> {n}. é") for n in range(600)]
    return write_lines(tmp_path / "in.jsonl", records)


def test_what_is_written_does_not_depend_on_the_backend(lines, tmp_path):
    encoded(lines, tmp_path / "hf", "hf")
    encoded(lines, tmp_path / "fast", "fast")
    assert tree(tmp_path / "hf") == tree(tmp_path / "fast")


def test_a_part_in_which_ids_differ_is_encoded_again(lines, tmp_path, monkeypatch):
    encoded(lines, tmp_path / "hf", "hf")
    honest = backends.FastBackend.encode_many

    def lying(self, texts):
        found = honest(self, texts)
        return FlatIds(found.ids + ("Question 599? 你好" in "".join(texts)), found.bounds)

    monkeypatch.setattr("packcli.encode.options.SMALL_INPUT", 0)
    monkeypatch.setattr(backends, "_CHECKED_SHARE", 1)
    monkeypatch.setattr(backends.FastBackend, "encode_many", lying)
    summary = encoded(lines, tmp_path / "lying", "auto")
    stage._encoder.cache_clear()
    assert summary.warnings == {"fast_library_differs": 1}
    assert tree(tmp_path / "hf" / "data") == tree(tmp_path / "lying" / "data")


def test_a_token_across_an_edge_is_found_in_a_long_text(tiny, monkeypatch):
    asked = []
    honest = HuggingFaceBackend.encode_with_ends
    monkeypatch.setattr(
        HuggingFaceBackend,
        "encode_with_ends",
        lambda self, text: asked.append(len(text)) or honest(self, text),
    )
    short = tiny.encode(read_record(chat("a", "\nYes")))
    long = tiny.encode(read_record(chat("a", "\nYes" + "x" * 5000)))
    assert np.flatnonzero(short.labels + 100)[0] == np.flatnonzero(long.labels + 100)[0]
    assert max(asked) < 200


def test_small_inputs_stay_with_the_reference(lines, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(backends.FastBackend, "encode_many", refuse)
    assert encoded(lines, tmp_path / "small", "auto").kept == 600
