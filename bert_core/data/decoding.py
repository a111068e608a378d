"""From bytes to text: the encoding of a file, and characters that no text contains."""

import codecs
import re

from bert_core.errors import ConfigError, CorpusError, noting

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
# Encodings from before UTF-8, and the codec of each, by the name that both Python and chardet know. Of two that are as
# likely, the first is the likelier.
ENCODINGS = {
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_jp": "euc_jis_2004",
    "euc_kr": "cp949",
    **{f"windows-{page}": f"cp{page}" for page in (1252, 1250, 1251, *range(1253, 1259), 874)},
    "iso-8859-2": "iso8859-2",
    "koi8-r": "koi8-r",
    "cp866": "cp866",
}
# Files that are no text, by their first bytes.
_NO_TEXTS = {
    b"PK\x03\x04": "a ZIP archive, or a file of a spreadsheet or a word processor",
    b"\xd0\xcf\x11\xe0": "a file of an old spreadsheet or word processor",
    b"%PDF-": "a PDF",
    b"\x1f\x8b": "compressed",
    b"\xfd7zXZ": "compressed",
    **{b"BZh%d1AY&SY" % level: "compressed" for level in range(1, 10)},
    b"\x28\xb5\x2f\xfd": "compressed",
}
_SAMPLE_BYTES = 8192
_LIKELY = 0.05  # confidence of the detector, which is low for a short text
_DAMAGED = 20  # bytes of longer characters; a text of another encoding is not read as UTF-8 so far
END_OF_FILE = "\x1a"  # of DOS programs
_NEVER_TEXT = re.compile("[\0\ud800-\udfff]")  # the latter are lone surrogates, which UTF-8 cannot represent
_CONTROLS = re.compile("[\x01-\x08\x0e-\x1f\x7f]")
_MOST_CONTROLS = 1 / 16  # of the characters of a text; a binary file has more
# Characters that an earlier conversion lost, UTF-8 that it read as another encoding, and marks of windows-1252 that it
# read as Latin-1.
_DAMAGED_CHARACTERS = re.compile("\ufffd|(?<![A-ZÀ-Þ])(?:Ã[\x80-\xbf]|Â[\xa0-\xbf])|â€\\S|[\x80-\x84\x86-\x9f]")
# Marks without width inside words, also joiners unless a letter of Arabic, an Indic script or an emoji is before them.
_INVISIBLE = re.compile(
    "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]|(?<![\u0590-\U0010ffff])[\u200c\u200d]"
)


def decode(data: bytes, name: str, encoding: str | None = None) -> tuple[str, list[str]]:
    """The text of a file, as `cleaned` gives it, and notes on it.

    name: for messages. encoding: one of ENCODINGS. A byte order mark at the start comes before it; without both, the
    text is UTF-8 or else what `likely_encoding` finds, with a note. Raises ConfigError for another encoding, and
    CorpusError with the position of the first byte that is not text.
    """
    if encoding not in (None, *ENCODINGS):
        raise ConfigError(f"The encoding {encoding!r} is unknown; it can be one of: {', '.join(ENCODINGS)}.")
    if kind := next((kind for first, kind in _NO_TEXTS.items() if data.startswith(first)), None):
        raise CorpusError(f"{name} is {kind}; save its text alone, as UTF-8.")
    found = (entry for entry in _BYTE_ORDER_MARKS if data.startswith(entry[0]))
    mark, codec, label = next(found, (b"", ENCODINGS.get(encoding or "", "utf-8"), encoding))
    notes = [f"Read as {label}."] if label else []
    if not label and (likely := likely_encoding(data)):
        codec, label = ENCODINGS[likely], likely
        notes = [f"It is not UTF-8 and was read as {likely}; if letters are wrong, choose the encoding (--encoding)."]
    try:
        text = data.removeprefix(mark).decode(codec)
    except UnicodeDecodeError as error:
        byte = len(mark) + error.start
        if mark or not label:
            raise _not_text(name, f"byte {byte}") from None
        raise CorpusError(
            f"{name} is not {label} text (byte {byte}); choose another encoding (--encoding), or save it as UTF-8."
        ) from None
    with noting(notes):
        text, odd = cleaned(text, name)
    return text, notes + odd


def likely_encoding(data: bytes) -> str | None:
    """Which of ENCODINGS a file has most likely; None if it has a byte order mark, is UTF-8 or damaged UTF-8, or none
    is likely."""
    try:
        data.decode()
        return None
    except UnicodeDecodeError as error:
        wrong = error.start
    has_mark = any(data.startswith(mark) for mark, *_ in _BYTE_ORDER_MARKS)
    if has_mark or wrong - len(data[:wrong].decode()) > _DAMAGED:
        return None
    import chardet  # its models take memory, and most files are UTF-8

    line = data.rfind(b"\n", 0, wrong) + 1
    start = line if wrong - line < _SAMPLE_BYTES // 2 else wrong
    known = [*ENCODINGS.values(), "utf-8"]  # the last one stands for none of them
    sample = data[start : start + _SAMPLE_BYTES]
    found = chardet.detect_all(sample, True, include_encodings=known, compat_names=False, no_match_encoding="utf-8")
    confidence = {guess["encoding"]: round(guess["confidence"], 2) for guess in found}
    best = max(ENCODINGS, key=lambda name: confidence.get(ENCODINGS[name], 0))
    return best if confidence.get(ENCODINGS[best], 0) >= _LIKELY else None


def cleaned(text: str, name: str) -> tuple[str, list[str]]:
    """A text with a line feed at the end of each line and without control characters, and notes on these and on
    damaged characters. Raises CorpusError, with the line, if controls are so many, or such, that this is no text."""
    text = text.rstrip(END_OF_FILE).replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n")
    kept, count = _CONTROLS.subn("", text)
    pattern = _CONTROLS if count > _MOST_CONTROLS * len(text) else _NEVER_TEXT
    if wrong := pattern.search(text):
        raise _not_text(name, f"line {text.count(chr(10), 0, wrong.start()) + 1}")
    damaged = 0 if kept.isascii() else len(_DAMAGED_CHARACTERS.findall(kept))
    notes = [f"Control characters left out: {count:,}."] if count else []
    notes += [f"Characters that were damaged before, such as \ufffd and Ã©: {damaged:,}."] if damaged else []
    return kept, notes


def without_invisible(text: str) -> tuple[str, int]:
    """A text without marks that have no width and divide words, and their number; needed joiners are kept."""
    return _INVISIBLE.subn("", text)


def _not_text(name: str, place: str) -> CorpusError:
    return CorpusError(f"{name} is not plain text ({place}); save it as UTF-8 text.")
