"""Writes tokenizer.json, and reads an untrusted tokenizer.json or vocab.txt."""

import contextlib
import json
import re
from collections.abc import Callable
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

Note = Callable[[str], None]  # called with a sentence

# The classes of `transformers` that split words as a vocab.txt alone describes it; None: not named.
_VOCAB_TXT_CLASSES = (None, "BertTokenizer", "BertTokenizerFast", "BertTokenizerLegacy")
_FLAGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
_FEW_LOST = 0.01  # of a vocabulary


def bert_flags(tokenizer: Tokenizer) -> dict[str, bool | None]:
    """The settings of a BertTokenizer in tokenizer_config.json, as this tokenizer has them."""
    scheme = _read_scheme(json.loads(tokenizer.to_str()), "WordLevel")
    return dict(zip(_FLAGS, (scheme.lowercase, scheme.strip_accents, scheme.handle_chinese_chars)))


def read_tokenizer(
    data: bytes, name: str, settings: Json | None = None, limits: Limits = LOCAL, note: Note = ignore
) -> Tokenizer:
    """Build a tokenizer of at most `limits.tokens` tokens from the content of an untrusted tokenizer.json or vocab.txt.

    name: of the file. settings: the content of tokenizer_config.json, if there is one. As in `transformers`, if its
    tokenizer_class is BertTokenizer or missing, a WordPiece vocabulary gets BERT's normalizer with the flags
    do_lower_case, strip_accents and tokenize_chinese_chars of `settings`; otherwise tokenizer.json describes the
    normalizer. note: called with what is read in another way than it is written. Raises CheckpointError with the file's
    name and what cannot be used.
    """
    settings = settings or {}
    check_special_tokens(settings, "tokenizer_config.json")
    is_vocab_txt = name.endswith(".txt")
    content = {} if is_vocab_txt else parse_json(data, name)
    merges: list[list[str]] = []
    try:
        is_bert_tokenizer = settings.get("tokenizer_class") in _VOCAB_TXT_CLASSES
        if is_vocab_txt and not is_bert_tokenizer:
            raise CheckpointError(
                f"its words are those of a {quoted(settings['tokenizer_class'])}, and a vocab.txt can be read only as "
                "that of a BertTokenizer; choose a model with a tokenizer.json or a BertTokenizer."
            )
        if is_vocab_txt:
            vocabulary, kind = _read_vocab_txt(data, limits.tokens, note), "WordPiece"
        else:
            vocabulary, kind = _read_tokenizer_json(content, limits.tokens)
            merges = _read_merges(content["model"]) if kind == "BPE" else []
            _refuse_added_tokens(content.get("added_tokens"))
        from_settings = kind == "WordPiece" and is_bert_tokenizer
        scheme = _scheme_of_settings(settings) if from_settings else _read_scheme(content, kind)
        tokenizer = build_tokenizer(vocabulary, scheme, merges)
        if from_settings and not is_vocab_txt and not _has_scheme(content, scheme):
            note(
                f"{name} divides texts in a way of its own. As in transformers, BERT's is used, because "
                "tokenizer_config.json names BertTokenizer or no class."
            )
        if not from_settings and not _is_bert_frame(part(content, "post_processor", dict, {}), tokenizer):
            note(f"{name} does not put [CLS] and [SEP] around texts as BERT does; here they are.")
        _note_lost_tokens(tokenizer, note)
        return tokenizer
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from None


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


def _check_count(tokens: int, most: int) -> None:
    if tokens > most:
        raise CheckpointError(f"{tokens:,} tokens are more than the limit of {most:,}; choose a smaller vocabulary.")


def _read_vocab_txt(data: bytes, most: int, note: Note) -> dict[str, int]:
    """A token has the number of its line; of a token on several lines the last counts, as in `transformers`. The others
    keep their ids under names that no word of a text has."""
    _check_count(data.count(b"\n", 0, -1) + 1, most)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"this is not UTF-8 text (byte {error.start}); export the tokenizer again.") from None
    tokens = re.sub("\r\n?", "\n", text).removesuffix("\n").split("\n")
    last = {token: i for i, token in enumerate(tokens)}
    vocabulary = {token if last[token] == i else f"{token} (line {i + 1})": i for i, token in enumerate(tokens)}
    if earlier := [f"{i + 1} ({quoted(token)})" for i, token in enumerate(tokens) if last[token] != i]:
        note(
            f"vocab.txt repeats tokens; their last lines count, and no text has the id of line {first_three(earlier)}."
        )
    first, inside = (sum(token.startswith(mark) for token in tokens) for mark in ("\u2581", PREFIX))
    if first > inside:
        raise CheckpointError(f"its words begin with \u2581, as SentencePiece writes them, not with {PREFIX} inside.")
    return vocabulary


def _read_tokenizer_json(content: Json, most: int) -> tuple[dict[str, int], str]:
    """The vocabulary and the kind of model ("WordLevel", "WordPiece" or "BPE"). Refuses unsupported settings."""
    model = _mapping(content, "model")
    vocabulary = _mapping(model, "vocab")
    _check_count(len(vocabulary), most)
    if {*map(type, vocabulary.values())} != {int}:
        raise CheckpointError("its vocabulary must map tokens to whole numbers.")
    kind = model.get("type")
    if kind not in ("WordLevel", "WordPiece", "BPE"):
        raise CheckpointError(f"its model is {quoted(str(kind))}; WordLevel, WordPiece and BPE can be opened.")
    for field, (allowed, kinds) in _FIXED_SETTINGS.items():
        default = _DEFAULTS.get(field) if kind == "WordPiece" else None
        if kind in kinds and (given := model.get(field, default) or None) != allowed:
            raise CheckpointError(f"its {field} is {quoted(given)}; it must be {quoted(allowed)}.")
    return vocabulary, kind


# What a model must say, and the kinds of models that say it; and what the library takes for a field that is not there.
_FIXED_SETTINGS = {
    "unk_token": (UNK, ("WordLevel", "WordPiece", "BPE")),
    "max_input_chars_per_word": (MAX_WORD_CHARACTERS, ("WordPiece",)),
    "continuing_subword_prefix": (PREFIX, ("WordPiece", "BPE")),
    **dict.fromkeys(("dropout", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges"), (None, ("BPE",))),
}
_DEFAULTS = {"max_input_chars_per_word": MAX_WORD_CHARACTERS, "continuing_subword_prefix": PREFIX}


def _read_merges(model: Json) -> list[list[str]]:
    """The merges of a BPE: pairs or, in older files, strings such as "a ##b"."""
    merges = [merge.split(" ") if type(merge) is str else merge for merge in part(model, "merges", list, [None])]
    if not all(type(merge) is list and [*map(type, merge)] == [str, str] for merge in merges):
        raise CheckpointError("its merges must be pairs of pieces.")
    return merges


def check_special_tokens(settings: Json, name: str) -> None:
    """Raise CheckpointError for tokens other than BERT's five in the settings of a tokenizer. name: their file's."""
    try:
        for field, token in NAMED_TOKENS.items():
            if (given := _content(settings.get(field))) not in (token, None):
                raise CheckpointError(f"its {field} is {quoted(given)}; it must be {token}.")
        for field, value in settings.items():
            if field in ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"):
                _refuse_added_tokens(list(value.values()) if isinstance(value, dict) else value)
            elif field.endswith("_token") and field not in NAMED_TOKENS and isinstance(value, str | dict):
                _refuse_added_tokens(value)
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from None


def _refuse_added_tokens(added: object) -> None:
    """Raise CheckpointError for added tokens: other programs match them before they split a text into words."""
    entries = added if isinstance(added, list) else [added] if added else []
    if foreign := [quoted(name) for name in map(_content, entries) if name not in SPECIAL_TOKENS]:
        raise CheckpointError(
            f"its added tokens {first_three(foreign)} cannot be used, only BERT's five special ones; choose a model "
            "whose vocabulary has all of its tokens."
        )


def _content(token: object) -> object:
    """The text of a token, which may be an object with flags."""
    return token.get("content") if isinstance(token, dict) else token


def _is_bert_frame(written: Json, tokenizer: Tokenizer) -> bool:
    """Whether the post-processor of a tokenizer.json puts [CLS] and [SEP] around texts as this tokenizer does."""
    ids = {token: tokenizer.token_to_id(token) for token in (CLS, SEP)}
    if written.get("type") == "BertProcessing":
        return [written.get("cls"), written.get("sep")] == [[token, i] for token, i in ids.items()]
    ours = _written_like(Scheme())["post_processor"]
    ours["special_tokens"] = {token: {"id": token, "ids": [i], "tokens": [token]} for token, i in ids.items()}
    return written == ours


def _has_scheme(content: Json, scheme: Scheme) -> bool:
    with contextlib.suppress(CheckpointError):
        return _read_scheme(content, scheme.model) == scheme
    return False


def _written_like(scheme: Scheme) -> Json:
    """The tokenizer.json of a scheme, with no words."""
    return json.loads(build_tokenizer({token: i for i, token in enumerate(SPECIAL_TOKENS)}, scheme).to_str())


def _scheme_of_settings(settings: Json) -> Scheme:
    """The scheme of a BertTokenizer with the flags in tokenizer_config.json."""
    problem = "do_lower_case, strip_accents and tokenize_chinese_chars of tokenizer_config.json must be true or false."
    flags = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True, **settings}
    return _with_flags(Scheme("WordPiece", "bert"), [flags[name] for name in _FLAGS], problem)


def _with_flags(scheme: Scheme, flags: list[object], problem: str) -> Scheme:
    match flags:
        case [bool(lower), bool() | None as accents, bool() | None as chinese]:
            return replace(scheme, lowercase=lower, strip_accents=accents, handle_chinese_chars=chinese is not False)
    raise CheckpointError(problem)


def _read_scheme(content: Json, kind: str) -> Scheme:
    """The scheme that has the normalizer and the pre-tokenizer of a tokenizer.json: BERT's, or one of this project."""
    normalizer, split = _mapping(content, "normalizer"), _mapping(content, "pre_tokenizer")
    steps = part(normalizer, "normalizers", list, [normalizer])
    for step in steps:
        if isinstance(step, dict) and step.get("type") == "BertNormalizer":
            flags = [step.get(name) for name in ("lowercase", "strip_accents", "handle_chinese_chars")]
            ours = _with_flags(Scheme(kind), flags, "its normalizer's flags must be true or false.")
            for scheme in (replace(ours, form=form) for form in FORMS):
                written = _written_like(scheme)
                if (normalizer, split) == (written["normalizer"], written["pre_tokenizer"]):
                    return scheme
    raise CheckpointError(
        "its normalizer or pre-tokenizer is neither BERT's nor one of this project's. If it is of an earlier "
        "version of this project, train the model again."
    )


def _mapping(content: Json, key: str) -> Json:
    value = part(content, key, dict, {})
    if not value:
        raise CheckpointError(f"its part {key!r} is missing or is not an object.")
    return value
