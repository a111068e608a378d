"""Evaluation on held-out text, which the model is not trained on."""

import math
from collections.abc import Iterable, Iterator

import torch

from bert_core.data.batches import Batch
from bert_core.device import Cost, using_threads
from bert_core.model import BertForPreTraining
from bert_core.training.objective import HELD_OUT, Pretraining, StepRow

_MAX_BATCHES, _MAX_EVALUATIONS = 8, 100  # of one evaluation, and of one run
_PASSES = 4  # over a short text, each with other words masked


def evaluation_plan(steps: int, steps_per_epoch: float) -> tuple[int, int]:
    """The steps from one evaluation to the next and the batches of each, for a run of so many steps.

    steps_per_epoch: batches in one pass through the held-out text. All evaluations take about a tenth of the training
    time: a batch costs a third of a training step, and a short run has two, before its first step and after its last.
    """
    batches = max(1, min(_MAX_BATCHES, round(0.15 * steps), round(_PASSES * steps_per_epoch)))
    return max(round(batches / 0.3), math.ceil(steps / _MAX_EVALUATIONS)), batches


def evaluate(
    model: BertForPreTraining, batches: Iterable[Batch], step: int = 0, mask_token_id: int | None = None
) -> Iterator[StepRow | None]:
    """Evaluate a model in eval mode, as it is after `step`: yields None after each batch, and at the end the row of
    numbers, each a sum over all batches divided by a count. mask_token_id: for the DETAILS, see `Pretraining`.

    `*_, row = evaluate(model, batches)` takes the row."""
    objective, total = Pretraining(mask_token_id), torch.zeros((), device=model.device)
    for batch in batches:
        cost = Cost(model.config, *objective.size(batch), str(model.device), is_step=False)
        with torch.no_grad(), using_threads(cost.threads):
            total = total + torch.stack(objective.run(model, batch, model.device))  # (2, K)
        yield None
    sums, counts = total.cpu().double()
    names = HELD_OUT if mask_token_id is None else objective.names
    yield StepRow(step=step, **dict(zip(names, (sums / counts).tolist())))
