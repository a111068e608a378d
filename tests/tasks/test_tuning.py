"""Fine-tuning on small made tasks: what is learned, what stays frozen, what repeats, what the command line prints."""

import copy
import dataclasses
import json
import random

import pytest
import torch
import transformers
from helpers import finetune, guessed, labelled, texts

from bert_core import __main__ as command_line
from bert_core.errors import BertCoreError, CheckpointError, ConfigError, CorpusError, InputError
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import FinetuningRecipe
from bert_core.storage.checkpoint import load_checkpoint, save_checkpoint
from bert_core.tasks.examples import TaskData, TaskParts, load_task
from bert_core.tasks.prediction import predict, review
from bert_core.tasks.task import Example

FAST = {"learning_rate": 0.01, "batch_size": 8, "dropout": 0, "validation_share": 0.2}


RECIPE = FinetuningRecipe(name="own", task="text-classification", title="Romeo or not")


def prepared(checkpoint, seed=0, random_weights=False, **settings):
    recipe = FinetuningRecipe(
        name="own", task="text-classification", title="Romeo", seed=seed, random_weights=random_weights
    )
    return prepare(recipe.override({**FAST, **settings}), TaskParts(texts()), start=checkpoint)


@pytest.mark.parametrize(
    ("kind", "measure", "least"),
    [
        ("text-classification", "accuracy", 0.9),
        ("text-regression", "pearson", 0.8),
        ("multiple-choice", "accuracy", 0.8),
        ("question-answering", "exact_match", 0.8),
        ("token-classification", "f1", 0.9),
    ],
)
def test_every_task_is_learned_saved_and_applied(kind, measure, least, tiny_checkpoint, tmp_path):
    data = labelled(kind)
    result = finetune(tiny_checkpoint, data, test=labelled(kind, seed=1), epochs=12, **FAST)
    assert result.test[measure] >= least
    assert result.history[-1].loss < result.history[0].loss / 2
    save_checkpoint(result.checkpoint, tmp_path)
    opened = load_checkpoint(tmp_path)
    examples = list(labelled(kind, seed=1).examples)
    assert predict(opened, examples) == pytest.approx(predict(result.checkpoint, examples))


def test_a_run_repeats_by_its_seed(tiny_checkpoint):
    def losses(seed):
        settings = {**FAST, "dropout": 0.1}
        return [row.loss for row in finetune(tiny_checkpoint, texts(), seed=seed, epochs=2, **settings).history]

    assert losses(1) == losses(1) != losses(2)


def test_a_pooler_at_its_limits_holds_no_task_back(tiny_checkpoint):
    """Next-sentence training drives tanh to -1 and 1; from there hardly any gradient reaches the encoder."""
    model = copy.deepcopy(tiny_checkpoint.model)
    with torch.no_grad():
        model.bert.pooler["dense"].weight.mul_(1000)
    checkpoint = dataclasses.replace(tiny_checkpoint, module=model)
    assert finetune(checkpoint, texts(), test=texts(seed=1), epochs=12, **FAST).test["accuracy"] >= 0.9


def test_the_pooler_of_a_fine_tuned_model_is_kept(tiny_checkpoint):
    first = finetune(tiny_checkpoint, texts(), epochs=1, **FAST).checkpoint
    pooler = "bert.pooler.dense.weight"
    assert torch.equal(prepared(first).first_model().state_dict()[pooler], first.model.state_dict()[pooler])


def test_frozen_parts_keep_their_weights(tiny_checkpoint):
    before = tiny_checkpoint.model.bert.state_dict()

    def changed(**settings):
        after = finetune(tiny_checkpoint, texts(), epochs=1, **FAST, **settings).checkpoint.model.bert.state_dict()
        return {
            name.split(".")[2] if "layer." in name else name.split(".")[0]
            for name in before
            if not torch.equal(before[name], after[name])
        }

    assert changed() == {"embeddings", "0", "1", "pooler"}
    assert changed(frozen_layers=1) == {"1", "pooler"}
    assert changed(frozen_layers=2) == {"pooler"}
    with pytest.raises(ConfigError, match="frozen_layers is 3; the model has 2 layers"):
        changed(frozen_layers=3)


def test_the_best_epoch_is_kept(tiny_checkpoint):
    held_out = texts(seed=7)
    settings = {**FAST, "epochs": 6, "learning_rate": 0.03}
    result = finetune(tiny_checkpoint, texts(), validation=held_out, **settings)
    assert [point.epoch for point in result.evaluations] == [1, 2, 3, 4, 5, 6]
    best = max(point.accuracy for point in result.evaluations)
    assert result.validation["accuracy"] == review(result.checkpoint, held_out).measures["accuracy"] == best
    last = finetune(tiny_checkpoint, texts(), validation=held_out, **settings, keep_best=False)
    assert last.evaluations == result.evaluations
    assert last.validation == last.evaluations[-1].measures
    assert review(last.checkpoint, held_out).measures == last.validation


def test_the_best_epoch_is_kept_however_long_its_evaluation_takes(tiny_checkpoint):
    held_out = guessed(120)
    settings = {"epochs": 5, "learning_rate": 0.03, "batch_size": 8, "dropout": 0.1}
    kept = []
    for seed in range(3):
        result = finetune(tiny_checkpoint, texts(40, seed), validation=held_out, seed=seed, **settings)
        best = max(result.evaluations, key=lambda point: (point.accuracy, point.step))
        assert review(result.checkpoint, held_out).measures == best.measures == result.validation
        kept.append(best.step)
    assert min(kept) < 25, "of some seed, the last epoch is not the best"


def test_random_weights_keep_tokenizer_and_sizes(tiny_checkpoint):
    random = prepared(tiny_checkpoint, random_weights=True).first_model()
    assert random.config.hidden_size == tiny_checkpoint.config.hidden_size
    word = "bert.embeddings.word_embeddings.weight"
    assert not torch.equal(random.state_dict()[word], tiny_checkpoint.model.state_dict()[word])
    pretrained = prepared(tiny_checkpoint).first_model()
    assert torch.equal(pretrained.state_dict()[word], tiny_checkpoint.model.state_dict()[word])


def test_few_labelled_examples_are_drawn_by_the_seed(tiny_checkpoint):
    chosen = [prepared(tiny_checkpoint, s, most_examples=8).parts.train.examples for s in (1, 1, 2)]
    assert len(chosen[0]) == 8
    assert chosen[0] == chosen[1] != chosen[2]


def test_a_model_without_a_task_or_with_another_one_predicts_nothing(tiny_checkpoint):
    with pytest.raises(CheckpointError, match="tiny is not fine-tuned"):
        predict(tiny_checkpoint, ["hello"])
    result = finetune(tiny_checkpoint, texts(), epochs=1, **FAST)
    with pytest.raises(InputError, match="This model does text-classification"):
        predict(result.checkpoint, [Example(("hello", "a", "b"))])
    assert predict(result.checkpoint, []) == []


@pytest.mark.parametrize(
    "settings", [{"training.colour": 1}, {"page.epochs": 1}, {"epochs": "many"}, {"batch_size": 0}]
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(BertCoreError):
        RECIPE.override(settings)


def test_steps_may_replace_epochs():
    seven = RECIPE.override({"training.steps": "7"})
    assert (seven.training.steps, seven.training.epochs) == (7, None)
    assert seven.override({"epochs": "2"}).training.epochs == 2


def test_the_command_line_fine_tunes_and_predicts(tiny_checkpoint, tmp_path, capsys):
    save_checkpoint(tiny_checkpoint, tmp_path / "start")
    lines = [f"{each.texts[0]}\t{each.label}" for each in texts().examples]
    (tmp_path / "train.tsv").write_text("\n".join(lines[:60]))
    (tmp_path / "test.tsv").write_text("\n".join(lines[60:]))
    (tmp_path / "new.tsv").write_text("nice romeo\ngreat team today\n")
    arguments = ["finetune", "--task", "text-classification", "--train", str(tmp_path / "train.tsv")]
    arguments += ["--test", str(tmp_path / "test.tsv"), "--checkpoint", str(tmp_path / "start")]
    arguments += ["--output", str(tmp_path / "tuned"), "--seed", "3", "--set", "training.epochs=16"]
    arguments += ["training.learning_rate=0.01", "--set", "training.dropout=0", "data.batch_size=8"]
    assert command_line.main(arguments) == 0
    [summary] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {*summary} == {"task", "examples", "steps", "seconds", "validation", "test", "always"}
    assert (summary["task"], summary["examples"], summary["steps"]) == ("text-classification", 54, 112)
    assert {*summary["test"]} == {"accuracy", "f1", "matthews_correlation"}
    assert len((tmp_path / "tuned" / "metrics.csv").read_text().splitlines()) == 113
    assert transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").config.num_labels == 2

    assert command_line.main(["predict", str(tmp_path / "tuned"), "--input", str(tmp_path / "new.tsv")]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["label"] for each in found] == ["yes", "no"]
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1)
    output = tmp_path / "found.jsonl"
    assert (
        command_line.main(
            ["predict", str(tmp_path / "tuned"), "--input", str(tmp_path / "new.tsv"), "--output", str(output)]
        )
        == 0
    )
    assert [json.loads(line) for line in output.read_text().splitlines()] == found

    assert command_line.main(arguments) == 1
    assert "holds a model already" in capsys.readouterr().err
    (tmp_path / "test.tsv").write_text("nice romeo\tmaybe\n")
    for command in (
        [*arguments, "--overwrite"],
        ["evaluate", str(tmp_path / "tuned"), "--input", str(tmp_path / "test.tsv")],
    ):
        assert command_line.main(command) == 1
        assert "test.tsv has the label 'maybe', which the training part lacks" in capsys.readouterr().err


def test_task_files_in_an_old_encoding_are_read_with_its_name(tiny_checkpoint, tmp_path, capsys):
    save_checkpoint(tiny_checkpoint, tmp_path / "start")
    path = tmp_path / "train.tsv"
    path.write_bytes("".join(f"romeo 他在北京的大学\t{label}\n" for label in "ab" * 4).encode("gbk"))
    files = ["--task", "text-classification", "--train", str(path), "--checkpoint", str(tmp_path / "start")]
    arguments = ["finetune", *files, "--output", str(tmp_path / "tuned"), "--set", "epochs=1"]
    assert command_line.main([*arguments, "--encoding", "gbk"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("Read as gbk.\nTexts: column 1. Label: column 2.\n")
    assert "Read as gbk.\n" not in printed.out
    path.write_bytes("他在北京的大学\n".encode("gbk"))
    assert command_line.main(["predict", str(tmp_path / "tuned"), "--input", str(path), "--encoding", "gbk"]) == 0


def test_probabilities_of_transformers_on_the_written_folder(tiny_checkpoint, tmp_path):
    result = finetune(tiny_checkpoint, texts(), epochs=2, **FAST)
    save_checkpoint(result.checkpoint, tmp_path)
    pipeline = transformers.pipeline("text-classification", str(tmp_path), top_k=None)
    for text in ("nice romeo", "great team"):
        theirs = {entry["label"]: entry["score"] for entry in pipeline([text])[0]}
        ours = predict(result.checkpoint, [text])[0]
        assert dict(zip(result.checkpoint.head.labels, ours.probabilities)) == pytest.approx(theirs, abs=1e-5)


def test_the_model_to_start_from_does_not_change(tiny_checkpoint):
    before = {name: tensor.clone() for name, tensor in tiny_checkpoint.model.state_dict().items()}
    finetune(tiny_checkpoint, texts(), epochs=1, **FAST)
    assert all(torch.equal(before[name], tensor) for name, tensor in tiny_checkpoint.model.state_dict().items())


def test_words_that_the_vocabulary_does_not_know_are_said_and_too_many_are_refused(tiny_checkpoint):
    def data(unknown):
        strange = [Example((f"zork{n}",), "yes") for n in range(unknown)]
        return TaskData("text-classification", [*texts(20).examples, *strange, Example(("great",), "no")])

    [note] = finetune(tiny_checkpoint, data(30), epochs=1, **FAST).notes
    assert "% of the words are unknown to this vocabulary; choose a model that knows them" in note
    assert finetune(tiny_checkpoint, data(2), epochs=1, device="auto", **FAST).notes == ()
    with pytest.raises(CorpusError, match=r"9.% of the words of .* are unknown to this vocabulary, so nothing can"):
        finetune(tiny_checkpoint, data(4000), epochs=1, **FAST)
    with pytest.raises(ConfigError, match="The device 'tpu' is not available here"):
        finetune(tiny_checkpoint, data(2), device="tpu")


def test_tags_of_bmes_are_learned(tiny_checkpoint, tmp_path):
    """The tags of a name of one, two and three words: only its neighbours tell which a word has."""
    rng, lines = random.Random(0), []
    for _ in range(150):
        for length in rng.choices((1, 2, 3), k=2):
            tags = ["S-NAME"] if length == 1 else ["B-NAME", *["M-NAME"] * (length - 2), "E-NAME"]
            lines += [
                f"{rng.choice(['nice', 'today'])} O",
                *(f"{rng.choice(['romeo', 'juliet'])} {tag}" for tag in tags),
            ]
        lines += ["team O", ""]
    path = tmp_path / "names.txt"
    path.write_text("\n".join(lines))
    data = load_task(path, "token-classification")
    assert data.labels() == ("O", "B-NAME", "E-NAME", "M-NAME", "S-NAME")
    result = finetune(tiny_checkpoint, data, epochs=30, learning_rate=0.02, dropout=0.0)
    assert result.validation["f1"] > 0.95
    [found] = predict(result.checkpoint, ["today romeo nice juliet romeo romeo team"])
    assert found.label == ("O", "S-NAME", "O", "B-NAME", "M-NAME", "E-NAME", "O")
