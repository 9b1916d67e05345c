"""The tokenizer: added tokens are cut out by us, the text between them goes to a backend."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from tokenizers import Tokenizer

from packcli.contract.errors import InputError
from packcli.encode.text.template import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_CACHED_LENGTH = 48
_CACHED_PIECES = 2**16
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
_PLAIN_TOKEN = dict.fromkeys((*_FLAGS, "special"), False)
"""What a config may leave out."""

_PROBES = ("Hello world", " a b", "\n\nx", "你好", "x  ", "don't\r\n1234 é")


class Backend(Protocol):
    """Tokenizes text that holds no added token; another library only has to offer this."""

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        ...

    def encode_with_ends(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text, and the characters that each covers."""
        ...


class HuggingFaceBackend:
    """`tokenizers`, without added tokens, truncation and padding.

    Args:
        definition: the content of tokenizer.json.
        kept: added tokens that stay part of the text (white space).
    """

    def __init__(self, definition: dict[str, Any], kept: Iterable[dict[str, Any]]) -> None:
        plain = definition | {"added_tokens": [*kept], "truncation": None, "padding": None}
        self._tokenizer = Tokenizer.from_str(orjson.dumps(plain).decode())

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        # the batch call leaves out offsets, which cost a seventh of the time
        found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def encode_with_ends(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text, and the characters that each covers."""
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return found.ids, found.offsets


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
        backend: the tokenizer for everything else.

    Attributes:
        ids: id of every added token.
    """

    def __init__(self, added: Sequence[AddedToken], backend: Backend) -> None:
        self.ids = {token.text: token.id for token in added}
        self.backend = backend
        longest_first = sorted(added, key=lambda token: len(token.text), reverse=True)
        self._cut = re.compile(f"({'|'.join(t.pattern for t in longest_first)})") if added else None
        self._cache: dict[str, list[int]] = {"": []}

    def cut(self, text: str) -> list[str]:
        """Return text, added token, text, …, text: odd places hold added tokens.

        Matches the leftmost longest search of `tokenizers`' added vocabulary.
        """
        return self._cut.split(text) if self._cut else [text]

    def id_of(self, token: str) -> int:
        """Return the id of an added token as `cut` gives it (white space may cling to it)."""
        found = self.ids.get(token)
        return self.ids[token.strip()] if found is None else found

    def encode_pieces(self, texts: Iterable[str]) -> dict[str, list[int]]:
        """Tokenize pieces without added tokens; short ones are remembered.

        Returns:
            The ids of every text given.
        """
        cache = self._cache
        found: dict[str, list[int]] = {}
        missing: dict[str, None] = {}
        for text in texts:
            ids = cache.get(text)
            if ids is None:
                missing[text] = None
            else:
                found[text] = ids
        if missing:
            fresh = dict(zip(missing, self.backend.encode_many([*missing]), strict=True))
            if len(cache) > _CACHED_PIECES:
                cache.clear()
            cache.update({t: ids for t, ids in fresh.items() if len(t) <= _CACHED_LENGTH})
            found |= fresh
        return found


def read_vocabulary(directory: Path) -> Vocabulary:
    """Read tokenizer.json, and the added tokens that only tokenizer_config.json lists.

    Raises:
        InputError: there is no tokenizer.json, it does not load, or its added tokens cannot be
            cut out without changing ids.
    """
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path} is missing; save the model's fast tokenizer there")
    definition: dict[str, Any] = orjson.loads(path.read_bytes())
    config = read_object(directory / "tokenizer_config.json")
    entries = _added_entries(definition, config)
    white = [entry for entry in entries if entry["content"].isspace()]
    added = [_added(entry) for entry in entries if not entry["content"].isspace()]
    try:
        vocabulary = Vocabulary(added, HuggingFaceBackend(definition, white))
    except Exception as error:
        raise InputError(f"{path} does not load: {error}; copy the file again") from error
    _check_typed(vocabulary, path)
    if not _cuts_safely(definition, entries):
        _check_cuts(vocabulary, definition, entries, path)
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
    typed = vocabulary.encode_pieces(vocabulary.ids)
    for token, token_id in vocabulary.ids.items():
        if token_id in typed[token]:
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
        ids = vocabulary.encode_pieces(pieces[::2])
        ours = [i for n, p in enumerate(pieces) for i in (_one(vocabulary, p) if n % 2 else ids[p])]
        if ours != whole.encode(text, add_special_tokens=False).ids:
            message = f"{path}: text around {token!r} is tokenized in a way packcli does not follow"
            raise InputError(f"{message}; only byte-level tokenizers are sure to work")


def _one(vocabulary: Vocabulary, token: str) -> list[int]:
    return [vocabulary.id_of(token)]
