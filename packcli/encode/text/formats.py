"""How known chat templates open and close an answer: facts, one line a format."""

from __future__ import annotations

from dataclasses import dataclass
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
        others: added tokens of another turn. Where the header is written with the question, they
            take back an answer that was opened and never given.
        open: the last answer of a conversation has no end.
    """

    name: str
    headers: tuple[tuple[str, ...], ...]
    ends: tuple[str, ...]
    others: tuple[str, ...] = ()
    open: bool = False

    @property
    def turns(self) -> tuple[str, ...]:
        """Added tokens that begin a turn; inside an answer they mean that it did not end."""
        return (*self.others, *(header[0] for header in self.headers))

    def fits(self, source: str, added: Collection[str]) -> bool:
        """Tell whether a template writes this format with tokens of the vocabulary."""
        needed = {*self.headers[0][::2], *self.others}
        # many templates name their end `eos_token`
        ended = any(end in added and (end in source or "eos_token" in source) for end in self.ends)
        return needed <= set(added) and all(token in source for token in needed) and ended

    def opened(self, pieces: Sequence[str], place: int) -> tuple[int, int] | None:
        """Return the piece in which the answer starts and the characters before it there.

        Args:
            pieces: a rendered conversation: text at even, an added token at odd places.
            place: an odd place.
        """
        for header in self.headers:
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
    Format("Mistral", (("[/INST]", ""), ("[/TOOL_RESULTS]", "")), ("</s>",), ("[INST]",)),
    Format(
        "DeepSeek",
        ((f"<{_BAR}Assistant{_BAR}>", ""),),
        (f"<{_BAR}end▁of▁sentence{_BAR}>",),
        (f"<{_BAR}User{_BAR}>",),
    ),
    Format("Phi", (("<|assistant|>", "\n"),), ("<|end|>",)),
    # its turns have no end of their own: the model stops by opening the next one
    Format(
        "GLM", (("<|assistant|>", ""),), ("<|user|>", "<|observation|>", "<|system|>"), open=True
    ),
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
