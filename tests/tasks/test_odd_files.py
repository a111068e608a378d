"""Task files as people have them: what is doubtful in one is read by a general rule, and said."""

import json

import pytest

from bert_core import load_task
from bert_core.errors import CorpusError
from bert_core.tasks.examples import TASKS

CLASSIFY, REGRESS, TAG, CHOOSE, ANSWER = TASKS
TEXTS = ("we had good bread", "he lost his house", "a lovely day", "the rain ruined all", "he sang a song")
LABELS = ("pos", "neg", "pos", "neg", "pos")


@pytest.fixture
def read(tmp_path):
    def read(text, task=CLASSIFY, name="task.txt", **options):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return load_task(path, task, **options)

    return read


def lines(form, texts=TEXTS, labels=LABELS):
    return "".join(form.format(text=text, label=label) + "\n" for text, label in zip(texts, labels))


def json_lines(*objects):
    return "".join(f"{json.dumps(each)}\n" for each in objects)


@pytest.mark.parametrize("header", ["", "text;label\n"])
def test_semicolons_divide_the_columns_where_every_line_has_as_many(read, header):
    texts = ("we, you and I had bread", "no", "a day, then", "he, it, all", "yes, yes")
    data = read(header + lines("{text};{label}", texts), name="task.csv")
    assert [each.text for each in data.examples] == [*texts]
    assert [each.label for each in data.examples] == [*LABELS]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ('text\tlabel\n"he said ""no"""\tneg\n"plain"\tpos\n', ['he said "no"', "plain"]),
        ('text\tlabel\n"a good\tday"\tpos\nbad\tneg\n', ["a good\tday", "bad"]),
        ('text\tlabel\n"a good\nday"\tpos\nbad\tneg\n', ["a good\nday", "bad"]),
        ('"text"\t"label"\n"a day"\t"pos"\n"bad"\t"neg"\n', ["a day", "bad"]),
    ],
)
def test_quotes_around_the_fields_of_a_file_with_tabs(read, text, texts):
    data = read(text)
    assert [each.text for each in data.examples] == texts
    assert any("Quotes around fields" in note for note in data.notes)


@pytest.mark.parametrize(
    "text", ['"yes" he said\tneg\nno\tpos\n', '"yes"\tneg\n"no\tpos\n', '"quoted"\tneg\n5" pipe\tpos\n']
)
def test_other_quotes_belong_to_a_text(read, text):
    data = read("text\tlabel\n" + text)
    assert [each.text for each in data.examples] == [line.split("\t")[0] for line in text.splitlines()]
    assert not any("Quotes" in note for note in data.notes)


@pytest.mark.parametrize("form", ["{text},{label},", "{text}\t{label}\t\t"])
def test_empty_last_columns_are_none(read, form):
    data = read(lines(form))
    assert [each.label for each in data.examples] == [*LABELS]
    assert any("Left out: column 3" in note for note in data.notes)


def test_a_label_that_comes_first_is_asked_for_in_the_right_order(read):
    with pytest.raises(CorpusError, match=r"or --columns 2,1\."):
        read(lines("{label}\t{text}"))


def test_a_column_of_ids_is_not_offered(read):
    with pytest.raises(CorpusError, match="choose --columns remark,verdict for a header, or --columns 2,3"):
        read(
            ",remark,verdict\n"
            + "".join(f"{i},{line}\n" for i, line in enumerate(lines("{text},{label}").splitlines()))
        )


def test_names_of_later_json_objects_are_read_too(read):
    data = read(
        json_lines({"text": "good"}, {"text": "bad", "label": "neg"}, {"text": "fine", "label": "pos", "by": 1})
    )
    assert [each.label for each in data.examples] == ["neg", "pos"]
    assert "Texts: text. Label: label. Left out: by." in data.notes
    assert "Examples left out because their label is empty: 1." in data.notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"data": {"text": "good"}, "label": "pos"},
            "Line 1 of task.txt has an object or a list in data; write a text",
        ),
        ({"text": ["good"], "label": "pos"}, "Line 1 of task.txt has an object or a list in text"),
        ({"text": "good", "labels": ["a", "b"]}, "in labels; .*several labels"),
    ],
)
def test_an_object_is_no_text(read, content, message):
    with pytest.raises(CorpusError, match=message):
        read(json_lines(content, content))


def test_a_decimal_comma_is_named(read):
    with pytest.raises(
        CorpusError, match=r"has the label '0,5'; text-regression needs a number for a label, such as 0\.5"
    ):
        read("text\tscore\na\t0,5\nb\t1,5\n", REGRESS)


def test_labels_that_differ_only_in_capitals_are_named(read):
    data = read(lines("{text}\t{label}", labels=("pos", "NEG", "Pos", "neg", "pos")))
    assert "Labels that differ only in capitals are different labels: 'NEG' and 'neg', 'Pos' and 'pos'." in data.notes
    assert not any("capitals" in note for note in read(lines("{text}\t{label}")).notes)


def test_examples_that_contradict_each_other_are_counted(read):
    data = read(lines("{text}\t{label}") + lines("{text}\t{label}", TEXTS[:2], ("neg", "pos")))
    assert "Examples with the same text as an earlier one but another label: 2." in data.notes
