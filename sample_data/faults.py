"""Every fault that can be shown by files: what is done to a sound dataset, by the code it earns."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from packcli.contract.padding import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]


@dataclass(slots=True)
class Draft:
    """A dataset of one shard, opened for damage.

    Attributes:
        rows: packs as plain values; columns of lists, ``media`` a list of objects.
        schema: their Arrow types.
        manifest: the manifest as a document; fingerprint and shard entry are made afresh.
    """

    rows: list[Row]
    schema: pa.Schema
    manifest: dict[str, Any]

    def pack(self, samples: int = 2) -> Row:
        """Return the first pack of at least so many samples."""
        return next(row for row in self.rows if row["num_samples"] >= samples)

    def retype(self, name: str, kind: pa.DataType, *, nullable: bool = False) -> None:
        """Give a column another type."""
        field = pa.field(name, kind, nullable=nullable)
        self.schema = self.schema.set(self.schema.get_field_index(name), field)

    def medium(self) -> tuple[Row, Row]:
        """Return a pack with pictures, and its first medium."""
        row = next(row for row in self.rows if row["media"])
        return row, row["media"][0]

    def padding(self) -> tuple[dict[str, Any], int, int]:
        """Find padding of two tokens or more: its row, segment and first token."""
        for row in self.rows:
            segments = zip(row["sample_ids"], row["seq_lengths"], row["seq_start_id"], strict=True)
            for number, (name, length, start) in enumerate(segments):
                if name == NAME and length > 1:
                    return row, number, start
        raise LookupError("no padding of two tokens")


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break a dataset.

    Attributes:
        code: what `packcli verify` must say.
        base: ``text``, ``vision``, ``windows`` or ``weights``: the sound dataset that is damaged.
        damage: does it; its docstring says what was done.
    """

    code: str
    base: str
    damage: Callable[[Draft], None]


FAULTS: list[Fault] = []


def _fault(code: str, base: str = "text") -> Callable[[Callable[[Draft], None]], None]:
    def note(damage: Callable[[Draft], None]) -> None:
        FAULTS.append(Fault(code, base, damage))

    return note


@_fault("columns.missing")
def _column_dropped(draft: Draft) -> None:
    """`seq_start_id` was dropped."""
    draft.schema = draft.schema.remove(draft.schema.get_field_index("seq_start_id"))


@_fault("columns.forbidden")
def _mask_added(draft: Draft) -> None:
    """An `attention_mask` of ones was added: trainers would let samples see each other."""
    draft.schema = draft.schema.append(pa.field("attention_mask", pa.list_(pa.int8())))
    for row in draft.rows:
        row["attention_mask"] = [1] * row["length"]


@_fault("columns.type")
def _labels_widened(draft: Draft) -> None:
    """`labels` are int64."""
    draft.retype("labels", pa.list_(pa.int64()))


@_fault("columns.null")
def _null(draft: Draft) -> None:
    """One row of `labels` is null."""
    draft.retype("labels", pa.list_(pa.int32()), nullable=True)
    draft.pack()["labels"] = None


@_fault("columns.length")
def _labels_short(draft: Draft) -> None:
    """The last label of a pack is gone."""
    draft.pack()["labels"].pop()


@_fault("columns.samples")
def _name_lost(draft: Draft) -> None:
    """The last name of a pack's samples is gone."""
    draft.pack()["sample_ids"].pop()


@_fault("pack.empty")
def _no_tokens(draft: Draft) -> None:
    """A row holds nothing."""
    draft.rows.append({name: [] if isinstance(v, list) else 0 for name, v in draft.pack().items()})


@_fault("boundary.dtype")
def _boundaries_widened(draft: Draft) -> None:
    """`cu_seqlens` is int64: varlen kernels refuse it."""
    draft.retype("cu_seqlens", pa.list_(pa.int64()))


@_fault("boundary.start")
def _start(draft: Draft) -> None:
    """`cu_seqlens` lacks its first 0."""
    del draft.pack()["cu_seqlens"][0]


@_fault("boundary.end")
def _end(draft: Draft) -> None:
    """`cu_seqlens` ends one token before the pack does."""
    draft.pack()["cu_seqlens"][-1] -= 1


@_fault("boundary.increasing")
def _repeated(draft: Draft) -> None:
    """A boundary stands twice: a sample of no tokens."""
    boundaries = draft.pack()["cu_seqlens"]
    boundaries.insert(1, boundaries[1])


@_fault("boundary.lengths")
def _lengths(draft: Draft) -> None:
    """`seq_lengths` gives a token of the second sample to the first."""
    lengths = draft.pack()["seq_lengths"]
    lengths[0], lengths[1] = lengths[0] + 1, lengths[1] - 1


@_fault("boundary.max_seqlen")
def _max_seqlen(draft: Draft) -> None:
    """`max_seqlen` is one token short: the kernel leaves a row unwritten."""
    draft.pack()["max_seqlen"] -= 1


@_fault("position.reset", "vision")
def _boundary_lost(draft: Draft) -> None:
    """One inner boundary is gone from every column that tells it; `position_ids` still knows."""
    row = draft.pack()
    row["cu_seqlens"].pop(1)
    row["seq_start_id"].pop(1)
    first, second = row["seq_lengths"][:2]
    row["seq_lengths"][:2] = [first + second]
    row["max_seqlen"] = max(row["seq_lengths"])


@_fault("vocab.range")
def _foreign_token(draft: Draft) -> None:
    """A prompt token is as large as the vocabulary: it came from another tokenizer."""
    draft.pack()["input_ids"][1] = draft.manifest["model"]["vocab_size"]


@_fault("label.first")
def _first_label(draft: Draft) -> None:
    """The first token of the second sample is supervised: the sample before would predict it."""
    row = draft.pack()
    row["labels"][row["cu_seqlens"][1]] = row["input_ids"][row["cu_seqlens"][1]]


@_fault("label.value")
def _labels_shifted(draft: Draft) -> None:
    """Labels of a pack were shifted by one: the trainer shifts them again."""
    row = draft.pack()
    row["labels"] = [*row["labels"][1:], -100]


@_fault("label.none")
def _unsupervised(draft: Draft) -> None:
    """Every label of the first sample is -100."""
    row = draft.pack()
    row["labels"][: row["cu_seqlens"][1]] = [-100] * row["cu_seqlens"][1]


@_fault("loss_scale.value", "weights")
def _weight_of_the_prompt(draft: Draft) -> None:
    """The prompt of a sample weighs as much as its answer: it was masked in `labels` alone."""
    row = draft.pack()
    row["loss_scale"] = [1.0] * row["length"]


@_fault("loss_mask.shift")
def _loss_mask(draft: Draft) -> None:
    """`loss_mask` was taken from the labels without the shift by one."""
    row = draft.pack()
    row["loss_mask"] = [int(label != -100) for label in row["labels"]]


@_fault("sample.duplicate")
def _twice(draft: Draft) -> None:
    """The first pack stands twice in the shard."""
    draft.rows.append(copy.deepcopy(draft.rows[0]))


@_fault("pack.counts")
def _cost(draft: Draft) -> None:
    """`sum_sq_len` is the squared length of the pack, as if its samples saw each other."""
    row = draft.pack()
    row["sum_sq_len"] = row["length"] ** 2


@_fault("sample.digest")
def _token_changed(draft: Draft) -> None:
    """A prompt token was changed after encode; every other rule still holds."""
    row = draft.pack()
    row["input_ids"][1] += 1 if row["input_ids"][1] < 300 else -1


@_fault("pack.capacity")
def _squeezed(draft: Draft) -> None:
    """A pack is longer than the capacity that the manifest names."""
    draft.manifest["options"]["capacity"] = max(row["length"] for row in draft.rows) - 1


@_fault("padding.value", "padded")
def _padding_learnt(draft: Draft) -> None:
    """The first token of some padding is supervised: the model would learn to say it."""
    row, _, start = draft.padding()
    row["labels"][start] = row["input_ids"][start]


@_fault("padding.place", "padded")
def _padding_twice(draft: Draft) -> None:
    """Some padding is cut in two, so that it counts for one more sample."""
    row, number, _ = draft.padding()
    length = row["seq_lengths"][number]
    row["seq_lengths"][number : number + 1] = [1, length - 1]
    row["cu_seqlens"] = [0, *accumulate(row["seq_lengths"])]
    row["seq_start_id"] = row["cu_seqlens"][:-1]
    row["max_seqlen"] = max(row["seq_lengths"])
    row["position_ids"] = [place for size in row["seq_lengths"] for place in range(size)]
    for name in ("sample_ids", "sample_sources", "sample_digests"):
        row[name].insert(number, row[name][number])


@_fault("padding.multiple", "padded")
def _padding_unaligned(draft: Draft) -> None:
    """`cu_seqlens_padded` says where samples end, not where their padding does."""
    row, number, start = draft.padding()
    before = [name for name in row["sample_ids"][: number + 1] if name != NAME]
    row["cu_seqlens_padded"][len(before)] = start


@_fault("conservation")
def _pack_lost(draft: Draft) -> None:
    """The last pack is gone; counts and hash of the shard were made to fit, the digest was not."""
    draft.rows.pop()


@_fault("grid.dtype", "vision")
def _grids_widened(draft: Draft) -> None:
    """`image_grid_thw` is int64."""
    draft.retype("image_grid_thw", pa.list_(pa.list_(pa.int64())))


@_fault("grid.shape", "vision")
def _odd_grid(draft: Draft) -> None:
    """A grid has a height that the vision merger cannot halve."""
    draft.medium()[0]["image_grid_thw"][0][1] -= 1


@_fault("slot.count", "vision")
def _slot_lost(draft: Draft) -> None:
    """One image slot is a text token: the model refuses the sample, hours into training."""
    row, medium = draft.medium()
    row["input_ids"][medium["token_start"]] = 1


@_fault("slot.grid_order", "vision")
def _grids_swapped(draft: Draft) -> None:
    """Two grids of one sample changed places; their sum still fits."""
    row = next(row for row in draft.rows if len(row["image_grid_thw"]) > 1)
    row["image_grid_thw"][:2] = row["image_grid_thw"][1::-1]


@_fault("mm_type.value", "vision")
def _typed_text(draft: Draft) -> None:
    """`mm_token_type_ids` calls an image slot text."""
    row, medium = draft.medium()
    row["mm_token_type_ids"][medium["token_start"]] = 0


@_fault("label.media", "vision")
def _slot_supervised(draft: Draft) -> None:
    """An image slot is supervised."""
    row, medium = draft.medium()
    row["labels"][medium["token_start"]] = row["input_ids"][medium["token_start"]]


@_fault("media.span", "vision")
def _span(draft: Draft) -> None:
    """`media` says that a picture has one slot more than it has."""
    draft.medium()[1]["token_count"] += 1


@_fault("media.sample", "vision")
def _sample_index(draft: Draft) -> None:
    """`media` names the next sample for a picture."""
    draft.medium()[1]["sample_index"] += 1


@_fault("mrope.sample", "vision")
def _mrope_of_the_pack(draft: Draft) -> None:
    """The mRoPE planes run on through a pack instead of starting at 0 in every sample."""
    row = draft.pack()
    steps = zip(row["seq_start_id"], row["seq_lengths"], strict=True)
    shift = [start for start, length in steps for _ in range(length)]
    planes = row["mrope_position_ids"]
    row["mrope_position_ids"] = [[a + b for a, b in zip(p, shift, strict=True)] for p in planes]


@_fault("vit.windows", "windows")
def _windows_merged(draft: Draft) -> None:
    """Two images share a window of the vision tower: `vit_cu_seqlens` lacks the boundary."""
    row = next(row for row in draft.rows if len(row["image_grid_thw"]) > 1)
    row["vit_cu_seqlens"].pop(1)
