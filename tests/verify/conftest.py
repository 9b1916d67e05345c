"""Tiny models of the bundled directories, built once."""

from __future__ import annotations

from functools import cache

import pytest

from packcli.verify.tiny_model import build


@pytest.fixture(scope="session")
def tiny_model(sample_data):
    """A tiny model by the name of its directory."""
    from packcli.families import open_family

    @cache
    def of(name):
        directory = sample_data / "models" / name
        return build(directory, open_family(directory).facts)

    return of
