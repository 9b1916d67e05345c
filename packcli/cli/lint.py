"""`packcli lint`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packcli.cli.encode import codes, end
from packcli.cli.progress import as_json, no_progress, progress
from packcli.cli.record_flags import job_of, record_flags
from packcli.cli.reports.safe import plain
from packcli.cli.reports.text import counted
from packcli.contract.rejections import OF_RECORDS

if TYPE_CHECKING:
    from packcli.encode.survey import Survey

_EPILOG = """\b
Examples, on the bundled data:
  packcli lint sample_data/chats.jsonl --model sample_data/models/qwen3_vl
  packcli lint sample_data/chats.jsonl --model sample_data/models/qwen2_5_vl --json
"""


@click.command(epilog=_EPILOG)
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@record_flags
@click.option(
    "--max-findings",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Rejected records to name, and as many that are warned of; 0 names all.",
)
@as_json
@no_progress
def command(
    inputs: tuple[Path, ...],
    *,
    max_findings: int,
    as_json: bool,
    no_progress: bool,
    **flags: Any,  # noqa: ANN401 - the flags above, by name
) -> None:
    """Look at records as encode does, and name those that it would reject or warn of.

    Each line names file:line, the code and what to do, as OUTPUT/rejected.jsonl would. Nothing is
    written, and warnings do not change the exit status.
    """
    from packcli.encode.survey import survey

    job, most = job_of(flags), max_findings or None
    with progress("lint", hidden=no_progress) as update:
        seen = survey([*inputs], job, workers=flags["num_proc"], progress=update, named=most)
    click.echo(_document(seen, most) if as_json else _text(seen, most))
    end(seen.summary, flags["max_reject_rate"], "mend or drop them")


def _document(seen: Survey, most: int | None) -> str:
    told = {k: v for k, v in seen.summary.to_json().items() if k != "output"}
    return json.dumps(told | {"findings": seen.rejected[:most], "warned": seen.warned})


def _text(seen: Survey, most: int | None) -> str:
    summary, shown = seen.summary, seen.rejected[:most]
    lines = [plain(f"{line['message']} [{line['code']}]") for line in shown]
    lines += _left_out(len(seen.rejected) - len(shown))
    lines += [plain(f"warning: {line['message']} [{line['code']}]") for line in seen.warned]
    warned = sum(count for code, count in summary.warnings.items() if code in OF_RECORDS)
    lines += _left_out(warned - len(seen.warned))
    records = counted(summary.records, "records")
    lines.append(f"{records}: {summary.kept:,} good, {summary.rejected:,} bad")
    return "\n".join(lines + codes(summary))


def _left_out(count: int) -> list[str]:
    return [f"… and {count:,} more; --max-findings 0 names all"] if count else []
