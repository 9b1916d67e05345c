"""Backends: who tokenizes text without added tokens. `tokenizers` is right by definition.

A faster library is used only where it gives the same ids: on a set of nasty strings at the start,
and on a share of the real text all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol
from zlib import crc32

import numpy as np
import orjson
from tokenizers import Tokenizer

from packcli.contract.errors import InputError
from packcli.encode.text.quick_template import NotAlikeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

Choice = Literal["auto", "fast", "hf"]

_CHECKED_SHARE, _TOLD_BY = 1024, 96
"""One text in so many is tokenized by both, chosen by its last characters; single ones are not."""

_PIECES = (
    r" ¦\n¦\t¦\r¦\r\n¦\n\n\n¦  \n \n¦ \t ¦\xa0¦\u3000¦\u2028¦\v\f¦\u200b¦\u200d¦\ufeff¦\xad¦\0"
    r"¦\1\x1f¦\x7f¦\x85¦\ufffd¦a¦Hello world¦  two  spaces   ¦trailing ¦ leading"
    r"¦don't I'LL we'Ve 'S '¦I'm¦it\u2019s¦snake_case camelCase¦x=1;y+=2¦{}[]()<>¦!!!???..."
    r"¦a.b,c;d:e¦##--==~~¦0¦12¦123¦1234567890¦3.14159¦1,000,000¦1e-5 0x1F¦\u0663\u0664\u0665"
    r"¦\xbd\xb2\u2462¦\u2167¦\xe9¦e\u0301¦\xc5 \u212b A\u030a¦\u1e69 s\u0323\u0307¦\ufb01 \ufb02"
    r"¦\u0344¦\u0958¦\ufb1d¦\u4f60\u597d\uff0c\u4e16\u754c\u3002¦\u65e5\u672c\u8a9e\u30c6\u30b9"
    r"¦\ud55c\uad6d\uc5b4¦\u1112\u1161\u11ab¦\uac00\u11a8¦\U00020bb7\u91ce\u5bb6"
    r"¦\u0e44\u0e17\u0e22\u0e33¦\u0939\u093f\u0928\u094d\u0926\u0940¦\u0627\u0644\u0639\u0631"
    r"¦\u05e2\u05d1\u05e8¦\u0395\u03bb\u03bb \u03c2¦\xdcn\xefc\xf6d\xeb¦\u01c5 \u0130 \u0131 \u017f"
    r"¦\U0001f600¦\U0001f469\u200d\U0001f469\u200d\U0001f467¦\U0001f1e9\U0001f1ea\U0001f1eb"
    r"¦\U0001f44d\U0001f3fd¦\u263a\ufe0f¦\U0010ffff¦\ue000¦\U000e0041¦a\u0300\u0301\u0302\u0303"
    r"¦\u0301alone¦\u2211\u222b\u221a¦\u2192\u2190¦http://a.b/c?d=e&f#g¦me@x.org"
    r"¦def f(x):\n    return x\n\n\tif¦<|im_start|>¦<think>¦assistant\n¦user\n"
)
"""White space, controls, digits, composed and decomposed letters, scripts, signs; escaped."""

_TEXTS = [piece.encode("latin-1").decode("unicode_escape") for piece in _PIECES.split("¦")]
_LONG = [text * 40 for text in _TEXTS]
_PROBES = ("", *_TEXTS, *_LONG, "".join(_TEXTS), " ".join(_TEXTS), "\n".join(reversed(_TEXTS)))


@dataclass(frozen=True, slots=True)
class FlatIds:
    """Ids of many texts.

    Attributes:
        ids: (N,) int32, token ids of all texts, one behind the other.
        bounds: (n + 1,) int64, tokens, where each text starts, and N.
    """

    ids: NDArray[np.int32]
    bounds: NDArray[np.int64]

    def split(self) -> list[NDArray[np.int32]]:
        """Return the ids of each text, as views."""
        places = self.bounds.tolist()
        return [self.ids[a:b] for a, b in pairwise(places)]


class Backend(Protocol):
    """Tokenizes text that holds no added token; another library only has to offer this."""

    def encode_many(self, texts: Sequence[str]) -> FlatIds:
        """Return the ids of each text."""
        ...


class HuggingFaceBackend:
    """`tokenizers`, without added tokens, truncation and padding.

    Args:
        definition: the content of tokenizer.json, as `plain_definition` gives it.
    """

    def __init__(self, definition: str) -> None:
        self._tokenizer = Tokenizer.from_str(definition)

    def encode_many(self, texts: Sequence[str]) -> FlatIds:
        """Return the ids of each text."""
        # what templates write between turns is the same every time
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        # the batch call leaves out offsets, which cost a seventh of the time
        found = self._tokenizer.encode_batch_fast([*places], add_special_tokens=False)
        each = [encoding.ids for encoding in found]
        lists = [each[places[text]] for text in texts]
        bounds = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(ids) for ids in lists], out=bounds[1:])
        flat = np.empty(int(bounds[-1]), np.int32)
        for ids, start in zip(lists, bounds.tolist(), strict=False):
            flat[start : start + len(ids)] = ids
        return FlatIds(flat, bounds)

    def encode_with_ends(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text, and the characters that each covers."""
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return found.ids, found.offsets


class FastBackend:
    """`fastokens`: the same ids, a tenth of the time and less.

    Args:
        definition: the content of tokenizer.json, as `plain_definition` gives it.

    Raises:
        ImportError: the library is not installed.
        ValueError: it does not know this kind of tokenizer.
    """

    def __init__(self, definition: str) -> None:
        self._tokenizer: Any = import_module("fastokens").Tokenizer.from_json_str(definition)

    def encode_many(self, texts: Sequence[str]) -> FlatIds:
        """Return the ids of each text."""
        ids, bounds = self._tokenizer.encode_batch_flat(list(texts))
        return FlatIds(
            np.frombuffer(ids, "<u4").view(np.int32), np.frombuffer(bounds, "<u8").view(np.int64)
        )


class CheckedBackend:
    """A fast backend whose work is checked against the reference, one text in 1024.

    Args:
        fast: does the work.
        reference: is right.
    """

    def __init__(self, fast: Backend, reference: Backend) -> None:
        self._fast, self._reference = fast, reference

    def encode_many(self, texts: Sequence[str]) -> FlatIds:
        """Return the ids of each text.

        Raises:
            NotAlikeError: the two backends differ.
        """
        found = self._fast.encode_many(texts)
        # chosen by content, so that it does not matter which worker meets a text, and when
        chosen = [
            n
            for n, text in enumerate(texts)
            if len(text) > 1 and crc32(text[-_TOLD_BY:].encode()) % _CHECKED_SHARE == 0
        ]
        if chosen:
            places = found.bounds.tolist()
            right = self._reference.encode_many([texts[n] for n in chosen]).split()
            for number, ids in zip(chosen, right, strict=True):
                if not np.array_equal(found.ids[places[number] : places[number + 1]], ids):
                    raise NotAlikeError
        return found


def plain_definition(definition: dict[str, Any], kept: Iterable[dict[str, Any]]) -> str:
    """Leave out what packcli does itself.

    Args:
        definition: the content of tokenizer.json.
        kept: added tokens that stay part of the text (white space).
    """
    plain = definition | {"added_tokens": [*kept], "truncation": None, "padding": None}
    return orjson.dumps(plain).decode()


def choose_backend(choice: Choice, definition: str, reference: HuggingFaceBackend) -> Backend:
    """Return the fast backend if it may be used, else the reference.

    Raises:
        InputError: the user insists on the fast one, and it cannot be used.
    """
    if choice == "hf":
        return reference
    try:
        fast = FastBackend(definition)
        alike = _alike(fast, reference)
        reason = "it gives other ids than tokenizers"
    except Exception as error:  # noqa: BLE001 - a library that may do anything when it does not fit
        fast, alike, reason = None, False, str(error) or type(error).__name__
    if fast is not None and alike:
        return CheckedBackend(fast, reference)
    if choice == "fast":
        message = f"fastokens cannot be used here: {reason}"
        raise InputError(f"{message}; install packcli[fast], or choose --tokenizer auto")
    return reference


def _alike(fast: Backend, reference: Backend) -> bool:
    ours, theirs = fast.encode_many(_PROBES), reference.encode_many(_PROBES)
    return np.array_equal(ours.bounds, theirs.bounds) and np.array_equal(ours.ids, theirs.ids)
