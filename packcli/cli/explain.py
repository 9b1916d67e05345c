"""`packcli explain`."""

from __future__ import annotations

import click


@click.command(
    epilog="\b\nExamples:\n  packcli explain position.reset\n  packcli explain slot.count\n"
)
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Print the law and the remedy of one rule; without CODE, every code."""
    from packcli.contract.rejections import REJECTIONS
    from packcli.contract.rules import BY_CODE

    if code is None:
        for rule in BY_CODE.values():
            click.echo(f"{rule.code:<22}{rule.law}")
        for name, meaning in REJECTIONS.items():
            click.echo(f"{name:<22}{meaning}")
    elif code in BY_CODE:
        rule = BY_CODE[code]
        click.echo(f"{rule.code}\n  law     {rule.law}\n  remedy  {rule.remedy}")
    elif code in REJECTIONS:
        click.echo(f"{code}\n  a record is rejected when {REJECTIONS[code]}")
    else:
        raise click.BadParameter(f"{code!r} is no code; `packcli explain` lists them")
