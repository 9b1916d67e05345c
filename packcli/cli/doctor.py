"""`packcli doctor`."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import asdict, dataclass
from importlib import metadata, util
from typing import TYPE_CHECKING, Any

import click

from packcli import __version__
from packcli.cli.progress import as_json
from packcli.cli.reports.safe import plain

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGES = (
    "numpy",
    "pyarrow",
    "datasets",
    "tokenizers",
    "transformers",
    "torch",
    "torchvision",
    "av",
    "pillow",
    "trl",
    "flash-attn",
    "flash-attn-4",
    "flash-linear-attention",
    "causal-conv1d",
)
_LINEAR = ("flash-linear-attention", "causal-conv1d")


@dataclass(frozen=True, slots=True)
class Trap:
    """Something in this environment that goes wrong without a word.

    Attributes:
        name: of the package or class.
        message: what happens, and what to do.
    """

    name: str
    message: str


@click.command(epilog="\b\nExamples:\n  packcli doctor\n  packcli doctor --json\n")
@as_json
def command(*, as_json: bool) -> None:
    """Print versions, the GPU, the kernels found with what others lack, and traps that lie here.

    Exit status 0 whatever is found: `packcli verify --gpu` fails where a kernel is missing.
    """
    found = examine()
    click.echo(json.dumps(found, indent=2) if as_json else "\n".join(_lines(found)))


def examine() -> dict[str, Any]:
    """Look at the environment; the result is what ``--json`` prints."""
    return {
        "packcli": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: installed(name) for name in _PACKAGES},
        "gpu": _gpu(),
        "kernels": _kernels(),
        "traps": [asdict(trap) for trap in traps()],
    }


def installed(package: str) -> str | None:
    """Return the version of an installed distribution."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpu() -> dict[str, str | None]:
    from packcli.verify.launch import cuda_lacks, device_title

    try:
        lacks = cuda_lacks()
        return {"name": device_title("cuda") if lacks is None else None, "lacks": lacks}
    except (ImportError, OSError, RuntimeError) as error:
        return {"name": None, "lacks": _first_line(error)}


def _kernels() -> list[dict[str, Any]]:
    """Ask every kernel file; what keeps one from loading is what it lacks."""
    from packcli.verify import kernels

    found: list[dict[str, Any]] = []
    for kernel in sorted(map(kernels.load, kernels.names()), key=lambda k: (k.device, k.kind)):
        told: dict[str, Any] = {"name": kernel.name, "kind": kernel.kind, "device": kernel.device}
        try:
            lacks = kernel.lacks()
            told |= {"version": kernel.version() if lacks is None else None, "lacks": lacks}
        except (ImportError, OSError, RuntimeError) as error:
            told |= {"version": None, "lacks": _first_line(error)}
        found.append(told)
    return found


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or repr(error)


def traps() -> list[Trap]:
    """Name the traps that lie in this environment; see `_TRAPS` for all of them."""
    found = ((name, look()) for name, look in _TRAPS.items())
    return [Trap(name, message) for name, message in found if message is not None]


def _torchvision() -> str | None:
    """Compare torch with the one that torchvision was built for, as its metadata names it."""
    torch, vision = installed("torch"), installed("torchvision")
    if torch is None or vision is None:
        return None
    named = "\n".join(metadata.requires("torchvision") or [])
    wanted = re.findall(r"^torch *\(?== *([\w.]+)", named, re.MULTILINE)
    if not wanted or torch.partition("+")[0] == wanted[0].partition("+")[0]:
        return None
    return (
        f"torchvision {vision} was built for torch {wanted[0]}, torch is {torch}: importing it "
        "fails, and transformers then says that a processor is missing; install the pair"
    )


def _flash_attn() -> str | None:
    spec = util.find_spec("flash_attn")
    if spec is None or spec.origin is not None:
        return None
    return (
        "`flash_attn` is a folder without a package in it (FlashAttention 4 alone makes one): "
        "`import flash_attn` works and has no kernel; transformers' check by name believes it"
    )


def _wrapper() -> str | None:
    version = installed("transformers")
    if version is None:
        return None
    from packcli.families import installed_wrapper

    return (
        f"transformers {version} decides how Qwen3-VL's videos stand in the text: `auto` writes "
        f"{installed_wrapper()!r} here; train with the same major version, or give "
        "`encode --video-wrapper`"
    )


def _with(package: str, message: str) -> Callable[[], str | None]:
    return lambda: None if installed(package) is None else message


def _linear() -> str | None:
    missing = [name for name in _LINEAR if installed(name) is None]
    if installed("transformers") is None or not missing:
        return None
    return (
        f"without {' and '.join(missing)} Qwen3.5 and its kin cannot keep packed samples apart: "
        "position_ids alone leak without a word, and cu_seq_lens_* or seq_idx raise"
    )


_TRAPS: dict[str, Callable[[], str | None]] = {
    "torchvision": _torchvision,
    "flash_attn": _flash_attn,
    "video wrapper": _wrapper,
    "DataCollatorWithFlattening": _with(
        "transformers",
        "on rows that are packed already it ignores position_ids and makes one sample of each: "
        "use it for unpacked rows only, and `packcli.train` for packs",
    ),
    "use_cache": _with(
        "transformers",
        "a forward pass with use_cache, the default, or with an attention_mask ignores the resets "
        "of position_ids: call the model with use_cache=False and no mask (the Trainer does)",
    ),
    "TRL": _with(
        "trl",
        "SFTTrainer takes packs only with a seq_lengths column and SFTConfig(padding_free=True, "
        "packing=False, max_length=None); anything else leaks without a word or raises",
    ),
    "linear attention": _linear,
}
"""Every trap that is looked for; each returns its message where it lies."""


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"packcli  {found['packcli']}, Python {found['python']}, {found['platform']}"]
    lines += [
        f"package  {name} {version or '(not installed)'}"
        for name, version in found["packages"].items()
    ]
    lines.append(f"gpu      {found['gpu']['name'] or 'none: ' + found['gpu']['lacks']}")
    for kernel in found["kernels"]:
        state = kernel["version"] if kernel["lacks"] is None else f"lacks: {kernel['lacks']}"
        lines.append(f"kernel   {kernel['name']} ({kernel['kind']}, {kernel['device']}) {state}")
    lines += [f"trap     {trap['name']}: {trap['message']}" for trap in found["traps"]]
    return [plain(line) for line in lines]
