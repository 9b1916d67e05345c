"""transformers' own processors of the families that tell slots from sizes, with a tiny tokenizer.

Images live on torch's meta device: every step of the real processor runs, and no pixel is moved.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from packcli.families import open_family

ROW_COLS = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))


@dataclass(frozen=True)
class Model:
    """One published model, as far as sizes go.

    Attributes:
        family: the file that opens it.
        processors: transformers' module, its image processor and its processor.
        config: config.json.
        image: preprocessor_config.json.
        processor: processor_config.json, and arguments of the processor.
        named: tokens that the tokenizer names.
        tokens: further added tokens.
        video: transformers' video processor.
        audio: transformers' feature extractor.
        call: arguments without which the processor fails.
        sizes: how many sizes are compared; few for a second setting of the same family.
        largest: pixels per side; small where the processor looks at pixels it could not move.
    """

    family: str
    processors: tuple[str, str, str]
    config: dict[str, Any] = field(default_factory=dict)
    image: dict[str, Any] = field(default_factory=dict)
    processor: dict[str, Any] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    tokens: tuple[str, ...] = ()
    video: tuple[str, str] | None = None
    audio: tuple[str, str] | None = None
    call: dict[str, Any] = field(default_factory=dict)
    sizes: int = 100
    largest: int = 5000


SQUARE_336 = {
    "size": {"shortest_edge": 336},
    "crop_size": {"height": 336, "width": 336},
    "do_center_crop": True,
}
CLIP = {
    "patch_size": 14,
    "num_additional_image_tokens": 1,
    "vision_feature_select_strategy": "default",
}
IDEFICS = ("<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *ROW_COLS)
PIXTRAL = ("[IMG]", "[IMG_BREAK]", "[IMG_END]")
OVIS = ("<image>", "<IMG_ATOM>", "<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
AYA = (
    "<image>",
    "<|START_OF_IMG|>",
    "<|END_OF_IMG|>",
    "<|IMG_PATCH|>",
    "TILE_GLOBAL",
    *(f"TILE_{number}" for number in range(1, 13)),
)
COHERE = {
    "image_token": "<|IMG_PATCH|>",
    "boi_token": "<|START_OF_IMG|>",
    "eoi_token": "<|END_OF_IMG|>",
    "img_line_break_token": "<|IMG_LINE_BREAK|>",
}
INTERNVL = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}
GEMMA = {
    "boi_token": "<start_of_image>",
    "eoi_token": "<end_of_image>",
    "image_token": "<image_soft_token>",
}
GEMMA4 = {
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "image_token": "<|image|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
    "audio_token": "<|audio|>",
}
GLM_TOKENS = ("<|begin_of_video|>", "<|end_of_video|>")
GLM = {"image_token": "<|image|>", "video_token": "<|video|>"}

MODELS = {
    "internvl3": Model(
        "internvl",
        ("internvl.processing_internvl", "GotOcr2ImageProcessor", "InternVLProcessor"),
        {"vision_config": {"patch_size": [14, 14]}},
        {
            "size": {"height": 448, "width": 448},
            "crop_to_patches": False,
            "min_patches": 1,
            "max_patches": 12,
        },
        {"image_seq_length": 256},
        INTERNVL,
        video=("internvl.video_processing_internvl", "InternVLVideoProcessor"),
    ),
    "internvl_few": Model(
        "internvl",
        ("internvl.processing_internvl", "GotOcr2ImageProcessor", "InternVLProcessor"),
        image={"size": {"height": 224, "width": 448}, "min_patches": 3, "max_patches": 6},
        processor={"image_seq_length": 10},
        named=INTERNVL,
        video=("internvl.video_processing_internvl", "InternVLVideoProcessor"),
        sizes=25,
    ),
    "aya_vision": Model(
        "aya_vision",
        ("aya_vision.processing_aya_vision", "GotOcr2ImageProcessor", "AyaVisionProcessor"),
        image={"size": {"height": 364, "width": 364}, "min_patches": 1, "max_patches": 12},
        processor={"patch_size": 14, "img_size": 364, "downsample_factor": 2},
        tokens=AYA,
    ),
    "command_a_vision": Model(
        "cohere2_vision",
        (
            "cohere2_vision.processing_cohere2_vision",
            "Cohere2VisionImageProcessor",
            "Cohere2VisionProcessor",
        ),
        {"vision_config": {"patch_size": 16}},
        {"size": {"height": 512, "width": 512}, "patch_size": 16, "max_patches": 12},
        named=COHERE,
    ),
    "cohere2_whole": Model(
        "cohere2_vision",
        (
            "cohere2_vision.processing_cohere2_vision",
            "Cohere2VisionImageProcessor",
            "Cohere2VisionProcessor",
        ),
        image={"crop_to_patches": False, "patch_size": 7},
        named=COHERE,
        sizes=25,
    ),
    "ovis2": Model(
        "ovis2",
        ("ovis2.processing_ovis2", "Ovis2ImageProcessor", "Ovis2Processor"),
        {"vision_config": {"patch_size": 14}},
        {"size": {"height": 448, "width": 448}, "crop_to_patches": True, "max_patches": 9},
        {"image_seq_length": 256},
        tokens=OVIS,
        call={"return_tensors": "pt"},
    ),
    "ovis2_shape": Model(
        "ovis2",
        ("ovis2.processing_ovis2", "Ovis2ImageProcessor", "Ovis2Processor"),
        image={"crop_to_patches": True, "use_covering_area_grid": False, "min_patches": 2},
        processor={"image_seq_length": 64},
        tokens=OVIS,
        call={"return_tensors": "pt"},
        sizes=25,
    ),
    "ovis2_whole": Model(
        "ovis2",
        ("ovis2.processing_ovis2", "Ovis2ImageProcessor", "Ovis2Processor"),
        tokens=OVIS,
        call={"return_tensors": "pt"},
        sizes=25,
    ),
    "gemma3": Model(
        "gemma3",
        ("gemma3.processing_gemma3", "Gemma3ImageProcessor", "Gemma3Processor"),
        {"vision_config": {"patch_size": 14}},
        {"size": {"height": 896, "width": 896}},
        {"image_seq_length": 256},
        GEMMA,
    ),
    "gemma4": Model(
        "gemma4",
        ("gemma4.processing_gemma4", "Gemma4ImageProcessor", "Gemma4Processor"),
        named=GEMMA4,
        video=("gemma4.video_processing_gemma4", "Gemma4VideoProcessor"),
        audio=("gemma4.feature_extraction_gemma4", "Gemma4AudioFeatureExtractor"),
    ),
    "gemma4_few": Model(
        "gemma4",
        ("gemma4.processing_gemma4", "Gemma4ImageProcessor", "Gemma4Processor"),
        image={"max_soft_tokens": 70},
        named=GEMMA4,
        video=("gemma4.video_processing_gemma4", "Gemma4VideoProcessor"),
        audio=("gemma4.feature_extraction_gemma4", "Gemma4AudioFeatureExtractor"),
        sizes=25,
    ),
    "idefics3": Model(
        "idefics3",
        ("idefics3.processing_idefics3", "Idefics3ImageProcessor", "Idefics3Processor"),
        {"vision_config": {"patch_size": 14}},
        {"size": {"longest_edge": 1456}, "max_image_size": {"longest_edge": 364}},
        {"image_seq_len": 169},
        tokens=IDEFICS,
    ),
    "smolvlm": Model(
        "idefics3",
        ("idefics3.processing_idefics3", "SmolVLMImageProcessor", "Idefics3Processor"),
        {"model_type": "smolvlm", "vision_config": {"patch_size": 16}},
        {"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}},
        {"image_seq_len": 64},
        tokens=IDEFICS,
        sizes=60,
    ),
    "idefics3_odd": Model(
        "idefics3",
        ("idefics3.processing_idefics3", "Idefics3ImageProcessor", "Idefics3Processor"),
        image={"size": {"longest_edge": 4601}, "max_image_size": {"longest_edge": 801}},
        processor={"image_seq_len": 5},
        tokens=IDEFICS,
        sizes=25,
    ),
    "idefics3_whole": Model(
        "idefics3",
        ("idefics3.processing_idefics3", "Idefics3ImageProcessor", "Idefics3Processor"),
        image={"do_image_splitting": False},
        tokens=IDEFICS,
        sizes=25,
    ),
    "pixtral_12b": Model(
        "pixtral",
        ("pixtral.processing_pixtral", "PixtralImageProcessor", "PixtralProcessor"),
        {"model_type": "llava", "vision_config": {"model_type": "pixtral", "patch_size": 16}},
        {"size": {"longest_edge": 1024}, "patch_size": {"height": 16, "width": 16}},
        {"patch_size": 16},
        tokens=PIXTRAL,
    ),
    "mistral_small": Model(
        "pixtral",
        ("pixtral.processing_pixtral", "PixtralImageProcessor", "PixtralProcessor"),
        {"model_type": "mistral3"},
        {"size": {"longest_edge": 1540}, "patch_size": {"height": 14, "width": 14}},
        {"patch_size": 14, "spatial_merge_size": 2},
        tokens=PIXTRAL,
        sizes=60,
    ),
    "llava_1_5": Model(
        "llava",
        ("llava.processing_llava", "LlavaImageProcessor", "LlavaProcessor"),
        image=SQUARE_336,
        processor=CLIP,
        tokens=("<image>",),
        largest=500,
    ),
    "llava_full": Model(
        "llava",
        ("llava.processing_llava", "LlavaImageProcessor", "LlavaProcessor"),
        image=SQUARE_336,
        processor={**CLIP, "vision_feature_select_strategy": "full"},
        tokens=("<image>",),
        largest=500,
        sizes=25,
    ),
    "llava_next": Model(
        "llava_next",
        ("llava_next.processing_llava_next", "LlavaNextImageProcessor", "LlavaNextProcessor"),
        image=SQUARE_336,
        processor=CLIP,
        tokens=("<image>",),
    ),
    "llava_onevision": Model(
        "llava_onevision",
        (
            "llava_onevision.processing_llava_onevision",
            "LlavaOnevisionImageProcessor",
            "LlavaOnevisionProcessor",
        ),
        processor={"num_image_tokens": 729, "vision_feature_select_strategy": "full"},
        tokens=("<image>", "<video>"),
        video=("llava_onevision.video_processing_llava_onevision", "LlavaOnevisionVideoProcessor"),
    ),
    "glm_4_1v": Model(
        "glm4v",
        ("glm4v.processing_glm4v", "Glm4vImageProcessor", "Glm4vProcessor"),
        {"model_type": "glm4v", "vision_config": {"spatial_merge_size": 2}},
        {"size": {"shortest_edge": 12544, "longest_edge": 9633792}},
        named=GLM,
        tokens=GLM_TOKENS,
        video=("glm4v.video_processing_glm4v", "Glm4vVideoProcessor"),
    ),
    "glm_4_6v": Model(
        "glm4v",
        ("glm46v.processing_glm46v", "Glm46VImageProcessor", "Glm46VProcessor"),
        {"model_type": "glm46v"},
        {"size": {"shortest_edge": 100_000, "longest_edge": 1_000_000}},
        named=GLM,
        tokens=GLM_TOKENS,
        video=("glm46v.video_processing_glm46v", "Glm46VVideoProcessor"),
        sizes=25,
    ),
    "kimi_k25": Model(
        "kimi_k25",
        ("kimi_k25.processing_kimi_k25", "Kimi_K25ImageProcessor", "Kimi_K25Processor"),
        named={"image_token": "<|media_pad|>", "video_token": "<|kimi_k25_video_placeholder|>"},
        video=("kimi_k25.video_processing_kimi_k25", "Kimi_K25VideoProcessor"),
    ),
    "kimi_small": Model(
        "kimi_k25",
        ("kimi_k25.processing_kimi_k25", "Kimi_K25ImageProcessor", "Kimi_K25Processor"),
        image={"size": {"max_height": 64, "max_width": 64}, "max_patches": 1024},
        named={"image_token": "<|media_pad|>", "video_token": "<|kimi_k25_video_placeholder|>"},
        video=("kimi_k25.video_processing_kimi_k25", "Kimi_K25VideoProcessor"),
        sizes=25,
    ),
}


def tiny_tokenizer(model, pad=None):
    """Bytes, and the model's own control tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.add_special_tokens([*model.tokens, *model.named.values()])
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        model_specific_special_tokens=model.named,
        pad_token=pad or alphabet[0],
    )


def found(module, name):
    """Class of transformers, in a module under `models` or in the package itself."""
    import transformers

    if hasattr(transformers, name):
        return getattr(transformers, name)
    return getattr(import_module(f"transformers.models.{module}"), name)


def real_processor(model):
    """transformers' processor."""
    module, image, whole = model.processors
    parts = {"image_processor": found(module, image)(**model.image)}
    if model.video is not None:
        parts["video_processor"] = found(*model.video)()
    if model.audio is not None:
        parts["feature_extractor"] = found(*model.audio)()
    tokenizer = tiny_tokenizer(model)
    return found(module, whole)(tokenizer=tokenizer, **parts, **model.processor)


def our_family(model, path):
    """Our family, opened from a directory that says the same as the real processor."""
    path.mkdir(parents=True, exist_ok=True)
    files = {
        "config": {"model_type": model.family, **model.config},
        "preprocessor_config": model.image,
        "processor_config": model.processor,
        "tokenizer_config": {"model_specific_special_tokens": model.named},
    }
    for name, values in files.items():
        (path / f"{name}.json").write_text(json.dumps(values))
    return open_family(path)


def repeated(expansion, pad):
    """Text of an expansion with every pad as often as it has slots."""
    pieces = expansion.text.split(pad)
    assert len(pieces) == len(expansion.slots) + 1
    ends = [pad * slots for slots in expansion.slots] + [""]
    return "".join(piece + end for piece, end in zip(pieces, ends, strict=True))


def pad_of(expansion, family):
    """The token that an expansion repeats: the placeholder, or what takes its place."""
    known = ("<IMG_ATOM>", "<image_soft_token>", "<|IMG_PATCH|>")
    return next((pad for pad in known if pad in expansion.text), family.image_placeholder)
