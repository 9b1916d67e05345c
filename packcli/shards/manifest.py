"""The manifest: what a dataset is, how it was made, and which bytes it consists of."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from packcli.contract.errors import InputError
from packcli.contract.model import ModelFacts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = "packcli/1"
NAME = "manifest.json"

_INT32_MAX = 2**31 - 1
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """One shard, as the manifest names it.

    Attributes:
        name: file name in ``data/``.
        rows: packs.
        samples: samples.
        tokens: tokens.
        bytes: file size.
        sha256: of the file.
    """

    name: str
    rows: int
    samples: int
    tokens: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that identifies a dataset; no time, host or path of this machine.

    Attributes:
        kind: ``encoded`` or ``packed``.
        model: facts of the model.
        versions: packcli and the libraries that decide bytes.
        settings: family settings and hashes of the model's files.
        options: options of the command that change what is written.
        inputs: what was read: names, sizes, hashes.
        counts: records, kept, rejected, … of the whole dataset.
        digest: sum over all sample digests, modulo 2^128: the multiset that packing must conserve.
        shards: the shards, in order.
    """

    kind: str
    model: ModelFacts
    versions: dict[str, str]
    settings: dict[str, Any]
    options: dict[str, Any]
    inputs: list[dict[str, Any]]
    counts: dict[str, Any] = field(default_factory=dict[str, Any])
    digest: str = ""
    shards: tuple[ShardEntry, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the output before a byte of it is written."""
        fields = (self.kind, self.model.to_json(), self.versions, self.settings, self.options)
        return sha256(canonical([*fields, self.inputs]).encode()).hexdigest()

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield what is told of each input, and of the inputs that it was made from itself."""
        yield from _entries(self.inputs)

    def files(self) -> dict[str, tuple[int | None, str | None]]:
        """Tell bytes and SHA-256 of the files that were encoded; the last of a name counts."""
        return {
            str(one["name"]): (one.get("bytes"), one.get("sha256"))
            for one in self.entries()
            if "name" in one
        }

    def encode_options(self) -> Iterator[dict[str, Any]]:
        """Yield the options of each `encode`; a packed dataset tells them with its inputs."""
        yield from _encode_options(self.options, self.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``schemas/manifest.schema.json``."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "fingerprint": self.fingerprint,
            "model": self.model.to_json(),
            "versions": self.versions,
            "settings": self.settings,
            "options": self.options,
            "inputs": self.inputs,
            "counts": self.counts,
            "digest": self.digest,
            "shards": [asdict(shard) for shard in self.shards],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Manifest:
        """Read a manifest back.

        Raises:
            InputError: another format, or a field is missing.
        """
        if data.get("format") != FORMAT:
            raise InputError(f"manifest format {data.get('format')!r}, this packcli reads {FORMAT}")
        try:
            return cls(
                kind=_typed(data, "kind", str),
                model=_facts(_typed(data, "model", dict)),
                versions=_typed(data, "versions", dict),
                settings=_typed(data, "settings", dict),
                options=_typed(data, "options", dict),
                inputs=_objects(data, "inputs"),
                counts=_typed(data, "counts", dict),
                digest=_digest(data),
                shards=tuple(_entry(shard) for shard in _objects(data, "shards")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"manifest field cannot be read: {error}") from error


def _entries(inputs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in inputs:
        yield one
        yield from _entries(one.get("inputs", []))


def _encode_options(
    options: dict[str, Any], inputs: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    made = [one for one in inputs if "options" in one]
    for one in made:
        yield from _encode_options(one["options"], one.get("inputs", []))
    if not made:
        yield options


def _typed(data: dict[str, Any], name: str, kind: type[_Kind]) -> _Kind:
    value = data[name]
    # JSON's true is an int to Python
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name}: expected {kind.__name__}, found {value!r:.40}")
    return value


def _digest(data: dict[str, Any]) -> str:
    digest = _typed(data, "digest", str)
    int(digest or "0", 16)
    return digest


def _facts(model: dict[str, Any]) -> ModelFacts:
    """Read the facts of the model, believing no number in them."""
    facts = ModelFacts.from_json(model)
    told = facts.to_json()
    _typed(told, "family", str)
    padding = told.get("padding", {})
    for name in ("vocab_size", "merge_size", "image_token_id", "video_token_id", *padding):
        if name in told | padding and not 0 <= _typed(told | padding, name, int) <= _INT32_MAX:
            raise ValueError(f"{name}: {(told | padding)[name]} is out of range")
    if padding and not (padding["sample_multiple"] and padding["pack_multiple"]):
        raise ValueError("multiples of padding must be at least 1")
    if facts.merge_size < 1 or told.get("linear_attention", False) not in (True, False):
        raise ValueError("merge_size must be at least 1, linear_attention true or false")
    if not 0 < float(facts.tokens_per_second) < _INT32_MAX:
        raise ValueError(f"tokens_per_second: {facts.tokens_per_second} is out of range")
    return facts


def _objects(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = _typed(data, name, list)
    if not all(isinstance(entry, dict) for entry in found):
        raise TypeError(f"{name}: expected a list of objects")
    return found


def _entry(shard: dict[str, Any]) -> ShardEntry:
    """Read a shard's entry; a name must not lead out of ``data/``."""
    name = _typed(shard, "name", str)
    if name in {"", ".", ".."} or set(name) & set("/\\\0"):
        raise ValueError(f"shard name {name!r}: expected a file name")
    counts = [_typed(shard, field.name, int) for field in fields(ShardEntry)[1:-1]]
    return ShardEntry(name, *counts, sha256=_typed(shard, "sha256", str))


def canonical(document: object) -> str:
    """Return JSON with sorted keys and fixed spacing: equal documents give equal bytes."""
    return (
        json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    )


def read_manifest(directory: Path) -> Manifest:
    """Read ``DIRECTORY/manifest.json``.

    Raises:
        InputError: it is missing or cannot be used.
    """
    path = directory / NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no manifest; is this a packcli output?") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: expected a JSON object")
    try:
        return Manifest.from_json(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def file_sha256(path: Path) -> str:
    """Hash a file."""
    digest = sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
