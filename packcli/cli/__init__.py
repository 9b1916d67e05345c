"""The doorway: flags in, reports out. Only this room prints, shows progress and exits."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from packcli import __version__
from packcli.contract.errors import PackcliError

_COMMANDS = {
    "demo": "the main job on the bundled data, offline",
    "encode": "records become encoded shards",
    "plan": "lengths become a plan: which samples share a pack",
    "pack": "encoded shards become packed shards",
    "verify": "the contract on disk, and proof that samples do not see each other",
    "schema": "print a published JSON schema",
    "explain": "print one rule: its law and its remedy",
}


class _Commands(click.Group):
    """Import a command's file only when it is called: `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        return import_module(f"packcli.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _read_config(ctx: click.Context, _param: click.Parameter, value: Path | None) -> None:
    """Take defaults of commands from a TOML file: one table a command."""
    if value is None:
        return
    try:
        tables = tomllib.loads(value.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{value}: {error}") from error
    ctx.default_map = {
        command: {name.replace("-", "_"): setting for name, setting in table.items()}
        for command, table in tables.items()
        if isinstance(table, dict)
    }


@click.group(
    cls=_Commands, context_settings={"auto_envvar_prefix": "PACKCLI", "max_content_width": 100}
)
@click.version_option(__version__, prog_name="packcli")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    callback=_read_config,
    expose_value=False,
    is_eager=True,
    help="TOML file with one table a command; flags and PACKCLI_* variables come first.",
)
def cli() -> None:
    """Turn raw multimodal JSONL into packed Parquet shards that are provably right."""


def main(arguments: list[str] | None = None) -> Any:  # noqa: ANN401 - click returns what it likes
    """Run the command line; errors end with their own exit code and one line on stderr."""
    try:
        return cli.main(args=arguments, prog_name="packcli")
    except PackcliError as error:
        click.echo(f"packcli: {error}", err=True)
        sys.exit(error.exit_code)
