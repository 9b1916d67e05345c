"""From a place in rows to a finding that names shard, pack, sample and source line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.verdict import Finding

if TYPE_CHECKING:
    from packcli.contract.rows import Rows
    from packcli.contract.rules import Hit


def finding_at(code: str, hit: Hit, at: tuple[str, int], rows: Rows) -> Finding:
    """Name what was hit.

    Args:
        code: the broken rule.
        hit: where in the rows.
        at: the shard, and its row that is the first of these rows.
        rows: hold ``sample_ids`` and ``sample_sources``, where anything tells them.
    """
    shard, first = at
    row = None if hit.row is None else first + hit.row
    named = (_told(rows, name, hit) for name in ("sample_ids", "sample_sources"))
    return Finding(code, hit.message, shard, row, hit.sample, hit.token, *named)


def _told(rows: Rows, column: str, hit: Hit) -> str | None:
    """Look up what a per-sample column says of the sample that a hit names."""
    cells = rows.cells.get(column)
    if cells is None or cells.rows is None or hit.row is None or hit.sample is None:
        return None
    place = int(cells.rows[hit.row]) + hit.sample
    return str(cells.values[place]) if place < int(cells.rows[hit.row + 1]) else None
