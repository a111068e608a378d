"""Words with tags: token-classification, from CoNLL's files: a word a line, the tag in the last column, a blank line
between sentences. A long sentence is read in parts."""

import itertools
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Encoding, Tokenizer

from bert_core.data.tokenizer import end_of_marks, plain
from bert_core.errors import CorpusError
from bert_core.storage.untrusted import Json
from bert_core.tasks.tables import Columns, Rows, TaskFile, Usual
from bert_core.tasks.task import BertForTask, Example, Layout, Metrics, Parts, Prediction, Row, Task, accuracy, ratio

Entity = tuple[str, int, int]  # type, first word, and the word after the last one

_NEW_DOCUMENT = re.compile("^-DOCSTART-.*", re.MULTILINE)
_COMMENT = re.compile(r"^#[^\t\n]*$", re.MULTILINE)  # of CoNLL-U, before a sentence
_NO_WORD = re.compile(r"\d+[-.]\d+")  # the number in CoNLL-U of several words in one, and of one that is not there
_MOST_WORDS = 100  # of a sentence, which is likely several of them
_BEGIN, _END = {*"BS"}, {*"ES"}


class BertForTokenClassification(BertForTask):
    """A label for each token: logits (R, T, L)."""


class TokenClassification(Task):
    """A tag for each word, at its first token."""

    name = "token-classification"
    model = BertForTokenClassification
    measure = "f1"
    texts = range(1, 2)
    has_words = True
    form = "a word and a tag on each line"
    usual: ClassVar[Usual] = Usual(
        ("the word", "the tag"),
        "words?|tokens?|form|text",
        ("tag", "tags", "label", "labels", "nertag", "nertags", "ner", "upos", "pos", "postag", "entity"),
        {2: ([0], [1]), 4: ([0], [3]), 10: ([1], [3])},  # word and tag, CoNLL-2003, CoNLL-U
        ("Words", "Tags"),
        most=1,
    )

    def read(self, file: TaskFile) -> list[Example]:
        has_tabs = "\t" in next((line for line in file.text.split("\n") if line.strip() and line[0] != "#"), "")
        if not (file.labelled or file.chosen or file.separator or has_tabs):
            return _texts(file)
        file.text = _NEW_DOCUMENT.sub("", file.text)  # the empty line ends a sentence
        if has_tabs:
            file.text = _COMMENT.sub("", file.text)
        file.separator = file.separator or ("tab" if has_tabs else "space")
        columns, rows = file.table(self.usual)
        rows = [(line, row) for line, row in rows if len(row) != 10 or not _NO_WORD.fullmatch(row[0])]
        groups = (list(group) for has_words, group in itertools.groupby(rows, lambda row: row[1] != ()) if has_words)
        examples = [_sentence(file, columns, group) for group in groups]
        if len(examples) == 1 and (count := len(examples[0].words or ())) > _MOST_WORDS:
            said = f"No line is empty, so all {count:,} words are one sentence."
            file.notes.append(f"{said} End each with an empty line.")
        return examples

    def rows_of(self, example: Example, number: int, texts: Sequence[Encoding], layout: Layout) -> list[Row]:
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
            words, ids = word_of[first], [layout.cls, *encoding.ids[start:stop], layout.sep]
            rows.append(Row(ids, len(ids), number, None if tags is None else tags[words], first - start + 1, words))
            start = stop
        return rows

    def decode(self, example: Example, parts: Parts, layout: Layout) -> Prediction:
        tags = ["O"] * len(example.words or ())
        for row, logits in parts:
            for word, label in zip(row.words if row.words is not None else (), logits.argmax(1)):
                tags[word] = layout.labels[label]
        return Prediction(tuple(tags))

    def measures(self, right: Sequence[Any], found: Sequence[Any], labels: Sequence[str] = ()) -> Metrics:
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

    def as_json(self, example: Example, found: Prediction, labels: Sequence[str]) -> Json:
        [text] = example.texts
        marks = places(example, found.label)
        listed = [{"type": kind, "text": text[a:b], "start": a, "end": b} for kind, a, b in marks]
        return {"entities": listed, "words": list(example.words or ()), "tags": list(found.label)}


def divided(text: str, tokenizer: Tokenizer) -> Example:
    """A text with its words as a tokenizer divides it, without characters that it drops."""
    encoding = plain(tokenizer).encode(text, add_special_tokens=False)
    ends: dict[int | None, tuple[int, int]] = {}
    for word, (start, end) in zip(encoding.word_ids, encoding.offsets):
        ends[word] = ends.get(word, (start, end))[0], end_of_marks(text, end)
    return Example((text,), words=tuple(text[start:end] for start, end in ends.values()))


def places(example: Example, tags: Sequence[str]) -> list[Entity]:
    """The entities that tags mark in a text: the type, the first character, and that after the last one."""
    [text], end, spans = example.texts, 0, list[tuple[int, int]]()
    for word in example.words or ():
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return [(kind, spans[first][0], spans[after - 1][1]) for kind, first, after in entities(tags)]


def _texts(file: TaskFile) -> list[Example]:
    """Each line as a text."""
    if file.tokenizer is None:
        raise CorpusError(f"The texts of {file.name} need a model that divides them into words; give model.")
    file.notes.append("Each line was read as a text. For a file with a word on each line, choose its columns.")
    lines = file.text.removesuffix("\n").split("\n")
    file.blanks += [i for i, line in enumerate(lines) if not line.strip()]
    return [divided(line, file.tokenizer) for line in lines if line.strip()]


def _sentence(file: TaskFile, columns: Columns, rows: Rows) -> Example:
    words, tags = tuple(row[columns.texts[0]] for _, row in rows), list[str]()
    for line, row in rows if columns.label else ():
        if not (tag := row[columns.label[0]]):
            raise file.wrong(line, "has an empty tag", "a tag is O, a type, or B- or I- and an entity's type")
        mark, kind = marked(tag)  # in IOB1, an entity begins with I- unless it follows another of its type
        begins = mark == "I" and (not tags or marked(tags[-1])[1] != kind)
        file.counts["Tags with I- that begin an entity, now with B-"] += begins
        tags.append(f"B-{kind}" if begins else tag)
    file.counts["Empty words, which no model can read"] += words.count("")
    return Example((" ".join(words),), tuple(tags) if columns.label else None, words)


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
