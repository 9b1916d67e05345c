"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def sample_data(root: Path) -> Path:
    """The bundled data."""
    return root / "sample_data"


@pytest.fixture(scope="session")
def shared(root: Path) -> Path:
    """Real model directories and cases that lie beside a checkout; tests skip without them."""
    path = root.parent / "shared"
    if not path.is_dir():
        pytest.skip("needs ../shared (real processor directories and cases), which is absent")
    return path
