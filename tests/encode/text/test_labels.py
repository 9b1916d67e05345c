import pytest
from hypothesis import given
from hypothesis import strategies as st

from packcli.contract.errors import Rejection
from packcli.encode.records.conversation import Turn
from packcli.encode.text.formats import ENDS
from packcli.encode.text.labels import learned_turns
from packcli.encode.text.spans import Span

HEADER = "assistant\n"


def learned(shown, content="<think>thought</think>"):
    """Learn from one answer, of which the template shows something."""
    pieces = ["", "<|im_start|>", HEADER + shown]
    spans = [Span(2, len(HEADER), 2)]
    return learned_turns([Turn("assistant", content)], spans, pieces, str)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "\n", "\u2003", "x", "<", ENDS[0], ENDS[-1]]))
)
def test_what_shows_only_space_tags_and_an_end_is_not_learned(bits):
    shown = "".join(bits)
    bare = shown.replace("<think>", "").replace("</think>", "")
    end = next((end for end in ENDS if bare.endswith(end)), "")
    assert bool(learned(shown)) == bool(bare.removesuffix(end).strip())


def test_an_answer_of_which_nothing_is_shown_is_refused():
    with pytest.raises(Rejection, match="leaves out an assistant turn"):
        learned("<think>\n</think>\n<|im_end|>", "<think>thought</think>answer")
