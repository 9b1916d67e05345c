"""`packcli schema`."""

from __future__ import annotations

import click

from packcli.cli.bundled import bundled


@click.command(epilog="\b\nExamples:\n  packcli schema\n  packcli schema verdict\n")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print a published JSON schema; without NAME, list them."""
    files = {
        path.name.partition(".")[0]: path for path in sorted(bundled("schemas").glob("*.json"))
    }
    if name is None:
        for known in files:
            click.echo(known)
    elif name in files:
        click.echo(files[name].read_text(encoding="utf-8"), nl=False)
    else:
        raise click.BadParameter(f"{name!r} is no schema; there are {', '.join(files)}")
