"""A small model, its tokenizer and its text, and a service, for several test modules."""

import os
from collections.abc import Iterator

import pytest

# Before torch is imported, also in processes that a test starts: for models this small, a second thread only waits.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The tests compare with numbers of the CPU; those of a GPU are in runs/test_gpu.py, and TEST_GPU names the one to use.
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("TEST_GPU", "")
# With these, the tests' own small Hub would not be asked.
os.environ.pop("HF_HUB_OFFLINE", None)
os.environ.pop("TRANSFORMERS_OFFLINE", None)

from helpers import make_model
from hypothesis import settings

from bert_core.config import BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import train_tokenizer
from bert_core.model import BertForPreTraining
from bert_core.runs.service import TrainingService
from bert_core.storage.checkpoint import Checkpoint

settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile("long", max_examples=2_000, deadline=None)
settings.register_profile("release", max_examples=600, deadline=None)
settings.load_profile("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # To trace takes a third more of processor time, and the other tests cover the core.
    for item in items:
        if item.path.parent.name in ("ui", "browser"):
            item.add_marker(pytest.mark.no_cover)


DIALOGUE = """\
Hello, how are you? I am Romeo.
Hello, Romeo My name is Juliet. Nice to meet you.
Nice meet you too. How are you today?
Great. My baseball team won the competition.
Oh Congratulations, Juliet
Thank you Romeo
"""


@pytest.fixture(scope="session")
def dialogue() -> Corpus:
    return Corpus.from_text(DIALOGUE, "lines", "the dialogue")


@pytest.fixture(scope="session")
def word_tokenizer(dialogue):
    return train_tokenizer(dialogue)


@pytest.fixture(scope="session")
def tiny_config(word_tokenizer) -> BertConfig:
    return BertConfig(
        vocab_size=word_tokenizer.get_vocab_size(),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=17,
    )


@pytest.fixture
def tiny_model(tiny_config) -> BertForPreTraining:
    """In eval mode, with weights of ten times the usual size: differences then show up far above rounding."""
    return make_model(tiny_config)


@pytest.fixture
def tiny_checkpoint(tiny_model, word_tokenizer) -> Checkpoint:
    return Checkpoint(tiny_model, word_tokenizer, name="tiny")


@pytest.fixture(scope="module")
def service() -> Iterator[TrainingService]:
    service = TrainingService(device="cpu")
    yield service
    service.close()
