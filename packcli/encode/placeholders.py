"""Placeholders: what a template writes for a medium, and what takes its place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packcli.contract.errors import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packcli.families.family import Expansion, Family


@dataclass(frozen=True, slots=True)
class Placeholders:
    """What a model family's template writes for media.

    Attributes:
        image: the text that stands for one image, None where there are none.
        video: the text that stands for one video.
        pads: ids of the tokens that are repeated.
        tail: text at the end of every conversation that the model's own trainer leaves out.
        shown: the placeholders that there are.
    """

    image: str | None = None
    video: str | None = None
    pads: frozenset[int] = frozenset()
    tail: str = ""
    shown: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _either: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare the search."""
        shown = tuple(text for text in (self.image, self.video) if text)
        either = re.compile(f"({'|'.join(map(re.escape, shown))})") if shown else None
        object.__setattr__(self, "shown", shown)
        object.__setattr__(self, "_either", either)

    @classmethod
    def of(cls, family: Family) -> Placeholders:
        """Take them from a family."""
        ids = (family.facts.image_token_id, family.facts.video_token_id)
        pads = frozenset(i for i in ids if i is not None)
        return cls(family.image_placeholder, family.video_placeholder, pads, family.dropped_tail)

    def expand(
        self, rendered: str, images: Sequence[Expansion], videos: Sequence[Expansion]
    ) -> tuple[str, tuple[int, ...]]:
        """Replace the k-th placeholder of each kind by the k-th expansion of that kind.

        Returns:
            The text, and the repeats of every pad in it, in order.

        Raises:
            Rejection: `template_error`, the template shows more or fewer media than there are.
        """
        rendered = rendered.removesuffix(self.tail)
        shows = [text for text in self.shown if text in rendered]
        if not (shows or images or videos):
            return rendered, ()
        pieces = self._either.split(rendered) if self._either and shows else [rendered]
        found = pieces[1::2]
        for placeholder, media in ((self.image, images), (self.video, videos)):
            shown = found.count(placeholder) if placeholder else 0
            if shown != len(media):
                raise _not_shown(placeholder, shown, len(media))
        if not found:
            return rendered, ()
        waiting = {self.image: iter(images), self.video: iter(videos)}
        slots: list[int] = []
        for place, placeholder in enumerate(found):
            expansion = next(waiting[placeholder])
            pieces[2 * place + 1] = expansion.text
            slots += expansion.slots
        return "".join(pieces), tuple(slots)


def _not_shown(placeholder: str | None, shown: int, given: int) -> Rejection:
    if placeholder is None:
        return Rejection("template_error", f"the model takes no such media, the record has {given}")
    message = f"the chat template shows {shown} of {given} media as {placeholder}"
    return Rejection("template_error", f"{message}; put media into turns that it shows them in")
