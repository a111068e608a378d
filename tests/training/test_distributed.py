"""Processes that torchrun starts train as one does without it."""

import contextlib
import csv
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import wait

from bert_core import __main__ as command_line
from bert_core.__main__ import main
from bert_core.data.batches import IGNORED, Batch
from bert_core.runs import train
from bert_core.runs.train import read_training_state
from bert_core.training import own_rows

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    "data.batch_size=5",
    "model.hidden_size=12",
    "model.num_attention_heads=3",
    "model.num_hidden_layers=1",
    "model.intermediate_size=20",
    "training.precision=float32",
]
NO_DROPOUT = ["model.hidden_dropout_prob=0", "model.attention_probs_dropout_prob=0"]
TIMEOUT = 300  # seconds


@contextlib.contextmanager
def torchrun(processes, *arguments, device="cpu"):
    """`train` in so many processes, started by torchrun; those still running after the block are killed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    process = subprocess.Popen(
        [*command, "-m", "bert_core", "train", "--device", device, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def steps_of(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test_rows_are_divided_and_trimmed_to_the_longest():
    lengths = torch.tensor([7, 3, 5, 2, 6])
    mask = (torch.arange(7) < lengths[:, None]).long()
    ids = torch.arange(35).view(5, 7)
    batch = Batch(ids, ids + 1, mask, torch.where(mask == 1, ids, IGNORED), torch.arange(5))
    parts = [own_rows(batch, number, 2) for number in range(2)]
    assert [part.input_ids.shape for part in parts] == [(3, 7), (2, 3)]
    assert parts[1].next_sentence_label.tolist() == [1, 3]
    assert parts[1].input_ids.tolist() == ids[1::2, :3].tolist()
    assert sum(part.attention_mask.sum() for part in parts) == lengths.sum()


@pytest.mark.parametrize("alternating", ["false", "true"])
def test_two_processes_have_the_losses_of_one(tmp_path, alternating):
    settings = ["--seed", "3", "--set", *TINY, *NO_DROPOUT, "training.steps=50", f"training.alternating={alternating}"]
    with torchrun(2, "--output", tmp_path / "two", *settings) as process:
        output, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    assert output.count('"steps": 50') == 1
    assert main(["train", "--device", "cpu", "--output", str(tmp_path / "one"), *settings]) == 0
    one, two = steps_of(tmp_path / "one"), steps_of(tmp_path / "two")
    assert len(one) == len(two) == 50
    for ours, theirs in zip(two, one):
        assert ours.pop("seconds") > 0
        del theirs["seconds"]
        assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_one_process_of_torchrun_has_the_losses_of_training_without_it(tmp_path, device):
    settings = ["--seed", "3", "--set", *TINY, *NO_DROPOUT, "training.steps=12"]
    with torchrun(1, "--output", tmp_path / "joined", *settings, device=device) as process:
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    assert not re.search("device under current context|Guessing device", errors), "each process names its GPU"
    assert main(["train", "--device", device, "--output", str(tmp_path / "plain"), *settings]) == 0
    joined, plain = ([row["mlm_loss"] for row in steps_of(tmp_path / name)] for name in ("joined", "plain"))
    assert joined == pytest.approx(plain, abs=1e-4)
    assert len(joined) == 12


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found by /proc")
@pytest.mark.parametrize("killed", [0, 1])
def test_the_end_of_one_process_ends_all_and_the_saved_training_resumes(tmp_path, monkeypatch, killed):
    folder = tmp_path / "model"
    settings = ["--save-every", "20", "--set", *TINY, "training.steps=1000000"]
    with torchrun(2, "--output", folder, *settings) as process:
        # The first save moves config.json last: with it, the folder is complete.
        wait(lambda: (folder / "config.json").exists() or process.poll() is not None)
        os.kill(process_of_rank(killed, process.pid), signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode != 0
    step = read_training_state(folder).history[-1].step
    assert step >= 20
    monkeypatch.setattr(train, "SLICE_SECONDS", 0)
    monkeypatch.setattr(command_line, "_show_step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["train", "--resume", str(folder)]) == 130
    assert [row["step"] for row in steps_of(folder)] == list(range(1, step + 2))


def process_of_rank(rank, parent):
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_child = f"PPid:\t{parent}\n" in (path / "status").read_text()
            if is_child and f"RANK={rank}".encode() in (path / "environ").read_bytes().split(b"\0"):
                return int(path.name)
    raise AssertionError(f"no process of rank {rank}")
