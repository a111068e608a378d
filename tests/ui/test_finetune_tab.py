"""The Fine-tune tab: its runs beside those of pretraining, what a tuned model answers, and what pre-training bought."""

import json
import re

import gradio as gr
import pytest
import torch
from helpers import finished, labelled
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from balcony.finetune.answers import (
    cut,
    few_examples,
    prediction_value,
    results_value,
    samples_value,
    task_model,
    tried_value,
    windows_code,
    windows_value,
)
from balcony.finetune.columns import parts_of, path_of_parts
from balcony.finetune.tab import UNKNOWN, TaskForm, task_facts
from balcony.frame.page_request import PageRequest
from balcony.frame.question import Question
from balcony.frame.shown_model import description, models, shown_model
from balcony.handlers import own
from balcony.models.tab import model_facts
from balcony.parts.task_input import PAIR_HINT
from balcony.server.files import save_to_share
from balcony.server.news import run_news
from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from bert_core import load_recipe
from bert_core.config import FinetuningData
from bert_core.errors import CorpusError, InputError
from bert_core.runs.recipe import FinetuningRecipe, finetuning_recipe, finetuning_recipes
from bert_core.runs.run import Run
from bert_core.tasks.examples import TASKS, TaskData, TaskParts
from bert_core.tasks.task import Example, Prediction
from bert_core.tasks.token_classification import places

QUICK = {"epochs": 1, "batch_size": 20}


def recipe_of(kind: str) -> FinetuningRecipe:
    return FinetuningRecipe(name="own", task=kind, title="A task").override(QUICK)


def tuned(workspaces: Workspaces, space: Workspace, checkpoint, kind: str = "text-classification") -> Run:
    """A finished run on a small task of a kind."""
    parts = TaskParts(labelled(kind), labelled(kind, seed=1), labelled(kind, seed=2))
    return finished(workspaces.finetune(space, recipe_of(kind), checkpoint, parts))


def test_a_run_is_beside_those_of_the_train_tab_and_a_model_for_all_tabs(workspaces, space, tiny_checkpoint) -> None:
    run = tuned(workspaces, space, tiny_checkpoint)
    assert space.runs[run.id] is run is space.finetuning_run
    assert (space.current_run, space.pretraining_runs) == (None, [])
    assert (run.id, f"Run 1 · {own('A task')}", "finished") in [found[:3] for found in models(workspaces, space)]
    shown = shown_model(workspaces, space, run.id, None)
    assert [step for step, loss in shown["curve"] if loss > 0] == [1, 2, 3, 4]
    assert description(run)["missing"].startswith("It used another model")
    pretraining = workspaces.start(space, load_recipe("romeo-juliet").override({"training.steps": 1}), None, 0)
    assert space.current_run is pretraining
    assert [space.entries[each.id].number for each in (run, pretraining)] == [1, 2]
    space.stop()


def test_news_have_the_loss_and_the_measure_of_the_validation_part(workspaces, space, tiny_checkpoint) -> None:
    run = tuned(workspaces, space, tiny_checkpoint)
    news = run_news(space, run.id, 0, -1, 0)
    point = run.evaluations()[0]
    assert [each[0] for each in news["points"]] == [1, 2, 3, 4]
    assert news["held"] == [[4, pytest.approx(point.loss, rel=1e-3), pytest.approx(point.accuracy, rel=1e-3)]]
    assert run_news(space, run.id, *news["cursors"])["points"] == []
    json.dumps(news, allow_nan=False)


@pytest.mark.parametrize("kind", TASKS)
def test_examples_and_a_typed_sentence_are_answered(kind, workspaces, space, tiny_checkpoint) -> None:
    question = Question(text="nice romeo", pair="great juliet today", choices=("nice team", "great name"))
    asked = PageRequest(workspaces, space, question)
    assert results_value(asked) == tried_value(asked) == {}
    run = tuned(workspaces, space, tiny_checkpoint, kind)
    value = results_value(asked)
    assert (value["key"], value["task"]) == (run.id, kind)
    right = [example["right"] for example in value["examples"]]
    assert right == sorted(right, key=bool)
    said = r"\d+ of 80 test examples right\. Always giving one and the same answer would be right for \d+\."
    assert re.fullmatch("On 80 test examples:" if kind == "text-regression" else said, value["verdict"])
    assert bool(value["confusion"]) == (kind in ("text-classification", "token-classification"))
    tried = tried_value(asked)
    json.dumps([value, tried], allow_nan=False)
    if "marked" in tried:
        whole = {"question-answering": question.pair, "token-classification": question.text}[kind]
        assert "".join(text for text, _ in tried["marked"]) == whole
    else:
        assert tried["guess"]
    if kind == "multiple-choice":
        assert tried["guess"] in question.choices
        assert tried["bars"][0][1] + tried["bars"][1][1] == pytest.approx(1, abs=1e-3)
    facts = dict(model_facts(task_model(asked).model)["facts"])
    assert facts["Task"].startswith(kind.replace("-", " "))
    parameters = {name: shape for name, shape, _ in model_facts(task_model(asked).model)["parameters"]}
    layer = "qa_outputs" if kind == "question-answering" else "classifier"
    assert parameters[f"{layer}.weight"].endswith(" × 12")


def test_three_examples_of_each_task_have_different_answers(tiny_checkpoint) -> None:
    def shown(data: TaskData) -> list[dict]:
        return samples_value(data, tiny_checkpoint, FinetuningData())["examples"]

    for recipe in finetuning_recipes():
        if not recipe.files:
            continue
        examples = shown(recipe.source().train)
        answers = [each.get("label") or [kind for _, kind in each["true"] if kind] for each in examples]
        assert len(examples) == 3
        assert answers[0] != answers[1] != answers[2]
        assert all(answers)
    assert len(shown(TaskData("text-regression", [Example(("a",), 1.0)] * 2))) == 1


@pytest.mark.parametrize(
    ("task", "texts", "label", "words", "rows", "read"),
    [
        (
            "text-classification",
            ("hello romeo", "nice"),
            "yes",
            None,
            [("[CLS] hello romeo [SEP] nice [SEP]", 4)],
            [(0, "yes")],
        ),
        ("text-regression", ("great",), 2.5, None, [("[CLS] great [SEP]", 3)], [(0, "2.5")]),
        (
            "multiple-choice",
            ("hello", "romeo", "my name"),
            1,
            None,
            [("[CLS] hello [SEP] romeo [SEP]", 3), ("[CLS] hello [SEP] my name [SEP]", 3)],
            [(1, "my name")],
        ),
        (
            "question-answering",
            ("hello name", "my name is juliet"),
            (("is juliet", 8),),
            None,
            [("[CLS] hello name [SEP] my name is juliet [SEP]", 4)],
            [(6, "start"), (7, "end")],
        ),
        (
            "token-classification",
            ("nice romeo",),
            ("O", "B-x"),
            ("nice", "romeo"),
            [("[CLS] nice romeo [SEP]", 4)],
            [(1, "O"), (2, "B-x")],
        ),
    ],
)
def test_a_figure_has_the_rows_of_an_example_and_where_its_answer_is_read(
    task, texts, label, words, rows, read, tiny_checkpoint
) -> None:
    other = {"yes": "no"}.get(label, label) if isinstance(label, str) else label
    data = TaskData(task, [Example(texts, label, words), Example(texts, other, words)])
    figure = samples_value(data, tiny_checkpoint, FinetuningData())["figure"]
    assert [(" ".join(row["tokens"]), row["second"]) for row in figure["rows"]] == rows
    assert figure["read"] == read


def test_a_figure_shows_the_window_of_a_long_context_that_has_the_answer(tiny_checkpoint) -> None:
    context = " ".join(["hello", "my"] * 9 + ["romeo"])
    data = TaskData("question-answering", [Example(("hello", context), (("romeo", context.index("romeo")),))])
    config = FinetuningData(sequence_length=12, context_first=True)  # 8 words in a window, 4 further the next: 4 of 19
    figure = samples_value(data, tiny_checkpoint, config)["figure"]
    assert figure["of"] == 4
    assert figure["rows"] == [{"tokens": ["[CLS]", *context.split()[12:], "[SEP]", "hello", "[SEP]"], "second": 9}]
    assert figure["read"] == [(7, "start"), (7, "end")]


def test_few_held_out_examples_are_said_to_measure_nothing() -> None:
    assert few_examples(8) == []
    assert few_examples(3)[0].startswith(
        "So few held-out examples (3) measure nothing: one more right moves the accuracy"
    )


def test_what_is_missing_is_asked_for_and_what_is_not_used_is_named(workspaces, space, tiny_checkpoint) -> None:
    tuned(workspaces, space, tiny_checkpoint)
    assert "hint" in tried_value(PageRequest(workspaces, space, Question()))
    pair = tried_value(PageRequest(workspaces, space, Question(text="nice romeo", pair="great")))
    alone = tried_value(PageRequest(workspaces, space, Question(text="nice romeo")))
    assert pair["bars"] == alone["bars"]
    assert (len(pair["notes"]), len(alone["notes"])) == (1, 0)


def test_a_model_of_pairs_asks_for_both_texts(workspaces, space, tiny_checkpoint) -> None:
    examples = [Example((*each.texts, "great"), each.label) for each in labelled("text-classification").examples]
    parts = TaskParts(TaskData("text-classification", examples), TaskData("text-classification", examples[:9]))
    finished(workspaces.finetune(space, recipe_of("text-classification"), tiny_checkpoint, parts))
    assert tried_value(PageRequest(workspaces, space, Question(text="nice romeo"))) == {"hint": PAIR_HINT}
    assert tried_value(PageRequest(workspaces, space, Question(text="nice romeo", pair="great")))["guess"] in (
        "yes",
        "no",
    )


def test_tags_without_a_mark_are_shown_with_their_type() -> None:
    example = Example(("Anna Berg sings",), None, ("Anna", "Berg", "sings"))
    found = Prediction(("PER", "PER", "VERB"))
    value = prediction_value(example, found, ("PER", "VERB"))
    assert value == {"marked": [["Anna Berg", "PER"], [" ", ""], ["sings", "VERB"]]}
    entities = TASKS["token-classification"].as_json(example, found, ("PER", "VERB"))["entities"]
    assert [(each["type"], each["text"]) for each in entities] == [("PER", "Anna Berg"), ("VERB", "sings")]


def test_a_run_shown_at_a_step_answers_with_that_step(workspaces, space, tiny_checkpoint) -> None:
    run = tuned(workspaces, space, tiny_checkpoint)
    assert task_model(PageRequest(workspaces, space, Question(model=run.id, step=0))).step == 0
    assert task_model(PageRequest(workspaces, space, Question(model=run.id))).step == run.best.step


def test_a_text_is_cut_where_it_is_marked() -> None:
    example = Example(("In New York",), None, ("In", "New", "York"))
    assert places(example, ("O", "B-place", "I-place")) == [("place", 3, 11)]
    assert cut("In New York.", [("place", 3, 11)]) == [["In ", ""], ["New York", "place"], [".", ""]]
    assert cut("Anna", [("person", 0, 4)]) == [["Anna", "person"]]
    assert cut("none", []) == [["none", ""]]


def test_the_facts_of_a_task_count_unknown_words_and_refuse_what_cannot_be_learned(tiny_checkpoint) -> None:
    recipe = finetuning_recipe("subjects")
    found = task_facts(recipe, recipe.source(), tiny_checkpoint)
    assert dict(found["facts"])["Examples"] == "108"
    assert found["notes"] == ["Texts: text. Label: label.", UNKNOWN]
    assert task_facts(recipe, TaskParts(labelled("text-classification")), tiny_checkpoint)["notes"] == []
    alike = TaskParts(TaskData("text-classification", [Example(("hello",), "yes")] * 9))
    with pytest.raises(CorpusError, match="it must be from 2"):
        task_facts(recipe, alike, tiny_checkpoint)
    asked = labelled("question-answering").examples[0]
    of_one = TaskParts(TaskData("question-answering", [asked] * 6, "six.json"))
    found = task_facts(finetuning_recipe("who-when-where"), of_one, tiny_checkpoint)
    assert dict(found["facts"])["[[held out|Held out]]"] == "none"
    assert found["notes"][0].startswith("All questions of six.json are about one context")


@pytest.mark.parametrize(
    ("names", "said", "expected"),
    [
        ("train-v1.1.json dev-v1.1.json", {}, "train validation"),
        ("my_TEST.tsv train.tsv valid.tsv", {}, "test train validation"),
        ("b.csv a.csv c.csv", {}, "train validation test"),
        ("testing.csv reviews.csv", {}, "test train"),  # what is left
        ("latest.csv contest.csv", {}, "train validation"),  # no names of parts
        ("train-test.csv", {}, "train"),  # two of them
        ("dev.txt", {}, "validation"),
        ("a.csv b.csv", {"b.csv": "train"}, "validation train"),
        ("train.csv test.csv", {"test.csv": "validation"}, "train validation"),
        ("a b c d", {}, "train validation test "),
    ],
)
def test_a_file_is_the_part_that_a_person_its_name_or_the_order_says(names, said, expected) -> None:
    paths = [f"/train/{name}" for name in names.split()]
    said = {f"/train/{name}": part for name, part in said.items()}
    assert parts_of(paths, said) == expected.split(" ")
    if len(paths) < 4:
        assert path_of_parts(paths, said) == dict(zip(expected.split(), paths))


def test_files_that_are_too_many_of_one_part_or_none_to_train_on_are_refused(workspaces, tmp_path) -> None:
    with pytest.raises(CorpusError, match="These are 4 files; at most three are read"):
        path_of_parts(["train", "dev", "test", "b"], {})
    with pytest.raises(CorpusError, match=f"{own('train1.tsv')} and {own('train2.tsv')} are both “Training file”"):
        path_of_parts(["train1.tsv", "train2.tsv"], {})
    with gr.Blocks():
        form = TaskForm()
    (tmp_path / "dev.tsv").write_text("ice\tyes\nsnow\tno\n", encoding="utf-8")
    values: dict = dict.fromkeys(form.all) | {form.task: "subjects", form.files: [str(tmp_path / "dev.tsv")]}
    with pytest.raises(CorpusError, match="Choose which file is the training file"):
        form.parts(values, workspaces)
    parts = form.parts(values | {form.pasted: "sun\tyes\nrain\tno\nhail\tno\n"}, workspaces)
    assert [len(part.examples) for part in (parts.train, parts.validation)] == [3, 2]


def test_each_file_is_read_in_its_own_encoding_and_says_so(workspaces, tiny_checkpoint, tmp_path) -> None:
    written = "text,label\n" + "".join(
        f"le garçon a déjà été très fâché {k},{'yes' if k % 2 else 'no'}\n" for k in range(8)
    )
    for name, encoding in (("train", "utf-8"), ("validation", "cp1252")):
        (tmp_path / f"{name}.csv").write_text(written, encoding)
    with gr.Blocks():
        form = TaskForm()
    values: dict = dict.fromkeys(form.all) | {form.task: "subjects", form.encoding: "windows-1252"}
    values |= {form.files: [str(tmp_path / f"{name}.csv") for name in ("validation", "train")]}
    parts = form.parts(values, workspaces)
    assert [part.examples[0].texts[0] for part in (parts.train, parts.validation)] == [
        "le garçon a déjà été très fâché 0"
    ] * 2
    notes = task_facts(finetuning_recipe("subjects"), parts, tiny_checkpoint)["notes"]
    assert any(note.startswith("In validation.csv: Read as windows-1252") for note in notes), notes
    values |= {form.encoding: None}
    notes = task_facts(finetuning_recipe("subjects"), form.parts(values, workspaces), tiny_checkpoint)["notes"]
    said = "In validation.csv: It is not UTF-8 and was read as windows-1252; if letters are wrong, choose the encoding."
    assert said in notes


@pytest.mark.parametrize("context_first", [False, True])
def test_the_windows_of_a_question_and_their_candidates_are_those_of_transformers(
    context_first, workspaces, space, tiny_checkpoint, tmp_path, capsys
) -> None:
    words = ["hello", "my", "name", "is", "juliet", "nice", "great", "team", "romeo", "today", "won"]
    example = Example(("hello romeo", " ".join(words * 2)), (("juliet", 17),), name="q7")
    data = TaskData("question-answering", [*labelled("question-answering").examples[:9], example])
    recipe = recipe_of("question-answering").override(
        {"data.sequence_length": 15, "data.stride": 6, "data.context_first": context_first, "data.best_answers": 3}
    )
    finished(workspaces.finetune(space, recipe, tiny_checkpoint, TaskParts(data, labelled("question-answering"))))
    asked = PageRequest(workspaces, space, Question(text=example.texts[0], pair=example.texts[1]))
    rows = windows_value(asked, None)["rows"]
    place = [(each["id"], each["window"], each["start"], each["end"], each["overlap"]) for each in rows]
    assert [*dict.fromkeys(place)] == [("q7", 1, 0, 10, 0), ("q7", 2, 6, 16, 4), ("q7", 3, 12, 22, 4)]
    assert max(map(place.count, place)) <= 9  # 15 - 3 - 2 tokens of 22, and 3 starts with 3 ends

    checkpoint = task_model(asked).model.checkpoint
    save_to_share(checkpoint, tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert ("The pipeline of transformers puts the question first" in card) == context_first
    theirs = AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()
    texts = example.texts[::-1] if context_first else example.texts
    encoded = AutoTokenizer.from_pretrained(tmp_path)(
        *texts,
        max_length=15,
        stride=4,
        truncation="only_first" if context_first else "only_second",
        return_overflowing_tokens=True,
        return_tensors="pt",
        padding=True,
    )
    encoded.pop("overflow_to_sample_mapping")
    with torch.no_grad():
        found = theirs(**encoded)
    candidates = [each for each in rows if each["answer"] is not None]
    for each in candidates:
        k = each["window"] - 1
        start, end = found.start_logits[k, each["first"]], found.end_logits[k, each["last"]]
        assert (each["start_logit"], each["end_logit"]) == pytest.approx((start.item(), end.item()), abs=1e-5)
        assert each["score"] == pytest.approx(start.item() + end.item(), abs=1e-5)
        tokens = encoded["input_ids"][k, each["first"] : each["last"] + 1]
        assert each["answer"] == " ".join(map(checkpoint.tokenizer.id_to_token, tokens.tolist()))
    best = max(each["score"] for each in candidates)
    assert tried_value(asked)["guess"] in {each["answer"] for each in candidates if each["score"] == best}
    first = {each["window"]: each for each in reversed(rows)}
    assert windows_value(asked, 1)["rows"] == [first[number] for number in (1, 2, 3)]
    exec(re.sub(r"load_checkpoint\(.*\)", f"load_checkpoint({str(tmp_path)!r})", windows_code(asked)), {})
    printed = capsys.readouterr().out
    ends = [(int(start), int(end)) for start, end in re.findall(r"Candidate\(start=(\d+), end=(\d+)", printed)]
    assert ends == [(each["first"], each["last"]) for each in candidates]


def test_a_typed_question_has_no_id_and_other_tasks_have_no_windows(workspaces, space, tiny_checkpoint) -> None:
    asked = PageRequest(workspaces, space, Question(text="hello", pair="my name is juliet"))
    assert windows_value(asked) == {}
    with pytest.raises(InputError, match="Fine-tune a model on questions first"):
        windows_code(asked)
    tuned(workspaces, space, tiny_checkpoint)
    assert windows_value(asked) == {}
    tuned(workspaces, space, tiny_checkpoint, "question-answering")
    assert {(each["id"], each["end"]) for each in windows_value(asked)["rows"]} == {("", 4)}
