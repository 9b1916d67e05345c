"""`packcli explain`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from packcli.cli.bundled import bundled
from packcli.contract.errors import EnvironmentLacksError

_MODEL = "sample_data/models/qwen2_5_vl"


@click.command(
    epilog="\b\nExamples:\n  packcli explain position.reset\n  packcli explain slot.count\n"
)
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Print the law and the remedy of one rule, rejection or warning; without CODE, every code."""
    from packcli.contract.rejections import ADVICE, REJECTIONS, REMEDIES, WARNINGS
    from packcli.contract.rules import BY_CODE

    if code is None:
        for rule in BY_CODE.values():
            click.echo(f"{rule.code:<28}{rule.law}")
        for name, meaning in (REJECTIONS | WARNINGS).items():
            click.echo(f"{name:<28}{meaning}")
    elif code in BY_CODE:
        rule = BY_CODE[code]
        click.echo(f"{rule.code}\n  law      {rule.law}\n  remedy   {rule.remedy}")
        _show_example(f"broken/{code}", "packcli verify {}")
    elif code in REJECTIONS:
        click.echo(f"{code}\n  a record is rejected when {REJECTIONS[code]}")
        click.echo(f"  remedy   {REMEDIES[code]}")
        _show_example(f"bad_records/{code}", f"packcli lint {{}}/input.jsonl --model {_MODEL}")
    elif code in WARNINGS:
        click.echo(f"{code}\n  a warning counts where {WARNINGS[code]}\n  remedy   {ADVICE[code]}")
    else:
        raise click.BadParameter(f"{code!r} is no code; `packcli explain` lists them")


def _show_example(name: str, form: str) -> None:
    """Print a command that runs on the bundled example of a code, from where the user is."""
    try:
        samples = bundled("sample_data")
    except EnvironmentLacksError:
        return
    folder = samples / name
    if not folder.is_dir():
        click.echo("  example  none: no file that comes with packcli earns it")
        return
    flags = folder / "args.json"
    given = json.loads(flags.read_text(encoding="utf-8")) if flags.is_file() else {}
    words = [word.format(folder) for word in form.split(" ")]
    for flag, value in given.items():
        words += [f"--{flag.replace('_', '-')}", str(value)]
    click.echo(f"  example  {shlex.join(_located(word, samples) for word in words)}")


def _located(word: str, samples: Path) -> str:
    """Say where a bundled file lies, seen from the working directory."""
    inside = word.startswith(f"{samples.name}/")
    path = samples.parent / word if inside else Path(word)
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
