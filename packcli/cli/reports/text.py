"""A verdict for people: a few lines, the last of which says whether it passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.cli.reports.safe import plain

if TYPE_CHECKING:
    from packcli.contract.verdict import Proof, Verdict


def render(verdict: Verdict) -> str:
    """Say in a few lines what was checked, what was found, and whether it passed."""
    checked, found = verdict.checked, sum(verdict.counts.values())
    seen = ", ".join(counted(checked[noun], noun) for noun in ("packs", "samples", "tokens"))
    held = counted(found, "findings") if found else "every rule holds"
    lines = [f"contract {seen} in {counted(checked['shards'], 'shards')}: {held}"]
    if checked["compared"]:
        moved = f", {checked['moved']:,} of them in another place" if checked["moved"] else ""
        compared = counted(checked["compared"], "samples")
        lines.append(f"source   {compared} compared with the origin{moved}")
    lines += [proof_line(proof) for proof in verdict.proofs]
    lines += [f"finding  {f.code}: {f.where()}: {f.message}" for f in verdict.findings]
    hidden = found - len(verdict.findings)
    lines += [f"finding  … and {hidden:,} more"] if hidden else []
    lines += [f"skipped  {code}: {why}" for code, why in sorted(verdict.skipped.items())]
    lines.append(f"verdict  {'PASSED' if verdict.passed else 'FAILED'}")
    return "\n".join(plain(line) for line in lines)


def counted(number: int, nouns: str) -> str:
    """Say how many, of one without the plural's s."""
    return f"{number:,} {nouns.removesuffix('s') if number == 1 else nouns}"


def proof_line(proof: Proof) -> str:
    """Say what one kernel or model proved."""
    caught = sum(control["caught"] for control in proof["controls"])
    gradient = f", gradient {proof['max_gradient']:.2g}" if "max_gradient" in proof else ""
    return (
        f"{proof['kind']:<9} {proof['kernel']} ({proof['version']}, {proof['device']}, "
        f"{proof['dtype']}) on {counted(proof['packs'], 'packs')}: "
        f"deviation {proof['max_deviation']:.2g}, tolerance {proof['tolerance']}{gradient}; "
        f"{caught} of {len(proof['controls'])} sabotaged packs caught"
    )
