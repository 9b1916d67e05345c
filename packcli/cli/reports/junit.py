"""A verdict as JUnit XML: a test case for every rule in every shard, and one for the dataset's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from packcli.cli.reports.safe import plain
from packcli.contract.rules import BY_CODE, RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packcli.contract.verdict import Finding, Verdict

_DATASET = "dataset"


def render(verdict: Verdict) -> str:
    """Write one suite for each shard and one for the dataset as a whole."""
    of_rows = [rule.code for rule in RULES]
    others = sorted((BY_CODE.keys() | verdict.counts.keys()) - set(of_rows))
    root = ET.Element("testsuites", name="packcli verify")
    for shard in verdict.shards:
        _suite(root, verdict, shard, of_rows)
    _suite(root, verdict, None, others)
    ET.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return head + ET.tostring(root, encoding="unicode")


def _suite(root: ET.Element, verdict: Verdict, shard: str | None, codes: Iterable[str]) -> None:
    title = _DATASET if shard is None else plain(shard)
    suite = ET.SubElement(root, "testsuite", name=title)
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    for code in codes:
        counts["tests"] += 1
        case = ET.SubElement(suite, "testcase", classname=title, name=code)
        broken = _count(verdict, shard, code)
        if broken:
            counts["failures"] += 1
            _fail(case, verdict, shard, (code, broken))
        elif (why := verdict.not_run(code)) is not None:
            counts["skipped"] += 1
            ET.SubElement(case, "skipped", message=plain(why))
    for name, count in counts.items():
        suite.set(name, str(count))


def _count(verdict: Verdict, shard: str | None, code: str) -> int:
    """Count a code in one shard; what the dataset answers for is counted wherever it shows."""
    return verdict.counts[code] if shard is None else verdict.places[code, shard]


def _fail(case: ET.Element, verdict: Verdict, shard: str | None, failed: tuple[str, int]) -> None:
    code, count = failed
    own = [one for one in verdict.findings if one.code == code and shard in {None, one.shard}]
    lines = [_line(finding) for finding in own]
    lines += [f"… {count - len(own):,} more"] if count > len(own) else []
    lines += [f"remedy: {BY_CODE[code].remedy}"] if code in BY_CODE else []
    law = BY_CODE[code].law if code in BY_CODE else code
    failure = ET.SubElement(case, "failure", message=f"{count:,} findings: {law}", type=code)
    failure.text = "\n".join(lines)


def _line(finding: Finding) -> str:
    return plain(f"{finding.where()}: {finding.message}")
