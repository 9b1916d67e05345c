"""Files that come with packcli: the sample data."""

from __future__ import annotations

from pathlib import Path

from packcli.contract.errors import EnvironmentLacksError

_PACKAGE = Path(__file__).resolve().parents[1]


def bundled(name: str) -> Path:
    """Find a folder that is installed with the package, or lies beside it in a checkout.

    Raises:
        EnvironmentLacksError: the installation is not whole.
    """
    for folder in (_PACKAGE / "_bundled" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise EnvironmentLacksError(f"{name} was not installed with packcli; install it again")
