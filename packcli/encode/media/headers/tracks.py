"""The tracks of an AVIF sequence: its images, and maybe their alpha."""

from __future__ import annotations

import struct

from packcli.encode.media.headers.boxes import (
    LONGEST_SIDE,
    check,
    handler,
    must,
    orientation,
    parts,
    properties,
    walk,
)

_MOST_TRACKS = 2
_TRACK = frozenset({b"tkhd", b"edts", b"tref", b"mdia"})
_EDITS = frozenset({b"elst"})
_REFERENCES = frozenset({b"auxl", b"prem"})
_MEDIA = frozenset({b"mdhd", b"hdlr", b"minf"})
_INFORMATION = frozenset({b"vmhd", b"nmhd", b"dinf", b"stbl"})
_SAMPLES = frozenset({b"stsd", b"stts", b"stsc", b"stsz", b"stco", b"stss"})
_HEADERS = {0: (84, ">4x8xL4xL52xLL"), 1: (96, ">4x16xL4xQ52xLL")}
"""Bytes of a track's header, and its number, length in time, width and height; by version."""

_ENTRY = 78
"""Bytes in front of the properties of a sample's description."""

_PASSED = frozenset({b"ccst", b"btrt"})


def frames(moov: bytes, size: int) -> tuple[tuple[int, int], int, int]:
    """Return height and width of the images, their orientation and their number.

    Args:
        moov: the body of the box that describes them.
        size: bytes of the file.

    Raises:
        OddBoxError: anything is not as it should be.
    """
    boxes = walk(moov, 0, len(moov))
    tracks = [moov[start:stop] for kind, start, stop in boxes if kind == b"trak"]
    must(len(boxes) == len(tracks) + 1 and any(kind == b"mvhd" for kind, _, _ in boxes))
    must(0 < len(tracks) <= _MOST_TRACKS)
    number, image, shown, turned, count = _track(tracks[0], size)
    must(image == 0)
    for alpha in tracks[1:]:
        own, image, *same, _ = _track(alpha, size)
        must(own != number and image == number and same == [shown, turned])
    return shown, turned, count


def _track(body: bytes, size: int) -> tuple[int, int, tuple[int, int], int, int]:
    """Return number, the number of the track that it is the alpha of, sides, orientation, count."""
    track = parts(body, _TRACK)
    head = track[b"tkhd"]
    length, form = _HEADERS.get(head[0], (0, ""))
    must(len(head) == length)
    number, lasting, width, height = struct.unpack(form, head)
    sides = height >> 16, width >> 16
    must(number > 0 and all(0 < side <= LONGEST_SIDE for side in sides))
    must(_plays(track.get(b"edts"), lasting))
    media = parts(track[b"mdia"], _MEDIA)
    told = media[b"mdhd"]
    alpha_of = _alpha_of(track.get(b"tref", b""))
    must((told[0], len(told)) in {(0, 24), (1, 36)})
    must(handler(media[b"hdlr"]) == (b"auxv" if alpha_of else b"pict"))
    samples = parts(parts(media[b"minf"], _INFORMATION)[b"stbl"], _SAMPLES)
    turned = _turned(samples[b"stsd"])
    return number, alpha_of, sides, turned, _count(samples, size)


def _plays(edits: bytes | None, lasting: int) -> bool:
    """Whether a list of edits plays the track, once or over and over."""
    if edits is None:
        return True
    told = parts(edits, _EDITS).get(b"elst", b"")
    version, flags, count = struct.unpack_from(">B3sL", told)
    (length,) = struct.unpack_from(">Q" if version else ">L", told, 8)
    return version <= 1 and flags[2] <= 1 and count == 1 and length > 0 and lasting > 0


def _alpha_of(references: bytes) -> int:
    found = parts(references, _REFERENCES)
    must(all(len(body) == 4 for body in found.values()))  # noqa: PLR2004 - one number
    return int.from_bytes(found.get(b"auxl", b""), "big")


def _turned(descriptions: bytes) -> int:
    """Return the orientation that the one description of samples tells."""
    boxes = walk(descriptions, 8, len(descriptions))
    must(descriptions[:8] == b"\0\0\0\0\0\0\0\1" and len(boxes) == 1 and boxes[0][0] == b"av01")
    _, start, stop = boxes[0]
    found = properties(descriptions, start + _ENTRY, stop, _PASSED)
    return orientation(check(found))


def _count(samples: dict[bytes, bytes], size: int) -> int:
    """Count the samples; each is in the file, in a chunk of as many as every other."""
    chunks = _numbers(samples[b"stco"], 1)
    first, each, _ = _numbers(samples[b"stsc"], 3)
    _numbers(samples[b"stts"], 2)
    _numbers(samples.get(b"stss", bytes(8)), 1)
    told = samples[b"stsz"]
    # every sample has a length of its own
    must(told[4:8] == bytes(4))
    lengths = _numbers(told[:4] + told[8:], 1)
    must(first == 1 and 0 not in lengths and len(lengths) == each * len(chunks) > 0)
    ends = (
        place + sum(lengths[number * each : (number + 1) * each])
        for number, place in enumerate(chunks)
    )
    must(max(ends) <= size)
    return len(lengths)


def _numbers(table: bytes, columns: int) -> tuple[int, ...]:
    """Return the numbers of a table, of 32 bits each."""
    version, count = struct.unpack_from(">B3xL", table)
    must(version == 0 and len(table) == 8 + 4 * columns * count)
    return struct.unpack(f">{columns * count}L", table[8:])
