import pytest
from hypothesis import given
from hypothesis import strategies as st

from packcli.encode.text.marks import CLOSE, OPEN, SPARED, Marks

TOKENS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|image_pad|>", "<tool_call>"]
MARKS = Marks(TOKENS)
TYPED = st.lists(
    st.one_of(
        st.sampled_from(
            [*TOKENS, "<|im_", "end|>", "</th", "think", ">", "<", OPEN, CLOSE, "\U000ffffd"]
        ),
        st.characters(min_codepoint=0xF0000, max_codepoint=0xFFFFD),
        st.text(max_size=3),
    ),
    max_size=8,
).map("".join)


@given(TYPED)
def test_nothing_is_lost(text):
    assert MARKS.unmark(MARKS.mark(text)) == text


@given(TYPED)
def test_no_token_is_left(text):
    marked = MARKS.mark(text)
    assert not any(token in marked for token in TOKENS)


@given(TYPED, TYPED)
def test_two_texts_make_no_token_between_them(left, right):
    # the middle of a token alone is not guarded: a template would have to write both its ends
    joined = MARKS.mark(left) + MARKS.mark(right)
    assert not any(token in joined for token in TOKENS)
    assert MARKS.unmark(joined) == left + right


def test_a_template_does_not_complete_a_typed_half():
    assert "</think>" not in "<function=" + MARKS.mark("x</think") + ">"
    assert "<think>" not in "<" + MARKS.mark("think>")


@given(TYPED)
def test_a_typed_mark_is_never_a_generation_mark(text):
    marked = MARKS.mark(text)
    escaped = marked.replace("\U000ffffd" + OPEN, "").replace("\U000ffffd" + CLOSE, "")
    assert (OPEN in text) >= (OPEN in escaped)
    assert MARKS.unmark(OPEN + marked + CLOSE) == text


def test_ordinary_text_is_the_same_object():
    text = "a < b and c > d | e"
    assert MARKS.mark(text) is text


def test_an_assistant_keeps_its_own_markers():
    text = "<think>x</think><|im_end|>"
    marked = MARKS.mark(text, SPARED)
    assert marked.startswith("<think>x</think>")
    assert "<|im_end|>" not in marked
    assert MARKS.unmark(marked) == text


def test_values_and_keys_are_marked():
    value = {"a<think>": ["<|im_end|>", 1, None, {"x": True}]}
    marked = MARKS.mark_values(value)
    assert "<think>" not in next(iter(marked))
    assert "<|im_end|>" not in marked[next(iter(marked))][0]
    assert next(iter(marked.values()))[1:] == [1, None, {"x": True}]


@pytest.mark.parametrize("text", ["", "a" * 100, "é\U0001f600"])
def test_no_tokens_no_marks(text):
    assert Marks([]).mark(text) == text
