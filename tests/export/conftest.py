"""Datasets to export, and the code of the trainers where it is at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.export.options import ExportOptions
from packcli.export.run import export
from packcli.pack import run as pack_run
from packcli.pack.options import PlanOptions
from packcli.shards.manifest import read_manifest
from packcli.shards.reader import Shard


@pytest.fixture(scope="session")
def canvases(sample_data, canvas_model, tmp_path_factory):
    """The bundled chats in packs for LLaVA-OneVision-2."""
    folder = tmp_path_factory.mktemp("canvases")
    job = EncodeJob(canvas_model, None, EncodeOptions())
    encode([sample_data / "chats.jsonl"], job, Writing(folder / "encoded"))
    writing = pack_run.Writing(folder / "packed")
    options = PlanOptions(capacity=4096)
    return Path(pack_run.pack([folder / "encoded"], options, writing).output)


@pytest.fixture
def exported(tmp_path):
    """Export a dataset; give the folder and the summary."""

    def run(path, target, **options):
        output = tmp_path / target
        return output, export(path, target, ExportOptions(output, **options))

    return run


def packs_in(path):
    """All packs of a dataset, row group by row group."""
    manifest = read_manifest(path)
    for entry in manifest.shards:
        for rows in Shard.open(path / "data" / entry.name).groups(manifest.model):
            yield rows.packs()


def samples_of(path, skip=()):
    """For each pack that is not empty, its samples as (id, tokens, labels)."""
    packs = []
    for group in packs_in(path):
        for members in group.members.slices():
            held = []
            for sample in range(members.start, members.stop):
                name = group.columns["sample_ids"][sample]
                span = slice(*group.tokens.values[sample : sample + 2].tolist())
                ids, labels = (group.columns[n][span].tolist() for n in ("input_ids", "labels"))
                if name not in skip:
                    held.append((name, ids, labels))
            packs += [held] if held else []
    return packs


def refused_in(output):
    """Lines of what was refused."""
    text = (output / ".packcli_refused.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def consumer(tmp_path):
    """Run code beside a trainer's package: installed here, or in PACKCLI_CONSUMERS/NAME."""

    def run(name, code, **given):
        folder = Path(os.environ.get("PACKCLI_CONSUMERS", "")) / name
        given_one = "PACKCLI_CONSUMERS" in os.environ and folder.is_dir()
        if not given_one and not _installed(name):
            pytest.skip(f"needs {name}, installed or in the folder that PACKCLI_CONSUMERS names")
        search = str(folder) if given_one else os.environ.get("PYTHONPATH", "")
        program = tmp_path / "program.py"
        program.write_text(f"import json\ngiven = json.loads({json.dumps(given)!r})\n{code}")
        done = subprocess.run(
            [sys.executable, str(program)],
            env=os.environ | {"PYTHONPATH": search},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def _installed(name):
    """Whether a package is there under the name by which it is installed."""
    try:
        return metadata.version(name) is not None
    except metadata.PackageNotFoundError:
        return False
