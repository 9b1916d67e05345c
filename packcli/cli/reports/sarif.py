"""A verdict as SARIF 2.1.0, which code-scanning pages and editors read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from packcli import __version__
from packcli.cli.reports.github import place
from packcli.cli.reports.safe import plain
from packcli.contract.rules import BY_CODE

if TYPE_CHECKING:
    from packcli.contract.verdict import Finding, Verdict

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(verdict: Verdict) -> str:
    """Write one run: the rules that a verdict can name, and a result for each finding."""
    codes = list(BY_CODE)
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "packcli",
                "semanticVersion": __version__,
                "rules": [_rule(code) for code in codes],
            }
        },
        "invocations": [{"executionSuccessful": True, "exitCode": 0 if verdict.passed else 1}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes) for finding in verdict.findings],
        "properties": {
            "passed": verdict.passed,
            "level": verdict.level,
            "checked": dict(verdict.checked),
            "counts": dict(sorted(verdict.counts.items())),
            "skipped": dict(sorted(verdict.skipped.items())),
        },
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2).replace("##[", "##\\u005b")


def _rule(code: str) -> dict[str, Any]:
    rule = BY_CODE[code]
    return {
        "id": code,
        "shortDescription": {"text": rule.law},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": "error"},
    }


def _result(finding: Finding, codes: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": "error",
        "message": {"text": plain(f"{finding.where()}: {finding.message}")},
        "locations": [_location(finding)],
        "properties": {
            name: plain(part) if isinstance(part, str) else part
            for name in ("shard", "row", "sample", "token", "sample_id")
            if (part := getattr(finding, name)) is not None
        },
    }
    if finding.code in codes:
        result["ruleIndex"] = codes.index(finding.code)
    return result


def _location(finding: Finding) -> dict[str, Any]:
    file, line = place(finding.source)
    where = file or finding.shard or "manifest.json"
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(where, errors="replace")}}
    if line is not None and int(line) > 0:
        physical["region"] = {"startLine": int(line)}
    return {
        "physicalLocation": physical,
        "logicalLocations": [{"fullyQualifiedName": plain(finding.where())}],
    }
