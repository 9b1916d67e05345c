"""Batches of a shard: row groups are read and checked together while they are sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packcli.contract.rules import check
from packcli.shards.reader import ShardUnreadableError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from packcli.contract.model import ModelFacts
    from packcli.contract.rows import Rows
    from packcli.contract.rules import Checked
    from packcli.shards.reader import Shard

_TOGETHER = 8 << 20
"""Encoded bytes that are read at once: some 200,000 tokens with images, 500,000 of text.

A rule costs as much for each batch as for thousands of its tokens; more would leave the caches.
"""


def checked_batches(
    shard: Shard, facts: ModelFacts, without: Container[str]
) -> Iterator[tuple[Rows, Checked]]:
    """Yield the rows of a shard, in order, and what the rules say of them.

    Where a rule is broken or a page is damaged, and from there on, row groups are looked at one by
    one, so that findings stand in the order of the row groups and each names its own.

    Args:
        shard: the shard.
        facts: the model that the rows are read for.
        without: codes of rules that are left out.

    Raises:
        ShardUnreadableError: a page is damaged; row groups in front of it were yielded.
    """
    sound = True
    for span in _spans(shard):
        if sound and len(span) > 1:
            rows = _together(shard, span, facts)
            checked = None if rows is None else check(rows, without)
            if rows is not None and checked is not None and not checked.hits:
                yield rows, checked
                continue
            sound = False
        for number in span:
            rows = shard.group(number, facts)
            yield rows, check(rows, without)


def _spans(shard: Shard) -> Iterator[range]:
    """Cut row groups into runs of at most `_TOGETHER` bytes, or of one."""
    metadata = shard.file.metadata
    first, held = 0, 0
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).total_byte_size
        if number > first and held + size > _TOGETHER:
            yield range(first, number)
            first, held = number, 0
        held += size
    if first < metadata.num_row_groups:
        yield range(first, metadata.num_row_groups)


def _together(shard: Shard, span: range, facts: ModelFacts) -> Rows | None:
    """Read row groups at once; None where one cannot be read, which is told when it is alone."""
    try:
        return shard.together(span, facts)
    except ShardUnreadableError:
        return None
