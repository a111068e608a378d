"""A text as the model reads it: its tokens, its words, and its row in the input of a forward pass."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Encoding, Tokenizer

from bert_core.data.tokenizer import CLS, MASK, SEP, UNK, end_of_marks, special_ids
from bert_core.errors import InputError
from bert_core.storage.checkpoint import Checkpoint

MAX_CHARACTERS = 20_000  # keeps the wait for an answer short

Row = tuple[list[int], list[int]]  # token ids and segments


@dataclass(frozen=True)
class Word:
    """A word as the tokenizer separates it."""

    text: str  # spelled as typed
    sentence: int  # 0 or 1
    start: int  # its characters in that sentence, [start, end)
    end: int
    first: int  # its tokens in the model's input, [first, last)
    last: int
    pieces: tuple[str, ...]  # those tokens
    cuts: tuple[int, ...]  # the first character of each in `text`

    @property
    def is_known(self) -> bool:
        """Whether the vocabulary has the word; the model reads any other as [UNK]."""
        return UNK not in self.pieces

    @property
    def is_special(self) -> bool:
        """Whether the word is a special token that was typed, such as [MASK]."""
        return self.pieces[0] in (CLS, SEP, MASK)


def tokenize(
    checkpoint: Checkpoint, text: str, text_pair: str | None = None, *, add_special_tokens: bool = True
) -> Encoding:
    """The tokens of a text, of any number. Raises InputError above 20,000 characters and for a lone surrogate."""
    for part in (text, text_pair or ""):
        if len(part) > MAX_CHARACTERS:
            raise InputError(f"This text has {len(part):,} characters; the limit is {MAX_CHARACTERS:,}. Shorten it.")
        if any("\ud800" <= character <= "\udfff" for character in part):
            raise InputError("This text contains half of a character (a lone surrogate); type it again.")
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


def read_words(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> list[Word]:
    """The words of one or two sentences in reading order, without characters that the tokenizer drops."""
    encoding = tokenize(checkpoint, text, text_pair)
    tokens, offsets = encoding.tokens, encoding.offsets  # each is built anew whenever it is read
    keys, words = list(zip(encoding.sequence_ids, encoding.word_ids)), []  # equal for the tokens of a word
    for (sentence, _), group in itertools.groupby(range(len(keys)), keys.__getitem__):
        if sentence is None:  # [CLS] and [SEP] around the sentences
            continue
        first, *more = group
        last, source = first + len(more) + 1, (text, text_pair or "")[sentence]
        start, end = offsets[first][0], end_of_marks(source, offsets[last - 1][1])
        cuts = tuple(cut - start for cut, _ in offsets[first:last])
        words.append(Word(source[start:end], sentence, start, end, first, last, tuple(tokens[first:last]), cuts))
    return words


def unknown_words(checkpoint: Checkpoint, text: str) -> list[str]:
    """The words of a text that the vocabulary lacks, each once, in reading order; the model reads them as [UNK]."""
    return list(dict.fromkeys(word.text for word in read_words(checkpoint, text) if not word.is_known))


def row_of(encoding: Encoding) -> Row:
    return encoding.ids, encoding.type_ids


def pair_row(checkpoint: Checkpoint, a: Sequence[int], b: Sequence[int]) -> Row:
    """The row [CLS] a [SEP] b [SEP] of two sentences of token ids, of any length."""
    ids = special_ids(checkpoint.tokenizer)
    return [ids[CLS], *a, ids[SEP], *b, ids[SEP]], [0] * (len(a) + 2) + [1] * (len(b) + 1)


def masked_row(checkpoint: Checkpoint, row: Row, first: int, last: int) -> Row:
    """The row with a [MASK] for each of the tokens [first, last)."""
    ids, segments = row
    return [*ids[:first], *[special_ids(checkpoint.tokenizer)[MASK]] * (last - first), *ids[last:]], segments


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """The token with this id, which the vocabulary must have."""
    text = tokenizer.id_to_token(token)
    assert text is not None, token
    return text
