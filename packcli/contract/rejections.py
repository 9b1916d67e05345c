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
        digest: of the sample, as in ``sample_digests``; pack only.
    """

    file: str
    line: int | None
    offset: NotRequired[int]
    id: str | None
    code: str
    message: str
    sha256: NotRequired[str]
    digest: NotRequired[str]


class WarnedLine(TypedDict):
    """Something to be known of a record, which may be kept all the same.

    Attributes:
        file: short name of the input.
        line: its line there, from 1.
        id: of the record, None where it has none; that of a `duplicate_id` is not held.
        code: what is to be known, one of the stable codes of warnings.
        message: the same in words.
    """

    file: str
    line: int
    id: str | None
    code: str
    message: str


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
    "over_pack_length": "the sample alone exceeds a limit of a pack: --capacity, --max-images or "
    "--max-patches (--max-samples rejects none)",
    "zero_length": "the sample has no tokens",
    "worker_crash": "a worker process died on it, or packcli itself failed on it",
}
"""Meaning by code; each completes the words: a record is rejected when …"""

REMEDIES: dict[str, str] = {
    "bad_json": "write one whole JSON object a line, or an array without stray commas",
    "bad_utf8": "save the file as UTF-8",
    "bad_unicode": "write the whole character instead of half of its \\u pair",
    "bad_record": "mend the field that the message names",
    "bad_role": "use system, user, assistant or tool, or an alias of them",
    "empty_conversation": "give it turns, or drop the record",
    "empty_target": "write an answer, or drop the record",
    "no_supervised_tokens": "add an assistant turn, or let one be learned",
    "template_error": "change the record as the message says, or the model's chat template",
    "tag_count_mismatch": "write one <image> or <video> for each medium, in user text",
    "media_missing": "name the folder of the media with --media-root",
    "media_empty": "copy the file again",
    "media_undecodable": "copy the file again, or save it anew as PNG or JPEG, MP4 or WebM",
    "media_too_large": "shrink the image, or raise --max-image-pixels",
    "media_outside_root": "move the file under the media root, or --allow-outside-root",
    "media_remote_disabled": "download it and name the file, or --allow-remote-media",
    "media_remote_failed": "download it and name the file",
    "bad_media_ref": "name a file, an address, a data URI or bytes",
    "bad_data_uri": "write data:image/png;base64, and the bytes as base64",
    "aspect_ratio": "crop the image, or drop the record",
    "image_mode_unsupported": "save the image as RGB",
    "video_too_short": "use a longer video, or take more frames with --fps or --min-frames",
    "video_no_stream": "name a file with pictures in it",
    "over_length": "shorten it, shrink its media with --max-pixels, or raise --max-length",
    "over_pack_length": "raise the limit that the message names: --capacity, --max-images or "
    "--max-patches; or shorten the record, and encode it again",
    "zero_length": "write some text, or drop the record",
    "worker_crash": "drop the record, and report it",
}
"""What to do by code; the message of a rejected record says it more closely."""

WARNINGS: dict[str, str] = {
    "thinking_not_shown": "the chat template leaves out a turn's thinking",
    "words_not_shown": "the chat template leaves out what an answer says before its thinking, or "
    "between two ends of it",
    "tools_not_shown": "the list of tools is left out, by the chat template or for want of turns",
    "second_shape_ignored": "a record has several shapes; the first of messages, conversations, "
    "conversation, prompt + completion, query + response, instruction + output is taken",
    "media_bytes_not_kept": "a record holds the bytes of media, and the dataset only their hashes",
    "animated_image_first_frame": "an image is animated, and its first frame is taken",
    "duplicate_id": "a sample has the id of one before it",
    "fast_library_differs": "a fast library gave something else than the reference, which did the "
    "work again",
    "packcli_fault": "packcli itself failed on a record, which is rejected",
}
"""Meaning by code of what is counted and rejects nothing."""

FAULT = "packcli_fault"
"""The warning that counts records on which packcli itself failed; they are rejected."""

OF_RECORDS = frozenset(WARNINGS.keys() - {FAULT, "fast_library_differs"})
"""Warnings of single records, which `packcli lint` names."""

ADVICE: dict[str, str] = {
    "thinking_not_shown": "let it be where earlier turns are meant to lose theirs; else write it "
    "into the answer, or use a template that shows reasoning_content",
    "words_not_shown": "write it behind the last </think>, or drop it",
    "tools_not_shown": "use a template that knows tools, or drop them",
    "second_shape_ignored": "drop the keys of the others",
    "media_bytes_not_kept": "keep them with --embed-media, or name files instead",
    "animated_image_first_frame": "drop the record, or give its frames as a video",
    "duplicate_id": "name every record differently",
    "fast_library_differs": "give --tokenizer hf, and report it",
    "packcli_fault": "drop the record, and report it",
}
"""What to do by code of a warning."""
