"""Batch: from columns of packs to the keyword arguments of a model, in one place.

`verify` proves these arguments on real models and `train` passes them on; NumPy only, so that
each converts to tensors at its own edge.
"""

from packcli.batch.boundaries import compile_boundaries, cross_problems
from packcli.batch.inputs import PackLike, model_inputs
from packcli.batch.padded import PaddedPack, packed_seq_params

__all__ = [
    "PackLike",
    "PaddedPack",
    "compile_boundaries",
    "cross_problems",
    "model_inputs",
    "packed_seq_params",
]
