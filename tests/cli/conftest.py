"""The command line, called in this process or as it is installed."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from packcli import cli


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)


@pytest.fixture
def call(capfd, monkeypatch):
    """Call `packcli` in this process."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        status = ended.value.code
        return Ended(0 if status is None else status, out, err)

    return run


@pytest.fixture
def installed(tmp_path):
    """Call the installed entry point in a process of its own, from an empty folder."""

    def run(*arguments, **environment):
        script = f"{os.path.dirname(sys.executable)}/packcli"  # noqa: PTH120 - the link, not its target
        done = subprocess.run(
            [script, *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"HF_HUB_OFFLINE": "1"} | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run
