"""The command line and app.py with arguments that are wrong, missing, empty, unwritable, or a folder for a file."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import make_model

from bert_core.__main__ import main
from bert_core.config import ASSETS, BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import train_tokenizer
from bert_core.errors import CheckpointError
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

ROOT = ASSETS.parent
DIALOGUE = str(ASSETS / "corpora" / "romeo-juliet.txt")
SHORT = ["--set", "training.steps=2", "data.batch_size=2", "model.hidden_size=12", "model.num_attention_heads=3"]
TASK = ["--task", "text-classification", "--train", "task.tsv", "--checkpoint", "model"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a classifier, a saved training, a task, a text and an empty file."""
    folder = tmp_path_factory.mktemp("place")
    tokenizer = train_tokenizer(Corpus.from_text("one two three\nfour five"))
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=8,
        max_position_embeddings=64,
    )
    save_checkpoint(Checkpoint(make_model(config), tokenizer), folder / "model")
    (folder / "task.tsv").write_text("".join(f"one two {i}\t{'ab'[i % 2]}\n" for i in range(8)))
    (folder / "texts.tsv").write_text("one two\nthree four\n")
    (folder / "empty").touch()
    (folder / "folder").mkdir()
    (folder / "folder.json").mkdir()
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        assert main(["finetune", *TASK, "--output", "tuned", "--set", "training.epochs=1"]) == 0
        assert main(["train", "--output", "trained", "--save-every", "1", *SHORT]) == 0
    return folder


UNWRITABLE = ["", "empty", "empty/inside", "/proc/inside"]  # as folders
UNWRITABLE_FILES = ["", "folder", "empty/inside", "/proc/inside", "nowhere/inside"]
NO_FOLDERS = ["", "nowhere", "empty", "folder", "a" * 5000]
NO_FILES = ["", "nowhere", "folder", "empty", "a" * 5000]
NEW = ["train", "--output", "new"]
TUNE = ["finetune", *TASK, "--output", "new"]
EXAM = ["exam", "model", "--corpus", DIALOGUE]
PREDICT = ["predict", "tuned", "--input", "texts.tsv"]
WRONG = [
    ["nothing"],
    *(["train", "--output", path] for path in UNWRITABLE),
    *([*NEW, "--recipe", name] for name in ("", "nowhere", "nowhere.json", "folder.json")),
    *([*NEW, "--corpus", path] for path in NO_FILES),
    *([*NEW, "--start", path] for path in NO_FOLDERS),
    *([*NEW, option, "x"] for option in ("--seed", "--save-every", "--device", "--kind", "--set")),
    *([*NEW, *rest] for rest in (["--kind", "lines"], ["--encoding", "gbk"], ["--set", "x=1"], ["--seed", "-1"])),
    *(["train", "--resume", path] for path in [*NO_FOLDERS, "model"]),
    ["train", "--resume", "trained", "--output", "empty"],
    *(["exam", path, "--corpus", DIALOGUE] for path in NO_FOLDERS),
    *(["exam", "model", "--corpus", path] for path in NO_FILES),
    *([*EXAM, "--seed", seed] for seed in ("-1", "x", str(2**63))),
    *([*EXAM, "--max-positions", number] for number in ("-1", "0", "9", "x", str(10**20))),
    *(["finetune", *TASK, "--output", path] for path in UNWRITABLE),
    *([*TUNE, option, "nowhere"] for option in ("--task", "--recipe", "--device", "--seed")),
    *([*TUNE, option, path] for option in ("--train", "--validation", "--test") for path in NO_FILES),
    [*TUNE, "--recipe", ""],
    [*TUNE, "--separator", ""],
    *([*TUNE, "--checkpoint", path] for path in NO_FOLDERS),
    *(["predict", path, "--input", "texts.tsv"] for path in [*NO_FOLDERS, "model"]),
    *(["predict", "tuned", "--input", path] for path in NO_FILES),
    *([*PREDICT, "--output", path] for path in UNWRITABLE_FILES),
]


@pytest.mark.parametrize("arguments", WRONG, ids=lambda arguments: " ".join(arguments)[-60:])
def test_a_wrong_argument_is_one_sentence_before_any_work(
    arguments: list[str], place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for work in ("training.Trainer.__next__", "__main__.exam", "__main__.predict"):
        if arguments[0] != "exam":
            monkeypatch.setattr(f"bert_core.{work}", lambda *_: pytest.fail("it works"))
    before = sorted(place.rglob("*"))
    try:
        status = main(arguments)
    except SystemExit as exit:  # of argparse, after its usage
        status = int(str(exit.code))
    error = capfd.readouterr().err
    assert status in (1, 2)
    assert re.fullmatch(r"[^\n]+\n", error.split("error: ")[-1]), error
    assert "Traceback" not in error
    assert "kept" not in error
    assert sorted(place.rglob("*")) == before


def test_what_only_the_writing_itself_finds_is_one_sentence(place, capfd, monkeypatch):
    monkeypatch.chdir(place)
    (place / "odd" / "metrics.csv").mkdir(parents=True)
    assert main(["train", "--output", "odd", *SHORT]) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"odd/metrics\.csv cannot be used \(Is a directory\)\.", last)


def test_an_earlier_model_is_said_to_be_kept_only_where_there_was_one(place, tmp_path):
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    checkpoint = load_checkpoint(place / "model")
    with pytest.raises(CheckpointError, match=r"^The model was not saved to new \(No space left on device\)\.$"):
        save_checkpoint(checkpoint, tmp_path / "new", also=full)
    save_checkpoint(checkpoint, tmp_path / "old")
    with pytest.raises(CheckpointError, match=r"on device\); the earlier model there is kept\.$"):
        save_checkpoint(checkpoint, tmp_path / "old", also=full)


def run_app(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a folder of its own, since an option may name the present one."""
    command = [sys.executable, str(ROOT / "app.py"), "--no-browser", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--port", "99999"], "99999"),
        (["--port", "-1"], "-1"),
        (["--port", "x"], "x"),
        (["--host", "nosuchhost.invalid"], "nosuchhost.invalid"),
        (["--host", "192.0.2.1"], "192.0.2.1"),
        (["--host", ""], "--host"),
        (["--keep", ""], "--keep"),
        (["--lesson", ""], "--lesson"),
    ],
)
def test_the_app_refuses_a_wrong_argument_in_one_sentence(arguments: list[str], part: str, tmp_path: Path) -> None:
    done = run_app(tmp_path, *arguments)
    assert done.returncode in (1, 2)
    message = done.stderr.split("error: ")[-1]
    assert part in message
    assert re.fullmatch(r"[^\n]+\.\n", message), done.stderr


def test_the_app_prints_its_address_and_the_option_for_a_public_link(tmp_path: Path) -> None:
    done = run_app(tmp_path, "--keep", "/proc/x")
    assert done.returncode == 1
    assert re.fullmatch(r"[^\n]+/proc/x[^\n]+\.\n", done.stderr), done.stderr
    printed = r"\* Running on http://127\.0\.0\.1:\d+; with --share also on a public link\.\n"
    assert re.fullmatch(printed, done.stdout), done.stdout


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = run_app(tmp_path, "--port", str(port))
    assert done.returncode == 1
    expected = rf"127\.0\.0\.1 cannot be served on port {port} \(Address already in use\); choose [^\n]+\n"
    assert re.fullmatch(expected, done.stderr)
