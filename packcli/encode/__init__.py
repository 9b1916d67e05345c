"""Stage 1: a raw record becomes a sample of token columns."""
