"""`packcli demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packcli.cli import encode as encode_command
from packcli.cli import pack as pack_command
from packcli.cli import verify as verify_command
from packcli.cli.bundled import bundled

if TYPE_CHECKING:
    from packcli.contract.verdict import Verdict

_CAPACITY = 2048
_BROKEN = "position.reset"
"""The rule that the bundled broken pack breaks, and the name of its folder."""

_EPILOG = """\b
Examples:
  packcli demo
  packcli demo -o look --family qwen2_5_vl
"""


@click.command(epilog=_EPILOG)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="packcli-demo",
    show_default=True,
    help="Folder to write.",
)
@click.option("--family", default="qwen3_vl", show_default=True, help="One of sample_data/models.")
def command(output: Path, family: str) -> None:
    """Encode, pack and verify the bundled data, offline; then show a broken pack failing."""
    data = bundled("sample_data")
    models = sorted(path.name for path in (data / "models").iterdir())
    if family not in models:
        raise click.BadParameter(f"{family!r}: there are {', '.join(models)}")
    click.echo(f"1. encode: {data / 'chats.jsonl'}, for {family}")
    _encode(data, data / "models" / family, output / "encoded")
    click.echo(f"\n2. pack: bin-packing into packs of {_CAPACITY} tokens")
    _pack(output / "encoded", output / "packed")
    click.echo("\n3. verify: the contract on disk, then a real attention kernel")
    verdict = _verify(output / "packed")
    click.echo(verify_command.describe(verdict))
    click.echo("\n4. the same check on a pack that lost one boundary; it must fail")
    broken = _verify(data / "broken" / _BROKEN)
    click.echo(verify_command.describe(broken))
    if _BROKEN in broken.counts:
        click.echo("It failed, as it must: the demo is done.")
    click.echo(f"\nLook at {output / 'packed'}: data/*.parquet, manifest.json, README.md")
    if not verdict.passed or _BROKEN not in broken.counts:
        sys.exit(1)


def _encode(data: Path, model: Path, output: Path) -> None:
    from packcli.encode.options import EncodeJob, EncodeOptions
    from packcli.encode.run import Writing, encode

    job = EncodeJob(model, None, EncodeOptions())
    summary = encode([data / "chats.jsonl"], job, Writing(output, overwrite=True))
    click.echo(encode_command.describe(summary))


def _pack(encoded: Path, output: Path) -> None:
    from packcli.pack.options import PlanOptions
    from packcli.pack.run import Writing, pack

    summary = pack([encoded], PlanOptions(capacity=_CAPACITY), Writing(output, overwrite=True))
    click.echo(pack_command.describe(summary))


def _verify(path: Path) -> Verdict:
    from packcli.verify.kernel_level import KernelOptions
    from packcli.verify.run import verify

    return verify([path], kernel=KernelOptions())
