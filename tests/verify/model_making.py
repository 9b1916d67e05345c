"""Small packs for models of each bundled architecture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packcli.contract.mrope import mrope
from packcli.contract.offsets import Offsets
from packcli.verify.model_pack import ModelPack

NONE = np.zeros((0, 3), dtype=np.int32)


def sample(facts, *, length=5, image=None, video=None, start=3):
    """Return one sample: some text, perhaps an image and a video, some text."""
    ids, images, videos = [start, start + 1], [], []
    for grid, token, grids in (
        (image, facts.image_token_id, images),
        (video, facts.video_token_id, videos),
    ):
        if grid is not None:
            slots = int(facts.slots(np.array([grid]))[0])
            ids += [start + 2, *[token] * slots, start + 3]
            grids.append(grid)
    array = np.array([*ids, *range(start + 4, start + 2 + length)], dtype=np.int32)
    shaped = [np.array(grids, dtype=np.int32).reshape(-1, 3) for grids in (images, videos)]
    planes = None
    if facts.has_mrope:
        seconds = np.ones(len(videos)) if videos else None
        planes = mrope(array, *shaped, facts, seconds)
    labels = np.full(array.size, -100, dtype=np.int32)
    return ModelPack(array, labels, Offsets.from_lengths([array.size]), planes, *shaped)


def joined(parts):
    """Put samples into one pack."""
    planes = [part.mrope_position_ids for part in parts]
    return ModelPack(
        np.concatenate([part.input_ids for part in parts]),
        np.concatenate([part.labels for part in parts]),
        Offsets.from_lengths([part.input_ids.size for part in parts]),
        None if planes[0] is None else np.concatenate(planes, axis=1),
        np.concatenate([part.image_grid_thw for part in parts]),
        np.concatenate([part.video_grid_thw for part in parts]),
    )


def parts_of(facts):
    """Five samples: text, an image, a video, both, text."""
    media = [{}] * 5
    if facts.has_media:
        image, video = {"image": (1, 4, 6)}, {"video": (2, 4, 4)}
        media = [{}, image, video, image | video, {}]
    return [
        sample(facts, length=4 + place, start=3 + 50 * place, **held)
        for place, held in enumerate(media)
    ]


def with_bounds(pack, values):
    """Return the pack with other boundaries."""
    return replace(pack, samples=Offsets.from_values(values))
