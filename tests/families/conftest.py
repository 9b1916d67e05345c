"""Real model directories of the four vision families, and the processors to equal."""

from __future__ import annotations

import json
import shutil
from functools import cache

import pytest


@pytest.fixture(scope="session")
def directory_of(shared, tmp_path_factory):
    """Directory of a family; Qwen2-VL's is Qwen2.5-VL's under another name."""
    copy = tmp_path_factory.mktemp("models") / "qwen2_vl"
    shutil.copytree(shared / "models" / "qwen2_5_vl", copy)
    for file in ("config.json", "preprocessor_config.json"):
        values = json.loads((copy / file).read_text())
        renamed = {"model_type": "qwen2_vl", "processor_class": "Qwen2VLProcessor"}
        values.update({key: value for key, value in renamed.items() if key in values})
        (copy / file).write_text(json.dumps(values))
    return lambda name: copy if name == "qwen2_vl" else shared / "models" / name


@pytest.fixture(scope="session")
def family_of(directory_of):
    from packcli.families import open_family

    return cache(lambda name: open_family(directory_of(name), video_wrapper="hf5"))


@pytest.fixture(scope="session")
def processor_of(directory_of):
    """transformers' own processor of a family."""
    pytest.importorskip("torchvision", reason="AutoProcessor of a Qwen-VL directory needs it")
    from transformers import AutoProcessor

    return cache(lambda name: AutoProcessor.from_pretrained(directory_of(name)))


@pytest.fixture(scope="session")
def image_processor_of(directory_of):
    """transformers' image processor on Pillow: the whole path is cheap on small images."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    return cache(lambda name: Qwen2VLImageProcessorPil.from_pretrained(directory_of(name)))
