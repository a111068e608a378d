"""Reads an untrusted tokenizer.json or vocab.txt: the tokenizer is built anew of its vocabulary, merges and flags,
because the library can abort the process on a malicious tokenizer.json."""

import contextlib
import io
import itertools
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, FailFast, Field
from tokenizers import Tokenizer

from bert_core.config import LOCAL, Limits
from bert_core.data.tokenizer import FORMS, PREFIX, SPECIAL_TOKENS, Scheme, build_tokenizer
from bert_core.errors import CheckpointError, first_three, quoted
from bert_core.storage.untrusted import Json, parse_fields, parse_json

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
VOCABULARY = "vocab.txt"
ADDED_TOKENS = "added_tokens.json"
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, ADDED_TOKENS)

# The classes of `transformers` that split words as a vocab.txt alone describes it; None: not named.
_BERT_CLASSES = (None, "BertTokenizer", "BertTokenizerFast", "BertTokenizerLegacy")


class _Model(BaseModel):
    type: Literal["WordLevel", "WordPiece", "BPE"]
    vocab: dict[str, Any]
    merges: Annotated[list[Annotated[list[str], Field(min_length=2, max_length=2)]], FailFast()] = []
    unk_token: Literal["[UNK]"]
    continuing_subword_prefix: Literal["##"] = "##"
    max_input_chars_per_word: Literal[100] = 100


class _AddedToken(BaseModel):
    content: str


class _TokenizerJson(BaseModel):
    model: _Model
    normalizer: Json
    pre_tokenizer: Json
    added_tokens: Annotated[list[_AddedToken], FailFast()] = []


class _Flags(BaseModel):
    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True


def read_tokenizer(files: Mapping[str, bytes], tokenizer_class: object = None, limits: Limits = LOCAL) -> Tokenizer:
    """Build a tokenizer from the contents of TOKENIZER_FILES, of which tokenizer.json or vocab.txt is needed. Raises
    CheckpointError with what cannot be used.

    tokenizer_class: if tokenizer_config.json has none. As in `transformers`, if it is BertTokenizer or missing, a
    WordPiece vocabulary is read with the flags there; otherwise tokenizer.json says how a text is divided."""
    settings = parse_json(files.get(TOKENIZER_CONFIG, b"{}"), TOKENIZER_CONFIG)
    flags = parse_fields(_Flags, settings, TOKENIZER_CONFIG)
    bert = Scheme("WordPiece", "bert", flags.do_lower_case, flags.strip_accents, flags.tokenize_chinese_chars)
    is_berts = settings.get("tokenizer_class", tokenizer_class) in _BERT_CLASSES
    added = [*parse_json(files.get(ADDED_TOKENS, b"{}"), ADDED_TOKENS)]
    if TOKENIZER in files:
        written = parse_fields(_TokenizerJson, parse_json(files[TOKENIZER], TOKENIZER), TOKENIZER)
        vocabulary, merges = written.model.vocab, written.model.merges
        scheme = bert if is_berts and written.model.type == "WordPiece" else _scheme(written)
        added += [token.content for token in written.added_tokens]
    elif VOCABULARY in files and is_berts:
        vocabulary, merges, scheme = _read_lines(files[VOCABULARY], limits.tokens), [], bert
    else:
        raise CheckpointError(f"The folder has neither {TOKENIZER} nor the {VOCABULARY} of a BertTokenizer; add one.")
    if len(vocabulary) > limits.tokens:
        count, most = f"{len(vocabulary):,}", f"{limits.tokens:,}"
        raise CheckpointError(f"{count} tokens are more than the limit of {most}; choose a smaller vocabulary.")
    if {*map(type, vocabulary.values())} != {int}:
        raise CheckpointError(f"{TOKENIZER} must give each token of its vocabulary a whole number.")
    if foreign := [quoted(token) for token in added if token not in SPECIAL_TOKENS]:  # sought before a text is divided
        raise CheckpointError(
            f"The tokenizer has tokens beside those of BERT's vocabulary ({first_three(foreign)}), which this program "
            "does not support; choose a model without them."
        )
    for first, second in merges:  # the library removes the second piece's prefix without a check
        inside = second.removeprefix(PREFIX)
        if inside in ("", second) or not {first, second, first + inside} <= vocabulary.keys():
            raise CheckpointError(f"its merge of {quoted(first)} and {quoted(second)} does not fit its vocabulary.")
    return build_tokenizer(vocabulary, scheme, merges)


def _read_lines(data: bytes, most: int) -> dict[str, int]:
    """The tokens of a vocab.txt, numbered by line. Of one on several lines the last counts, as in `transformers`; the
    others keep their ids under names that no word of a text has."""
    lines = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig")
    try:
        tokens = [line.removesuffix("\n") for line in itertools.islice(lines, most + 1)]
    except UnicodeDecodeError:
        raise CheckpointError(f"{VOCABULARY} is not UTF-8 text; export the tokenizer again.") from None
    last = {token: i for i, token in enumerate(tokens)}
    return {token if last[token] == i else f"{token} (line {i + 1})": i for i, token in enumerate(tokens)}


def _scheme(written: _TokenizerJson) -> Scheme:
    """The scheme of which an empty tokenizer is written with the same normalizer and pre-tokenizer."""
    with contextlib.suppress(KeyError, TypeError, ValueError):  # another normalizer has other fields
        steps = written.normalizer.get("normalizers", [written.normalizer])
        [bert] = [step for step in steps if step["type"] == "BertNormalizer"]
        for form in FORMS:
            flags = bert["lowercase"], bert["strip_accents"], bert["handle_chinese_chars"]
            scheme = Scheme(written.model.type, form, *flags)
            empty = build_tokenizer({token: i for i, token in enumerate(SPECIAL_TOKENS)}, scheme)
            own = json.loads(empty.to_str())
            if (own["normalizer"], own["pre_tokenizer"]) == (written.normalizer, written.pre_tokenizer):
                return scheme
    raise CheckpointError(
        f"{TOKENIZER} divides texts neither as BERT nor as this project does. If an earlier version of this project "
        "wrote it, train the model again."
    )
