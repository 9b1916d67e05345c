"""Formats that are no ChatML: ids are transformers', and exactly the answers are learned."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from packcli.contract.errors import InputError, Rejection
from packcli.encode.records.reading import read_record
from packcli.encode.text import bounds, sandbox
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

PHI4 = """{%- for m in messages %}
{{- '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant<|im_sep|>' }}{%- endif %}"""
GEMMA4 = """{{- bos_token }}{%- set ns = namespace(after='') %}{%- for m in messages %}
{%- if m.role == 'tool' %}
{{- ('' if ns.after == 'call' else '<|tool_response>') + m.content + '<tool_response|>' }}
{%- elif m.role == 'user' %}{{- '<|turn>user\n' + m.content + '<turn|>\n' }}
{%- else %}{%- if ns.after != 'tool' %}{{- '<|turn>model\n' }}{%- endif %}
{%- if m.tool_calls %}{%- for c in m.tool_calls %}
{{- '<|tool_call>' + c.function.name + '<tool_call|>' }}{%- endfor %}{{- '<|tool_response>' }}
{%- else %}{{- m.content | trim + '<turn|>\n' }}{%- endif %}{%- endif %}
{%- set ns.after = 'call' if m.tool_calls else m.role %}{%- endfor %}"""
EXAONE = """{%- for m in messages %}{{- '[|' + m.role + '|]' + m.content }}
{{- '[|endofturn|]\n' if m.role == 'assistant' else '\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '[|assistant|]' }}{%- endif %}"""
IDEFICS = """<|begin_of_text|>{%- for m in messages %}
{{- m.role | capitalize + ': ' + m.content + '<end_of_utterance>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- 'Assistant:' }}{%- endif %}"""

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
    "Phi 4": (
        PHI4,
        "<|im_start|> <|im_sep|> <|im_end|>",
        ["One.<|im_end|>", "Two.<|im_end|>"],
    ),
    "Gemma 4": (
        GEMMA4,
        "<|turn> <turn|> <|tool_call> <tool_call|> <|tool_response> <tool_response|>",
        ["One.<turn|>", "Two.<turn|>"],
    ),
    "Idefics 3": (
        IDEFICS,
        "<|begin_of_text|> <end_of_utterance>",
        [" One.<end_of_utterance>", " Two.<end_of_utterance>"],
    ),
    "Phi": (PHI, "<|user|> <|assistant|> <|end|>", ["One.<|end|>", "Two.<|end|>"]),
    "GLM": (
        GLM,
        "[gMASK] <sop> <|user|> <|assistant|> <|observation|> <|system|>",
        ["\nOne.<|user|>", "\nTwo."],
    ),
    "EXAONE": (
        EXAONE,
        "[|user|] [|assistant|] [|endofturn|]",
        ["One.[|endofturn|]", "Two.[|endofturn|]"],
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


def write_model(folder, name, template=None, more=""):
    """A byte-level tokenizer with one format's tokens, and its template or another one."""
    template, tokens = template or CASES[name][0], f"{CASES[name][1]} {more}"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([*dict.fromkeys(["<s>", "</s>", *tokens.split()])])
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


def calls(*names):
    return [
        {
            "type": "function",
            "id": f"call0000{n}",
            "function": {"name": name, "arguments": {"n": n}},
        }
        for n, name in enumerate(names)
    ]


# calls, their results and answers as published templates write them; what is learned
TOOLED = {
    # arguments are JSON text, no header behind results, which have one end each and one for all
    "DeepSeek": (
        f"""{{{{- bos_token }}}}{{%- for m in messages %}}
{{%- if m.role == 'user' %}}{{{{- '<{B}User{B}>' + m.content }}}}
{{%- elif m.role == 'tool' %}}{{{{- '<{B}tool▁output▁begin{B}>' + m.content }}}}
{{{{- '<{B}tool▁output▁end{B}>' }}}}
{{%- if loop.last or messages[loop.index].role != 'tool' %}}
{{{{- '<{B}tool▁outputs▁end{B}>' }}}}{{%- endif %}}
{{%- else %}}{{%- if messages[loop.index0 - 1].role == 'user' %}}
{{{{- '<{B}Assistant{B}>' }}}}{{%- endif %}}{{{{- m.content }}}}
{{%- for c in m.tool_calls or [] %}}{{{{- c.function.name + c.function.arguments }}}}{{%- endfor %}}
{{{{- '<{B}end▁of▁sentence{B}>' }}}}{{%- endif %}}{{%- endfor %}}""",
        f"<{B}tool▁output▁begin{B}> <{B}tool▁output▁end{B}> <{B}tool▁outputs▁end{B}>",
        [
            f'a{{"n": 0}}b{{"n": 1}}<{B}end▁of▁sentence{B}>',
            f'c{{"n": 0}}<{B}end▁of▁sentence{B}>',
            f"It is 4.<{B}end▁of▁sentence{B}>",
        ],
    ),
    "Mistral": (
        """{{- bos_token }}{%- for m in messages %}
{%- if m.role == 'user' %}{{- '[AVAILABLE_TOOLS][][/AVAILABLE_TOOLS][INST]' + m.content }}
{{- '[/INST]' }}
{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}
{%- elif m.tool_calls %}{{- '[TOOL_CALLS]' }}
{%- for c in m.tool_calls %}{{- c.function.name + ';' }}{%- endfor %}{{- eos_token }}
{%- else %}{{- m.content + eos_token }}{%- endif %}{%- endfor %}""",
        "[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS]",
        [
            "[TOOL_CALLS]a;b;</s>",
            "[TOOL_CALLS]c;</s>",
            "It is 4.</s>",
        ],
    ),
    # one turn of the model holds all of it, its results are not learned
    "Gemma 4": (
        GEMMA4,
        "",
        [
            "<|tool_call>a<tool_call|><|tool_call>b<tool_call|><|tool_response>",
            "<|tool_call>c<tool_call|><|tool_response>",
            "It is 4.<turn|>",
        ],
    ),
    "GLM": (
        """[gMASK]<sop>{%- for m in messages %}{%- if m.role == 'user' %}
{{- '<|user|>\n' + m.content }}{%- elif m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|observation|>' }}{%- endif %}
{{- '\n' + m.content }}{%- else %}{{- '<|assistant|>\n' + m.content }}
{%- for c in m.tool_calls or [] %}{{- '<tool_call>' + c.function.name }}{%- endfor %}
{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}""",
        "<tool_call>",
        [
            "\n<tool_call>a<tool_call>b<|observation|>",
            "\n<tool_call>c<|observation|>",
            "\nIt is 4.",
        ],
    ),
}


@pytest.mark.parametrize("name", TOOLED)
def test_calls_are_learned_and_results_are_not(tmp_path, name):
    template, tokens, learned = TOOLED[name]
    folder = write_model(tmp_path, name, template, tokens)
    messages = [
        *talk("q"),
        {"role": "assistant", "content": "", "tool_calls": calls("a", "b")},
        {"role": "tool", "content": '{"r1": 4}', "tool_call_id": "call00000"},
        {"role": "tool", "content": '{"r2": 5}', "tool_call_id": "call00001"},
        {"role": "assistant", "content": "", "tool_calls": calls("c")},
        {"role": "tool", "content": '{"r3": 6}', "tool_call_id": "call00000"},
        *talk("", "It is 4.")[1:],
    ]
    encoder = TextEncoder.open(folder)
    assert answers(folder, encoder.encode(read_record({"messages": messages}))) == learned
    # results at the end are followed by nothing, which is no answer
    sample = encoder.encode(read_record({"messages": messages[:-1]}))
    assert answers(folder, sample) == learned[:-1]


def test_a_call_that_is_shown_only_beside_null(tmp_path):
    template = """{%- for m in messages %}{%- if m.role == 'user' %}[INST]{{ m.content }}[/INST]
{%- elif m.content is none %}{{ m.tool_calls[0].function.name + eos_token }}
{%- else %}{{ m.content + eos_token }}{%- endif %}{%- endfor %}"""
    folder = write_model(tmp_path, "Mistral", template)
    encoder = TextEncoder.open(folder)
    for content in ("", None):
        call = {"role": "assistant", "content": content, "tool_calls": calls("find")}
        sample = encoder.encode(read_record({"messages": [*talk("q"), call]}))
        assert answers(folder, sample) == ["find</s>"]
    call["content"] = "I look it up."
    with pytest.raises(Rejection, match="leaves out the tool call 'find'"):
        encoder.encode(read_record({"messages": [*talk("q"), call]}))


def test_a_template_that_leaves_out_a_result(tmp_path):
    template = LLAMA.replace("m.content + '<|eot_id|>'", "'<|eot_id|>'", 1)
    assert template != LLAMA
    folder = write_model(tmp_path, "Llama 3", template)
    messages = [
        *talk("q"),
        {"role": "assistant", "content": "", "tool_calls": calls("a")},
        {"role": "tool", "content": '{"weather": "<rain>"}'},
        *talk("", "Yes.")[1:],
    ]
    with pytest.raises(Rejection, match="leaves out the tool turn 3; use a template that knows"):
        TextEncoder.open(folder).encode(read_record({"messages": messages}))


@pytest.mark.parametrize(
    ("name", "space", "prompted"),
    [("Phi", "", ""), ("Phi", "\n", "\n"), ("GLM", "\n", "\n"), ("GLM", "\n", "")],
)
def test_white_space_of_the_prompt_is_not_learned(tmp_path, name, space, prompted):
    end = "<|end|>" if name == "Phi" else ""
    template = f"""{{%- for m in messages %}}
{{{{- '<|' + m.role + '|>{space}' + m.content + '{end}' }}}}{{%- endfor %}}
{{%- if add_generation_prompt %}}{{{{- '<|assistant|>{prompted}' }}}}{{%- endif %}}"""
    folder = write_model(tmp_path, name, template)
    sample = TextEncoder.open(folder).encode(read_record({"messages": talk("a", "\nOne.", "b")}))
    ends = {"Phi": "<|end|>", "GLM": "<|user|>"}[name]
    kept = space.replace("\\n", "\n").removeprefix(prompted.replace("\\n", "\n"))
    assert answers(folder, sample) == [f"{kept}\nOne.{ends}"]


@pytest.mark.parametrize("name", ["Phi", "Command"])
def test_a_template_that_ends_with_a_header(tmp_path, name):
    header = {
        "Phi": "{{ '<|assistant|>\\n' }}",
        "Command": "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    }[name]
    folder = write_model(tmp_path, name, CASES[name][0] + header)
    sample = TextEncoder.open(folder).encode(
        read_record({"messages": talk("a", "One.", "b", "Two.")})
    )
    assert answers(folder, sample) == CASES[name][2]


def test_a_header_that_is_written_with_the_question(tmp_path):
    template = """{%- for m in messages %}{%- if m.role == 'user' %}
{{- '<|user|>\n' + m.content + '<|end|>\n<|assistant|>\n' }}{%- else %}
{{- m.content + '<|end|>\n' }}{%- endif %}{%- endfor %}"""
    folder = write_model(tmp_path, "Phi", template)
    messages = [*talk("a"), *talk("b", "One.", "c")]
    sample = TextEncoder.open(folder).encode(read_record({"messages": messages}))
    assert answers(folder, sample) == ["One.<|end|>"]


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


TWICE = "{% set ns = namespace(s='aa') %}{% for _ in range(60) %}"
PUT = "{% set ns.s = s %}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "seconds"),
        ("{{ 'a' * 99999999999 }}", "so much with *"),
        ("{{ 99999999999 * [1] }}", "so much with *"),
        ("{{ 10 ** (10 ** 10) }}", "so much with **"),
        ("{{ '%999999999d' % 1 }}", "so much with %"),
        ("{{ '%*d' % (999999999, 1) }}", "so much with %"),
        (f"{TWICE}{{% set ns.s = ns.s ~ ns.s %}}{{% endfor %}}", "so much with ~"),
        (f"{TWICE}{{% set ns.s = ns.s + ns.s %}}{{% endfor %}}", "so much with +"),
        (f"{TWICE}{{% set s %}}{{{{ ns.s }}}}{{{{ ns.s }}}}{{% endset %}}{PUT}", "so much with ~"),
        (f"{TWICE}{{% set s = [ns.s, ns.s] | join %}}{PUT}", "so much with join"),
        (f"{TWICE}{{% set s = ns.s.join(['a', 'a', 'a']) %}}{PUT}", "so much with join"),
        (f"{TWICE}{{% set s = ns.s | replace('a', 'aa') %}}{PUT}", "so much with replace"),
        (f"{TWICE}{{% set s = ns.s.replace('a', 'aa') %}}{PUT}", "so much with replace"),
        (f"{TWICE}{{% set s = ns.s.replace('', 'a') %}}{PUT}", "so much with replace"),
        (f"{TWICE}{{% set s = ns.s.expandtabs(9) %}}{{% set ns.s = s ~ s %}}{{% endfor %}}", "~"),
        ("{{ 'a' | center(99999999999) }}", "so much with center"),
        ("{{ 'a'.ljust(99999999999) }}", "so much with ljust"),
        ("{{ '\\t'.expandtabs(99999999999) }}", "so much with expandtabs"),
        ("{{ 'a' | indent(99999999999, true) }}", "so much with indent"),
        ("{{ '%99999999999d' | format(1) }}", "so much with format"),
        ("{{ '{:99999999999}'.format(1) }}", "so much with format"),
        ("{{ '{:{w}}'.format(1, w=99999999999) }}", "so much with format"),
    ],
)
def test_a_hostile_template_cannot_hang(monkeypatch, source, told):
    monkeypatch.setattr("packcli.encode.text.template.RENDER_SECONDS", 0.2)
    monkeypatch.setattr(sandbox, "RENDER_SECONDS", 0.2)
    monkeypatch.setattr(bounds, "OUTPUT_LIMIT", 2**18)
    template = ChatTemplate("{% if messages[1] %}" + source + "{% endif %}", {})
    with pytest.raises(Rejection) as caught:
        template.render(talk("a", "b"))
    assert caught.value.code == "template_error"
    assert told in caught.value.message


def test_doubling_sixty_times_ends_at_the_limit():
    template = ChatTemplate(f"{TWICE}{{% set ns.s = ns.s ~ ns.s %}}{{% endfor %}}", {})
    template.prepare_quick()  # must not even try: without bounds the process would end
    assert template._quick is None
    tracemalloc.start()
    with pytest.raises(Rejection, match="so much with ~"):
        template.render([])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * bounds.OUTPUT_LIMIT


def test_small_arithmetic_is_left_alone():
    source = "{{ 'ab' * 3 }}{{ 7 % 4 }}{{ '%02d' % 5 }}{{ 2 ** 10 }}{{ 6 * 7 }}{{ 2 * [1] }}"
    assert ChatTemplate(source, {}).render([]) == "ababab30510244" + "2[1, 1]"
    source = "{{ 1 ~ 'a' ~ none }}{{ 1 + 2 }}{{ 'a' + 'b' }}{{ [1] + [2] }}{{ 1.5 * 2 }}"
    assert ChatTemplate(source, {}).render([]) == "1aNone3ab[1, 2]3.0"
    source = "{{ ['a', 1] | join('-') }}{{ 'ab' | replace('b', 'c') }}{{ 'a' | center(3) }}"
    assert ChatTemplate(source, {}).render([]) == "a-1ac a "
    source = "{{ 'a\nb' | indent(2) }}{{ '%s!' | format('a') }}{{ '{}{a}'.format(1, a=2) }}"
    assert ChatTemplate(source, {}).render([]) == "a\n  ba!12"
    source = "{{ messages | map(attribute='content') | join }}{{ 'aXa'.replace('a', 'b', 1) }}"
    assert ChatTemplate(source, {}).render(talk("x", "y")) == "xybXa"
