"""The laws of the code base that a machine can check."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "packcli"
MODULES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({path.parent for path in MODULES})
VAGUE = {"utils", "util", "helpers", "common", "base", "core", "misc", "lib", "tools"}
LONGEST = 300


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def run(*command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_import_contracts_hold(monkeypatch):
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == 0


def test_ruff_finds_nothing():
    status, output = run("ruff", "check", "--output-format", "concise", ".")
    assert status == 0, output


def test_ruff_would_format_nothing():
    status, output = run("ruff", "format", "--check", ".")
    assert status == 0, output


def test_types_are_right():
    pytest.importorskip("basedpyright")
    status, output = run("basedpyright", "--pythonpath", sys.executable, "packcli")
    assert status == 0, output


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_short_and_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(tree_of(path)), "no docstring"


def test_only_the_doorway_prints_and_exits():
    found = []
    for path in MODULES:
        if path.is_relative_to(PACKAGE / "cli"):
            continue
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in {"print", "exit", "quit", "sys.exit", "input"} or called.startswith(
                ("sys.stdout", "sys.stderr")
            ):
                found.append(f"{name_of(path)}:{node.lineno} {called}")
    assert found == []


def test_folders_and_modules_are_nouns_of_the_domain():
    names = {path.stem for path in MODULES} | {path.name for path in FOLDERS}
    assert names & VAGUE == set()


def test_nothing_is_pickled_nor_trusted():
    pattern = re.compile(
        r"\bimport pickle\b|allow_pickle=True|trust_remote_code=True|(?<![.\w])(?:eval|exec)\("
    )
    found = [name_of(p) for p in MODULES if pattern.search(p.read_text(encoding="utf-8"))]
    assert found == []


def test_types_are_published():
    assert (PACKAGE / "py.typed").read_text() == ""


def test_every_package_is_one():
    assert [name_of(f) for f in FOLDERS if not (f / "__init__.py").exists()] == []


def test_no_machine_path_is_committed():
    tracked = [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "sample_data").glob("*.py")]
    pattern = re.compile(r"[\"']/(work|home|root|tmp)/")
    found = [name_of(p) for p in tracked if pattern.search(p.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "shelf", ["families", "pack/strategies", "verify/kernels", "export/targets"]
)
def test_a_shelf_lists_its_parts_without_importing_them(shelf):
    module = f"packcli.{shelf.replace('/', '.')}"
    code = (
        "import sys, importlib\n"
        f"names = importlib.import_module({module!r}).names()\n"
        "assert len(names) > 1\n"
        f"held = [n for n in names if f'{module}.{{n}}' in sys.modules]\n"
        "assert not held, held\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
