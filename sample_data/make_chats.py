"""chats.jsonl: every conversation of source/talks.txt in the record shape that its header names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BLUE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR42mNkYPjPwMDAxMDA"
    "wMDAAAALHwEDmlnfSQAAAABJRU5ErkJggg=="
)
TOOLS = {
    "weather": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Tell the weather of a city as it is now.",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string", "description": "Name of the city"}},
                    "required": ["city"],
                },
            },
        }
    ]
}
TAG = re.compile(r"(<image>|<video>)")
TURN = re.compile(r"(system|user|assistant|tool|think|call): ?(.*)", re.DOTALL)

Record = dict[str, Any]


@dataclass(slots=True)
class Talk:
    """One conversation as written in talks.txt.

    Attributes:
        id: its name, unique in the file.
        options: what the header says, by key.
        turns: OpenAI messages with string content.
    """

    id: str
    options: dict[str, str]
    turns: list[Record] = field(default_factory=list[Record])

    def media(self, key: str) -> list[Any]:
        """Return the references under `images` or `videos`; a list of frames is a list."""
        named = [name for name in self.options.get(key, "").split(",") if name]
        return [_reference(name) for name in named]


def _reference(name: str) -> str | list[str]:
    """Turn a name of the header into what a record holds."""
    if name == "@blue":
        return BLUE
    if "+" in name:
        return [f"media/{frame}" for frame in name.split("+")]
    return f"media/{name}"


def read_talks(text: str) -> list[Talk]:
    """Parse talks.txt.

    Args:
        text: the whole file.

    Returns:
        The conversations, in order.
    """
    talks: list[Talk] = []
    for block in re.split(r"^@ ", text, flags=re.MULTILINE)[1:]:
        header, _, body = block.partition("\n")
        name, *options = header.split()
        talk = Talk(name, dict(option.split("=", 1) for option in options))
        _read_turns(talk, body)
        talks.append(talk)
    return talks


def _read_turns(talk: Talk, body: str) -> None:
    """Append the turns of one block; `think` and `call` lines belong to the next answer."""
    marks = r"^(?=(?:system|user|assistant|tool|think|call):)"
    pending: Record = {}
    for piece in re.split(marks, body.strip("\n"), flags=re.MULTILINE):
        match = TURN.fullmatch(piece.strip("\n"))
        if match is None:
            continue
        role, text = match.groups()
        if role == "think":
            pending["reasoning_content"] = text
        elif role == "call":
            call = {"type": "function", "function": json.loads(text)}
            pending.setdefault("tool_calls", []).append(call)
        else:
            talk.turns.append({"role": role, "content": text.strip(), **pending})
            pending = {}


def _media_keys(talk: Talk) -> Record:
    """Return the `images`, `videos` and `fps` keys that ms-swift reads."""
    record: Record = {key: talk.media(key) for key in ("images", "videos") if talk.media(key)}
    if "fps" in talk.options:
        record["fps"] = float(talk.options["fps"])
    return record


def _messages(talk: Talk) -> Record:
    """OpenAI messages; pictures by `<image>` tags and `images`, as ms-swift writes them."""
    turns = [dict(turn) for turn in talk.turns]
    if "quiet" in talk.options:
        answers = [turn for turn in turns if turn["role"] == "assistant"]
        answers[int(talk.options["quiet"])]["loss"] = False
    return {"messages": turns, **_media_keys(talk)}


def _inline_think(talk: Talk) -> Record:
    """Messages whose reasoning stands in the answer itself."""
    turns: list[Record] = []
    for turn in talk.turns:
        reasoning = turn.get("reasoning_content")
        inline = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
        turns.append({"role": turn["role"], "content": inline + turn["content"]})
    return {"messages": turns}


def _part(kind: str, reference: Any, talk: Talk) -> Record:  # noqa: ANN401 - a path or a frame list
    """One media part in the dialect of the form: a plain key or OpenAI's nested url."""
    if talk.options["form"] in {"parts_url", "openai_url"}:
        detail = {"detail": "auto"} if talk.options["form"] == "openai_url" else {}
        return {"type": f"{kind}_url", f"{kind}_url": {"url": reference, **detail}}
    fps = {"fps": float(talk.options["fps"])} if "fps" in talk.options else {}
    return {"type": kind, kind: reference, **fps}


def _parts(talk: Talk) -> Record:
    """Messages whose content is a list of parts, with the media inside."""
    waiting = {"<image>": talk.media("images"), "<video>": talk.media("videos")}
    turns: list[Record] = []
    for turn in talk.turns:
        content: list[Record] = []
        pieces = TAG.split(turn["content"]) if any(waiting.values()) else [turn["content"]]
        for piece in pieces:
            if waiting.get(piece):
                content.append(_part(piece.strip("<>"), waiting[piece].pop(0), talk))
            elif piece:
                content.append({"type": "text", "text": piece})
        turns.append({**turn, "content": content})
    return {"messages": turns}


def _llava(talk: Talk) -> Record:
    """LLaVA's conversations; a single picture or clip is a string, several are a list."""
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    turns = [{"from": names[turn["role"]], "value": turn["content"]} for turn in talk.turns]
    record: Record = {}
    for key in ("image", "video"):
        found = talk.media(f"{key}s")
        if found:
            record[key] = found if len(found) > 1 else found[0]
    return {**record, "conversations": turns}


def _instruction(talk: Talk) -> Record:
    """Alpaca's three keys; the second line of the question is the input."""
    instruction, _, given = talk.turns[0]["content"].partition("\n")
    return {"instruction": instruction, "input": given, "output": talk.turns[1]["content"]}


def _prompt(talk: Talk) -> Record:
    """Return a prompt and its completion."""
    return {"prompt": talk.turns[0]["content"], "completion": talk.turns[1]["content"]}


def _query(talk: Talk) -> Record:
    """Return the last exchange as query and response, what came before as history."""
    texts = [turn["content"] for turn in talk.turns]
    history = [texts[at : at + 2] for at in range(0, len(texts) - 2, 2)]
    return {"query": texts[-2], "response": texts[-1], "history": history}


FORMS = {
    "messages": _messages,
    "swift": _messages,
    "inline_think": _inline_think,
    "parts": _parts,
    "parts_url": _parts,
    "openai_url": _parts,
    "llava": _llava,
    "llava_list": _llava,
    "sharegpt": _llava,
    "instruction": _instruction,
    "prompt": _prompt,
    "query": _query,
}


def records(source: Path) -> list[Record]:
    """Build the records of chats.jsonl.

    Args:
        source: the folder that holds talks.txt.

    Returns:
        One JSON object a conversation.
    """
    made: list[Record] = []
    for talk in read_talks((source / "talks.txt").read_text("utf-8")):
        record: Record = {"id": talk.id, **FORMS[talk.options["form"]](talk)}
        if "tools" in talk.options:
            record["tools"] = TOOLS[talk.options["tools"]]
        made.append(record)
    return made


def dump_lines(rows: list[Record]) -> bytes:
    """Return JSON lines in UTF-8, Chinese as it is written."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return "".join(lines).encode("utf-8")


def write(path: Path, source: Path) -> None:
    """Write chats.jsonl to `path`."""
    path.write_bytes(dump_lines(records(source)))
