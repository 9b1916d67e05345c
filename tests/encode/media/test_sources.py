"""Where media may lie: paths, links, addresses, data URIs and embedded bytes."""

from __future__ import annotations

import base64
import os

import pytest

from packcli.contract.errors import Rejection
from packcli.encode.media.sources import MediaRoot, locate
from packcli.encode.records.conversation import MediaRef


@pytest.fixture
def root(tmp_path):
    """`root/in.png` and `root/deep/in.png` inside; `out/secret.png` and `rootling/x` beside it."""
    for name in ("root/in.png", "root/deep/in.png", "out/secret.png", "rootling/x.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (tmp_path / "root/empty.png").touch()
    return MediaRoot(tmp_path / "root")


def read(uri, root):
    with locate(MediaRef("image", uri=uri), root).open() as stream:
        return stream.read()


def code(uri, root):
    with pytest.raises(Rejection) as caught:
        read(uri, root)
    assert "\n" not in caught.value.message
    assert "; " in caught.value.message
    return caught.value.code


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("in.png", b"root/in.png"),
        ("./in.png", b"root/in.png"),
        ("deep/in.png", b"root/deep/in.png"),
        ("deep/../in.png", b"root/in.png"),
        ("../root/in.png", b"root/in.png"),
        ("file:in.png", b"root/in.png"),
        ("file:deep/in.png", b"root/deep/in.png"),
    ],
)
def test_paths_inside_the_root_are_read(root, uri, expected):
    assert read(uri, root) == expected


def test_absolute_paths_into_the_root_are_inside(root):
    path = root.path / "in.png"
    assert read(str(path), root) == b"root/in.png"
    assert read(f"file://{path}", root) == b"root/in.png"


@pytest.mark.parametrize(
    "uri", ["../out/secret.png", "deep/../../out/secret.png", "../rootling/x.png", "..", "../"]
)
def test_paths_out_of_the_root_are_refused_and_can_be_allowed(root, uri):
    assert code(uri, root) == "media_outside_root"
    free = MediaRoot(root.path, allow_outside=True)
    if uri.endswith(".png"):
        assert read(uri, free).endswith(uri.rpartition("/")[2].encode())


def test_absolute_and_file_addresses_out_of_the_root_are_refused(root):
    secret = root.path.parent / "out/secret.png"
    assert code(str(secret), root) == "media_outside_root"
    assert code(f"file://{secret}", root) == "media_outside_root"
    assert code("file:///etc/passwd", root) == "media_outside_root"
    assert read(f"file://{secret}", MediaRoot(root.path, allow_outside=True)) == b"out/secret.png"


def test_links_are_followed_before_they_are_judged(root):
    out = root.path.parent / "out"
    (root.path / "file_out.png").symlink_to(out / "secret.png")
    (root.path / "folder_out").symlink_to(out)
    (root.path / "chain.png").symlink_to("folder_out/secret.png")
    (root.path / "file_in.png").symlink_to("deep/in.png")
    (root.path / "nowhere.png").symlink_to("absent.png")
    (root.path / "loop.png").symlink_to("loop.png")
    assert code("file_out.png", root) == "media_outside_root"
    assert code("folder_out/secret.png", root) == "media_outside_root"
    assert code("folder_out/../in.png", root) == "media_outside_root"  # of `out`, not of the root
    assert code("chain.png", root) == "media_outside_root"
    assert read("file_in.png", root) == b"root/deep/in.png"
    assert code("nowhere.png", root) == "media_missing"
    assert code("loop.png", root) == "media_missing"


def test_a_link_that_leads_out_is_called_one(root):
    (root.path / "folder_out").symlink_to(root.path.parent / "out")
    remedy = "; move it in, name its folder by --media-root, or --allow-outside-root"
    for uri, how in (("folder_out/secret.png", " by a symbolic link"), ("../out/secret.png", "")):
        with pytest.raises(Rejection) as caught:
            read(uri, root)
        assert caught.value.message == f"{uri} leaves the media root{how}{remedy}"


def test_a_root_that_is_a_link_is_followed_too(root, tmp_path):
    (tmp_path / "alias").symlink_to(root.path)
    alias = MediaRoot(tmp_path / "alias")
    assert read("deep/in.png", alias) == b"root/deep/in.png"
    assert read(str(tmp_path / "alias/in.png"), alias) == b"root/in.png"
    assert code("../out/secret.png", alias) == "media_outside_root"


@pytest.mark.parametrize(
    "uri",
    [
        "http://example.org/a.png",
        "HTTPS://example.org/a.png",
        "s3://bucket/a.png",
        "gs://bucket/a.png",
        "ftp://example.org/a",
    ],
)
def test_addresses_are_not_fetched(root, uri):
    assert code(uri, root) == "media_remote_disabled"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("absent.png", "media_missing"),
        ("in.png/x", "media_missing"),
        ("x" * 5000, "media_missing"),
        ("a:b.png", "media_missing"),
        ("C:\\a.png", "media_missing"),
        ("empty.png", "media_empty"),
        ("deep", "bad_media_ref"),
        ("deep/", "bad_media_ref"),
        (".", "bad_media_ref"),
        ("", "bad_media_ref"),
        ("in.png\0.jpg", "bad_media_ref"),
        ("/dev/null", "media_outside_root"),
    ],
)
def test_what_is_no_file_has_its_code(root, uri, expected):
    assert code(uri, root) == expected


def test_pipes_are_never_opened(root):
    os.mkfifo(root.path / "pipe")
    assert code("pipe", root) == "bad_media_ref"
    free = MediaRoot(root.path, allow_outside=True)
    assert code("/dev/zero", free) == "bad_media_ref"


def test_a_file_that_may_not_be_read_is_missing(root, monkeypatch):
    source = locate(MediaRef("image", uri="in.png"), root)
    (root.path / "in.png").unlink()
    with pytest.raises(Rejection) as caught:
        source.open()
    assert caught.value.code == "media_missing"


def test_messages_name_no_folder_of_this_machine(root):
    for uri in ("absent.png", "empty.png", "deep", "../out/secret.png"):
        with pytest.raises(Rejection) as caught:
            locate(MediaRef("image", uri=uri), root)
        assert str(root.path) not in caught.value.message
        assert uri in caught.value.message


PACKED = base64.b64encode(b"\xffbytes!?").decode()


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"data:image/png;base64,{PACKED}", b"\xffbytes!?"),
        (f"data:;base64,{PACKED}", b"\xffbytes!?"),
        (f"DATA:image/png;name=a.png;charset=utf-8;BASE64,{PACKED}", b"\xffbytes!?"),
        (f"data:image/png;base64,{PACKED.rstrip('=')}", b"\xffbytes!?"),
        (f"data:image/png;base64,{PACKED[:4]}\n {PACKED[4:]}", b"\xffbytes!?"),
        ("data:image/png,%FFa%20b", b"\xffa b"),
        ("data:,plain", b"plain"),
    ],
)
def test_data_addresses_are_decoded(root, uri, expected):
    assert read(uri, root) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("data:image/png;base64", "bad_data_uri"),
        ("data:image/png;base64,not base64!", "bad_data_uri"),
        ("data:image/png;base64,AAAAA", "bad_data_uri"),
        ("data:image/png;base64,é", "bad_data_uri"),
        ("data:image/png;base64,", "media_empty"),
        ("data:,", "media_empty"),
    ],
)
def test_bad_data_addresses_have_their_code(root, uri, expected):
    assert code(uri, root) == expected


def test_embedded_bytes_win_over_the_path_beside_them(root):
    ref = MediaRef("image", uri="../out/secret.png", data=b"own")
    with locate(ref, root).open() as stream:
        assert stream.read() == b"own"
    with pytest.raises(Rejection) as caught:
        locate(MediaRef("image", data=b""), root)
    assert caught.value.code == "media_empty"
