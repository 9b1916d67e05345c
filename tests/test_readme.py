"""Every command of the README is run, in order, in one folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FAILS = re.compile(r"#.*\bexit (\d+)")
"""A comment behind a command that is meant to fail: ``# exit 1``."""


def commands():
    """Commands of all console blocks; a line that ends in a backslash goes on in the next."""
    for block in BLOCK.findall(README):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ").strip()


def is_run(command):
    """Installing, testing and installing in order to see the demo are other tests' matter."""
    return not command.startswith("pip install") and "pytest" not in command


def test_commands_are_found():
    run = [command for command in commands() if is_run(command)]
    assert len(run) >= 3
    assert any(command.startswith("packcli verify") for command in run)


@pytest.mark.skipif(os.name == "nt", reason="the README speaks to a POSIX shell")
def test_every_command_works(tmp_path):
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    beside = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PATH": os.pathsep.join([beside, os.environ.get("PATH", "")]),
        "HF_HUB_OFFLINE": "1",
        "PACKCLI_NO_PROGRESS": "1",
    }
    for command in filter(is_run, commands()):
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        told = FAILS.search(command)
        expected = int(told[1]) if told else 0
        assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"


def test_what_the_readme_links_to_is_there():
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
