"""Vectors of words and sentences: every layer's hidden states, and how alike they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_core.errors import InputError
from bert_core.probes.forward import (
    MAX_CHARACTERS,
    NO_WORDS,
    batches,
    encode_text,
    forward,
    padded,
    read_words,
    words,
)
from bert_core.storage.checkpoint import Checkpoint

MAX_OCCURRENCES = 100
POOLINGS = ("cls", "mean")


@dataclass(frozen=True)
class HiddenStates:
    """tokens: (T,). states: (layers + 1, T, D) float32 on the CPU, the embeddings first."""

    tokens: list[str]
    states: Tensor


@dataclass(frozen=True)
class Occurrence:
    """Where a word stands: the number of its text, and the characters [start, end) there."""

    text: int
    start: int
    end: int


@dataclass(frozen=True)
class WordInContexts:
    """One word in N places. vectors: (layers + 1, N, D), the embeddings first. cosine: (layers + 1, N, N), the cosine
    of the angle between two vectors. points: (layers + 1, N, 2), each layer's vectors on a plane. All float32, CPU.
    """

    occurrences: tuple[Occurrence, ...]
    vectors: Tensor
    cosine: Tensor
    points: Tensor


def encode(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> HiddenStates:
    """Every layer's hidden states for one or two sentences. Raises InputError when the input is empty or too long."""
    encoding = encode_text(checkpoint, text, text_pair)
    output = forward(checkpoint, encoding, asked_positions=NO_WORDS, output_hidden_states=True)
    return HiddenStates(encoding.tokens, torch.stack([state[0] for state in output.hidden_states]).float().cpu())


def sentence_vector(checkpoint: Checkpoint, text: str, pooling: str = "cls") -> Tensor:
    """One text as a vector (D,); arguments and errors as for `sentence_vectors`."""
    return sentence_vectors(checkpoint, [text], pooling)[0]


@torch.inference_mode()
def sentence_vectors(checkpoint: Checkpoint, texts: Sequence[str], pooling: str = "cls") -> Tensor:
    """Texts as vectors of the last layer, (N, D) float32 on the CPU.

    pooling: "cls" takes the hidden state of the first token, "mean" the mean over all tokens of the text, [CLS] and
    [SEP] among them and padding left out (Reimers & Gurevych 2019, section 3). Texts go through the model together,
    and the vector of each is what it would be alone. Raises InputError for no text, an empty or too long one, or
    another pooling.
    """
    if pooling not in POOLINGS:
        raise InputError(f"The pooling {pooling!r} is unknown; it can be one of: {', '.join(POOLINGS)}.")
    if not texts:
        raise InputError("There is no text; give at least one.")
    encodings = [encode_text(checkpoint, text) for text in texts]
    rows = [(encoding.ids, encoding.type_ids) for encoding in encodings]
    vectors = torch.empty(len(rows), checkpoint.config.hidden_size)
    for part in batches(checkpoint, rows):
        ids, mask, segments = padded(checkpoint, [rows[number] for number in part])
        states = checkpoint.model.bert(ids, mask, segments).last_hidden_state.float()  # (B, T, D)
        if pooling == "cls":
            vectors[part] = states[:, 0].cpu()
        else:
            shares = mask / mask.sum(1, keepdim=True)  # (B, T)
            vectors[part] = torch.einsum("bt,btd->bd", shares, states).cpu()
    return vectors


@torch.inference_mode()
def words_in_contexts(checkpoint: Checkpoint, word: str, texts: Sequence[str]) -> WordInContexts:
    """The vectors of one word wherever it stands in some texts, at every layer, and how alike they are.

    word: as a person types it; it may be several, or one that the tokenizer cuts at a hyphen. It is found where the
    tokenizer reads the same words, so in capitals too if the tokenizer ignores them. texts: each is read alone; empty
    ones are left out. The vector of an occurrence is the mean over its pieces. Raises InputError when there is no
    word, it stands in none of the texts or in more than 100 places, or the texts are too long.
    """
    wanted = _readings(checkpoint, word)
    if not wanted:
        raise InputError("There is no word to look for; type one that stands in the sentences.")
    if (characters := sum(map(len, texts))) > MAX_CHARACTERS:
        raise InputError(
            f"The sentences have {characters:,} characters; the limit is {MAX_CHARACTERS:,}. Shorten them."
        )
    occurrences, vectors = [], []
    for number, text in enumerate(texts):
        spans = read_words(checkpoint, text)
        read = [_reading(checkpoint, span.text) for span in spans]
        found = [i for i in range(len(read) - len(wanted) + 1) if read[i : i + len(wanted)] == wanted]
        if not found:
            continue
        if len(occurrences) + len(found) > MAX_OCCURRENCES:
            raise InputError(f"The word stands in more than {MAX_OCCURRENCES} places, which is the limit. Shorten.")
        states = encode(checkpoint, text).states  # (layers + 1, T, D)
        for i in found:
            first, last = spans[i], spans[i + len(wanted) - 1]
            occurrences.append(Occurrence(number, first.start, last.end))
            vectors.append(states[:, first.first : last.last].mean(1))
    if not occurrences:
        raise InputError(
            f"The word {word.strip()[:100]!r} stands in none of the sentences; type it as it stands there."
        )
    stacked = torch.stack(vectors, 1)  # (layers + 1, N, D)
    unit = torch.nn.functional.normalize(stacked.double(), dim=-1)
    cosine = (unit @ unit.transpose(1, 2)).clamp(-1, 1).float()
    return WordInContexts(tuple(occurrences), stacked, cosine, torch.stack([plane(layer) for layer in stacked]))


def plane(vectors: Tensor) -> Tensor:
    """Vectors (N, D) as points (N, 2) on the plane of their largest differences (principal components).

    Distances are those of the vectors along the two directions. A direction may be turned round without meaning
    anything, so of each the largest entry is made positive; with fewer than two directions the rest is 0.
    """
    exact = vectors.double()  # equal vectors have no difference then, not one of rounding
    centred = exact - exact.mean(0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:2]  # (2, D), or fewer
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    points = centred @ (directions * largest.sign()).T
    return torch.nn.functional.pad(points, (0, 2 - points.shape[1])).float()


def _readings(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text as the tokenizer reads them."""
    return [_reading(checkpoint, word) for word in words(checkpoint, text)]


def _reading(checkpoint: Checkpoint, word: str) -> str:
    """A word as the tokenizer reads it, in small letters if it ignores capitals; unknown words stay themselves."""
    return checkpoint.tokenizer.normalizer.normalize_str(word).strip()
