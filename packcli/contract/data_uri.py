"""Data URIs: a file that stands in its own address."""

from __future__ import annotations

import base64
from urllib.parse import unquote_to_bytes


def data_uri_bytes(uri: str) -> bytes:
    """Return the bytes that a ``data:`` URI holds (RFC 2397); parameters are passed over.

    Raises:
        ValueError: there is no comma before the data, or the data are not base64.
    """
    head, comma, body = uri.partition(",")
    if not comma:
        raise ValueError("no comma before the data; add it")
    if head.rpartition(";")[2].strip().lower() != "base64":
        return unquote_to_bytes(body)
    packed = "".join(body.split())
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except ValueError as error:
        raise ValueError(f"not base64: {error}; encode it again") from error
