"""LLaVA-OneVision-2: its offline packed data, an Energon WebDataset of images and dialogues."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import InputError, UsageError
from packcli.export.dialogues import Dialogue, check_media, in_file, placed, read_dialogue
from packcli.export.records import Records
from packcli.export.refusals import Refused, UnfitError
from packcli.export.webdataset import describe_webdataset

if TYPE_CHECKING:
    from packcli.contract.packs import Packs
    from packcli.export.target import Job

WHAT = "LLaVA-OneVision-2, offline packed data: Energon WebDataset of PackedCaptioningSample"
CARRIED = ("records", "bytes of images", "grouping and order")
LOST = (
    "tokens and labels: it renders and tokenizes again, with its own template",
    "patch_positions and timestamps: every image is a canvas of its own",
    "system turns and videos: samples that hold them are refused",
)

FAMILY = "llava_onevision2"
_PREFIX = "packs"
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")


class _Sink:
    def __init__(self, folder: Path, job: Job) -> None:
        family, root = job.manifest.model.family, job.options.media_root
        if family != FAMILY:
            raise InputError(
                f"packs were made for {family}; encode with LLaVA-OneVision-2's model directory, "
                "else their lengths are not those that it trains with"
            )
        if root is None:
            raise UsageError("this target holds the images: give --media-root FOLDER")
        self._folder = folder
        self._root = root
        self._limit = job.options.shard_bytes
        self._records = Records(job.options.records, job.manifest)
        self._shards: dict[str, int] = {}
        self._tar: _Shard | None = None
        self._bins = self._longest = 0

    def write(self, packs: Packs) -> Refused:
        refused: Refused = {}
        for members in packs.members.slices():
            held: list[tuple[Dialogue, list[bytes]]] = []
            tokens = 0
            for sample in range(members.start, members.stop):
                try:
                    held.append(self._sample(packs, sample))
                    tokens += int(packs.tokens.lengths[sample])
                except UnfitError as error:
                    refused[sample] = error.reason
            if held:
                self._write_bin(held)
                self._longest = max(self._longest, tokens)
        return refused

    def _sample(self, packs: Packs, sample: int) -> tuple[Dialogue, list[bytes]]:
        name, source = (str(packs.columns[f"sample_{n}"][sample]) for n in ("ids", "sources"))
        dialogue = read_dialogue(self._records.find(source, name))
        if dialogue.system:
            raise UnfitError(
                "has a system turn, for which this trainer has no place",
                "move its text into the first user turn and encode again",
            )
        if dialogue.videos:
            raise UnfitError(
                "holds a video file, which this trainer does not read",
                "write its frames as images and encode again",
            )
        # not before: a video of this family is stored as the images that it is cut into
        check_media(packs, sample, dialogue)
        if not all(answer.strip() for answer in dialogue.rounds()[1]):
            raise UnfitError("has an empty answer", "write the answer and encode again")
        return dialogue, [self._image(path) for path in dialogue.images]

    def _image(self, uri: str) -> bytes:
        if not in_file(uri):
            raise UnfitError(
                "holds an image that is no file",
                "write it to a file, name it in the record and encode again",
            )
        path = Path(placed(uri, self._root))
        if not path.resolve().is_relative_to(self._root.resolve()):
            raise UnfitError(
                "has an image outside --media-root", "give a folder that holds all images", uri[:80]
            )
        try:
            data = path.read_bytes()
        except OSError as error:
            detail = f"{uri:.80}: {error.strerror}"
            remedy = "give the right --media-root"
            raise UnfitError("has an image that cannot be read", remedy, detail) from error
        if not data.startswith(_SIGNATURES):
            raise UnfitError("has an image that is no image file", "replace the file", uri[:80])
        return data

    def _write_bin(self, held: list[tuple[Dialogue, list[bytes]]]) -> None:
        if self._tar is not None and self._tar.bytes >= self._limit:
            self._close_shard()
        shard = self._tar = self._tar or _Shard(
            self._folder / f"{_PREFIX}-{len(self._shards):06d}.tar"
        )
        key = f"ps_{self._bins:08d}"
        self._bins += 1
        shard.begin()
        for number, (_, images) in enumerate(held):
            for place, data in enumerate(images):
                shard.add(f"{key}.img{number}_{place}.jpg", data)
        text = json.dumps(_payload([dialogue for dialogue, _ in held]), ensure_ascii=False)
        shard.add(f"{key}.json", text.encode())

    def _close_shard(self) -> None:
        if self._tar is not None:
            self._shards[self._tar.path.name] = self._tar.close()
        self._tar = None

    def finish(self) -> dict[str, Any]:
        self._close_shard()
        describe_webdataset(self._folder, self._shards)
        return {
            "OFFLINE_PACKING_BMR": 1,
            "OFFLINE_PACKED_DATA": 1,
            "--micro-batch-size": 1,
            "--seq-length at least": self._longest,
            "bins (steps = ceil(bins * epochs / global batch size))": self._bins,
        }


class _Shard:
    """A tar file with the same bytes whenever it is written, and the index that Energon makes.

    Attributes:
        path: the tar file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tar = tarfile.open(path, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 - `close` closes it
        self._starts: list[int] = []

    @property
    def bytes(self) -> int:
        """Bytes written."""
        return self._tar.offset

    def begin(self) -> None:
        """Begin a bin."""
        self._starts.append(self._tar.offset)

    def add(self, name: str, data: bytes) -> None:
        """Add a file to the bin."""
        member = tarfile.TarInfo(name)
        member.size = len(data)
        self._tar.addfile(member, io.BytesIO(data))

    def close(self) -> int:
        """Write the index; return the number of bins."""
        index = np.array([*self._starts, self._tar.offset], dtype="<u8")
        self._tar.close()
        self.path.with_name(f"{self.path.name}.idx").write_bytes(index.tobytes())
        return len(self._starts)


def _payload(dialogues: list[Dialogue]) -> dict[str, Any]:
    """Lay a bin out as the trainer's own packing script does; names of images are for the eye."""
    rounds = [dialogue.rounds() for dialogue in dialogues]
    names = [
        [f"img{number:03d}_sub{place:03d}.jpg" for place in range(len(dialogue.images))]
        for number, dialogue in enumerate(dialogues)
    ]
    return {
        "images": names,
        "prompts": [prompts for prompts, _ in rounds],
        "captions": [captions for _, captions in rounds],
        "sample_count": len(dialogues),
        "patch_positions": [[""] * len(images) for images in names],
        "timestamp_decimal": [1] * len(dialogues),
    }


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
