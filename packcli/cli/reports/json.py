"""A verdict for programs: one line, as ``schemas/verdict.schema.json`` describes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packcli.contract.verdict import Verdict


def render(verdict: Verdict) -> str:
    """Write the document; its texts are those of the data, escaped as JSON does."""
    # valid JSON all the same, and no command for a CI runner that scans lines for one
    return json.dumps(verdict.to_json()).replace("##[", "##\\u005b")
