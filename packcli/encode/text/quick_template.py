"""A chat template in a faster engine, `minijinja`, where it writes what jinja2 writes.

jinja2 is right by definition, as transformers renders with it. Whatever the fast engine refuses,
jinja2 renders; what it renders is compared on made-up conversations at the start, and on a share
of the real ones all the time.
"""

from __future__ import annotations

import re
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Context = Mapping[str, Any]
    Render = Callable[[Context], str | None]

_CHECKED_SHARE, _TOLD_BY = 256, 96
"""One conversation in so many is rendered by both, chosen by its last characters."""

_FUEL = 10**8
_NAME = "chat"
_MUTATING = re.compile(
    r"\.\s*(append|extend|insert|pop|popitem|remove|clear|update|setdefault|sort|reverse|format)\b"
)
"""Methods that jinja2's sandbox refuses, or whose results differ."""

_WORDS = "¡Hola!\n <b>\"q\" & 'x'</b> \\n {{ x }} {% y %} 你好 \U0001f600"
_EDGES = (" a ", "\n\na\n\n", "\t\x0b\x0ca\x85", "\xa0a\u3000", "\u200ba\ufeff", "", " ")
_CALL_ARGUMENTS = {
    "text": _WORDS,
    "whole": 3,
    "big": 2**70,
    "real": 0.1,
    "round": 1.0,
    "tiny": 1e-7,
    "huge": 1e22,
    "yes": True,
    "no": False,
    "none": None,
    "list": [1, "a", None, [], {}],
    "items": {"b": 1, "a": {"keys": "k"}},
}
_TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": _WORDS,
        "parameters": {
            "type": "object",
            "properties": {
                "z": {"type": "string", "enum": ["a", "<b>"], "default": None},
                "a": {"type": "array", "items": {"type": "number", "minimum": 0.5}},
            },
            "required": ["z"],
        },
    },
}


class NotAlikeError(Exception):
    """A fast library gave another result than the reference: its work must be done again."""


def drawn(text: str) -> bool:
    """Tell whether a conversation is one of those that are compared, by its end."""
    return crc32(text[-_TOLD_BY:].encode("utf-8", "replace")) % _CHECKED_SHARE == 0


def _user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _answer(content: object, **more: object) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def _text_probes() -> Iterable[list[dict[str, Any]]]:
    for words in (_WORDS, *_EDGES, *(f"{edge}{_WORDS}{edge}" for edge in _EDGES)):
        system = {"role": "system", "content": words}
        yield [_user(words), _answer(words)]
        yield [system, _user(words), _answer(words), _user(words), _answer(words)]
        yield [_user(words), system, _answer(words)]
        thought = f"<think>\n{words}\n</think>\n\n{words}"
        yield [_user(words), _answer(thought), _user(words), _answer(thought)]
        aside = {"thinking": words, "reasoning_content": words}
        yield [_user(words), _answer(words, **aside), _user(words), _answer(words, **aside)]
        parts = [{"type": "image"}, {"type": "text", "text": words}, {"type": "video"}]
        yield [_user(parts), _answer(words)]
        yield [
            {"role": "system", "content": [{"type": "text", "text": words}]},
            _user([{"type": "text", "text": words}, {"type": "image"}, {"type": "image"}]),
            _answer([{"type": "text", "text": words}]),
            _user(words),
        ]
    yield [_answer(_WORDS)]
    yield [_user(_WORDS) | {"name": "n"}, _answer(_WORDS, name="m"), _user(_WORDS)]
    yield []


def _tool_probes() -> Iterable[list[dict[str, Any]]]:
    for arguments in (_CALL_ARGUMENTS, {}, "{}", '{"a": "<b>"}'):
        calls = [
            {"type": "function", "id": "c1", "function": {"name": "find", "arguments": arguments}},
            {"name": "other", "arguments": arguments},
        ]
        for content in ("", _WORDS):
            result = {"role": "tool", "content": _WORDS, "tool_call_id": "c1"}
            talk = [_user(_WORDS), _answer(content, tool_calls=calls[:1]), result, _answer(_WORDS)]
            yield talk
            yield [*talk, _user(_WORDS), _answer(content, tool_calls=calls), result, result]
            yield [{"role": "system", "content": _WORDS}, *talk]


class QuickTemplate:
    """One template, compiled by `minijinja`.

    Args:
        source: the text of the template.
        to_json: the filter `tojson`, as jinja2 has it.
        exact: renders a context with jinja2, None where that is refused.
        variables: what every context holds.

    Raises:
        ImportError: the library is not installed.
        ValueError: the template is none for this engine, or it renders otherwise.
    """

    def __init__(
        self, source: str, to_json: Callable[..., str], exact: Render, variables: Context
    ) -> None:
        if _MUTATING.search(source):
            raise ValueError("the template calls a method that the engines treat differently")
        engine: Any = import_module("minijinja")
        made = engine.Environment(
            templates={_NAME: source},
            filters={"tojson": to_json},
            trim_blocks=True,
            lstrip_blocks=True,
            debug=False,
            fuel=_FUEL,
            auto_escape_callback=_no_escape,
        )
        made.add_function("raise_exception", _refuse)
        made.add_function("strftime_now", _now)
        self._render: Any = made.render_template
        self._exact = exact
        fixed = {**variables, "documents": None, "add_generation_prompt": False}
        talks = [*_text_probes()]
        plain = [fixed | {"messages": messages, "tools": None} for messages in talks]
        if not self._alike(plain) or all(self._try(context) is None for context in plain):
            raise ValueError("the template renders otherwise, or not at all")
        thinking = [{"enable_thinking": True}, {"enable_thinking": False}]
        self._knows_thinking = self._alike(
            [{**fixed, **t, "messages": m, "tools": None} for t in thinking for m in talks]
        )
        talks = [*talks, *_tool_probes()]
        self._knows_tools = self._alike(
            [fixed | {"messages": m, "tools": tools} for tools in ([_TOOL], None) for m in talks]
        )

    def _alike(self, contexts: list[dict[str, Any]]) -> bool:
        for context in contexts:
            ours = self._try(context)
            if ours is not None and ours != self._exact(context):
                return False
        return True

    def _try(self, context: Context) -> str | None:
        try:
            text: str = self._render(_NAME, **context)
        except Exception:  # noqa: BLE001 - whatever it refuses, jinja2 has the last word
            return None
        # white space to Python's `strip` and not to Rust's: where it was not stripped, it is here
        return (
            None if "\x1c" in text or "\x1d" in text or "\x1e" in text or "\x1f" in text else text
        )

    def render(self, context: Context, kwargs: Context) -> str | None:
        """Render a conversation; None where jinja2 has to do it.

        Args:
            context: all variables.
            kwargs: those of them that the record sets.

        Raises:
            NotAlikeError: jinja2 renders another text.
        """
        if not self._fits(context, kwargs):
            return None
        text = self._try(context)
        if text is not None and drawn(text) and text != self._exact(context):
            raise NotAlikeError
        return text

    def _fits(self, context: Context, kwargs: Context) -> bool:
        if kwargs and not (self._knows_thinking and kwargs.keys() <= {"enable_thinking"}):
            return False
        if self._knows_tools:
            return True
        return not context["tools"] and not any("tool_calls" in m for m in context["messages"])


def _no_escape(_name: str) -> bool:
    return False


def _refuse(message: str) -> None:
    raise ValueError(message)


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)  # noqa: DTZ005 - local time, as transformers has it
