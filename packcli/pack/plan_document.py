"""The fields of a stored plan, none of which is believed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, cast

from packcli.contract.errors import UsageError
from packcli.pack import strategies
from packcli.pack.options import PlanOptions

FORMAT = "packcli-plan/1"

_INT32_MAX = 2**31 - 1
_SEED_MAX = 2**64 - 1
_WORDS = frozenset({"strategy", "quality", "balance"})
_MAY_LACK = frozenset({"max_samples", "max_images", "max_patches", "seed"})
_SHOWN = 40  # characters of a value


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """Everything but the packs.

    Attributes:
        options: what it was planned with.
        epochs: (inputs,) how often each input is used; None is once.
        inputs: name, fingerprint, digest and shards of each.
        summary: packs, bound and fill.
    """

    options: PlanOptions
    epochs: tuple[float, ...] | None
    inputs: list[dict[str, Any]]
    summary: dict[str, Any]

    @classmethod
    def checked(cls, about: object) -> PlanDocument:
        """Read the fields, each held to its type and range.

        Raises:
            ValueError: naming the field.
        """
        document = _object("the plan", about)
        if document.get("format") != FORMAT:
            raise ValueError(f"format {_spoken(document.get('format'))}, not {FORMAT}")
        inputs = [
            _input(f"inputs[{number}]", one)
            for number, one in enumerate(_list("inputs", document.get("inputs")))
        ]
        return cls(
            _options(_object("options", document.get("options"))),
            _epochs(document.get("epochs"), len(inputs)),
            inputs,
            _object("plan", document.get("plan")),
        )


def _options(given: dict[str, Any]) -> PlanOptions:
    if unknown := given.keys() - {field.name for field in fields(PlanOptions)}:
        raise ValueError(f"options.{min(unknown)} is no option of a plan")
    for name, value in given.items():
        if name in _WORDS:
            _text(f"options.{name}", value)
        elif value is not None or name not in _MAY_LACK:
            least, most = (0, _SEED_MAX) if name == "seed" else (1, _INT32_MAX)
            _whole(f"options.{name}", value, least, most)
    try:
        options = PlanOptions(**given)
        strategies.load(options.strategy)
    except UsageError as error:
        raise ValueError(f"options: {error}") from None
    return options


def _epochs(value: object, inputs: int) -> tuple[float, ...] | None:
    if value is None:
        return None
    found = _list("epochs", value)
    for number in found:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"epochs holds {_spoken(number)}, no number")  # noqa: TRY004 - as in `_object`
        if not (0 < number <= _INT32_MAX and isfinite(number)):
            raise ValueError(f"epochs holds {_spoken(number)}, not above 0 and below 2³¹")
    if len(found) != inputs:
        raise ValueError(f"epochs has {len(found)} numbers for {inputs} inputs")
    return tuple(float(cast("float", number)) for number in found)


def _input(where: str, value: object) -> dict[str, Any]:
    one = _object(where, value)
    for name in ("name", "fingerprint", "digest"):
        _text(f"{where}.{name}", one.get(name))
    for number, shard in enumerate(_list(f"{where}.shards", one.get("shards"))):
        place = f"{where}.shards[{number}]"
        told = _object(place, shard)
        _text(f"{place}.name", told.get("name"))
        _whole(f"{place}.samples", told.get("samples"), 0, _SEED_MAX)
    return one


def _object(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {_spoken(value)}, no object")  # noqa: TRY004 - a field of a file is no argument of a wrong type
    return cast("dict[str, Any]", value)


def _list(where: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is {_spoken(value)}, no list")  # noqa: TRY004 - as in `_object`
    return cast("list[object]", value)


def _text(where: str, value: object) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{where} is {_spoken(value)}, no text")  # noqa: TRY004 - as in `_object`


def _whole(where: str, value: object, least: int, most: int) -> None:
    # JSON's true is an int to Python
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        told = f"{where} is {_spoken(value)}"
        raise ValueError(f"{told}, no whole number from {least} to {most}")


def _spoken(value: object) -> str:
    return "missing" if value is None else f"{value!r:.{_SHOWN}}"
