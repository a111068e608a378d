"""Questions to a trained model: masked words, next sentence, attention, vectors of words and sentences, the exam.

Shapes: B batch, T tokens, H heads, D hidden size, V vocabulary. Every function takes a checkpoint in eval mode,
draws no random number and leaves the model as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bert_core.checkpoint import Checkpoint
from bert_core.corpus import Corpus
from bert_core.encoded import IS_NEXT, encode_corpus
from bert_core.errors import InputError
from bert_core.reading import (
    MAX_CHARACTERS,
    NO_WORDS,
    batches,
    encode_text,
    forward,
    forward_rows,
    padded,
    read_words,
    require,
    tokenize,
)
from bert_core.tokenization import CLS, MASK, SEP, UNK

EXAM_SENTENCES = 200  # a longer text is examined in a window of this many sentences
MAX_OCCURRENCES = 100
POOLINGS = ("cls", "mean")


@dataclass(frozen=True)
class AttentionMaps:
    """tokens: (T,) as the model reads them. token_type_ids: (T,). weights: (layers, H, T, T) float32 on the CPU;
    row i says how much token i takes from each token.
    """

    tokens: list[str]
    token_type_ids: list[int]
    weights: Tensor


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


@dataclass(frozen=True)
class Exam:
    """words, pairs: (right, asked). window: (first, last) sentence numbers from 1 when only a part was examined."""

    words: tuple[int, int]
    pairs: tuple[int, int]
    window: tuple[int, int] | None = None


def fill_mask(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, top_k: int = 5
) -> list[list[tuple[str, float]]]:
    """The likeliest words at each [MASK], in reading order: (token, probability), likeliest first.

    Probabilities are a softmax over the whole vocabulary. text_pair: a second sentence, in segment B. Raises
    InputError when there is no [MASK], the input is too long, or the model has no masked-word head.
    """
    require(checkpoint, "mlm", "guess masked words")
    if top_k < 1:
        raise InputError(f"top_k is {top_k}; ask for at least 1 guess.")
    encoding = encode_text(checkpoint, text, text_pair)
    at = [i for i, token in enumerate(encoding.tokens) if token == MASK]
    if not at:
        raise InputError(f"There is no {MASK} in the text; put one where a word is to be guessed.")
    output = forward(checkpoint, encoding, asked_positions=torch.tensor(at))
    probabilities = output.prediction_logits.float().softmax(-1).cpu()  # (N, V)
    # An embedding may have more rows than the tokenizer has tokens; those stand for no word.
    best = probabilities[:, : checkpoint.tokenizer.get_vocab_size()].topk(
        min(top_k, checkpoint.tokenizer.get_vocab_size())
    )
    return [
        [(checkpoint.tokenizer.id_to_token(i), p) for i, p in zip(ids, values)]
        for ids, values in zip(best.indices.tolist(), best.values.tolist())
    ]


def next_sentence(checkpoint: Checkpoint, sentence_a: str, sentence_b: str) -> float:
    """The probability that the second sentence follows the first, P(IsNext).

    Raises InputError when a sentence is empty, the pair too long, or the model has no next-sentence head.
    """
    require(checkpoint, "nsp", "judge sentence pairs")
    for place, sentence in (("first", sentence_a), ("second", sentence_b)):
        if not sentence.strip():
            raise InputError(f"The {place} sentence is empty; next sentence prediction needs two.")
    output = forward(checkpoint, encode_text(checkpoint, sentence_a, sentence_b), asked_positions=NO_WORDS)
    return output.seq_relationship_logits.float().softmax(-1)[0, 0].item()


def attention(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> AttentionMaps:
    """Every head's attention weights for one or two sentences. Raises InputError for an empty or too long input."""
    encoding = encode_text(checkpoint, text, text_pair)
    output = forward(checkpoint, encoding, asked_positions=NO_WORDS, output_attentions=True)
    weights = torch.stack([layer[0] for layer in output.attentions]).float().cpu()
    return AttentionMaps(encoding.tokens, encoding.type_ids, weights)


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


def words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text, spelled as typed, as the tokenizer tells them apart; what it drops is in none of them."""
    return [word.text for word in read_words(checkpoint, text)]


def _readings(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text as the tokenizer reads them."""
    return [_reading(checkpoint, word) for word in words(checkpoint, text)]


def _reading(checkpoint: Checkpoint, word: str) -> str:
    """A word as the tokenizer reads it, in small letters if it ignores capitals; unknown words stay themselves."""
    return checkpoint.tokenizer.normalizer.normalize_str(word).strip()


def unknown_words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text that the vocabulary lacks, each once, in reading order; the model reads them as [UNK]."""
    encoding = tokenize(checkpoint, text, None, add_special_tokens=False)
    spelled = (text[s:e] for token, (s, e) in zip(encoding.tokens, encoding.offsets) if token == UNK)
    return list(dict.fromkeys(spelled))


def exam(checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0) -> Exam:
    """Mask every word of every adjacent pair in turn, and judge every ordered pair of sentences.

    A word is right when the likeliest guess is the word. A pair is IsNext when its second sentence's text follows
    its first's somewhere in the text; a sentence with itself is NotNext. Over 200 sentences, a window of 200 chosen
    by the seed is examined. Pairs that are longer than the model reads are left out. Raises InputError when the model
    lacks a head.
    """
    require(checkpoint, "mlm", "guess masked words")
    require(checkpoint, "nsp", "judge sentence pairs")
    encoded = encode_corpus(corpus, checkpoint.tokenizer)
    S, has_next = len(encoded), encoded.has_next
    first = int(np.random.default_rng(seed).integers(max(1, S - EXAM_SENTENCES + 1)))
    last = min(S, first + EXAM_SENTENCES)
    sentences = [encoded.ids[encoded.offsets[s] : encoded.offsets[s + 1]].tolist() for s in range(first, last)]
    adjacent = [s for s in range(len(sentences) - 1) if has_next[first + s]]
    true_pairs = {(tuple(sentences[s]), tuple(sentences[s + 1])) for s in adjacent}
    ids = checkpoint.tokenizer.token_to_id
    cls, sep, mask = ids(CLS), ids(SEP), ids(MASK)

    def row(a: Sequence[int], b: Sequence[int]) -> tuple[list[int], list[int]]:
        return [cls, *a, sep, *b, sep], [0] * (len(a) + 2) + [1] * (len(b) + 1)

    limit = checkpoint.config.max_position_embeddings
    masked, asked = [], []
    for s in adjacent:
        whole, segments = row(sentences[s], sentences[s + 1])
        for i, token in enumerate(whole):
            if token not in (cls, sep) and len(whole) <= limit:
                masked.append(([*whole[:i], mask, *whole[i + 1 :]], segments))
                asked.append((i, token))
    pairs = [(tuple(a), tuple(b)) for a in sentences for b in sentences if len(a) + len(b) + 3 <= limit]
    right_words = right_pairs = 0
    for part in batches(checkpoint, masked):
        places = [(row, asked[number][0]) for row, number in enumerate(part)]
        scores = forward_rows(checkpoint, [masked[number] for number in part], places).prediction_logits
        truth = (asked[number][1] for number in part)
        right_words += sum(guess == word for guess, word in zip(scores.argmax(-1).tolist(), truth))
    rows = [row(a, b) for a, b in pairs]
    for part in batches(checkpoint, rows):
        scores = forward_rows(checkpoint, [rows[number] for number in part], []).seq_relationship_logits
        says_next = (scores.argmax(-1) == IS_NEXT).tolist()
        right_pairs += sum(says == (pairs[number] in true_pairs) for says, number in zip(says_next, part))
    window = (first + 1, last) if S > EXAM_SENTENCES else None
    return Exam((right_words, len(masked)), (right_pairs, len(pairs)), window)
