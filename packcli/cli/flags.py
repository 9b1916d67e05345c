"""Two shapes of flags that commands have many of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Command = TypeVar("Command", bound="Callable[..., Any]")


def count_flag(name: str, text: str) -> Callable[[Command], Command]:
    """Make a flag of a number of at least 1, which it is unless it is given."""
    return click.option(name, type=click.IntRange(1), default=1, show_default=True, help=text)


def choice_flag(name: str, words: Sequence[str], text: str) -> Callable[[Command], Command]:
    """Make a flag of one of several words, the first unless it is given."""
    choice = click.Choice(words)
    return click.option(name, type=choice, default=words[0], show_default=True, help=text)
