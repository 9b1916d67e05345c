"""packcli: raw multimodal JSONL becomes packed Parquet shards that are provably right."""

__version__ = "0.1.0"
