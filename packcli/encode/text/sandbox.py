"""The sandbox in which chat templates run: as transformers has it, and with bounds."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import contextmanager
from datetime import datetime
from types import BuiltinMethodType
from typing import TYPE_CHECKING, Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from packcli.encode.text.allowed import check_method, gathered, guard
from packcli.encode.text.bounds import Budget, bound, concat, held, of_operator, size_of, text_size
from packcli.encode.text.marks import CLOSE, OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from jinja2.parser import Parser
    from jinja2.runtime import Context

RENDER_SECONDS = 4.0
"""Processor time that one rendering may take."""


_SCOPES = frozenset({"_loop_vars", "_block_vars"})


class _GenerationTag(Extension):
    """`{% generation %}`: the block is rendered between two marks, wherever it ends up."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller: Callable[[], str]) -> str:
        return f"{OPEN}{caller()}{CLOSE}"


class _TemplateNamespace(Namespace):
    """A namespace that stores no underscored names."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - `self` may be a key
        names = dict(*args[1:], **kwargs)
        for name in names:
            _refuse_private(name)
        Namespace.__init__(args[0], names)

    def __setitem__(self, name: str, value: object) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: str) -> None:
    if name.startswith("_"):
        raise SecurityError(f"a chat template may not store {name!r} in a namespace")


class _TemplateDict:
    """The name `dict` in a template: callable, without attributes to climb on."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:  # noqa: ANN401 - as the builtin
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:  # noqa: ANN401 - as the builtin
        return dict.fromkeys(*args)


def to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - a filter's options come by place
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - a filter's options come by place
) -> str:
    """Write JSON as transformers' filter does."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise(message: str) -> None:
    raise TemplateError(message)


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)  # noqa: DTZ005 - local time, as transformers has it


class _Bounded(CodeGenerator):
    """Writes texts, joins, slices and spreads by methods that know bounds."""

    def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:  # noqa: ANN401, N802 - as jinja2 declares it
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Any) -> None:  # noqa: ANN401, N802 - as jinja2 declares it
        """Write a slice as a call."""
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.sliced(")
        self.visit(node.node, frame)
        for part in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            if part is None:
                self.write("None")
            else:
                self.visit(part, frame)
        self.write(")")

    def signature(
        self,
        node: Any,  # noqa: ANN401 - as jinja2 declares it
        frame: Any,  # noqa: ANN401 - as jinja2 declares it
        extra_kwargs: Any = None,  # noqa: ANN401 - as jinja2 declares it
    ) -> None:
        """Write arguments; those behind a star are counted first."""
        if node.dyn_args is not None:
            spread = nodes.EnvironmentAttribute("spread")
            node.dyn_args = nodes.Call(spread, [node.dyn_args], [], None, None)
        super().signature(node, frame, extra_kwargs)

    def _output_child_pre(self, node: Any, frame: Any, finalize: Any) -> None:  # noqa: ANN401 - as jinja2 declares it
        del node, frame, finalize
        self.write("environment.shown(")


def _spread(items: object) -> list[Any]:
    return held(items, "*")


class Sandbox(ImmutableSandboxedEnvironment):
    """Bounds what operators, methods, filters and blocks make.

    Attributes:
        budget: of the rendering that runs.
    """

    code_generator_class = _Bounded
    intercepted_binops = frozenset({"+", "*", "**", "%"})
    spread = staticmethod(_spread)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
        )
        self.budget = Budget()
        self.filters["tojson"] = to_json
        guard(self.filters, self.budget)

    def concat(self, parts: Iterable[str]) -> str:  # pyright: ignore[reportIncompatibleMethodOverride] - jinja2 declares an attribute
        """Join the output of a block."""
        made = concat(parts)
        self.budget.spend(len(made), "a block")
        return made

    def joined(self, parts: Iterable[object]) -> str:
        """Join what stands around `~`."""
        return self.concat(map(self.shown, parts))

    @staticmethod
    def shown(value: object) -> str:
        """Write a value."""
        if not isinstance(value, str):
            bound(text_size(value), "a value")
        return str(value)

    def sliced(self, value: Any, start: Any, stop: Any, step: Any) -> Any:  # noqa: ANN401 - what a template computes with
        """Take a part of a text or list."""
        made = value[start:stop:step]
        self.budget.spend(size_of(made), "a slice")
        return made

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - as jinja2 declares it
        """Compute within bounds."""
        # most of what templates compute: made first, as both sides are bounded
        if operator == "+" and type(left) is str is type(right):
            made = left + right
        else:
            bound(of_operator(operator, left, right), operator)
            made = super().call_binop(context, operator, left, right)
        self.budget.spend(size_of(made), operator)
        return made

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as jinja2 declares it
        """Call a macro or function, or a method that is known and within bounds."""
        # `format` comes wrapped by jinja2
        method = getattr(obj, "__wrapped__", obj)
        owner = getattr(method, "__self__", None)
        if not (isinstance(owner, str) or isinstance(method, BuiltinMethodType)):
            return super().call(context, obj, *args, **kwargs)
        name = method.__name__
        if name == "join" and args:
            args = (gathered(args[0], name), *args[1:])
        # jinja2 passes on what a loop or block has set
        own = {key: value for key, value in kwargs.items() if key not in _SCOPES}
        check_method(owner, name, args, own)
        made = super().call(context, obj, *args, **kwargs)
        self.budget.spend(size_of(made), name)
        return made


@contextmanager
def seconds(limit: float) -> Generator[None]:
    """Stop what runs for longer, by a timer that counts the time of this process alone.

    Only the main thread can be stopped so; encode renders nowhere else.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _stop(_number: int, _frame: object) -> None:
    raise TemplateError(f"it takes longer than {RENDER_SECONDS:g} seconds")


def environment() -> Sandbox:
    """Build the sandbox.

    Matches transformers' `_compile_jinja_template` (utils/chat_template_utils.py, 5.24).
    """
    made = Sandbox()
    bring_names(made)
    return made


def bring_names(sandbox: Sandbox) -> None:
    """Give a sandbox the functions that a template may call."""
    names: dict[str, Any] = {
        "raise_exception": _raise,
        "strftime_now": _now,
        "dict": _TemplateDict(),
        "namespace": _TemplateNamespace,
    }
    sandbox.globals.update(names)
    sandbox.globals.pop("lipsum", None)  # chance, and without bounds
