"""`python -m bert_core`, called as in a shell."""

import csv
import json
import os
import signal

import pytest
import torch
import transformers

from bert_core import __main__ as command_line
from bert_core import load_recipe, prepare, read_corpus
from bert_core.__main__ import main
from bert_core.config import ASSETS
from bert_core.runs import train
from bert_core.storage.checkpoint import load_checkpoint

DIALOGUE = ASSETS / "corpora" / "romeo-juliet.txt"
SHORT = ["training.steps=7", "data.batch_size=3", "model.hidden_size=12", "model.num_attention_heads=3"]


def settings(pairs):
    return dict(pair.split("=") for pair in pairs)


def last_line(capsys):
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_train_writes_a_folder_with_metrics(tmp_path, capsys):
    folder = tmp_path / "model"
    assert main(["train", "--seed", "3", "--output", str(folder), "--set", *SHORT]) == 0
    summary = last_line(capsys)
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = "step,mlm_loss,nsp_loss,mlm_accuracy,nsp_accuracy,learning_rate,grad_norm,tokens,seconds"
    assert ",".join(rows[0]) == expected
    assert [int(row["step"]) for row in rows] == list(range(1, 8))
    assert summary == {
        "steps": 7,
        "seconds": round(float(rows[-1]["seconds"]), 3),
        "mlm_loss": float(rows[-1]["mlm_loss"]),
        "nsp_loss": float(rows[-1]["nsp_loss"]),
    }
    checkpoint = load_checkpoint(folder)
    assert checkpoint.config.hidden_size == 12
    assert checkpoint.recipe["seed"] == 3
    assert transformers.BertForPreTraining.from_pretrained(folder).config.hidden_size == 12


def test_a_saved_recipe_repeats_the_run(tmp_path, capsys):
    assert main(["train", "--seed", "3", "--output", str(tmp_path / "a"), "--set", *SHORT]) == 0
    first = last_line(capsys)
    recipe = str(tmp_path / "a" / "recipe.json")
    assert main(["train", "--recipe", recipe, "--output", str(tmp_path / "b")]) == 0
    again = last_line(capsys)
    assert (first["mlm_loss"], first["nsp_loss"]) == (again["mlm_loss"], again["nsp_loss"])


def test_train_on_a_text_file(tmp_path, capsys):
    text = tmp_path / "mine.txt"
    text.write_text("the cat sat\nthe dog ran\nthe bird flew\n")
    assert main(["train", "--corpus", str(text), "--output", str(tmp_path / "m"), "--set", *SHORT]) == 0
    assert load_checkpoint(tmp_path / "m").tokenizer.token_to_id("bird") is not None
    assert "Balcony chose by the size what you did not set yourself." in capsys.readouterr().err
    given = ["--recipe", "romeo-juliet", "--overwrite"]
    assert main(["train", "--corpus", str(text), "--output", str(tmp_path / "m"), *given, "--set", *SHORT]) == 0
    assert "chosen by its size" not in capsys.readouterr().err


def test_training_goes_on_from_a_model_with_its_tokenizer_and_sizes(tmp_path, capsys):
    shipped, text = ASSETS.parent / "checkpoints" / "romeo-juliet", tmp_path / "mine.txt"
    text.write_text("hello juliet\nmy name is romeo\nnice to meet you\nthe mayor fainted\n")
    begin = ["train", "--corpus", str(text), "--start", str(shipped), "--set", "training.steps=6", "data.batch_size=3"]
    assert main([*begin, "training.learning_rate=1e-8", "--output", str(tmp_path / "same")]) == 0
    same, original = load_checkpoint(tmp_path / "same"), load_checkpoint(shipped)
    assert same.tokenizer.get_vocab() == original.tokenizer.get_vocab()
    assert same.config == original.config
    for name, tensor in original.model.state_dict().items():
        torch.testing.assert_close(same.model.state_dict()[name], tensor, rtol=0, atol=1e-6)
    assert main([*begin, "--output", str(tmp_path / "more")]) == 0
    more = load_checkpoint(tmp_path / "more")
    assert more.recipe["start"] == str(shipped)
    assert not torch.equal(more.model.score_words(torch.ones(48)), original.model.score_words(torch.ones(48)))

    capsys.readouterr()
    again = ["train", "--corpus", str(text), "--recipe", str(tmp_path / "more" / "recipe.json")]
    assert main([*again, "--output", str(tmp_path / "again")]) == 1
    error = capsys.readouterr().err
    assert "goes on from the model" in error
    assert "--start" in error
    assert main([*again, "--start", str(shipped), "--output", str(tmp_path / "again")]) == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("more", "again")]
    assert weights[0] == weights[1]
    mini = ["train", "--start", str(shipped.parent / "english-mini"), "--output", str(tmp_path / "mini"), "--set"]
    assert main([*mini, "training.steps=1", "data.sequence_length=100"]) == 0, "that model has 128 positions"


def test_a_training_that_went_on_from_a_model_is_resumed(tmp_path, capsys, monkeypatch):
    shipped = str(ASSETS.parent / "checkpoints" / "romeo-juliet")
    begin = ["train", "--start", shipped, "--set", "training.steps=6", "data.batch_size=3"]
    assert main([*begin, "--output", str(tmp_path / "whole")]) == 0
    save = command_line._save

    def save_and_interrupt(trained, *arguments):
        save(trained, *arguments)
        if trained.trainer.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(command_line, "_save", save_and_interrupt)
    assert main([*begin, "--save-every", "4", "--output", str(tmp_path / "cut")]) == 130
    assert main(["train", "--resume", str(tmp_path / "cut"), "--start", shipped]) == 1
    assert "leave out --start" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "cut")]) == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]


def test_a_model_is_replaced_only_with_overwrite(tmp_path, capsys):
    folder = tmp_path / "model"
    arguments = ["train", "--output", str(folder), "--set", *SHORT]
    folder.mkdir()
    (folder / "notes.txt").write_text("kept")  # a folder without a model is no reason to refuse
    assert main([*arguments, "--seed", "3"]) == 0
    before = (folder / "model.safetensors").read_bytes()
    assert main([*arguments, "--seed", "4"]) == 1
    assert "holds a model already. Give another folder, or --overwrite to replace it." in capsys.readouterr().err
    assert (folder / "model.safetensors").read_bytes() == before
    assert main([*arguments, "--overwrite", "--seed", "4"]) == 0
    assert (folder / "model.safetensors").read_bytes() != before
    assert main(["train", "--resume", str(folder), "--output", str(folder)]) == 1
    assert "all of its 7 steps" in capsys.readouterr().err, "a resumed training may write where it was"


def test_an_interrupted_training_is_saved_and_continues_bit_for_bit(tmp_path, capsys, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main(["train", "--seed", "3", "--output", str(whole), "--set", *SHORT]) == 0
    last_line(capsys)
    monkeypatch.setattr(train, "SLICE_SECONDS", 0)

    def interrupt(bar, row):
        if row.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(command_line, "_show_step", interrupt)
    handler = signal.getsignal(signal.SIGINT)
    assert main(["train", "--seed", "3", "--output", str(cut), "--set", *SHORT]) == 130
    assert signal.getsignal(signal.SIGINT) is handler
    assert "step 3; train --resume" in capsys.readouterr().err
    assert transformers.BertForPreTraining.from_pretrained(cut).config.hidden_size == 12
    assert main(["train", "--resume", str(cut)]) == 0
    assert last_line(capsys)["steps"] == 7
    tables = []
    for folder in (whole, cut):
        with (folder / "metrics.csv").open(newline="") as file:
            tables.append([{**row, "seconds": None} for row in csv.DictReader(file)])
    assert tables[0] == tables[1]
    assert load_checkpoint(whole).model.state_dict().keys() == load_checkpoint(cut).model.state_dict().keys()
    for ours, theirs in zip(*(load_checkpoint(folder).model.parameters() for folder in (whole, cut))):
        assert torch.equal(ours, theirs)
    assert main(["train", "--resume", str(cut)]) == 1
    assert "all of its 7 steps." in capsys.readouterr().err
    assert main(["train", "--resume", str(cut), "--seed", "4"]) == 1
    assert "leave out" in capsys.readouterr().err


def test_progress_is_a_bar_that_changes_seldom_in_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(train, "SLICE_SECONDS", 0)
    arguments = ["train", "--output", str(tmp_path / "m"), "--overwrite", "--corpus", str(DIALOGUE), "--set", *SHORT]
    assert main(arguments) == 0
    notes = capsys.readouterr().err.splitlines()[:-4]  # without the pair at the end
    mlm, nsp = notes[-2:]
    assert any("parameters, in float32 on" in note for note in notes)
    assert [note.partition(" at the end")[0] for note in (mlm, nsp)] == ["The MLM loss", "The NSP loss"]
    assert all(note.endswith("that of guessing.") for note in (mlm, nsp))
    assert not any("3/7" in note for note in notes), "a short training shows its beginning and its end"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(arguments) == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out.strip().splitlines()[-1])
    assert "reading the text" in captured.err
    assert "7/7" in captured.err
    assert f"MLM loss={summary['mlm_loss']:.3g}, NSP loss={summary['nsp_loss']:.3g}" in captured.err


@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_recipe_passes_the_whole_exam(tmp_path, capsys, seed):
    folder = str(tmp_path / "model")
    assert main(["train", "--recipe", "romeo-juliet", "--seed", str(seed), "--output", folder]) == 0
    assert main(["exam", folder, "--corpus", str(DIALOGUE)]) == 0
    assert last_line(capsys) == {"words": [105, 105], "pairs": [81, 81]}


def test_the_exam_of_the_short_dialogue_has_68_words_and_36_pairs(tmp_path, capsys):
    short = str(ASSETS / "corpora" / "romeo-juliet-short.txt")
    folder = str(tmp_path / "model")
    assert main(["train", "--corpus", short, "--output", folder, "--set", *SHORT]) == 0
    assert main(["exam", folder, "--corpus", short]) == 0
    result = last_line(capsys)
    assert (result["words"][1], result["pairs"][1]) == (68, 36)


def test_a_folder_of_files_is_split_into_files_that_give_the_same_split(tmp_path, capsys):
    folder, parts = tmp_path / "books", tmp_path / "parts"
    folder.mkdir()
    for number in range(3):
        text = "".join(f"Word {number} is {k}. Word {k} is not {number}!\n" + "\n" * (k % 3 == 0) for k in range(20))
        (folder / f"book{number}.txt").write_text(text, encoding="utf-8")
    shares = ["corpus.validation_share=0.2", "corpus.test_share=0.1"]
    begin = ["train", "--kind", "documents", "--corpus", *sorted(map(str, folder.iterdir()))]
    save = ["--save-splits", str(parts), "--output", str(tmp_path / "a"), "--set", *SHORT, *shares]
    assert main([*begin, *save]) == 0
    assert last_line(capsys)["steps"] == 7
    whole = read_corpus(folder, kind="documents")
    split = dict(zip(("train", "validation", "test"), whole.split(0.2, 0.1)))
    assert {path.stem: path.read_text(encoding="utf-8") for path in parts.iterdir()} == {
        name: part.text for name, part in split.items()
    }
    for name, part in split.items():
        assert read_corpus(parts / f"{name}.txt", kind="lines").fingerprint == part.fingerprint
    assert main([*begin, *save, "--output", str(tmp_path / "b")]) == 1
    assert "is there already" in capsys.readouterr().err
    again = ["train", "--corpus", str(parts / "train.txt"), "--kind", "lines", "--output", str(tmp_path / "b")]
    assert main([*again, "--save-splits", str(parts), "--overwrite", "--set", *SHORT, "corpus.validation_share=0"]) == 0
    assert [path.name for path in parts.iterdir()] == ["train.txt"], "the other parts were those of another split"
    assert (parts / "train.txt").read_text(encoding="utf-8") == split["train"].text
    vocabularies = [load_checkpoint(tmp_path / name).tokenizer.get_vocab() for name in "ab"]
    assert vocabularies[0] == vocabularies[1]


def test_a_training_ends_with_a_pair_its_hidden_words_and_what_the_model_makes_of_it(tmp_path, capsys):
    assert main(["train", "--output", str(tmp_path / "m"), "--set", *SHORT]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["steps"] == 7
    read, hidden, guessed, judged = printed.err.splitlines()[-4:]
    model, job = load_checkpoint(tmp_path / "m"), prepare(load_recipe("romeo-juliet").override(settings(SHORT)))
    batch = job.batches[7]
    with torch.no_grad():
        found = model.model(batch.input_ids, batch.attention_mask, batch.token_type_ids)
    asked = batch.labels[0] >= 0
    ids = (
        batch.input_ids[0][batch.attention_mask[0] > 0],
        batch.labels[0][asked],
        found.prediction_logits[0].argmax(1)[asked],
    )
    for line, start, tokens in zip((read, hidden, guessed), ("Now it reads", "Hidden words:", "Guessed:"), ids):
        assert line.startswith(start)
        assert line.endswith(" " + " ".join(map(job.tokenizer.id_to_token, tokens.tolist())))
    names = ["IsNext", "NotNext"]
    right, answer = names[batch.next_sentence_label[0]], names[found.seq_relationship_logits[0].argmax()]
    assert judged == f"The pair is {right}, and judged {answer}."


def test_an_exam_reads_the_encoding_that_is_chosen(tmp_path, capsys):
    utf_16, model = tmp_path / "utf16.txt", "checkpoints/romeo-juliet"
    utf_16.write_bytes("hello how are you\ni am romeo\n".encode("utf-16-le"))
    assert main(["exam", model, "--corpus", str(utf_16)]) == 1
    assert "or choose its encoding (--encoding)" in capsys.readouterr().err
    assert main(["exam", model, "--corpus", str(utf_16), "--encoding", "utf-16"]) == 0
    assert last_line(capsys)["words"][1] == 7


def test_a_text_in_an_old_encoding_is_read_with_its_name(tmp_path, capsys):
    path = tmp_path / "gbk.txt"
    path.write_bytes("他在北京 的大学\n每天 都要开会\n".encode("gbk") * 2)
    options = ["--corpus", str(path), "--encoding", "gbk"]
    assert main(["train", *options, "--output", str(tmp_path / "model"), "--set", *SHORT]) == 0
    printed = capsys.readouterr()
    assert "Read as gbk.\n" in printed.err
    assert [json.loads(line)["steps"] for line in printed.out.splitlines()] == [7], "notes are not among the results"
    assert main(["exam", str(tmp_path / "model"), *options, "--device", "cpu"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "Give --output"),
        (["train", "--resume", "nowhere"], "no training state in nowhere; give the folder"),
        (["train", "--recipe", "hamlet", "--output", "x"], "no recipe 'hamlet'"),
        (["train", "--set", "training.steps", "--output", "x"], "has no value"),
        (["train", "--set", "training.learning_rate=0", "--output", "x"], "learning_rate is 0"),
        (["train", "--corpus", "nowhere.txt", "--output", "x"], "cannot be read"),
        (["train", "--seed", "-1", "--output", "x"], "seed"),
        (["train", "--save-every", "0", "--output", "x"], "--save-every is 0"),
        (["exam", "nowhere", "--corpus", str(DIALOGUE)], "no folder 'nowhere'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_one(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_a_device_that_is_not_there_is_refused_by_every_command(tmp_path, capsys):
    shipped = str(ASSETS.parent / "checkpoints" / "romeo-juliet")
    (tmp_path / "text.txt").write_text("hello\n")
    for command in (
        ["train", "--output", str(tmp_path / "a")],
        ["exam", shipped, "--corpus", str(DIALOGUE)],
        ["predict", shipped, "--input", str(tmp_path / "text.txt")],
        ["finetune", "--recipe", "subjects", "--checkpoint", shipped, "--output", str(tmp_path / "c")],
    ):
        assert main([*command, "--device", "cuda:77"]) == 1
        assert "The device 'cuda:77' is not available here; there is: " in capsys.readouterr().err


WRAPPED = """\
Der Hund läuft schnell durch den großen Garten hinter dem alten Haus und bellt.
Die Katze schläft. Der Vogel singt. Das Kind lacht. Die Frau liest ein Buch hier.
"""


def test_a_recipe_says_how_its_text_was_read_so_that_it_is_read_so_again(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_bytes((WRAPPED * 3).encode("windows-1252"))
    text = ["--corpus", "mine.txt"]
    reading = ["--kind", "documents", "--encoding", "windows-1252"]
    settings = ["--set", *SHORT, "corpus.validation_share=0"]
    assert main(["train", "--recipe", "english-mini", *text, *reading, "--output", "a", *settings]) == 0
    first = last_line(capsys)
    assert main(["train", "--recipe", "a/recipe.json", *text, "--output", "b"]) == 0
    again = last_line(capsys)
    assert (first["mlm_loss"], first["nsp_loss"]) == (again["mlm_loss"], again["nsp_loss"])
    assert (tmp_path / "a" / "recipe.json").read_bytes() == (tmp_path / "b" / "recipe.json").read_bytes()
    recipe = load_checkpoint("b").recipe
    assert (recipe["corpus"]["kind"], recipe["corpus"]["encoding"]) == ("documents", "windows-1252")
    assert recipe["title"] == "mine.txt"
    assert recipe["description"] == "A text of your own, with the settings of the recipe english-mini."


@pytest.mark.parametrize("kind", ["lines", "documents"])
def test_a_training_is_resumed_on_the_very_same_text(kind, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text(WRAPPED * 3, encoding="utf-8")
    monkeypatch.setattr(train, "SLICE_SECONDS", 0)

    def interrupt(bar, row):
        if row.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as cut:
        cut.setattr(command_line, "_show_step", interrupt)
        assert main(["train", "--corpus", "mine.txt", "--kind", kind, "--output", "a", "--set", *SHORT]) == 130
    assert main(["train", "--resume", "a", "--corpus", "mine.txt"]) == 0
    assert last_line(capsys)["steps"] == 7


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--output", "a", "--set", *SHORT],
        ["finetune", "--recipe", "subjects", "--checkpoint", "romeo-juliet", "--output", "a", "--set", "epochs=1"],
    ],
)
def test_ctrl_c_before_the_first_step_saves_what_can_be_resumed(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    say = command_line._tell

    def interrupt(*notes):
        say(*notes)
        if any("parameters, in float32 on cpu" in note for note in notes):
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as cut:
        cut.setattr(command_line, "_tell", interrupt)
        assert main(command) == 130
    assert f"Stopped at step 0; {command[0]} --resume a continues." in capsys.readouterr().err
    assert main([command[0], "--resume", "a"]) == 0
    assert last_line(capsys)["steps"] > 0


def test_a_number_that_was_not_measured_is_null_in_the_last_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text("a b c d e f\n\nb c d e f a\n\nc d e f a b\n", encoding="utf-8")
    settings = ["--set", *SHORT, "training.nsp_weight=0"]
    assert main(["train", "--corpus", "one.txt", "--kind", "lines", "--output", "a", *settings]) == 0
    assert last_line(capsys)["nsp_loss"] is None


def test_what_is_saved_has_a_row_for_each_of_its_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save, saved = command_line._save, []

    def note(training, output):
        saved.append((training.trainer.step, [row.step for row in training.history]))
        save(training, output)

    monkeypatch.setattr(command_line, "_save", note)
    assert main(["train", "--output", "a", "--save-every", "2", "--set", *SHORT]) == 0
    assert saved == [(step, list(range(1, step + 1))) for step in (2, 4, 6, 7)]
