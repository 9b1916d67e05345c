"""Why a record does not become a sample: the stable codes of `rejected.jsonl`."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class RejectedLine(TypedDict):
    """A line of ``rejected.jsonl``.

    Attributes:
        file: short name of the input.
        line: its line there, from 1; None where the source names none.
        offset: bytes before the record in the input; encode only.
        id: of the record, None where it has none or cannot be read.
        code: why, one of the stable codes.
        message: what is wrong and what to do.
        sha256: of the record's bytes; encode only.
    """

    file: str
    line: int | None
    offset: NotRequired[int]
    id: str | None
    code: str
    message: str
    sha256: NotRequired[str]


REJECTIONS: dict[str, str] = {
    "bad_json": "its line is not JSON, is cut, or is longer than 64 MiB",
    "bad_utf8": "its bytes are not UTF-8",
    "bad_unicode": "it holds half of a surrogate pair",
    "bad_record": "it is no object, or a field has a form that no accepted shape has",
    "bad_role": "a turn has no role, or one that is not known",
    "empty_conversation": "it has no turns",
    "empty_target": "every assistant turn is empty",
    "no_supervised_tokens": "it has no assistant turn, or all its labels are masked",
    "template_error": "the chat template refuses it, or does not show all of it",
    "tag_count_mismatch": "placeholders and media differ in number",
    "media_missing": "a file is not there",
    "media_empty": "a file has no bytes",
    "media_undecodable": "a file is damaged, cut short, or of no known kind",
    "media_too_large": "an image has more pixels than the limit",
    "media_outside_root": "a path leaves the media root",
    "media_remote_disabled": "a medium is on the network, and nothing is fetched",
    "media_remote_failed": "a medium on the network cannot be fetched",
    "bad_media_ref": "a reference to a medium names nothing that can be opened",
    "bad_data_uri": "a data URI cannot be read",
    "aspect_ratio": "an image is longer than 200 times its width",
    "image_mode_unsupported": "an image cannot become RGB",
    "video_too_short": "a video has fewer frames than the model needs",
    "video_no_stream": "a file in `videos` has no video stream",
    "over_length": "the sample is longer than --max-length",
    "over_pack_length": "the sample is longer than the capacity of a pack",
    "zero_length": "the sample has no tokens",
    "worker_crash": "a worker process died on it, or packcli itself failed on it",
}
"""Meaning by code; each completes the words: a record is rejected when …"""
