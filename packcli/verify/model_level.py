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
from packcli.verify import model_run
from packcli.verify.cpu_bridge import FLASH, bridge_lacks, cpu_kernels
from packcli.verify.kernel_level import finite
from packcli.verify.model_case import Case, Limits, cut_case
from packcli.verify.model_pack import ModelPack, grid_places, read_pack
from packcli.verify.model_run import TOLERANCE, Alone, Compared
from packcli.verify.model_teeth import model_controls
from packcli.verify.row_bounds import pack_bounds
from packcli.verify.sampling import chosen_rows
from packcli.verify.tiny_model import TinyModel, build, choose_attention

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from packcli.contract.model import ModelFacts
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
_SOME = "isolation.model in some packs"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model runs which packs.

    Attributes:
        directory: the model directory; None where the user named none.
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
    gradient: float = 0.0
    controls: tuple[Control, ...] = field(default=())


def check_model(target: Target, tiny: TinyModel, options: ModelOptions, verdict: Verdict) -> None:
    """Run a tiny model on a sample of packs, and on those in which faults were found."""
    sums = {name: _Sums() for name in options.implementations}
    if (lack := bridge_lacks()) is not None and sums.pop(FLASH, None) is not None:
        verdict.skipped[f"isolation.model under {FLASH}"] = lack
    with small_and_quiet(), cpu_kernels(tiny.module):
        for name, total in sums.items():
            choose_attention(tiny, name)
            total.controls = model_controls(tiny, name)
        for chosen in chosen_rows(target, options, _COLUMNS, verdict):
            case = _case(chosen, (target, tiny, options), verdict)
            if case is not None:
                _run(case, (target, tiny, options), sums, verdict)
    for name, total in sums.items():
        _conclude(name, total, tiny, verdict)


def _case(
    chosen: Chosen, told: tuple[Target, TinyModel, ModelOptions], verdict: Verdict
) -> Case | None:
    target, tiny, options = told
    bounds = pack_bounds(chosen.rows, chosen.place)
    pack = None if bounds is None else read_pack(chosen.rows, chosen.place, bounds)
    if bounds is None or pack is None:
        verdict.skipped[_SOME] = "boundaries or positions that no collator accepts"
        return None
    grids = grid_places(pack, bounds.expected, tiny.facts)
    if grids is None:
        _count_features(pack, chosen, tiny, target, verdict)
        return None
    around = _named_sample(verdict, target.title(chosen.path), chosen.row)
    case = cut_case(pack, chosen, bounds, grids, Limits(options.tokens, around))
    if case is None:
        verdict.skipped[_SOME] = f"no two neighbours have {options.tokens} tokens or fewer"
    return case


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
    choose_attention(tiny, "sdpa")
    try:
        pixels = model_run.random_pixels(pack, tiny, 0)
        model_run.forward(tiny, model_inputs([pack]), pixels)
    except (ValueError, RuntimeError) as error:
        message = f"{tiny.name} refuses the pack: {' '.join(str(error).split())[:200]}"
        verdict.add(Finding("model.slots", message, target.title(chosen.path), chosen.row))
        return
    verdict.skipped[_SOME] = "grids and slots add up, but not sample by sample"


def _run(
    case: Case,
    told: tuple[Target, TinyModel, ModelOptions],
    sums: dict[str, _Sums],
    verdict: Verdict,
) -> None:
    target, tiny, options = told
    pixels = model_run.random_pixels(case.pack, tiny, options.seed)
    inputs = model_inputs([case.pack])
    faults: dict[tuple[int, int | None, int], list[str]] = {}
    for name, total in sums.items():
        choose_attention(tiny, name)
        alone = model_run.run_alone(tiny, case.parts, case.expected, pixels)
        packed = model_run.forward(tiny, inputs, pixels, gradient=True)
        compared = model_run.compare(packed, alone)
        total.packs += 1
        total.tokens += case.expected.total
        total.deviation = max(total.deviation, finite(compared.largest))
        total.gradient = max(total.gradient, finite(compared.leak))
        if not compared.apart:
            if len(case.parts) <= _MOST_PAIRS:
                compared = model_run.compare(packed, alone, pairs=True)
            for fault in _faults(compared, alone):
                faults.setdefault(fault, []).append(name)
    for fault, names in faults.items():
        verdict.add(_finding(case, target, fault, names))


def _faults(compared: Compared, alone: Alone) -> Iterator[tuple[int, int | None, int]]:
    """Yield the token from which it shows, the sample that is seen, and the sample that sees."""
    for sample, cut in enumerate(alone.expected.slices()):
        off = np.flatnonzero(~(compared.deviation[cut] <= TOLERANCE))
        others = np.flatnonzero(np.nan_to_num(compared.seen[sample], nan=0.0) > 0)
        others = others[others != sample]
        if off.size or others.size:
            token = cut.start + (int(off[0]) if off.size else 0)
            yield token, int(others[-1]) if others.size else None, sample


def _finding(
    case: Case, target: Target, fault: tuple[int, int | None, int], names: list[str]
) -> Finding:
    sample = case.first + fault[2]
    token = fault[0] + int(case.bounds.expected.starts[case.first])
    name, other = case.bounds.title(sample), fault[1]
    if other is None:
        message = f"{name} is not what it is alone from token {token}: split, or misplaced,"
    else:
        message = f"{name} sees {case.bounds.title(case.first + other)} from token {token}"
    return Finding(
        "isolation.model",
        f"{message} under {', '.join(names)}",
        target.title(case.chosen.path),
        case.chosen.row,
        sample,
        token,
        *case.chosen.names(sample, len(case.bounds.expected)),
    )


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
    versions = [f"{library} {metadata.version(library)}" for library in ("transformers", "torch")]
    verdict.proofs.append(
        {
            "kind": "model",
            "kernel": title,
            "version": ", ".join(versions),
            "device": "cpu",
            "dtype": "float32",
            "packs": total.packs,
            "tokens": total.tokens,
            "max_deviation": total.deviation,
            "max_gradient": total.gradient,
            "tolerance": TOLERANCE,
            "controls": [
                {"name": c.name, "caught": c.caught, "deviation": finite(c.deviation)}
                for c in total.controls
            ],
        }
    )


@contextmanager
def small_and_quiet() -> Generator[None]:
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
