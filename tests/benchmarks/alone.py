"""What the libraries alone take for the same work: no program that uses them can be faster.

Nothing is checked, rendered, labelled, planned or gathered here; the rows are finished before the
clock starts.
"""

from __future__ import annotations

from functools import cache

import msgspec
import pyarrow.parquet as pq

from packcli.shards.manifest import read_manifest
from packcli.shards.writer import layout

BATCH = 512


def finished(dataset):
    """Read a dataset's rows into memory, row group by row group, and how they are written."""
    shards = [pq.ParquetFile(shard) for shard in sorted((dataset / "data").glob("*.parquet"))]
    groups = [s.read_row_group(n).combine_chunks() for s in shards for n in range(s.num_row_groups)]
    return groups, layout(read_manifest(dataset).model)


def write(rows, path):
    """Write finished rows again, with Arrow and nothing else."""
    groups, settings = rows
    with pq.ParquetWriter(path, groups[0].schema, **settings) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=len(group))


@cache
def _tokenizer(model):
    from fastokens import Tokenizer
    from transformers import AutoTokenizer

    return Tokenizer.from_json_str(AutoTokenizer.from_pretrained(model).backend_tokenizer.to_str())


def read_and_tokenize(path, model):
    """Return the work of parsing JSON Lines and tokenizing their texts with fastokens."""
    tokenizer, parse = _tokenizer(model), msgspec.json.Decoder().decode

    def work():
        lines = path.read_bytes().splitlines()
        for first in range(0, len(lines), BATCH):
            chats = map(parse, lines[first : first + BATCH])
            texts = [turn["content"] for chat in chats for turn in chat["messages"]]
            tokenizer.encode_batch_flat(texts)

    return work
