"""One field that records may give under several names."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from packcli.contract.errors import Rejection

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = TypeVar("Value")


def agreed(given: Mapping[str, Value], where: str = "") -> Value | None:
    """Return what is given under any of several names of one field; None where nothing is.

    Args:
        given: values by the name that each stands under.
        where: how a message calls the place; empty for the record itself.

    Raises:
        Rejection: `bad_record`, they differ.
    """
    values = [*given.values()]
    if any(value != values[0] for value in values[1:]):
        place = f"{where}: " if where else ""
        raise Rejection("bad_record", f"{place}{' and '.join(given)} differ; keep one of them")
    return values[0] if values else None
