"""Tokenizers: trained on a text, or built from a vocabulary and a `Scheme`.

The library's loader can abort the process on a malicious file, so `bert_core.storage` reads tokenizer.json as JSON.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from bert_core.config import TokenizerConfig
from bert_core.data.corpus import Corpus
from bert_core.data.sentences import ENDS, GREEK, MAX_WORD_CHARACTERS, UNSPACED
from bert_core.errors import CheckpointError, ConfigError, CorpusError, ignore, percent, quoted

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
# Their names in tokenizer_config.json.
NAMED_TOKENS = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS}

# Regular expressions. The word tokenizer drops the marks . , ! ? - as BERT tutorials on the dialogue do, and their
# counterparts in other scripts, also the Greek question mark ; and the space without width, and quotation marks.
_UNQUOTED_MARKS = rf"(?:[.,!?\-…{ENDS}，､、،՝፣၊\u200b]|(?<![^{GREEK}]);)"
DROPPED_MARKS = f'(?:["“”„‟«»‹›「」『』]|{_UNQUOTED_MARKS})'
_DROPPED = {"words": DROPPED_MARKS, "words-2": _UNQUOTED_MARKS, "words-1": r"[.,!?\-]"}
UNKNOWN_WORD = "<unk>"  # in WikiText, and in tokenizers that split at white space

_WRITTEN_SPECIAL = rf"(?<![^\s{UNSPACED}])\[(?:PAD|CLS|SEP|MASK)\](?![^\s{UNSPACED}])"

LEARNED_BYTES = 100 * 2**20  # of text; more takes memory and hardly changes the vocabulary
DEFAULT_PIECES = 30_000
PREFIX = "##"  # of a piece that does not begin a word
MAX_TOKENIZER_TOKENS = 1_000_000

_REPEATED_AT_ONCE = 1000
_REPORTED_AT_ONCE = 10_000  # sentences
_WORTH_A_NOTE = 0.01  # of a text


@dataclass(frozen=True)
class Scheme:
    """Everything about a tokenizer except its vocabulary.

    model: "WordLevel", "WordPiece" or "BPE". form: one of FORMS: "words" (drops marks, splits at white space; earlier
    versions of this project had "words-1" and "words-2", which drop fewer), "spaces" (splits there and keeps all marks,
    for texts such as WikiText, whose "<unk>" is the unknown token), "bert" (Google's BasicTokenizer), "pieces" (as
    "bert"; here, as in "words", characters are composed, and scripts without spaces are split into them, not only Han)
    or "steps" (NFD, then lower case and accents if they are set; neighbouring marks are one word, as in the
    documentation of `tokenizers`). lowercase, strip_accents, handle_chinese_chars: as in `BertNormalizer`, where None
    follows lowercase.
    """

    model: str = "WordLevel"
    form: str = "words"
    lowercase: bool = True
    strip_accents: bool | None = None
    handle_chinese_chars: bool = True


FORMS = (*_DROPPED, "spaces", "bert", "pieces", "steps")


def train_tokenizer(
    corpus: Corpus,
    *,
    kind: str = "word",
    vocab_size: int | None = None,
    min_frequency: int = 1,
    lowercase: bool = True,
    strip_accents: bool | None = False,
    progress: Callable[[float], None] = ignore,
) -> Tokenizer:
    """Learn a vocabulary from a text. The same corpus and settings give the same ids in every process.

    corpus: of more than 100 MB, an even sample of that size is used. kind: "whitespace" (a token for what stands
    between spaces), "word" (a token per word), "wordpiece" (Schuster & Nakajima 2012) or "bpe" (Sennrich et al. 2016;
    it knows every character of the text); in the last three, a character of a script without spaces, with its marks, is
    a word. vocab_size: at most so many tokens, with the special ones; None keeps every word, or 30,000 pieces.
    min_frequency: of a word or piece. lowercase, strip_accents: see `Scheme`. progress: called with the fraction of the
    sentences that are read; at 1, the vocabulary is made of them. Raises ConfigError for settings out of range or too
    few tokens for "bpe", CorpusError without a word.
    """
    config = TokenizerConfig(kind, vocab_size, min_frequency, lowercase, strip_accents)
    model, form, train = _KINDS[kind]
    scheme = Scheme(model, form, lowercase, strip_accents)
    tokenizer = train(corpus, _reported(corpus, progress), config, scheme)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise CorpusError(
            f"No word occurs {min_frequency} times or more in {corpus.name}; lower min_frequency or use a longer text."
        )
    return tokenizer


def _reported(corpus: Corpus, progress: Callable[[float], None]) -> Iterator[str]:
    """The sentences to learn from. progress: see `train_tokenizer`."""
    count = max(1.0, len(corpus.sentences) * corpus.sampled_share(LEARNED_BYTES))
    for number, sentence in enumerate(corpus.sample(LEARNED_BYTES)):
        if number % _REPORTED_AT_ONCE == 0:
            progress(min(0.99, number / count))
        yield sentence
    progress(1.0)


def _train_words(corpus: Corpus, sentences: Iterable[str], config: TokenizerConfig, scheme: Scheme) -> Tokenizer:
    options = _trainer_options(config)
    trainer = trainers.WordLevelTrainer(vocab_size=config.vocab_size or MAX_TOKENIZER_TOKENS, **options)
    tokenizer = _without_special_tokens(models.WordLevel(unk_token=UNK), scheme)
    tokenizer.train_from_iterator(sentences, trainer)
    if [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS))):
        # Without its vocabulary as a dict, which for many words holds the interpreter's lock for seconds.
        return _with_special_tokens(tokenizer, scheme)
    ids = tokenizer.get_vocab()  # a word of the text has the name of a special token
    words = sorted(ids.keys() - set(SPECIAL_TOKENS), key=ids.__getitem__)
    return build_tokenizer({token: i for i, token in enumerate([*SPECIAL_TOKENS, *words])}, scheme)


def _train_wordpiece(corpus: Corpus, sentences: Iterable[str], config: TokenizerConfig, scheme: Scheme) -> Tokenizer:
    tokenizer = _without_special_tokens(models.WordPiece(unk_token=UNK), scheme)
    counted = _count_words(tokenizer, sentences)
    words = Counter({word: count for word, count in counted.items() if len(word) <= MAX_WORD_CHARACTERS})
    vocab_size = config.vocab_size or DEFAULT_PIECES
    alphabet = _alphabet(words, vocab_size - len(SPECIAL_TOKENS))
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, **_trainer_options(config, alphabet))
    spelled = Counter({word: count for word, count in words.items() if alphabet.issuperset(word)})
    tokenizer.train_from_iterator(_repeated(spelled), trainer)
    return build_tokenizer(tokenizer.get_vocab(), scheme)


def _train_bpe(corpus: Corpus, sentences: Iterable[str], config: TokenizerConfig, scheme: Scheme) -> Tokenizer:
    tokenizer = _without_special_tokens(models.BPE(unk_token=UNK, continuing_subword_prefix=PREFIX), scheme)
    words = _count_words(tokenizer, sentences)
    vocab_size = config.vocab_size or DEFAULT_PIECES
    alphabet = _alphabet(words, MAX_TOKENIZER_TOKENS)
    if vocab_size < len(alphabet) + len(SPECIAL_TOKENS):
        raise ConfigError(
            f"vocab_size is {vocab_size:,}; the characters of {corpus.name}, each first and inside a word, and the "
            f"special tokens are {len(alphabet) + len(SPECIAL_TOKENS):,}. Choose at least as many."
        )
    options = _trainer_options(config, alphabet)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, continuing_subword_prefix=PREFIX, **options)
    tokenizer.train_from_iterator(_repeated(words), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return build_tokenizer(tokenizer.get_vocab(), scheme, merges)


# The model of a scheme, its form and how it is trained.
_KINDS = {
    "word": ("WordLevel", "words", _train_words),
    "whitespace": ("WordLevel", "spaces", _train_words),
    "wordpiece": ("WordPiece", "pieces", _train_wordpiece),
    "bpe": ("BPE", "pieces", _train_bpe),
}


def notes_on_words(sentences: Iterable[str], kind: str) -> list[str]:
    """What a tokenizer of this kind does to the words of a text that a person may not expect, one sentence each."""
    words: Counter[str] = Counter()
    letters = characters = 0
    for sentence in sentences:
        words.update(sentence.split(" "))
        letters += len(sentence) - sentence.count(" ")
        characters += len(re.findall(f"[{UNSPACED}]", sentence))
    unspaced = characters / max(1, letters)
    notes = []
    if unspaced > _WORTH_A_NOTE:
        read = "not split, so that a word may be a sentence" if kind == "whitespace" else "split into characters"
        notes.append(
            f"Han, kana, Thai and other scripts without spaces between words are {read} ({percent(unspaced)} of this "
            "text)."
        )
    dropped = sum(count for word, count in words.items() if re.fullmatch(f"{DROPPED_MARKS}+", word)) / words.total()
    if kind == "word" and dropped > _WORTH_A_NOTE:
        notes.append(
            f"The word tokenizer drops . , ! ? - and quotation marks: {percent(dropped)} of the words here. Wordpiece "
            "keeps them."
        )
    return notes


def _count_words(tokenizer: Tokenizer, sentences: Iterable[str]) -> Counter[str]:
    """The words of sentences, normalised and split by the tokenizer."""
    parts = Counter(part for sentence in sentences for part in sentence.split(" "))
    words: Counter[str] = Counter()
    # A space always ends a word, so the text between two spaces is split once and not at every occurrence.
    for part, count in parts.items():
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(part)):
            words[word] += count
    return words


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Every word as often as it was counted, at most 1000 at once."""
    for word, count in words.items():
        for done in range(0, count, _REPEATED_AT_ONCE):
            yield " ".join([word] * min(_REPEATED_AT_ONCE, count - done))


def _trainer_options(config: TokenizerConfig, alphabet: Collection[str] = ()) -> dict[str, Any]:
    """The options that all trainers share. alphabet: the characters that must be in the vocabulary."""
    # The library visits its own alphabet in hash order, so ids would differ from process to process. Special tokens
    # come first and in the given order, so the characters are given as special tokens during training.
    tokens = [*SPECIAL_TOKENS, *sorted(alphabet)]
    return {"min_frequency": config.min_frequency, "special_tokens": tokens, "show_progress": False}


def _alphabet(words: Counter[str], size: int) -> set[str]:
    """The most frequent characters, alone and, if they occur inside a word, with the prefix; at most `size` pieces."""
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
    """Build a tokenizer from a vocabulary (token -> id) and a scheme.

    merges: for BPE, the pairs of pieces in the order in which they are joined. Raises CheckpointError unless the
    vocabulary holds the five special tokens and the pieces and results of all merges, and uses every id from 0 once.
    """
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise CheckpointError(f"The vocabulary lacks the special tokens {', '.join(missing)}; a BERT needs all five.")
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise CheckpointError("The vocabulary's ids have gaps or repeats; they must be 0, 1, 2, ... each used once.")
    model: models.Model
    if scheme.model == "WordLevel":
        model = models.WordLevel(vocabulary, unk_token=UNK)
    elif scheme.model == "WordPiece":
        model = models.WordPiece(vocabulary, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARACTERS)
    else:
        pairs = _checked_merges(merges, vocabulary)
        model = models.BPE(vocabulary, pairs, unk_token=UNK, continuing_subword_prefix=PREFIX)
    return _with_special_tokens(_without_special_tokens(model, scheme), scheme)


def _with_special_tokens(tokenizer: Tokenizer, scheme: Scheme) -> Tokenizer:
    if scheme.model != "WordLevel":
        tokenizer.decoder = decoders.WordPiece(prefix=PREFIX)
    specials = [(token, token_id(tokenizer, token)) for token in (CLS, SEP)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}", pair=f"{CLS} $A {SEP} $B:1 {SEP}:1", special_tokens=specials
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer


def _without_special_tokens(model: models.Model, scheme: Scheme) -> Tokenizer:
    """A tokenizer with the scheme's normalizer and pre-tokenizer. A "[MASK]" in a text is a word to it."""
    form = scheme.form
    dropped = [normalizers.Replace(Regex(_DROPPED[form]), "")] if form in _DROPPED else []
    lowercase = [normalizers.Lowercase()] * scheme.lowercase
    bert = normalizers.BertNormalizer(
        clean_text=not dropped,  # it would drop the joiners inside words of Indic scripts and Persian
        handle_chinese_chars=scheme.handle_chinese_chars,
        strip_accents=scheme.strip_accents,
        lowercase=scheme.lowercase,
    )
    steps: list[normalizers.Normalizer] = [bert]
    split: pre_tokenizers.PreTokenizer = pre_tokenizers.WhitespaceSplit()
    if form == "bert":
        split = pre_tokenizers.BertPreTokenizer()
    elif form == "steps":
        accents = [normalizers.StripAccents()] * bool(scheme.strip_accents)
        steps, split = [normalizers.NFD(), *lowercase, *accents], pre_tokenizers.Whitespace()
    elif form == "spaces":
        strips = scheme.lowercase if scheme.strip_accents is None else scheme.strip_accents
        stripped = [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()] * strips
        steps = [*lowercase, *stripped, normalizers.Replace(UNKNOWN_WORD, UNK)]
    elif form == "words-1":
        steps = [*lowercase, *dropped]
    else:
        steps = [normalizers.NFC(), bert, *dropped]
        words = split if dropped else pre_tokenizers.BertPreTokenizer()
        characters = pre_tokenizers.Split(Regex(rf"[{UNSPACED}]\p{{M}}*"), "isolated")
        split = pre_tokenizers.Sequence([words, characters])
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = bert if form == "bert" else normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = split
    return tokenizer


def _checked_merges(merges: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    for first, second in merges:  # the library removes the second piece's prefix without a check
        is_inside = second.startswith(PREFIX) and len(second) > len(PREFIX)
        if not is_inside or not {first, second, first + second[len(PREFIX) :]} <= vocabulary.keys():
            raise CheckpointError(f"its merge of {quoted(first)} and {quoted(second)} does not fit its vocabulary.")
    return [(first, second) for first, second in merges]


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """The same vocabulary, shared, without special tokens: a "[MASK]" in a text is a word like any other, or [UNK]."""
    twin = Tokenizer(tokenizer.model)
    twin.normalizer, twin.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    if isinstance(tokenizer.model, models.WordLevel):
        twin.normalizer = normalizers.Sequence([twin.normalizer, normalizers.Replace(Regex(_WRITTEN_SPECIAL), UNK)])
    return twin


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token that the vocabulary holds, such as a special token."""
    found = tokenizer.token_to_id(token)
    assert found is not None, token
    return found


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of the five special tokens in this tokenizer's own vocabulary."""
    return {token: token_id(tokenizer, token) for token in SPECIAL_TOKENS}


def end_of_marks(text: str, end: int) -> int:
    """The end of a word with the marks and parts of Hangul behind it, which the tokenizer joins to it or removes."""
    while end < len(text) and (unicodedata.category(text[end])[0] == "M" or "\u1160" <= text[end] <= "\u11ff"):
        end += 1
    return end
