"""What a user may set at encode, and the job that follows from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

from packcli import __version__
from packcli.contract.errors import UsageError
from packcli.contract.model import VitWindows
from packcli.encode.media.images import ImagePolicy
from packcli.encode.media.limits import contradiction
from packcli.families import open_family
from packcli.families.family import PixelLimits, VideoOptions
from packcli.families.processors.model_files import read_model_files
from packcli.families.processors.pad_token import pad_token_id
from packcli.shards.manifest import Manifest, file_sha256

if TYPE_CHECKING:
    from pathlib import Path

    from packcli.contract.model import ModelFacts
    from packcli.encode.inputs import ByteRange
    from packcli.encode.text.backends import Choice
    from packcli.families.family import Family

PART_BYTES = 16 * 2**20
"""Input of one part, which becomes one shard; fixed, so that output does not depend on workers."""

SMALL_INPUT = 8 * 2**20
"""Bytes of input below which `tokenizer="auto"` stays with the reference libraries."""

_LIBRARIES = ("av", "jinja2", "numpy", "pillow", "pyarrow", "tokenizers")
_MODEL_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """Options that change what is written.

    Attributes:
        max_length: tokens; longer samples are rejected. None for no limit.
        over_length: reject them, or stop at the first.
        pixels: pixel limits of images over the processor's own.
        video: sampling and sizes of videos over the processor's own.
        images: how image headers are read.
        supervise: learn every assistant turn, or the last.
        allow_outside_root: media may lie outside the media root.
        video_wrapper: how stamped videos stand in the text.
        vit_windows: how windows of the vision tower are read, `frames` or `temporal`; None where
            nobody asked, which is `frames` in a family that has them.
        loss_scale: keep weights of turns in a column of their own.
        limit: records to read, the first of all inputs; None for every record.
        embed_media: store the bytes of media with the dataset, once each.
        allow_remote_media: fetch media from the network.
    """

    max_length: int | None = None
    over_length: Literal["reject", "error"] = "reject"
    pixels: PixelLimits = field(default_factory=PixelLimits)
    video: VideoOptions = field(default_factory=VideoOptions)
    images: ImagePolicy = field(default_factory=ImagePolicy)
    supervise: Literal["all", "last"] = "all"
    allow_outside_root: bool = False
    video_wrapper: Literal["auto", "legacy", "hf5"] = "auto"
    vit_windows: Literal["frames", "temporal"] | None = None
    loss_scale: bool = False
    limit: int | None = None
    embed_media: bool = False
    allow_remote_media: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            UsageError: a least is above its most, or fps and num_frames are both given.
        """
        if told := contradiction(self.pixels) or contradiction(self.video):
            raise UsageError(told)
        if self.video.fps is not None and self.video.num_frames is not None:
            raise UsageError("fps and num_frames exclude each other; give one")


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Everything that a worker needs.

    Attributes:
        model: the model directory.
        media_root: folder of relative media paths; None means each input's own folder.
        options: what the user set.
        tokenizer: which tokenizer does the work; what is written does not depend on it.
    """

    model: Path
    media_root: Path | None
    options: EncodeOptions
    tokenizer: Choice = "auto"


@dataclass(frozen=True, slots=True)
class Part:
    """A range of one input, which becomes one shard.

    Attributes:
        number: which part, from 0.
        count: how many parts there are.
        path: the input.
        name: the input's short name, as it stands in messages and sources.
        range: bytes of the input.
    """

    number: int
    count: int
    path: Path
    name: str
    range: ByteRange

    @property
    def shard(self) -> str:
        """File name of the shard."""
        return f"train-{self.number:05d}-of-{self.count:05d}.parquet"


def short_names(paths: list[Path]) -> list[str]:
    """Name inputs by as few trailing folders as tell them apart.

    Raises:
        UsageError: two of them are the same file.
    """
    files: set[Path] = set()
    for path in paths:
        if (file := path.resolve()) in files:
            raise UsageError(f"{path} is named twice; name every file once")
        files.add(file)
    # names do not depend on the working directory
    parts = [path.absolute().parts for path in paths]
    for depth in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(paths):
            return names
    return []


def family_of(job: EncodeJob) -> Family:
    """Open the model directory as the options say.

    Raises:
        InputError: the directory cannot be used.
        UsageError: windows of a vision tower are asked for, and the family has none.
    """
    asked = job.options.vit_windows
    windows = VitWindows.FRAMES if asked is None else VitWindows(asked)
    wrapper = job.options.video_wrapper
    family = open_family(job.model, video_wrapper=wrapper, vit_windows=windows)
    if asked is not None and family.facts.vit_windows is None:
        message = f"--vit-windows {asked}: {family.name} has no windows in its vision tower"
        raise UsageError(f"{message}; leave the flag out")
    return family


def quick_enough(job: EncodeJob, inputs: list[Path]) -> EncodeJob:
    """Leave the fast libraries out of small jobs: proving them equal takes seconds of its own."""
    size = sum(path.stat().st_size for path in inputs if path.is_file())
    return replace(job, tokenizer="hf") if job.tokenizer == "auto" and size < SMALL_INPUT else job


def facts_of(family: Family, options: EncodeOptions) -> ModelFacts:
    """Return what decides the columns: facts of the model, and what the user asked for."""
    return replace(family.facts, loss_scale=options.loss_scale)


def job_manifest(job: EncodeJob, family: Family, inputs: list[tuple[Path, str]]) -> Manifest:
    """Describe a job before it runs: its fingerprint decides whether work may resume."""
    hashes = {
        name: file_sha256(job.model / name) for name in _MODEL_FILES if (job.model / name).is_file()
    }
    pad = pad_token_id(read_model_files(job.model))
    known = {} if pad is None else {"pad_token_id": pad}
    return Manifest(
        kind="encoded",
        model=facts_of(family, job.options),
        versions={"packcli": __version__} | {lib: metadata.version(lib) for lib in _LIBRARIES},
        settings={"processor": dict(family.settings), "files": hashes} | known,
        options=asdict(job.options),
        inputs=[{"name": name, **_identity(path)} for path, name in inputs],
    )


def _identity(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
    files = sorted(file for file in path.rglob("*") if file.is_file())
    told = [f"{file.relative_to(path).as_posix()} {file_sha256(file)}\n" for file in files]
    size = sum(file.stat().st_size for file in files)
    return {"bytes": size, "sha256": sha256("".join(told).encode()).hexdigest()}
