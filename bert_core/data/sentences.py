"""From a paragraph to sentences, in any script."""

import re

MAX_WORD_CHARACTERS = 100  # WordPiece takes quadratic time in the length of a word
MAX_RUN_CHARACTERS = 1000  # without white space, such as an address on the web

# Scripts that write no spaces between words, as part of a character class: Thai, Lao, Tibetan, Burmese; Khmer; Tai
# scripts; Balinese; kana, Bopomofo, Han, Yi; Javanese.
UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u2e80-\u2fdf\u3005-\u3007\u3041-\u312f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
GREEK = "\u0370-\u03ff\u1f00-\u1fff"
# Marks that end a sentence with or without white space behind them (Sentence_Terminal in UAX #29, and ；), and marks
# that need white space behind them or such a script before them.
ENDS = "。｡！？；‼⁇⁈⁉।॥؟۔܀։።፧፨།༎။។៕᠃"
_WEAK_ENDS = ".!?…．"
_GREEK_QUESTIONS = ";\u037e"
MARKS = f"{ENDS}{_WEAK_ENDS}{_GREEK_QUESTIONS}"
_CLOSING = "\"'”’»›)\\]」』】》〉）］｝〕"

# No pattern here backtracks: a match begins only where a run begins, so every run is read once.
LONG_WORD = re.compile(
    rf"(?<![^\W{UNSPACED}])[^\W{UNSPACED}]{{{MAX_WORD_CHARACTERS + 1},}}"
    rf"|(?<![^\s{UNSPACED}])[^\s{UNSPACED}]{{{MAX_RUN_CHARACTERS + 1},}}"
)
# “ and « close a quotation in German; before a letter, they open one. French writes a space before ».
_SENTENCE_END = re.compile(rf"(?<![{MARKS}])([{MARKS}]+)([{_CLOSING}]*(?:[“«‹](?!\S)|\s[»›](?!\S))?)\s*")
FINAL_MARK = re.compile(rf"[{ENDS}{_WEAK_ENDS}][{_CLOSING}“«‹]*\Z")
_GREEK, _UNSPACED = re.compile(f"[{GREEK}]"), re.compile(f"[{UNSPACED}]")
_QUOTED_ON = re.compile("[、，,]|と|って|など")  # after a quotation in Japanese: its sentence goes on
# A title, another common short form, a single letter that is no word, and in Thai and Lao any word before a full stop.
_ABBREVIATION = re.compile(
    r"\b(?:Mrs?|Ms|Dr|St|Prof|Sr|Jr|Gen|Col|Capt|Lt|Sgt|Gov|Sen|Rev|Mt|vs|e\.g|i\.e|cf|al|bzw|vgl|Chr|Mio|Mrd|Hr"
    r"|Mme|Mlle|MM|Mgr|Sra|Srta|Dra|EE|Sig|[Dd]ott|prof|[Aa]v|v"
    r"|TP|GS|TS|εκατ|δισ|гг|ок|им|ул|см|тыс|млн|млрд|проф|d\. ?h|т\. ?е|डॉ"
    r"|[A-ZÀ-ÞΑ-ΩА-Яβγδζθκλμνξπρστφχψбвгджзклмнпрстфхцчшщא-תء-ي])\.$|[\u0e01-\u0edf]\.$"
)
# The number or letter of an item of a list, at the start of its sentence.
_ITEM = re.compile(rf"[(\[]?(?:\d{{1,3}}(?:\.\d{{1,3}})*|[IVXLCivxlc]{{2,5}}|(?![{UNSPACED}])[^\W\d_])\.[)\]]?\s+")
# Numbers and small letters end no sentence before these: 3. Oktober, 19. yüzyıl, z. B., v. Chr.
_ORDINAL = re.compile(r"(?:(?<![\d.,])\d{1,3}|\b[b-df-hj-np-tv-xz])\.$")
_AFTER_ORDINAL = re.compile(r"\s*(?:[a-zß-ÿα-ωа-я]|[A-Z]\.|Chr|Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jahr)")
# Before a number, very short forms and short ones with a capital are abbreviations: Art. 5, Jan. 2001, c. 1780, No. 7;
# so are these with a small letter. Any word would be too many: sentences begin with numbers too.
_NUMBERED = re.compile(
    r"\b(?:(?![a-z]*[aeiouy])\w{1,2}|[A-ZÀ-ÞΑ-ΩА-Я]\w{1,3}|arts?|figs?|sect?|vols?|par|paras?|chap|nos?|eqs?|op|ed|ca|tab"
    r"|approx|abb|kap|str|rys|poz|ust|núm|fasc|cap|αρ|αριθ|απεβ|άρθ|рис|табл|стр|гл)\.$"
)
# Thai and Lao have no mark for the end of a sentence. A space ends a phrase there, except beside a number, another
# script, or a sign of abbreviation or repetition.
_NOT_A_LETTER = r"[\d฿ฯๆຯໆ]"
_PHRASE_END = re.compile(rf"(?<=[\u0e01-\u0edf])(?<!{_NOT_A_LETTER})\s+(?=[\u0e01-\u0edf])(?!{_NOT_A_LETTER})")
_FIRST_LETTER = 100  # characters, among which the first letter is looked for


def split_sentences(paragraph: str, phrases: bool = True) -> list[str]:
    """Split a paragraph into sentences: after the marks of many scripts, in Thai and Lao also between phrases.

    Closing quotes stay with their sentence. Common abbreviations, initials and ordinal numbers end none."""
    sentences: list[str] = []
    letters = (character for character in paragraph[:_FIRST_LETTER] if character.lower() != character.upper())
    start, has_capitals = len(paragraph) - len(paragraph.lstrip()), next(letters, "").isupper()
    for end in _SENTENCE_END.finditer(paragraph):
        if _ends_sentence(paragraph, start, end, has_capitals):
            sentences.append(paragraph[start : end.end()].strip())
            start = end.end()
    if rest := paragraph[start:].strip():
        sentences.append(rest)
    if paragraph.isascii() or not phrases:
        return sentences
    return [phrase for sentence in sentences for phrase in _PHRASE_END.split(sentence)]


def _ends_sentence(paragraph: str, start: int, end: re.Match[str], has_capitals: bool) -> bool:
    """Whether the marks end the sentence that begins at `start`. has_capitals: sentences begin with one."""
    marks, closing = end.groups()
    first, stop = end.start(), end.end(2)
    before, after = paragraph[max(start, first - 1) : first], paragraph[stop : stop + 1]
    if not marks.strip(_GREEK_QUESTIONS) and not _GREEK.match(before):
        return False
    if not marks.strip(_WEAK_ENDS):
        is_apart = not after or after.isspace()
        if not is_apart and (not _UNSPACED.match(before) or (after.isascii() and after.isalnum())):
            return False
        following = paragraph[stop : stop + 4].strip()
        letters = following.lstrip("-–— ")
        item = _ITEM.match(paragraph, start) if marks == "." else None
        if item and item.end() >= stop:  # the full stop of "3."
            return False
        if item and _ITEM.match(paragraph, stop + 1):  # the next item of the list
            return True
        if closing or letters != following:  # a quotation; its sentence goes on in small letters
            return not letters[:1].islower()
        if marks == ".":
            # Searching only the last characters avoids quadratic time on a page of initials.
            begin = max(start, stop - 8)
            if (has_capitals and following[:1].islower()) or _ABBREVIATION.search(paragraph, begin, stop):
                return False
            if following[:1].isdecimal() and _NUMBERED.search(paragraph, begin, stop):
                return False
            return not (_ORDINAL.search(paragraph, begin, stop) and _AFTER_ORDINAL.match(paragraph, stop))
        return True
    return not (closing and _QUOTED_ON.match(paragraph, stop))
