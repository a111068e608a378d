"""`python -m bert_core finetune` and `evaluate`, and what the other commands say of themselves."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers import WORDS, finetune, texts, with_head
from safetensors.torch import load_file
from squad_evaluation import evaluate_1, evaluate_2
from transformers import BertForMaskedLM

from bert_core import __main__ as command_line
from bert_core import exam, load_checkpoint, load_task, predict, read_corpus, save_checkpoint
from bert_core.__main__ import main
from bert_core.config import ASSETS
from bert_core.data.tokenizer import SPECIAL_TOKENS
from bert_core.errors import percent
from bert_core.runs import train
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import finetuning_recipe, finetuning_recipes
from bert_core.storage.checkpoint import TaskHead
from bert_core.storage.weights import CONVERSION
from bert_core.tasks.examples import TaskParts
from bert_core.tasks.token_classification import entities

REAL_SIZES = json.dumps(
    {
        "model_type": "bert",
        "vocab_size": 16,
        "hidden_size": 12,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 30,
        "max_position_embeddings": 33,
    }
)
DIALOGUE = str(ASSETS / "corpora" / "romeo-juliet.txt")
SHIPPED = str(ASSETS.parent / "checkpoints" / "romeo-juliet")
QUICK = ["--set", "training.epochs=4", "data.batch_size=8", "training.learning_rate=0.01"]


@pytest.fixture
def files(tmp_path: Path, tiny_checkpoint) -> dict[str, str]:
    """A model and two labelled files, by option."""
    save_checkpoint(tiny_checkpoint, tmp_path / "tiny")
    for name, seed in (("train", 0), ("test", 1)):
        lines = [f"{each.texts[0]}\t{each.label}" for each in texts(40, seed).examples]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: str(tmp_path / name) for name in ("tiny", "train.tsv", "test.tsv", "whole", "cut", "next")}


def tune(files: dict[str, str], output: str, *more: str) -> list[str]:
    task = ["--task", "text-classification", "--train", files["train.tsv"], "--test", files["test.tsv"]]
    return ["finetune", *task, "--checkpoint", files["tiny"], "--output", files[output], *QUICK, *more]


def last_line(text: str) -> dict:
    return json.loads(text.strip().splitlines()[-1])


def weights(folder: str) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def test_fine_tuning_says_how_far_it_is_and_what_each_epoch_brings(files, capsys):
    assert main(tune(files, "whole")) == 0
    found = capsys.readouterr()
    lines = [line for line in found.err.splitlines() if line.startswith("epoch ")]
    assert [line.partition(",")[0] for line in lines] == [f"epoch {k}" for k in (1, 2, 3, 4)]
    assert all("loss" in line and "accuracy" in line for line in lines)
    assert "36 examples" in found.err
    assert {"validation", "test", "steps"} <= last_line(found.out).keys()


@pytest.mark.parametrize("recipe", [each.name for each in finetuning_recipes() if each.files])
def test_each_epoch_of_fine_tuning_shows_an_example_and_what_the_model_says_of_it(recipe, tmp_path, capsys):
    few = ["training.epochs=1", "training.learning_rate=0.001", "data.batch_size=16", "data.sequence_length=40"]
    begin = ["finetune", "--recipe", recipe, "--checkpoint", "checkpoints/romeo-juliet", "--random-weights"]
    assert main([*begin, "--output", str(tmp_path / "tuned"), "--set", *few]) == 0
    printed = capsys.readouterr()
    [line] = [line for line in printed.err.splitlines() if line.startswith("For example ")]
    assert json.loads(printed.out)["steps"] > 1
    tuned = load_checkpoint(tmp_path / "tuned")
    job = prepare(finetuning_recipe(recipe), start=tuned)
    example = job.parts.validation.examples[0]
    [found] = predict(tuned, [example])
    match example.label:
        case float():
            right, answer = (f"{each:.2f}".rstrip("0").rstrip(".") for each in (example.label, found.label))
        case int():
            right, answer = (example.texts[1 + each] for each in (example.label, found.label))
        case [str(), *_]:
            marked = [entities(each) for each in (example.label, found.label)]
            named = [[f"{kind}: {' '.join(example.words[a:b])}" for kind, a, b in each] for each in marked]
            right, answer = ("; ".join(each) for each in named)
        case [[text, _]]:
            right, answer = text, found.label
        case name:
            right, answer = name, found.label
    right, answer = (f"“{each}”" if each else "nothing" for each in (right, answer))
    said, _, sure = line.partition(f": right {right}, answered {answer}")
    assert said.startswith(f"For example “{example.texts[0][:20]}")
    probability = max(found.probabilities or [each.probability for each in found.answers], default=None)
    assert sure == ("" if probability is None else f" ({percent(probability)})")


def test_a_fine_tuning_that_is_killed_in_the_middle_goes_on_bit_for_bit(files, capsys, monkeypatch):
    assert main(tune(files, "whole", "--seed", "3")) == 0
    wanted = last_line(capsys.readouterr().out)
    monkeypatch.setattr(train, "SLICE_SECONDS", 0)
    show = command_line._show_step

    def end(bar, row):
        show(bar, row)
        if row.step == 12:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(command_line, "_show_step", end)
    assert main(tune(files, "cut", "--seed", "3")) == 130
    assert f"Stopped at step 12; finetune --resume {files['cut']} continues." in capsys.readouterr().err
    kept = load_checkpoint(files["cut"])  # the best epoch so far
    assert kept.head is not None
    again = ["finetune", "--train", files["train.tsv"], "--test", files["test.tsv"], "--resume", files["cut"]]
    assert main([*again, "--checkpoint", files["tiny"]]) == 1
    assert "leave out --checkpoint" in capsys.readouterr().err
    assert main([*again[:3], "--resume", files["cut"]]) == 1, "the test part belongs to the task"
    assert "give the same text, unchanged" in capsys.readouterr().err
    assert main(["train", "--resume", files["cut"]]) == 1
    assert "holds a saved fine-tuning; finetune --resume continues it." in capsys.readouterr().err
    monkeypatch.undo()
    assert main(again) == 0
    found = last_line(capsys.readouterr().out)
    assert {**found, "seconds": 0} == {**wanted, "seconds": 0}
    one, other = weights(files["whole"]), weights(files["cut"])
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_fine_tuning_needs_a_model_to_start_from(files, capsys):
    arguments = tune(files, "whole")
    at = arguments.index("--checkpoint")
    assert main(arguments[:at] + arguments[at + 2 :]) == 1
    assert "Give --checkpoint" in capsys.readouterr().err


def test_a_tuned_model_keeps_its_output_layer_where_the_labels_are_the_same(tiny_checkpoint):
    settings = {"data.batch_size": 8, "learning_rate": 0.01, "dropout": 0.0}
    first = finetune(tiny_checkpoint, texts(), epochs=6, **settings)
    second = finetune(first.checkpoint, texts(), epochs=0.001, learning_rate=1e-8, dropout=0.0)
    weights = second.checkpoint.tensors["classifier.weight"], first.checkpoint.tensors["classifier.weight"]
    assert torch.allclose(*weights, atol=1e-6)
    assert second.validation == first.validation
    others = texts()
    others = type(others)(others.task, [type(each)(each.texts, f"it is {each.label}") for each in others.examples])
    third = finetune(first.checkpoint, others, epochs=0.001, learning_rate=1e-8, dropout=0.0)
    assert not torch.allclose(third.checkpoint.tensors["classifier.weight"], weights[1], atol=1e-3)


def test_a_tuned_folder_is_measured_on_a_labelled_file(files, tmp_path, capsys):
    assert main(tune(files, "whole")) == 0
    tuned = last_line(capsys.readouterr().out)
    wanted = tuned["test"] | {"always": tuned["always"]["test"]}
    answers = tmp_path / "answers.jsonl"
    assert main(["evaluate", files["whole"], "--input", files["test.tsv"], "--output", str(answers)]) == 0
    found = last_line(capsys.readouterr().out)
    assert found == {"task": "text-classification", "examples": 40, **wanted}
    rows = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    right = [row["answer"]["label"] == row["right"] for row in rows]
    assert right == [row["is_right"] for row in rows]
    assert sum(right) / 40 == pytest.approx(wanted["accuracy"])
    assert right == sorted(right), "the mistakes come first"


@pytest.mark.parametrize("version", [1, 2])
def test_predictions_have_the_measures_of_squads_own_evaluation(tiny_checkpoint, tmp_path, capsys, version):
    """A model with random weights, so that some of its answers are right, some half and some wrong."""
    weight = torch.randn(2, tiny_checkpoint.config.hidden_size, generator=torch.Generator().manual_seed(8))
    tuned = with_head(tiny_checkpoint, TaskHead("BertForQuestionAnswering"), weight, weight[:, 0])
    save_checkpoint(replace(tuned, recipe={"may_be_missing": version == 2}), tmp_path / "tuned")
    rng, asked = random.Random(3), []
    for number in range(60):
        words = rng.choices(["romeo", "juliet", "nice", "great", "today", "the"][: 4 + version], k=rng.randint(1, 4))
        answers = [words[(start := rng.randrange(len(words))) : start + rng.randint(1, 2)] for _ in range(2)]
        texts = [] if version == 2 and number % 3 == 0 else [" ".join(each) for each in answers]
        context = " ".join(words)
        found = [{"text": text, "answer_start": context.index(text)} for text in texts]
        asked.append({"context": context, "qas": [{"id": f"q{number}", "question": "who", "answers": found}]})
    dataset, given = {"data": [{"paragraphs": asked}]}, tmp_path / "dev.json"
    given.write_text(json.dumps(dataset))
    begin = [str(tmp_path / "tuned"), "--input", str(given)]
    assert main(["predict", *begin]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    predictions = {line["id"]: line["answer"] for line in lines}
    assert len(predictions) == 60
    assert main(["evaluate", *begin]) == 0
    ours = last_line(capsys.readouterr().out)
    if version == 1:
        theirs = evaluate_1(dataset, predictions)
    else:
        theirs = evaluate_2(dataset, predictions)
        assert 0 < theirs["NoAns_exact"] < 100
        theirs["exact_match"] = theirs["exact"]
    assert 0 < theirs["exact_match"] < theirs["f1"] < 100
    assert [100 * ours[name] for name in ("exact_match", "f1")] == pytest.approx([theirs["exact_match"], theirs["f1"]])
    for line in lines:
        assert line["n_best"][0] == {name: line[name] for name in ("answer", "start", "probability")}
        assert sum(each["probability"] for each in line["n_best"]) == pytest.approx(1)
        assert all(each["answer"] in asked[int(line["id"][1:])]["context"] for each in line["n_best"])


def test_the_exam_says_what_one_constant_answer_gets(tmp_path, capsys):
    assert main(["exam", SHIPPED, "--corpus", DIALOGUE]) == 0
    always, found = map(json.loads, capsys.readouterr().out.strip().splitlines())
    always = always["always"]
    assert found == {"words": [105, 105], "pairs": [81, 81]}
    # Nine lines have eight pairs of neighbours among 81.
    assert always["pairs"] == ["NotNext", 73, 81]
    result = exam(load_checkpoint(SHIPPED), read_corpus(DIALOGUE))
    asked = [word for a, b in itertools.pairwise(result_lines()) for word in (*a, *b)]
    most = max(set(asked), key=asked.count)
    assert always["words"] == [most, asked.count(most), len(asked)]
    assert (result.words.baseline, result.words.asked) == (asked.count(most), len(asked))


def result_lines() -> list[list[str]]:
    tokenizer = load_checkpoint(SHIPPED).tokenizer
    lines = read_corpus(DIALOGUE).sentences
    return [tokenizer.encode(line, add_special_tokens=False).tokens for line in lines]


def test_training_that_goes_on_may_get_more_positions_and_no_other_size(tmp_path, capsys):
    begin = ["train", "--start", SHIPPED, "--output", str(tmp_path / "longer"), "--set", "training.steps=2"]
    known = load_checkpoint(SHIPPED).config.max_position_embeddings
    more = ["data.batch_size=3", f"data.sequence_length={known + 7}"]
    assert main([*begin, *more, "--max-positions", str(known + 7)]) == 0
    assert f"{known + 1:,} to {known + 7:,} are new and untrained" in capsys.readouterr().err
    assert load_checkpoint(tmp_path / "longer").config.max_position_embeddings == known + 7
    assert main([*begin, "model.num_hidden_layers=3", "--overwrite"]) == 1
    assert "model.num_hidden_layers cannot be set" in capsys.readouterr().err


def test_a_config_and_a_vocabulary_are_enough_to_begin_with_random_weights(files, tmp_path, capsys):
    bare, trained = tmp_path / "bare", str(tmp_path / "trained")
    bare.mkdir()
    for name in ("config.json", "vocab.txt"):
        text = (REAL_SIZES if name == "config.json" else "\n".join([*SPECIAL_TOKENS, *WORDS, "a", "##a", "is"])) + "\n"
        (bare / name).write_text(text, encoding="utf-8")
    begin = ["train", "--corpus", DIALOGUE, "--start", str(bare), "--output", trained, "--overwrite"]
    assert main([*begin[:3], *begin[5:], "--random-weights"]) == 1
    assert "go with --start" in capsys.readouterr().err
    random = [*begin, "--random-weights", "--seed", "5", "--set", "training.steps=3", "data.batch_size=3"]
    assert main([*random, "model.num_hidden_layers=3"]) == 1
    assert "model.num_hidden_layers cannot be set" in capsys.readouterr().err
    length = "data.sequence_length=20"
    sizes = json.loads(REAL_SIZES) | {"num_hidden_layers": 3, "hidden_size": 20, "pooler_type": "all_token_average"}
    (bare / "config.json").write_text(json.dumps(sizes), encoding="utf-8")
    assert main([*random, length]) == 0
    assert "All weights are random" in capsys.readouterr().err
    on = ["--start", trained, "--output", str(tmp_path / "on"), "--set", "training.steps=1", "data.batch_size=3"]
    assert main([*begin[:3], *on, length]) == 0
    model, recipe = load_checkpoint(trained), json.loads((tmp_path / "trained" / "recipe.json").read_text())
    assert (model.config.num_hidden_layers, model.config.hidden_size, model.config.intermediate_size) == (3, 20, 30)
    assert model.tokenizer.get_vocab()["romeo"] == 5
    assert recipe["training"]["learning_rate"] > 3e-4, "random weights need no lower rate"
    first = weights(trained)
    again = ["train", "--recipe", f"{trained}/recipe.json", "--corpus", DIALOGUE, "--start", str(bare)]
    assert main([*again, "--random-weights", "--output", str(tmp_path / "again")]) == 0
    other = weights(str(tmp_path / "again"))
    assert all(torch.equal(first[name], other[name]) for name in first), "the recipe has the seed and the sizes"
    capsys.readouterr()
    unsaid = [each for each in random if each != "--random-weights"]
    assert main([*unsaid, length]) == 0
    assert "All weights are random" in capsys.readouterr().err
    other = weights(trained)
    assert all(torch.equal(first[name], other[name]) for name in first), "a folder without weights needs no option"
    tuned = [each if each != files["tiny"] else str(bare) for each in tune(files, "whole", "--random-weights")]
    assert main(tuned) == 0
    assert load_checkpoint(files["whole"]).config.num_hidden_layers == 3
    loaded = load_checkpoint(bare, random_weights=True, max_positions=40)
    assert (loaded.random_weights, loaded.missing) == (True, frozenset())
    save_checkpoint(loaded, tmp_path / "saved")
    again = load_checkpoint(tmp_path / "saved")
    assert (again.random_weights, again.recipe, again.notes) == (True, None, loaded.notes)
    assert torch.equal(again.tensors["bert.pooler.dense.weight"], loaded.tensors["bert.pooler.dense.weight"])
    assert load_checkpoint(trained).recipe["seed"] == 5
    assert load_checkpoint(trained, random_weights=True).recipe is None, "these weights have not been trained"
    assert loaded.config.max_position_embeddings == 40


def test_the_stride_of_windows_shrinks_with_the_length(tiny_checkpoint, tmp_path):
    """The tutorial's recipe: 384 tokens with a stride of 128; half of it overlaps also where a model reads 17."""
    context = " ".join(["nice to meet you romeo my name is juliet"] * 6)
    answers = [{"text": "juliet", "answer_start": context.rindex("juliet")}]
    asked = {"context": context, "qas": [{"id": "a", "question": "my name", "answers": answers}]}
    content = {"data": [{"paragraphs": [asked]}]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({**content, "version": "1.1"}))
    data = load_task(path, "question-answering")
    job = prepare(finetuning_recipe("question-answering-tutorial"), TaskParts(data, data), start=tiny_checkpoint)
    assert (job.recipe.data.sequence_length, job.recipe.data.stride) == (17, 5)
    shown = [row.offsets[row.offsets[:, 1] > 0] for row in job.batches.rows]
    for before, after in itertools.pairwise(shown):
        assert after[0, 0] < before[-1, 0], "neighbouring windows overlap"
    assert (job.batches.rows[-1].target > 0).all(), "the last window finds the answer at the end"


def test_train_says_what_the_preview_of_the_page_says(tmp_path, capsys):
    path = tmp_path / "marks.txt"
    path.write_text("\n".join(["hello , how are you ?", "i am romeo , and you ?"] * 6))
    assert main(["train", "--corpus", str(path), "--output", str(tmp_path / "m"), "--set", "training.steps=1"]) == 0
    assert "The word tokenizer drops . , ! ? - and" in capsys.readouterr().err


def test_sentences_of_labelled_pairs_are_counted_as_they_are_used(tmp_path, capsys):
    lines = [f"{k % 2}\t{k}\t{k}\tromeo says {k} words\tjuliet hears {k} words" for k in range(30)]
    path = tmp_path / "pairs.txt"
    path.write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "\n".join(lines) + "\n")
    few = ["corpus.most_documents=20", "training.steps=1", "data.batch_size=3", "model.num_hidden_layers=1"]
    begin = ["train", "--recipe", "mrpc-morvan", "--corpus", str(path), "--output", str(tmp_path / "m")]
    assert main([*begin, "--set", *few]) == 0
    assert "40 sentences, " in capsys.readouterr().err


def test_the_remedy_for_a_pickle_converts_it(tmp_path, tiny_checkpoint):
    save_checkpoint(tiny_checkpoint, tmp_path / "tiny")
    model = BertForMaskedLM.from_pretrained(tmp_path / "tiny")
    (tmp_path / "tiny" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "tiny" / "pytorch_model.bin")
    with pytest.raises(Exception, match=r"safe\.save_file") as refused:
        load_checkpoint(tmp_path / "tiny")
    lines = str(refused.value).split("\n", 1)[1]
    assert lines == CONVERSION
    assert lines in Path("docs/command-line.md").read_text(encoding="utf-8")
    subprocess.run([sys.executable, "-c", lines], cwd=tmp_path / "tiny", check=True)
    assert "mlm" not in load_checkpoint(tmp_path / "tiny").missing
