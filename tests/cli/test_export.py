"""`packcli export` on the command line."""

import pytest

from packcli.export.targets import names


def test_the_list_tells_what_is_lost(call):
    shown = call("export", "--list").out
    for name in names():
        assert f"{name}: " in shown
    assert "loses    system turns and videos: samples that hold them are refused" in shown


def test_refusals_are_named_with_their_remedy(call, packed, tmp_path):
    arguments = ("export", packed, "--to", "megatron-bridge", "-o", tmp_path / "out")
    ended = call(*arguments, "--no-progress")
    assert ended.status == 0
    assert "holds images or videos" in ended.out
    assert "train it with packcli.train" in ended.out
    assert "answer_only_loss: true" in ended.out
    told = call(*arguments, "--no-progress", "--json", "--overwrite").document
    assert told["target"] == "megatron-bridge"
    assert told["samples"] > 0
    assert call(*arguments).status == 2


@pytest.mark.parametrize("arguments", [(), ("x", "--to", "axolotl", "-o", "y"), ("x", "-o", "y")])
def test_usage(call, arguments):
    ended = call("export", *arguments)
    assert ended.status == 2
    assert "megatron-bridge" in ended.err or "--list" in ended.err


def test_nothing_to_write_is_status_1(call, encoded, tmp_path, monkeypatch):
    def refuse(packs):
        return dict.fromkeys(range(packs.members.total), _reason())

    def _reason():
        from packcli.export.refusals import Reason

        return Reason("is not wanted", "want it")

    monkeypatch.setattr("packcli.export.targets.megatron_bridge.with_media", refuse)
    ended = call("export", encoded(), "--to", "megatron-bridge", "-o", tmp_path / "out")
    assert ended.status == 1
    assert "is not wanted; want it" in ended.out
    assert "no sample could be exported" in ended.err
