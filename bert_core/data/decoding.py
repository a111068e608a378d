"""From bytes to text: the encoding of a file, and characters that no text contains."""

import re

from bert_core.errors import ConfigError, CorpusError, noting

# Encodings other than UTF-8, and the codec of each by the name that both Python and chardet know. Of two that are as
# likely, the first is the likelier.
ENCODINGS = (
    {"gbk": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_jp": "euc_jis_2004", "euc_kr": "cp949"}
    | {f"windows-{page}": f"cp{page}" for page in (1252, 1250, 1251, *range(1253, 1259), 874)}
    | {name: name.replace("iso-", "iso") for name in ("iso-8859-2", "koi8-r", "cp866", "utf-16", "utf-32")}
)
_LIKELY = 0.05  # confidence of the detector, which is low for a short text
_DAMAGED = 20  # continuation bytes before the first wrong one: so many are damaged UTF-8, not another encoding
_CONTROLS = "[\x01-\x08\x0e-\x1f\x7f]"
# Controls and marks without width inside words, also joiners unless a letter of Arabic, an Indic script or an emoji is
# before them.
_UNSEEN = re.compile(
    f"{_CONTROLS}|[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
    "|(?<![\u0590-\U0010ffff])[\u200c\u200d]"
)


def decode(
    data: bytes, name: str, encoding: str | None = None, keeps_characters: bool = False
) -> tuple[str, list[str]]:
    """The text of a file, with a line feed at the end of each line and without characters that no one sees, and notes.

    encoding: one of ENCODINGS; without it, the text is UTF-8 or else what `likely_encoding` finds. keeps_characters:
    leave out controls alone. Raises ConfigError for another encoding, and CorpusError if the file is no text."""
    if encoding not in (None, *ENCODINGS):
        raise ConfigError(f"The encoding {encoding!r} is unknown; it can be one of: {', '.join(ENCODINGS)}.")
    notes = [f"Read as {encoding}."] if encoding else []
    if not encoding and (encoding := likely_encoding(data)):
        notes.append(
            f"It is not UTF-8 and was read as {encoding}; if letters are wrong, choose the encoding (--encoding)."
        )
    try:
        text = data.decode(ENCODINGS.get(encoding or "", "utf-8-sig"))
    except UnicodeDecodeError:
        text = "\0"
    with noting(notes):
        if "\0" in text:
            raise CorpusError(f"{name} is not plain text; save it as UTF-8 text, or choose its encoding (--encoding).")
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n")
    text, unseen = re.subn(_CONTROLS if keeps_characters or text.isascii() else _UNSEEN, "", text)
    notes += [f"Controls and characters without width left out: {unseen:,}."] if unseen else []
    damaged = text.count("\ufffd")
    notes += [f"Characters that were damaged before: {damaged:,}."] if damaged else []
    return text, notes


def likely_encoding(data: bytes) -> str | None:
    """Which of ENCODINGS a file has most likely; None if it is UTF-8 or damaged UTF-8, or none is likely."""
    try:
        data.decode()
        return None
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong - len(data[:wrong].decode()) > _DAMAGED:
        return None
    import chardet  # its models take memory, and most files are UTF-8

    names = {codec: name for name, codec in ENCODINGS.items()}
    sample, known = data[data.rfind(b"\n", 0, wrong) + 1 :], [*names, "utf-8"]  # the last one stands for none of them
    found = chardet.detect_all(sample, True, include_encodings=known, compat_names=False, no_match_encoding="utf-8")
    confidence = {guess["encoding"]: round(guess["confidence"], 2) for guess in found}
    best = max(names, key=lambda codec: confidence.get(codec, 0))
    return names[best] if confidence.get(best, 0) >= _LIKELY else None
