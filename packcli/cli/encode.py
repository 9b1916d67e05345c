"""`packcli encode`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packcli.cli.progress import as_json, no_progress, progress
from packcli.cli.record_flags import job_of, record_flags
from packcli.cli.reports.text import counted
from packcli.contract.errors import PackcliError
from packcli.contract.rejections import ADVICE, FAULT, OF_RECORDS, WARNINGS

if TYPE_CHECKING:
    from packcli.encode.run import EncodeSummary

_EPILOG = """\b
Examples, on the bundled data:
  packcli encode sample_data/chats.jsonl --model sample_data/models/qwen3_vl -o encoded
  packcli encode sample_data/chats.jsonl --model sample_data/models/qwen2_5_vl \\
      -o short --max-length 512 --max-reject-rate 0.5
"""


@click.command(epilog=_EPILOG)
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder to write.")
@record_flags
@click.option("--dry-run", is_flag=True, help="Write nothing; print counts and lengths.")
@click.option(
    "--resume/--no-resume", default=True, show_default=True, help="Go on with unfinished work."
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset that packcli wrote there.")
@as_json
@no_progress
def command(
    inputs: tuple[Path, ...],
    output: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
    no_progress: bool,
    **flags: Any,  # noqa: ANN401 - the flags above, by name
) -> None:
    """Render records, expand media to token slots, and write encoded shards.

    INPUTS are .jsonl, .json, .jsonl.gz, .jsonl.zst or .parquet files, or folders that `datasets`
    saved; record shapes may mix. No pixel is decoded. Every record ends as a sample or as a line
    of OUTPUT/rejected.jsonl.
    """
    from packcli.encode.run import Writing, encode

    if dry_run:
        _dry_run(list(inputs), flags, as_json=as_json, no_progress=no_progress)
        return
    if output is None:
        raise click.UsageError(
            "Missing option '-o' / '--output': add `-o DIR`, the folder to write, or --dry-run to "
            "write nothing."
        )
    with progress("encode", hidden=no_progress) as update:
        writing = Writing(output, flags["num_proc"], flags["overwrite"], flags["resume"], update)
        summary = encode(list(inputs), job_of(flags), writing)
    click.echo(json.dumps(summary.to_json()) if as_json else describe(summary))
    end(summary, flags["max_reject_rate"], f"see {output / 'rejected.jsonl'}")


def _dry_run(
    inputs: list[Path], flags: dict[str, Any], *, as_json: bool, no_progress: bool
) -> None:
    from packcli.encode.survey import survey

    with progress("encode", hidden=no_progress) as update:
        seen = survey(inputs, job_of(flags), workers=flags["num_proc"], progress=update)
    lengths = seen.histogram()
    if as_json:
        pairs = [{"up_to": top, "samples": count} for top, count in lengths]
        click.echo(json.dumps(seen.summary.to_json() | {"lengths": pairs}))
    else:
        most = max((count for _, count in lengths), default=1)
        bars = [f"{top:>9,}  {n:>9,}  {'█' * round(30 * n / most)}" for top, n in lengths]
        click.echo("\n".join([describe(seen.summary), "  up to    samples", *bars]))
    end(seen.summary, flags["max_reject_rate"], "`packcli lint` names each")


def end(summary: EncodeSummary, max_reject_rate: float, where: str) -> None:
    """Leave with the status that a summary earns."""
    if faults := summary.warnings[FAULT]:
        told = f"failed itself on {counted(faults, 'records')}; {where}, and report it"
        click.echo(f"packcli: {told}", err=True)
        sys.exit(PackcliError.exit_code)
    if summary.records == 0:
        click.echo("packcli: the inputs hold no records; nothing was encoded", err=True)
        sys.exit(1)
    if summary.rejected > max_reject_rate * summary.records:
        share = summary.rejected / max(1, summary.records)
        click.echo(
            f"packcli: {summary.rejected:,} of {counted(summary.records, 'records')} rejected "
            f"({100 * share:.2f} %, allowed {100 * max_reject_rate:.2f} %); {where}",
            err=True,
        )
        sys.exit(1)


def describe(summary: EncodeSummary) -> str:
    """Say in a few lines what encode did."""
    to = f" to {summary.output}" if summary.output else ", nothing written"
    media = [counted(summary.media[kind], kind) for kind in ("images", "videos")]
    lines = [
        f"encoded  {summary.kept:,} of {counted(summary.records, 'records')}{to}",
        f"tokens   {summary.tokens:,}, of which {summary.supervised_tokens:,} supervised",
        f"media    {', '.join(media)}",
    ]
    told = codes(summary)
    if summary.warnings.keys() & OF_RECORDS:
        told.append("         `packcli lint` names the records that are warned of")
    return "\n".join(lines + told)


def codes(summary: EncodeSummary) -> list[str]:
    """Say how often records were rejected and why, and what else is to be known of them."""
    lines = [f"rejected {count:,} {code}" for code, count in sorted(summary.reasons.items())]
    for code, count in sorted(summary.warnings.items()):
        lines.append(f"warning  {count:,} {code}: {WARNINGS[code]}; {ADVICE[code]}")
    return lines
