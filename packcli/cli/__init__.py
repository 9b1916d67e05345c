"""The doorway: flags in, reports out. Only this room prints, shows progress and exits."""

from __future__ import annotations

import signal
import sys
import threading
import tomllib
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from packcli import __version__
from packcli.contract.errors import InputError, PackcliError

_INTERRUPTED = 130

_COMMANDS = {
    "demo": "the main job on the bundled data, offline",
    "encode": "records become encoded shards",
    "lint": "what encode would reject, before paying for it",
    "plan": "lengths become a plan: which samples share a pack",
    "pack": "encoded shards become packed shards",
    "export": "packs in the files of another trainer",
    "verify": "the contract on disk, and proof that samples do not see each other",
    "doctor": "versions, GPU, kernels found, traps in this environment",
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and name is not None and ctx.default_map:
            table = ctx.default_map.get(name, {})
            ctx.default_map = {name: _by_parameter(ctx, (name, table), command)}
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _by_parameter(
    ctx: click.Context, named: tuple[str, dict[str, Any]], command: click.Command
) -> dict[str, Any]:
    """Rename a table's keys from flags to what click calls their parameters.

    Raises:
        BadParameter: the command has no such flag, or the flag takes no such value.
    """
    parameters = {
        flag.lstrip("-").replace("-", "_"): parameter
        for parameter in command.params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    name, table = named
    settings: dict[str, Any] = {}
    for key, setting in table.items():
        parameter = parameters.get(key.replace("-", "_"))
        if parameter is None:
            raise click.BadParameter(f"[{name}] {key}: there is no such flag")
        try:
            parameter.type_cast_value(ctx, setting)
        except TypeError as error:
            raise click.BadParameter(f"[{name}] {key}: {error}") from error
        settings[parameter.name] = setting
    return settings


def _read_config(ctx: click.Context, _param: click.Parameter, value: Path | None) -> None:
    """Take defaults of commands from a TOML file: one table a command."""
    if value is None:
        return
    try:
        tables = tomllib.loads(value.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{value}: {error}") from error
    for name, table in tables.items():
        if name not in _COMMANDS or not isinstance(table, dict):
            raise click.BadParameter(f"{value}: [{name}] is no table of a command")
    ctx.default_map = tables


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


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; errors end with their own exit code and one line on stderr."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    try:
        status = cli.main(args=arguments, prog_name="packcli", standalone_mode=False)
    except PackcliError as error:
        _fail(error.exit_code, str(error))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _fail(_INTERRUPTED, "interrupted; encode and pack resume when they are run again")
    except OSError as error:
        _fail(InputError.exit_code, str(error))
    except Exception:  # noqa: BLE001 - whatever it is, it ends with its own status
        # status 1 means findings: a fault of packcli itself must not look like one
        traceback.print_exc()
        _fail(PackcliError.exit_code, "this is a fault of packcli; please report it")
    sys.exit(status if isinstance(status, int) else 0)


def _fail(status: int, message: str) -> NoReturn:
    click.echo(f"packcli: {message}", err=True)
    sys.exit(status)


def _terminate(number: int, _frame: object) -> NoReturn:
    """Leave by an exception, so that staged files are swept and workers end."""
    sys.exit(128 + number)
