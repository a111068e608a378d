"""Reads an untrusted tokenizer.json or vocab.txt."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tokenizers import Tokenizer

from bert_core.config import LOCAL, Limits
from bert_core.data.sentences import MAX_WORD_CHARACTERS
from bert_core.data.tokenizer import (
    CLS,
    FORMS,
    NAMED_TOKENS,
    PREFIX,
    SEP,
    SPECIAL_TOKENS,
    UNK,
    Scheme,
    build_tokenizer,
)
from bert_core.errors import CheckpointError, first_three, ignore, quoted
from bert_core.storage.untrusted import Json, parse_json, part

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
VOCABULARY = "vocab.txt"
ADDED_TOKENS = "added_tokens.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
TOKENIZER_FILES = (TOKENIZER, TOKENIZER_CONFIG, VOCABULARY, ADDED_TOKENS, SPECIAL_TOKENS_MAP)

Note = Callable[[str], None]  # called with a sentence

# The classes of `transformers` that split words as a vocab.txt alone describes it; None: not named.
_BERT_CLASSES = (None, "BertTokenizer", "BertTokenizerFast", "BertTokenizerLegacy")
# The flags of a scheme, as tokenizer_config.json and a BertNormalizer in tokenizer.json call them.
_FLAGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
_NORMALIZER_FLAGS = ("lowercase", "strip_accents", "handle_chinese_chars")
# What a model of each kind must say.
_WORD_PIECE = {"unk_token": UNK, "max_input_chars_per_word": MAX_WORD_CHARACTERS, "continuing_subword_prefix": PREFIX}
_NOT_IN_A_BPE = ("dropout", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges")
_FIXED_SETTINGS: dict[object, dict[str, object]] = {
    "WordLevel": {"unk_token": UNK},
    "WordPiece": {**_WORD_PIECE},
    "BPE": {"unk_token": UNK, "continuing_subword_prefix": PREFIX, **dict.fromkeys(_NOT_IN_A_BPE)},
}
_ADDED = ("added_tokens", "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
_FEW_LOST = 0.01  # of a vocabulary


def bert_flags(tokenizer: Tokenizer) -> dict[str, bool | None]:
    """The settings of a BertTokenizer in tokenizer_config.json, as this tokenizer has them."""
    scheme = _read_scheme(json.loads(tokenizer.to_str()), "WordLevel")
    return dict(zip(_FLAGS, (scheme.lowercase, scheme.strip_accents, scheme.handle_chinese_chars)))


def read_tokenizer(
    files: Mapping[str, bytes], tokenizer_class: object = None, limits: Limits = LOCAL, note: Note = ignore
) -> Tokenizer:
    """Build a tokenizer of at most `limits.tokens` tokens from the contents of untrusted files, by name: tokenizer.json
    or vocab.txt, and the others of TOKENIZER_FILES that there are.

    tokenizer_class: if tokenizer_config.json has none. As in `transformers`, if it is BertTokenizer or missing, a
    WordPiece vocabulary gets BERT's normalizer with the flags do_lower_case, strip_accents and tokenize_chinese_chars
    of tokenizer_config.json; otherwise tokenizer.json describes the normalizer. note: called with what is read in
    another way than it is written. Raises CheckpointError with the file's name and what cannot be used.
    """
    others = (TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS)
    read = {name: parse_json(files.get(name, b"{}"), name) for name in others}
    read[ADDED_TOKENS] = {"added_tokens": [*read[ADDED_TOKENS]]}
    for name, content in read.items():
        _check_special_tokens(content, name)
    settings = {"tokenizer_class": tokenizer_class, **read[TOKENIZER_CONFIG]}
    name = TOKENIZER if TOKENIZER in files else VOCABULARY
    if name not in files:
        raise CheckpointError(f"The folder has neither {TOKENIZER} nor {VOCABULARY}; add one of them.")
    try:
        if name == TOKENIZER:
            tokenizer = _of_tokenizer_json(read[TOKENIZER], settings, limits.tokens, note)
        else:
            tokenizer = _of_vocab_txt(files[VOCABULARY], settings, limits.tokens, note)
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from None
    _note_lost_tokens(tokenizer, note)
    return tokenizer


def _check_special_tokens(settings: Json, name: str) -> None:
    """Raise CheckpointError for tokens other than BERT's five in the settings of a tokenizer: other programs match
    added ones before they split a text into words. name: of the file with the settings."""
    for field, value in settings.items():
        is_token = field in NAMED_TOKENS or (field.endswith("_token") and isinstance(value, str | dict))
        if not value or not (is_token or field in _ADDED):
            continue
        allowed = [NAMED_TOKENS[field]] if field in NAMED_TOKENS else SPECIAL_TOKENS
        values = [*value.values()] if isinstance(value, dict) and not is_token else value
        tokens = values if isinstance(values, list) else [values]
        texts = [token.get("content") if isinstance(token, dict) else token for token in tokens]  # some have flags
        if foreign := [quoted(text) for text in texts if text not in allowed]:
            raise CheckpointError(
                f"{name}: its {field} is {first_three(foreign)}; it can be only {', '.join(allowed)}. Choose a model "
                "whose vocabulary has all of its tokens."
            )


def _of_vocab_txt(data: bytes, settings: Json, most: int, note: Note) -> Tokenizer:
    """A token has the number of its line; of a token on several lines the last counts, as in `transformers`. The others
    keep their ids under names that no word of a text has."""
    if settings.get("tokenizer_class") not in _BERT_CLASSES:
        raise CheckpointError(
            f"its words are those of a {quoted(settings['tokenizer_class'])}, and a vocab.txt can be read only as that "
            "of a BertTokenizer; choose a model with a tokenizer.json or a BertTokenizer."
        )
    _check_count(data.count(b"\n", 0, -1) + 1, most)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"this is not UTF-8 text (byte {error.start}); export the tokenizer again.") from None
    tokens = re.sub("\r\n?", "\n", text).removesuffix("\n").split("\n")
    last = {token: i for i, token in enumerate(tokens)}
    if earlier := [f"{i + 1} ({quoted(token)})" for i, token in enumerate(tokens) if last[token] != i]:
        note(
            f"vocab.txt repeats tokens; their last lines count, and no text has the id of line {first_three(earlier)}."
        )
    first, inside = (sum(token.startswith(mark) for token in tokens) for mark in ("\u2581", PREFIX))
    if first > inside:
        raise CheckpointError(f"its words begin with \u2581, as SentencePiece writes them, not with {PREFIX} inside.")
    vocabulary = {token if last[token] == i else f"{token} (line {i + 1})": i for i, token in enumerate(tokens)}
    return build_tokenizer(vocabulary, _scheme_of_settings(settings))


def _of_tokenizer_json(content: Json, settings: Json, most: int, note: Note) -> Tokenizer:
    model = _mapping(content, "model")
    vocabulary, kind = _mapping(model, "vocab"), model.get("type")
    _check_count(len(vocabulary), most)
    if {*map(type, vocabulary.values())} != {int}:
        raise CheckpointError("its vocabulary must map tokens to whole numbers.")
    if kind not in ("WordLevel", "WordPiece", "BPE"):
        raise CheckpointError(f"its model is {quoted(str(kind))}; WordLevel, WordPiece and BPE can be opened.")
    for field, allowed in _FIXED_SETTINGS[kind].items():
        default = allowed if kind == "WordPiece" else None  # what the library takes for a field that is not there
        if (given := model.get(field, default) or None) != allowed:
            raise CheckpointError(f"its {field} is {quoted(given)}; it must be {quoted(allowed)}.")
    # Merges are pairs or, in older files, strings such as "a ##b".
    merges = part(model, "merges", list, [None]) if kind == "BPE" else []
    merges = [merge.split(" ") if type(merge) is str else merge for merge in merges]
    if not all(type(merge) is list and [*map(type, merge)] == [str, str] for merge in merges):
        raise CheckpointError("its merges must be pairs of pieces.")
    if kind == "WordPiece" and settings.get("tokenizer_class") in _BERT_CLASSES:
        scheme = _scheme_of_settings(settings)
        if (content.get("normalizer"), content.get("pre_tokenizer")) != _written(scheme):
            note(
                "tokenizer.json divides texts in a way of its own. As in transformers, BERT's is used, because "
                "tokenizer_config.json names BertTokenizer or no class."
            )
    else:
        scheme = _read_scheme(content, kind)
        if not all(token in str(content.get("post_processor")) for token in (CLS, SEP)):
            note("tokenizer.json does not put [CLS] and [SEP] around texts as BERT does; here they are.")
    return build_tokenizer(vocabulary, scheme, merges)


def _check_count(tokens: int, most: int) -> None:
    if tokens > most:
        raise CheckpointError(f"{tokens:,} tokens are more than the limit of {most:,}; choose a smaller vocabulary.")


def _scheme_of_settings(settings: Json) -> Scheme:
    """The scheme of a BertTokenizer with the flags in tokenizer_config.json."""
    return _with_flags(Scheme("WordPiece", "bert"), {"do_lower_case": True, **settings}, _FLAGS)


def _read_scheme(content: Json, kind: str) -> Scheme:
    """The scheme that has the normalizer and the pre-tokenizer of a tokenizer.json: BERT's, or one of this project."""
    normalizer, pre_tokenizer = _mapping(content, "normalizer"), _mapping(content, "pre_tokenizer")
    for step in part(normalizer, "normalizers", list, [normalizer]):
        if isinstance(step, dict) and step.get("type") == "BertNormalizer":
            schemes = [_with_flags(Scheme(kind, form), step, _NORMALIZER_FLAGS) for form in FORMS]
            if found := [scheme for scheme in schemes if _written(scheme) == (normalizer, pre_tokenizer)]:
                return found[0]
    raise CheckpointError(
        "its normalizer or pre-tokenizer is neither BERT's nor one of this project's. If it is of an earlier "
        "version of this project, train the model again."
    )


def _with_flags(scheme: Scheme, settings: Json, names: Sequence[str]) -> Scheme:
    match [settings.get(name) for name in names]:
        case [bool(lower), bool() | None as accents, bool() | None as chinese]:
            return replace(scheme, lowercase=lower, strip_accents=accents, handle_chinese_chars=chinese is not False)
    raise CheckpointError(f"{', '.join(names)} must be true or false.")


def _written(scheme: Scheme) -> tuple[Json, Json]:
    """The normalizer and the pre-tokenizer of a scheme in a tokenizer.json."""
    content = json.loads(build_tokenizer({token: i for i, token in enumerate(SPECIAL_TOKENS)}, scheme).to_str())
    return content["normalizer"], content["pre_tokenizer"]


def _note_lost_tokens(tokenizer: Tokenizer, note: Note) -> None:
    """Say how many tokens no text has, because the normalizer changes them, where these are not few."""
    normalize, vocabulary = tokenizer.normalizer.normalize_str, tokenizer.get_vocab()
    tokens = sorted(vocabulary.keys() - {*SPECIAL_TOKENS})
    words = ((token, token.removeprefix(PREFIX).replace(" ", "")) for token in tokens)
    lost = [token for token, word in words if re.search(r"\w", word) and normalize(word).replace(" ", "") != word]
    if len(lost) > _FEW_LOST * len(vocabulary):
        note(
            f"No text has {len(lost):,} of the {len(vocabulary):,} tokens, such as {quoted(lost[0])}, because capitals "
            "or accents are taken from texts; do_lower_case and strip_accents in tokenizer_config.json keep them."
        )


def _mapping(content: Json, key: str) -> Json:
    value = part(content, key, dict, {})
    if not value:
        raise CheckpointError(f"its part {key!r} is missing or is not an object.")
    return value
