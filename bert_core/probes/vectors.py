"""Vectors of words and sentences: every layer's hidden states, and how similar they are.

Shapes: L layers, T tokens, D hidden size, N occurrences or texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_core.errors import InputError
from bert_core.probes.forward import STATES, hidden_states, numbers_of
from bert_core.probes.reading import MAX_CHARACTERS, encode_text, read_words, row_of
from bert_core.storage.checkpoint import Checkpoint

MAX_OCCURRENCES = 100
POOLINGS = ("cls", "mean")


@dataclass(frozen=True)
class HiddenStates:
    """tokens: (T,). states: (L + 1, T, D) float32 on the CPU, the embeddings first."""

    tokens: list[str]
    states: Tensor


@dataclass(frozen=True)
class Occurrence:
    text: int  # its number
    start: int  # characters there, [start, end)
    end: int


@dataclass(frozen=True)
class WordInContexts:
    """The N occurrences of a word at L + 2 levels: the word vectors alone, the embeddings, which add position and
    segment, and each layer. All tensors are float32 on the CPU."""

    occurrences: tuple[Occurrence, ...]
    vectors: Tensor  # (L + 2, N, D)
    cosine: Tensor  # (L + 2, N, N) cosine similarities


def encode(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> HiddenStates:
    """Every layer's hidden states for one or two sentences. Raises InputError when the input is empty or too long."""
    encoding = encode_text(checkpoint, text, text_pair)
    return HiddenStates(encoding.tokens, hidden_states(checkpoint, encoding))


def sentence_vectors(checkpoint: Checkpoint, texts: Sequence[str], pooling: str = "cls") -> Tensor:
    """Texts as vectors of the last layer, (N, D) float32 on the CPU.

    pooling: "cls" takes the hidden state of the first token, "mean" the mean over all tokens, [CLS] and [SEP] among
    them (Reimers & Gurevych 2019, section 3). Raises InputError for an empty or too long text, or another pooling."""
    if pooling not in POOLINGS:
        raise InputError(f"The pooling {pooling!r} is unknown; it can be one of: {', '.join(POOLINGS)}.")
    vectors = torch.empty(len(texts), checkpoint.config.hidden_size)
    for vector, text in zip(vectors, texts):
        last = encode(checkpoint, text).states[-1]  # (T, D)
        vector.copy_(last[0] if pooling == "cls" else last.mean(0))
    return vectors


def words_in_contexts(checkpoint: Checkpoint, word: str, texts: Sequence[str]) -> WordInContexts:
    """The vectors of every occurrence of a word in some texts, at every level, and how similar they are.

    word: one or more words as typed, found where the tokenizer reads the same words. texts: each is read alone; those
    without the word are left out. An occurrence's vector is the mean over its pieces. Raises InputError when there is
    no word, it occurs in none of the texts or more than 100 times, or the texts are too long."""
    normalized = checkpoint.tokenizer.normalizer.normalize_str  # may lowercase; unknown words keep their letters
    wanted = [normalized(each.text).strip() for each in read_words(checkpoint, word)]
    if not wanted:
        raise InputError("There is no word to find; type one that occurs in the sentences.")
    if (characters := len("\n".join(texts))) > MAX_CHARACTERS:
        raise InputError(f"The texts have {characters:,} characters; the limit is {MAX_CHARACTERS:,}. Shorten them.")
    occurrences, vectors = list[Occurrence](), list[Tensor]()  # the latter (L + 2, D) each
    for number, text in enumerate(texts):
        words = read_words(checkpoint, text)
        read = [normalized(each.text).strip() for each in words]
        places = [i for i, first in enumerate(read) if first == wanted[0] and read[i : i + len(wanted)] == wanted]
        if not places:
            continue
        if len(occurrences) + len(places) > MAX_OCCURRENCES:
            raise InputError(f"The word occurs more than {MAX_OCCURRENCES} times, the limit; shorten the sentences.")
        encoding = encode_text(checkpoint, text)
        levels = torch.stack([*numbers_of(checkpoint, row_of(encoding), ["embed.hook_embed", *STATES]).values()])
        for i in places:
            first, last = words[i], words[i + len(wanted) - 1]
            occurrences.append(Occurrence(number, first.start, last.end))
            vectors.append(levels[:, first.first : last.last].mean(1))
    if not occurrences:
        raise InputError(f"The word {word.strip()[:100]!r} is in none of the sentences; type it as spelled there.")
    found = torch.stack(vectors, 1)  # (L + 2, N, D)
    return WordInContexts(tuple(occurrences), found, cosines(found))


def cosines(vectors: Tensor) -> Tensor:
    """Cosine similarities of vectors (..., N, D) with each other, (..., N, N)."""
    unit = torch.nn.functional.normalize(vectors.double(), dim=-1)
    return (unit @ unit.mT).clamp(-1, 1).float()
