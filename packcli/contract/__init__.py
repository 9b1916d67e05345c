"""The floor: what a sample, a pack and a boundary must be (numpy and the standard library only)."""
