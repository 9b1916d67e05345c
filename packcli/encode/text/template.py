"""The model's chat template, rendered as transformers renders it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from jinja2.exceptions import TemplateError

from packcli.contract.errors import InputError, Rejection
from packcli.encode.text.bounds import OUTPUT_LIMIT, TooMuchError
from packcli.encode.text.growth import may_run_away
from packcli.encode.text.quick_template import QuickTemplate
from packcli.encode.text.sandbox import RENDER_SECONDS, environment, seconds, to_json
from packcli.encode.text.unseen import SeenError, UnseenTemplate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
_PROBE, _CALL, _CALL_ID = "packcli probe", "packcli_call", "packcli01"


class ChatTemplate:
    """One compiled template and what it was found to accept.

    Args:
        source: the text of the template.
        variables: names of special tokens that transformers hands to every template.

    Attributes:
        marks_answers: whether the template has `{% generation %}`.
        text_as_parts: text has to be given as a list of parts.
        parts_as_text: a list of text parts has to be joined.
        needs_objects: arguments of tool calls must be objects, JSON text fails.
        needs_text: arguments of tool calls must be JSON text, objects fail.
        null_beside_calls: a tool call is shown only where the content is null.
    """

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        self.source = source
        self.marks_answers = _GENERATION.search(source) is not None
        self._variables = dict(variables)
        self._quick: QuickTemplate | None = None
        self._used: QuickTemplate | None = None
        self._unseen: UnseenTemplate | None = None
        self._trusted = True
        self._greedy = False
        try:
            self._sandbox = environment()
            self._template = self._sandbox.from_string(source)
        except TemplateError as error:
            raise InputError(f"the chat template does not compile: {error}") from None
        except (RecursionError, MemoryError, SyntaxError):
            # jinja2's compiler recurses, and so does Python's behind it
            raise InputError(
                "the chat template does not compile: nested too deeply; write it with fewer "
                "parentheses and blocks inside each other"
            ) from None
        as_text = self._shows_probe(_PROBE)
        as_parts = self._shows_probe([{"type": "text", "text": _PROBE}])
        self.text_as_parts = as_parts and not as_text
        self.parts_as_text = as_text and not as_parts
        shown, with_null = self._calls(""), self._calls(None)
        self.null_beside_calls = not _any_call(shown) and _any_call(with_null)
        as_text, as_object = with_null if self.null_beside_calls else shown
        self.needs_objects = as_text is None and as_object is not None
        self.needs_text = as_text is not None and as_object is None

    def prepare_quick(self) -> None:
        """Find out whether a faster engine renders alike, and use it then.

        So are texts put into what the template writes around them, where that is always the same.
        """
        if self._greedy or may_run_away(self._sandbox.parse(self.source)):
            return
        try:
            self._unseen = UnseenTemplate(self.source)
        except SeenError:
            self._unseen = None
        try:
            self._quick = QuickTemplate(self.source, to_json, self._exact, self._variables)
        except Exception:  # noqa: BLE001 - a library that may do anything when it does not fit
            self._quick = None
        self._used = self._quick

    def trust(self, *, quick: bool) -> None:
        """Render with the faster engine where there is one, or with jinja2 alone."""
        self._trusted = quick
        self._used = self._quick if quick else None

    @property
    def frames(self) -> bool:
        """Whether texts may be put into what `render_unseen` gives."""
        return self._trusted and self._unseen is not None

    def render_unseen(self, messages: list[dict[str, Any]]) -> str:
        """Render messages of `Unseen` texts.

        Raises:
            SeenError: what the template writes depends on them.
            Exception: whatever it raises.
        """
        if self._unseen is None:
            raise SeenError
        return self._unseen.render(self._context(messages, None, {}))

    def exact(self, messages: list[dict[str, Any]]) -> str | None:
        """Render messages with jinja2; None where that is refused."""
        return self._exact(self._context(messages, None, {}))

    def _exact(self, context: Mapping[str, Any]) -> str | None:
        try:
            return self._render(context)
        except Rejection:
            return None

    def _calls(self, content: str | None) -> tuple[str | None, str | None]:
        """Render a tool call beside some content: its arguments as JSON text, and as an object.

        None where that is refused.
        """
        return self._call(content, '{"a": 1}'), self._call(content, {"a": 1})

    def _call(self, content: str | None, arguments: object) -> str | None:
        call = {"type": "function", "function": {"name": _CALL, "arguments": arguments}}
        question = {"role": "user", "content": _PROBE}
        answer = {"role": "assistant", "content": content, "tool_calls": [call | {"id": _CALL_ID}]}
        try:
            return self.render([question, answer])
        except Rejection:
            return None

    def prompt(self) -> str:
        """Render a question up to where the model begins to answer; empty if that is refused."""
        content = [{"type": "text", "text": _PROBE}] if self.text_as_parts else _PROBE
        context = self._context([{"role": "user", "content": content}], None, {})
        return self._exact(context | {"add_generation_prompt": True}) or ""

    def _shows_probe(self, content: object) -> bool:
        try:
            shown = self.render([{"role": "user", "content": content}])
        except Rejection:
            return False
        return _PROBE in shown and "'text'" not in shown

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Render a conversation.

        Raises:
            Rejection: `template_error`, with the template's own message.
        """
        context = self._context(messages, tools, kwargs or {})
        text = None if self._used is None else self._used.render(context, kwargs or {})
        return self._render(context) if text is None else text

    def _context(
        self, messages: list[dict[str, Any]], tools: list[Any] | None, kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            **self._variables,
            **kwargs,
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": False,
        }

    def _render(self, context: Mapping[str, Any]) -> str:
        blocks: list[str] = []
        left = OUTPUT_LIMIT
        self._sandbox.budget.renew()
        try:
            with seconds(RENDER_SECONDS):
                for block in self._template.generate(context):
                    left -= len(block)
                    if left < 0:
                        break
                    blocks.append(block)
        except Exception as error:  # noqa: BLE001 - a template runs any expression on any data
            self._greedy = self._greedy or isinstance(error, TooMuchError)
            message = f"the chat template refuses: {_line(error)}; change the record"
            raise Rejection("template_error", message) from None
        if left < 0:
            limit = f"the chat template wrote more than {OUTPUT_LIMIT} characters"
            raise Rejection("template_error", f"{limit}; drop the record or mend the template")
        return "".join(blocks)


def _any_call(shown: tuple[str | None, str | None]) -> bool:
    return any(_CALL in (text or "") for text in shown)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{text:.300}" if isinstance(error, TemplateError) else f"{type(error).__name__}: {text}"


def read_template(directory: Path, *, with_tools: bool = False) -> str | None:
    """Find the text of the chat template: its own file, an older JSON file, or the config.

    Args:
        directory: the model directory.
        with_tools: take the template named `tool_use` where several are given.

    Raises:
        InputError: a file is there and cannot be read.
    """
    single = directory / "chat_template.jinja"
    if single.is_file():
        return single.read_text(encoding="utf-8")
    for name in ("chat_template.json", "tokenizer_config.json"):
        found = read_object(directory / name).get("chat_template")
        if isinstance(found, list):
            entries = cast("list[dict[str, str]]", found)
            named = {entry["name"]: entry["template"] for entry in entries}
            found = named.get("tool_use") if with_tools and "tool_use" in named else None
            found = found or named.get("default")
        if isinstance(found, str):
            return found
    return None


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object of a model directory; empty when the file is absent.

    Raises:
        InputError: the file is not a JSON object.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}; copy the file again") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: not a JSON object; copy the file again")
    return cast("dict[str, Any]", value)


def special_variables(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens by name (`eos_token`, …), as templates may print them.

    Matches `special_tokens_map` of transformers' tokenizers.
    """
    found: dict[str, str] = {}
    for name, value in config.items():
        text = cast("dict[str, Any]", value).get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found
