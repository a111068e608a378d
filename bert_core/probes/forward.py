"""What all probes share: a text as the model reads it, its words, and forward passes over such rows.

Shapes: B batch, T tokens. No function here draws a random number or changes the model.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from tokenizers import Encoding
from torch import Tensor

from bert_core.costs import probe_operations, threads_for
from bert_core.data.tokenizer import CLS, MASK, SEP, UNK
from bert_core.errors import InputError
from bert_core.model import BertOutput
from bert_core.storage.checkpoint import Checkpoint

MAX_CHARACTERS = 20_000  # a probe answers while a person waits
NO_WORDS = torch.empty(0, dtype=torch.long)  # asked positions of a pass whose word scores nobody reads
_ROWS = 256  # rows of one forward pass
_NUMBERS = 2**24  # the largest tensor of one forward pass: 64 MiB in float32

Row = tuple[list[int], list[int]]  # token ids and segments


@dataclass(frozen=True)
class Word:
    """A word as the tokenizer tells it apart.

    text: spelled as typed. sentence: 0 or 1. start, end: its characters in that sentence. first, last: its tokens in
    the model's input, [first, last). pieces: those tokens. cuts: where each piece begins, as characters of `text`.
    """

    text: str
    sentence: int
    start: int
    end: int
    first: int
    last: int
    pieces: tuple[str, ...]
    cuts: tuple[int, ...]

    @property
    def is_known(self) -> bool:
        """Whether the vocabulary has the word; the model reads any other as [UNK]."""
        return UNK not in self.pieces

    @property
    def is_special(self) -> bool:
        """Whether a special token such as [MASK] was typed."""
        return self.pieces[0] in (CLS, SEP, MASK)


def read_words(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> list[Word]:
    """The words of one or two sentences in reading order; what the tokenizer drops is in none of them."""
    encoding = tokenize(checkpoint, text, text_pair)
    found: list[list[int]] = []
    before: object = None
    for i, (token, word, sentence) in enumerate(zip(encoding.tokens, encoding.word_ids, encoding.sequence_ids)):
        if sentence is None:  # [CLS] and [SEP] that the model wants around the sentences
            continue
        # A special token that was typed, such as [MASK], is a word of its own.
        number = (sentence, word) if token not in (CLS, SEP, MASK) else (sentence, token, i)
        if found and word is not None and before == number:
            found[-1].append(i)
        else:
            found.append([i])
        before = number
    return [_word(encoding, tokens, (text, text_pair or "")) for tokens in found]


def _word(encoding: Encoding, tokens: list[int], texts: tuple[str, str]) -> Word:
    sentence = encoding.sequence_ids[tokens[0]]
    start, end = encoding.offsets[tokens[0]][0], encoding.offsets[tokens[-1]][1]
    return Word(
        text=texts[sentence][start:end],
        sentence=sentence,
        start=start,
        end=end,
        first=tokens[0],
        last=tokens[-1] + 1,
        pieces=tuple(encoding.tokens[i] for i in tokens),
        cuts=tuple(encoding.offsets[i][0] - start for i in tokens),
    )


def require(checkpoint: Checkpoint, part: str, purpose: str) -> None:
    """Raise InputError when the model came without the part ("mlm" or "nsp") that is needed to `purpose`."""
    if part in checkpoint.missing:
        raise InputError(f"This model came without the part that is needed to {purpose}; choose another model.")


def tokenize(checkpoint: Checkpoint, text: str, text_pair: str | None, *, add_special_tokens: bool = True) -> Encoding:
    """A text as tokens, however many. Raises InputError for far too long a text or half a character."""
    for part in (text, text_pair or ""):
        if len(part) > MAX_CHARACTERS:
            raise InputError(f"This text has {len(part):,} characters; the limit is {MAX_CHARACTERS:,}. Shorten it.")
        if any("\ud800" <= character <= "\udfff" for character in part):
            raise InputError("This text holds half of a character (a lone surrogate); type it again.")
    return checkpoint.tokenizer.encode(text, text_pair or None, add_special_tokens=add_special_tokens)


def encode_text(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> Encoding:
    """A text as the model's input. Raises InputError when it is empty or longer than the model reads."""
    encoding = tokenize(checkpoint, text, text_pair)
    limit = checkpoint.config.max_position_embeddings
    if len(encoding) > limit:
        raise InputError(f"This text has {len(encoding)} tokens; the model reads {limit}. Shorten it.")
    if len(encoding) <= encoding.special_tokens_mask.count(1) and MASK not in encoding.tokens:
        raise InputError("There is no word in this text; type a sentence.")
    return encoding


@torch.inference_mode()
def forward(checkpoint: Checkpoint, encoding: Encoding, **wanted: object) -> BertOutput:
    """One input through the model, as a batch of one without padding; `wanted` are options of its `forward`."""
    device = checkpoint.model.device
    ids, segments = (torch.tensor([row], device=device) for row in (encoding.ids, encoding.type_ids))
    with few_threads(checkpoint, ids.numel()):
        return checkpoint.model(ids, None, segments, **wanted)


@contextmanager
def few_threads(checkpoint: Checkpoint, tokens: int) -> Iterator[None]:
    """As many processor threads as a forward pass over so many tokens is worth: the threads of a small one would wait
    for each other, and on a busy machine ten times as long as they work.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, threads_for(probe_operations(checkpoint.config, tokens))))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def batches(checkpoint: Checkpoint, rows: Sequence[Row]) -> Iterator[list[int]]:
    """The numbers of the rows in groups for one forward pass each, short rows first: little padding, bounded memory."""
    config = checkpoint.config
    group: list[int] = []
    for number in sorted(range(len(rows)), key=lambda number: len(rows[number][0])):
        T = len(rows[number][0])
        widest = max(config.intermediate_size, 3 * config.hidden_size, config.num_attention_heads * T)
        numbers = max(T * widest, config.vocab_size)  # a row's largest tensor, or its word scores
        if group and (len(group) == _ROWS or (len(group) + 1) * numbers > _NUMBERS):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


@torch.inference_mode()
def forward_rows(checkpoint: Checkpoint, rows: Sequence[Row], places: Sequence[tuple[int, int]]) -> BertOutput:
    """Rows padded to the longest, in one pass; words are scored at `places`, (number of the row, token) each."""
    ids, mask, segments = padded(checkpoint, rows)
    asked = torch.tensor([row * ids.shape[1] + token for row, token in places], dtype=torch.long)
    with few_threads(checkpoint, ids.numel()):
        return checkpoint.model(ids, mask, segments, asked_positions=asked)


def padded(checkpoint: Checkpoint, rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows as ids, mask and segments, each (B, T) on the model's device; T is the longest row's."""
    T = max(len(ids) for ids, _ in rows)
    pad = checkpoint.config.pad_token_id
    ids = torch.tensor([row + [pad] * (T - len(row)) for row, _ in rows])
    segments = torch.tensor([segments + [0] * (T - len(segments)) for _, segments in rows])
    lengths = torch.tensor([len(row) for row, _ in rows])
    mask = (torch.arange(T) < lengths[:, None]).long()
    device = checkpoint.model.device
    return ids.to(device), mask.to(device), segments.to(device)


def words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text, spelled as typed, as the tokenizer tells them apart; what it drops is in none of them."""
    return [word.text for word in read_words(checkpoint, text)]


def unknown_words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text that the vocabulary lacks, each once, in reading order; the model reads them as [UNK]."""
    encoding = tokenize(checkpoint, text, None, add_special_tokens=False)
    spelled = (text[s:e] for token, (s, e) in zip(encoding.tokens, encoding.offsets) if token == UNK)
    return list(dict.fromkeys(spelled))
