"""Tokenizers: trained on a text, or rebuilt from a vocabulary that somebody else wrote.

A tokenizer here is always a `tokenizers.Tokenizer` that was put together by `build_tokenizer` from a vocabulary and
a `Scheme` of plain flags. A foreign tokenizer.json is read as JSON and never handed to the library's own loader,
which can abort the process on a hostile file.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from bert_core.config import TokenizerConfig
from bert_core.corpus import Corpus
from bert_core.errors import CheckpointError, ConfigError, CorpusError
from bert_core.foreign_files import MAX_JSON_BYTES, first_three, read_json, read_limited, shown
from bert_core.sentences import MAX_WORD_CHARACTERS

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)

# The dialogue tutorials drop these marks and nothing else.
DROPPED_MARKS = r"[.,!?\-]"

LEARNED_BYTES = 100 * 2**20  # of text; more would take memory and hardly change the vocabulary
DEFAULT_PIECES = 30_000
PREFIX = "##"  # of a piece inside a word
MAX_TOKENIZER_TOKENS = 1_000_000

_REPEATED_AT_ONCE = 1000


@dataclass(frozen=True)
class Scheme:
    """Everything about a tokenizer but its vocabulary. `model` is "WordLevel", "WordPiece" or "BPE".

    `normalizer` is "words" (lower case, the marks `. , ! ? -` dropped, split at white space) or "bert" (Google's
    BasicTokenizer, steered by the three flags below it).
    """

    model: str = "WordLevel"
    normalizer: str = "words"
    lowercase: bool = True
    strip_accents: bool | None = None
    handle_chinese_chars: bool = True


def train_tokenizer(
    corpus: Corpus, *, kind: str = "word", vocab_size: int | None = None, min_frequency: int = 1
) -> Tokenizer:
    """Learn a vocabulary from a text.

    corpus: the sentences to learn from; of more than 100 MB an even sample of that size. kind: "word" (a token per
    word), "wordpiece" (Schuster & Nakajima 2012) or "bpe" (Sennrich et al. 2016: pairs of pieces merged in the order
    they were learned; every character of the text is known). vocab_size: most tokens, special ones included; None
    keeps every word, or 30,000 pieces. min_frequency: a word or piece must occur this often. The same corpus and
    settings give the same ids in every process.
    Raises ConfigError for settings out of range or fewer tokens than "bpe" needs for the characters, and CorpusError
    when no word is left.
    """
    config = TokenizerConfig(kind=kind, vocab_size=vocab_size, min_frequency=min_frequency)
    learn = {"word": _train_words, "wordpiece": _train_wordpiece, "bpe": _train_bpe}[kind]
    tokenizer = learn(corpus, config)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise CorpusError(
            f"No word occurs {min_frequency} times or more in {corpus.name}; lower min_frequency or give a longer text."
        )
    return tokenizer


def _train_words(corpus: Corpus, config: TokenizerConfig) -> Tokenizer:
    scheme = Scheme(model="WordLevel", normalizer="words")
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocab_size or MAX_TOKENIZER_TOKENS,
        min_frequency=config.min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    tokenizer = _text_reader(models.WordLevel(unk_token=UNK), scheme)
    tokenizer.train_from_iterator(corpus.sample(LEARNED_BYTES), trainer)
    return build_tokenizer(tokenizer.get_vocab(), scheme)


def _train_wordpiece(corpus: Corpus, config: TokenizerConfig) -> Tokenizer:
    scheme = Scheme(model="WordPiece", normalizer="bert")
    tokenizer = _text_reader(models.WordPiece(unk_token=UNK), scheme)
    words = Counter(
        {word: n for word, n in _count_words(tokenizer, corpus).items() if len(word) <= MAX_WORD_CHARACTERS}
    )
    vocab_size = config.vocab_size or DEFAULT_PIECES
    alphabet = _alphabet(words, vocab_size - len(SPECIAL_TOKENS))
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, **_piece_options(alphabet, config))
    known = Counter({word: n for word, n in words.items() if alphabet.issuperset(word)})
    tokenizer.train_from_iterator(_repeated(known), trainer)
    return build_tokenizer(tokenizer.get_vocab(), scheme)


def _train_bpe(corpus: Corpus, config: TokenizerConfig) -> Tokenizer:
    scheme = Scheme(model="BPE", normalizer="bert")
    tokenizer = _text_reader(models.BPE(unk_token=UNK, continuing_subword_prefix=PREFIX), scheme)
    words = _count_words(tokenizer, corpus)
    vocab_size = config.vocab_size or DEFAULT_PIECES
    alphabet = _alphabet(words, MAX_TOKENIZER_TOKENS)
    if vocab_size < len(alphabet) + len(SPECIAL_TOKENS):
        raise ConfigError(
            f"vocab_size is {vocab_size:,}; the characters of {corpus.name}, each first and inside a word, and the "
            f"special tokens are {len(alphabet) + len(SPECIAL_TOKENS):,}. Choose at least as many."
        )
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, continuing_subword_prefix=PREFIX, **_piece_options(alphabet, config)
    )
    tokenizer.train_from_iterator(_repeated(words), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return build_tokenizer(tokenizer.get_vocab(), scheme, merges)


def _count_words(tokenizer: Tokenizer, corpus: Corpus) -> Counter[str]:
    """The words of a corpus as the tokenizer cuts them, normalised."""
    written: Counter[str] = Counter()
    for sentence in corpus.sample(LEARNED_BYTES):
        written.update(sentence.split(" "))
    words: Counter[str] = Counter()
    # A space ends a word always, so that what stands between two of them is looked at once and not at every place.
    for part, count in written.items():
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(part)):
            words[word] += count
    return words


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Every word as often as it was counted, many in a line."""
    for word, count in words.items():
        for done in range(0, count, _REPEATED_AT_ONCE):
            yield " ".join([word] * min(_REPEATED_AT_ONCE, count - done))


def _piece_options(alphabet: set[str], config: TokenizerConfig) -> dict[str, Any]:
    """What both trainers of pieces are told.

    The library walks its alphabet in hash order, so that ids and pieces would differ from process to process.
    Listed as special tokens of the training, the characters come first and in a fixed order.
    """
    return {
        "min_frequency": config.min_frequency,
        "special_tokens": [*SPECIAL_TOKENS, *sorted(alphabet)],
        "show_progress": False,
    }


def _alphabet(words: Counter[str], size: int) -> set[str]:
    """The most frequent characters, each alone and, where words have it inside, as a ##piece; at most `size` in all."""
    counts: Counter[str] = Counter()
    inside: set[str] = set()
    for word, count in words.items():
        for character in word:
            counts[character] += count
        inside.update(word[1:])
    alphabet: set[str] = set()
    for character, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        pieces = {character, PREFIX + character} if character in inside else {character}
        if len(alphabet) + len(pieces) > size:
            break
        alphabet |= pieces
    return alphabet


def build_tokenizer(vocabulary: dict[str, int], scheme: Scheme, merges: Sequence[Sequence[str]] = ()) -> Tokenizer:
    """Put a tokenizer together from a vocabulary (token -> id) and a scheme.

    merges: of a BPE, the pairs of pieces in the order in which they are joined. The vocabulary must hold the five
    special tokens and use every id from 0 once, and what merges join and give; CheckpointError says what is missing.
    """
    check_vocabulary(vocabulary)
    if scheme.model == "WordLevel":
        model = models.WordLevel(vocabulary, unk_token=UNK)
    elif scheme.model == "WordPiece":
        model = models.WordPiece(vocabulary, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARACTERS)
    else:
        model = models.BPE(
            vocabulary, _checked_merges(merges, vocabulary), unk_token=UNK, continuing_subword_prefix=PREFIX
        )
    tokenizer = _text_reader(model, scheme)
    if scheme.model != "WordLevel":
        tokenizer.decoder = decoders.WordPiece(prefix=PREFIX)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, vocabulary[CLS]), (SEP, vocabulary[SEP])],
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer


def _text_reader(model: models.Model, scheme: Scheme) -> Tokenizer:
    """A tokenizer that knows how text is cut and has no special tokens yet: to it, "[MASK]" in a text is a word."""
    tokenizer = Tokenizer(model)
    if scheme.normalizer == "words":
        steps = [normalizers.Lowercase()] if scheme.lowercase else []
        tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(DROPPED_MARKS), "")])
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    else:
        tokenizer.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=scheme.handle_chinese_chars,
            strip_accents=scheme.strip_accents,
            lowercase=scheme.lowercase,
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def check_vocabulary(vocabulary: dict[str, int]) -> None:
    """Raise CheckpointError unless the five special tokens are there and the ids are 0, 1, 2, ... without a gap."""
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise CheckpointError(f"The vocabulary lacks the special tokens {', '.join(missing)}; a BERT needs all five.")
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise CheckpointError("The vocabulary's ids have gaps or repeats; they must be 0, 1, 2, ... each used once.")


def _checked_merges(merges: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Merges that the library can take: it cuts the prefix off the second piece without looking."""
    for first, second in merges:
        is_inside = second.startswith(PREFIX) and len(second) > len(PREFIX)
        if not is_inside or not {first, second, first + second[len(PREFIX) :]} <= vocabulary.keys():
            raise CheckpointError(f"its merge of {shown(first)} and {shown(second)} does not fit its vocabulary.")
    return [(first, second) for first, second in merges]


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of the five special tokens in this tokenizer's own vocabulary."""
    return {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}


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
    if foreign := [shown(name) for name in names if name not in SPECIAL_TOKENS]:
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
            raise CheckpointError(f"its {field} is {shown(model[field])}, which can't be used here.")
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
