"""Equality with transformers on real vocabularies and real chats, and the published cases."""

import json
import unicodedata
from functools import cache
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import Rejection
from packcli.contract.packs import IGNORED
from packcli.encode import inputs
from packcli.encode.records.raw import parse
from packcli.encode.records.reading import read_record
from packcli.encode.text.text_encoder import TextEncoder
from packcli.families.family import Expansion

MODELS = ("qwen2_5_vl", "qwen3_vl", "qwen3_5")
ROLES = {"human": "user", "gpt": "assistant", "observation": "tool"}
PAD = "<|image_pad|>"


@pytest.fixture(scope="module")
def tokenizer_of(shared):
    transformers = pytest.importorskip("transformers")
    return cache(lambda name: transformers.AutoTokenizer.from_pretrained(shared / "models" / name))


@pytest.fixture(scope="module")
def chats(shared):
    """Every ninth of the real chats, as (record, messages, tools)."""
    lines = []
    for name in ("text_zh.jsonl", "tool_calls.jsonl"):
        lines += (shared / "realdata" / name).read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines[::9]]
    return [(r, messages_of(r), json.loads(r.get("tools") or "null") or None) for r in records]


def messages_of(record):
    if "messages" in record:
        return record["messages"]
    found = []
    for turn in record["conversations"]:
        if turn["from"] == "function_call":
            call = {"type": "function", "function": json.loads(turn["value"])}
            found.append({"role": "assistant", "content": "", "tool_calls": [call]})
        else:
            found.append({"role": ROLES[turn["from"]], "content": turn["value"]})
    return found


def runs(labels):
    kept = np.concatenate([[False], labels != IGNORED])
    return int(np.sum(kept[1:] & ~kept[:-1]))


@pytest.mark.parametrize("model", MODELS)
def test_ids_equal_apply_chat_template(model, encoder_of, tokenizer_of, chats):
    encoder, tokenizer = encoder_of(model), tokenizer_of(model)
    dropped: list[Rejection] = []
    for record, messages, tools in chats:
        expected = tokenizer.apply_chat_template(messages, tools=tools, tokenize=True)["input_ids"]
        try:
            sample = encoder.encode(read_record(record))
        except Rejection as rejection:
            dropped.append(rejection)
            continue
        assert sample.input_ids.tolist() == expected, record["id"]
        answers = [m for m in messages if m["role"] == "assistant"]
        assert runs(sample.labels) == len(answers)
        end = encoder._vocabulary.ids["<|im_end|>"]
        assert np.sum(sample.labels == end) == len(answers)
    calls = sum(any("tool_calls" in m for m in messages) for _, messages, _ in chats)
    # the published template of Qwen2.5-VL knows no tool calls
    assert all("leaves out the tool call" in rejection.message for rejection in dropped)
    assert len(dropped) == (calls if model == "qwen2_5_vl" else 0)
    assert calls > 10


HARD = [
    [("system", "  s\n"), ("user", "\n\nq "), ("assistant", "\n\nleading"), ("user", "x")],
    [("user", "é e\u0301 \u200d\U0001f469\u200d\U0001f4bb"), ("assistant", "한글\r\n\tx \u00a0")],
    [("user", "\ue000\U000f0000"), ("assistant", "<think>\nhm\n</think>\n\na")],
    [("user", "a"), ("assistant", "<think>\nhm\n</think>\n\na"), ("user", "b"), ("assistant", "c")],
    [("user", "a"), ("assistant", "one"), ("assistant", "two")],
    [("user", "a < b > c <| d |>"), ("assistant", "> quoted <")],
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("turns", HARD)
def test_hard_text_equals_too(model, turns, encoder_of, tokenizer_of):
    messages = [{"role": role, "content": text} for role, text in turns]
    expected = tokenizer_of(model).apply_chat_template(messages, tokenize=True)["input_ids"]
    sample = encoder_of(model).encode(read_record({"messages": messages}))
    assert sample.input_ids.tolist() == expected


@pytest.mark.parametrize("model", MODELS)
def test_parts_reasoning_and_arguments_as_text(model, encoder_of, tokenizer_of):
    call = {"type": "function", "id": "1", "function": {"name": "f", "arguments": {"a": [1, "é"]}}}
    last = {"role": "assistant", "content": "A", "reasoning_content": "hm"}
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}] * 2}, last]
    if model != "qwen2_5_vl":
        messages[1:1] = [
            {"role": "assistant", "content": "Let me", "tool_calls": [call, call]},
            {"role": "tool", "content": "3"},
            {"role": "tool", "content": "4"},
        ]
    kwargs = {"add_vision_id": True, "enable_thinking": False}
    tools = [{"type": "function", "function": {"name": "f", "description": "<&'\">"}}]
    expected = tokenizer_of(model).apply_chat_template(messages, tools=tools, **kwargs)["input_ids"]
    record = {"messages": messages, "tools": tools, "chat_template_kwargs": kwargs}
    encoder = encoder_of(model)
    assert encoder.encode(read_record(record)).input_ids.tolist() == expected
    if model == "qwen3_5":
        as_text = {**call, "function": {"name": "f", "arguments": json.dumps({"a": [1, "é"]})}}
        record["messages"] = [messages[0], {**messages[1], "tool_calls": [as_text, call]}]
        record["messages"] += messages[2:]
        assert encoder.encode(read_record(record)).input_ids.tolist() == expected


@settings(max_examples=80, deadline=None)
@given(st.lists(st.text(max_size=12) | st.sampled_from(["  ", "\n\n", "<", "\u0301"]), max_size=4))
def test_any_text_equals(encoder_of, tokenizer_of, pieces):
    text = "".join(pieces)
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": text + "."}]
    expected = tokenizer_of("qwen3_vl").apply_chat_template(messages, tokenize=True)["input_ids"]
    sample = encoder_of("qwen3_vl").encode(read_record({"messages": messages}))
    assert sample.input_ids.tolist() == expected
    learned = tokenizer_of("qwen3_vl").decode(sample.labels[sample.labels != IGNORED])
    whole = unicodedata.normalize("NFC", text + ".<|im_end|>")
    # a token that lies across the start is left out with the white space that it holds
    assert whole.endswith(learned)
    assert not whole.removesuffix(learned).strip()


TAGGED = """{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}
{%- else %}{{ m.content }}<|im_end|>{% endif %}{{ '\\n' }}
{%- endfor %}"""


def test_generation_tags_mark_what_transformers_marks(shared, tokenizer_of, chats, tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).symlink_to(shared / "models" / "qwen3_vl" / name)
    (tmp_path / "chat_template.jinja").write_text(TAGGED)
    encoder = TextEncoder.open(tmp_path)
    for record, messages, _ in chats[:20]:
        expected = tokenizer_of("qwen3_vl").apply_chat_template(
            messages,
            chat_template=TAGGED,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        sample = encoder.encode(read_record(record))
        assert sample.input_ids.tolist() == expected["input_ids"]
        assert (sample.labels != IGNORED).tolist() == [m == 1 for m in expected["assistant_masks"]]


def test_thinking_is_learned_with_the_answer(encoder_of, tokenizer_of):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    sample = encoder_of("qwen3_5").encode(read_record({"messages": messages}))
    learned = sample.labels[sample.labels != IGNORED]
    assert tokenizer_of("qwen3_5").decode(learned) == "<think>\n\n</think>\n\nb<|im_end|>"


def cases(folder):
    """Every sample of the published cases: (case, sample id, record, figures, family)."""
    for path in sorted(p for p in folder.iterdir() if p.name[0] in "cjt" and p.is_dir()):
        expect = json.loads((path / "expected.json").read_text(encoding="utf-8"))["expect"]
        source = next(iter(sorted(path.glob("input.json*"))), None)
        if source is None:
            continue
        reader = inputs.reader_for(source)
        records = {}
        for part in reader.ranges(source, 2**20):
            for raw in reader.records(source, part):
                try:
                    record = parse(raw)
                except Rejection:
                    continue
                records[record.get("id")] = record
        yield path.name, expect, records


def encode_case(encoder, record, grids):
    images = [Expansion(PAD, (prod(grid) // 4,)) for grid in grids]
    return encoder.encode(read_record(record), images)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_figures_of_the_cases(shared, encoder_of, family):
    encoder = encoder_of("qwen2_5_vl" if family == "qwen2_vl" else family)
    checked = 0
    for name, expect, records in cases(shared / "cases"):
        for sample in expect.get("samples", []):
            figures = sample.get("tokens", {}).get(family)
            if figures is None or sample["id"] not in records:
                continue
            encoded = encode_case(encoder, records[sample["id"]], figures["grid_thw"])
            assert encoded.input_ids.size == figures["n_tokens"], name
            assert np.sum(encoded.labels != IGNORED) == figures["n_supervised"], name
            for text_id, count in expect.get("count_of_id", {}).get(family, {}).items():
                assert np.sum(encoded.input_ids == int(text_id)) == count, name
            checked += 1
    assert checked >= 15


def test_reasons_of_the_cases(shared, encoder_of):
    encoder = encoder_of("qwen3_vl")
    grid = (1, 16, 16)
    seen = 0
    for name, expect, records in cases(shared / "cases"):
        reasons = {k: n for k, n in expect.get("reasons", {}).items() if k != "over_length"}
        found = {}
        for record in records.values():
            try:
                count = sum(m.kind == "image" for m in read_record(record).media)
                encode_case(encoder, record, [grid] * count)
            except Rejection as rejection:
                found[rejection.code] = found.get(rejection.code, 0) + 1
        expected = {k: n for k, n in reasons.items() if k not in {"bad_json", "bad_utf8"}}
        assert found == expected, name
        seen += 1
    assert seen > 15
