"""Model level: a tiny model of the architecture runs packs, and their samples alone."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from packcli.batch import model_inputs
from packcli.contract.errors import UsageError
from packcli.contract.verdict import Finding, Verdict
from packcli.verify.cpu_bridge import FLASH, bridge_lacks, cpu_kernels
from packcli.verify.kernel_level import finite, pack_bounds
from packcli.verify.model_pack import ModelPack, grid_places, read_pack, window
from packcli.verify.model_run import (
    TOLERANCE,
    Alone,
    Compared,
    compare,
    forward,
    random_pixels,
    run_alone,
)
from packcli.verify.model_teeth import model_controls
from packcli.verify.sampling import chosen_rows
from packcli.verify.tiny_model import TinyModel, build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packcli.contract.model import ModelFacts
    from packcli.contract.offsets import Offsets
    from packcli.verify.bounds import PackBounds
    from packcli.verify.sampling import Chosen
    from packcli.verify.targets import Target
    from packcli.verify.teeth import Control

IMPLEMENTATIONS = ("eager", "sdpa", FLASH)
_COLUMNS = (
    "input_ids",
    "position_ids",
    "mrope_position_ids",
    "seq_lengths",
    "cu_seqlens",
    "max_seqlen",
    "image_grid_thw",
    "video_grid_thw",
    "sample_ids",
    "sample_sources",
)
_MOST_PAIRS = 64


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model runs which packs.

    Attributes:
        directory: the model directory; None takes the level for not available.
        sample: packs to run; None for every one.
        seed: chooses the packs, and draws weights and pixels.
        tokens: of a longer pack, neighbouring samples of at most so many tokens are run.
        implementations: of attention.
    """

    directory: Path | None
    sample: int | None = 4
    seed: int = 0
    tokens: int = 1024
    implementations: tuple[str, ...] = IMPLEMENTATIONS


def open_model(options: ModelOptions, facts: ModelFacts | None) -> TinyModel:
    """Build the model before any shard is read.

    Args:
        options: name the directory.
        facts: what the dataset says of its model; None takes the directory's word.

    Raises:
        UsageError: no directory is named, or it is of another model than the data.
        InputError: transformers cannot read the directory.
        EnvironmentLacksError: transformers, or a model of this type in it, is not here.
    """
    from packcli.families import open_family  # noqa: PLC0415 - only this level opens directories

    if options.directory is None:
        raise UsageError("the model level builds a model: name its directory with --model")
    own = open_family(options.directory).facts
    told = own if facts is None else facts
    for name in ("family", "image_token_id", "video_token_id", "merge_size"):
        if getattr(own, name) != getattr(told, name):
            raise UsageError(
                f"{options.directory} has {name} {getattr(own, name)}, the data was made for "
                f"{getattr(told, name)}; name the model directory of the data"
            )
    return build(options.directory, told, options.seed)


@dataclass(slots=True)
class _Sums:
    """What one implementation added up over all packs."""

    packs: int = 0
    tokens: int = 0
    deviation: float = 0.0
    controls: tuple[Control, ...] = field(default=())


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """Neighbouring samples of one pack, ready to run.

    Attributes:
        pack: as stored, cut to the samples.
        parts: each sample by itself, cut where another source says.
        expected: B segments over the cut's tokens.
        bounds: of the whole pack, to name samples.
        first: number of the first sample in the whole pack.
    """

    pack: ModelPack
    parts: list[ModelPack]
    expected: Offsets
    bounds: PackBounds
    first: int


def check_model(target: Target, tiny: TinyModel, options: ModelOptions, verdict: Verdict) -> None:
    """Run a tiny model on a sample of packs, and on those in which faults were found."""
    sums = {name: _Sums() for name in options.implementations}
    if (lack := bridge_lacks()) is not None and sums.pop(FLASH, None) is not None:
        verdict.skipped[f"isolation.model under {FLASH}"] = lack
    with _quiet(), cpu_kernels(tiny.module):
        for name, total in sums.items():
            _implement(tiny, name)
            total.controls = model_controls(tiny, name)
        for chosen in chosen_rows(target, options, _COLUMNS, verdict):
            case = _case(chosen, tiny, target, options, verdict)
            if case is not None:
                _run(case, (chosen, target), tiny, sums, verdict)
    for name, total in sums.items():
        _conclude(name, total, tiny, verdict)


def _case(
    chosen: Chosen, tiny: TinyModel, target: Target, options: ModelOptions, verdict: Verdict
) -> _Case | None:
    bounds = pack_bounds(chosen.rows, chosen.place)
    pack = None if bounds is None else read_pack(chosen.rows, chosen.place, bounds)
    if bounds is None or pack is None:
        verdict.skipped["isolation.model in some packs"] = "boundaries no collator accepts"
        return None
    places = grid_places(pack, bounds.expected, tiny.facts)
    if places is None:
        _count_features(pack, chosen, tiny, target, verdict)
        return None
    around = _named_sample(verdict, target.title(chosen.path), chosen.row)
    fits = window(bounds.expected, options.tokens, around)
    if fits is None:
        reason = f"no two neighbours of {options.tokens} tokens or fewer"
        verdict.skipped["isolation.model in some packs"] = reason
        return None
    media = {
        sample: {kind: list(grids.slices())[sample] for kind, grids in places.items()}
        for sample in range(*fits)
    }
    cuts = list(bounds.expected.slices())
    parts = [pack.cut(cuts[sample], media[sample]) for sample in range(*fits)]
    whole = slice(cuts[fits[0]].start, cuts[fits[1] - 1].stop)
    grids = {
        kind: slice(media[fits[0]][kind].start, media[fits[1] - 1][kind].stop) for kind in places
    }
    inside = bounds.expected.take(np.arange(*fits))
    return _Case(_windowed(pack, whole, grids), parts, inside, bounds, fits[0])


def _windowed(pack: ModelPack, tokens: slice, grids: dict[str, slice]) -> ModelPack:
    """Cut neighbouring samples out of a pack, with the boundaries that are stored inside."""
    from packcli.contract.offsets import Offsets  # noqa: PLC0415 - annotations elsewhere

    cut = pack.cut(tokens, grids)
    stored = pack.samples.values
    inner = stored[(stored > tokens.start) & (stored < tokens.stop)] - tokens.start
    samples = Offsets.from_values([0, *inner.tolist(), tokens.stop - tokens.start])
    return ModelPack(
        cut.input_ids,
        cut.labels,
        samples,
        cut.mrope_position_ids,
        cut.image_grid_thw,
        cut.video_grid_thw,
    )


def _named_sample(verdict: Verdict, shard: str, row: int) -> int | None:
    """Return the first sample of a pack that a finding names."""
    for finding in verdict.findings:
        if (finding.shard, finding.row) == (shard, row) and finding.sample is not None:
            return finding.sample
    return None


def _count_features(
    pack: ModelPack, chosen: Chosen, tiny: TinyModel, target: Target, verdict: Verdict
) -> None:
    """Let the model's own forward count features against slots."""
    _implement(tiny, "sdpa")
    try:
        forward(tiny, model_inputs([pack]), random_pixels(pack, tiny, 0))
    except (ValueError, RuntimeError) as error:
        message = f"{tiny.name} refuses the pack: {' '.join(str(error).split())[:200]}"
        verdict.add(Finding("model.slots", message, target.title(chosen.path), chosen.row))
        return
    verdict.skipped["isolation.model in some packs"] = "grids and slots differ by sample"


def _run(
    case: _Case,
    at: tuple[Chosen, Target],
    tiny: TinyModel,
    sums: dict[str, _Sums],
    verdict: Verdict,
) -> None:
    pixels = random_pixels(case.pack, tiny, 0)
    inputs = model_inputs([case.pack])
    faults: dict[tuple[int, int | None, int], list[str]] = {}
    for name, total in sums.items():
        _implement(tiny, name)
        alone = run_alone(tiny, case.parts, case.expected, pixels)
        packed = forward(tiny, inputs, pixels, gradient=True)
        compared = compare(packed, alone)
        total.packs += 1
        total.tokens += case.expected.total
        total.deviation = max(total.deviation, finite(compared.largest))
        if not compared.apart:
            if len(case.parts) <= _MOST_PAIRS:
                compared = compare(packed, alone, pairs=True)
            for fault in _faults(compared, alone):
                faults.setdefault(fault, []).append(name)
    for (token, other, sample), names in faults.items():
        verdict.add(_finding(case, at, (token, other, sample), names))


def _faults(compared: Compared, alone: Alone) -> Iterator[tuple[int, int | None, int]]:
    """Yield the token from which it shows, the sample that is seen, and the sample that sees."""
    for sample, cut in enumerate(alone.expected.slices()):
        off = np.flatnonzero(~(compared.deviation[cut] <= TOLERANCE))
        others = np.flatnonzero(np.nan_to_num(compared.seen[sample], nan=0.0) > 0)
        others = others[others != sample]
        if not off.size and not others.size:
            continue
        token = cut.start + (int(off[0]) if off.size else 0)
        yield token, int(others[-1]) if others.size else None, sample


def _finding(
    case: _Case,
    at: tuple[Chosen, Target],
    fault: tuple[int, int | None, int],
    names: list[str],
) -> Finding:
    token, other, sample = fault
    chosen, target = at
    start = int(case.bounds.expected.starts[case.first])
    name = case.bounds.title(case.first + sample)
    under = f"under {', '.join(names)}"
    if other is None:
        message = f"{name} is not what it is alone from token {start + token}: split, or misplaced"
    else:
        seen = case.bounds.title(case.first + other)
        message = f"{name} sees {seen} from token {start + token}"
    ids = case.bounds.sample_ids
    return Finding(
        "isolation.model",
        f"{message} {under}",
        target.title(chosen.path),
        chosen.row,
        case.first + sample,
        start + token,
        None if ids is None else ids[case.first + sample],
    )


def _implement(tiny: TinyModel, name: str) -> None:
    """Choose the attention of a model; the doors that check for a GPU are passed by."""
    tiny.module.config._attn_implementation = name  # noqa: SLF001 - as transformers' own tests do


def _conclude(name: str, total: _Sums, tiny: TinyModel, verdict: Verdict) -> None:
    title = f"{tiny.name}, {name}"
    title += " on a CPU kernel of packcli" if name == FLASH else ""
    title += ", linear attention by segment on transformers' own code" if tiny.linear else ""
    for control in total.controls:
        if not control.caught:
            message = f"{title}: {control.name} went unnoticed"
            verdict.add(Finding("isolation.control", message))
    if not total.packs:
        verdict.skipped["isolation.model"] = "no pack could be run"
        return
    verdict.proofs.append(
        {
            "kind": "model",
            "kernel": title,
            "version": f"transformers {metadata.version('transformers')}, "
            f"torch {metadata.version('torch')}",
            "device": "cpu",
            "dtype": "float32",
            "packs": total.packs,
            "tokens": total.tokens,
            "max_deviation": total.deviation,
            "tolerance": TOLERANCE,
            "controls": [
                {"name": c.name, "caught": c.caught, "deviation": finite(c.deviation)}
                for c in total.controls
            ],
        }
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Run small matrices on one thread, which is faster, and keep transformers' hints back."""
    import torch  # noqa: PLC0415 - heavy
    from transformers.utils import logging  # noqa: PLC0415 - heavy

    threads, level = torch.get_num_threads(), logging.get_verbosity()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        logging.set_verbosity(level)
