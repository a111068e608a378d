"""What people type: short lines of visible characters."""

import unicodedata
from typing import Any

from bert_core.errors import InputError


def cleaned(text: Any, most: int) -> str:
    """A typed text in one line of at most `most` characters, without characters that have no shape of their own, such
    as those that turn the direction of what follows."""
    if not isinstance(text, str):
        raise InputError("This request holds no text where one belongs; reload the page.")
    text = unicodedata.normalize("NFC", text[: 8 * most])
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:most].strip()
