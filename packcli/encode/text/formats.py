"""How known chat templates open and close an answer: facts, one line a format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True, slots=True)
class Format:
    """The tokens around an answer.

    Attributes:
        name: for messages.
        headers: what opens an answer: added token, text, added token, text, …; the last text is
            only the start of a piece, and may be empty.
        ends: added tokens that close it, and are learned with it.
        others: added tokens of another turn. Where the header is written with the question, or is
            the end of a tool's result, they take back an answer that was opened and never given.
        open: the last answer of a conversation has no end.
        spaced: the white space behind the header is that of the template's generation prompt,
            where it has one.
    """

    name: str
    headers: tuple[tuple[str, ...], ...]
    ends: tuple[str, ...]
    others: tuple[str, ...] = ()
    open: bool = False
    spaced: bool = False

    @property
    def turns(self) -> tuple[str, ...]:
        """Added tokens that begin a turn; inside an answer they mean that it did not end."""
        return (*self.others, *(header[0] for header in self.headers))

    def fits(self, source: str, added: Collection[str]) -> bool:
        """Tell whether a template writes this format with tokens of the vocabulary."""
        needed = self.headers[0][:-1:2]
        # many templates name their end `eos_token`, or put it together from a role
        ended = any(
            end in added and (self.open or end in source or "eos_token" in source)
            for end in self.ends
        )
        return ended and all(token in added and token in source for token in needed)

    def as_prompted(self, prompt: str) -> Format:
        """Return the format with the white space that a generation prompt has behind the header.

        Args:
            prompt: a conversation that ends where the model begins to answer.
        """
        header = self.headers[0]
        _, opened, behind = prompt.rpartition(header[-2])
        if not (self.spaced and opened):
            return self
        space = behind[: len(behind) - len(behind.lstrip())]
        return replace(self, headers=((*header[:-1], space), *self.headers[1:]))

    def opened(self, pieces: Sequence[str], place: int) -> tuple[int, int] | None:
        """Return the piece in which the answer starts and the characters before it there.

        Args:
            pieces: a rendered conversation: text at even, an added token at odd places.
            place: an odd place.
        """
        token = pieces[place]
        for header in self.headers:
            if token != header[0]:
                continue
            last = place + len(header) - 1
            if (
                last < len(pieces)
                and pieces[last].startswith(header[-1])
                and pieces[place:last] == list(header[:-1])
            ):
                return last, len(header[-1])
        return None


_BAR = "\uff5c"

CHATML = Format("ChatML", (("<|im_start|>", "assistant\n"),), ("<|im_end|>",))

FORMATS = (
    # in front of ChatML, which has the same first and last token
    Format("Phi 4", (("<|im_start|>", "assistant", "<|im_sep|>", ""),), ("<|im_end|>",)),
    CHATML,
    Format(
        "Llama 3",
        (("<|start_header_id|>", "assistant", "<|end_header_id|>", "\n\n"),),
        ("<|eot_id|>", "<|eom_id|>"),
    ),
    Format(
        "Llama 4",
        (("<|header_start|>", "assistant", "<|header_end|>", "\n\n"),),
        ("<|eot|>", "<|eom|>"),
    ),
    Format("Gemma", (("<start_of_turn>", "model\n"),), ("<end_of_turn>",)),
    # one turn holds calls, their results and the answer: the model stops where a result begins
    Format(
        "Gemma 4",
        (("<|turn>", "model\n"), ("<tool_response|>", "")),
        ("<turn|>", "<|tool_response>"),
        ("<|tool_response>",),
    ),
    Format(
        "Mistral",
        (("[/INST]", ""), ("[/TOOL_RESULTS]", "")),
        ("</s>",),
        ("[INST]", "[AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[SYSTEM_PROMPT]"),
    ),
    # V3.1 answers behind one result, V3 and R1 behind the end of all of them
    Format(
        "DeepSeek",
        (
            (f"<{_BAR}Assistant{_BAR}>", ""),
            (f"<{_BAR}tool▁outputs▁end{_BAR}>", ""),
            (f"<{_BAR}tool▁output▁end{_BAR}>", ""),
        ),
        (f"<{_BAR}end▁of▁sentence{_BAR}>",),
        tuple(
            f"<{_BAR}{name}{_BAR}>" for name in ("User", "tool▁outputs▁begin", "tool▁output▁begin")
        ),
    ),
    Format("Phi", (("<|assistant|>", "\n"),), ("<|end|>",), ("<|user|>",), spaced=True),
    # its turns have no end of their own: the model stops by opening the next one
    Format(
        "GLM",
        (("<|assistant|>", ""),),
        ("<|user|>", "<|observation|>", "<|system|>"),
        open=True,
        spaced=True,
    ),
    # roles are words; only the template writes text behind the end of a turn
    Format(
        "Idefics 3",
        (
            ("<end_of_utterance>", "\nAssistant:"),
            ("<|im_start|>", "Assistant:"),
            ("<|begin_of_text|>", "Assistant:"),
        ),
        ("<end_of_utterance>",),
    ),
    Format("EXAONE", (("[|assistant|]", ""),), ("[|endofturn|]",), ("[|user|]",), spaced=True),
    Format("Kimi", (("<|im_assistant|>", "assistant", "<|im_middle|>", ""),), ("<|im_end|>",)),
    Format(
        "Command",
        (("<|START_OF_TURN_TOKEN|>", "", "<|CHATBOT_TOKEN|>", ""),),
        ("<|END_OF_TURN_TOKEN|>",),
    ),
    Format(
        "Granite",
        (("<|start_of_role|>", "assistant", "<|end_of_role|>", ""),),
        ("<|end_of_text|>",),
    ),
)

ENDS = tuple(end for known in FORMATS for end in known.ends)
"""Every token that closes an answer in some format."""
