"""Which columns of a file are read: those that a person chooses, those of the training part, those that a header names
as usual, or two or three in their order; anything else is asked."""

import dataclasses
import json

import pytest
import torch
from helpers import finetune, with_head

from bert_core import load_task, predict, save_checkpoint
from bert_core.__main__ import main
from bert_core.errors import CorpusError, InputError
from bert_core.storage.checkpoint import TaskHead
from bert_core.tasks.examples import TASKS, read_parts
from bert_core.tasks.tables import ColumnsError
from bert_core.tasks.task import Example

CLASSIFY, REGRESS, CHOOSE, ANSWER, TAG = TASKS


def rows(data):
    return [(*each.texts, each.label) for each in data.examples]


def tsv(*lines):
    return "".join("\t".join(line.split("|")) + "\n" for line in lines)


MNLI = "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|sentence2_parse"
MNLI += "|sentence1|sentence2|label1|gold_label"
STSB = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score"
PAIR = "index|sentence1|sentence2|label"
NAMED = [
    ("review|sentiment", "good|pos", "Texts: review. Label: sentiment."),
    ("text|label|label_text", "good|1|positive", "Texts: text. Label: label. Left out: label_text."),
    ("id|text|label", "7|good|1", "Texts: text. Label: label. Left out: id."),
    ("Label|Text", "1|good", "Texts: Text. Label: Label."),
    ("category|title", "1|good", "Texts: title. Label: category."),
    ("question1|question2|is_duplicate", "a|b|1", "Texts: question1, question2. Label: is_duplicate."),
    ("index|question|sentence|label", "0|a|b|entailment", "Texts: question, sentence. Label: label. Left out: index."),
    (
        MNLI,
        "0|1|1n|fiction|( a )|( b )|(R a)|(R b)|a|b|neutral|neutral",
        "Texts: sentence1, sentence2. Label: gold_label. Left out: index, promptID, pairID and 6 more.",
    ),
    (
        "pair_ID|sentence_A|sentence_B|relatedness_score|entailment_judgment",
        "1|a|b|3.5|NEUTRAL",
        "Texts: sentence_A, sentence_B. Label: entailment_judgment. Left out: pair_ID, relatedness_score.",
    ),
]


@pytest.mark.parametrize(("header", "line", "note"), NAMED)
def test_a_header_names_the_columns(read, header, line, note):
    names, fields = header.split("|"), line.split("|")
    texts, label = (part.split(": ")[1].strip(".") for part in note.split(". Left")[0].split(". Label"))
    found = [fields[names.index(name)] for name in texts.split(", ")]
    expected = [(*found, fields[names.index(label)])]
    commas = "".join(",".join(f'"{each}"' for each in row) + "\n" for row in (names, fields))
    for text in (tsv(header, line), commas, commas.replace(",", ";")):
        data = read(text)
        assert {*rows(data)} == {*expected}
        assert note in data.notes


def test_a_number_is_the_label_of_a_regression(read):
    data = read(tsv(STSB, "0|news|f|2012|1|none|none|a|b|2.5", "1|news|f|2012|2|none|none|c|d|-1"), REGRESS)
    assert rows(data) == [("a", "b", 2.5), ("c", "d", -1.0)]
    header = "pair_ID|sentence_A|sentence_B|relatedness_score|entailment_judgment"
    assert rows(read(tsv(header, "1|a|b|3.5|NEUTRAL"), REGRESS)) == [("a", "b", 3.5)]


def test_commas_and_quotes_belong_to_a_text(read):
    text = 'text,label\r\n"Well, ""good"",\r\nthey said", pos\r\n\r\nbad,neg\r\n'
    expected = [Example(('Well, "good",\nthey said',), "pos"), Example(("bad",), "neg")]
    assert read(text).examples == expected
    literal = tsv("sentence|label", '"good|pos', 'a "bad" film"|neg', '"so ""good"""|pos')  # as GLUE has them
    assert [each.texts[0] for each in read(literal).examples] == ['"good', 'a "bad" film"', '"so ""good"""']


@pytest.mark.parametrize("header", ["", "text;label\n"])
def test_the_separator_is_a_comma_or_a_semicolon_whichever_the_first_line_has_more_of(read, header):
    texts = ("we had bread", "no", "a day, then", "he, it, all", "yes, yes")
    data = read(header + "".join(f"{text};pos\n" for text in texts))
    assert [each.texts[0] for each in data.examples] == [*texts]
    assert rows(read("one,pos\ntwo; three,neg\n")) == [("one", "pos"), ("two; three", "neg")]


def test_another_separator_is_chosen(read):
    assert rows(read("good|pos\nbad|neg\n", separator="|")) == [("good", "pos"), ("bad", "neg")]
    assert rows(read("a, b\tpos\n", separator=",", columns="1,2")) == [("a", "b\tpos")]
    assert rows(read("a,\tpos\n,b\tneg\n", separator="tab")) == [("a,", "pos"), (",b", "neg")]


def test_columns_are_chosen_by_name_or_by_number(read):
    cola = tsv("gj04|1||He left.", "gj04|0|*|He leave.", "ad03|1||They sang.")
    data = read(cola, columns="4,2")
    assert rows(data) == [("He left.", "1"), ("He leave.", "0"), ("They sang.", "1")]
    assert data.notes == ("Texts: column 4. Label: column 2. Left out: column 1, column 3.",)
    assert data.columns.names == ("4", "2")
    many = tsv("id|review|answer|review_title|mood", "1|a|b|c|d", "2|e|f|g|h")
    assert rows(read(many, columns=["review_title", "mood"])) == [("c", "d"), ("g", "h")]
    assert rows(read(many, columns='review, "answer",mood'))[0] == ("a", "b", "d")
    assert rows(read(many, columns="2,5", has_header=True))[0] == ("a", "d")
    assert read(many, columns="2,5", has_header=True).columns.names == ("review", "mood")
    assert len(read(many, columns="2,5").examples) == 3, "numbers alone choose no header"
    assert len(read(tsv("id|text|label", "7|good|pos"), columns="2,3").examples) == 1, "but for a usual one"
    for wrong, message in {
        "revue,mood": "has no column 'revue'; its columns are: ",
        "0,2": "has no column '0'; its columns are: 1, 2, 3",
        "review": "It is not clear which columns",
        "review,review": "It is not clear which columns",
        "1,2,3,4": "It is not clear which columns",
    }.items():
        with pytest.raises(CorpusError, match=message):
            read(many, columns=wrong)


ASKED = [
    tsv("gj04|1||He left.", "gj04|0|*|He leave."),
    tsv("text|colour", "a|red", "b|blue"),
    tsv("saying|label", "a|x", "b|y"),
    tsv("text|one|two|three", "a|x|y|z"),
    tsv("text1|text2|string1|label", "a|b|c|d"),
    "good\nbad\n",
]


@pytest.mark.parametrize("text", ASKED)
def test_what_is_not_known_is_asked_with_the_first_rows(read, text):
    with pytest.raises(
        ColumnsError, match=r"which columns of task.txt are one or two texts and the label\. Choose"
    ) as error:
        read(text)
    columns = error.value.columns
    assert columns.first[0] == tuple(text.splitlines()[0].split("\t"))
    if len(columns.first[0]) > 1:
        assert read(text, columns=f"1,{len(columns.first[0])}", has_header=False).examples


@pytest.mark.parametrize("header", [None, False, True])
def test_without_usual_names_the_first_line_is_an_example_unless_a_person_says_so(read, header):
    for line, width in (("saying|purpose", 1), ("one|two|three", 2)):
        data = read(tsv(line, line.upper()), has_header=header)
        assert [len(each.texts) for each in data.examples] == [width] * (1 if header else 2)
        assert data.columns.names[-1] == (line.split("|")[-1] if header else str(width + 1))


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (["neutral", "-", "contradiction", ""], ["neutral", "contradiction"]),
        (["-1", "0", "1"], ["-1", "0", "1"]),
        (["+", "-", "+", ""], ["+", "-", "+"]),
    ],
)
def test_examples_without_a_label_are_left_out_and_counted(read, labels, kept):
    data = read(tsv("sentence|label", *(f"text {i}|{label}" for i, label in enumerate(labels))))
    assert [each.label for each in data.examples] == kept
    left_out = len(labels) - len(kept)
    assert data.notes[1:] == (f"Examples left out because they have no label: {left_out}.",) * bool(left_out)


# GLUE's nine tasks as published: the lines of the training part, whose last one has no label in some, the chosen
# columns, and the lines of the test part.
MNLI_TEST, STSB_LINE = MNLI.rpartition("|label1")[0], "0|news|f|2012|1|none|none|t1|t2"
MNLI_LINE = "0|1|1n|fiction|( a )|( b )|(R a)|(R b)|t1|t2"
DUPLICATE = "qid1|qid2|question1|question2"
GLUE = {
    "CoLA": (["gj04|1||t1 . ", "gj04|0|*|t1 ."], "4,2", ["index|sentence", "0|t1 ."]),
    "SST-2": (["sentence|label", "t1 |1"], "", ["index|sentence", "0|t1"]),
    "MRPC": (
        ["Quality|#1 ID|#2 ID|#1 String|#2 String", "1|7|8|t1|t2"],
        "",
        ["index|#1 ID|#2 ID|#1 String|#2 String", "0|7|8|t1|t2"],
    ),
    "QQP": ([f"id|{DUPLICATE}|is_duplicate", "0|1|2|t1|t2|0"], "", ["id|question1|question2", "0|t1|t2"]),
    "STS-B": ([STSB, STSB_LINE + "|2.5"], "", [STSB[:-6], STSB_LINE]),
    "MNLI": ([MNLI, f"{MNLI_LINE}|neutral|neutral", f"{MNLI_LINE}|neutral|-"], "", [MNLI_TEST, MNLI_LINE]),
    "QNLI": (["index|question|sentence|label", "0|t1|t2|entailment"], "", ["index|question|sentence", "0|t1|t2"]),
    "RTE": ([PAIR, "0|t1|t2|not_entailment", "1|t1|t2|"], "", [PAIR[:-6], "0|t1|t2"]),
    "WNLI": ([PAIR, "0|t1|t2|1"], "", [PAIR[:-6], "0|t1|t2"]),
}


@pytest.mark.parametrize("name", GLUE)
def test_the_nine_tasks_of_glue_are_read_as_published(name, tiny_checkpoint, read):
    lines, columns, test_lines = GLUE[name]
    train = read(tsv(*lines), REGRESS if name == "STS-B" else CLASSIFY, "train.tsv", columns=columns)
    is_single = name in ("CoLA", "SST-2")
    assert {each.texts[0].strip(" .") for each in train.examples} == {"t1"}
    assert {each.texts[1:] for each in train.examples} == {() if is_single else ("t2",)}
    labels = {"CoLA": ["1", "0"], "SST-2": ["1"], "MRPC": ["1"], "QQP": ["0"], "STS-B": [2.5], "WNLI": ["1"]}
    words = {"MNLI": ["neutral"], "QNLI": ["entailment"], "RTE": ["not_entailment"]}
    assert [each.label for each in train.examples] == {**labels, **words}[name]
    test = read(tsv(*test_lines), labelled=False, model=tuned(tiny_checkpoint, train.columns.names))
    assert [each.texts for each in test.examples] == [train.examples[-1].texts]


def test_one_of_a_thousand_lines_may_be_unlike_the_others(read):
    lines = ["sentence|label", *(f"text {i}|{i % 2}" for i in range(1998))]
    found = read(tsv(*lines[:7], "cut", "|1", *lines[7:]))
    assert len(found.examples) == 1998
    assert found.notes.count("Lines left out because they have other columns than the first: 1.") == 1
    assert found.notes.count("Examples left out because a text is empty: 1.") == 1
    with pytest.raises(
        CorpusError, match=r"Line 8 of task\.txt has another number of columns \(1\) than the first line \(2"
    ):
        read(tsv(*lines[:7], "cut", "cut", "cut", "cut"))
    unlabelled = read(tsv(*lines[:7], "|1", *lines[7:]), labelled=False)
    assert (len(unlabelled.examples), unlabelled.blanks) == (1998, (6,)), "it gets no prediction"


def tuned(checkpoint, columns=(), labels=("neg", "pos"), architecture="BertForSequenceClassification"):
    """A model with a task's output layer that learned from these columns."""
    weight = torch.zeros(len(labels), checkpoint.config.hidden_size)
    made = with_head(checkpoint, TaskHead(architecture, labels), weight, weight[:, 0])
    return dataclasses.replace(made, recipe={"columns": list(columns)} if columns else None)


@pytest.mark.parametrize(
    ("columns", "text", "texts", "note"),
    [
        (
            ("1", "2"),
            tsv("good|pos", "bad|neg"),
            [("good",), ("bad",)],
            "Texts: column 1. Left out: column 2.",
        ),
        (("review", "mood"), tsv("review|mood", "good|pos"), [("good",)], "Texts: review. Left out: mood."),
        (("title", "mood"), tsv("text|title", "a|good"), [("good",)], "Texts: title. Left out: text."),
        (("title", "mood"), "title\ngood\n", [("good",)], "Texts: title."),
        (("1", "2"), tsv("utterance|mood", "good|pos"), [("good",)], "Texts: utterance. Left out: mood."),
        (("1", "2", "3"), tsv("a|b", "c|pos"), [("a", "b"), ("c", "pos")], "Texts: column 1, column 2."),
        (("1", "2", "3"), tsv("a|b|pos", "c|d|neg"), [("a", "b"), ("c", "d")], "Left out: column 3."),
        (("text", "label"), "good\nbad\n", [("good",), ("bad",)], "Texts: column 1."),
        ((), "Well, good\nbad, so\n", [("Well, good",), ("bad, so",)], "Texts: column 1."),
        ((), 'text,label\n"Well, good",pos\n', [("Well, good",)], "Texts: text. Left out: label."),
    ],
)
def test_a_file_for_a_model_is_read_as_the_model_learned(tiny_checkpoint, read, columns, text, texts, note):
    name = "task.csv" if '"' in text else "task.txt"
    data = read(text, name=name, labelled=False, model=tuned(tiny_checkpoint, columns))
    assert [each.texts for each in data.examples] == texts
    assert note in data.notes[0]
    assert all(each.label is None for each in data.examples)


@pytest.mark.parametrize(
    ("columns", "text", "message"),
    [
        (("1", "2", "3"), "a\nb\n", "The training examples are pairs of texts"),
        (("1", "2"), tsv("sentence1|sentence2", "c|d"), "The training examples are single texts"),
        ((), tsv("a|b", "c|d"), "It is not clear"),
    ],
)
def test_a_file_that_does_not_fit_the_model_is_asked_about(tiny_checkpoint, read, columns, text, message):
    with pytest.raises(ColumnsError, match=message):
        read(text, labelled=False, model=tuned(tiny_checkpoint, columns))


def test_examples_that_do_not_fit_the_model_are_refused(tiny_checkpoint):
    alone, pairs, unknown = (tuned(tiny_checkpoint, columns) for columns in (("1", "2"), ("1", "2", "3"), ()))
    assert len(predict(alone, ["nice romeo"])) == len(predict(pairs, [("nice", "romeo")])) == 1
    assert len(predict(unknown, ["nice", "romeo"])) == len(predict(unknown, [("nice", "romeo")])) + 1 == 2
    with pytest.raises(InputError, match="learned from single texts, and these are pairs of texts"):
        predict(alone, [("nice", "romeo")])
    with pytest.raises(InputError, match="learned from pairs of texts, and these are single texts"):
        predict(pairs, ["nice romeo"])
    with pytest.raises(InputError, match="predict takes a list of examples"):
        predict(alone, "nice romeo")


def test_empty_lines_keep_their_places(read):
    for text in ("\n\na\n\nb\n\n", "a\r\n\r\nb\r\n", "text\n\na\n", '\n"a, b"\n\n'):
        name = "new.csv" if '"' in text else "new.txt"
        data = read(text, name=name, labelled=False)
        lines = text.replace("\r", "").removesuffix("\n").split("\n")[text.startswith("text") :]
        assert len(data.examples) + len(data.blanks) == len(lines)
        assert data.blanks == tuple(i for i, line in enumerate(lines) if not line)


def test_a_text_is_read_as_the_page_reads_it(tiny_checkpoint, read):
    model = tuned(tiny_checkpoint, ("1", "2"), ("O", "B-PER"), "BertForTokenClassification")

    def words(text, **options):
        data = read(text, TAG, labelled=False, model=model, **options)
        return [each.words for each in data.examples], data.notes, data.blanks

    said = "Each line was read as a text. For a file with a word on each line, choose its columns."
    assert words("nice romeo, great\n\ntoday\n") == ([("nice", "romeo", "great"), ("today",)], (said,), (1,))
    assert words("nice\nromeo\n\nteam\n", columns="1")[:2] == ([("nice", "romeo"), ("team",)], ("Words: column 1.",))
    labelled = ([("nice", "romeo"), ("team",)], ("Words: column 1. Left out: column 2.",))
    assert words("nice\tX\nromeo\tX\n\nteam\tX\n")[:2] == labelled
    with pytest.raises(CorpusError, match="need a model"):
        read("nice romeo\n", TAG, labelled=False)


def test_a_chinese_text_has_an_answer_for_each_line_and_a_tag_for_each_character(tiny_checkpoint, tmp_path, capsys):
    model = tuned(tiny_checkpoint, ("1", "2"), ("O", "B-PER"), "BertForTokenClassification")
    save_checkpoint(model, tmp_path / "tuned")
    lines = ["苏轼是眉州眉山人。", "", "王安石住在江宁。"]
    (tmp_path / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    assert main(["predict", str(tmp_path / "tuned"), "--input", str(tmp_path / "lines.txt")]) == 0
    first, none, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert none is None
    assert (first["words"], last["words"]) == ([*lines[0][:-1]], [*lines[2][:-1]])
    assert [len(each["tags"]) for each in (first, last)] == [8, 7]
    assert all(each["text"] == lines[0][each["start"] : each["end"]] for each in first["entities"])


def test_a_model_finds_the_tags_that_it_learned(tiny_checkpoint, read):
    model = tuned(tiny_checkpoint, ("2", "3"), ("O", "B-PER"), "BertForTokenClassification")
    data = read("1\tAnna\tB-PER\tO\n2\tsings\tO\tO\n", TAG, model=model)
    assert data.examples == [Example(("Anna sings",), ("B-PER", "O"), ("Anna", "sings"))]


def test_the_word_and_the_tag_can_be_chosen(read):
    data = read("1 Anna PROPN B-PER\n2 sings VERB O\n", TAG, columns="2,3")
    assert data.examples == [Example(("Anna sings",), ("PROPN", "VERB"), ("Anna", "sings"))]
    assert data.notes[0] == "Words: column 2. Tags: column 3. Left out: column 1, column 4."
    with pytest.raises(CorpusError, match="leave out the choice of columns"):
        read("sent1,ending0,ending1,label\np,x,y,0\n", CHOOSE, columns="1,2")


def test_white_space_within_a_word_stays_there(read):
    data = read("paid O\n10\xa0000 B-SUM\neuros\u3000all O\n\nx\u2028y O\n", TAG)
    assert [each.words for each in data.examples] == [("paid", "10\xa0000", "euros\u3000all"), ("x\u2028y",)]


def test_lines_end_at_line_feeds_and_carriage_returns_alone(read):
    for end in ("\n", "\r\n", "\r", "\r\r\n"):
        text = end.join(["one\x85two\tx", "three\u2028four\ty", "five\tx", ""])
        assert [each.texts[0] for each in read(text).examples] == ["one\x85two", "three\u2028four", "five"]
        tags = end.join(["Anna\tO", "sings\tO", "", "Tom\tB-PER", ""])
        assert [each.words for each in read(tags, TAG).examples] == [("Anna", "sings"), ("Tom",)]


@pytest.mark.parametrize("header", ["premise\thypothesis\tlabel", "sentence2\tsentence1\tlabel", "one\ttwo\tthree"])
def test_the_columns_of_the_training_part_come_first_in_the_others(tmp_path, header):
    def read(path, **options):
        return load_task(path, CLASSIFY, **options)

    names = header.split("\t")
    for name, order in (("train", (0, 1, 2)), ("test", (2, 1, 0))):
        lines = ["\t".join(names[i] for i in order)]
        lines += ["\t".join(f"{names[i]} {k}" for i in order) for k in range(3)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines))
    paths = {name: tmp_path / f"{name}.tsv" for name in ("test", "train")}
    parts = read_parts(read, paths, columns=names)
    texts = [(f"{names[0]} {k}", f"{names[1]} {k}") for k in range(3)]
    assert [each.texts for each in parts.train.examples] == [each.texts for each in parts.test.examples] == texts
    assert parts.test.columns.names == (*names,)


def test_the_parts_of_a_task_are_all_single_texts_or_all_pairs(tiny_checkpoint, read):
    train, test = read(tsv("a|x", "b|y", "c|x")), read(tsv("a|d|x", "b|e|y", "c|f|x"))
    with pytest.raises(CorpusError, match="have more or fewer texts or choices than those"):
        finetune(tiny_checkpoint, train, test=test)


def test_the_command_line_asks_with_the_first_rows_and_what_to_write(tiny_checkpoint, tmp_path, capsys):
    save_checkpoint(tiny_checkpoint, tmp_path / "start")
    (tmp_path / "cola.tsv").write_text(tsv("gj04|1||nice romeo", "gj04|0|*|team great") * 5)
    begin = ["finetune", "--task", CLASSIFY, "--train", str(tmp_path / "cola.tsv")]
    begin += ["--checkpoint", str(tmp_path / "start"), "--output", str(tmp_path / "tuned"), "--set", "epochs=1"]
    assert main(begin) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("It is not clear which columns of cola.tsv are one or two texts and the label")
    assert "1: 'gj04'  2: '1'  3: ''  4: 'nice romeo'" in said[1]
    assert len(said) == 1 + 5 + 1
    assert said[-1].endswith("such as --columns 1,2.")
    assert main([*begin, "--columns", "4,2"]) == 0
    (tmp_path / "new.csv").write_text("a,b,c\nc,d,e\n")
    assert main(["predict", str(tmp_path / "tuned"), "--input", str(tmp_path / "new.csv")]) == 1
    assert "The training examples are single texts. Choose them." in capsys.readouterr().err
    (tmp_path / "bar.txt").write_text("1|nice romeo\n2|team\n")
    given = ["--input", str(tmp_path / "bar.txt"), "--separator", "|", "--columns", "2"]
    assert main(["predict", str(tmp_path / "tuned"), *given]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_whether_the_first_line_is_a_header_is_asked_where_its_label_is_its_own(tmp_path):
    rows = "".join(f"文字{k},{'好坏'[k % 2]}\n" for k in range(4))
    (tmp_path / "own.csv").write_text("文本,标签\n" + rows, encoding="utf-8")
    data = load_task(tmp_path / "own.csv", "text-classification")
    asked = "The first line is read as an example, and no other has its label '标签'."
    assert data.notes[-1] == f"{asked} If it names the columns, say so (--columns)."
    assert len(data.examples) == 5
    for said in ({"has_header": True}, {"columns": "文本,标签"}):
        data = load_task(tmp_path / "own.csv", "text-classification", **said)
        assert (len(data.examples), len(data.notes)) == (4, 1)
    (tmp_path / "own.csv").write_text(rows, encoding="utf-8")
    assert len(load_task(tmp_path / "own.csv", "text-classification").notes) == 1
