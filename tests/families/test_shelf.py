from __future__ import annotations

import json
import subprocess
import sys

import pytest

from packcli.contract.errors import InputError, Rejection
from packcli.contract.model import Rope
from packcli.families import load, names, open_family
from packcli.families.family import VideoMetadata, VideoPlan

DECIDING = {
    "patch_size",
    "merge_size",
    "temporal_patch_size",
    "image_min_pixels",
    "image_max_pixels",
    "video_min_pixels",
    "video_max_pixels",
    "video_fps",
    "video_num_frames",
    "video_min_frames",
    "video_max_frames",
    "video_do_sample_frames",
    "video_cap_pixels_per_frame",
    "video_max_video_tokens",
    "video_wrapper",
}
VOCAB = 1000
PROCESSOR = {"patch_size": 16}


def write_model(path, config, **files):
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    for name, values in files.items():
        (path / f"{name}.json").write_text(json.dumps(values))
    return path


def test_listing_names_every_family_and_imports_none():
    code = (
        "import sys, packcli.families as f; n = f.names(); print(*n);"
        "assert not {f'packcli.families.{x}' for x in n} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "aya_vision",
        "cohere2_vision",
        "gemma3",
        "gemma4",
        "glm4v",
        "idefics3",
        "internvl",
        "kimi_k25",
        "llava",
        "llava_next",
        "llava_onevision",
        "llava_onevision2",
        "ovis2",
        "pixtral",
        "qwen2_5_vl",
        "qwen2_vl",
        "qwen3_5",
        "qwen3_vl",
        "text",
    ]


def test_opening_imports_neither_torch_nor_transformers(tmp_path):
    model = write_model(tmp_path / "m", {"model_type": "qwen3_vl"}, preprocessor_config=PROCESSOR)
    code = (
        "import sys, pathlib; from packcli.families import open_family;"
        "open_family(pathlib.Path(sys.argv[1])).image_plan(480, 640);"
        "assert not {'torch', 'transformers', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(model)], check=True)


@pytest.mark.parametrize("name", names())
def test_family_file_keeps_the_interface(name, tmp_path):
    file = load(name)
    assert all(isinstance(model_type, str) for model_type in file.MODEL_TYPES)
    for model_type in file.MODEL_TYPES or ("llama",):
        path = tmp_path / model_type
        config = {"model_type": model_type, "vocab_size": VOCAB}
        family = open_family(write_model(path, config, preprocessor_config=PROCESSOR))
        assert family.name == family.facts.family == name
        assert family.facts.vocab_size == VOCAB
        assert (family.image_placeholder is None) == (family.facts.image_token_id is None)
        # frames may fill image slots, but a token of videos is of no use without a placeholder
        assert family.facts.video_token_id is None or family.video_placeholder is not None
        json.dumps(dict(family.settings), allow_nan=False)


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"])
@pytest.mark.parametrize("size", [(1, 1), (480, 640), (2400, 400)])
def test_expansion_holds_exactly_the_slots_of_its_grid(name, size, tmp_path):
    config = {"model_type": name}
    family = open_family(write_model(tmp_path / "m", config, preprocessor_config=PROCESSOR))
    plan = family.image_plan(*size)
    expansion = family.expand_image(plan)
    assert expansion.slots == tuple(family.facts.slots([plan.grid]).tolist())
    assert expansion.text.count("<|image_pad|>") == 1
    plan = family.video_plan(VideoMetadata(7, 2.0, *size))
    assert isinstance(plan, VideoPlan)
    expansion = family.expand_video(plan)
    assert sum(expansion.slots) == family.facts.slots([plan.grid])[0]
    assert expansion.text.count("<|video_pad|>") == len(expansion.slots)
    assert family.settings.keys() >= DECIDING


@pytest.mark.parametrize(
    ("name", "vocab", "image", "video", "rope"),
    [
        ("qwen2_vl", 151936, 151655, 151656, Rope.GRID),
        ("qwen2_5_vl", 151936, 151655, 151656, Rope.TIMED),
        ("qwen3_vl", 151936, 151655, 151656, Rope.FRAMES),
        ("qwen3_5", 248320, 248056, 248057, Rope.FRAMES),
    ],
)
def test_facts_of_real_directories(name, vocab, image, video, rope, family_of):
    facts = family_of(name).facts
    assert (facts.vocab_size, facts.rope) == (vocab, rope)
    assert (facts.image_token_id, facts.video_token_id) == (image, video)
    assert facts.merge_size == 2
    assert name != "qwen2_5_vl" or facts.tokens_per_second == 2


def test_ids_come_from_the_config_when_it_has_them(tmp_path):
    config = {"model_type": "qwen3_vl", "image_token_id": 7, "text_config": {"vocab_size": 9}}
    model = write_model(tmp_path / "m", config, preprocessor_config=PROCESSOR)
    facts = open_family(model).facts
    assert (facts.image_token_id, facts.video_token_id, facts.vocab_size) == (7, 151656, 9)


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_defaults_are_those_of_the_configuration_class(name, tmp_path):
    import transformers

    config = {"model_type": name}
    family = open_family(write_model(tmp_path / "m", config, preprocessor_config=PROCESSOR))
    config = transformers.AutoConfig.for_model(name)
    facts = family.facts
    assert facts.vocab_size == config.text_config.vocab_size
    assert facts.image_token_id == config.image_token_id
    assert facts.video_token_id == config.video_token_id
    assert facts.merge_size == config.vision_config.spatial_merge_size
    assert facts.tokens_per_second == getattr(config.vision_config, "tokens_per_second", 1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("qwen2_vl", "Qwen2VLVideoProcessor"),
        ("qwen2_5_vl", "Qwen2VLVideoProcessor"),
        ("qwen3_vl", "Qwen3VLVideoProcessor"),
        ("qwen3_5", "Qwen3VLVideoProcessor"),
    ],
)
def test_defaults_are_those_of_the_processor_classes(name, kind, tmp_path):
    pytest.importorskip("torchvision", reason="the video processors import it")
    import transformers
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    image, video = Qwen2VLImageProcessorPil(), getattr(transformers, kind)()
    # only the patch size has to be said: image and video class defaults contradict each other
    processor = {"patch_size": video.patch_size}
    model = write_model(tmp_path / "m", {"model_type": name}, preprocessor_config=processor)
    ours = open_family(model).settings
    assert ours["image_min_pixels"] == image.size["shortest_edge"]
    assert ours["image_max_pixels"] == image.size["longest_edge"]
    assert ours["video_min_pixels"] == video.size["shortest_edge"]
    assert ours["video_max_pixels"] == video.size["longest_edge"]
    for setting in ("merge_size", "temporal_patch_size"):
        assert ours[setting] == getattr(video, setting) == getattr(image, setting)
    for setting in ("fps", "num_frames", "min_frames", "max_frames", "max_video_tokens"):
        assert ours[f"video_{setting}"] == getattr(video, setting)
    for setting in ("do_sample_frames", "cap_pixels_per_frame"):
        assert ours[f"video_{setting}"] == bool(getattr(video, setting))


def test_pixels_beside_size_are_obeyed_as_the_processors_do(tmp_path):
    processor = {**PROCESSOR, "max_pixels": 50_000}
    old = open_family(
        write_model(tmp_path / "2", {"model_type": "qwen2_vl"}, preprocessor_config=processor)
    ).settings
    assert (old["image_max_pixels"], old["video_max_pixels"]) == (50_000, 50_000)
    new = open_family(
        write_model(tmp_path / "3", {"model_type": "qwen3_vl"}, preprocessor_config=processor)
    ).settings
    assert (new["image_max_pixels"], new["video_max_pixels"]) == (50_000, 32 * 32 * 768)


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3", "qwen3_5_text"])
def test_text_model_of_any_type(model_type, tmp_path):
    config = {"model_type": model_type, "vocab_size": VOCAB}
    family = open_family(write_model(tmp_path / "m", config))
    assert (family.name, family.facts.rope, family.facts.has_media) == ("text", Rope.TEXT, False)
    with pytest.raises(Rejection, match="reads text only"):
        family.image_plan(10, 10)
    with pytest.raises(Rejection, match="reads text only"):
        family.video_plan(VideoMetadata(10, 1.0, 10, 10))


@pytest.mark.parametrize(
    "config",
    [
        {"vision_config": {}},
        {"thinker_config": {"audio_config": {"d": 1}}},
        {"mm_vision_tower": "clip"},
    ],
)
def test_unknown_model_with_a_tower_is_refused_by_name(config, tmp_path):
    model = write_model(tmp_path / "m", {"model_type": "strange_vl", "vocab_size": 9, **config})
    with pytest.raises(InputError, match="'strange_vl'"):
        open_family(model)


@pytest.mark.parametrize(
    ("config", "files", "message"),
    [
        ({}, {}, "no model_type"),
        ({"model_type": "llama"}, {}, "no vocab_size"),
        ({"model_type": "qwen2_vl"}, {"preprocessor_config": {"merge_size": 4}}, "must agree"),
        ({"model_type": "qwen2_vl"}, {"preprocessor_config": {"do_resize": False}}, "do_resize"),
        ({"model_type": "qwen2_vl"}, {"preprocessor_config": {"patch_size": "x"}}, "patch_size"),
        ({"model_type": "qwen3_vl"}, {"preprocessor_config": []}, "JSON object"),
        ({"model_type": "qwen3_vl"}, {}, "expected preprocessor_config.json"),
        (
            {"model_type": "qwen3_vl"},
            {"preprocessor_config": {**PROCESSOR, "size": {"longest_edge": 9}}},
            "size lacks shortest_edge",
        ),
    ],
)
def test_unusable_directories_are_refused(config, files, message, tmp_path):
    with pytest.raises(InputError, match=message):
        open_family(write_model(tmp_path / "m", config, **files))


def test_missing_directory_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        open_family(tmp_path / "nowhere")


def test_nested_processor_values_come_first(tmp_path):
    model = write_model(
        tmp_path / "m",
        {"model_type": "qwen2_vl"},
        processor_config={"image_processor": {"max_pixels": 50_000}},
        preprocessor_config={"max_pixels": 90_000, "min_pixels": 5_000},
        video_preprocessor_config={"fps": 2, "do_sample_frames": True, "max_pixels": None},
    )
    settings = open_family(model).settings
    assert (settings["image_min_pixels"], settings["image_max_pixels"]) == (3136, 50_000)
    assert (settings["video_fps"], settings["video_do_sample_frames"]) == (2, True)
    assert settings["video_max_pixels"] == 28 * 28 * 768
