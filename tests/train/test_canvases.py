"""LLaVA-OneVision-2: pixels, and where every patch of them stands, for merge 2 and 3."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from packcli.contract.errors import InputError
from packcli.contract.vit import block_order
from packcli.encode.options import EncodeJob, EncodeOptions
from packcli.encode.run import Writing, encode
from packcli.pack.options import PlanOptions
from packcli.pack.run import Writing as PackWriting
from packcli.pack.run import pack
from packcli.train import MediaLoader, PackCollator, PackDataset
from packcli.train.images import brought_to

PATCH = 14


def marked(rows, columns, frame=0):
    """An image whose patches have row, column and frame as their colour."""
    pixels = np.zeros((rows, columns, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.indices((rows, columns)) * 4
    pixels[..., 2] = frame * 4
    return Image.fromarray(pixels.repeat(PATCH, 0).repeat(PATCH, 1))


@pytest.fixture
def batch_of(tmp_path, canvas_models):
    """Encode and pack records; give the collator's batch of the only pack."""

    def make(lines, merge, **options):
        path = tmp_path / "records.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
        model = canvas_models(merge)
        job = EncodeJob(model, tmp_path, EncodeOptions(**options))
        encode([path], job, Writing(tmp_path / "enc"))
        pack([tmp_path / "enc"], PlanOptions(capacity=4096), PackWriting(tmp_path / "packed"))
        dataset = PackDataset(tmp_path / "packed")
        loader = MediaLoader(dataset, tmp_path, model)
        return PackCollator(dataset.facts, loader)([dataset[0]]), dataset[0]

    return make


def chat(name, question, **more):
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": "yes"}]
    return {"id": name, "messages": turns, **more}


def colours(batch, model):
    """Row, column and frame that the patches of a batch show."""
    told = json.loads((model / "preprocessor_config.json").read_text())
    pixels = batch["pixel_values"].reshape(-1, 3, PATCH, PATCH).mean(dim=(2, 3))
    mean, std = (torch.tensor(told[name]) for name in ("image_mean", "image_std"))
    return ((pixels * std + mean) * 255 / 4).round().long()


@pytest.mark.parametrize("merge", [2, 3])
def test_positions_are_in_the_order_of_the_pixels(batch_of, canvas_models, merge, tmp_path):
    marked(2 * merge, 3 * merge).save(tmp_path / "a.png")
    marked(4 * merge, 2 * merge).save(tmp_path / "b.png")
    line = chat("two", "<image><image>Which?", images=["a.png", "b.png"])
    batch, _ = batch_of([line, chat("words", "Really?")], merge)
    seen = colours(batch, canvas_models(merge))
    places = batch["patch_positions"]
    assert places.dtype == torch.int64
    assert places[:, 0].tolist() == [0] * len(places)
    assert torch.equal(places[:, 1:], seen[:, :2])
    assert batch["image_grid_thw"].tolist() == [
        [1, 2 * merge, 3 * merge],
        [1, 4 * merge, 2 * merge],
    ]
    assert places[: merge + 1, 1:].tolist() == [*([0, n] for n in range(merge)), [1, 0]]


@pytest.mark.parametrize("merge", [2, 3])
def test_frames_stand_at_their_number(batch_of, canvas_models, merge, tmp_path):
    for number in range(3):
        marked(2 * merge, 2 * merge, number).save(tmp_path / f"{number}.png")
    frames = [{"type": "video", "video": [f"{n}.png" for n in range(3)]}]
    batch, row = batch_of([chat("film", [*frames, {"type": "text", "text": "What?"}])], merge)
    assert row.media[0].frames == (0, 1, 2)
    seen = colours(batch, canvas_models(merge))
    places = batch["patch_positions"]
    assert torch.equal(places, seen[:, [2, 0, 1]])
    assert batch["image_grid_thw"].tolist() == [[3, 2 * merge, 2 * merge]]


def test_canvases_bring_their_own_positions(batch_of, canvas_models, tmp_path):
    """Two canvases whose lower halves show another frame than the upper."""
    stored = []
    for number, name in enumerate("ab"):
        image = np.asarray(marked(4, 8, 2 * number)).copy()
        image[2 * PATCH :, :, 2] += 4
        Image.fromarray(image).save(tmp_path / f"{name}.png")
        places = np.zeros((32, 3), np.int64)
        places[:, 1:] = np.indices((4, 8)).reshape(2, -1).T
        places[:, 0] = 2 * number + places[:, 1] // 2
        np.save(tmp_path / f"{name}.npy", places)
        stored.append(places)
    clip = {"images": ["a.png", "b.png"], "patch_positions": ["a.npy", "b.npy"], "fps": [2]}
    batch, row = batch_of([chat("clip", "<video>\nWhat?", **clip)], 2)
    assert row.media[0].frames == (0, 1, 2, 3)
    assert batch["image_grid_thw"].tolist() == [[2, 4, 8]]
    expected = np.concatenate(stored)[block_order((2, 4, 8), 2)]
    assert batch["patch_positions"].tolist() == expected.tolist()
    seen = colours(batch, canvas_models(2))
    assert torch.equal(batch["patch_positions"], seen[:, [2, 0, 1]])
    np.save(tmp_path / "a.npy", stored[0][:-1])
    dataset = PackDataset(tmp_path / "packed")
    loader = MediaLoader(dataset, tmp_path, canvas_models(2))
    with pytest.raises(InputError, match="63 patch positions for grid"):
        loader.load(row.media[0])


def test_a_short_side_is_brought_to_28_pixels_first(batch_of, canvas_model, tmp_path):
    import transformers

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 70, 3), dtype=np.uint8))
    image.save(tmp_path / "thin.png")
    batch, _ = batch_of([chat("thin", "<image>What?", images=["thin.png"])], 2)
    processor = transformers.AutoImageProcessor.from_pretrained(canvas_model)
    tall = image.resize((70, 28), Image.Resampling.NEAREST)
    assert brought_to(image, 28).tobytes() == tall.tobytes()
    assert brought_to(tall, 28) is tall
    expected = processor([tall], return_tensors="pt")
    assert torch.equal(batch["pixel_values"], expected["pixel_values"])
    assert torch.equal(batch["image_grid_thw"], expected["image_grid_thw"])
