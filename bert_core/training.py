"""Training: what a step minimises, its row of numbers, the optimizers, the trainer, and several processes.

`for row in Trainer(...):` is the whole loop. A trainer needs no thread, page or file: each `next(trainer)` is a step,
and a caller pauses or stops by not asking for another.

Shapes: B pairs, M asked positions, V vocabulary, K numbers of an objective."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.adadelta import adadelta
from torch.optim.adam import adam

from bert_core.config import BertConfig, OptimizerConfig, Schedule, TrainingConfig
from bert_core.data.batches import Batch
from bert_core.device import Cost, choose_device, using_threads
from bert_core.errors import CheckpointError, ConfigError
from bert_core.model import BertForPreTraining, Packing

# The K numbers of a batch as sums and as counts, (K,) each on the model's device: each number is its sum divided by its
# count. Several processes add both up. The sums of losses have gradients.
Fractions = tuple[Tensor, Tensor]

# The numbers of every step, beside those that the objective names: seconds is the training time up to its end, tokens
# counts the real tokens of its batch, and grad_norm is before clipping.
OF_EVERY_STEP = ("learning_rate", "grad_norm", "tokens", "seconds")
DETAILS = ("masked_accuracy", "replaced_accuracy", "kept_accuracy")
HELD_OUT = ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")  # what is measured on held-out text, too


class StepRow(SimpleNamespace):
    """The numbers of a training step, or of held-out data after it, by name: `row.step`, counted from 1, comes first.

    Losses are means in nats; accuracies are fractions. Numbers of a step that were computed on a GPU are still there,
    as tensors (), until `read_rows` or float() waits for them."""

    @property
    def losses(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if name.endswith("loss")}

    @property
    def measures(self) -> dict[str, float]:
        """Of held-out examples, all numbers that are neither a loss, the step nor the epoch."""
        return {name: value for name, value in vars(self).items() if name not in ("step", "epoch", *self.losses)}


def read_rows(rows: Sequence[StepRow]) -> list[StepRow]:
    """The rows with Python's numbers, fetched from the device in one transfer."""
    waiting = [value for row in rows for value in vars(row).values() if torch.is_tensor(value)]
    found = iter(torch.stack(waiting).tolist() if waiting else ())
    return [
        StepRow(**{name: next(found) if torch.is_tensor(value) else value for name, value in vars(row).items()})
        for row in rows
    ]


def until_divergence(rows: list[StepRow]) -> tuple[list[StepRow], str]:
    """The rows before the first one whose gradient, and so its loss, is not finite, and a message about it, or ""."""
    for i, row in enumerate(rows):
        if not math.isfinite(row.grad_norm):
            return rows[:i], (
                f"The loss stopped being a number at step {row.step} (learning rate {row.learning_rate:.3g}); "
                "the last model before it is kept. Start again with a lower learning rate."
            )
    return rows, ""


class Objective(Protocol):
    """What a trainer minimises. The types of batch and config are its own; a batch has attention_mask.

    names: of the K numbers of a step, the losses first. size: the tokens of each row, (B,), and how many positions are
    asked. run: the numbers of a model on a batch. loss: to minimise, (), from the numbers (K,) of a step, from 0 on."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def size(self, batch: Any, /) -> tuple[Tensor, int]: ...
    def run(self, model: Any, batch: Any, device: torch.device, /) -> Fractions: ...
    def loss(self, numbers: Tensor, config: Any, step: int, /) -> Tensor: ...


@dataclass(frozen=True)
class Pretraining:
    """The `Objective` of pre-training. Its numbers are means over the asked words and over the pairs of a batch.

    mask_token_id: the id of [MASK]; without it, masked_accuracy and replaced_accuracy are nan. These and kept_accuracy:
    fraction correct of the asked words shown as [MASK], as another word, and unchanged (a word replaced by itself
    counts as kept); nan where the batch has none."""

    names: ClassVar[tuple[str, ...]] = (*HELD_OUT, *DETAILS)
    mask_token_id: int | None = None

    def size(self, batch: Batch) -> tuple[Tensor, int]:
        return batch.attention_mask.sum(1), len(batch.asked()[0])

    def run(self, model: BertForPreTraining, batch: Batch, device: torch.device) -> Fractions:
        asked, labels = batch.asked()  # counted on the CPU, which need not wait for the device
        packing = Packing.of(batch.attention_mask, device)
        asked, labels, ids, segments, pair_labels = (
            each.to(device)
            for each in (asked, labels, batch.input_ids, batch.token_type_ids, batch.next_sentence_label)
        )
        mask = None if packing.real is None else batch.attention_mask.to(device)
        output = model(ids, mask, segments, asked_positions=asked, packing=packing)
        # float32 once: autocast would copy for the loss only, and argmax is slow in bfloat16.
        words, pairs = output.prediction_logits.float(), output.seq_relationship_logits.float()  # (M, V), (B, 2)
        shown, is_known = ids.flatten()[asked], self.mask_token_id is not None
        kept, masked = shown == labels, torch.eq(shown, -1 if self.mask_token_id is None else self.mask_token_id)
        kinds = torch.stack([torch.ones_like(kept), masked, ~(kept | masked) & is_known, kept]).float()  # (4, M)
        right = kinds @ (words.detach().argmax(1) == labels).float()
        pairs_right = (pairs.detach().argmax(1) == pair_labels).sum()
        mlm_loss = F.cross_entropy(words, labels, reduction="sum")
        nsp_loss = F.cross_entropy(pairs, pair_labels, reduction="sum")
        of_words, of_pairs = kinds.sum(1), (pair_labels >= 0).sum()
        # In the order of `names`: losses, accuracies, details.
        sums = torch.stack([mlm_loss, nsp_loss, right[0], pairs_right, *right[1:]])
        return sums, torch.stack([of_words[0], of_pairs, of_words[0], of_pairs, *of_words[1:]])

    def loss(self, numbers: Tensor, config: TrainingConfig, step: int) -> Tensor:
        """The weighted sum of both losses or, if they alternate, the MLM loss in even and the NSP loss in odd steps."""
        mlm_loss, nsp_loss = config.mlm_weight * numbers[0], config.nsp_weight * numbers[1]
        if config.alternating:
            return nsp_loss if step % 2 else mlm_loss
        return mlm_loss + nsp_loss


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


# --- From gradients to weights ----------------------------------------------------------------------------------------

# The updates are PyTorch's functions and not its classes: making the first of those imports PyTorch's compiler, which
# takes as long as PyTorch itself.
_MUON_MOMENTUM, _MUON_SCALE = 0.95, 0.2  # the scale gives an update the size that one of AdamW has

# Of weights that are updated together: they, their gradients, both running averages, and their numbers of updates.
_Columns = Sequence[list[Tensor]]


class Optimizer:
    """AdamW, Adam or Adadelta over all parameters of a model, or Muon over the matrices of its layers and AdamW over
    the others. Biases and LayerNorm have no weight decay.

    parameters: with their names. config: of the next update; its `optimizer` stays. averages: by PyTorch's names, one
    for each parameter. counts: of the updates of each."""

    def __init__(self, parameters: Iterable[tuple[str, Tensor]], config: OptimizerConfig) -> None:
        self.config = config
        names, self._weights = zip(*parameters)
        is_adadelta = config.optimizer == "adadelta"
        kinds = ("square_avg", "acc_delta") if is_adadelta else ("exp_avg", "exp_avg_sq")
        self.averages = {kind: [torch.zeros_like(weight) for weight in self._weights] for kind in kinds}
        self.counts = [torch.zeros((), device=weight.device) for weight in self._weights]
        usual = self._adadelta if is_adadelta else self._adam
        of_layers = self._muon if config.optimizer == "muon" else usual
        # The numbers of the parameters that are updated together: whether they are matrices, and how.
        self._groups: dict[tuple[bool, Callable[..., Any]], list[int]] = {}
        for i, (name, weight) in enumerate(zip(names, self._weights)):
            is_matrix = weight.ndim >= 2
            update = of_layers if ".encoder." in name and is_matrix else usual
            self._groups.setdefault((is_matrix, update), []).append(i)

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None], rate: float, scale: Tensor | None, skip: Tensor) -> None:
        """Update the weights by their gradients, which come in the order of the parameters, at a learning rate.

        Parameters without a gradient do not change. scale: () divides the gradients; None means 1. skip: () whether to
        ignore the gradients; Adam and AdamW then change nothing. Both stay on the device."""
        columns: Any = (self._weights, gradients, *self.averages.values(), self.counts)
        for (is_matrix, update), numbers in self._groups.items():
            own = [[column[i] for i in numbers if gradients[i] is not None] for column in columns]
            if own[0]:
                update(own, rate, self.config.weight_decay if is_matrix else 0.0, scale, skip.float())

    def _adam(self, columns: _Columns, rate: float, decay: float, scale: Tensor | None, skip: Tensor) -> None:
        weights, gradients, first, second, counts = columns
        # The kernel divides by the scale and changes nothing if found_inf is 1, so that clipping needs neither its own
        # pass over the gradients nor a wait for the device.
        settings: dict[str, Any] = {"fused": True, "grad_scale": scale, "found_inf": skip}
        settings |= {"beta1": self.config.beta1, "beta2": self.config.beta2, "eps": 1e-8}
        settings |= {"decoupled_weight_decay": self.config.optimizer != "adam", "amsgrad": False, "maximize": False}
        adam(weights, gradients, first, second, [], counts, lr=rate, weight_decay=decay, **settings)

    def _adadelta(self, columns: _Columns, rate: float, decay: float, scale: Tensor | None, skip: Tensor) -> None:
        weights, gradients, first, second, counts = columns
        _scale(gradients, scale, skip)
        settings: dict[str, Any] = {"rho": 0.9, "eps": 1e-6, "maximize": False}
        adadelta(weights, gradients, first, second, counts, lr=rate, weight_decay=decay, **settings)

    def _muon(self, columns: _Columns, rate: float, decay: float, scale: Tensor | None, skip: Tensor) -> None:
        weights, gradients, momenta, *_ = columns
        _scale(gradients, scale, skip)
        for weight, gradient, momentum in zip(weights, gradients, momenta):
            momentum.lerp_(gradient, 1 - _MUON_MOMENTUM)
            update = orthogonalized(gradient.lerp(momentum, _MUON_MOMENTUM))
            weight.mul_(1 - rate * decay).sub_(update * (rate * _MUON_SCALE * max(weight.shape) ** 0.5))


def _scale(gradients: Sequence[Tensor], scale: Tensor | None, skip: Tensor) -> None:
    """Divide gradients in place, and clear those to ignore: such an update still decays weights and averages."""
    for gradient in gradients:
        if scale is not None:
            gradient.div_(scale)
        gradient.masked_fill_(skip.bool(), 0.0)


def orthogonalized(matrix: Tensor) -> Tensor:
    """U V^T of a matrix U S V^T, nearly, by Newton-Schulz iteration: its singular values become 0.7 to 1.2."""
    a, b, c = 3.4445, -4.7750, 2.0315  # of Jordan et al. (2024)
    is_wide = matrix.shape[0] <= matrix.shape[1]
    x = matrix if is_wide else matrix.mT
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if is_wide else x.mT


def learning_rate_at(step: int, config: OptimizerConfig) -> float:
    """The learning rate of a step, counted from 0, by the part of the training that contains the step."""
    for part in reversed(config.parts):
        if part.start <= step:
            return part.learning_rate * schedule(step - part.start, part)
    return config.learning_rate * schedule(step, config)


def schedule(step: int, part: Schedule) -> float:
    """The fraction of the peak learning rate at a step, counted from 0: linear warm-up, from 1 / warmup_steps, then
    linear decay to a last step above 0 (Devlin et al. 2018, A.2), or none."""
    if step < part.warmup_steps:
        return (step + 1) / part.warmup_steps
    if part.decay == "none":
        return 1.0
    return max(0.0, (part.steps - step) / max(1, part.steps - part.warmup_steps))


# --- A step, and the next ---------------------------------------------------------------------------------------------

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


# --- Several processes ------------------------------------------------------------------------------------------------

# torchrun starts them, one for each GPU or several on a CPU, on one machine or more. Every process draws the same whole
# batch, a function of seed and step, and runs its own rows of it in PyTorch's DistributedDataParallel. The loss is the
# mean over the asked positions of the whole batch, as of one process.

_AGREE_EVERY = 10  # steps; in between, the processes do not wait for each other to agree on a stop


def rank() -> int:
    """This process's number. Only the first process, 0, prints and writes files."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextlib.contextmanager
def joined(device: str) -> Iterator[None]:
    """Join the other processes, if torchrun has started this one: over NCCL on "cuda", with a GPU for each, otherwise
    over Gloo. Raises ConfigError where this process has no GPU of its own."""
    if not dist.is_torchelastic_launched():
        yield
        return
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if device == "cuda" else None
    if own:
        torch.cuda.set_device(choose_device(str(own)))
    dist.init_process_group("nccl" if own else "gloo", device_id=own)  # without it, NCCL guesses the GPU
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):  # if another process has ended
            dist.destroy_process_group()


def any_wants_to_stop(wish: bool, step: int) -> bool:
    """Whether this or another process wants to stop; all get the same answer, and so stop after the same step."""
    if not dist.is_initialized():
        return wish
    if step % _AGREE_EVERY:
        return False
    wishes = torch.tensor(float(wish), device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(wishes)
    return wishes.item() > 0


def own_rows(batch: Batch, number: int, size: int) -> Batch:
    """Every size-th row of a batch, from row `number` on, trimmed to the longest of them."""
    T = int(batch.attention_mask[number::size].sum(1).max())
    rows = {name: part[number::size] for name, part in vars(batch).items()}
    return Batch(**{name: part if part.ndim == 1 else part[:, :T] for name, part in rows.items()})


class DistributedTrainer(Trainer):
    """The trainer of one of several processes, whose weights and states stay equal. Raises ConfigError when a batch has
    fewer rows than there are processes."""

    def __init__(self, model: Any, batches: Any, config: Any, *, seed: int, **more: Any) -> None:
        super().__init__(model, batches, config, seed=seed + dist.get_rank(), **more)  # with dropout of its own
        if (rows := len(batches[0].next_sentence_label)) < (size := dist.get_world_size()):
            raise ConfigError(
                f"A batch of {rows} pairs is too small for {size} processes; set data.batch_size to {size} or more."
            )
        self.threads = max(1, self.threads // int(os.environ["LOCAL_WORLD_SIZE"]))
        self._shared = DistributedDataParallel(model)

    def _run(self, batch: Batch) -> Fractions:
        size = dist.get_world_size()
        sums, counts = self.objective.run(self._shared, own_rows(batch, dist.get_rank(), size), self.device)
        whole = torch.stack([sums.detach(), counts])
        dist.all_reduce(whole)
        # The values of all rows with the gradients of the own ones, which DistributedDataParallel averages.
        return whole[0] + size * (sums - sums.detach()), whole[1]
