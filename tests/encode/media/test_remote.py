"""Media on the network: a server on this machine, let in by a policy of the test alone."""

from __future__ import annotations

import io
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from packcli.contract.errors import Rejection
from packcli.encode.media.images import ImagePolicy, image_size
from packcli.encode.media.remote import RemotePolicy, fetch, is_public
from packcli.encode.media.sources import MediaRoot, locate
from packcli.encode.records.conversation import MediaRef

BODY = b"x" * 5000


def png():
    buffer = io.BytesIO()
    Image.new("RGB", (30, 20)).save(buffer, "PNG")
    return buffer.getvalue()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_words):
        pass

    def do_GET(self):
        with suppress(OSError):
            getattr(self, f"say_{self.path.strip('/').partition('/')[0]}")()

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content_Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def say_picture(self):
        self.answer(200, png())

    def say_large(self):
        self.answer(200, BODY)

    def say_short(self):
        self.answer(200, BODY[:100], Content_Length=5000)

    def say_gone(self):
        self.answer(404)

    def say_slow(self):
        self.send_response(200)
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b"x")
            time.sleep(0.05)

    def say_moved(self):
        self.answer(302, Location="/picture")

    def say_loop(self):
        self.answer(302, Location="/loop")

    def say_trap(self):
        self.answer(302, Location="http://127.0.0.2:1/secret")

    def say_file(self):
        self.answer(302, Location="file:///etc/passwd")


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def policy(**bounds):
    return RemotePolicy(allows=lambda found: found == "127.0.0.1", **bounds)


@pytest.mark.parametrize("path", ["picture", "moved"])
def test_a_picture_is_fetched(tmp_path, address, path):
    root = MediaRoot(tmp_path, remote=policy())
    source = locate(MediaRef("image", f"{address}/{path}"), root)
    size = image_size(source, ImagePolicy())
    assert (size.height, size.width) == (20, 30)


@pytest.mark.parametrize(
    ("path", "bounds", "why"),
    [
        ("large", {"max_bytes": 4000}, "more than 4000 bytes"),
        ("short", {}, "100 of 5000 bytes came|IncompleteRead"),
        ("gone", {}, "status 404"),
        ("slow", {"seconds": 0.3}, "takes too long|timed out"),
        ("loop", {"redirects": 3}, "more than 3 redirects"),
        ("trap", {}, "the address is not public"),
        ("file", {}, "only http and https"),
    ],
)
def test_what_is_not_fetched(address, path, bounds, why):
    with pytest.raises(Rejection, match=why) as caught:
        fetch(f"{address}/{path}", policy(**bounds))
    assert caught.value.code == "media_remote_failed"


def test_this_machine_is_not_public(address):
    with pytest.raises(Rejection, match="not public"):
        fetch(f"{address}/picture", RemotePolicy())
    with pytest.raises(Rejection, match="only http and https"):
        fetch("ftp://example.org/a.png", RemotePolicy())


def test_nothing_is_fetched_unless_asked_for(tmp_path):
    with pytest.raises(Rejection, match="--allow-remote-media") as caught:
        locate(MediaRef("image", "https://example.org/a.png"), MediaRoot(tmp_path))
    assert caught.value.code == "media_remote_disabled"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        *[(a, False) for a in ("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1")],
        *[(a, False) for a in ("0.0.0.1", "224.0.0.1", "100.64.0.1", "::1", "fe80::1", "fd00::1")],
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
    ],
)
def test_public_addresses(address, public):
    assert is_public(address) is public
