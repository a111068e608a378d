"""Something different for each page of a class: a seed, a learning rate or a text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from balcony.classroom.typed import NO_TEXT, cleaned
from bert_core.errors import InputError
from bert_core.runs.recipe import DEFAULT_RECIPE, load_recipe

SEED, RATE, TEXT = "seed", "rate", "text"
MOST_VALUES, LONGEST_TEXT = 300, 100_000  # characters of all texts together
MOST_TAKEN = 2_000  # visitors
LONGEST_SHOWN = 60  # characters of a text
_BETWEEN = re.compile(r"^[ \t]*-{3,}[ \t]*$", re.MULTILINE)


@dataclass(eq=False)
class Given:
    """One value for each page, in the order in which the pages come. values: as they were typed, and again from the
    first one where there are more pages; without any, the seeds are 1, 2, 3 and so on, and each person has a text of
    their own. taken: the place of each visitor."""

    number: int
    kind: str
    values: list[str]
    taken: dict[str, int] = field(default_factory=dict)

    def take(self, visitor: str) -> bool:
        """Give a visitor the next value; whether it is a new visitor."""
        if visitor in self.taken or len(self.taken) >= MOST_TAKEN:
            return False
        self.taken[visitor] = len(self.taken)
        return True

    def value_of(self, visitor: str) -> str:
        """The visitor's own value; "" for a text of their own."""
        at = self.taken[visitor]
        if not self.values:
            return f"{at + 1}" if self.kind == SEED else ""
        return self.values[at % len(self.values)]

    def shown_to(self, visitor: str, *, is_teacher: bool) -> dict[str, Any] | None:
        """What a page shows: its value, of a text the beginning; the teacher's page: how many have one."""
        shown = {"number": self.number, "kind": self.kind}
        if is_teacher:
            return shown | {"count": len(self.taken)}
        if visitor not in self.taken:
            return None
        value = self.value_of(visitor)
        return shown | {"value": cleaned(value, LONGEST_SHOWN) if self.kind == TEXT else value}

    def name_of_text(self, sentences: Sequence[str]) -> str:
        """Which of the given texts these are the sentences of, "" for another text."""
        if self.kind != TEXT or sum(map(len, sentences)) > LONGEST_TEXT:
            return ""
        letters = ["".join(text.split()) for text in self.values]
        found = "".join("".join(sentence.split()) for sentence in sentences)
        return f"Text {letters.index(found) + 1}" if found in letters else ""


def read_values(kind: str, typed: str) -> list[str]:
    """The values of a kind that a teacher has typed. Raises InputError or ConfigError."""
    if kind not in (SEED, RATE, TEXT):
        raise InputError(NO_TEXT)
    if len(typed) > LONGEST_TEXT:
        raise InputError(f"These are {len(typed):,} characters; a class is given at most {LONGEST_TEXT:,}.")
    parts = _BETWEEN.split(typed) if kind == TEXT else re.split(r"[\s,;]+", typed)
    values = [text for part in parts if (text := part.strip())]
    if len(values) > MOST_VALUES:
        raise InputError(f"These are {len(values)} values; a class is given at most {MOST_VALUES}.")
    recipe = load_recipe(DEFAULT_RECIPE)
    for value in values:
        if kind == SEED:
            recipe.replace_by_texts({"seed": value})
        if kind == RATE:
            recipe.override({"training.learning_rate": value})
    if kind == RATE and not values:
        raise InputError("Type the learning rates first, such as 0.03, 0.01, 0.003.")
    return values
