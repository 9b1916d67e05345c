"""Media on the network: fetched only when asked for, only from public addresses, and bounded."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit

from packcli.contract.errors import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN = 100
_BLOCK = 1 << 16
_MOVED = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}


def is_public(address: str) -> bool:
    """Tell whether an address belongs to the open internet."""
    found = ipaddress.ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None) or found
    return mapped.is_global and not mapped.is_multicast


@dataclass(frozen=True, slots=True)
class RemotePolicy:
    """What may be fetched, and how much of it.

    Attributes:
        allows: whether an address (after resolution) may be talked to.
        max_bytes: of one medium.
        seconds: for one medium, redirects included.
        redirects: at most, each checked like the first address.
    """

    allows: Callable[[str], bool] = is_public
    max_bytes: int = 2**28
    seconds: float = 30.0
    redirects: int = 5


class _Refused(Exception):  # noqa: N818 - becomes a rejection
    """Why an address is not fetched."""


def fetch(url: str, policy: RemotePolicy) -> bytes:
    """Fetch a medium.

    Raises:
        Rejection: `media_remote_failed`.
    """
    deadline = time.monotonic() + policy.seconds
    here = url
    try:
        for _ in range(policy.redirects + 1):
            found = _fetch_once(urlsplit(here), policy, deadline)
            if isinstance(found, bytes):
                return found
            here = urljoin(here, found)
        reason = f"more than {policy.redirects} redirects"
    except (OSError, ValueError, http.client.HTTPException, _Refused) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    message = f"{url:.{_SHOWN}}: {reason:.160}; download it and name the file"
    raise Rejection("media_remote_failed", message)


def _fetch_once(url: SplitResult, policy: RemotePolicy, deadline: float) -> bytes | str:
    """Return the body, or where it has moved."""
    if url.scheme not in _PORTS or not url.hostname:
        raise _Refused("only http and https addresses are fetched")
    port = url.port or _PORTS[url.scheme]
    address = _address(url.hostname, port, policy)
    connection = http.client.HTTPConnection(url.hostname, port)
    # the address that was checked, not another look-up of the name
    connected = connection.sock = _connect(url, (address, port), deadline)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = {"User-Agent": "packcli", "Accept-Encoding": "identity"}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status in _MOVED:
            return answer.headers.get("Location") or ""
        if answer.status != http.client.OK:
            raise _Refused(f"status {answer.status}")
        return _body(answer, connected, policy, deadline)
    finally:
        connection.close()


def _address(host: str, port: int, policy: RemotePolicy) -> str:
    found = {str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    # all of them: a name with one public and one private address is a trap
    if not found or not all(policy.allows(address) for address in found):
        raise _Refused("the address is not public")
    return min(found)


def _connect(url: SplitResult, at: tuple[str, int], deadline: float) -> socket.socket:
    plain = socket.create_connection(at, timeout=_left(deadline))
    if url.scheme == "http":
        return plain
    return ssl.create_default_context().wrap_socket(plain, server_hostname=url.hostname)


def _body(
    answer: http.client.HTTPResponse,
    connected: socket.socket,
    policy: RemotePolicy,
    deadline: float,
) -> bytes:
    parts: list[bytes] = []
    size = 0
    while block := _block(answer, connected, deadline):
        size += len(block)
        if size > policy.max_bytes:
            raise _Refused(f"more than {policy.max_bytes} bytes")
        parts.append(block)
    told = answer.headers.get("Content-Length")
    if told is not None and told.isdecimal() and int(told) != size:
        raise _Refused(f"{size} of {told} bytes came")
    return b"".join(parts)


def _block(answer: http.client.HTTPResponse, connected: socket.socket, deadline: float) -> bytes:
    connected.settimeout(_left(deadline))
    return answer.read1(_BLOCK)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise _Refused("it takes too long")
    return left
