"""x."""


def improved(histogram, capacity, runs):
    """X."""
    return runs
