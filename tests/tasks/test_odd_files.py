"""Task files as people have them: what is doubtful in one is counted and said."""

import json

import pytest

from bert_core.errors import CorpusError
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.tasks.examples import TASKS, TaskParts

CLASSIFY, REGRESS, CHOOSE, ANSWER, TAG = TASKS
TEXTS = ("we had good bread", "he lost his house", "a lovely day", "the rain ruined all", "he sang a song")
LABELS = ("pos", "neg", "pos", "neg", "pos")


def lines(form, texts=TEXTS, labels=LABELS):
    return "".join(form.format(text=text, label=label) + "\n" for text, label in zip(texts, labels))


MISTAKES = [
    ('text,label\ngood,pos\n"bad,neg\n' + "fine,pos\n" * 50, r"Line 3 of task\.txt is not CSV"),
    (
        "text,label\ngood,pos\nbad\n",
        r"Line 3 of task.txt has another number of columns \(1\) than the first",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_named_by_its_line(read, text, message):
    with pytest.raises(CorpusError, match=message):
        read(text)


def test_a_decimal_comma_is_named(read):
    for text in ("text\tscore\na\t0,5\nb\t1,5\n", "gut gemacht;0,5\nschlecht;1,0\nganz nett;3,5\n"):
        with pytest.raises(CorpusError, match=r"has the label '0,5'; text-regression needs a number"):
            read(text, REGRESS)


WORDS = "Anna\t{}\nlives\tO\nin\tO\nNew\t{}\nYork\t{}\n\nWe\tO\nsing\tO\n"


def test_tags_that_are_changed_are_counted(read):
    data = read(WORDS.format("I-PER", "I-LOC", "I-LOC"), TAG)
    assert data.examples[0].label == ("B-PER", "O", "O", "B-LOC", "I-LOC")
    assert "Tags with I- that begin an entity, now with B-: 2." in data.notes
    assert not any("I-" in note for note in read(WORDS.format("B-PER", "B-LOC", "I-LOC"), TAG).notes)


@pytest.mark.parametrize("names", ["word\tpos", "FORM\tUPOS", "tokens\tner_tags"])
def test_usual_names_above_words_are_a_header(read, names):
    data = read(f"{names}\nAnna\tNOUN\nruns\tVERB\n\nBig\tADJ\n", TAG)
    assert [each.words for each in data.examples] == [("Anna", "runs"), ("Big",)]
    assert data.columns.is_named


def test_words_that_are_empty_are_counted(read):
    text = WORDS.format("B-PER", "O", "O").replace("in\t", "\t")
    assert "Empty words, which no model can read: 1." in read(text, TAG).notes


UD = (
    "# sent_id = 1\n# text = im Haus is it ten columns wide in words\n1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tin\tin\tADP\t_\t_\t2\tcase\t_\t_\n2\tHaus\tHaus\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
)


def test_conll_u_is_read_without_comments(read):
    data = read(UD, TAG)
    assert [(each.words, each.label) for each in data.examples] == [(("in", "Haus"), ("ADP", "NOUN"))]


@pytest.mark.parametrize("text", ["a b c\n", "s1\tAnna\tB-PER\n"])
def test_other_columns_of_words_are_asked(read, text):
    with pytest.raises(CorpusError, match=r"It is not clear which columns of task\.txt are the word and the tag"):
        read(text, TAG)


def test_a_word_may_begin_like_a_comment(read):
    data = read("# O\n#sun O\n1-2 B-SCORE\n\n-DOCSTART- O\n\n#rain O\n3.5 O\n", TAG)
    assert [each.words for each in data.examples] == [("#", "#sun", "1-2"), ("#rain", "3.5")]
    assert not any("left out" in note for note in data.notes)


def test_long_words_of_marks_are_read_at_once(read):
    assert len(read(f"In B-a\n{'_' * 200_000} O\n", TAG).examples) == 1


def test_words_without_an_empty_line_are_said_to_be_one_sentence(read):
    text = "he O\nwon O\nin O\nRome B-place\n. O\n" * 21
    said = "No line is empty, so all 105 words are one sentence. End each with an empty line."
    assert said in read(text, TAG).notes
    assert said not in read(f"{text}\na O\n", TAG).notes


def endings(names, *rows):
    return f"sent1,sent2,{','.join(names)},label\n" + "".join(f"He ran.,He,{row}\n" for row in rows)


def test_an_empty_ending_is_refused(read):
    with pytest.raises(CorpusError, match=r"Line 2 of task\.txt has an empty text or another number of choices"):
        read(endings(("ending0", "ending1"), "fell,,1"), CHOOSE)


def test_endings_have_the_order_of_their_numbers_and_labels_may_have_a_point(read):
    [example] = read(endings(("ending1", "ending0"), "fell,sang,1.0"), CHOOSE).examples
    assert (example.texts[1:], example.label) == (("He sang", "He fell"), 1)


def squad(context, *answers):
    asked = [{"id": str(i), "question": "Where?", **answer} for i, answer in enumerate(answers)]
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": asked}]}]})


def test_notes_say_which_file_they_are_about(read, tiny_checkpoint):
    text = lines("{text}\t{label}") + "no idea\t\n"
    train, test = (read(text, name=name) for name in ("train.tsv", "test.tsv"))
    notes = prepare(
        FinetuningRecipe(name="own", task=CLASSIFY, title="own"), TaskParts(train, None, test), start=tiny_checkpoint
    ).notes
    left_out = "Examples left out because they have no label: 1."
    assert notes[:3] == ("Texts: column 1. Label: column 2.", left_out, f"In test.tsv: {left_out}")


def test_answers_that_no_window_holds_are_counted(read, tiny_checkpoint):
    words = ["romeo"] * 60  # each is a token
    context = " ".join(words)
    given = [{"answers": [{"text": " ".join(words[:count]), "answer_start": 0}]} for count in (1, 8, 50)]
    data = read(squad(context, *given), ANSWER)
    recipe = FinetuningRecipe(name="mine", task=ANSWER, title="Mine")
    sizes = {"data.sequence_length": 30, "data.longest_answer": 7}
    notes = prepare(recipe.override(sizes), TaskParts(data, data), start=tiny_checkpoint).notes
    assert any("1 of 3 are longer than the 17 tokens that are read and lose their ends" in note for note in notes)
    short = read(squad(context, given[0], given[0]), ANSWER)
    notes = prepare(recipe.override(sizes), TaskParts(short, short), start=tiny_checkpoint).notes
    assert not any("lose their ends" in note for note in notes)


def test_examples_that_are_also_learned_from_are_counted(read, tiny_checkpoint):
    train, test = read(lines("{text}\t{label}")), read(lines("{text}\t{label}", TEXTS[:4]), name="test.txt")
    parts = TaskParts(train, test, test)
    notes = prepare(FinetuningRecipe(name="mine", task=CLASSIFY, title="Mine"), parts, start=tiny_checkpoint).notes
    assert "test.txt: 4 of 4 examples are in the training part too, so a model may know them by heart." in notes


def test_a_text_of_any_length_is_read(read):
    long = "word " * 60_000
    assert read(f"text,label\n{long},pos\nbad,neg\n", name="task.csv").examples[0].texts == (long.strip(),)
