"""A tiny random model of a directory's architecture: same code, small sizes, any packs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import EnvironmentLacksError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from packcli.contract.model import ModelFacts

_WIDTH, _HEADS, _VISION_WIDTH = 64, 2, 32
_MOST_LAYERS = 8
_ORDINARY_IDS = 512
_SPREAD = 0.2
_TEXT_SIZES = {
    "intermediate_size": 2 * _WIDTH,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_nextn_predict_layers": 0,
    "mtp_num_hidden_layers": 0,
}
_VISION_SIZES = {
    "depth": 2,
    "num_heads": 2,
    "embed_dim": _VISION_WIDTH,
    "intermediate_size": 2 * _VISION_WIDTH,
    "mlp_ratio": 2,
}
_KINDS = ("image_token_id", "video_token_id")


@dataclass(frozen=True, slots=True, eq=False)
class TinyModel:
    """A model of a few hundred thousand weights.

    Attributes:
        module: the torch module, in evaluation mode, float32, on the CPU.
        name: class of the module.
        facts: the model whose packs it takes.
        patch_width: numbers of one patch of pixels; 0 in a text model.
        linear: some layers carry a recurrent state and a causal convolution.
    """

    module: Any
    name: str
    facts: ModelFacts
    patch_width: int
    linear: bool

    def ids(self, input_ids: NDArray[np.integer]) -> NDArray[np.int64]:
        """Map ids to the small vocabulary; slots of media stay slots."""
        small = input_ids.astype(np.int64) % _ORDINARY_IDS
        for place, name in enumerate(_KINDS):
            token = getattr(self.facts, name)
            if token is not None:
                small[input_ids == token] = _ORDINARY_IDS + place
        return small


def build(directory: Path, facts: ModelFacts, seed: int = 0) -> TinyModel:
    """Build the architecture of a model directory with random weights.

    Sizes, layers and vocabulary are made small; rotary positions, kinds of layers, merging and
    slots stay what they are.

    Args:
        directory: holds config.json.
        facts: the model whose packs will run on it.
        seed: of the weights.

    Raises:
        InputError: transformers cannot read the config.
        EnvironmentLacksError: transformers or torch, or a model of this type, is not here.
    """
    try:
        import torch  # noqa: PLC0415 - heavy
        from transformers import AutoConfig  # noqa: PLC0415 - heavy
    except ImportError as error:
        raise EnvironmentLacksError(f"the model level needs {error.name}; install it") from error
    try:
        config: Any = AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{directory}: transformers cannot read config.json: {reason}") from error
    linear = shrink(config, facts)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        maker = _class_of(config, directory)
        module = maker._from_config(config, dtype=torch.float32)  # noqa: SLF001 - what AutoModel calls
        _spread(module)
    return TinyModel(module.eval(), type(module).__name__, facts, _patch_width(config), linear)


def _class_of(config: Any, directory: Path) -> Any:  # noqa: ANN401 - classes of transformers
    import transformers  # noqa: PLC0415 - heavy
    from transformers.models.auto import modeling_auto  # noqa: PLC0415 - heavy

    for name in ("IMAGE_TEXT_TO_TEXT", "CAUSAL_LM"):
        mapping = getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES")
        if config.model_type in mapping:
            return getattr(transformers, mapping[config.model_type])
    raise EnvironmentLacksError(
        f"{directory}: this transformers has no model of type {config.model_type!r}"
    )


def _spread(module: Any) -> None:  # noqa: ANN401 - a torch module
    """Draw weights so large that what one token sees shows in the logits of another."""
    import torch  # noqa: PLC0415 - heavy

    for weight in module.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=_SPREAD)


def shrink(config: Any, facts: ModelFacts) -> bool:  # noqa: ANN401 - a transformers config
    """Make a config small, in place.

    Returns:
        Whether some layers are linear attention.
    """
    text = config.get_text_config()
    _shrink_text(text)
    vision = getattr(config, "vision_config", None)
    if vision is not None:
        _shrink_vision(vision, text.hidden_size)
    for place, name in enumerate(_KINDS):
        if getattr(facts, name) is not None:
            setattr(config, name, _ORDINARY_IDS + place)
    for part in {id(part): part for part in (config, text)}.values():
        for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
            setattr(part, name, None)
    return "linear_attention" in (getattr(text, "layer_types", None) or [])


def _shrink_text(text: Any) -> None:  # noqa: ANN401 - a transformers config
    # rotary sections add up to the head's width, so that stays
    explicit = getattr(text, "head_dim", None)
    head = explicit or text.hidden_size // text.num_attention_heads
    grouped = getattr(text, "num_key_value_heads", None) not in (None, text.num_attention_heads)
    text.num_attention_heads = _HEADS
    text.num_key_value_heads = 1 if grouped else _HEADS
    text.hidden_size = _WIDTH if explicit else head * _HEADS
    text.vocab_size = _ORDINARY_IDS + len(_KINDS)
    _set(text, _TEXT_SIZES)
    kinds: list[str] | None = getattr(text, "layer_types", None)
    layers = min(2, text.num_hidden_layers)
    if kinds:
        while len(set(kinds[:layers])) < len(set(kinds)) and layers < _MOST_LAYERS:
            layers += 1
        text.layer_types = kinds[:layers]
    text.num_hidden_layers = layers
    if hasattr(text, "max_window_layers"):
        text.max_window_layers = min(text.max_window_layers, layers)


def _shrink_vision(vision: Any, width: int) -> None:  # noqa: ANN401 - a transformers config
    embedded = hasattr(vision, "embed_dim")  # Qwen2-VL calls the output hidden_size
    _set(vision, _VISION_SIZES)
    vision.hidden_size = width if embedded else _VISION_WIDTH
    _set(vision, {"out_hidden_size": width})
    if getattr(vision, "fullatt_block_indexes", None):
        vision.fullatt_block_indexes = [1]
    if getattr(vision, "deepstack_visual_indexes", None):
        vision.deepstack_visual_indexes = [0, 1]


def _set(config: Any, sizes: dict[str, int]) -> None:  # noqa: ANN401 - a transformers config
    for name, size in sizes.items():
        if getattr(config, name, None) is not None:
            setattr(config, name, size)


def _patch_width(config: Any) -> int:  # noqa: ANN401 - a transformers config
    vision = getattr(config, "vision_config", None)
    if vision is None:
        return 0
    channels = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", 3)
    return int(channels * getattr(vision, "temporal_patch_size", 1) * vision.patch_size**2)


def choose_attention(tiny: TinyModel, name: str) -> None:
    """Choose the attention of a model; the doors that ask for a GPU are passed by."""
    tiny.module.config._attn_implementation = name  # noqa: SLF001 - its setter reaches all parts
