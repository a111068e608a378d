"""Words with tags: token-classification, from CoNLL's files: a word a line, the tag in the last column, a blank line
between sentences. A long sentence is read in parts."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding, Tokenizer

from bert_core.data.tokenizer import end_of_marks, plain
from bert_core.errors import CorpusError, quoted
from bert_core.tasks import task
from bert_core.tasks.tables import Columns, Rows, TaskFile, Usual
from bert_core.tasks.task import Json, Layout, Metrics, Parts, Prediction, Row, Verdict, accuracy, ratio

Entity = tuple[str, int, int]  # type, first word, and the word after the last one

_NEW_DOCUMENT = re.compile("^-DOCSTART-.*", re.MULTILINE)
_COMMENT = re.compile("^#.*", re.MULTILINE)  # of CoNLL-U, before a sentence
_CONLL_U = re.compile(r"(?:#.*\n)*\d+(?:-\d+)?(?:\t[^\t\n]+){9}\n")  # how its files begin
_MOST_WORDS = 100  # of a sentence, which is likely several of them
_BEGIN, _END = {*"BS"}, {*"ES"}


@dataclass(frozen=True, slots=True)
class TaggedExample(task.Example):
    """The words of a sentence and their tags, such as O, B-person and I-person (IOB2). line: of the first word. text:
    that has the words; None if it has spaces between them."""

    words: tuple[str, ...]
    label: tuple[str, ...] | None
    line: int = 0
    text: str | None = None

    @classmethod
    def of_text(cls, text: str, tokenizer: Tokenizer, line: int = 0) -> "TaggedExample":
        """The words of a text as its tokenizer divides it, without characters that it drops."""
        encoding = plain(tokenizer).encode(text, add_special_tokens=False)
        ends: dict[int | None, tuple[int, int]] = {}
        for word, (start, end) in zip(encoding.word_ids, encoding.offsets):
            ends[word] = ends.get(word, (start, end))[0], end_of_marks(text, end)
        return cls(tuple(text[start:end] for start, end in ends.values()), None, line, text)

    @property
    def texts(self) -> tuple[str, ...]:
        return (" ".join(self.words) if self.text is None else self.text,)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first character of each word in the text, and that after its last one."""
        [text], end, spans = self.texts, 0, []
        for word in self.words:
            start = text.index(word, end)
            end = start + len(word)
            spans.append((start, end))
        return spans


class BertForTokenClassification(task.BertForTask):
    """A label for each token: logits (R, T, L)."""


class TokenClassification(task.Task):
    """A tag for each word, at its first token."""

    name = "token-classification"
    example = TaggedExample
    model = BertForTokenClassification
    measure = "f1"
    form = "a word and a tag on each line"
    usual = Usual(
        ("the word", "the tag"),
        ("words?|tokens?|form|text",),
        ("tag", "tags", "label", "labels", "nertag", "nertags", "ner", "upos", "pos", "postag", "entity"),
        {2: ([0], 1), 4: ([0], 3), 10: ([1], 3)},  # word and tag, CoNLL-2003, CoNLL-U
        most=1,
    )
    has_names = True
    keeps_characters = True  # a word may be one of those without width alone
    is_split = True

    def read(self, file: TaskFile) -> list[TaggedExample]:
        lines = file.text.split("\n")
        if not (file.labelled or file.chosen or file.separator) and not self._has_tags(file, lines):
            return self._read_texts(file, lines)
        file.text = _NEW_DOCUMENT.sub("", file.text)  # the empty line ends a sentence
        is_conll_u = _CONLL_U.match(file.text) is not None
        if is_conll_u:
            file.text, comments = _COMMENT.subn("", file.text)
            file.count("Comments left out", comments)
        file.separator = file.separator or ("tab" if "\t" in file.first_line else "space")
        columns, rows = file.table("Words", "Tags")
        if len(columns.first[0]) == 4 and columns.first[0][0].isdecimal() and not (file.chosen or file.learned):
            raise file.unclear(columns)  # a number of the word, which CoNLL-2003 does not have
        if is_conll_u:  # without several words in one, such as 1-2, and words that are not there, such as 1.1
            rows = [(line, row) for line, row in rows if not row or row[0].isdecimal()]
        groups = (list(group) for has_words, group in itertools.groupby(rows, lambda row: row[1] != ()) if has_words)
        examples = [self._sentence(file, columns, group) for group in groups]
        given = (row[columns.label[0]] for _, row in rows if row and columns.label)
        changed = sum(a != b for a, b in zip(given, (tag for each in examples for tag in each.label or ())))
        file.count("Tags with I- that begin an entity, now with B-", changed)
        file.count("Empty words, which no model can read", sum(each.words.count("") for each in examples))
        if len(examples) == 1 and (count := len(examples[0].words)) > _MOST_WORDS:
            said = f"No line is empty, so all {count:,} words are one sentence."
            file.notes.append(f"{said} End each with an empty line.")
        return examples

    def _sentence(self, file: TaskFile, columns: Columns, rows: Rows) -> TaggedExample:
        words, tags = tuple(row[columns.texts[0]] for _, row in rows), list[str]()
        for line, row in rows if columns.label else ():
            if not (tag := row[columns.label[0]]):
                raise file.wrong(line, "has an empty tag", "a tag is O, a type, or B- or I- and an entity's type")
            mark, kind = marked(tag)  # in IOB1, an entity begins with I- unless it follows another of its type
            begins = mark == "I" and (not tags or marked(tags[-1])[1] != kind)
            tags.append(f"B-{kind}" if begins else tag)
        return TaggedExample(words, tuple(tags) if columns.label else None, rows[0][0])

    def _has_tags(self, file: TaskFile, lines: Sequence[str]) -> bool:
        """Whether every line ends in a tag, so that its words have columns."""
        last = {line.split()[-1] for line in lines if line.strip() and not line.startswith("-DOCSTART-")}
        return last <= {*file.labels, "O"} or all("\t" in line for line in lines if line.strip())

    def _read_texts(self, file: TaskFile, lines: Sequence[str]) -> list[TaggedExample]:
        if file.tokenizer is None:
            raise CorpusError(f"The texts of {file.name} need a model that divides them into words; give model.")
        file.notes.append("Each line was read as a text. For a file with a word on each line, choose its columns.")
        lines = lines[: len(lines) - (not lines[-1])]
        file.blanks += [i for i, line in enumerate(lines) if not line.strip()]
        read = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        return [TaggedExample.of_text(line, file.tokenizer, number) for number, line in read]

    def inputs(self, example: TaggedExample) -> Sequence[Sequence[str]]:
        return (example.words,)

    def rows_of(self, example: TaggedExample, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
        [encoding] = texts
        word_of = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
        begins = np.flatnonzero(np.diff(word_of, prepend=-1))  # the first token of each word that has any
        tags = None if example.label is None else np.array([layout.ids[tag] for tag in example.label])
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

    def decode(self, example: TaggedExample, parts: Parts, layout: Layout) -> Prediction:
        tags = ["O"] * len(example.words)
        for row, logits in parts:
            for word, label in zip(row.words if row.words is not None else (), logits.argmax(1)):
                tags[word] = layout.labels[label]
        return Prediction(tuple(tags))

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

    def always(self, right: Sequence) -> tuple[str, Sequence]:
        most = Counter(itertools.chain(*right)).most_common(1)[0][0]
        return quoted(most), [(most,) * len(tags) for tags in right]

    def judge(self, example: TaggedExample, found: Prediction, labels: Sequence[str]) -> Verdict:
        wrong = sum(a != b for a, b in zip(example.label or (), found.label))
        return not wrong, ratio(wrong, len(found.label))

    def as_json(self, example: TaggedExample, found: Prediction, labels: Sequence[str]) -> Json:
        [text], spans = example.texts, example.spans
        places = [(kind, spans[first][0], spans[after - 1][1]) for kind, first, after in entities(found.label)]
        listed = [{"type": kind, "text": text[a:b], "start": a, "end": b} for kind, a, b in places]
        return {"entities": listed, "words": list(example.words), "tags": list(found.label)}


def marked(tag: str) -> tuple[str, str]:
    """The mark of a tag, one of IOB, BIOES and BMES, and the type of its entity: B and person of B-person. A tag
    without a mark, such as NOUN, is a type; O has none."""
    mark, _, kind = tag.partition("-")
    if mark in {*"BIMES"} and kind:
        return mark, kind
    return ("O", "") if tag == "O" else ("", tag)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities that a sentence's tags mark. One begins at each B- and S-, and at a tag that continues none of its
    type; it ends after E- and S-. Neighbours with one tag without a mark are one, as in `transformers`."""
    found: list[Entity] = []
    is_open = False
    for i, tag in enumerate(tags):
        mark, kind = marked(tag)
        if is_open and found[-1][0] == kind and mark not in _BEGIN:
            found[-1] = (kind, found[-1][1], i + 1)
        elif mark != "O":
            found.append((kind, i, i + 1))
        is_open = mark != "O" and mark not in _END
    return found
