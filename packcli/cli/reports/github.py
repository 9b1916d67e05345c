"""A verdict for GitHub Actions: an annotation a finding, and a summary in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.cli.reports.safe import plain
from packcli.cli.reports.text import proof_line
from packcli.cli.reports.text import render as as_text
from packcli.contract.rules import BY_CODE

if TYPE_CHECKING:
    from packcli.contract.verdict import Finding, Verdict


def render(verdict: Verdict) -> str:
    """Write workflow commands, and behind them the text report."""
    return "\n".join([*(_annotation(one) for one in verdict.findings), as_text(verdict)])


def _annotation(finding: Finding) -> str:
    file, line = place(finding.source)
    properties = {"file": file, "line": line, "title": finding.code}
    told = ",".join(f"{name}={_property(part)}" for name, part in properties.items() if part)
    return f"::error {told}::{_data(f'{finding.where()}: {finding.message}')}"


def place(source: str | None) -> tuple[str | None, str | None]:
    """Split ``file:line``; both are None where nobody knows."""
    file, _, line = (source or "").rpartition(":")
    return (file, line) if file and line.isdecimal() else (source or None, None)


def _data(text: str) -> str:
    """Escape as `@actions/core` escapes data of a command."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return plain(escaped)


def _property(text: str) -> str:
    """Escape as `@actions/core` escapes properties of a command."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(verdict: Verdict) -> str:
    """Write the page that a workflow shows for the step."""
    checked = verdict.checked
    lines = [
        f"### packcli verify: {'passed' if verdict.passed else 'FAILED'}",
        "",
        (
            f"{checked['packs']:,} packs, {checked['samples']:,} samples, "
            f"{checked['tokens']:,} tokens in {checked['shards']:,} shards; level {verdict.level}."
        ),
        "",
    ]
    lines += [f"- {_cell(proof_line(proof))}" for proof in verdict.proofs]
    if verdict.counts:
        lines += ["", "| rule | findings | law | first |", "|---|---|---|---|"]
    first = {finding.code: finding for finding in reversed(verdict.findings)}
    for code, count in sorted(verdict.counts.items()):
        law = BY_CODE[code].law if code in BY_CODE else ""
        shown = f"{first[code].where()}: {first[code].message}" if code in first else ""
        lines.append(f"| `{code}` | {count:,} | {_cell(law)} | {_cell(shown)} |")
    lines += [f"- skipped `{_cell(code)}`: {_cell(why)}" for code, why in verdict.skipped.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Escape what Markdown or HTML would take for its own."""
    shown = plain(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{char}" if char in "|`*_[]!\\" else char for char in shown)
