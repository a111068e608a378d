"""From bytes to text, in blocks: the encoding of a file, and characters that no text contains."""

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

from bert_core.errors import ConfigError, CorpusError

BLOCK_BYTES = 2**20  # a decoder and a regular expression stop all other threads for so many at once
MAX_LINE_BYTES = 64 * 2**20

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
# Control characters that no text file contains, and lone surrogates, which UTF-8 cannot represent.
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ud800-\udfff]")
END_OF_FILE = "\x1a"  # of DOS programs

# Encodings from before UTF-8: Python's codec, the most frequent characters of its languages, ASCII left out, and their
# usual fraction of all such characters in a text. In a text that is read with a wrong encoding, they are fewer.
ENCODINGS = {
    "gbk": (
        "gb18030",
        "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家"
        "种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日，。、“”《》：？！",
        0.4,
    ),
    "big5": (
        "cp950",
        "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家"
        "種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日，。、「」《》：？！",
        0.4,
    ),
    "shift_jis": ("cp932", "".join(map(chr, range(0x3041, 0x30FF))) + "、。「」ー", 0.55),
    "euc_jp": ("euc_jp", "".join(map(chr, range(0x3041, 0x30FF))) + "、。「」ー", 0.55),
    "euc_kr": (
        "cp949",
        "는이다의에을한로지가고리하은들아그를기게인스사마어해대서자수만으도시라상있나소된드간위생우와과분장트주년되신세진일부니교"
        "여제전정보말거것았없습안할면었더려야까요네님저내너무오",
        0.6,
    ),
    "windows-1252": ("cp1252", "éèêëàâäáãåçñöôóòøõüùûúíìîïßæœÄÖÜÉÅØ’‘“”„–—…«»¿¡", 0.97),
    "windows-1254": ("cp1254", "ışğçöüâîûİŞÇÖÜ’‘“”–—…", 0.97),
    "windows-1253": ("cp1253", "αοιετσνηυρπκμλςάίόήέώγδύθχφβξζψω«»’‘·", 0.97),
    "windows-1251": ("cp1251", "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфёіїєў«»—–“”№", 0.97),
}
_LATIN = ("windows-1252", "windows-1254")
_SAMPLE_BYTES = 8192
_LIKELY = 0.6  # of the usual fraction; short texts have less
_MIXED = 0.25  # fraction of ASCII in words that are not ASCII alone, from which they are Latin: été, not все
_DAMAGED = 20  # bytes of longer characters; a text of another encoding is not read as UTF-8 so far
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
    these add a note to `notes`. Raises ConfigError for another encoding, and CorpusError with the position of the first
    byte that is not text (EncodingError where one of ENCODINGS may be right), and for a line of more than 64 MB.
    """
    if encoding is not None and encoding not in ENCODINGS:
        raise ConfigError(f"The encoding {encoding!r} is unknown; it can be one of: {', '.join(ENCODINGS)}.")
    data = file.read(size)
    found = (entry for entry in _BYTE_ORDER_MARKS if data.startswith(entry[0]))
    mark, codec, label = next(found, (b"", ENCODINGS[encoding][0] if encoding else "utf-8", encoding))
    if label:
        notes.append(f"Read as {label}.")
    data, start = data[len(mark) :], len(mark)  # start: bytes before data
    decoder = codecs.getincrementaldecoder(codec)()
    line: list[str] = []  # pieces of a line whose end is not yet read
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
        check_text(text, name, text_start, codec)
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


def with_plain_line_ends(text: str) -> str:
    """The text with each end of a line as one line feed. Other white space ends no line of a file with columns."""
    return text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n")


def check_text(text: str, name: str, start: int = 0, encoding: str = "utf-8") -> None:
    """Raise CorpusError if a text that begins at byte `start` has a character that no text file contains."""
    for first in range(0, len(text), BLOCK_BYTES):
        if wrong := _NOT_TEXT.search(text, first, first + BLOCK_BYTES):
            raise _not_text(name, start + len(text[: wrong.start()].encode(encoding)))


def _not_text(name: str, byte: int) -> CorpusError:
    return CorpusError(f"{name} is not plain text (byte {byte}); save it as UTF-8 text.")


def _likely_encodings(data: bytes, wrong: int) -> dict[str, str]:
    """The encodings in which frequent characters are frequent in a part of the data, and how they read it.

    wrong: the first byte that is not UTF-8. If many bytes before it are, the data is damaged UTF-8.
    """
    if wrong - len(data[:wrong].decode()) > _DAMAGED:
        return {}
    line = data.rfind(b"\n", 0, wrong) + 1
    start = line if wrong - line < _SAMPLE_BYTES // 2 else wrong
    words = b"".join(word for word in data[start : start + _SAMPLE_BYTES].split() if not word.isascii())
    is_latin = sum(byte < 128 for byte in words) >= _MIXED * len(words)
    scores, previews = {}, {}
    for name, (codec, frequent, usual) in ENCODINGS.items():
        try:
            text = codecs.getincrementaldecoder(codec)().decode(data[start : start + _SAMPLE_BYTES])
        except UnicodeDecodeError:
            continue
        others = [character for character in text if not character.isascii()]
        score = sum(character in frequent for character in others) / max(1, len(others)) / usual
        if score >= _LIKELY and not _NOT_TEXT.search(text):
            is_other_script = name.startswith("windows") and is_latin != (name in _LATIN)
            scores[name] = score - is_other_script
            first = max(0, text.index(others[0]) - _PREVIEW // 2)
            previews[name] = " ".join(text[first : first + _PREVIEW].split())
    return {name: previews[name] for name in sorted(scores, key=lambda name: -scores[name])}
