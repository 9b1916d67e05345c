"""Progress on stderr: a bar on a terminal, a line every 30 seconds elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_SECONDS = 30.0

no_progress = click.option(
    "--no-progress", is_flag=True, envvar="PACKCLI_NO_PROGRESS", help="Show no progress."
)
"""The flag of every command that takes long."""


as_json = click.option(
    "--json", "as_json", is_flag=True, envvar="PACKCLI_JSON", help="Print one JSON document."
)
"""The flag of every command that has a result."""


@contextmanager
def progress(title: str, *, hidden: bool) -> Generator[Callable[[int, int], None]]:
    """Give a function that is told how many of all parts are finished."""
    if hidden:
        yield lambda _done, _all: None
    elif sys.stderr.isatty():
        with _bar(title) as update:
            yield update
    else:
        yield _Lines(title).update


@contextmanager
def _bar(title: str) -> Generator[Callable[[int, int], None]]:
    from tqdm import tqdm

    with tqdm(desc=title, unit="part", file=sys.stderr) as bar:

        def update(done: int, every: int) -> None:
            bar.total = every
            bar.update(done - bar.n)

        yield update


class _Lines:
    """One line every 30 seconds."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._last = time.monotonic()

    def update(self, done: int, every: int) -> None:
        """Say how far it is, if the last line is old enough."""
        if time.monotonic() - self._last >= _SECONDS:
            self._last = time.monotonic()
            click.echo(f"{self._title}: {done} of {every} parts", err=True)
