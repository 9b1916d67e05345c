"""Every way to break valid rows that the rules must tell apart."""

from tests.contract.mutations import boundaries, frame, labels, media, padding
from tests.contract.mutations.bench import MUTATIONS, Bench, UnfitError

__all__ = ["MUTATIONS", "Bench", "UnfitError", "boundaries", "frame", "labels", "media", "padding"]
