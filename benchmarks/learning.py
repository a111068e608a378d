"""What is learned in a given time: held-out losses of several recipes, and of `transformers`, trained in turns.

    python benchmarks/learning.py --corpus english.txt --minutes 10 --transformers
    python benchmarks/learning.py --corpus english.txt --minutes 10 --transformers per_device_train_batch_size=32
    python benchmarks/learning.py --corpus english.txt --minutes 20 \\
        --also "model.num_hidden_layers=4" --also "training.learning_rate=0.001 data.mask_probability=0.15"

Each contestant trains for --turn seconds, then the next one does, until each has had its minutes; all begin with random
weights. Only the time of training counts, with the drawing of batches. After each turn all are evaluated on the same
held-out batches, with 15 % of the tokens asked. --also names the settings in which a further contestant differs from
the recipe; losses can be compared only where the vocabulary is the same.

`transformers` trains `BertForPreTraining` of the recipe's sizes with its `Trainer`, `DataCollatorForLanguageModeling`
and their defaults (batches of 8, a learning rate of 5e-5 that falls over three epochs), but for the arguments after
--transformers. It has the same pairs as the recipe and finds them encoded. Needs the packages of
tests/requirements.txt.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bert_core import BertConfig, BertForPreTraining, load_recipe, prepare, read_corpus
from bert_core.data.batches import PretrainingBatches
from bert_core.data.tokenizer import CLS, MASK, PAD, SEP, UNK
from bert_core.runs.jobs import Job
from bert_core.training import StepRow, evaluate

_EVALUATION_BATCHES = 40
_ASKED = 0.15  # of the held-out tokens, as in the paper


class Contestant:
    """Trains for a turn at a time. points: (seconds of training, its step and its results), one after each turn."""

    def __init__(self, name: str, held_out: PretrainingBatches) -> None:
        self.name, self.seconds, self.steps = name, 0.0, 0
        self.points: list[tuple[float, StepRow]] = []
        self._held_out = held_out

    def record(self, model: BertForPreTraining) -> None:
        """Evaluate a model after a turn and print the result."""
        batches = [self._held_out[k] for k in range(_EVALUATION_BATCHES)]
        *_, point = evaluate(model.eval(), batches, self.steps)
        model.train()
        self.points.append((self.seconds, point))
        print(
            f"| {self.name} | {self.seconds:.0f} | {self.steps:,} | {point.mlm_loss:.3f} | {point.mlm_accuracy:.1%} "
            f"| {point.nsp_loss:.3f} | {point.nsp_accuracy:.1%} |",
            flush=True,
        )


class Here(Contestant):
    """A recipe of this project."""

    def __init__(self, name: str, held_out: PretrainingBatches, prepared: Job) -> None:
        super().__init__(name, held_out)
        self._trainer = prepared.trainer()

    def turn(self, seconds: float) -> None:
        """Train for so many seconds."""
        end = self.seconds + seconds
        while self.seconds < end:
            started = time.perf_counter()
            next(self._trainer)
            self.seconds += time.perf_counter() - started
            self.steps += 1
        self.record(self._trainer.model)


class Examples(torch.utils.data.Dataset):
    """The pairs of a recipe's batches before masking, as `transformers` takes them."""

    def __init__(self, prepared: Job) -> None:
        self._batches, self._rows = prepared.batches, prepared.recipe.data.batch_size
        self._length = int(prepared.batches.steps_per_epoch * self._rows)
        self._drawn: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        number, row = divmod(index, self._rows)
        if number != self._drawn[0]:
            self._drawn = number, self._batches[number]
        batch = self._drawn[1]
        ids = torch.where(batch.labels[row] < 0, batch.input_ids[row], batch.labels[row])
        length = int(batch.attention_mask[row].sum())
        return {
            "input_ids": ids[:length].tolist(),
            "token_type_ids": batch.token_type_ids[row, :length].tolist(),
            "next_sentence_label": int(batch.next_sentence_label[row]),
        }


class Peer(Contestant):
    """`transformers.Trainer`, which calls the others when its turn is over."""

    def train(self, prepared: Job, arguments: dict[str, Any], turn: float, turns: int, others: Callable) -> None:
        """Train for all turns; `others` lets everyone else have a turn."""
        contestant, sizes = self, prepared.config
        model = transformers.BertForPreTraining(transformers.BertConfig(**_their_sizes(sizes)))
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=prepared.tokenizer,
            **{f"{name}_token": token for name, token in zip(_SPECIAL, (CLS, SEP, MASK, PAD, UNK))},
        )

        class Turns(transformers.TrainerCallback):
            started = time.perf_counter()

            def on_step_begin(self, *_: Any, **__: Any) -> None:
                if not contestant.steps:  # what stands before the first step is not training
                    Turns.started = time.perf_counter()

            def on_step_end(self, arguments: Any, state: Any, control: Any, **__: Any) -> None:
                contestant.steps = state.global_step
                seconds = contestant.seconds + time.perf_counter() - Turns.started
                if seconds < turn * (len(contestant.points) + 1):
                    return
                contestant.seconds = seconds
                ours = BertForPreTraining(sizes)
                ours.load_state_dict(_their_weights(model, ours))
                contestant.record(ours)
                others()
                control.should_training_stop = len(contestant.points) == turns
                Turns.started = time.perf_counter()

        with tempfile.TemporaryDirectory() as folder:
            transformers.Trainer(
                model=model,
                args=transformers.TrainingArguments(
                    folder,
                    train_sampling_strategy="sequential",  # the pairs are shuffled already
                    report_to="none",
                    save_strategy="no",
                    disable_tqdm=True,
                    dataloader_pin_memory=False,
                    **arguments,
                ),
                train_dataset=Examples(prepared),
                data_collator=transformers.DataCollatorForLanguageModeling(tokenizer),
                callbacks=[Turns()],
            ).train()


_SPECIAL = ("cls", "sep", "mask", "pad", "unk")


def _their_sizes(config: BertConfig) -> dict[str, Any]:
    """The recipe's sizes; how the weights begin and dropout are left at the defaults of `transformers`."""
    ours = config.content()
    defaults = ("initializer_range", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")
    return {name: value for name, value in ours.items() if name not in defaults}


def _their_weights(model: nn.Module, ours: BertForPreTraining) -> dict[str, Tensor]:
    theirs = model.state_dict()
    return {name: theirs[name] for name in ours.state_dict()}


def _settings(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in text.split())


def main() -> None:
    """Let all contestants train in turns and print what each has learned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="the text to learn from")
    parser.add_argument("--recipe", default="english-mini", help="of the first contestant")
    parser.add_argument("--also", action="append", default=[], metavar="SETTINGS", help="of a further contestant")
    parser.add_argument("--transformers", nargs="*", metavar="NAME=VALUE", help="let transformers.Trainer take part")
    parser.add_argument("--minutes", type=float, default=10, help="of training for each")
    parser.add_argument("--turn", type=float, default=30, help="seconds of training in a turn")
    options = parser.parse_args()
    recipe = load_recipe(options.recipe)
    corpus = read_corpus(options.corpus, kind=recipe.text_kind)
    torch.manual_seed(0)

    def prepared_with(settings: str) -> Job:
        return prepare(recipe.override(_settings(settings)), corpus, seed=0)

    first = prepared_with("")
    if first.validation is None:
        parser.error(f"{options.recipe} holds nothing out of this text to measure with.")
    asked = first.recipe.data.replace(mask_probability=_ASKED)
    held_out = PretrainingBatches(first.validation.encoded, first.tokenizer, asked, seed=0)
    ours = [Here(options.recipe, held_out, first)]
    ours += [Here(settings, held_out, prepared_with(settings)) for settings in options.also]
    turns = round(options.minutes * 60 / options.turn)
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, transformers {transformers.__version__}")
    print(
        "\n| | seconds | steps | MLM loss | asked words right | NSP loss | pairs right |\n|---|---|---|---|---|---|---|"
    )

    def others() -> None:
        for contestant in ours:
            contestant.turn(options.turn)

    if options.transformers is None:
        for _ in range(turns):
            others()
        return
    peer = Peer("transformers", held_out)
    arguments = {name: float(value) if "." in value or "e" in value else int(value) for name, value in _pairs(options)}
    peer.train(prepared_with(""), arguments, options.turn, turns, others)
    _, last = peer.points[-1]
    for contestant in ours:
        sooner = [seconds for seconds, point in contestant.points if point.mlm_loss <= last.mlm_loss]
        when = f"after {sooner[0]:.0f} s" if sooner else "not"
        print(f"\n{contestant.name}: the last MLM loss of transformers, {last.mlm_loss:.3f}, was reached {when}.")


def _pairs(options: argparse.Namespace) -> Sequence[tuple[str, str]]:
    return [(name, value) for name, _, value in (each.partition("=") for each in options.transformers)]


if __name__ == "__main__":
    main()
