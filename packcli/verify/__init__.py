"""Verify: prove that packed shards are right, on three levels, each of which can fail."""
