"""Words with tags: token-classification, from CoNLL's files: a word a line, the tag in the last column, a blank line
between sentences. A long sentence is read in parts."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from tokenizers import Encoding

from bert_core.errors import first_three, quoted
from bert_core.tasks import task
from bert_core.tasks.tables import JSON_OBJECT, TaskFile, numbered, plain
from bert_core.tasks.task import Json, Layout, Metrics, Parts, Row, Verdict, accuracy, ratio

Entity = tuple[str, int, int]  # type, first word, and the word after the last one

_NEW_DOCUMENT = "-DOCSTART-"
_CONLL_U = True, 10  # the form of a line, see `_form`
_NO_WORD = re.compile(r"\d+[-.]\d+\t")  # there, of several words in one or of none: 1-2 im
_WORD_NAMES = {"word", "words", "token", "tokens", "form", "text"}
_TAG_NAMES = {"tag", "tags", "label", "labels", "ner", "nertag", "nertags", "pos", "upos", "xpos", "postag", "entity"}
_NUMBER = re.compile(r"([^\W\d_]*[ :#_.-]*)\d[\d.:-]*")  # of a word or a sentence, such as 7, s1 or Sentence: 1
_MOST_WORDS = 100  # of a sentence, which is likely several of them
_WORD_AND_TAG = "write a word first and its tag last in the same columns on every line"
_MARKS, _BEGIN, _END = ({*"BIMESLU"}, {*"BSU"}, {*"ESLU"})
_ONLY_KIND = "entity"  # of tags that are marks alone


@dataclass(frozen=True, slots=True)
class TaggedExample(task.Example):
    """The words of a sentence and their tags, such as O, B-person and I-person (IOB2). line: of the first word."""

    answer: ClassVar[str] = "tags"

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    line: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        return (" ".join(self.words),)

    @property
    def right(self) -> tuple[str, ...]:
        return self.tags or ()

    def in_words(self, value: Sequence[str]) -> str:
        return "; ".join(f"{kind}: {' '.join(self.words[a:b])}" for kind, a, b in entities(value))

    @property
    def named_labels(self) -> Sequence[tuple[str, int]]:
        return [(tag, self.line + i) for i, tag in enumerate(self.right)]


@dataclass(frozen=True)
class TagPrediction(task.Prediction):
    """A tag for each word of a sentence; O for a word that the tokenizer drops."""

    answer: ClassVar[str] = "tags"

    tags: tuple[str, ...]


class BertForTokenClassification(task.BertForTask):
    """A label for each token: logits (R, T, L)."""


class TokenClassification(task.Task[TaggedExample, TagPrediction]):
    """A tag for each word, at its first token."""

    name = "token-classification"
    example = TaggedExample
    model = BertForTokenClassification
    measure = "f1"
    form = "a word and a tag on each line"
    columns = ("the word", "the tag")
    keeps_characters = True  # a word may be one of those without width alone
    is_split = True

    def read(self, file: TaskFile) -> list[TaggedExample]:
        file.count("\n\t")
        first_line, first = next(((number, line) for number, line in _lines(file) if line), (1, ""))
        if not first:
            return []
        width = len(_fields(first))
        if JSON_OBJECT.match(first):
            raise file.wrong(first_line, "is JSON", _WORD_AND_TAG)
        if not file.labelled and not file.chosen and _has_sentences(file, first):
            return _sentences(file)
        if file.labelled and width == 1:
            raise file.wrong(first_line, "has 1 column", _WORD_AND_TAG)
        known, names = numbered(width), [plain(each) for each in _fields(first)]
        if not file.chosen:
            learned, label = ([each for each in given if each in known] for given in (file.learned, file.learned_label))
            tag = [known.index(label[0]) if learned and label else _tag_column(file, width)] if file.labelled else []
            if not learned and width > 2 and _is_numbered(file, not _WORD_NAMES.isdisjoint(names)):
                remedy = "choose the word and the tag with --columns, for example 2,3"
                raise file.wrong(first_line, "begins with a number, and so do all others", remedy)
            file.chosen = [*(learned or known[tag == [0] :][:1]), *(known[i] for i in tag)]
        word, *tag = file.chosen_among(known, 1)
        file.say(known, False, Words=[word], Tags=tag)
        is_header = width > 1 and names[word] in _WORD_NAMES and names[tag[0] if tag else -1] in _TAG_NAMES
        file.notes += ["The first line is a header, which was left out."] * is_header
        left_out = sum(1 for _ in file.lines()) - sum(1 for _ in _lines(file))
        file.notes += [f"Lines left out that are comments or no words: {left_out:,}."] * bool(left_out)
        changed, examples = 0, list[TaggedExample]()
        read = ((number, _fields(line)) for number, line in _lines(file) if not is_header or number != first_line)
        groups = itertools.groupby(read, lambda row: row[1] != [])
        for sentence in (list(group) for has_words, group in groups if has_words):
            tags: list[str] = []
            for number, fields in sentence:
                if len(fields) != width:
                    problem = f"has another number of columns ({len(fields)}) than the first line ({width})"
                    raise file.wrong(number, problem, _WORD_AND_TAG)
                tags += [_tag(fields[i], tags[-1] if tags else "O", file, number) for i in tag]
                changed += any(fields[i] != tags[-1] for i in tag)
            words = tuple(fields[word] for _, fields in sentence)
            examples.append(TaggedExample(words, tuple(tags) if tag else None, sentence[0][0]))
        types = {each for example in examples for each in example.right if each != "O" and not marked(each)[0]}
        empty = sum(each.words.count("") for each in examples)
        said = "Tags without a mark such as B- are read as types of entities"
        file.notes += [f"{said}: {first_three(map(quoted, sorted(types)))}."] * bool(types)
        file.notes += [f"Tags with I- that begin an entity, now with B-: {changed:,}."] * bool(changed)
        file.notes += [f"Empty words, which no model can read: {empty:,}."] * bool(empty)
        if len(examples) == 1 and (count := len(examples[0].words)) > _MOST_WORDS:
            file.notes.append(
                f"No line is empty, so all {count:,} words are one sentence. End each with an empty line."
            )
        return examples

    def inputs(self, example: TaggedExample) -> Sequence[Sequence[str]]:
        return (example.words,)

    def rows_of(self, example: TaggedExample, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        [encoding] = texts
        word_of = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
        begins = np.flatnonzero(np.diff(word_of, prepend=-1))  # the first token of each word that has any
        tags = None if example.tags is None else np.array([layout.ids[tag] for tag in example.tags])
        rows: list[Row] = []
        start = 0
        while start < len(word_of) or not rows:
            stop = min(start + layout.config.sequence_length - 2, len(word_of))
            if stop < len(word_of):  # at the last word that begins inside, unless it is the only one
                inside = begins[(begins > start) & (begins <= stop)]
                stop = int(inside[-1]) if len(inside) else stop
            first = begins[(begins >= start) & (begins < stop)]
            words = word_of[first]
            ids = [layout.cls, *encoding.ids[start:stop], layout.sep]
            target = None if tags is None else tags[words]
            rows.append(Row(ids, len(ids), number, target, first - start + 1, words))
            start = stop
        return rows

    def decode(self, example: TaggedExample, parts: Parts, layout: Layout) -> TagPrediction:
        tags = ["O"] * len(example.words)
        for row, logits in parts:
            for word, label in zip(row.words if row.words is not None else (), logits.argmax(1)):
                tags[word] = layout.labels[label]
        return TagPrediction(tuple(tags))

    def measures(self, right: Sequence, found: Sequence, labels: Sequence[str] = ()) -> Metrics:
        """precision, recall and f1 of whole entities, and the accuracy of single tags, as conlleval computes them."""
        pairs = [({*entities(a)}, {*entities(b)}) for a, b in zip(right, found)]
        correct = sum(len(a & b) for a, b in pairs)
        wanted, guessed = (sum(map(len, each)) for each in zip(*pairs)) if pairs else (0, 0)
        return {
            "precision": ratio(correct, guessed),
            "recall": ratio(correct, wanted),
            "f1": ratio(2 * correct, guessed + wanted),
            "accuracy": accuracy(list(itertools.chain(*right)), list(itertools.chain(*found))),
        }

    def judge(self, example: TaggedExample, found: TagPrediction, labels: Sequence[str]) -> Verdict:
        wrong = sum(a != b for a, b in zip(example.right, found.tags))
        return not wrong, ratio(wrong, len(example.right))

    def compared(self, example: TaggedExample, found: TagPrediction) -> Iterable[tuple[str, str]]:
        return zip(example.right, found.tags)

    def as_json(self, example: TaggedExample, found: TagPrediction, labels: Sequence[str]) -> Json:
        return {
            "entities": [
                {"type": kind, "text": " ".join(example.words[start:end]), "start": start, "end": end}
                for kind, start, end in entities(found.tags)
            ]
        }


def _is_numbered(file: TaskFile, has_header: bool) -> bool:
    """Whether all lines, but for a header, begin with numbers that are written alike."""
    rows = (_fields(line) for _, line in _lines(file) if line)
    found = (_NUMBER.fullmatch(row[0]) for row in itertools.islice(rows, has_header, None))
    first = next(found, None)
    return first is not None and all(number is not None and number[1] == first[1] for number in found)


def _lines(file: TaskFile) -> Iterator[tuple[int, str]]:
    """Every line but comments, whose form is another one; one that begins a document is empty: it ends a sentence."""
    words = (line for _, line in file.lines() if line and not line.startswith(("#", _NEW_DOCUMENT)))
    form = _form(next(words, file.first_line()[1]))
    for number, line in file.lines():
        is_word = _form(line) == form if line.startswith("#") else form != _CONLL_U or not _NO_WORD.match(line)
        if is_word:
            yield number, "" if line.startswith(_NEW_DOCUMENT) else line


def _form(line: str) -> tuple[bool, int]:
    """Whether a line has tabs, and how many columns."""
    return "\t" in line, len(_fields(line))


def _fields(line: str) -> list[str]:
    """The columns of a line, or the words of a sentence. White space but spaces and tabs belongs to a word."""
    if "\t" in line:
        return [each.strip(" ") for each in line.split("\t")]
    return [each for each in line.split(" ") if each]


def _tag_column(file: TaskFile, width: int) -> int:
    """The last column with nothing but O and tags such as B-person, else the last one."""
    found = {*range(width)}
    for _, line in _lines(file):
        fields = enumerate(_fields(line)[:width])
        found -= {i for i, tag in fields if tag != "O" and ("-" not in tag or not marked(tag)[0])}
    return max(found, default=width - 1)


def _has_sentences(file: TaskFile, first: str) -> bool:
    """Whether lines without labels are sentences, and not words with columns, of which the last is one of tags."""

    def is_tag(word: str) -> bool:
        return word in (file.labels or ()) or word == "O" or ("-" in word and marked(word)[0] != "")

    lines = [_fields(line) for _, line in file.lines() if line]
    return "\t" not in first and max(map(len, lines)) > 1 and not all(is_tag(fields[-1]) for fields in lines)


def _sentences(file: TaskFile) -> list[TaggedExample]:
    file.notes.append("Each line was read as a sentence, with its words between spaces.")
    file.blanks += [i for i, (_, line) in enumerate(file.lines()) if not line]
    return [TaggedExample(tuple(_fields(line)), None, number) for number, line in file.lines() if line]


def _tag(tag: str, before: str, file: TaskFile, line: int) -> str:
    """A tag in IOB2; in IOB1, an entity begins with I- unless it follows another one of its type."""
    if not tag:
        raise file.wrong(line, "has an empty tag", "a tag is O, a type, or B- or I- and the type of the entity")
    mark, kind = marked(tag)
    return f"B-{kind}" if mark == "I" and kind and marked(before)[1] != kind else tag


def marked(tag: str) -> tuple[str, str]:
    """The mark of a tag, one of IOB, BIOES, BMES and BILOU, and the type of its entity: B and person of B-person. A tag
    without a mark, such as NOUN, is a type; O and a mark alone, as in files with one kind of entity, have none."""
    mark, dash, kind = tag.partition("-")
    if mark in _MARKS and bool(dash) == bool(kind):
        return mark, kind
    return ("O", "") if tag == "O" else ("", tag)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities that a sentence's tags mark. One begins at each B-, S- and U-, and at a tag that continues none of
    its type; it ends after E-, L-, S- and U-. Neighbours with one tag without a mark are one, as in `transformers`."""
    found: list[Entity] = []
    is_bare = {*tags} <= {"O", *_MARKS}
    is_open = False
    for i, tag in enumerate(tags):
        mark, kind = marked(tag)
        if mark in _MARKS and not kind:
            mark, kind = (mark, _ONLY_KIND) if is_bare else ("", tag)
        if is_open and found[-1][0] == kind and mark not in _BEGIN:
            found[-1] = (kind, found[-1][1], i + 1)
        elif mark != "O":
            found.append((kind, i, i + 1))
        is_open = mark != "O" and mark not in _END
    return found
