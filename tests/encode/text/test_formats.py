"""Formats that are no ChatML: ids are transformers', and exactly the answers are learned."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from packcli.contract.errors import InputError, Rejection
from packcli.encode.records.reading import read_record
from packcli.encode.text import sandbox
from packcli.encode.text.formats import FORMATS
from packcli.encode.text.template import ChatTemplate
from packcli.encode.text.text_encoder import TextEncoder

B = "\uff5c"
LLAMA = """{{- bos_token }}{%- for m in messages %}{%- if m.role == 'tool' %}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + m.content + '<|eot_id|>' }}
{%- elif m.tool_calls %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{{- '{"name": "' + m.tool_calls[0].function.name + '"}<|eom_id|>' }}
{%- else %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n'+ m.content | trim + '<|eot_id|>' }}
{%- endif %}{%- endfor %}"""
LLAMA4 = (
    LLAMA.replace("start_header_id", "header_start")
    .replace("end_header_id", "header_end")
    .replace("<|eot_id|>", "<|eot|>")
    .replace("<|eom_id|>", "<|eom|>")
)
GEMMA = """{{ bos_token }}{%- for m in messages %}
{%- set role = 'model' if m.role == 'assistant' else m.role %}
{{- '<start_of_turn>' + role + '\\n' + m.content | trim + '<end_of_turn>\\n' }}{%- endfor %}"""
MISTRAL = """{{- bos_token }}{%- for m in messages %}{%- if m.role == 'user' %}
{{- '[INST] ' + m.content + '[/INST]' }}{%- else %}{{- ' ' + m.content + eos_token }}
{%- endif %}{%- endfor %}"""
DEEPSEEK = f"""{{{{ bos_token }}}}{{%- for m in messages %}}{{%- if m.role == 'user' %}}
{{{{- '<{B}User{B}>' + m.content + '<{B}Assistant{B}>' }}}}{{%- else %}}
{{{{- m.content + '<{B}end▁of▁sentence{B}>' }}}}{{%- endif %}}{{%- endfor %}}"""
PHI = """{%- for m in messages %}
{{- '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{%- endfor %}{# <|assistant|> #}"""
GLM = """[gMASK]<sop>{%- for m in messages %}{%- if m.role == 'user' %}
{{- '<|user|>\\n' + m.content }}{%- elif m.role == 'tool' %}{{- '<|observation|>\\n' + m.content }}
{%- else %}{{- '<|assistant|>\\n' + m.content }}{%- endif %}{%- endfor %}"""
KIMI = """{%- for m in messages %}{%- if m.role == 'assistant' %}
{{- '<|im_assistant|>assistant<|im_middle|>' }}{%- else %}
{{- '<|im_user|>user<|im_middle|>' }}{%- endif %}{{- m.content + '<|im_end|>' }}{%- endfor %}"""
COMMAND = """{{ bos_token }}{%- for m in messages %}{{- '<|START_OF_TURN_TOKEN|>' }}
{{- '<|CHATBOT_TOKEN|>' if m.role == 'assistant' else '<|USER_TOKEN|>' }}
{{- m.content + '<|END_OF_TURN_TOKEN|>' }}{%- endfor %}"""
GRANITE = """{%- for m in messages %}
{{- '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\\n' }}
{%- endfor %}"""

# template, its added tokens, what is learned of two answers
CASES = {
    "Llama 3": (
        LLAMA,
        "<|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|>",
        ["One.<|eot_id|>", "Two.<|eot_id|>"],
    ),
    "Llama 4": (
        LLAMA4,
        "<|header_start|> <|header_end|> <|eot|> <|eom|>",
        ["One.<|eot|>", "Two.<|eot|>"],
    ),
    "Gemma": (
        GEMMA,
        "<start_of_turn> <end_of_turn>",
        ["One.<end_of_turn>", "Two.<end_of_turn>"],
    ),
    "Mistral": (MISTRAL, "[INST] [/INST]", [" One.</s>", " Two.</s>"]),
    "DeepSeek": (
        DEEPSEEK,
        f"<{B}User{B}> <{B}Assistant{B}> <{B}end▁of▁sentence{B}>",
        [f"One.<{B}end▁of▁sentence{B}>", f"Two.<{B}end▁of▁sentence{B}>"],
    ),
    "Phi": (PHI, "<|user|> <|assistant|> <|end|>", ["One.<|end|>", "Two.<|end|>"]),
    "GLM": (
        GLM,
        "[gMASK] <sop> <|user|> <|assistant|> <|observation|> <|system|>",
        ["\nOne.<|user|>", "\nTwo."],
    ),
    "Kimi": (
        KIMI,
        "<|im_assistant|> <|im_user|> <|im_middle|> <|im_end|>",
        ["One.<|im_end|>", "Two.<|im_end|>"],
    ),
    "Command": (
        COMMAND,
        "<|START_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|> <|USER_TOKEN|> <|END_OF_TURN_TOKEN|>",
        ["One.<|END_OF_TURN_TOKEN|>", "Two.<|END_OF_TURN_TOKEN|>"],
    ),
    "Granite": (
        GRANITE,
        "<|start_of_role|> <|end_of_role|> <|end_of_text|>",
        ["One.<|end_of_text|>", "Two.<|end_of_text|>"],
    ),
}


def write_model(folder, name):
    """A byte-level tokenizer with one format's tokens, and its template."""
    template, tokens, _ = CASES[name]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>", *tokens.split()])
    made.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(template)
    return folder


def answers(folder, sample):
    """Text of each run of supervised tokens."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    runs = [[]]
    for label in sample.labels.tolist():
        if label == -100:
            runs.append([])
        else:
            runs[-1].append(label)
    return [tokenizer.decode(run, skip_special_tokens=False) for run in runs if run]


def talk(*words):
    return [
        {"role": "assistant" if n % 2 else "user", "content": word} for n, word in enumerate(words)
    ]


def test_every_format_is_tried():
    assert CASES.keys() == {known.name for known in FORMATS} - {"ChatML"}


@pytest.mark.parametrize("name", CASES)
def test_answers_of_a_format(tmp_path, name):
    from transformers import PreTrainedTokenizerFast

    folder = write_model(tmp_path, name)
    typed = CASES[name][1].split()[-1]
    messages = talk(f"Is {typed} a token?\n", "One.", "And\n", "Two.")
    sample = TextEncoder.open(folder).encode(read_record({"messages": messages}))
    assert answers(folder, sample) == CASES[name][2]
    # transformers takes a typed token for the token: compare on words alone
    messages = talk("A question\n", "One.", " and ", "Two.\n\nlines")
    ours = TextEncoder.open(folder).encode(read_record({"messages": messages}))
    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        bos_token="<s>",
        eos_token="</s>",
        chat_template=CASES[name][0],
    )
    told = theirs.apply_chat_template(messages, tokenize=True, return_dict=True)
    assert ours.input_ids.tolist() == told["input_ids"]


def test_a_call_of_llama_ends_with_its_own_token(tmp_path):
    folder = write_model(tmp_path, "Llama 3")
    messages = [
        *talk("q"),
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "find"}}]},
        {"role": "tool", "content": "4"},
        *talk("", "It is 4.")[1:],
    ]
    sample = TextEncoder.open(folder).encode(read_record({"messages": messages}))
    assert answers(folder, sample) == ['{"name": "find"}<|eom_id|>', "It is 4.<|eot_id|>"]


@pytest.mark.parametrize("name", ["Mistral", "DeepSeek"])
def test_a_question_without_an_answer_is_not_one(tmp_path, name):
    folder = write_model(tmp_path, name)
    messages = [*talk("a"), *talk("b", "One.", "c")]
    sample = TextEncoder.open(folder).encode(read_record({"messages": messages}))
    assert answers(folder, sample) == CASES[name][2][:1]


def test_an_empty_answer_is_masked(tmp_path):
    for name in CASES:
        folder = write_model(tmp_path, name)
        record = read_record({"messages": talk("a", "", "b", "Two.")})
        assert answers(folder, TextEncoder.open(folder).encode(record)) == CASES[name][2][1:], name


def test_an_answer_that_the_template_does_not_end(tmp_path):
    folder = write_model(tmp_path, "Gemma")
    broken = GEMMA.replace("'<end_of_turn>\\n'", "('<end_of_turn>\\n' if loop.last else '')")
    (folder / "chat_template.jinja").write_text(broken)
    record = read_record({"messages": talk("a", "One.", "b", "Two.")})
    with pytest.raises(Rejection, match="did not end answer 0"):
        TextEncoder.open(folder).encode(record)


def test_a_format_that_nobody_knows_is_refused_with_the_remedy(tmp_path):
    folder = write_model(tmp_path, "Gemma")
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    with pytest.raises(InputError, match=r"neither ChatML nor .*put \{% generation %\}"):
        TextEncoder.open(folder)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "seconds"),
        ("{{ 'a' * 99999999999 }}", "so much with *"),
        ("{{ 99999999999 * [1] }}", "so much with *"),
        ("{{ 10 ** (10 ** 10) }}", "so much with **"),
        ("{{ '%999999999d' % 1 }}", "so much with %"),
        ("{{ '%*d' % (999999999, 1) }}", "so much with %"),
    ],
)
def test_a_hostile_template_cannot_hang(monkeypatch, source, told):
    monkeypatch.setattr("packcli.encode.text.template.RENDER_SECONDS", 0.2)
    monkeypatch.setattr(sandbox, "RENDER_SECONDS", 0.2)
    template = ChatTemplate("{% if messages[1] %}" + source + "{% endif %}", {})
    with pytest.raises(Rejection) as caught:
        template.render(talk("a", "b"))
    assert caught.value.code == "template_error"
    assert told in caught.value.message


def test_small_arithmetic_is_left_alone():
    source = "{{ 'ab' * 3 }}{{ 7 % 4 }}{{ '%02d' % 5 }}{{ 2 ** 10 }}{{ 6 * 7 }}{{ 2 * [1] }}"
    assert ChatTemplate(source, {}).render([]) == "ababab30510244" + "2[1, 1]"
