"""LLaVA-OneVision-2: its offline packed data, an Energon WebDataset of images and dialogues."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from packcli.contract.errors import InputError, UsageError
from packcli.export.dialogues import Dialogue, media_of, read_dialogue, take_media
from packcli.export.media_roots import MediaRoots
from packcli.export.records import Records
from packcli.export.refusals import Refused, UnfitError
from packcli.export.webdataset import describe_webdataset
from packcli.shards.media_files import find, in_file
from packcli.shards.media_store import is_stored

if TYPE_CHECKING:
    from packcli.contract.packs import Packs
    from packcli.export.target import Job

WHAT = "LLaVA-OneVision-2, offline packed data: Energon WebDataset of PackedCaptioningSample"
CARRIED = (
    "records",
    "bytes of images",
    "patch_positions, fps and timestamp_decimal of canvases",
    "grouping and order",
)
LOST = (
    "tokens and labels: it renders and tokenizes again, with its own template",
    "system turns and videos: samples that hold them are refused",
    "several answers encoded with --supervise last: such samples are refused",
)

FAMILY = "llava_onevision2"
SAME_RECORDS = "give the records that were encoded, unchanged"
_PREFIX = "packs"
_TIMES = ("fps", "timestamp_decimal")
_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")


@dataclass(frozen=True, slots=True)
class _Held:
    """One sample of a bin.

    Attributes:
        dialogue: its turns.
        images: bytes of its images.
        positions: bytes of the files of patch positions, one a canvas; empty without canvases.
        times: ``fps`` and ``timestamp_decimal``, as the record has them.
    """

    dialogue: Dialogue
    images: list[bytes]
    positions: list[bytes]
    times: dict[str, Any]


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
        self._roots = MediaRoots(root, job.manifest)
        self._limit = job.options.shard_bytes
        self._records = Records(job.options.records, job.manifest)
        self._shards: dict[str, int] = {}
        self._tar: _Shard | None = None
        self._bins = self._longest = 0

    def write(self, packs: Packs) -> Refused:
        refused: Refused = {}
        for members in packs.members.slices():
            held: list[_Held] = []
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

    def _sample(self, packs: Packs, sample: int) -> _Held:
        name, source = (str(packs.columns[f"sample_{n}"][sample]) for n in ("ids", "sources"))
        record = dict(self._records.find(source, name))
        canvases = {key: record.pop(key, None) for key in ("patch_positions", *_TIMES)}
        held = read_canvases(media_of(packs, sample))
        dialogue = read_dialogue(as_images(record) if held else record)
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
        if not held:
            take_media(packs, sample, dialogue)
            return self._filled(dialogue, [], {}, source)
        if len(held) != len(dialogue.images):
            raise UnfitError("its record names other canvases than it was made from", SAME_RECORDS)
        dialogue.images[:] = [image for image, _ in held]
        return self._filled(dialogue, [file for _, file in held], canvases, source)

    def _filled(
        self, dialogue: Dialogue, files: list[str], times: dict[str, Any], source: str
    ) -> _Held:
        if not all(answer.strip() for answer in dialogue.rounds()[1]):
            raise UnfitError("has an empty answer", "write the answer and encode again")
        images = [self._bytes(uri, source) for uri in dialogue.images]
        for uri, data in zip(dialogue.images, images, strict=True):
            if not data.startswith(_SIGNATURES):
                raise UnfitError("has an image that is no image file", "replace the file", uri[:80])
        positions = [self._bytes(uri, source) for uri in files]
        told = {name: times[name] for name in _TIMES if times.get(name) is not None}
        return _Held(dialogue, images, positions, told)

    def _bytes(self, uri: str, source: str) -> bytes:
        remedy, root = "give the right --media-root", Path()
        if in_file(uri) and not is_stored(uri):
            root = self._roots.of(source) or root
            path = Path(self._roots.placed(uri, source)).resolve()
            if not path.is_relative_to(root.resolve()):
                why, remedy = "has an image outside --media-root", "give a folder that holds them"
                raise UnfitError(why, remedy, uri[:80])
        try:
            with find(uri, root, None).open() as stream:
                return stream.read()
        except (InputError, OSError) as error:
            raise UnfitError("has an image that cannot be read", remedy, uri[:80]) from error

    def _write_bin(self, held: list[_Held]) -> None:
        if self._tar is not None and self._tar.bytes >= self._limit:
            self._close_shard()
        shard = self._tar = self._tar or _Shard(
            self._folder / f"{_PREFIX}-{len(self._shards):06d}.tar"
        )
        key = f"ps_{self._bins:08d}"
        self._bins += 1
        shard.begin()
        for number, one in enumerate(held):
            for place, data in enumerate(one.images):
                shard.add(f"{key}.img{number}_{place}.jpg", data)
            for place, data in enumerate(one.positions):
                shard.add(f"{key}.img{number}_{place}.npy", data)
        text = json.dumps(_payload(held), ensure_ascii=False)
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


def _payload(held: list[_Held]) -> dict[str, Any]:
    """Lay a bin out as the trainer's own packing script does; names of images are for the eye."""
    rounds = [one.dialogue.rounds() for one in held]
    names = [
        [f"img{number:03d}_sub{place:03d}.jpg" for place in range(len(one.images))]
        for number, one in enumerate(held)
    ]
    payload: dict[str, Any] = {
        "images": names,
        "prompts": [prompts for prompts, _ in rounds],
        "captions": [captions for _, captions in rounds],
        "sample_count": len(held),
        "patch_positions": [
            [name.replace(".jpg", ".npy") if one.positions else "" for name in own]
            for one, own in zip(held, names, strict=True)
        ],
        "timestamp_decimal": [one.times.get("timestamp_decimal", 1) for one in held],
    }
    rates = [one.times.get("fps") for one in held]
    return payload | ({"fps": rates} if any(rate is not None for rate in rates) else {})


def read_canvases(media: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return image and file of positions of each canvas of a sample; none of other samples."""
    if len(media) != 1 or not media[0][1].startswith("[["):
        return []
    return [(str(image), str(file)) for image, file in json.loads(media[0][1])]


def as_images(record: dict[str, Any]) -> dict[str, Any]:
    """Write a `<video>` that images stand for as that many `<image>`, one a line, as it does."""
    key = next((key for key in ("messages", "conversations") if record.get(key)), None)
    images = record.get("images", record.get("image"))
    if key is None or not isinstance(images, list):
        return record
    block = "\n".join(["<image>"] * len(images))
    turns: list[Any] = []
    for turn in record[key]:
        field = "content" if "content" in turn else "value"
        text = turn[field]
        turns.append(
            {**turn, field: text.replace("<video>", block)} if isinstance(text, str) else turn
        )
    return {**record, key: turns}


def open_sink(folder: Path, job: Job) -> _Sink:
    """Prepare the folder."""
    return _Sink(folder, job)
