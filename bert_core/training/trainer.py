"""Training as an iterator: pre-training on masked words and next sentence, or another objective.

`for row in trainer:` is the whole loop. The trainer needs no thread, page or file: each `next(trainer)` is a step,
and a caller pauses or stops by not asking for another."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bert_core.config import BertConfig, OptimizerConfig
from bert_core.device import Cost, using_threads
from bert_core.errors import CheckpointError
from bert_core.training.objective import OF_EVERY_STEP, Fractions, Objective, Pretraining, StepRow
from bert_core.training.optimizer import Optimizer, learning_rate_at

_SEED_STRIDE = 0x9E3779B97F4A7C15  # an odd constant spreads neighbouring seeds over all 64-bit numbers


def step_cost(config: BertConfig, batches: Any, objective: Objective, device: str) -> Cost:
    """What a step takes with batches of the longest kind: the first `short_steps` of some texts are short."""
    return Cost(config, *objective.size(batches[getattr(batches, "short_steps", 0)]), device)


class Trainer:
    """Trains a model on batches, one step for each `next()`, until config.total_steps steps are done.

    model: trained in place, on its device, in float32. batches: `batches[k]` is the batch of step k. All draws are a
    function of (seed, k), so a run repeats its losses bit for bit on the same device with the same number of threads;
    on a GPU, to rounding where batches have more than 64 tokens, because CUDA's attention then adds up in any order,
    and only if no other trainer with dropout steps at the same time in another thread. config: may be replaced between
    two steps, but for its optimizer; the precision "auto" becomes the faster one. objective: None means pre-training.
    """

    def __init__(
        self, model: Any, batches: Any, config: OptimizerConfig, *, seed: int = 0, objective: Objective | None = None
    ) -> None:
        self.model, self.batches, self.seed = model.train(), batches, seed
        self.objective: Objective = objective or Pretraining()
        self.step, self.seconds = 0, 0.0
        self._parameters = list(model.parameters())
        self.device: torch.device = self._parameters[0].device
        cost, sizes = step_cost(model.config, batches, self.objective, str(self.device)), model.config
        self.threads = cost.threads
        self.config = config.replace(precision=cost.precision) if config.precision == "auto" else config
        dropouts = (sizes.hidden_dropout_prob, sizes.attention_probs_dropout_prob, sizes.classifier_dropout)
        self._has_dropout = any(dropouts)
        number = 2 if getattr(config, "alternating", False) else 1  # each with averages of its own objective
        self._optimizers = [Optimizer(model.named_parameters(), config) for _ in range(number)]
        self._averages = {  # of all optimizers, a tensor for each parameter; by names such as "0.exp_avg"
            f"{number}.{name}": averages
            for number, optimizer in enumerate(self._optimizers)
            for name, averages in optimizer.averages.items()
        }

    def __iter__(self) -> Iterator[StepRow]:
        return self

    def __next__(self) -> StepRow:
        if self.step >= self.config.total_steps:
            raise StopIteration
        started, config = time.perf_counter(), self.config
        batch, rate = self.batches[self.step], learning_rate_at(self.step, config)
        with using_threads(self.threads), self._seeded_dropout():
            for parameter in self._parameters:  # which Module.zero_grad would look up anew in each step
                parameter.grad = None
            with torch.autocast(self.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
                sums, counts = self._run(batch)
            # A loss over nothing trains as 0; it is shown as nan, by a division without the clamp.
            self.objective.loss(sums / counts.clamp(min=1), config, self.step).backward()
            gradients = [parameter.grad for parameter in self._parameters]
            norm = nn.utils.get_total_norm([each for each in gradients if each is not None])
            scale = (norm / config.max_grad_norm).clamp(min=1.0) if config.max_grad_norm else None
            optimizer = self._optimizers[self.step % len(self._optimizers)]
            optimizer.config = config
            optimizer.step(gradients, rate, scale, skip=~torch.isfinite(norm))
            found = torch.cat([sums.detach() / counts, norm[None]])
            # Numbers on a GPU, which has yet to compute them, are not waited for.
            *numbers, grad_norm = found.tolist() if self.device.type == "cpu" else found.unbind()
        self.step += 1
        self.seconds += time.perf_counter() - started
        of_every = rate, grad_norm, int(batch.attention_mask.sum()), self.seconds
        names = *self.objective.names, *OF_EVERY_STEP
        return StepRow(step=self.step, **dict(zip(names, (*numbers, *of_every))))

    def _run(self, batch: Any) -> Fractions:
        """The numbers of a step; `DistributedTrainer` has another one."""
        return self.objective.run(self.model, batch, self.device)

    @contextlib.contextmanager
    def _seeded_dropout(self) -> Iterator[None]:
        """Let dropout draw by the seed and the step alone, and give the global generators back as they were."""
        is_on_cpu = self.device.type == "cpu"
        with torch.random.fork_rng([] if is_on_cpu else [self.device], self._has_dropout, device_type=self.device.type):
            if self._has_dropout:
                seed_with = torch.default_generator.manual_seed if is_on_cpu else torch.manual_seed  # seeds all devices
                seed_with((self.seed * _SEED_STRIDE + self.step) % 2**63)
            yield

    def averages(self) -> dict[str, Tensor]:
        """A copy on the CPU of what the next step depends on besides step, weights, settings and seed: the optimizer's
        averages, those of all parameters in one tensor, by names such as "0.exp_avg"."""
        return {name: nn.utils.parameters_to_vector(each).cpu() for name, each in self._averages.items()}

    def restore(self, step: int, seconds: float, averages: Mapping[str, Tensor]) -> None:
        """Continue after a step; the model must already have its weights. Raises CheckpointError for `averages` of
        another model or optimizer."""
        size = (sum(parameter.numel() for parameter in self._parameters),)
        if {name: each.shape for name, each in averages.items()} != dict.fromkeys(self._averages, size):
            raise CheckpointError(
                "The state does not fit this model and optimizer, or another version of this program has saved it; "
                "start the training again."
            )
        for name, own in self._averages.items():
            nn.utils.vector_to_parameters(averages[name].to(self.device, copy=True), own)
        for number, optimizer in enumerate(self._optimizers):
            for count in optimizer.counts:
                count.fill_(len(range(number, step, len(self._optimizers))))  # its steps so far
        self.step, self.seconds = step, seconds

    @property
    def nbytes(self) -> int:
        return (2 + len(self._averages)) * sum(parameter.nbytes for parameter in self._parameters)
