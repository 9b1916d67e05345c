"""The loss of labels that do not all weigh alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.nn.functional import cross_entropy

from packcli.contract.errors import InputError
from packcli.contract.packs import IGNORED

if TYPE_CHECKING:
    import torch


def weighted_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    loss_scale: torch.Tensor,
    num_items: torch.Tensor | float | None = None,
) -> torch.Tensor:
    """Cross entropy of the next token, each label by its weight.

    Weights of 1 give the loss of the model itself: the sum is divided by the number of labels,
    not by that of weights, as ms-swift's `loss_scale` does. A sample's first label is -100 and
    weighs nothing, so no token is asked for the first one of the next sample.

    Args:
        logits: (1, T, V) floats, as the model returns them.
        labels: (1, T) int64, -100 or the token id at its own place.
        loss_scale: (1, T) float32, weight of each label.
        num_items: labels of all batches whose gradients are added up; None for those of this one.

    Returns:
        () float32.

    Raises:
        InputError: shapes differ.
    """
    if not labels.shape == loss_scale.shape == logits.shape[:-1]:
        raise InputError(
            f"logits {tuple(logits.shape)}, labels {tuple(labels.shape)} and loss_scale "
            f"{tuple(loss_scale.shape)} are not of one row; take them from one batch"
        )
    asked = labels[:, 1:].to(logits.device)
    each = cross_entropy(
        logits[:, :-1].float().flatten(0, 1),
        asked.flatten(),
        ignore_index=IGNORED,
        reduction="none",
    )
    weights = loss_scale[:, 1:].to(each.device).flatten()
    count = (asked != IGNORED).sum() if num_items is None else num_items
    return (each * weights).sum() / count


class WeightedLoss:
    """`weighted_loss` for the HF Trainer: ``Trainer(…, compute_loss_func=WeightedLoss(model))``.

    The Trainer gives its loss function outputs and labels only, so the weights are taken out of
    what the model is called with.

    Args:
        model: that is trained.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._weights: torch.Tensor | None = None
        model.register_forward_pre_hook(self._take, with_kwargs=True)

    def _take(
        self, _model: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self._weights = named.pop("loss_scale", None)
        return given, named

    def __call__(
        self,
        outputs: Any,  # noqa: ANN401 - a transformers class
        labels: torch.Tensor,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Return the loss of the batch that the model was last called with.

        Raises:
            InputError: that batch had no weights.
        """
        if self._weights is None:
            raise InputError(
                "the batch has no loss_scale; encode with --loss-scale, or train without this loss"
            )
        return weighted_loss(outputs["logits"], labels, self._weights, num_items_in_batch)
