"""Every family with media: pixels are the real processor's, and a pack trains as its samples."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

from packcli.contract.errors import InputError
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.families.family import VideoOptions
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing as PackWriting
from packcli.pack.run import pack
from packcli.train import MediaLoader, PackCollator, PackDataset
from packcli.train.layouts import LAYOUTS
from tests.train import tiny
from tests.train.alone import by_id, gradients, largest_difference, leak, model_of, weighted_mean

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torchvision", reason="the real processors need it")

_TEXT = {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"}
_SIZES = {"a": (100, 70), "b": (60, 170), "c": (57, 56), "d": (30, 120)}
_CHATS = [
    ("one", "a", "What is it?", "a cat"),
    ("none", "", "Tell a story of a very long day", "once upon a time"),
    ("two", "bc", "Compare", "they differ much"),
    ("long", "d", "See", "wide"),
]
FILMS = ["internvl", "llava_onevision", "gemma4"]


def quick(names, *chosen):
    """Parameters of which all but a few are slow."""
    return [n if n in chosen else pytest.param(n, marks=pytest.mark.slow) for n in names]


@dataclass(frozen=True)
class Tried:
    """A tiny model, what was encoded for it, and transformers' processor of it."""

    path: Path
    media: Path
    processor: Any
    tiny: tiny.Tiny

    @property
    def packs(self):
        return PackDataset(self.path / "packed")

    def collator(self, config=None):
        media = MediaLoader(self.packs, self.media, self.path)
        return PackCollator(self.packs.facts, media, config)

    def model(self, attention="sdpa"):
        """A model of random weights, those too that start at zero."""
        from transformers import AutoModelForImageTextToText

        model = model_of(AutoModelForImageTextToText, self.path)
        model.set_attn_implementation(attention)
        torch.manual_seed(1)
        for weights in model.parameters():
            if not weights.std() > 0:
                weights.data += 0.1 * torch.randn_like(weights)
        return model


def record(name, parts, question, answer):
    asked = [*parts, {"type": "text", "text": question}]
    turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return json.dumps({"id": name, "messages": turns})


def made(folder, name, lines, media, **options):
    processor = tiny.write(name, folder)
    (folder / "chats.jsonl").write_text("\n".join(lines))
    job = EncodeJob(folder, media, EncodeOptions(**options))
    encode([folder / "chats.jsonl"], job, Writing(folder / "encoded"))
    pack([folder / "encoded"], PlanOptions(capacity=2048), PackWriting(folder / "packed"))
    return Tried(folder, media, processor, tiny.MODELS[name])


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name, (height, width) in _SIZES.items():
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


@pytest.fixture(scope="session")
def tried(tmp_path_factory, photos):
    @cache
    def make(name):
        lines = [
            record(i, [{"type": "image", "image": f"{m}.png"} for m in media], question, answer)
            for i, media, question, answer in _CHATS
        ]
        return made(tmp_path_factory.mktemp(name), name, lines, photos)

    return make


def shown(name, tensor, ours):
    """The real processor's tensor without what it fills up with, laid out as one row."""
    if tensor.ndim == 5 and name == "pixel_values":
        held = tensor.flatten(2).abs().sum(dim=-1) != 0
        tensor = tensor[held]
    elif name == "pixel_attention_mask":
        tensor = tensor[tensor.flatten(2).sum(dim=-1) != 0]
    return tensor.reshape(ours.shape)


@pytest.mark.parametrize("name", tiny.MODELS)
def test_pixels_are_the_real_processors(tried, name):
    data = tried(name)
    (row,) = data.packs
    assert set(row.sample_ids) == {"one", "none", "two", "long"}
    media = [[m for m in row.media if m.place == n] for n in range(len(row.sample_ids))]
    images = [[Image.open(data.media / m.uri) for m in one] for one in media if one]
    texts = [" ".join([data.processor.image_token] * len(one)) for one in images]
    if name == "gemma3":
        texts = [text.replace(data.processor.image_token, data.tiny.image) for text in texts]
    expected = data.processor(images=images, text=texts, padding=True, return_tensors="pt")
    found = data.collator().media.batch(row.media)
    left = {key for key in expected if key not in _TEXT and torch.is_tensor(expected[key])}
    assert found.keys() <= left
    for key, ours in found.items():
        assert torch.equal(ours, shown(key, expected[key], ours)), key
    grids = {"image_grid_thw"} & left
    assert LAYOUTS[data.packs.facts.family].grids == bool(grids)


def apart_from_alone(data, model, batch):
    """How far the loss of the pack is from the token-weighted mean of its samples alone."""
    collator, samples = data.collator(model.config), by_id(data.path / "encoded")
    (row,) = data.packs
    loss = model(**batch, use_cache=False).loss.item()
    return abs(loss - weighted_mean(model, [samples[one] for one in row.sample_ids], collator))


@pytest.mark.parametrize(
    "name", quick(tiny.MODELS, "internvl", "gemma3", "idefics3", "llava_onevision", "mistral3")
)
def test_a_pack_trains_as_its_samples(tried, name):
    data = tried(name)
    model = data.model()
    (row,) = data.packs
    batch = data.collator(model.config)([row])
    model(**batch, use_cache=False).loss.backward()
    packed = gradients(model)
    assert apart_from_alone(data, model, batch) <= 1e-5
    assert largest_difference(packed, gradients(model)) <= 1e-4
    assert [leak(model, batch, n) for n in range(len(row.samples) - 1)] == [0.0] * 3


@pytest.mark.parametrize("name", ["gemma3", "gemma4"])
def test_image_blocks_need_masks_of_our_own(tried, name):
    data = tried(name)
    (row,) = data.packs
    with pytest.raises(InputError, match=r"PackCollator\(config=model.config\)"):
        data.collator()([row])
    model = data.model("eager")
    collator, samples = data.collator(model.config), by_id(data.path / "encoded")
    batch = collator([row])
    assert batch["attention_mask"]["sliding_attention"].dtype == torch.float32
    assert apart_from_alone(data, model, batch) <= 1e-5
    # the test can fail: the model's own masks give another loss
    own = {key: value for key, value in batch.items() if key != "attention_mask"}
    assert apart_from_alone(data, model, own) > 1e-3
    # a sample alone needs none
    assert "attention_mask" not in collator([samples["two"]])
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(InputError, match=r"flex_attention.*sdpa or eager"):
        collator([row])


@pytest.fixture(scope="session")
def films(tmp_path_factory, sample_data):
    """A film and a list of frames, of as many frames, in two samples."""

    @cache
    def make(name, other=4):
        folder = tmp_path_factory.mktemp(name)
        rng = np.random.default_rng(1)
        frames = []
        for number in range(other):
            path = folder / f"{number}.png"
            Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(path)
            frames.append(str(path))
        lines = [
            record("film", [{"type": "video", "video": "media/ball.mp4"}], "What?", "a ball"),
            record("list", [{"type": "video", "video": frames}], "And this?", "noise"),
        ]
        options = {"video": VideoOptions(num_frames=4), "allow_outside_root": True}
        return made(folder, name, lines, sample_data, **options)

    return make


@pytest.mark.parametrize("name", FILMS)
def test_films_are_the_real_processors(films, name):
    from transformers.video_utils import load_video

    data = films(name)
    (row,) = data.packs
    loader = data.collator().media
    assert [len(medium.frames) for medium in row.media] == [4, 4]
    for medium in row.media:
        if medium.uri.startswith("["):
            every = np.stack([np.asarray(Image.open(path)) for path in json.loads(medium.uri)])
        else:
            every, _ = load_video(str(data.media / medium.uri), backend="pyav")
        expected = data.processor.video_processor(
            [np.asarray(every)[list(medium.frames)]], do_sample_frames=False, return_tensors="pt"
        )
        for key, ours in loader.load(medium).items():
            theirs = expected.get(key, expected["pixel_values_videos"])
            assert torch.equal(ours, theirs.reshape(ours.shape)), key


@pytest.mark.parametrize("name", quick(FILMS, "internvl", "llava_onevision"))
def test_a_pack_of_films_trains_as_its_samples(films, name):
    data = films(name)
    model = data.model()
    (row,) = data.packs
    batch = data.collator(model.config)([row])
    assert apart_from_alone(data, model, batch) <= 1e-5
    assert leak(model, batch) == 0.0


def test_films_that_a_model_stacks_are_of_one_length(films):
    data = films("llava_onevision", 3)
    (row,) = data.packs
    last = row.media[-1]
    with pytest.raises(InputError, match=rf"{last.sample!r}.*stacks them.*num_frames"):
        data.collator()([row])


def test_slots_are_those_of_the_processor(tried):
    data = tried("internvl")
    (row,) = data.packs
    loader, medium = data.collator().media, row.media[0]
    wrong = replace(medium, grid=(2, *medium.grid[1:]))
    with pytest.raises(InputError, match=f"{medium.sample!r}.*{medium.source}.*makes grid"):
        loader.load(wrong)


def test_directory_of_other_settings(tried, tmp_path):
    data = tried("internvl")
    (row,) = data.packs
    tiny.write("internvl", tmp_path)
    told = json.loads((tmp_path / "preprocessor_config.json").read_text())
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told | {"max_patches": 2}))
    loader = MediaLoader(data.packs, data.media, tmp_path)
    with pytest.raises(InputError, match="max_tiles 2, the dataset was encoded with 4"):
        loader.load(row.media[0])


def test_every_family_with_media_has_a_layout():
    from packcli.families import load, names

    families = {name for name in names() if name != "text"}
    assert families == LAYOUTS.keys()
    assert all(load(name).MODEL_TYPES for name in families)
