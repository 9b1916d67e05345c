"""Processors of a model directory, and proof that they are those of the dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from packcli.contract.errors import EnvironmentLacksError, InputError
from packcli.families import open_family
from packcli.train.layouts import layout_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packcli.train.layouts import Known

_PACKAGES = ("torchvision", "torchcodec", "sentencepiece")
_SIZES = ("patch_size", "merge_size", "temporal_patch_size")


class Processors:
    """transformers' image and video processor, built on first use.

    Args:
        known: what the dataset says of its model.
        model: directory to build from; None when those that are needed are given.
        given: processors in place of the directory's.
    """

    def __init__(
        self,
        known: Known,
        model: str | Path | None,
        given: Mapping[str, Any] | None,
    ) -> None:
        self._known = known
        self._model = None if model is None else Path(model)
        self._built: dict[str, Any] = dict(given or {})

    def of(self, kind: str) -> Any:  # noqa: ANN401 - a transformers class
        """Return the ``image`` or ``video`` processor.

        Raises:
            InputError: there is none, or it is another model's.
            EnvironmentLacksError: a package that transformers builds it with, as torchvision.
        """
        if kind not in self._built:
            if self._model is None:
                raise InputError(f"no {kind} processor; give model= or processors={{'{kind}': …}}")
            self._check(self._model)
            self._built[kind] = _build(kind, self._model)
        processor = self._built[kind]
        if layout_of(self._known.facts).sized:
            # the grid is met by resizing, so another patch size would show in the model only
            self._compare({name: getattr(processor, name, None) for name in _SIZES})
        return processor

    def _check(self, model: Path) -> None:
        """Refuse a directory whose processor counts slots in another way."""
        family = open_family(model)
        if family.name != self._known.facts.family:
            raise InputError(
                f"{model} holds {family.name}, the dataset was encoded for "
                f"{self._known.facts.family}; give the directory that it was encoded with"
            )
        if not layout_of(self._known.facts).sized:
            # how frames are chosen was decided at encode
            told = {k: v for k, v in family.settings.items() if not k.startswith("video_")}
            self._compare(told)

    def _compare(self, found: Mapping[str, Any]) -> None:
        for name, value in found.items():
            wanted = self._known.settings.get(name)
            if wanted is not None and value != wanted:
                raise InputError(
                    f"processor with {name} {value}, the dataset was encoded with {wanted}; "
                    "give the processor of the model that it was encoded for"
                )


def _build(kind: str, model: Path) -> Any:  # noqa: ANN401 - a transformers class
    import transformers  # noqa: PLC0415 - heavy, and text models never need it

    try:
        auto: Any = getattr(transformers, f"Auto{kind.title()}Processor")
        return auto.from_pretrained(model, local_files_only=True)
    except ImportError as error:
        told = " ".join(str(error).split())
        lacking = next((name for name in _PACKAGES if name in told.lower()), None)
        remedy = "install what it names" if lacking is None else f"pip install {lacking}"
        raise EnvironmentLacksError(
            f"transformers' {kind} processor of {model} needs {lacking or told:.200}; {remedy}"
        ) from error
