"""From bytes to text, in blocks: the encoding of a file, and characters that no text contains."""

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from bert_core.errors import ConfigError, CorpusError

BLOCK_BYTES = 2**20  # so many at once, since a decoder and a regular expression hold the interpreter's lock
MAX_LINE_BYTES = 64 * 2**20

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
END_OF_FILE = "\x1a"  # of DOS programs
_NEVER_TEXT = re.compile("[\0\ud800-\udfff]")  # the latter are lone surrogates, which UTF-8 cannot represent
_CONTROLS = re.compile("[\x01-\x08\x0e-\x1f\x7f]")
# Characters that an earlier conversion lost, UTF-8 that it read as another encoding, and marks of windows-1252 that it
# read as Latin-1.
_DAMAGED_CHARACTERS = re.compile("\ufffd|(?<![A-ZÀ-Þ])(?:Ã[\x80-\xbf]|Â[\xa0-\xbf])|â€\\S|[\x80-\x84\x86-\x9f]")
_MOST_CONTROLS = 1 / 16  # of the characters of a text; a binary file has more
# Marks without width inside words, also joiners unless a letter of Arabic, an Indic script or an emoji is before them.
_INVISIBLE = re.compile(
    "[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]|(?<![\u0590-\U0010ffff])[\u200c\u200d]"
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
_NEARLY_AS_LIKELY = 0.5  # of the confidence in the likeliest encoding
_DAMAGED = 20  # bytes of longer characters; a text of another encoding is not read as UTF-8 so far
_NOT_PRINTED = re.compile("[\0\x80-\x9f\ud800-\udfff]")
_WORD = re.compile(r"[^\W\d_]+")
_MANY_SCRIPTS = "mixed"
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"}
_PREVIEW = 30  # characters


class EncodingError(CorpusError):
    """A text is not UTF-8. likely: names of encodings, the likeliest first, and how each reads a part of the text."""

    def __init__(self, name: str, byte: int, likely: dict[str, str]) -> None:
        choices = ", ".join(f"{encoding} (“{preview}”)" for encoding, preview in likely.items())
        super().__init__(f"{name} is not UTF-8 text (byte {byte}); save it as such, or choose its encoding: {choices}.")
        self.likely = likely


def decoded_blocks(
    file: BinaryIO, name: str, notes: list[str], encoding: str | None = None, size: int = BLOCK_BYTES
) -> Iterator[str]:
    """Yield the text of a file in blocks of about `size` bytes, each ending after a line.

    The text is UTF-8, unless a byte order mark at its start or else `encoding`, one of ENCODINGS, names another one;
    these add a note to `notes`, and so do control characters, which are left out. Raises ConfigError for another
    encoding, and CorpusError with the position of the first byte that is not text (EncodingError where one of ENCODINGS
    may be right), and for a line of more than 64 MB.
    """
    if encoding is not None and encoding not in ENCODINGS:
        raise ConfigError(f"The encoding {encoding!r} is unknown; it can be one of: {', '.join(ENCODINGS)}.")
    data = file.read(size)
    if kind := next((kind for first, kind in _NO_TEXTS.items() if data.startswith(first)), None):
        raise CorpusError(f"{name} is {kind}; save its text alone, as UTF-8.")
    found = (entry for entry in _BYTE_ORDER_MARKS if data.startswith(entry[0]))
    mark, codec, label = next(found, (b"", ENCODINGS[encoding] if encoding else "utf-8", encoding))
    if label:
        notes.append(f"Read as {label}.")
    data, start = data[len(mark) :], len(mark)  # start: bytes before data
    decoder = codecs.getincrementaldecoder(codec)()
    line: list[str] = []  # pieces of a line whose end is not yet read
    odd = Counter[str]()
    while data:
        following = file.read(size)
        text_start = start - len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not following)
        except UnicodeDecodeError as error:
            byte = text_start + error.start
            if not label and (likely := _likely_encodings(error.object, error.start)):
                raise EncodingError(name, byte, likely) from None
            if label and label == encoding:
                message = f"{name} is not {encoding} text (byte {byte}); choose another encoding, or save it as UTF-8."
                raise CorpusError(message) from None
            raise _not_text(name, byte) from None
        if not following:
            text = text.rstrip(END_OF_FILE)
        text, found_here = without_controls(text, name, text_start, codec)
        odd += found_here
        start += len(data)
        end = text.rfind("\n") + 1 if following else len(text)
        if end:
            yield "".join([*line, text[:end]])
            line = []
        line.append(text[end:])
        if sum(map(len, line)) > MAX_LINE_BYTES:
            raise CorpusError(
                f"{name} has a line of more than {MAX_LINE_BYTES // 2**20} MB; put line breaks between its paragraphs."
            )
        data = following
    notes += notes_on_characters(odd)


def with_plain_line_ends(text: str) -> str:
    """The text with each end of a line as one line feed. Other white space ends no line of a file with columns."""
    return text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n")


def without_controls(text: str, name: str, start: int = 0, encoding: str = "utf-8") -> tuple[str, Counter[str]]:
    """A text that begins at byte `start` without its control characters, and for `notes_on_characters` the numbers of
    these and of damaged characters. Raises CorpusError if controls are so many, or such, that this is no text."""
    kept, count = _CONTROLS.subn("", text)
    pattern = _CONTROLS if count > _MOST_CONTROLS * len(text) else _NEVER_TEXT
    if wrong := pattern.search(text):
        raise _not_text(name, start + len(text[: wrong.start()].encode(encoding, "surrogatepass")))
    damaged = 0 if kept.isascii() else len(_DAMAGED_CHARACTERS.findall(kept))
    said = "Characters that were damaged before, such as \ufffd and Ã©"
    return kept, Counter({"Control characters left out": count, said: damaged})


def notes_on_characters(found: Counter[str]) -> list[str]:
    """What to say of characters that `without_controls` has found."""
    return [f"{what}: {count:,}." for what, count in found.items() if count]


def without_invisible(text: str) -> tuple[str, int]:
    """A text without marks that have no width and divide words, and their number; needed joiners are kept."""
    return _INVISIBLE.subn("", text)


def _not_text(name: str, byte: int) -> CorpusError:
    return CorpusError(f"{name} is not plain text (byte {byte}); save it as UTF-8 text.")


def _likely_encodings(data: bytes, wrong: int) -> dict[str, str]:
    """The encodings that the data may have, the likeliest first, and how each reads a part of it: all in one script, no
    two alike. wrong: the first byte that is not UTF-8. If many bytes before it are, the data is damaged UTF-8."""
    import chardet  # its models take memory, and most files are UTF-8

    if wrong - len(data[:wrong].decode()) > _DAMAGED:
        return {}
    line = data.rfind(b"\n", 0, wrong) + 1
    start = line if wrong - line < _SAMPLE_BYTES // 2 else wrong
    sample = data[start : start + _SAMPLE_BYTES]
    known = [*ENCODINGS.values(), "utf-8"]  # the last one stands for none of them
    found = chardet.detect_all(sample, True, include_encodings=known, compat_names=False, no_match_encoding="utf-8")
    scores = {guess["encoding"]: round(guess["confidence"], 2) for guess in found}
    least = max(_LIKELY, _NEARLY_AS_LIKELY * max(scores.values()))
    texts: dict[str, str] = {}
    for name, codec in sorted(ENCODINGS.items(), key=lambda item: -scores.get(item[1], 0)):
        if scores.get(codec, 0) < least:
            break
        text = codecs.getincrementaldecoder(codec)("ignore").decode(sample)
        script = _script(text)
        scripts_so_far = {_script(other) for other in texts.values()} or {script}
        is_wrong = _NOT_PRINTED.search(text) or script == _MANY_SCRIPTS or script not in scripts_so_far
        if not is_wrong and text not in texts.values():
            texts[name] = text
    return dict(zip(texts, _previews([*texts.values()])))


def _script(text: str) -> str:
    """The script of most words that are not ASCII, by the first word of their letters' names in Unicode. Words of two
    scripts, unless one is East Asian, are a sign of the wrong encoding."""
    counts: Counter[str] = Counter()
    for word in _WORD.findall(text):
        if not word.isascii():
            scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in word}
            is_east_asian = not scripts.isdisjoint(_EAST_ASIAN)
            counts["CJK" if is_east_asian else _MANY_SCRIPTS if len(scripts) > 1 else scripts.pop()] += 1
    return max(counts, key=counts.__getitem__, default="")


def _previews(texts: list[str]) -> list[str]:
    """A part of each text in which as many as possible differ, or where the first one is not ASCII."""
    best: list[str] = []
    for at, characters in enumerate(zip(*texts)):
        if len(set(characters)) > 1 or not (best or characters[0].isascii()):
            first = max(0, at - _PREVIEW // 2)
            parts = [" ".join(text[first : first + _PREVIEW].split()) for text in texts]
            best = parts if len(set(parts)) > len(set(best)) else best
            if len(set(best)) == len(texts):
                break
    return best
