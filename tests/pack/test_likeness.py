"""Which datasets may share packs."""

from dataclasses import replace
from pathlib import Path

import pytest

from packcli.contract.errors import InputError
from packcli.pack.likeness import check_alike
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing, pack
from packcli.shards.manifest import read_manifest
from packcli.verify.run import verify

PATHS = (Path("a"), Path("b"))


def test_packed_and_encoded_of_one_kind_share_packs(encoded, tmp_path):
    pack([encoded()], PlanOptions(1024), Writing(tmp_path / "packed"))
    inputs, both = [tmp_path / "packed", encoded()], Writing(tmp_path / "both")
    with pytest.raises(InputError, match=r"both made from chats\.jsonl, which"):
        pack(inputs, PlanOptions(1024), both)
    assert pack(inputs, PlanOptions(1024), both, epochs=[1, 1]).samples == 2 * 84
    assert verify([tmp_path / "both"]).passed


def test_where_media_are_kept_decides_no_token(encoded):
    one = read_manifest(encoded())
    other = replace(one, options=one.options | {"embed_media": not one.options["embed_media"]})
    check_alike(PATHS, [one, other])


def test_libraries_that_both_name_must_be_of_one_version(encoded):
    one = read_manifest(encoded())
    check_alike(PATHS, [one, replace(one, versions={"packcli": one.versions["packcli"]})])
    other = replace(one, versions=one.versions | {"packcli": "0"})
    with pytest.raises(InputError, match=r"versions\.packcli"):
        check_alike(PATHS, [one, other])


def test_an_option_that_decides_tokens_is_named(encoded):
    one = read_manifest(encoded())
    with pytest.raises(InputError, match=r"options\.supervise"):
        check_alike(PATHS, [one, replace(one, options=one.options | {"supervise": "other"})])
