"""Which columns of a file are read: by the names of its header, by their order where that is clear, or as chosen; what
was read is said. Files without labels fit the model that they are for."""

import dataclasses
import json
import random

import pytest
import torch
from helpers import with_head

from bert_core import finetune, load_checkpoint, load_task, predict, save_checkpoint
from bert_core.__main__ import main
from bert_core.errors import CorpusError, InputError
from bert_core.storage.checkpoint import TaskHead
from bert_core.tasks.prediction import task_of
from bert_core.tasks.texts import TextExample
from bert_core.tasks.token_classification import TaggedExample

CLASSIFY, REGRESS, TAG = "text-classification", "text-regression", "token-classification"


def read(folder, text, task=CLASSIFY, name="task.txt", **options):
    path = folder / name
    path.write_bytes(text.encode())
    return load_task(path, task, **options)


def rows(data):
    return [(each.text, each.pair, each.label) for each in data.examples]


def tsv(*lines):
    return "".join("\t".join(line.split("|")) + "\n" for line in lines)


MNLI = "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|sentence2_parse"
MNLI += "|sentence1|sentence2|label1|gold_label"
STSB = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score"
STSB_LINE = "0|news|f|2012|1|none|none|t1|t2"
PAIR = "index|sentence1|sentence2|label"
NAMED = [
    ("review|sentiment", "good|pos", "Texts: review. Label: sentiment."),
    ("text|label|label_text", "good|1|positive", "Texts: text. Label: label. Left out: label_text."),
    ("text|label|source", "good|1|web", "Texts: text. Label: label. Left out: source."),
    ("id|text|label", "7|good|1", "Texts: text. Label: label. Left out: id."),
    ("text|intent", "good|greet", "Texts: text. Label: intent."),
    ("Label|Text", "1|good", "Texts: Text. Label: Label."),
    ("category|title", "1|good", "Texts: title. Label: category."),
    ("text|colour", "good|red", "Texts: text. Label: colour."),
    ("index|sentence|label", "0|good|1", "Texts: sentence. Label: label. Left out: index."),
]
PAIRS = [
    ("question1|question2|is_duplicate", "a|b|1", "Texts: question1, question2. Label: is_duplicate."),
    (
        "id|qid1|qid2|question1|question2|is_duplicate",
        "0|1|2|a|b|1",
        "Texts: question1, question2. Label: is_duplicate. Left out: id, qid1, qid2.",
    ),
    ("index|question|sentence|label", "0|a|b|entailment", "Texts: question, sentence. Label: label. Left out: index."),
    ("premise|hypothesis|label|uid", "a|b|1|n", "Texts: premise, hypothesis. Label: label. Left out: uid."),
    (
        MNLI,
        "0|1|1n|fiction|( a )|( b )|(R a)|(R b)|a|b|neutral|neutral",
        "Texts: sentence1, sentence2. Label: gold_label. Left out: index, promptID, pairID, genre, "
        "sentence1_binary_parse, sentence2_binary_parse, sentence1_parse, sentence2_parse, label1.",
    ),
    (
        "gold_label|sentence1_parse|sentence2_parse|sentence1|sentence2|captionID",
        "neutral|(R a)|(R b)|a|b|3",
        "Texts: sentence1, sentence2. Label: gold_label. Left out: sentence1_parse, sentence2_parse, captionID.",
    ),
    (
        "pair_ID|sentence_A|sentence_B|relatedness_score|entailment_judgment",
        "1|a|b|3.5|NEUTRAL",
        "Texts: sentence_A, sentence_B. Label: entailment_judgment. Left out: pair_ID, relatedness_score.",
    ),
]


@pytest.mark.parametrize(("header", "line", "note"), NAMED + PAIRS)
def test_a_header_names_the_columns(tmp_path, header, line, note):
    names, fields = header.split("|"), line.split("|")
    texts, label = (part.split(": ")[1].strip(".") for part in note.split(". Left")[0].split(". Label"))
    found = [fields[names.index(name)] for name in texts.split(", ")]
    expected = [(found[0], found[1] if len(found) == 2 else None, fields[names.index(label)])]
    as_objects = json.dumps(dict(zip(names, fields)))
    commas = "".join(",".join(f'"{each}"' for each in row) + "\n" for row in (names, fields))
    for text in (tsv(header, line), commas, commas.replace(",", ";"), f"\ufeff{as_objects}\n", tsv(header, line) * 2):
        data = read(tmp_path, text)
        assert rows(data)[:1] == expected
        assert note in data.notes


def test_a_number_is_the_label_of_a_regression(tmp_path):
    data = read(tmp_path, tsv(STSB, "0|news|f|2012|1|none|none|a|b|2.5", "1|news|f|2012|2|none|none|c|d|-1"), REGRESS)
    assert rows(data) == [("a", "b", 2.5), ("c", "d", -1.0)]
    header = "pair_ID|sentence_A|sentence_B|relatedness_score|entailment_judgment"
    assert rows(read(tmp_path, tsv(header, "1|a|b|3.5|NEUTRAL"), REGRESS)) == [("a", "b", 3.5)]


def test_commas_and_quotes_belong_to_a_text(tmp_path):
    text = 'text,label\r\n"Well, ""good"",\r\nthey said", pos\r\n\r\nbad,neg\r\n'
    data = read(tmp_path, text, name="own.csv")
    assert data.examples == [
        TextExample('Well, "good",\nthey said', None, "pos", 2),
        TextExample("bad", None, "neg", 5),
    ]
    literal = tsv("sentence|label", '"good|pos', 'a "bad" film"|neg')  # as GLUE has them
    assert [each.text for each in read(tmp_path, literal).examples] == ['"good', 'a "bad" film"']


def test_json_lines(tmp_path):
    lines = [{"label": 1, "text": "one"}, {"text": "two", "label": None}, {"text": "three\u2028more", "label": 0}]
    data = read(tmp_path, "\n\n".join(json.dumps(each, ensure_ascii=False) for each in lines))
    assert data.examples == [TextExample("one", None, "1", 1), TextExample("three\u2028more", None, "0", 5)]
    assert data.notes[1] == "Examples left out because their label is empty: 1."
    several = '{"text": "one", "labels": ["a", "b"]}\n{"text": "two", "labels": []}\n'
    assert [each.label for each in read(tmp_path, several, label_separator=",").examples] == [("a", "b"), ()]


def test_columns_are_chosen_by_name_or_by_number(tmp_path):
    cola = tsv("gj04|1||He left.", "gj04|0|*|He leave.", "ad03|1||They sang.")
    with pytest.raises(CorpusError, match=r"Line 1 of task.txt has 4 columns \(1 'gj04', 2 '1', 3 '' and 1 more\)"):
        read(tmp_path, cola)
    data = read(tmp_path, cola, columns="4,2")
    assert rows(data) == [("He left.", None, "1"), ("He leave.", None, "0"), ("They sang.", None, "1")]
    assert data.notes == ("Texts: column 4. Label: column 2. Left out: column 1, column 3.",)
    assert data.columns == ("4", "2")
    many = tsv("id|review|answer|review_title|sentiment", "1|a|b|c|d", "2|e|f|g|h")
    assert rows(read(tmp_path, many, columns=["review_title", "sentiment"])) == [("c", None, "d"), ("g", None, "h")]
    assert rows(read(tmp_path, many, columns='review, "answer",sentiment'))[0] == ("a", "b", "d")
    for wrong, message in {
        "revue,sentiment": "has no column 'revue'; its columns are: id, review, answer",
        "review": "choose one or two texts and then the label; the chosen columns are: review.",
        "review,review": "the chosen columns are: review, review",
        "0,2": "has no column '0'; its columns are: 1, 2, 3",
    }.items():
        with pytest.raises(CorpusError, match=message):
            read(tmp_path, many, columns=wrong)


ASKED = [  # a header that is not clear, or an order that is not
    (
        tsv("saying|purpose", "a|x", "b|y", "c|x"),
        r"label 'purpose', which no other line has.*--columns: saying,purpose",
    ),
    (tsv("sms|spam", "a|spam", "b|ham"), "label 'spam', which other lines have, and the name of a column"),
    (tsv("so it is|question", "a|x", "b|y", "c|x"), "names the columns so it is, question; choose the texts and then"),
    (tsv("good film|quality", "a|x", "b|y", "c|x"), r"label 'quality', which no other line has"),
    (
        tsv("text|one|two|three", "a|x|y|z"),
        "names the columns text, one, two, three; choose .*--columns, for example text,three",
    ),
    (tsv("one|two|three", "a|x|y", "b|z|y"), "label 'three', which no other line has"),
    (tsv("a|1|pos", "b|0|neg", "c|1|pos"), r"has 3 columns \(1 'a', 2 '1', 3 'pos'\), which are not clearly texts"),
    (tsv("ham|a", "spam|b", "ham|c", "spam|a"), "not clearly texts and then a label"),
    (tsv("n1|a|x", "n2|b|y", "n3|c|x"), "not clearly texts and then a label"),
    ('{"a": "x", "b": "y", "c": "z"}\n', "names the columns a, b, c"),
]


@pytest.mark.parametrize(("text", "message"), ASKED)
def test_what_is_not_clear_is_asked(tmp_path, text, message):
    with pytest.raises(CorpusError, match=f"Line 1 of task.txt .*{message}"):
        read(tmp_path, text)


@pytest.mark.parametrize("label", ["quality", "class", "score", "label", "sentiment", "question", "title"])
def test_a_label_that_other_lines_have_is_no_header(tmp_path, label):
    data = read(tmp_path, tsv(f"good film|{label}", "a|x", f"b|{label}"))
    assert rows(data) == [("good film", None, label), ("a", None, "x"), ("b", None, label)]


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (["neutral", "-", "contradiction", ""], ["neutral", "contradiction"]),
        (["0", "-1", "2", "1", "2"], ["0", "2", "1", "2"]),
        (["0", "1", "0", "1", "-1"], ["0", "1", "0", "1"]),
        (["0", "-1", "1"], ["0", "1"]),
        (["-1", "1", "-1", "1"], ["-1", "1", "-1", "1"]),
        (["-1", "0", "1", "-1", "0", "1"], ["-1", "0", "1", "-1", "0", "1"]),
        (["-2", "-1", "1", "2"], ["-2", "-1", "1", "2"]),
        (["+", "-", "+", "-"], ["+", "-", "+", "-"]),
    ],
)
def test_examples_without_a_label_are_left_out_and_counted(tmp_path, labels, kept):
    data = read(tmp_path, tsv("sentence|label", *(f"text {i}|{label}" for i, label in enumerate(labels))))
    assert [each.label for each in data.examples] == kept
    counted = [note for note in data.notes if "left out because" in note]
    assert sum(int(note.split(": ")[1].strip(".")) for note in counted) == len(labels) - len(kept)


# GLUE's nine tasks as published: the lines of the training part, each of whose last ones has no label, the chosen
# columns, and the lines of the test part.
MNLI_TEST = MNLI.rpartition("|label1")[0]
GLUE = {
    "CoLA": ("gj04|1||t1 . ", "gj04|0|*|t1 .", "gj04|-1||t1 .", "4,2", "index|sentence", "0|t1 ."),
    "SST-2": ("sentence|label", "t1 |1", "t1 |-1", "", "index|sentence", "0|t1"),
    "MRPC": (
        "Quality|#1 ID|#2 ID|#1 String|#2 String",
        *("1|7|8|t1|t2", "|7|8|t1|t2", "", "index|#1 ID|#2 ID|#1 String|#2 String", "0|7|8|t1|t2"),
    ),
    "QQP": (
        "id|qid1|qid2|question1|question2|is_duplicate",
        *("0|1|2|t1|t2|0", "0|1|2|t1|t2|", "", "id|question1|question2", "0|t1|t2"),
    ),
    "STS-B": (STSB, *(f"0|news|f|2012|1|none|none|t1|t2|{score}" for score in ("2.5", "")), "", STSB[:-6], STSB_LINE),
    "MNLI": (
        MNLI,
        *(f"0|1|1n|fiction|( a )|( b )|(R a)|(R b)|t1|t2|neutral|{label}" for label in ("neutral", "-")),
        *("", MNLI_TEST, "0|1|1n|fiction|( a )|( b )|(R a)|(R b)|t1|t2"),
    ),
    "QNLI": (
        "index|question|sentence|label",
        *("0|t1|t2|entailment", "1|t1|t2|-1", "", "index|question|sentence", "0|t1|t2"),
    ),
    "RTE": (PAIR, "0|t1|t2|not_entailment", "1|t1|t2|", "", PAIR[:-6], "0|t1|t2"),
    "WNLI": (PAIR, "0|t1|t2|1", "1|t1|t2|-1", "", PAIR[:-6], "0|t1|t2"),
}


@pytest.mark.parametrize("name", GLUE)
def test_the_nine_tasks_of_glue_are_read_as_published(name, tiny_checkpoint, tmp_path):
    *lines, columns, header, asked = GLUE[name]
    train = read(tmp_path, tsv(*lines), REGRESS if name == "STS-B" else CLASSIFY, "train.tsv", columns=columns)
    is_single = name in ("CoLA", "SST-2")
    assert len(train.examples) == len(lines) - 1 - (name != "CoLA")
    assert {each.texts[0].strip(" .") for each in train.examples} == {"t1"}
    assert {each.pair for each in train.examples} == {None if is_single else "t2"}
    labels = {"CoLA": ["1", "0"], "SST-2": ["1"], "MRPC": ["1"], "QQP": ["0"], "STS-B": [2.5], "WNLI": ["1"]}
    words = {"MNLI": ["neutral"], "QNLI": ["entailment"], "RTE": ["not_entailment"]}
    assert [each.label for each in train.examples] == {**labels, **words}[name]
    assert any("left out because their label is" in note and note.endswith(": 1.") for note in train.notes)
    test = read(tmp_path, tsv(header, asked), labelled=False, model=tuned(tiny_checkpoint, train.columns))
    assert [each.texts for each in test.examples] == [train.examples[-1].texts]


def test_one_of_a_thousand_lines_may_have_other_columns(tmp_path):
    lines = ["sentence|label", *(f"text {i}|{i % 2}" for i in range(1998))]
    found = read(tmp_path, tsv(*lines[:7], "cut", *lines[7:]))
    assert len(found.examples) == 1998
    assert found.notes.count("Lines left out because they have other columns than the first: 1.") == 1
    with pytest.raises(
        CorpusError, match=r"Line 8 of task\.txt has another number of columns \(1\) than the first line \(2\)"
    ):
        read(tmp_path, tsv(*lines[:7], "cut", "cut", "cut", "cut"))


def test_one_of_a_thousand_texts_may_be_empty(tmp_path):
    lines = ["document|label", *(f"text {i}|{i % 2}" for i in range(1998))]
    found = read(tmp_path, tsv(*lines[:7], "|1", *lines[7:]))
    assert len(found.examples) == 1998
    assert found.notes.count("Examples left out because a text is empty: 1.") == 1
    with pytest.raises(CorpusError, match=r"Line 10 of task\.txt has an empty text"):
        read(tmp_path, tsv(*lines[:7], "|1", " |0", "|0", *lines[7:]))
    with pytest.raises(CorpusError, match=r"Line 8 of task\.txt has an empty text"):  # each gets a prediction
        read(tmp_path, tsv(*lines[:7], "|1", *lines[7:]), labelled=False)


def test_a_few_examples_may_be_repeated(tmp_path):
    assert len(read(tmp_path, tsv("great team|sport", "nice romeo|story") * 3).examples) == 6


def test_a_file_whose_labels_are_all_missing_is_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"No example of task\.txt has a label"):
        read(tmp_path, tsv("sentence|label", "a|-1", "b|-1"))


CSV_MISTAKES = [
    ('text,label\n"good,pos\nbad,neg\n', "is not CSV"),
    (
        "text,label\ngood,pos\nbad\n",
        r"Line 3 of task.txt has another number of columns \(1\) than the first line \(2\)",
    ),
    ('{"text": "a", "label": 1}\n{"text"\n', "Line 2 of task.txt is not JSON"),
    ('{"text": "a", "label": 1}\n[1]\n', "Line 2 of task.txt is not a JSON object; write one on each line"),
    ('[\n{"text": "a", "label": 1}\n]\n', "Line 1 of task.txt begins a list of JSON; write its objects alone"),
    ('{"text": "a", "label": 1}\n{"label": 1}\n', "Line 2 of task.txt has an empty text"),
]


@pytest.mark.parametrize(("text", "message"), CSV_MISTAKES)
def test_a_mistake_in_another_form_is_named_by_its_line(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, text)


def tuned(checkpoint, columns=(), labels=("neg", "pos"), architecture="BertForSequenceClassification"):
    """A model with a task's output layer that learned from these columns."""
    weight = torch.zeros(len(labels), checkpoint.config.hidden_size)
    made = with_head(checkpoint, TaskHead(architecture, labels, False), weight, weight[:, 0])
    return dataclasses.replace(made, recipe={"columns": list(columns)} if columns else None)


@pytest.mark.parametrize(
    ("columns", "text", "texts", "note"),
    [
        (
            ("1", "2"),
            tsv("good|pos", "bad|neg"),
            [("good", None), ("bad", None)],
            "Texts: column 1. Left out: column 2.",
        ),
        (("review", "mood"), tsv("review|mood", "good|pos"), [("good", None)], "Texts: review. Left out: mood."),
        (("title", "mood"), tsv("text|title", "a|good"), [("good", None)], "Texts: title. Left out: text."),
        (("title", "mood"), "title\ngood\n", [("good", None)], "Texts: title."),
        (("1", "2"), tsv("utterance|mood", "good|pos"), [("good", None)], "Texts: utterance. Left out: mood."),
        (("1", "2", "3"), tsv("a|b", "c|pos"), [("a", "b"), ("c", "pos")], "Texts: column 1, column 2."),
        (("1", "2", "3"), tsv("a|b|pos", "c|d|neg"), [("a", "b"), ("c", "d")], "Left out: column 3."),
        ((), tsv("good|pos", "bad|neg"), [("good", None), ("bad", None)], "Texts: column 1. Left out: column 2."),
        ((), tsv("a|b", "c|pos", "d|e"), [("a", "b"), ("c", "pos"), ("d", "e")], "Texts: column 1, column 2."),
        ((), tsv("pos|good", "neg|bad"), [("good", None), ("bad", None)], "Texts: column 2. Left out: column 1."),
        ((), "Well, good\nbad\n", [("Well, good", None), ("bad", None)], "Texts: column 1."),
        ((), 'text,label\n"Well, good",pos\n', [("Well, good", None)], "Texts: text. Left out: label."),
    ],
)
def test_a_file_for_a_model_is_read_as_the_model_learned(tiny_checkpoint, tmp_path, columns, text, texts, note):
    data = read(tmp_path, text, labelled=False, model=tuned(tiny_checkpoint, columns))
    assert [(each.text, each.pair) for each in data.examples] == texts
    assert note in data.notes[0]
    assert all(each.label is None for each in data.examples)


@pytest.mark.parametrize(
    ("columns", "text", "message"),
    [
        (("1", "2"), tsv("a|b", "c|d"), "has 2 columns of texts; the training examples are single texts"),
        (("1", "2", "3"), "a\nb\n", "has 1 column of texts; the training examples are pairs of texts"),
        (("1", "2"), tsv("sentence1|sentence2", "c|d"), "has 2 columns of texts; the training examples are single"),
        ((), tsv("a|b|c", "c|d|e"), "has 3 columns of texts"),
    ],
)
def test_a_file_that_does_not_fit_the_model_is_refused(tiny_checkpoint, tmp_path, columns, text, message):
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, text, labelled=False, model=tuned(tiny_checkpoint, columns))


def test_examples_that_do_not_fit_the_model_are_refused(tiny_checkpoint):
    alone, pairs, unknown = (tuned(tiny_checkpoint, columns) for columns in (("1", "2"), ("1", "2", "3"), ()))
    assert len(predict(alone, ["nice romeo"])) == len(predict(pairs, [("nice", "romeo")])) == 1
    assert len(predict(unknown, ["nice", "romeo"])) == len(predict(unknown, [("nice", "romeo")])) + 1 == 2
    with pytest.raises(InputError, match="learned from single texts, and these are pairs of texts"):
        predict(alone, [("nice", "romeo")])
    with pytest.raises(InputError, match="learned from pairs of texts, and these are single texts"):
        predict(pairs, ["nice romeo"])


@pytest.mark.parametrize("given", ["nice romeo", ("nice", "romeo")])
def test_an_example_outside_of_a_list_is_refused(tiny_checkpoint, given):
    with pytest.raises(InputError, match="predict takes a list of examples"):
        predict(tuned(tiny_checkpoint), given)


@pytest.mark.parametrize("given", [None, 7, b"nice", ("a", "b", "c"), {"text": "nice"}, ("a", None)])
def test_what_is_no_example_is_refused(tiny_checkpoint, given):
    with pytest.raises(InputError, match=r"An example is a text, a pair of texts or one|a list, each item a text"):
        predict(tuned(tiny_checkpoint), [given])


def test_empty_lines_keep_their_places(tiny_checkpoint, tmp_path):
    for text in ("\n\na\n\nb\n\n", "a\r\n\r\nb\r\n", "text\n\na\n", '\n"a, b"\n\n'):
        name = "new.csv" if '"' in text else "new.txt"
        data = read(tmp_path, text, name=name, labelled=False)
        lines = text.replace("\r", "").removesuffix("\n").split("\n")[text.startswith("text") :]
        assert len(data.examples) + len(data.blanks) == len(lines)
        assert data.blanks == tuple(i for i, line in enumerate(lines) if not line)
    twice = read(tmp_path, "\ntext\n\na\ntext\nb\n", labelled=False)
    assert ([each.text for each in twice.examples], twice.blanks) == (["a", "b"], (0, 2))
    assert twice.notes == ("Texts: text.", "Repeated headers left out: 1.")


def test_a_sentence_a_line_is_read_as_sentences(tiny_checkpoint, tmp_path):
    model = tuned(tiny_checkpoint, ("1", "2"), ("O", "B-PER"), "BertForTokenClassification")

    def words(text):
        data = read(tmp_path, text, TAG, labelled=False, model=model)
        return [each.words for each in data.examples], data.notes, data.blanks

    sentences = [("Anna", "lives", "in", "10\xa0000"), ("Tom", "sings")]
    note = "Each line was read as a sentence, with its words between spaces."
    assert words("Anna lives in  10\xa0000\n\nTom sings\n") == (sentences, (note,), (1,))
    assert words("Anna\nlives\n\nTom\n")[:2] == ([("Anna", "lives"), ("Tom",)], ("Words: column 1.",))
    found, notes, _ = words("Anna B-PER\nlives O\n\nTom B-NEW\n")
    assert (found, notes) == ([("Anna", "lives"), ("Tom",)], ("Words: column 1. Left out: column 2.",))


def test_a_model_finds_the_tags_that_it_learned(tiny_checkpoint, tmp_path):
    model = tuned(tiny_checkpoint, ("2", "3"), ("O", "B-PER"), "BertForTokenClassification")
    data = read(tmp_path, "1\tAnna\tB-PER\tO\n2\tsings\tO\tO\n", TAG, model=model)
    assert data.examples == [TaggedExample(("Anna", "sings"), ("B-PER", "O"), 1)]
    assert read(tmp_path, "1 Anna O B-PER\n", TAG, model=model).examples[0].tags == ("O",)


def test_white_space_within_a_word_stays_there(tmp_path):
    data = read(tmp_path, "paid O\n10\xa0000 B-SUM\neuros\u3000all O\n\nx\u2028y\tO\n", TAG)
    assert data.examples == [
        TaggedExample(("paid", "10\xa0000", "euros\u3000all"), ("O", "B-SUM", "O"), 1),
        TaggedExample(("x\u2028y",), ("O",), 5),
    ]


def test_lines_end_at_line_feeds_and_carriage_returns_alone(tmp_path):
    for end in ("\n", "\r\n", "\r", "\r\r\n"):
        text = end.join(["one\x85two\tx", "three\u2028four\ty", ""])
        assert [each.text for each in read(tmp_path, text + f"five\tx{end}").examples] == [
            "one\x85two",
            "three\u2028four",
            "five",
        ]
        tags = end.join(["Anna\tO", "sings\tO", "", "Tom\tB-PER", ""])
        assert [each.words for each in read(tmp_path, tags, TAG).examples] == [("Anna", "sings"), ("Tom",)]


@pytest.mark.parametrize("scheme", ["P", "B-P E-P S-P", "B-P M-P E-P S-P", "NOUN VERB"])
def test_tags_of_every_scheme_are_learned(tiny_checkpoint, tmp_path, scheme):
    """Two names are an entity of two words, one name alone is one of a single word."""
    tags = scheme.split()
    rng, lines = random.Random(0), []
    for _ in range(60):
        names, other = rng.choice([["romeo"], ["juliet", "romeo"]]), tags[-1] if scheme == "NOUN VERB" else "O"
        marks = [tags[0]] * len(names) if len(tags) < 3 else [tags[-1]] if len(names) == 1 else [tags[0], tags[-2]]
        lines += [*map(" ".join, zip(names, marks)), f"{rng.choice(['won', 'great'])} {other}", ""]
    data = read(tmp_path, "\n".join(lines), TAG)
    result = finetune(tiny_checkpoint, data, validation=data, epochs=9, learning_rate=0.01, dropout=0.0, batch_size=8)
    assert result.validation["f1"] == 1
    [found] = predict(result.checkpoint, [TaggedExample(("juliet", "romeo", "won"), None)])
    kind = scheme.split()[0].removeprefix("B-")
    example = TaggedExample(("juliet", "romeo", "won"), None)
    first, *others = task_of(result.checkpoint).as_json(example, found, data.labels())["entities"]
    assert first == {"type": kind, "text": "juliet romeo", "start": 0, "end": 2}
    assert [each["type"] for each in others] == (["VERB"] if scheme == "NOUN VERB" else [])


def test_a_model_keeps_the_columns_that_it_learned_from(tiny_checkpoint, tmp_path, capsys):
    folder = str(tmp_path / "start")
    save_checkpoint(tiny_checkpoint, folder)
    lines = [f'"nice, {name}",{name},{i}' for i, name in enumerate(["romeo", "juliet"] * 9)]
    (tmp_path / "own.csv").write_text("\n".join(["review title,mood,id", *lines]))
    arguments = ["finetune", "--task", CLASSIFY, "--train", str(tmp_path / "own.csv"), "--checkpoint", folder]
    arguments += ["--output", str(tmp_path / "tuned"), "--set", "epochs=1"]
    assert main(arguments) == 1
    assert "Line 1 of own.csv has the label 'id'" in capsys.readouterr().err
    assert main([*arguments, "--columns", "review title,mood"]) == 0
    assert capsys.readouterr().err.startswith("Texts: review title. Label: mood. Left out: id.\n")
    assert load_checkpoint(tmp_path / "tuned").recipe["columns"] == ["review title", "mood"]
    (tmp_path / "new.csv").write_text('id,review title\n1,"nice, romeo"\n\n2,juliet\n')
    assert main(["predict", str(tmp_path / "tuned"), "--input", str(tmp_path / "new.csv")]) == 0
    printed = capsys.readouterr()
    assert printed.err == "Texts: review title. Left out: id.\n"
    assert [line == "null" for line in printed.out.splitlines()] == [False, True, False]
    assert main(["evaluate", str(tmp_path / "tuned"), "--input", str(tmp_path / "own.csv")]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("Texts: review title. Label: mood. Left out: id.\n")
    names = ["romeo", "juliet"]
    found = predict(load_checkpoint(tmp_path / "tuned"), [f"nice, {name}" for name in names])
    assert json.loads(printed.out)["accuracy"] == sum(each.label == name for each, name in zip(found, names)) / 2 > 0
    (tmp_path / "new.csv").write_text("a,b\n")
    assert main(["predict", str(tmp_path / "tuned"), "--input", str(tmp_path / "new.csv")]) == 1
    assert "the training examples are single texts; choose the texts" in capsys.readouterr().err


def test_the_parts_of_a_task_are_all_single_texts_or_all_pairs(tiny_checkpoint, tmp_path):
    train, test = read(tmp_path, tsv("a|x", "b|y", "c|x")), read(tmp_path, tsv("a|d|x", "b|e|y", "c|f|x"))
    with pytest.raises(CorpusError, match="must both have single texts, or pairs of texts"):
        finetune(tiny_checkpoint, train, test=test)


def test_the_word_and_the_tag_can_be_chosen(tmp_path):
    data = read(tmp_path, "1 Anna PROPN B-PER\n2 sings VERB O\n", TAG, columns="2,3")
    assert data.examples == [TaggedExample(("Anna", "sings"), ("PROPN", "VERB"), 1)]
    assert data.notes[0] == "Words: column 2. Tags: column 3. Left out: column 1, column 4."
    with pytest.raises(CorpusError, match="leave out the choice of columns"):
        read(tmp_path, "o\tp\tx\ty\t0\n", "multiple-choice", columns="1,2")


def test_the_right_choice_of_a_labelled_file_is_no_choice(tmp_path):
    data = read(tmp_path, tsv("o|p|x|y|1", "o|p|z|w|0"), "multiple-choice", labelled=False)
    assert [each.choices for each in data.examples] == [("x", "y"), ("z", "w")]
    assert data.notes == ("Texts: column 2, column 3, column 4. Left out: column 1, column 5.",)
