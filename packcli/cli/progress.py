"""Progress on stderr: a bar on a terminal, a line every 30 seconds elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from packcli.cli.reports.text import counted

if TYPE_CHECKING:
    from collections.abc import Generator

_SECONDS = 30.0


class Update(Protocol):
    """Is told how many of all parts are finished, and what they held, where that is known."""

    def __call__(self, done: int, every: int, records: int = 0, rejected: int = 0, /) -> None:
        """Show it."""
        ...


no_progress = click.option(
    "--no-progress", is_flag=True, envvar="PACKCLI_NO_PROGRESS", help="Show no progress."
)
"""The flag of every command that takes long."""


as_json = click.option(
    "--json", "as_json", is_flag=True, envvar="PACKCLI_JSON", help="Print one JSON document."
)
"""The flag of every command that has a result."""


@contextmanager
def progress(title: str, *, hidden: bool) -> Generator[Update]:
    """Give a function that is told how many of all parts are finished."""
    if hidden:
        yield _silent
    elif sys.stderr.isatty():
        with _bar(title) as update:
            yield update
    else:
        yield _Lines(title).update


def _silent(_done: int, _every: int, _records: int = 0, _rejected: int = 0, /) -> None:
    """Show nothing."""


def _note(records: int, rejected: int, seconds: float) -> str:
    if not records:
        return ""
    rate = records / max(seconds, 1e-3)
    return f"{counted(records, 'records')}, {rate:,.0f} a second, {rejected:,} rejected"


@contextmanager
def _bar(title: str) -> Generator[Update]:
    from tqdm import tqdm

    begun = time.monotonic()
    with tqdm(desc=title, unit="part", file=sys.stderr) as bar:

        def update(done: int, every: int, records: int = 0, rejected: int = 0, /) -> None:
            bar.total = every
            bar.set_postfix_str(_note(records, rejected, time.monotonic() - begun), refresh=False)
            bar.update(done - bar.n)

        yield update


class _Lines:
    """One line every 30 seconds."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self._last = time.monotonic()

    def update(self, done: int, every: int, records: int = 0, rejected: int = 0, /) -> None:
        """Say how far it is, if the last line is old enough."""
        if time.monotonic() - self._last >= _SECONDS:
            self._last = time.monotonic()
            note = _note(records, rejected, self._last - self._begun)
            parts = counted(every, "parts")
            told = f"{self._title}: {done} of {parts}{', ' if note else ''}{note}"
            click.echo(told, err=True)
