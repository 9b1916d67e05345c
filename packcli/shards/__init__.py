"""Service: how columns rest on disk: Parquet, manifest, atomic commit."""
