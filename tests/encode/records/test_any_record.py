"""Whatever JSON comes in: a sample or a rejection, never a crash."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from packcli.contract.errors import Rejection
from packcli.contract.packs import IGNORED
from packcli.encode.records.reading import read_record
from packcli.families.family import Expansion

NAMES = st.sampled_from(
    [
        *("role", "from", "content", "value", "type", "text", "image", "images", "video", "path"),
        *("bytes", "tool_calls", "function", "name", "arguments", "messages", "conversations"),
        *("history", "fps", "query", "response", "prompt", "completion", "tools", "system"),
        *("loss", "weight", "user"),
    ]
)
WORDS = st.sampled_from(["user", "assistant", "tool", "gpt", "function_call", "text", "", "image"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
MESSAGE = st.fixed_dictionaries(
    {"role": WORDS, "content": WORDS | VALUES}, optional={"tool_calls": st.lists(VALUES)}
)
RECORD = st.dictionaries(NAMES, VALUES, max_size=5) | st.fixed_dictionaries(
    {"messages": st.lists(MESSAGE, max_size=4)}, optional={"tools": VALUES, "images": VALUES}
)


@settings(max_examples=300, deadline=None)
@given(RECORD)
def test_any_record_is_a_sample_or_a_rejection(tiny, record):
    try:
        talk = read_record(record)
        images = [Expansion("<|image_pad|>", (1,))] * sum(m.kind == "image" for m in talk.media)
        sample = tiny.encode(talk, images)
    except Rejection as rejection:
        told = rejection.message
    else:
        assert np.any(sample.labels[1:] != IGNORED)
        return
    assert "\n" not in told
