"""Task files as people have them: what is doubtful in one is read by a general rule, and said."""

import contextlib
import functools
import json

import pytest

from bert_core import load_task
from bert_core.errors import CorpusError
from bert_core.runs.prepare import prepare
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.tasks.examples import TASKS, TaskParts, read_parts
from bert_core.tasks.tables import Table

CLASSIFY, REGRESS, CHOOSE, ANSWER, TAG = TASKS
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
    "text",
    [
        '"yes" he said\tneg\nno\tpos\n',
        '"yes"\tneg\n"no\tpos\n',
        '"quoted"\tneg\n5" pipe\tpos\n',
        '"quoted"\tneg\nan "" empty one\tpos\n',
    ],
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
    with pytest.raises(CorpusError, match=r"for a header, or 2,1\."):
        read(lines("{label}\t{text}"))


def test_a_column_of_ids_is_not_offered(read):
    with pytest.raises(CorpusError, match="choose the columns with --columns: remark,verdict for a header, or 2,3"):
        read(
            ",remark,verdict\n"
            + "".join(f"{i},{line}\n" for i, line in enumerate(lines("{text},{label}").splitlines()))
        )


def test_a_header_of_ids_alone_is_asked_about(read):
    with pytest.raises(CorpusError, match="so it may be a header or an example"):
        read("id\tindex\na\tb\nc\tb\nd\te\n")


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


def test_several_labels_may_be_numbers(read):
    data = read(json_lines({"text": "good", "label": [3, 1]}, {"text": "bad", "label": []}), label_separator=",")
    assert [each.label for each in data.examples] == [("3", "1"), ()]


def test_the_first_line_of_a_wrong_row_is_named(read):
    with pytest.raises(CorpusError, match=r"Line 3 of task\.csv is not CSV"):
        read('text,label\ngood,pos\n"bad,neg\n' + "fine,pos\n" * 50, name="task.csv")


@pytest.mark.parametrize(
    "text",
    [
        lines("{text},{label}" + "," * 100),
        "".join(",".join([*["text"] * 100, label]) + "\n" for label in ("label", "pos", "neg")),
        "".join(",".join([*["x"] * 100, *row]) + "\n" for row in (("text", "so"), ("good", "so"), ("bad", "no"))),
    ],
)
def test_a_wide_file_is_read_in_few_passes(read, monkeypatch, text):
    passes = []
    rows = Table.rows
    monkeypatch.setattr(Table, "rows", lambda table: passes.append(1) or rows(table))
    with contextlib.suppress(CorpusError):
        read(text)
    assert len(passes) < 20


def test_a_decimal_comma_is_named(read):
    with pytest.raises(
        CorpusError, match=r"has the label '0,5'; text-regression needs a number for a label, such as 0\.5"
    ):
        read("text\tscore\na\t0,5\nb\t1,5\n", REGRESS)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (("pos", "NEG", "Pos", "neg", "pos"), "'NEG' and 'neg', 'Pos' and 'pos'"),
        (("1", "1.0", "0", "0", "1"), "'1' and '1.0'"),
        (("caf\u00e9", "cafe\u0301", "caf\u00e9", "tea", "tea"), "'cafe\u0301' and 'caf\u00e9'"),
        (("very good", "very  good", "very good", "bad", "bad"), "'very  good' and 'very good'"),
        (LABELS, None),
    ],
)
def test_labels_that_are_almost_the_same_are_named(read, labels, named):
    notes = [note for note in read(lines("{text}\t{label}", labels=labels)).notes if "almost" in note]
    assert notes == [f"Labels that are almost the same are different labels: {named}."] * (named is not None)


def test_labels_that_may_stand_for_none_or_occur_once_are_named(read):
    rows = [("pos", 4), ("neg", 4), ("NaN", 1)]
    text = "".join(f"text {label} {i}\t{label}\n" for label, count in rows for i in range(count))
    assert read(text).notes[1:] == (
        "Labels that may stand for a missing value are learned as labels: 'NaN'.",
        "Labels that occur once, from which no model learns much: 'NaN'.",
    )
    assert read(text.replace("NaN", "pos")).notes[1:] == ()
    assert read(text.replace("neg", "none").replace("NaN", "none")).notes[1:] == ()


@pytest.mark.parametrize(("first", "second"), [("premise", "hypothesis"), ("sentence2", "sentence1")])
def test_the_columns_of_the_training_part_come_first_in_the_others(tmp_path, first, second):
    for name, header in (("train", f"{first}\t{second}"), ("test", f"{second}\t{first}")):
        rows = [header.split("\t"), *([f"{column} {i}" for column in header.split("\t")] for i in range(3))]
        content = "".join(
            "\t".join([*row, "label" if row is rows[0] else f"l{len(row[0]) % 2}"]) + "\n" for row in rows
        )
        (tmp_path / f"{name}.tsv").write_text(content)
    paths = {name: tmp_path / f"{name}.tsv" for name in ("test", "train")}
    parts = read_parts(functools.partial(load_task, task=CLASSIFY), paths)
    texts = [(f"{first} {i}", f"{second} {i}") for i in range(3)]
    assert [each.texts for each in parts.train.examples] == [each.texts for each in parts.test.examples] == texts
    assert parts.test.columns == (first, second, "label")


@pytest.mark.parametrize("name", ["text", "review"])
def test_numbers_may_choose_the_columns_of_a_file_with_a_header(read, name):
    text = f"id,{name},label\n" + lines("7,{text},{label}")
    data = read(text, columns="2,3")
    assert [(each.text, each.label) for each in data.examples] == list(zip(TEXTS, LABELS))
    assert data.notes == (f"Texts: {name}. Label: label. Left out: id.",)
    alone = read(f"id,text\n1,{TEXTS[0]}\n2,{TEXTS[1]}\n", labelled=False, columns="2")
    assert [each.text for each in alone.examples] == [*TEXTS[:2]]
    # An unusual name and a label that other lines have are no header.
    assert len(read("Rezension\tlabel\ngut\tpos\nschlecht\tneg\n", columns="1,2").examples) == 3
    labels = ("label", "other", "label", "other", "label")
    assert len(read(lines("7,{text},{label}", labels=labels), columns="2,3").examples) == 5


def test_examples_that_contradict_each_other_are_counted(read):
    data = read(lines("{text}\t{label}") + lines("{text}\t{label}", TEXTS[:2], ("neg", "pos")))
    assert "Examples with the same text as an earlier one but another label or answer: 2." in data.notes


WORDS = "Anna\t{}\nlives\tO\nin\tO\nNew\t{}\nYork\t{}\n\nWe\tO\nsing\tO\n"


def test_tags_that_are_changed_are_counted(read):
    data = read(WORDS.format("I-PER", "I-LOC", "I-LOC"), TAG)
    assert data.examples[0].tags == ("B-PER", "O", "O", "B-LOC", "I-LOC")
    assert "Tags with I- that begin an entity, now with B-: 2." in data.notes
    assert not any("I-" in note for note in read(WORDS.format("B-PER", "B-LOC", "I-LOC"), TAG).notes)


@pytest.mark.parametrize("tags", [("B_PER", "B_LOC", "I_LOC"), ("PER-B", "LOC-B", "LOC-I"), ("PER", "LOC", "LOC")])
def test_tags_without_a_mark_are_said_to_be_types(read, tags):
    said = "Tags without a mark such as B- are read as types of entities: "
    assert any(note.startswith(said + f"'{min(tags)}'") for note in read(WORDS.format(*tags), TAG).notes)


@pytest.mark.parametrize("separator", ["\t", " "])
def test_tags_in_another_column_are_found(read, separator):
    lines = WORDS.format("B-PER", "B-LOC", "I-LOC").splitlines()
    text = "\n".join(separator.join(reversed(line.split("\t"))) for line in lines)
    data = read(text, TAG)
    assert (data.examples[0].words[0], data.examples[0].tags[0]) == ("Anna", "B-PER")
    assert "Words: column 2. Tags: column 1." in data.notes


def test_a_header_above_words_is_left_out(read):
    data = read("word\tpos\ttag\n" + WORDS.format("N\tB-PER", "N\tB-LOC", "N\tI-LOC").replace("\tO", "\tV\tO"), TAG)
    assert data.examples[0].words[0] == "Anna"
    assert any("The first line is a header" in note for note in data.notes)


def test_words_that_are_empty_are_counted(read):
    assert (
        "Empty words, which no model can read: 1."
        in read(WORDS.format("B-PER", "O", "O").replace("in\t", "\t"), TAG).notes
    )


UD = (
    "# sent_id = 1\n# text = im Haus is it ten columns wide in words\n1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tin\tin\tADP\t_\t_\t2\tcase\t_\t_\n2\tHaus\tHaus\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
)
GERMEVAL = "#\thttp://example.org [2010]\n1\tAnna\tB-PER\tO\n2\tsingt\tO\tO\n\n#\thttp://b\n1\tWir\tO\tO\n"


@pytest.mark.parametrize(
    ("text", "columns", "words"), [(UD, "2,4", ("in", "Haus")), (GERMEVAL, "2,3", ("Anna", "singt"))]
)
def test_comments_and_numbers_are_no_words(read, text, columns, words):
    with pytest.raises(CorpusError, match=r"begins with a number, .* with --columns, for example 2,3"):
        read(text, TAG)
    for labelled in (True, False):
        data = read(text, TAG, columns=columns[: 1 + 2 * labelled], labelled=labelled)
        assert data.examples[0].words == words
        assert any(note.startswith("Lines left out that are comments or no words: ") for note in data.notes)


def test_a_word_may_begin_like_a_comment(read):
    data = read("# O\n#sun O\n1-2 B-SCORE\n\n-DOCSTART-\n\n#rain O\n3.5 O\n", TAG)
    assert [each.words for each in data.examples] == [("#", "#sun", "1-2"), ("#rain", "3.5")]
    assert not any("left out" in note for note in data.notes)


@pytest.mark.parametrize("labelled", [True, False])
def test_json_is_no_word_and_tag(read, labelled):
    with pytest.raises(CorpusError, match=r"Line 1 of task\.txt is JSON; write a word first"):
        read('{"tokens": ["Anna", "sings"], "tags": [1, 0]}\n', TAG, labelled=labelled)


def endings(names, *rows):
    return f"sent1,sent2,{','.join(names)},label\n" + "".join(f"He ran.,He,{row}\n" for row in rows)


def test_an_empty_ending_is_refused(read):
    with pytest.raises(CorpusError, match=r"Line 2 of task\.txt has an empty text"):
        read(endings(("ending0", "ending1"), "fell,,1"), CHOOSE)


def test_endings_have_the_order_of_their_numbers(read):
    [example] = read(endings(("ending1", "ending0"), "fell,sang,1"), CHOOSE).examples
    assert example.choices == ("He sang", "He fell")


def test_labels_that_may_count_from_1_are_named(read):
    names, said = ("ending0", "ending1", "ending2"), "No example has the label 0, though labels count from 0."
    assert said in read(endings(names, "a,b,c,1", "a,b,c,2"), CHOOSE).notes
    assert said not in read(endings(names, "a,b,c,1", "a,b,c,0"), CHOOSE).notes


def test_the_columns_of_a_file_of_choices_are_named(read):
    notes = read("i\tHe ran.\tfell\tsang\t1\nj\tHe ran.\tfell\tsang\t0\n", CHOOSE).notes
    assert "Texts: column 2, column 3, column 4. Label: column 5. Left out: column 1." in notes


def squad(context, *answers):
    asked = [{"id": str(i), "question": "Where?", **answer} for i, answer in enumerate(answers)]
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": asked}]}]})


def test_an_answer_far_from_its_place_is_not_said_to_be_missing(read):
    with pytest.raises(CorpusError, match="is not near its answer_start, 0"):
        read(squad("x " * 20_000 + "Rome", {"answers": [{"text": "Rome", "answer_start": 0}]}), ANSWER)


def test_answers_of_impossible_questions_are_counted(read):
    right = {"answers": [{"text": "Rome", "answer_start": 0}]}
    notes = read(squad("Rome is old.", right, {**right, "is_impossible": True}), ANSWER).notes
    assert "Answers left out because is_impossible is true: 1." in notes


def test_notes_say_which_file_they_are_about(read, tiny_checkpoint):
    text = lines("{text}\t{label}") + "no idea\t\n"
    train, test = (read(text, name=name) for name in ("train.tsv", "test.tsv"))
    notes = prepare(
        FinetuningRecipe(name="own", task=CLASSIFY, title="own"), TaskParts(train, None, test), start=tiny_checkpoint
    ).notes
    left_out = "Examples left out because their label is empty: 1."
    assert notes[:3] == ("Texts: column 1. Label: column 2.", left_out, f"In test.tsv: {left_out}")


def test_answers_that_cannot_be_learned_or_predicted_are_counted(read, tiny_checkpoint):
    words = ["romeo"] * 60  # each is a token
    context = " ".join(words)
    given = [{"answers": [{"text": " ".join(words[:count]), "answer_start": 0}]} for count in (1, 8, 50)]
    data = read(squad(context, *given), ANSWER)
    recipe = FinetuningRecipe(name="mine", task=ANSWER, title="Mine")
    sizes = {"data.sequence_length": 30, "data.longest_answer": 7}
    notes = prepare(recipe.override(sizes), TaskParts(data, data), start=tiny_checkpoint).notes
    assert "Answers that no window of data.sequence_length holds, learned as no answer: 1." in notes
    assert "Answers longer than data.longest_answer, which no prediction can match: 1." in notes
    short = read(squad(context, given[0], given[0]), ANSWER)
    notes = prepare(recipe.override(sizes), TaskParts(short, short), start=tiny_checkpoint).notes
    assert not any(note.startswith("Answers") for note in notes)


@pytest.mark.parametrize(("first", "mark"), [("sep=;", ";"), ('"sep=,",', ","), ("\ufeffsep=\t", "\t")])
def test_a_line_that_names_the_separator_is_no_row(read, first, mark):
    data = read(f"{first}\ntext{mark}label\n" + lines(f"{{text}}{mark}{{label}}"))
    assert [(each.text, each.label) for each in data.examples] == list(zip(TEXTS, LABELS))
    assert data.examples[0].line == 3
    with pytest.raises(CorpusError, match=r"Line 4 of task\.txt"):
        read(f"{first}\ntext{mark}label\na b{mark}pos\nc{mark}d{mark}neg\n")


@pytest.mark.parametrize(("labelled", "header"), [(True, "id,text,label"), (False, "id,text,note")])
def test_a_title_above_the_header_is_named(read, labelled, header):
    with pytest.raises(CorpusError, match=r"Line 1 of task\.csv is no header, but the line below it is; take it out"):
        read(f"Reviews of 2023,,\n{header}\n1,good,pos\n2,bad,neg\n", name="task.csv", labelled=labelled)


def test_a_decimal_comma_divides_no_columns(read):
    with pytest.raises(CorpusError, match="has the label '4,5'; text-regression needs a number"):
        read("gut gemacht;4,5\nsehr schlecht;1,0\nganz nett;3,5\n", REGRESS)
    for text in ("gut, ja;2\nschlecht;1\n", "we won; 3,1\nwe lost; 2,0\nthey won; 3,1\n", "room; 12,1\nroom 13,0\n"):
        at = text.index("\n") - 1
        assert [read(text).examples[0].text, read(text).examples[0].label] == [text[: at - 1], text[at]]


@pytest.mark.parametrize("label", ["\"['{a}', '{b}']\"", '"[""{a}"", ""{b}""]"'])
def test_lists_of_labels_are_read_as_lists(read, label):
    text = "text,label\n" + "".join(f"film {a}{b},{label.format(a=a, b=b)}\n" for a, b in ("xy", "yz", "zx"))
    data = read(text + "film,[]\nplain,[x y]\n", name="task.csv", label_separator=",")
    assert [each.label for each in data.examples] == [("x", "y"), ("y", "z"), ("z", "x"), (), ("[x y]",)]
    with pytest.raises(CorpusError, match=r"Line 2 of task.csv has an object or a list in label; .*--label-separator"):
        read(text, name="task.csv")


@pytest.mark.parametrize("label", ["['a' 'b']", "[ 2 14]", "['a', None]", "['a', ['b']]", r"['\x']", "[007]"])
def test_what_is_no_list_of_labels_is_refused(read, label):
    with pytest.raises(CorpusError, match=r"Line 2 of task\.txt has .* for a list of labels; write"):
        read(f"text\tlabel\nfilm\t{label}\nplay\t['c']\n", label_separator=",")


def test_a_list_of_labels_in_json_is_read_as_json(read):
    data = read('text\tlabel\nfilm\t["\\ud83d\\ude00", "sci\\/fi"]\nplay\t["c"]\n', label_separator=",")
    assert [each.label for each in data.examples] == [("\U0001f600", "sci/fi"), ("c",)]


def test_an_index_without_a_name_is_no_title(read):
    data = read(",text,source\n0,Good film,tweet\n1,Bad film,review\n", name="task.csv", labelled=False)
    assert [each.text for each in data.examples] == ["Good film", "Bad film"]


@pytest.mark.parametrize("text", ["Hello NN O\n", "In IN O\n1999 CD O\n", "B2 X O\nP53 Y B-g\nBRCA1 Z B-g\n"])
def test_words_with_digits_are_no_numbers_of_sentences(read, text):
    assert [each.words for each in read(text, TAG).examples] == [tuple(line.split()[0] for line in text.splitlines())]


def test_long_words_of_marks_are_read_at_once(read):
    assert len(read(f"In IN O\n{'_' * 200_000} CD O\n", TAG).examples) == 1


def test_an_object_of_python_is_no_row(read):
    with pytest.raises(CorpusError, match=r"Line 1 of task\.txt has single quotes, as Python prints an object"):
        read("{'text': 'good', 'label': 'pos'}\n{'text': 'bad', 'label': 'neg'}\n")


@pytest.mark.parametrize("names", ["word\tpos", "FORM\tUPOS", "tokens\tner_tags"])
def test_usual_names_above_words_are_a_header(read, names):
    data = read(f"{names}\nAnna\tNOUN\nruns\tVERB\n\nBig\tADJ\n", TAG)
    assert [each.words for each in data.examples] == [("Anna", "runs"), ("Big",)]
    assert "The first line is a header, which was left out." in data.notes


@pytest.mark.parametrize("number", ["Sentence: {}", "s{}", "{}", "1-{}", "{}-4"])
def test_numbers_of_sentences_are_no_words(read, number):
    rows = "".join(f"{number.format(i)}\t{word}\t{tag}\n" for i, (word, tag) in enumerate(zip("abcd", "OXOX")))
    for header in ("", "Sentence #\tWord\tTag\n"):
        with pytest.raises(CorpusError, match="begins with a number, and so do all others"):
            read(header + rows, TAG)


def test_words_without_an_empty_line_are_said_to_be_one_sentence(read):
    text = "he O\nwon O\nin O\nRome B-place\n. O\n" * 21
    said = "No line is empty, so all 105 words are one sentence. End each with an empty line."
    assert said in read(text, TAG).notes
    assert said not in read(f"{text}\na O\n", TAG).notes


@pytest.mark.parametrize("value", ["true", "false", 1, []])
def test_a_question_is_impossible_by_true_alone(read, value):
    with pytest.raises(CorpusError, match=r"whose is_impossible is .*; write true or false"):
        read(squad("Rome is old.", {"answers": [], "is_impossible": value}), ANSWER)


def test_numbers_with_fractions_are_said_to_be_classes(read):
    text = "".join(f"text {i}\t{i % 12 / 2}\n" for i in range(36))
    said = "The labels are numbers, each learned as a class of its own; text-regression learns them as numbers."
    assert said in read(text).notes
    assert said not in read(text, REGRESS).notes
    assert said not in read(text.replace(".5", "")).notes


def test_examples_that_are_also_learned_from_are_counted(read, tiny_checkpoint):
    train, test = read(lines("{text}\t{label}")), read(lines("{text}\t{label}", TEXTS[:4]), name="test.txt")
    parts = TaskParts(train, test, test)
    notes = prepare(FinetuningRecipe(name="mine", task=CLASSIFY, title="Mine"), parts, start=tiny_checkpoint).notes
    assert "test.txt: 4 of 4 examples are in the training part too, so a model may know them by heart." in notes


def test_a_text_of_any_length_is_read(read):
    long = "word " * 60_000
    assert read(f"text,label\n{long},pos\nbad,neg\n", name="task.csv").examples[0].text == long.strip()


@pytest.mark.parametrize("text", ["", "1\n", "a\t1\n", "i\tHe ran.\t0\n"])
def test_a_file_of_choices_with_too_few_columns_is_refused(read, text):
    with pytest.raises(CorpusError, match=r"columns .\d.; write a category|has no examples"):
        read(text, CHOOSE)
