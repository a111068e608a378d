"""Questions to a trained model: masked words, next sentence, attention, hidden states, the exam.

Shapes: B batch, T tokens, H heads, D hidden size, V vocabulary. Every function takes a checkpoint in eval mode,
draws no random number and leaves the model as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor

from bert_core.checkpoint import Checkpoint
from bert_core.corpus import Corpus
from bert_core.errors import InputError
from bert_core.model import BertOutput
from bert_core.pretraining_data import IS_NEXT, encode_corpus
from bert_core.tokenization import CLS, MASK, SEP, UNK

EXAM_SENTENCES = 200  # a longer text is examined in a window of this many sentences
MAX_CHARACTERS = 20_000  # a probe answers while a person waits
_ROWS = 256  # rows of one forward pass of the exam


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
    _require(checkpoint, "mlm", "guess masked words")
    if not top_k >= 1:
        raise InputError(f"top_k is {top_k}; ask for at least 1 guess.")
    encoding = _encode(checkpoint, text, text_pair)
    at = [i for i, token in enumerate(encoding.tokens) if token == MASK]
    if not at:
        raise InputError(f"There is no {MASK} in the text; put one where a word is to be guessed.")
    output = _forward(checkpoint, encoding, asked_positions=torch.tensor(at))
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
    _require(checkpoint, "nsp", "judge sentence pairs")
    for place, sentence in (("first", sentence_a), ("second", sentence_b)):
        if not sentence.strip():
            raise InputError(f"The {place} sentence is empty; next sentence prediction needs two.")
    output = _forward(checkpoint, _encode(checkpoint, sentence_a, sentence_b))
    return output.seq_relationship_logits.float().softmax(-1)[0, 0].item()


def attention(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> AttentionMaps:
    """Every head's attention weights for one or two sentences. Raises InputError for an empty or too long input."""
    encoding = _encode(checkpoint, text, text_pair)
    output = _forward(checkpoint, encoding, output_attentions=True)
    weights = torch.stack([layer[0] for layer in output.attentions]).float().cpu()
    return AttentionMaps(encoding.tokens, encoding.type_ids, weights)


def encode(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> HiddenStates:
    """Every layer's hidden states for one or two sentences. Raises InputError when the input is empty or too long."""
    encoding = _encode(checkpoint, text, text_pair)
    output = _forward(checkpoint, encoding, output_hidden_states=True)
    return HiddenStates(encoding.tokens, torch.stack([state[0] for state in output.hidden_states]).float().cpu())


def words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text, spelled as typed, as the tokenizer tells them apart; what it drops is in none of them."""
    encoding = _tokenize(checkpoint, text, None, add_special_tokens=False)
    spans: list[tuple[object, int, int]] = []
    for token, word, (start, end) in zip(encoding.tokens, encoding.word_ids, encoding.offsets):
        # A special token that was typed, such as [MASK], is a word of its own.
        number = word if token not in (CLS, SEP, MASK) else (token, start)
        if spans and number is not None and spans[-1][0] == number:
            spans[-1] = (number, spans[-1][1], end)
        else:
            spans.append((number, start, end))
    return [text[start:end] for _, start, end in spans]


def unknown_words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text that the vocabulary lacks, each once, in reading order; the model reads them as [UNK]."""
    encoding = _tokenize(checkpoint, text, None, add_special_tokens=False)
    spelled = (text[s:e] for token, (s, e) in zip(encoding.tokens, encoding.offsets) if token == UNK)
    return list(dict.fromkeys(spelled))


def exam(checkpoint: Checkpoint, corpus: Corpus, *, seed: int = 0) -> Exam:
    """Mask every word of every adjacent pair in turn, and judge every ordered pair of sentences.

    A word is right when the likeliest guess is the word. A pair is IsNext when its second sentence's text follows
    its first's somewhere in the text; a sentence with itself is NotNext. Over 200 sentences, a window of 200 chosen
    by the seed is examined. Raises InputError when a pair is longer than the model reads.
    """
    _require(checkpoint, "mlm", "guess masked words")
    _require(checkpoint, "nsp", "judge sentence pairs")
    encoded = encode_corpus(corpus, checkpoint.tokenizer)
    S = len(encoded.lengths)
    first = int(np.random.default_rng(seed).integers(max(1, S - EXAM_SENTENCES + 1)))
    last = min(S, first + EXAM_SENTENCES)
    sentences = [encoded.ids[encoded.offsets[s] : encoded.offsets[s + 1]].tolist() for s in range(first, last)]
    adjacent = [s for s in range(len(sentences) - 1) if encoded.has_next[first + s]]
    true_pairs = {(tuple(sentences[s]), tuple(sentences[s + 1])) for s in adjacent}
    ids = checkpoint.tokenizer.token_to_id
    cls, sep, mask = ids(CLS), ids(SEP), ids(MASK)

    def row(a: Sequence[int], b: Sequence[int]) -> tuple[list[int], list[int]]:
        return [cls, *a, sep, *b, sep], [0] * (len(a) + 2) + [1] * (len(b) + 1)

    limit = checkpoint.config.max_position_embeddings
    masked, places, truth = [], [], []
    for s in adjacent:
        whole, segments = row(sentences[s], sentences[s + 1])
        for i, token in enumerate(whole):
            if token not in (cls, sep) and len(whole) <= limit:
                masked.append(([*whole[:i], mask, *whole[i + 1 :]], segments))
                places.append(i)
                truth.append(token)
    pairs = [(tuple(a), tuple(b)) for a in sentences for b in sentences if len(a) + len(b) + 3 <= limit]
    right_words = right_pairs = 0
    for start in range(0, len(masked), _ROWS):
        part = slice(start, start + _ROWS)
        guesses = _forward_rows(checkpoint, masked[part], places[part]).prediction_logits.argmax(-1).tolist()
        right_words += sum(guess == word for guess, word in zip(guesses, truth[part]))
    for start in range(0, len(pairs), _ROWS):
        part = pairs[start : start + _ROWS]
        output = _forward_rows(checkpoint, [row(a, b) for a, b in part], [0] * len(part))
        says_next = (output.seq_relationship_logits.argmax(-1) == IS_NEXT).tolist()
        right_pairs += sum(says == (pair in true_pairs) for says, pair in zip(says_next, part))
    window = (first + 1, last) if S > EXAM_SENTENCES else None
    return Exam((right_words, len(masked)), (right_pairs, len(pairs)), window)


def _require(checkpoint: Checkpoint, part: str, purpose: str) -> None:
    if part in checkpoint.missing:
        raise InputError(f"This model came without the part that is needed to {purpose}; choose another model.")


def _tokenize(checkpoint: Checkpoint, text: str, text_pair: str | None, *, add_special_tokens: bool = True) -> Encoding:
    for part in (text, text_pair or ""):
        if len(part) > MAX_CHARACTERS:
            raise InputError(f"This text has {len(part):,} characters; the limit is {MAX_CHARACTERS:,}. Shorten it.")
        if any("\ud800" <= character <= "\udfff" for character in part):
            raise InputError("This text holds half of a character (a lone surrogate); type it again.")
    return checkpoint.tokenizer.encode(text, text_pair or None, add_special_tokens=add_special_tokens)


def _encode(checkpoint: Checkpoint, text: str, text_pair: str | None) -> Encoding:
    encoding = _tokenize(checkpoint, text, text_pair)
    limit = checkpoint.config.max_position_embeddings
    if len(encoding) > limit:
        raise InputError(f"This text has {len(encoding)} tokens; the model reads {limit}. Shorten it.")
    if len(encoding) <= encoding.special_tokens_mask.count(1) and MASK not in encoding.tokens:
        raise InputError("There is no word in this text; type a sentence.")
    return encoding


@torch.inference_mode()
def _forward(checkpoint: Checkpoint, encoding: Encoding, **wanted: object) -> BertOutput:
    """One input through the model, as a batch of one without padding."""
    device = next(checkpoint.model.parameters()).device
    wanted = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in wanted.items()}
    ids, segments = (torch.tensor([row], device=device) for row in (encoding.ids, encoding.type_ids))
    return checkpoint.model(ids, None, segments, **wanted)


@torch.inference_mode()
def _forward_rows(checkpoint: Checkpoint, rows: list[tuple[list[int], list[int]]], places: list[int]) -> BertOutput:
    """Rows of (ids, segments), padded to the longest; words are scored at one place of each row."""
    device = next(checkpoint.model.parameters()).device
    T = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), T), checkpoint.config.pad_token_id)
    segments, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for i, (row, segment) in enumerate(rows):
        ids[i, : len(row)], segments[i, : len(row)], mask[i, : len(row)] = map(
            torch.tensor, (row, segment, [1] * len(row))
        )
    asked = torch.arange(len(rows)) * T + torch.tensor(places)
    return checkpoint.model(ids.to(device), mask.to(device), segments.to(device), asked_positions=asked.to(device))
