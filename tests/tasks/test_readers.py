"""Task files as they are published, and files with mistakes, each named by its line."""

import dataclasses
import json

import pytest

from bert_core.config import PUBLIC
from bert_core.errors import CorpusError
from bert_core.tasks.examples import TASKS, TaskData, TaskParts, load_task
from bert_core.tasks.task import Example


def read(tmp_path, text, task, **options):
    path = tmp_path / "task.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_task(path, task, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("good film\t1\nbad film\t0\n", (("good film",), "1")),
        ("sentence\tlabel\ngood film\tpos\n\nbad\tneg\n", (("good film",), "pos")),
        ("label\tsentence\n1\tgood film\n0\tbad\n", (("good film",), "1")),
        ("深圳房价_!_5\n故宫_!_1\n", (("深圳房价",), "5")),
        ("A man eats._!_A man sleeps. _!_2\nx_!_y_!_0\n", (("A man eats.", "A man sleeps."), "2")),
        ("index\tsentence1\tsentence2\tscore\n7\ta\tb\t3\n8\tc\td\t0\n", (("a", "b"), "3")),
        (
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tone\ttwo\n0\t9\t9\tc\td\n",
            (("one", "two"), "1"),
        ),
        ("one\ttwo\tyes\r\nthree\tfour\tno\r\nfive\tsix\tyes\r\n", (("one", "two"), "yes")),
    ],
)
def test_forms_of_texts(tmp_path, text, expected):
    data = read(tmp_path, text, "text-classification")
    assert data.examples[0] == Example(*expected)
    assert len(data.labels()) == 2
    assert len(data.examples) == len(list(filter(str.strip, text.splitlines()))) - data.columns.is_named


@pytest.mark.parametrize(
    ("between", "said"),
    [("\t", "tab"), ("_!_", "_!_"), (",", ","), (";", ";"), (" ", "space"), ("::", "::")],
)
def test_what_stands_between_columns_is_known_as_a_person_would_write_it(between, said, tmp_path):
    chosen = {"separator": said} if between in (" ", "::") else {}
    data = read(tmp_path, f"good{between}1\nbad{between}0\n", "text-classification", **chosen)
    assert data.columns.between == said
    assert (
        read(tmp_path, f"good{between}1\nbad{between}0\n", "text-classification", separator=said).columns
        == data.columns
    )


def test_labels_are_in_the_order_of_their_numbers(tmp_path):
    data = read(tmp_path, "a\t10\nb\t9\nc\tx\nd\t2\n", "text-classification")
    assert data.labels() == ("2", "9", "10", "x")


def test_numbers_for_regression(tmp_path):
    data = read(tmp_path, "sentence1\tsentence2\tscore\na\tb\t2.5\nc\td\t-1\n", "text-regression")
    assert [example.label for example in data.examples] == [2.5, -1]
    assert data.labels() == ()


def test_choices_of_swag(tmp_path):
    swag = ',video-id,sent1,sent2,ending0,ending1,label\n0,v,He sits.,He,"eats, then sleeps.",flies.,0\n'
    expected = Example(("He sits.", "He eats, then sleeps.", "He flies."), 0)
    assert read(tmp_path, swag, "multiple-choice").examples == [expected]
    without_begin = "sent1,ending0,ending1,label\nHe sits.,He eats.,He flies.,1\n"
    expected = Example(("He sits.", "He eats.", "He flies."), 1)
    assert read(tmp_path, without_begin, "multiple-choice").examples == [expected]


def squad(answers, context="Juliet lives in Verona, a town.", **more):
    entry = {"id": "q1", "question": " Where does she live? ", "answers": answers, **more}
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": [entry]}]}]})


def test_answers_of_both_versions(tmp_path):
    data = read(tmp_path, squad([{"text": "Verona", "answer_start": 16}]), "question-answering")
    context = "Juliet lives in Verona, a town."
    assert data.examples == [Example(("Where does she live?", context), (("Verona", 16),), name="q1")]
    places = [{"text": "town", "answer_start": 20}], [{"text": "town", "answer_start": 26}]
    asked = [json.loads(squad(each))["data"][0] for each in places]
    moved = read(tmp_path, json.dumps({"data": asked}), "question-answering")
    assert [each.label for each in moved.examples] == [(("town", 26),)]
    assert moved.notes == ("Questions left out because no answer is at its answer_start: 1.",)
    none = read(tmp_path, squad([], is_impossible=True), "question-answering")
    assert none.examples[0].label == ()
    assert none.notes == ("Questions without an answer in their context: 1.",)


def test_tags_of_conll_in_either_scheme(tmp_path):
    text = (
        "-DOCSTART- -X- O O\n\nRomeo NNP I-NP I-PER\nJuliet NNP I-NP B-PER\nsaw VB O O\n\nRome NNP I-NP I-LOC\n\ufeff\n"
    )
    data = read(tmp_path, text, "token-classification")
    assert data.examples == [
        Example(("Romeo Juliet saw",), ("B-PER", "B-PER", "O"), ("Romeo", "Juliet", "saw")),
        Example(("Rome",), ("B-LOC",), ("Rome",)),
    ]
    assert data.labels() == ("O", "B-LOC", "B-PER")


def test_the_same_forms_without_labels(tmp_path):
    def first(text, task):
        return read(tmp_path, text, task, labelled=False).examples[0]

    assert first("one\n", "text-classification") == Example(("one",))
    assert first("sentence\tlabel\none\t1\n", "text-classification") == Example(("one",))
    assert first("sent1,ending0,ending1\np,x,y\n", "multiple-choice").texts == ("p", "x", "y")
    assert first(squad([]), "question-answering").label is None
    tagged = read(tmp_path, "Romeo\nsaw\n", "token-classification", labelled=False, columns="1").examples
    assert tagged == [Example(("Romeo saw",), None, ("Romeo", "saw"))]


PLACE = {"text": "Verona", "answer_start": 16}
NO_SQUAD = [
    *("{", "[" * 100_000, '{"data": NaN}', "{}", "[]", "7", '{"data": {"paragraphs": []}}', '{"data": ["paragraphs"]}'),
    *(
        '{"data": [{"paragraphs": [{"context": "a"}]}]}',
        '{"data": [{"paragraphs": [{"context": "a", "qas": ["id"]}]}]}',
    ),
    *(squad([{"text": "Verona"}]), squad("Verona"), squad(None), squad([None]), squad([PLACE], context=7)),
    *(squad([PLACE], context=" "), squad([PLACE], context=None), squad([PLACE], question=[]), squad([], question=" ")),
    *(squad([{**PLACE, "answer_start": each}]) for each in ("16", 1.5, None, [])),
    *(squad([{**PLACE, "text": each}]) for each in (7, None, ["Verona"])),
]
ENDINGS = "sent1,ending0,ending1,label\n"
MISTAKES = [
    (
        "text-classification",
        "good\t1\nbad\n",
        r"Line 2 of task.txt has another number of columns \(1\) than the first line \(2\)",
    ),
    ("text-classification", "good\n", "It is not clear which columns of task.txt are"),
    ("text-classification", "label\n", "It is not clear which columns of task.txt are"),
    ("text-classification", "label\n1\n", "It is not clear which columns of task.txt are"),
    ("text-classification", "a\tb\tc\td\n", "It is not clear which columns of task.txt are"),
    ("text-classification", '{"text": "good", "label": 1}\n', "task.txt is JSON; write its texts and"),
    ("text-classification", '[{"text": "good",\n "label": 1}]\n', "task.txt is JSON; write its texts and"),
    ("text-classification", "good\t\nbad\t\n", "task.txt has no examples"),
    ("text-classification", "\n\n", "task.txt .* empty|task.txt has no examples"),
    ("text-regression", "good\t1\nbad\tnan\n", "Line 2 of task.txt has the label 'nan'"),
    ("text-regression", "good\t1\nbad\tlow\n", "Line 2 of task.txt has the label 'low'"),
    ("multiple-choice", ENDINGS + "p,x,y,2\n", "Line 2 of task.txt has the label '2'; it must be from 0 to 1"),
    ("multiple-choice", ENDINGS + "p,x,y,z,1\n", r"Line 2 of task.txt has another number of columns \(5\)"),
    ("multiple-choice", "sent1,ending0,label\np,x,0\n", "Line 2 of task.txt has an empty text or another number of"),
    ("multiple-choice", "sent2,ending0,label\n", "has no column 'sent1'"),
    (
        "multiple-choice",
        "sent1,sent2,ending0,ending1,label\na,b,c\n",
        r"Line 2 of task.txt .* columns \(3\) than the first",
    ),
    *[("question-answering", text, "task.txt is not SQuAD's JSON") for text in NO_SQUAD],
    ("question-answering", squad([{"text": "Paris", "answer_start": 3}]), "task.txt has no examples"),
    (
        "token-classification",
        "Romeo\tB-PER\nsaw\tVB\tO\n",
        r"Line 2 of task.txt has another number of columns \(3\) than the first line \(2\)",
    ),
    ("token-classification", "Romeo\tB-PER\nsaw\t\n", "Line 2 of task.txt has an empty tag"),
    ("token-classification", "Romeo\n", "It is not clear which columns"),
    ("text-summary", "a\tb\n", "The task 'text-summary' is unknown"),
]


@pytest.mark.parametrize(("task", "text", "message"), MISTAKES)
def test_a_mistake_is_named_by_its_line(tmp_path, task, text, message):
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, text, task)


FEW = dataclasses.replace(PUBLIC, items=9)
LONG = [
    ("text-classification", "a\t1\n" * 5, r"task\.txt has 10 lines and columns; the limit here is 9\. Use a part"),
    ("text-regression", "a\t1\n" * 5, "has 10 lines and columns"),
    ("multiple-choice", "sent1,sent2,ending0,ending1,label\na,b,c,d,0\n", "has 10 lines and columns"),
    ("token-classification", "a\tO\n" * 5, "has 10 lines and columns"),
    ("text-classification", "a\t1" + " " * PUBLIC.upload_bytes, "has more than 5 MB; use a part"),
]


@pytest.mark.parametrize(("task", "text", "message"), LONG)
def test_a_file_over_the_limits_is_refused_before_examples_are_made(tmp_path, task, text, message):
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, text, task, limits=FEW)


def test_a_label_that_only_the_test_part_has_is_named(tmp_path):
    training = read(tmp_path, "Romeo\tB-PER\nsaw\tO\n", "token-classification")
    tested = read(tmp_path, "he\tO\n\nin\tO\nRome\tB-LOC\n", "token-classification")
    with pytest.raises(CorpusError, match=r"task.txt has the label 'B-LOC', which the training part lacks"):
        tested.with_labels_of(training.labels())


@pytest.mark.parametrize("task", TASKS)
def test_bytes_that_are_no_text_are_refused(tmp_path, task):
    with pytest.raises(CorpusError):
        read(tmp_path, b"\x00\x01\xff\xfe\xd8" * 50, task)


def test_what_cannot_be_learned_is_refused(tmp_path):
    one = read(tmp_path, "a\tx\nb\tx\n", "text-classification")
    with pytest.raises(CorpusError, match=r"The number of labels in task\.txt is 1, such as 'x'; it must be from 2"):
        one.labels()
    many = read(tmp_path, "".join(f"a text\t{i}\n" for i in range(1_001)), "text-classification")
    with pytest.raises(CorpusError, match=r"is 1,001, such as .* it must be from 2 to 1,000"):
        many.labels()


def test_the_held_out_part_has_its_share_of_each_label_whatever_the_seed(tmp_path):
    rows = "".join(f"text {i}\t{'rare' if i == 6 else 'few' if i < 2 else 'usual'}\n" for i in range(13))
    tags = "\n\n".join(f"a O\nb {'B-LOC' if i == 4 else 'B-PER'}" for i in range(13))
    unequal = "".join(f"text {i}\t{'neg' if i % 30 == 7 else 'pos'}\n" for i in range(300))
    for task, text, sizes, held in (
        ("text-classification", rows, (9, 4), {"few": 1, "usual": 3}),
        ("token-classification", tags, (9, 4), {"O": 4, "B-PER": 4}),
        ("text-classification", unequal, (210, 90), {"pos": 87, "neg": 3}),
    ):
        data = read(tmp_path, text, task)
        for seed in range(20):
            training, held_out = data.split(0.3, seed)
            assert training.labels() == data.labels()
            assert held_out.names() == held
            assert (len(training.examples), len(held_out.examples)) == sizes
    alone = read(tmp_path, "a B-LOC\n\nb B-PER\n", "token-classification")
    one = [Example((question, "hello"), (("hello", 0),)) for question in ("who ?", "where ?")]
    with pytest.raises(CorpusError, match=r"All questions of own\.json are about one context; add another or a valid"):
        TaskData("question-answering", one, "own.json").split(0.5, 0)
    with pytest.raises(CorpusError, match=r"No example of task\.txt can be held out"):
        alone.split(0.3, seed=1)


@pytest.mark.parametrize(
    ("known", "other", "said"),
    [
        ("01", ("0.0", "1.0"), "'0.0' as '0', '1.0' as '1'"),
        (("pos", "neg"), ("POS", " neg"), "'POS' as 'pos'"),
        (("very good", "bad"), ("very  Good", "bad"), "'very  Good' as 'very good'"),
        (("caf\u00e9", "tea"), ("cafe\u0301", "tea"), "'cafe\u0301' as 'caf\u00e9'"),
    ],
)
def test_a_label_that_is_written_otherwise_is_the_same(tmp_path, known, other, said):
    texts = ("".join(f"t\t{label}\n" for label in labels) for labels in (known, other))
    training, tested = (read(tmp_path, text, "text-classification") for text in texts)
    same = tested.with_labels_of(training.labels())
    assert [each.label for each in same.examples] == [*known]
    assert same.notes == (*tested.notes, f"Labels that are written otherwise: {said}.")
    assert training.with_labels_of(training.labels()) is training


def test_the_fingerprint_is_of_the_texts_and_labels_alone(tmp_path):
    def fingerprint(text, task="text-classification"):
        return TaskParts(read(tmp_path, text, task)).fingerprint

    known = fingerprint("good\tpos\nbad\tneg\n")
    assert known == "e677e0929ccbe97ff5306d3a2076faebac082d4342da2e3060f7bd33b323174b", "it is saved with a run"
    assert known == fingerprint("text,label\n\ngood,pos\nbad,neg\n") != fingerprint("good\tneg\nbad\tneg\n")
    one, same, other = (fingerprint(f"good\t{number}\n", "text-regression") for number in ("1", "1.0", "2"))
    assert one == same != other


def test_questions_about_one_context_stay_together(tmp_path):
    paragraphs = [
        {"context": f"context {i}", "qas": [{"question": f"q{i}{j}", "answers": []} for j in range(3)]}
        for i in range(7)
    ]
    data = read(tmp_path, json.dumps({"data": [{"paragraphs": paragraphs}]}), "question-answering")
    training, held_out = data.split(0.3, seed=1)
    contexts = [{example.texts[1] for example in part.examples} for part in (training, held_out)]
    assert not contexts[0] & contexts[1]
    assert [len(part.examples) for part in (training, held_out)] == [15, 6]
    assert data.split(0.3, seed=1)[1].examples == held_out.examples
    assert data.split(0.3, seed=2)[1].examples != held_out.examples
