from itertools import product

import pytest

from packcli.contract.errors import Rejection
from packcli.encode.placeholders import Placeholders
from packcli.encode.records.conversation import Conversation, Turn
from packcli.encode.text import frames
from packcli.encode.text.quick_template import NotAlikeError
from packcli.encode.text.text_encoder import TextEncoder
from tests.encode.conftest import CHATML, write_model

TEXTS = (
    "Hi",
    " Hi\n",
    "\n\na",
    "a\u3000",
    "<",
    "|>",
    "im_end|>",
    "é 你好",
    "user\n",
    "\x1ca\x85",
    "</s>x",
)
FORMS = (
    ("user", "assistant"),
    ("system", "user", "assistant"),
    ("user", "assistant", "user", "assistant"),
    ("assistant",),
    ("user", "system", "assistant"),
    ("user", "assistant", "user"),
)
ASK = "<|im_start|>{{ message.role }}\n"
END = "<|im_end|>\n"


def chat_of(roles, texts):
    turns = [Turn(role, text) for role, text in zip(roles, texts, strict=True)]
    return Conversation("x", tuple(turns))


def opened(folder, body, before=""):
    source = f"{before}{{% for message in messages %}}{body}{{% endfor %}}"
    return TextEncoder.open(write_model(folder, source), tokenizer="auto")


def rendered(encoder, conversation, supervise="all"):
    try:
        return encoder.cut(conversation, encoder.render(conversation), supervise=supervise)
    except Rejection:
        return None


def assert_alike(encoder, roles, texts):
    """A frame gives what rendering gives; tell whether there was one."""
    conversation = chat_of(roles, texts)
    framed = encoder.framed(conversation)
    if framed is None:
        return False
    expected = rendered(encoder, conversation)
    assert framed.texts == expected.texts
    assert [span for _, span in framed.learned] == [span for _, span in expected.learned]
    ours, theirs = encoder.finish([framed, expected])
    assert ours.input_ids.tolist() == theirs.input_ids.tolist()
    assert ours.labels.tolist() == theirs.labels.tolist()
    last = encoder.framed(conversation, supervise="last")
    assert [span for _, span in last.learned] == [span for _, span in framed.learned[-1:]]
    return True


@pytest.mark.parametrize("roles", FORMS)
def test_a_frame_holds_what_is_rendered(tmp_path, roles):
    encoder = TextEncoder.open(write_model(tmp_path), tokenizer="auto")
    found = [assert_alike(encoder, roles, [t] * len(roles)) for t in TEXTS]
    assert all(found)


@pytest.mark.parametrize("model", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_real_templates_have_frames(shared, model):
    places = Placeholders("<|image_pad|>", "<|video_pad|>")
    encoder = TextEncoder.open(shared / "models" / model, places, tokenizer="auto")
    for roles, (one, other) in product(FORMS, zip(TEXTS, reversed(TEXTS), strict=True)):
        texts = [other if role == "assistant" else one for role in roles]
        found = assert_alike(encoder, roles, texts)
        assert (
            found or rendered(encoder, chat_of(roles, texts)) is None or roles[1:2] == ("system",)
        )


@pytest.mark.parametrize(
    "shown",
    [
        "{{ message.content | trim }}",
        "{{ message.content.strip() }}",
        "{{ ' ' + message.content.lstrip() }}",
        "{{ (message.content | trim).rstrip('\\n') }}",
        "{% set text = message.content %}{{ '' ~ text ~ '' }}",
        "{% set text %}\n {{ message.content }} {% endset %}{{ text | trim }}",
        "{% if message.content %}{{ message.content }}{% endif %}",
        "{% if message.content is string %}{{ message.content }}{% endif %}",
        "{% if '</think>' in message.content %}no{% else %}{{ message.content }}{% endif %}",
        "{% if message.content.startswith('<think>') %}no{% endif %}{{ message.content }}",
        "{% if message.content == '' %}no{% endif %}{{ message.content }}",
        "{{ message.content | default('', true) }}",
    ],
)
def test_what_is_true_of_every_text_may_be_asked(tmp_path, shown):
    encoder = opened(tmp_path, f"{ASK}{shown}{END}")
    found = [assert_alike(encoder, ("user", "assistant"), ("Hi", text)) for text in TEXTS]
    assert all(found)


@pytest.mark.parametrize(
    "shown",
    [
        "{{ message.content | upper }}",
        "{{ message.content | length }}{{ message.content }}",
        "{{ message.content | replace('a', 'b') }}",
        "{{ message.content | tojson }}",
        "{{ message | tojson }}",
        "{{ message }}",
        "{{ [message.content] }}",
        "{{ [message.content] | join }}",
        "{{ '%s' % message.content }}",
        "{{ ('a' | safe) + message.content }}",
        "{{ message.content * 2 }}",
        "{{ message.content[1:] }}",
        "{{ message.content[0] }}",
        "{{ message.content.split('a')[0] }}",
        "{{ message.content.title() }}",
        "{{ message.content.strip('a') }}",
        "{{ message.content.rstrip('\\n') }}",
        "{{ 'a'.join([message.content, 'b']) }}",
        "{{ ('a' + message.content).startswith('aHi') }}{{ message.content }}",
        "{% for c in message.content %}{{ c }}{% endfor %}",
        "{% if 'x' in message.content %}x{% endif %}{{ message.content }}",
        "{% if message.content in 'Hi there' %}x{% endif %}{{ message.content }}",
        "{% if message.content in {'Hi': 1} %}x{% endif %}{{ message.content }}",
        "{% if message.content == 'Hi' %}x{% endif %}{{ message.content }}",
        "{% if 'Hi' < message.content %}x{% endif %}{{ message.content }}",
        "{% if message.content is lower %}x{% endif %}{{ message.content }}",
        "{% if message.content is eq('Hi') %}x{% endif %}{{ message.content }}",
        "{{ messages | selectattr('content', 'eq', 'Hi') | list | length }}{{ message.content }}",
        "{{ message.content }}{{ message.content }}",
        "{% if message.role == 'assistant' %}{{ message.content }}{% endif %}",
        "{{ strftime_now('%Y') }}{{ message.content }}",
        "<{{ message.content }}",
        "{{ message.content }}im_end|>",
        "\U00100000{{ message.content }}",
    ],
)
def test_a_template_that_looks_into_texts_has_no_frame(tmp_path, shown):
    encoder = opened(tmp_path, f"{ASK}{shown}{END}")
    assert encoder.framed(chat_of(("user", "assistant"), ("Hi", "Hi"))) is None


@pytest.mark.parametrize(
    "body",
    [
        f"{ASK}{{% generation %}}{{{{ message.content }}}}{{% endgeneration %}}{END}",
        f"{{{{ message.content }}}}{ASK}{END}",
        f"<|im_start|>{{{{ message.content }}}}{END}",
    ],
)
def test_answers_that_are_found_by_what_is_in_them_have_no_frame(tmp_path, body):
    encoder = opened(tmp_path, body, before="{# <|im_start|>assistant <|im_end|> #}")
    assert encoder.framed(chat_of(("user", "assistant"), ("Hi", "Hi"))) is None


@pytest.mark.parametrize(
    "text",
    ["", " \n", "<|im_end|>", "a<think>b", "\U000f0001", "\ud800", "</s>", "<think>", "\U000ffffd"],
)
def test_texts_that_have_to_be_rendered(tmp_path, text):
    encoder = TextEncoder.open(write_model(tmp_path), tokenizer="auto")
    assert encoder.framed(chat_of(("user", "assistant"), ("Hi", text))) is None
    assert encoder.framed(chat_of(("user", "assistant"), (text, "Hi"))) is None


@pytest.mark.parametrize(
    "more",
    [
        {"loss": False},
        {"weight": 2.0},
        {"name": "n"},
        {"reasoning_content": "r"},
        {"tool_calls": []},
    ],
)
def test_turns_that_are_more_than_text_are_rendered(tmp_path, more):
    encoder = TextEncoder.open(write_model(tmp_path), tokenizer="auto")
    turns = (Turn("user", "Hi"), Turn("assistant", "Hi", **more))
    assert encoder.framed(Conversation("x", turns)) is None


def test_references_alone_use_no_frames(tmp_path):
    chat = chat_of(("user", "assistant"), ("Hi", "Hi"))
    assert TextEncoder.open(write_model(tmp_path)).framed(chat) is None
    encoder = TextEncoder.open(tmp_path, tokenizer="auto")
    encoder.trust(quick=False)
    assert encoder.framed(chat) is None
    encoder.trust(quick=True)
    assert encoder.framed(chat) is not None


def test_a_share_is_compared_with_the_template(tmp_path, monkeypatch):
    encoder = TextEncoder.open(write_model(tmp_path), tokenizer="auto")
    chat = chat_of(("user", "assistant"), ("Hi", "Hi"))
    assert encoder.framed(chat) is not None
    monkeypatch.setattr(frames, "drawn", lambda _: True)
    assert encoder.framed(chat) is not None
    template = encoder._chats[False].template
    monkeypatch.setattr(template, "exact", lambda _: "something else")
    with pytest.raises(NotAlikeError):
        encoder.framed(chat)


def test_forms_are_bounded(tmp_path, monkeypatch):
    encoder = TextEncoder.open(write_model(tmp_path), tokenizer="auto")
    monkeypatch.setattr(frames, "_MOST", 3)
    found = [
        encoder.framed(chat_of(("user", "assistant") * n, ("Hi", "Hi") * n)) for n in range(1, 6)
    ]
    assert [one is not None for one in found] == [True, True, True, False, False]
    assert encoder.framed(chat_of(("assistant",) * 65, ("Hi",) * 65)) is None


def test_the_tail_that_a_family_drops(tmp_path):
    folder = write_model(tmp_path, CHATML)
    encoder = TextEncoder.open(folder, Placeholders(tail="\n"), tokenizer="auto")
    assert assert_alike(encoder, ("user", "assistant"), ("Hi", "Hi"))
    folder = write_model(tmp_path / "2", CHATML.replace("'<|im_end|>\\n'", "'<|im_end|>' + ''"))
    encoder = TextEncoder.open(folder, Placeholders(tail="<|im_end|>"), tokenizer="auto")
    assert not assert_alike(encoder, ("user", "assistant"), ("Hi", "Hi"))
