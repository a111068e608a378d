"""tokenizer.json and vocab.txt: written, and read without trusting a byte of them."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tokenizers import (
    Tokenizer,
)

from bert_core.data.tokenizer import MAX_TOKENIZER_TOKENS, PREFIX, SPECIAL_TOKENS, UNK, Scheme, build_tokenizer
from bert_core.errors import CheckpointError, first_three, quoted
from bert_core.storage.untrusted import MAX_JSON_BYTES, read_json, read_limited


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write tokenizer.json."""
    path.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")


def load_tokenizer(path: Path, settings: dict[str, Any] | None = None) -> Tokenizer:
    """Rebuild a tokenizer from a tokenizer.json or a vocab.txt, without trusting the file.

    settings: the content of tokenizer_config.json, where there is one. As in `transformers`, a WordPiece vocabulary
    whose class is BertTokenizer, or not given, is read with BERT's own normalizer, steered by do_lower_case,
    strip_accents and tokenize_chinese_chars of the settings, whatever tokenizer.json says of it. With another class
    tokenizer.json says how text is read. Raises CheckpointError with the file's name and what cannot be used.
    """
    settings = settings or {}
    is_bert_tokenizer = settings.get("tokenizer_class") in (None, "BertTokenizer", "BertTokenizerFast")
    if path.suffix == ".txt":
        content = None
        text = read_limited(path, MAX_JSON_BYTES)
    else:
        content = read_json(path)
    try:
        if content is None:
            vocabulary, kind, merges = _read_vocab_txt(text), "WordPiece", []
        else:
            vocabulary, kind = _read_tokenizer_json(content)
            merges = _read_merges(content["model"]) if kind == "BPE" else []
            _refuse_added_tokens(content.get("added_tokens"))
        if kind == "WordPiece" and (is_bert_tokenizer or content is None):
            scheme = _scheme_of_settings(settings)
        else:
            scheme = _read_scheme(content, kind)
        decoder = settings.get("added_tokens_decoder")
        _refuse_added_tokens(list(decoder.values()) if isinstance(decoder, dict) else decoder)
        return build_tokenizer(vocabulary, scheme, merges)
    except CheckpointError as error:
        raise CheckpointError(f"{path.name}: {error}") from None


def _scheme_of_settings(settings: dict[str, Any]) -> Scheme:
    lowercase, chinese = settings.get("do_lower_case", True), settings.get("tokenize_chinese_chars", True)
    strip_accents = settings.get("strip_accents")
    if not (isinstance(lowercase, bool) and isinstance(chinese, bool) and isinstance(strip_accents, bool | None)):
        raise CheckpointError(
            "do_lower_case, strip_accents and tokenize_chinese_chars of tokenizer_config.json must be true or false."
        )
    return Scheme("WordPiece", "bert", lowercase, strip_accents, chinese)


def _refuse_added_tokens(added: Any) -> None:
    """Tokens that were added to a vocabulary later are cut out of a text before it is read, which we don't do."""
    entries = added if isinstance(added, list) else [added] if added else []
    names = [entry.get("content") if isinstance(entry, dict) else entry for entry in entries]
    if foreign := [quoted(name) for name in names if name not in SPECIAL_TOKENS]:
        raise CheckpointError(f"its added tokens {first_three(foreign)} can't be used, only BERT's five special ones.")


def _read_vocab_txt(data: bytes) -> dict[str, int]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"this is not UTF-8 text (byte {error.start}); export the tokenizer again.") from None
    tokens = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        repeated = Counter(tokens).most_common(1)[0][0]
        raise CheckpointError(f"the token {repeated[:100]!r} stands on two lines; every token may occur once.")
    return vocabulary


def _read_tokenizer_json(content: dict[str, Any]) -> tuple[dict[str, int], str]:
    """The vocabulary and the kind of model ("WordLevel", "WordPiece" or "BPE")."""
    model = _mapping(content, "model")
    vocabulary = _mapping(model, "vocab")
    if len(vocabulary) > MAX_TOKENIZER_TOKENS:
        raise CheckpointError(f"{len(vocabulary):,} tokens are more than the limit of {MAX_TOKENIZER_TOKENS:,}.")
    for token, index in vocabulary.items():
        if type(index) is not int or not _is_clean(token):
            raise CheckpointError("its vocabulary must map tokens to whole numbers.")
    kind = model.get("type")
    if kind not in ("WordLevel", "WordPiece", "BPE"):
        raise CheckpointError(f"its model is {str(kind)[:100]!r}; WordLevel, WordPiece and BPE can be opened.")
    if model.get("unk_token") != UNK:
        raise CheckpointError(f"its unknown token is {str(model.get('unk_token'))[:100]!r}; it must be {UNK}.")
    # A WordPiece that does not say has BERT's prefix; a BPE that does not say has none.
    if (
        kind != "WordLevel"
        and model.get("continuing_subword_prefix", PREFIX if kind == "WordPiece" else None) != PREFIX
    ):
        raise CheckpointError(f"its pieces do not continue with {PREFIX}, as BERT's do.")
    return vocabulary, kind


def _read_merges(model: dict[str, Any]) -> list[list[str]]:
    """The merges of a BPE, as pairs or as older files spell them ("a ##b"); refused with settings that we lack."""
    for field in ("dropout", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges"):
        if model.get(field):
            raise CheckpointError(f"its {field} is {quoted(model[field])}, which can't be used here.")
    merges = model.get("merges")
    merges = (
        [merge.split(" ") if isinstance(merge, str) else merge for merge in merges] if isinstance(merges, list) else [0]
    )
    for merge in merges:
        if not (isinstance(merge, list) and len(merge) == 2 and all(isinstance(piece, str) for piece in merge)):
            raise CheckpointError("its merges must be pairs of pieces.")
    return merges


def _read_scheme(content: dict[str, Any], kind: str) -> Scheme:
    """The flags of BERT's normalizer, or our own word scheme; anything else is refused."""
    normalizer = _mapping(content, "normalizer")
    pre_tokenizer = _mapping(content, "pre_tokenizer").get("type")
    if normalizer.get("type") == "BertNormalizer" and pre_tokenizer == "BertPreTokenizer":
        flags = {name: normalizer.get(name) for name in ("lowercase", "strip_accents", "handle_chinese_chars")}
        if not all(flag is None or isinstance(flag, bool) for flag in flags.values()) or flags["lowercase"] is None:
            raise CheckpointError("its normalizer's flags must be true or false.")
        flags["handle_chinese_chars"] = flags["handle_chinese_chars"] is not False
        return Scheme(model=kind, normalizer="bert", **flags)
    for lowercase in (True, False):
        scheme = Scheme(model=kind, normalizer="words", lowercase=lowercase)
        ours = json.loads(build_tokenizer({token: i for i, token in enumerate(SPECIAL_TOKENS)}, scheme).to_str())
        if (normalizer, content.get("pre_tokenizer")) == (ours["normalizer"], ours["pre_tokenizer"]):
            return scheme
    raise CheckpointError("its normalizer or pre-tokenizer is neither BERT's nor this project's word scheme.")


def _mapping(content: Any, key: str) -> dict[str, Any]:
    value = content.get(key) if isinstance(content, dict) else None
    if not isinstance(value, dict):
        raise CheckpointError(f"its part {key!r} is missing or of another kind than a BERT tokenizer's.")
    return value


def _is_clean(token: str) -> bool:
    """Lone surrogates, which JSON can spell, cannot be handed to the library."""
    return not re.search("[\ud800-\udfff]", token)
