"""`packcli schema`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command(epilog="\b\nExamples:\n  packcli schema\n  packcli schema verdict\n")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print a published JSON schema; without NAME, list them."""
    if name is None:
        for known in SCHEMAS:
            click.echo(known)
    elif name in SCHEMAS:
        click.echo(text(name), nl=False)
    else:
        raise click.BadParameter(f"{name!r} is no schema; there are {', '.join(SCHEMAS)}")


def text(name: str) -> str:
    """Return a schema as it is published in ``schemas/``."""
    from packcli.contract.schemas import titled

    return json.dumps(titled(name, SCHEMAS[name]()), ensure_ascii=False, indent=2) + "\n"


def _pack() -> dict[str, Any]:
    from packcli.contract import schemas

    return schemas.pack()


def _manifest() -> dict[str, Any]:
    from packcli.contract.model import ModelFacts
    from packcli.contract.schemas import document
    from packcli.shards.manifest import FORMAT, Manifest

    example = Manifest("packed", ModelFacts("text", 1), {}, {}, {}, [])
    told: dict[str, dict[str, Any]] = {
        "format": {"description": "of this manifest", "const": FORMAT},
        "kind": {"enum": ["encoded", "packed"]},
        "digest": {"pattern": "^[0-9a-f]{32}$"},
        "fingerprint": {"pattern": "^[0-9a-f]{64}$"},
    }
    return document(Manifest, example.to_json(), told)


def _verdict() -> dict[str, Any]:
    from packcli.contract import schemas

    return schemas.verdict()


def _encode_summary() -> dict[str, Any]:
    from packcli.contract.rejections import WARNINGS
    from packcli.contract.schemas import document
    from packcli.encode.run import EncodeSummary

    warnings = {"propertyNames": {"enum": list(WARNINGS)}}
    told: dict[str, dict[str, Any]] = {"reasons": _reasons(), "warnings": warnings}
    return document(EncodeSummary, EncodeSummary().to_json(), told)


def _plan() -> dict[str, Any]:
    from packcli.contract.schemas import document
    from packcli.pack.plan import Plan, make_plan

    rejected = "samples over the capacity or a limit, and those without tokens"
    plan = document(Plan, make_plan([1]).to_json(), {"rejected": {"description": rejected}})
    return {
        "description": "What `packcli plan --json` prints: one plan a capacity",
        "type": "object",
        "properties": {"plans": {"type": "array", "items": plan}},
        "required": ["plans"],
        "additionalProperties": False,
    }


def _pack_summary() -> dict[str, Any]:
    from packcli.contract.schemas import document
    from packcli.pack.run import PackSummary

    return document(PackSummary, PackSummary(1, "binpack").to_json(), {"reasons": _reasons()})


def _reasons() -> dict[str, Any]:
    from packcli.contract.rejections import REJECTIONS

    return {"propertyNames": {"enum": list(REJECTIONS)}}


def _rejection() -> dict[str, Any]:
    from packcli.contract import schemas

    return schemas.rejection()


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "pack": _pack,
    "manifest": _manifest,
    "verdict": _verdict,
    "encode_summary": _encode_summary,
    "plan": _plan,
    "pack_summary": _pack_summary,
    "rejection": _rejection,
}
