"""`packcli demo`: the main job on the bundled data."""

import pytest

from packcli.verify.run import verify


@pytest.fixture
def broken(sample_data):
    if not (sample_data / "broken" / "position.reset").exists():
        pytest.skip("needs sample_data/broken/position.reset, which make_broken.py makes")


def test_demo(call, broken, tmp_path):
    ended = call("demo", "-o", tmp_path / "demo")
    assert ended.status == 0, ended.err
    for name in ("encoded", "packed"):
        assert (tmp_path / "demo" / name / "_SUCCESS").exists()
    assert ended.out.count("verdict  PASSED") == 1
    assert ended.out.count("verdict  FAILED") == 1
    assert "position.reset" in ended.out
    assert "84 samples into 7 packs" in ended.out
    assert verify([tmp_path / "demo" / "packed"]).passed


def test_demo_again_and_for_another_family(call, broken, tmp_path):
    for family in ("qwen3_5", "qwen2_5_vl"):
        ended = call("demo", "-o", tmp_path, "--family", family)
        assert ended.status == 0, ended.err


def test_demo_fails_when_the_broken_pack_passes(call, sample_data, packed, tmp_path, monkeypatch):
    data = tmp_path / "data"
    (data / "broken").mkdir(parents=True)
    for name in ("chats.jsonl", "media", "models"):
        (data / name).symlink_to(sample_data / name)
    (data / "broken" / "position.reset").symlink_to(packed)
    monkeypatch.setattr("packcli.cli.demo.bundled", lambda _: data)
    ended = call("demo", "-o", tmp_path / "demo")
    assert ended.out.count("verdict  PASSED") == 2
    assert ended.status == 1
