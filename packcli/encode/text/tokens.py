"""The tokenizer: added tokens are cut out by us, the text between them goes to a backend."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from tokenizers import Tokenizer

from packcli.contract.errors import InputError
from packcli.encode.text.backends import (
    Backend,
    Choice,
    FlatIds,
    HuggingFaceBackend,
    choose_backend,
    plain_definition,
)
from packcli.encode.text.template import read_object

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
_PLAIN_TOKEN = dict.fromkeys((*_FLAGS, "special"), False)
"""What a config may leave out."""

_PROBES = ("Hello world", " a b", "\n\nx", "你好", "x  ", "don't\r\n1234 é")


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A string that stands for one id wherever it occurs, whatever is around it."""

    text: str
    id: int
    pattern: str


class Vocabulary:
    """Cuts at added tokens and tokenizes what lies between.

    Args:
        added: the added tokens, white space ones left out.
        backend: the reference for everything else.

    Attributes:
        ids: id of every added token.
        plain: whether they are cut out whatever stands around them.
        quick: tokenizes as the reference does, and sooner; at first the reference itself.
    """

    def __init__(self, added: Sequence[AddedToken], backend: HuggingFaceBackend) -> None:
        self.ids = {token.text: token.id for token in added}
        self.plain = all(token.pattern == re.escape(token.text) for token in added)
        self.backend = backend
        self.quick: Backend = backend
        self._used: Backend = backend
        longest_first = sorted(added, key=lambda token: len(token.text), reverse=True)
        self._cut = re.compile(f"({'|'.join(t.pattern for t in longest_first)})") if added else None

    def trust(self, *, quick: bool) -> None:
        """Tokenize with the quick backend, or with the reference alone."""
        self._used = self.quick if quick else self.backend

    def cut(self, text: str) -> list[str]:
        """Return text, added token, text, …, text: odd places hold added tokens.

        Matches the leftmost longest search of `tokenizers`' added vocabulary.
        """
        return self._cut.split(text) if self._cut else [text]

    def encode_pieces(self, cuts: Sequence[Sequence[str]]) -> FlatIds:
        """Tokenize many texts.

        Args:
            cuts: what `cut` gave for each: text, added token, …, text.

        Returns:
            The ids of every piece of every text.
        """
        between = self.encode_many([text for pieces in cuts for text in pieces[::2]])
        known = self.ids
        # white space may cling to an added token
        added = [
            known[token] if token in known else known[token.strip()]
            for pieces in cuts
            for token in pieces[1::2]
        ]
        texts = np.array([len(pieces) // 2 + 1 for pieces in cuts])
        # behind every text but the last of a cut stands one added token
        followed = np.ones(len(between.bounds) - 1, dtype=bool)
        followed[np.cumsum(texts) - 1] = False
        ids = np.insert(between.ids, between.bounds[1:][followed], added)
        sizes = np.insert(np.diff(between.bounds), np.flatnonzero(followed) + 1, 1)
        bounds = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        return FlatIds(ids, bounds)

    def encode_many(self, texts: Sequence[str]) -> FlatIds:
        """Tokenize texts in which there are no added tokens."""
        return self._used.encode_many(texts)


def read_vocabulary(directory: Path, tokenizer: Choice = "hf") -> Vocabulary:
    """Read tokenizer.json, and the added tokens that only tokenizer_config.json lists.

    Args:
        directory: the model directory.
        tokenizer: which backend to use; the ids do not depend on it.

    Raises:
        InputError: there is no tokenizer.json, it does not load, its added tokens cannot be cut
            out without changing ids, or the backend asked for cannot be used.
    """
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path} is missing; save the model's fast tokenizer there")
    definition: dict[str, Any] = orjson.loads(path.read_bytes())
    config = read_object(directory / "tokenizer_config.json")
    entries = _added_entries(definition, config)
    white = [entry for entry in entries if entry["content"].isspace()]
    added = [_added(entry) for entry in entries if not entry["content"].isspace()]
    plain = plain_definition(definition, white)
    try:
        reference = HuggingFaceBackend(plain)
    except Exception as error:
        raise InputError(f"{path} does not load: {error}; copy the file again") from error
    vocabulary = Vocabulary(added, reference)
    _check_typed(vocabulary, path)
    if not _cuts_safely(definition, entries):
        _check_cuts(vocabulary, definition, entries, path)
    vocabulary.quick = choose_backend(tokenizer, plain, reference)
    vocabulary.trust(quick=True)
    return vocabulary


def _added_entries(definition: dict[str, Any], config: dict[str, Any]) -> list[dict[str, Any]]:
    """Merge both lists by id; tokenizer.json wins."""
    listed: dict[str, dict[str, Any]] = config.get("added_tokens_decoder") or {}
    by_id = {int(key): {"id": int(key), **entry} for key, entry in listed.items()}
    by_id |= {entry["id"]: entry for entry in definition.get("added_tokens") or []}
    return [by_id[key] for key in sorted(by_id)]


def _added(entry: dict[str, Any]) -> AddedToken:
    pattern = re.escape(entry["content"])
    if entry.get("single_word"):
        pattern = rf"(?<!\w){pattern}(?!\w)"
    before = r"\s*" if entry.get("lstrip") else ""
    after = r"\s*" if entry.get("rstrip") else ""
    return AddedToken(entry["content"], entry["id"], before + pattern + after)


def _check_typed(vocabulary: Vocabulary, path: Path) -> None:
    """Typed token strings must stay text: the model itself must not merge them into one id."""
    typed = vocabulary.encode_many([*vocabulary.ids]).split()
    for (token, token_id), ids in zip(vocabulary.ids.items(), typed, strict=True):
        if token_id in ids:
            message = f"{path}: typed {token!r} cannot be told from the token; packcli refuses it"
            raise InputError(f"{message}; use a tokenizer whose merges do not build it")


def _cuts_safely(definition: dict[str, Any], entries: list[dict[str, Any]]) -> bool:
    """Whether pieces are independent of each other: byte-level, with plain added tokens."""
    normalizer = (definition.get("normalizer") or {"type": "NFC"})["type"]
    byte_level = b"ByteLevel" in orjson.dumps(definition.get("pre_tokenizer"))
    plain = not any(entry.get(flag) for entry in entries for flag in _FLAGS)
    return byte_level and plain and normalizer in {"NFC", "NFKC", "NFD", "NFKD"}


def _check_cuts(
    vocabulary: Vocabulary,
    definition: dict[str, Any],
    entries: list[dict[str, Any]],
    path: Path,
) -> None:
    complete = [_PLAIN_TOKEN | entry for entry in entries]
    whole = Tokenizer.from_str(orjson.dumps(definition | {"added_tokens": complete}).decode())
    for token in [*vocabulary.ids][:64]:
        text = token.join(_PROBES)
        pieces = vocabulary.cut(text)
        ours = vocabulary.encode_pieces([pieces]).ids
        if ours.tolist() != whole.encode(text, add_special_tokens=False).ids:
            message = f"{path}: text around {token!r} is tokenized in a way packcli does not follow"
            raise InputError(f"{message}; only byte-level tokenizers are sure to work")
