"""Samples equal what transformers' processor and model class make of the same record."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from PIL import Image

from packcli.encode.media.sources import MediaRoot, locate
from packcli.encode.records.reading import read_record
from tests.encode.running import MODELS, Written, chat, run, write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.encode.records.conversation import Conversation, MediaRef

pytest.importorskip("torchvision", reason="AutoProcessor of a Qwen-VL directory needs it")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CLASSES = {
    "qwen2_vl": "Qwen2VLModel",
    "qwen2_5_vl": "Qwen2_5_VLModel",
    "qwen3_vl": "Qwen3VLModel",
    "qwen3_5": "Qwen3_5Model",
}
TYPED = {"tags-as-words"}
"""Records in which somebody typed a control string: the tokenizer forges it, we keep the text."""

REAL = {"three", "small", "few_frames", "several_turns"}
"""Extra records that the real directories, whose tokenizers are slow to load, are asked too."""

EXTRA: dict[str, dict[str, Any]] = {
    "three": chat(
        "<image>a<image>b<image>c", images=["media/dot.png", "media/dice.jpg", "media/clock.png"]
    ),
    "touching": chat(
        "<image><image><video><image>", images=["media/dot.png"] * 3, videos=["media/light.mp4"]
    ),
    "fps": chat("<video>?", videos=["media/ball.mp4"], fps=4),
    "all_frames": chat("<video>?", videos=["media/ball.mp4"], fps=8),
    "few_frames": chat("<video>?", videos=["media/ball.mp4"], fps=8, max_frames=6),
    "small": chat(
        "<image><image>?", images=["media/street.jpg", "media/flower.jpg"], max_pixels=40_000
    ),
    "large": chat("<image>?", images=["media/dot.png"], min_pixels=200_000),
    "several_turns": {
        "messages": [
            {"role": "system", "content": "Draw."},
            {"role": "user", "content": [{"type": "image", "image": "media/dice.jpg"}]},
            {"role": "assistant", "content": "One."},
            {"role": "user", "content": "And the clip? <video>\n<image>"},
            {"role": "assistant", "content": "A ball."},
        ],
        "videos": ["media/ball.mp4"],
        "images": ["media/hills.webp"],
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Oracle:
    """transformers, for one model directory."""

    folder: Path
    media: Path

    @property
    def processor(self) -> Any:
        return processor_of(self.folder)

    def __call__(self, conversation: Conversation) -> dict[str, Any]:
        messages = [message_of(turn) for turn in conversation.turns]
        text = self.processor.apply_chat_template(
            messages, tools=conversation.tools, tokenize=False, **conversation.template_kwargs
        )
        with self.max_frames(conversation):
            found = self.processor(text=[text], **self.media_of(conversation))
        return {key: np.asarray(value) for key, value in found.items() if "pixel" not in key}

    @contextmanager
    def max_frames(self, conversation: Conversation) -> Iterator[None]:
        """Qwen3-VL's sampling takes this from the processor and ignores the argument."""
        video, own = self.processor.video_processor, self.processor.video_processor.max_frames
        asked = [
            ref.options["max_frames"] for ref in conversation.media if "max_frames" in ref.options
        ]
        video.max_frames = asked[0] if asked else own
        yield
        video.max_frames = own

    def media_of(self, conversation: Conversation) -> dict[str, Any]:
        images = [self.image(ref) for ref in conversation.media if ref.kind == "image"]
        videos = [ref for ref in conversation.media if ref.kind == "video"]
        options = dict(conversation.media[0].options) if conversation.media else {}
        sized = {name: options[name] for name in ("min_pixels", "max_pixels") if name in options}
        more: dict[str, Any] = {"images_kwargs": sized, "return_mm_token_type_ids": True}
        if images:
            more["images"] = images
        if videos:
            frames, fps = zip(*[self.video(ref) for ref in videos], strict=True)
            more["videos"] = list(frames)
            more["video_metadata"] = [
                transformers.video_utils.VideoMetadata(
                    total_num_frames=len(f), fps=rate, frames_indices=list(range(len(f)))
                )
                for f, rate in zip(frames, fps, strict=True)
            ]
            more["videos_kwargs"] = sized | sampling(videos[0])
        return more

    def image(self, ref: MediaRef) -> Any:
        with locate(ref, MediaRoot(self.media)).open() as stream:
            return transformers.image_utils.load_image(Image.open(stream))

    def video(self, ref: MediaRef) -> tuple[Any, float]:
        if ref.frames:
            frames = [np.asarray(self.image(frame)) for frame in ref.frames]
            return np.stack(frames), float(ref.options.get("fps", 2.0))
        with av.open(str(self.media / str(ref.uri))) as container:
            fps = float(container.streams.video[0].average_rate)
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        return np.stack(frames), fps


def sampling(ref: MediaRef) -> dict[str, Any]:
    if ref.frames:
        return {"do_sample_frames": False}
    asked = {name: ref.options[name] for name in ("fps", "max_frames") if name in ref.options}
    return asked | ({"do_sample_frames": True} if asked else {})


def message_of(turn: Any) -> dict[str, Any]:
    content = turn.content
    if not isinstance(content, str):
        content = [
            {"type": "text", "text": part.text} if part.kind == "text" else {"type": part.kind}
            for part in content
        ]
    message = {"role": turn.role, "content": content}
    if turn.tool_calls:
        message["tool_calls"] = turn.tool_calls
    if turn.reasoning_content:
        message["reasoning_content"] = turn.reasoning_content
    return message


@cache
def processor_of(folder: Path) -> Any:
    return transformers.AutoProcessor.from_pretrained(folder)


@cache
def rope_of(folder: Path) -> Any:
    """`get_rope_index` without weights: it reads nothing but the configuration."""
    config = transformers.AutoConfig.from_pretrained(folder)
    module = import_module(f"transformers.models.{config.model_type}.modeling_{config.model_type}")
    model = getattr(module, CLASSES[config.model_type])
    host = SimpleNamespace(config=config)
    host.get_vision_position_ids = MethodType(model.get_vision_position_ids, host)
    return MethodType(model.get_rope_index, host)


def positions(folder: Path, found: dict[str, Any]) -> Any:
    names = ("image_grid_thw", "video_grid_thw")
    grids = [torch.tensor(found[name]) if name in found else None for name in names]
    more = {}
    if "second_per_grid_ts" in found and folder.name == "qwen2_5_vl":
        seconds = np.asarray(found["second_per_grid_ts"], dtype=np.float32)
        more["second_per_grid_ts"] = torch.tensor(seconds)
    kinds = torch.tensor(found["mm_token_type_ids"]).int()
    planes, _ = rope_of(folder)(torch.tensor(found["input_ids"]), kinds, *grids, **more)
    return planes[:, 0].numpy()


def check(row: dict[str, Any], found: dict[str, Any], folder: Path) -> None:
    assert row["input_ids"] == found["input_ids"][0].tolist()
    for name in ("image_grid_thw", "video_grid_thw"):
        assert row[name] == found.get(name, np.zeros((0, 3))).tolist()
    assert row["mm_token_type_ids"] == found["mm_token_type_ids"][0].tolist()
    assert (np.array(row["mrope_position_ids"]) == positions(folder, found)).all()
    if "second_per_grid_ts" in row and "second_per_grid_ts" in found:
        expected = np.asarray(found["second_per_grid_ts"], dtype=np.float32)
        assert np.array_equal(np.array(row["second_per_grid_ts"], dtype=np.float32), expected)


def compare(written: Written, records: list[dict[str, Any]], oracle: Oracle) -> int:
    by_id = {record["id"]: record for record in records}
    for row in written.rows:
        name = row["sample_ids"][0]
        found = oracle(read_record(by_id[name]))
        if name in TYPED:
            assert row["input_ids"] != found["input_ids"][0].tolist()
        else:
            check(row, found, oracle.folder)
    return len(written.rows)


def records_of(sample_data: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lines = (sample_data / "chats.jsonl").read_bytes().splitlines()
    return [*map(json.loads, lines)], [record | {"id": name} for name, record in EXTRA.items()]


@pytest.mark.parametrize(("model", "first"), zip(CLASSES, range(4), strict=True))
def test_sample_records_equal(model, first, sample_data, tmp_path):
    """Every record of the chats in one of the families, the extra ones in all."""
    bundled, extra = records_of(sample_data)
    records = bundled[first::4] + extra
    path = write_lines(tmp_path / "in.jsonl", records)
    written = run(path, tmp_path / "out", model=model, media_root=sample_data)
    assert written.rejected == []
    assert compare(written, records, Oracle(MODELS / model, sample_data)) == len(records)


@pytest.mark.parametrize("model", ["qwen2_5_vl", "qwen3_5"])  # qwen3_vl: of both, one half each
def test_real_model_directories_equal(model, sample_data, shared, tmp_path):
    folder = shared / "models" / model
    bundled, extra = records_of(sample_data)
    records = bundled[::13] + [record for record in extra if record["id"] in REAL]
    path = write_lines(tmp_path / "in.jsonl", records)
    written = run(path, tmp_path / "out", model=folder, media_root=sample_data)
    # the published template of Qwen2.5-VL knows neither tools nor thinking
    assert set(written.codes) <= {"template_error"}
    assert compare(written, records, Oracle(folder, sample_data)) >= len(REAL) + 5
