"""Stage 2: samples become packs."""
