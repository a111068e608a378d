"""What only a GPU would show, simulated: a device for each tensor, too little memory, and faults.

A whole step runs on PyTorch's device "meta", whose tensors have no numbers: it refuses what mixes two devices, and what
makes the CPU wait for a number.
"""

import contextlib
import gc
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from helpers import make_batch, wait
from torch._subclasses.fake_tensor import FakeTensorMode

from balcony.handlers import TOO_LARGE, sentence_of
from bert_core import __main__ as command_line
from bert_core import device as device_module
from bert_core import training
from bert_core.config import BertConfig, TrainingConfig
from bert_core.data.batches import IGNORED, Batch
from bert_core.data.corpus import Corpus
from bert_core.device import Cost, choose_device, gpu_fault
from bert_core.errors import GPU_LOST, OUT_OF_MEMORY, ConfigError, RunError, reason_of
from bert_core.model import BertForPreTraining
from bert_core.runs.recipe import load_recipe
from bert_core.runs.run import ENDED
from bert_core.runs.service import TrainingService
from bert_core.runs.train import Training
from bert_core.training import Trainer

CONFIG = BertConfig(vocab_size=41, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20)
TEXT = Corpus([["a b c d", "b c d e", "c d e f"]])
LOST = RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported")


def padded_batch() -> Batch:
    inputs = make_batch(CONFIG)
    labels = torch.full_like(inputs["input_ids"], IGNORED)
    labels[:, 1:3] = inputs["input_ids"][:, 1:3]
    return Batch(**inputs, labels=labels, next_sentence_label=torch.tensor([0, 1, 0]))


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, the second of which is a newer one with 10 GB, half of it in use by another program."""
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    current = [0]

    @contextlib.contextmanager
    def device(which):
        before, current[0] = current[0], torch.device(which).index or 0
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (4 * 2**30, 10 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2**30)
    monkeypatch.setattr(device_module, "gpu_fault", lambda device="cuda": "")
    return current


@pytest.mark.parametrize("name", ["adamw", "adam", "adadelta", "muon"])
def test_a_step_stays_on_its_device_and_waits_for_nothing(name, monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # it does not know this device
    with torch.device("meta"):
        model = BertForPreTraining(CONFIG)
    trainer = Trainer(model, [padded_batch()] * 3, TrainingConfig(steps=3, optimizer=name, max_grad_norm=1.0))
    for _ in range(2):
        row = next(trainer)
    assert row.mlm_loss.device.type == row.grad_norm.device.type == "meta"
    for fault in (lambda: float(row.mlm_loss), lambda: model.cls.predictions.bias + torch.ones(CONFIG.vocab_size)):
        with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
            fault()  # the simulation shows both of them


def test_dropout_draws_from_the_second_gpus_own_generator_and_gives_it_back(monkeypatch):
    said, second = [], torch.device("cuda:1")
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: f"state of {device}")
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: said.append(f"{state} back to {device}"))
    monkeypatch.setattr(torch, "manual_seed", said.append)
    trainer = SimpleNamespace(_has_dropout=True, device=second, seed=0, step=7)
    with pytest.raises(RuntimeError, match="lost"), Trainer._seeded_dropout(trainer):
        raise RuntimeError("lost")
    assert said == [7, "state of cuda:1 back to cuda:1"]


def test_a_model_is_drawn_on_its_generators_device_and_lies_on_pytorchs_default(monkeypatch):
    def drawn(values, *, generator, **_):
        assert values.device == generator.device

    monkeypatch.setattr(torch.nn.init, "trunc_normal_", drawn)
    with FakeTensorMode():
        with torch.device("cuda:1"):
            model = BertForPreTraining(CONFIG, generator=torch.Generator("cpu").manual_seed(0))
        assert {parameter.device for parameter in model.parameters()} == {torch.device("cuda:1")}


def test_memory_of_a_gpu_is_what_other_programs_leave(gpus):
    assert device_module.usable_memory("cuda:1") == 3 * 2**30, "60 % of the 4 free GB and its own"
    with pytest.raises(ConfigError, match=r"the limit here is 3\.0 GB\. Choose fewer"):
        device_module.training_bytes(CONFIG, 10_000, 512, 80, "cuda:1")
    with pytest.raises(ConfigError, match=r"the limit here is \d"):
        device_module.training_bytes(CONFIG, 10_000_000, 512, 80, "cpu")


def test_each_gpu_has_its_own_precision_and_speed(monkeypatch):
    asked, ones = [], torch.ones

    def on_cpu(*shape, device, dtype):
        asked.append((device, dtype))
        return ones(1, 1)

    monkeypatch.setattr(torch, "ones", on_cpu)
    monkeypatch.setattr(device_module, "_LARGE", {"cuda": 0})
    assert Cost(CONFIG, torch.full((8,), 20), 12, "cuda:1").seconds("auto") > 0
    assert {each for each, _ in asked} == {"cuda:1"}
    assert {dtype for _, dtype in asked} == {torch.float32, torch.bfloat16}


def test_a_gpu_that_cannot_compute_is_left_alone_and_the_reason_is_said(monkeypatch, gpus, capsys, request):
    reason = "CUDA error: no kernel image is available for execution on the device"

    def refuse(*_, device=None, **__):
        asked.append(device)
        if device == "cuda:1":
            return ones(1, 1)
        raise RuntimeError(f"{reason}\nCUDA kernel errors might be asynchronously reported at some other API call.")

    asked, ones = [], torch.ones
    monkeypatch.setattr(device_module, "gpu_fault", gpu_fault)
    request.addfinalizer(gpu_fault.cache_clear)
    gpu_fault.cache_clear()
    monkeypatch.setattr(torch, "ones", refuse)
    with TrainingService("cpu") as service:
        assert "GPU" not in service.device_name
    assert asked == [], "a person who asks for the CPU leaves the GPU alone"
    assert choose_device("auto") == "cpu"
    with pytest.raises(ConfigError, match=rf"^The GPU cannot be used \({reason}\); choose the device cpu\.$"):
        choose_device("cuda:0")
    assert choose_device("cuda:1") == "cuda:1", "a GPU is no worse for the fault of another"
    with pytest.raises(ConfigError, match="'cuda:2' is not available here"):
        choose_device("cuda:2")
    with TrainingService() as service:
        assert service.device_name.endswith(f"(the GPU cannot be used: {reason})")
    assert command_line.main(["exam", "no-such-model", "--corpus", "none"]) == 1
    assert f"The GPU cannot be used ({reason}), so this runs on the CPU." in capsys.readouterr().err


def test_a_process_of_several_without_a_gpu_of_its_own_says_so(gpus, monkeypatch):
    monkeypatch.setattr(training.dist, "is_torchelastic_launched", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ConfigError, match="The device 'cuda:2' is not available here"), training.joined("cuda"):
        pass


@pytest.mark.parametrize(
    ("device", "backend", "own"), [("cuda", "nccl", torch.device("cuda", 1)), ("cpu", "gloo", None)]
)
def test_a_process_of_several_names_its_own_gpu_to_the_others(device, backend, own, gpus, monkeypatch):
    """Without it, NCCL guesses the GPU by the process's number among all machines."""
    joined = {}
    monkeypatch.setattr(training.dist, "is_torchelastic_launched", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    monkeypatch.setattr(training.dist, "init_process_group", lambda name, **more: joined.update(more, name=name))
    monkeypatch.setattr(training.dist, "destroy_process_group", joined.clear)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with training.joined(device):
        assert (joined["name"], joined["device_id"]) == (backend, own)


@pytest.mark.parametrize(
    ("error", "reason", "on_the_page"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), OUT_OF_MEMORY, TOO_LARGE),
        (RuntimeError("CUDA error: out of memory"), OUT_OF_MEMORY, TOO_LARGE),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            OUT_OF_MEMORY,
            TOO_LARGE,
        ),
        (torch.AcceleratorError(str(LOST)), GPU_LOST, GPU_LOST),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"), GPU_LOST, GPU_LOST),
    ],
    ids=["CUDA", "driver", "cuBLAS", "lost", "lost in cuBLAS"],
)
def test_a_full_or_lost_gpu_has_its_own_sentence_everywhere(error, reason, on_the_page, monkeypatch, capsys):
    assert (reason_of(error), sentence_of(error)) == (reason, on_the_page)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(command_line, "load_checkpoint", fail)
    assert command_line.main(["exam", "model", "--corpus", "text"]) == 1
    assert capsys.readouterr().err == f"{reason}\n"


def test_a_fault_of_the_program_stays_one(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("shape '[3]' is invalid")

    monkeypatch.setattr(command_line, "load_checkpoint", fail)
    with pytest.raises(RuntimeError, match="shape"):
        command_line.main(["exam", "model", "--corpus", "text"])


@pytest.mark.parametrize(("kind", "name"), [(Training, "take_snapshot"), (Trainer, "__next__")])
def test_a_run_that_fails_gives_its_memory_back_before_the_garbage_collector_comes(kind, name, monkeypatch):
    """The others need it for their next step or snapshot."""
    models = []

    def fail(owner):
        models.append(weakref.ref(getattr(owner, "trainer", owner).model))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(kind, name, fail)
    gc.disable()
    try:
        with TrainingService("cpu") as service:
            run = service.start(load_recipe("romeo-juliet"), TEXT)
            wait(lambda: run.status in ENDED)
        assert run.reason == OUT_OF_MEMORY
        assert models[0]() is None
    finally:
        gc.enable()


def test_a_gpu_lost_in_the_middle_ends_the_run_with_the_reason_and_keeps_its_history(monkeypatch):
    lost, step = threading.Event(), Trainer.__next__

    def fail_once_lost(trainer):
        if lost.is_set():
            raise LOST
        return step(trainer)

    monkeypatch.setattr(Trainer, "__next__", fail_once_lost)
    recipe = load_recipe("romeo-juliet").override({"training.steps": 100_000, "data.batch_size": 2})
    with TrainingService("cpu") as service:
        run = service.start(recipe, TEXT)
        wait(lambda: run.steps_done)
        lost.set()
        wait(lambda: run.status in ENDED)
        assert (run.status, run.reason) == ("failed", GPU_LOST)
        assert run.steps_done
        assert run.snapshots
        with pytest.raises(RunError, match="The GPU has failed"):
            service.start(recipe, TEXT).wait()
        lost.clear()
        assert service.start(recipe.override({"training.steps": 3}), TEXT).wait().status == "finished"


def test_products_in_float32_stay_exact():
    """TF32 would give them 10 bits; nothing here turns it on."""
    assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_compiled_model_answers_and_trains_as_the_model():
    model = BertForPreTraining(CONFIG, generator=torch.Generator().manual_seed(0)).eval()
    inputs = make_batch(CONFIG)
    with torch.no_grad():
        expected = model(*inputs.values()).prediction_logits
        compiled = torch.compile(model, backend="eager")
        torch.testing.assert_close(compiled(*inputs.values()).prediction_logits, expected)
    batches, losses = [padded_batch()] * 2, []
    for make in (lambda each: each, lambda each: torch.compile(each, backend="eager")):
        own = BertForPreTraining(CONFIG, generator=torch.Generator().manual_seed(0))
        losses.append([metrics.mlm_loss for metrics in Trainer(make(own), batches, TrainingConfig(steps=2))])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
