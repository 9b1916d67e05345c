"""What doctor says of an environment, and of one that was bent."""

from importlib import metadata, util
from types import SimpleNamespace

import pytest

from packcli.cli import doctor
from packcli.verify import kernels


@pytest.fixture
def bend(monkeypatch):
    """Pretend that other versions are installed."""

    def pretend(**versions):
        told = {name.replace("_", "-"): version for name, version in versions.items()}
        monkeypatch.setattr(doctor, "installed", told.get)

    return pretend


def names():
    return [trap.name for trap in doctor.traps()]


def test_json_names_versions_kernels_and_what_each_lacks(call):
    ended = call("doctor", "--json")
    assert ended.status == 0
    found = ended.document
    assert found["packages"]["numpy"] == metadata.version("numpy")
    assert {kernel["name"] for kernel in found["kernels"]} == set(kernels.names())
    for kernel in found["kernels"]:
        assert (kernel["version"] is None) == (kernel["lacks"] is not None)
    cpu = [kernel for kernel in found["kernels"] if kernel["device"] == "cpu"]
    assert {(kernel["name"], kernel["lacks"]) for kernel in cpu} >= {("sdpa", None)}
    assert (found["gpu"]["name"] is None) == (found["gpu"]["lacks"] is not None)


def test_text_holds_a_line_for_each(call):
    ended = call("doctor")
    lines = ended.out.splitlines()
    assert ended.status == 0
    assert sum(line.startswith("kernel   ") for line in lines) == len(kernels.names())
    assert sum(line.startswith("package  ") for line in lines) == len(doctor._PACKAGES)
    assert [line for line in lines if line.startswith("trap     ")] == [
        f"trap     {trap.name}: {trap.message}" for trap in doctor.traps()
    ]


def test_nothing_installed_has_no_traps(bend, monkeypatch):
    bend()
    monkeypatch.setattr(util, "find_spec", lambda _name: None)
    assert names() == []


@pytest.mark.parametrize(
    ("torch", "wanted", "found"),
    [
        ("2.14.1", "torch==2.14.1", False),
        ("2.14.1+cu128", "torch==2.14.1", False),
        ("2.13.0", "torch==2.14.1", True),
        ("2.13.0", "torch (==2.14.1)", True),
        ("2.13.0", "torch>=2", False),
    ],
)
def test_torchvision_that_was_built_for_another_torch(bend, monkeypatch, torch, wanted, found):
    bend(torch=torch, torchvision="0.29.1")
    monkeypatch.setattr(metadata, "requires", lambda _name: ["numpy", wanted])
    assert ("torchvision" in names()) == found


@pytest.mark.parametrize(("origin", "found"), [(None, True), ("flash_attn/__init__.py", False)])
def test_flash_attn_that_is_a_bare_folder(bend, monkeypatch, origin, found):
    bend()
    monkeypatch.setattr(util, "find_spec", lambda _name: SimpleNamespace(origin=origin))
    assert ("flash_attn" in names()) == found


def test_notes_follow_what_is_installed(bend, monkeypatch):
    monkeypatch.setattr(util, "find_spec", lambda _name: None)
    bend(transformers="5.24.0", flash_linear_attention="1", causal_conv1d="1")
    assert names() == ["video wrapper", "DataCollatorWithFlattening", "use_cache"]
    bend(transformers="5.24.0", trl="1.16.0", causal_conv1d="1")
    assert names()[-2:] == ["TRL", "linear attention"]


def test_a_kernel_that_breaks_on_import_is_told_and_not_raised(monkeypatch):
    def broken():
        raise OSError("libcudart.so.12: cannot open shared object file\nmore")

    fake = SimpleNamespace(name="x", kind="conv", device="cuda", lacks=broken)
    monkeypatch.setattr(kernels, "load", lambda _name: fake)
    told = doctor._kernels()[0]
    assert told["lacks"] == "libcudart.so.12: cannot open shared object file"
    assert told["version"] is None
