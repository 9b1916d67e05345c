"""`packcli explain`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from packcli.cli.bundled import bundled
from packcli.contract.errors import EnvironmentLacksError


@click.command(
    epilog="\b\nExamples:\n  packcli explain position.reset\n  packcli explain slot.count\n"
)
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Print the law and the remedy of one rule or rejection; without CODE, every code."""
    from packcli.contract.rejections import REJECTIONS, REMEDIES
    from packcli.contract.rules import BY_CODE

    if code is None:
        for rule in BY_CODE.values():
            click.echo(f"{rule.code:<24}{rule.law}")
        for name, meaning in REJECTIONS.items():
            click.echo(f"{name:<24}{meaning}")
    elif code in BY_CODE:
        rule = BY_CODE[code]
        click.echo(f"{rule.code}\n  law      {rule.law}\n  remedy   {rule.remedy}")
        _show_example(f"broken/{code}", "packcli verify {}")
    elif code in REJECTIONS:
        click.echo(f"{code}\n  a record is rejected when {REJECTIONS[code]}")
        click.echo(f"  remedy   {REMEDIES[code]}")
        _show_example(f"bad_records/{code}", "{}/input.jsonl")
    else:
        raise click.BadParameter(f"{code!r} is no code; `packcli explain` lists them")


def _show_example(name: str, form: str) -> None:
    """Name the bundled example of a code, where there is one."""
    try:
        folder = bundled("sample_data") / name
    except EnvironmentLacksError:
        return
    if not folder.is_dir():
        return
    here = Path.cwd()
    shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
    flags = folder / "args.json"
    given = json.loads(flags.read_text(encoding="utf-8")) if flags.is_file() else {}
    more = [f"--{flag.replace('_', '-')} {value}" for flag, value in given.items()]
    click.echo(f"  example  {' '.join([form.format(shown), *more])}")
