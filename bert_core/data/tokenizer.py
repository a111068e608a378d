"""Tokenizers: trained on a text, or built from a vocabulary and a `Scheme`.

The library's loader can abort the process on a malicious file, so `bert_core.storage` reads tokenizer.json as JSON."""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from bert_core.config import TokenizerConfig
from bert_core.data.corpus import Corpus
from bert_core.data.sentences import ENDS, GREEK, MAX_WORD_CHARACTERS, UNSPACED
from bert_core.errors import CheckpointError, CorpusError, percent, quoted

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
# Their names in tokenizer_config.json.
NAMED_TOKENS = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS}

# Regular expressions. The word tokenizer drops the marks . , ! ? - as BERT tutorials on the dialogue do, and their
# counterparts in other scripts, also the Greek question mark ; and the space without width, and quotation marks. Marks
# between digits stay, and a minus or a point that begins a number: without them, 3.50 would be read as 350.
_MARK = f'(?:["“”„‟«»‹›「」『』.,!?\\-…{ENDS}，､、،՝፣၊\u200b]|(?<![^{GREEK}]);)'
DROPPED_MARKS = rf"(?!(?<=\d).\d|(?<![\w.\-])-\.?\d|(?<![\w.])\.\d){_MARK}"
UNKNOWN_WORD = "<unk>"  # in WikiText, and in tokenizers that split at white space
_WRITTEN_SPECIAL = rf"(?<![^\s{UNSPACED}])\[(?:PAD|CLS|SEP|MASK)\](?![^\s{UNSPACED}])"

DEFAULT_PIECES = 30_000
PREFIX = "##"  # of a piece that does not begin a word
MAX_TOKENIZER_TOKENS = 1_000_000

_REPEATED_AT_ONCE = 1000
_WORTH_A_NOTE = 0.01  # of a text
FORMS = ("words", "spaces", "bert", "pieces")


@dataclass(frozen=True)
class Scheme:
    """Everything about a tokenizer except its vocabulary.

    model: "WordLevel", "WordPiece" or "BPE". form: "words" (drops marks, splits at white space), "spaces" (splits there
    and keeps all marks, for texts such as WikiText, whose "<unk>" is the unknown token), "bert" (Google's
    BasicTokenizer) or "pieces" (as "bert"; here, as in "words", characters are composed, and scripts without spaces are
    split into them, not only Han). The others: as in `BertNormalizer`, where None follows lowercase."""

    model: str = "WordLevel"
    form: str = "words"
    lowercase: bool = True
    strip_accents: bool | None = None
    handle_chinese_chars: bool = True


def train_tokenizer(corpus: Corpus, **settings: object) -> Tokenizer:
    """Learn a vocabulary from a text. The same corpus and settings give the same ids in every process.

    settings: those of `TokenizerConfig`. Their kind is "word" (a token per word), "whitespace" (a token for what stands
    between spaces), "wordpiece" (Schuster & Nakajima 2012) or "bpe" (Sennrich et al. 2016); but for "whitespace", a
    character of a script without spaces, with its marks, is a word. Raises ConfigError for settings out of range,
    CorpusError without a word."""
    config = TokenizerConfig().replace(**settings)
    model = {"wordpiece": "WordPiece", "bpe": "BPE"}.get(config.kind, "WordLevel")
    form = {"word": "words", "whitespace": "spaces"}.get(config.kind, "pieces")
    scheme = Scheme(model, form, config.lowercase, config.strip_accents, handle_chinese_chars=form != "spaces")
    words, least = _count_words(corpus.sentences, scheme), config.min_frequency
    tokenizer = (_train_words if model == "WordLevel" else _train_pieces)(words, config, scheme)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise CorpusError(
            f"No word occurs {least} times or more in {corpus.name}; lower min_frequency or use a longer text."
        )
    return tokenizer


def _count_words(sentences: Iterable[str], scheme: Scheme) -> Counter[str]:
    """The words of sentences, normalised and split as the scheme says."""
    normalizer, splitter = _steps(scheme)
    words: Counter[str] = Counter()
    # A space always ends a word, so the text between two spaces is split once and not at every occurrence.
    for part, count in Counter(part for sentence in sentences for part in sentence.split(" ")).items():
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(f" {part}")):
            words[word] += count
    return words


def _train_words(words: Counter[str], config: TokenizerConfig, scheme: Scheme) -> Tokenizer:
    frequent = (word for word, count in words.items() if count >= config.min_frequency and word not in SPECIAL_TOKENS)
    tokens = [*SPECIAL_TOKENS, *sorted(frequent, key=lambda word: (-words[word], word))]
    vocabulary = {token: i for i, token in enumerate(tokens[: config.vocab_size or MAX_TOKENIZER_TOKENS])}
    return build_tokenizer(vocabulary, scheme)


def _train_pieces(words: Counter[str], config: TokenizerConfig, scheme: Scheme) -> Tokenizer:
    characters: Counter[str] = Counter()
    for word, count in words.items():
        characters.update(dict.fromkeys(_spelled(word), count))
    vocab_size, is_bpe = config.vocab_size or DEFAULT_PIECES, scheme.model == "BPE"
    by_frequency = sorted(characters, key=lambda piece: (-characters[piece], piece))
    alphabet = {*by_frequency[: vocab_size - len(SPECIAL_TOKENS)]}
    trainer = (trainers.BpeTrainer if is_bpe else trainers.WordPieceTrainer)(
        vocab_size=vocab_size,
        min_frequency=config.min_frequency,
        # The library visits its own alphabet in hash order, so ids would differ from process to process. Special tokens
        # come first and in the given order, so the characters are given as special tokens during training.
        special_tokens=[*SPECIAL_TOKENS, *sorted(alphabet)],
        continuing_subword_prefix=PREFIX,
        show_progress=False,
    )
    tokenizer = Tokenizer((models.BPE if is_bpe else models.WordPiece)(unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    known = (word for word in words if len(word) <= MAX_WORD_CHARACTERS and alphabet.issuperset(_spelled(word)))
    tokenizer.train_from_iterator(_repeated((word, words[word]) for word in known), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"] if is_bpe else ()
    return build_tokenizer(tokenizer.get_vocab(), scheme, merges)


def _spelled(word: str) -> list[str]:
    """The pieces of a word that have one character each."""
    return [word[0], *(PREFIX + character for character in word[1:])]


def _repeated(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Every word as often as it was counted, at most 1000 at once."""
    for word, count in counts:
        for done in range(0, count, _REPEATED_AT_ONCE):
            yield " ".join([word] * min(_REPEATED_AT_ONCE, count - done))


def notes_on_words(sentences: Iterable[str]) -> Iterator[str]:
    """How many words the word tokenizer drops, and how many lose a mark inside, which puts their parts together."""
    words = Counter(word for sentence in sentences for word in sentence.split())
    drop = normalizers.Replace(Regex(DROPPED_MARKS), "")
    kept = {word: drop.normalize_str(f" {word}").strip() for word in words}  # a space, because ; stays behind one
    dropped = sum(words[word] for word, rest in kept.items() if not rest) / words.total()
    joined = [word for word, rest in kept.items() if rest not in word]
    if dropped > _WORTH_A_NOTE:
        marks = f"drops . , ! ? - and quotation marks: {percent(dropped)} of the words here"
        yield f"The word tokenizer {marks}. Wordpiece keeps them."
    if joined:
        count, example = sum(words[word] for word in joined), max(joined, key=words.__getitem__)
        where = f"inside {count:,} of the {words.total():,} words here too"
        yield f"The word tokenizer drops marks {where}: {quoted(example)} is read as {quoted(kept[example])}."


def build_tokenizer(vocabulary: dict[str, int], scheme: Scheme, merges: Sequence[Sequence[str]] = ()) -> Tokenizer:
    """Build a tokenizer from a vocabulary (token -> id) and a scheme.

    merges: for BPE, the pairs of pieces in the order in which they are joined; they must fit the vocabulary. Raises
    CheckpointError unless the vocabulary holds the five special tokens and uses every id from 0 once."""
    if not {*SPECIAL_TOKENS} <= vocabulary.keys() or sorted(vocabulary.values()) != [*range(len(vocabulary))]:
        raise CheckpointError(f"The vocabulary must have {', '.join(SPECIAL_TOKENS)}, and each id 0, 1, 2, ... once.")
    model: models.Model = models.WordLevel(vocabulary, unk_token=UNK)
    if scheme.model == "WordPiece":
        model = models.WordPiece(vocabulary, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARACTERS)
    elif scheme.model == "BPE":
        pairs = [(first, second) for first, second in merges]
        model = models.BPE(vocabulary, pairs, unk_token=UNK, continuing_subword_prefix=PREFIX)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = _steps(scheme)
    if scheme.model != "WordLevel":
        tokenizer.decoder = decoders.WordPiece(prefix=PREFIX)
    specials = [(token, vocabulary[token]) for token in (CLS, SEP)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}", pair=f"{CLS} $A {SEP} $B:1 {SEP}:1", special_tokens=specials
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer


def _steps(scheme: Scheme) -> tuple[normalizers.Normalizer, pre_tokenizers.PreTokenizer]:
    """The normalizer and the pre-tokenizer of a scheme. A "[MASK]" in a text is a word to them."""
    bert = normalizers.BertNormalizer(
        clean_text=scheme.form in ("bert", "pieces"),  # it drops the joiners inside words of Indic scripts and Persian
        handle_chinese_chars=scheme.handle_chinese_chars,
        strip_accents=scheme.strip_accents,
        lowercase=scheme.lowercase,
    )
    bert_words, spaces = pre_tokenizers.BertPreTokenizer(), pre_tokenizers.WhitespaceSplit()
    if scheme.form == "bert":
        return bert, bert_words
    composed = [normalizers.NFC(), bert]
    if scheme.form == "spaces":
        return normalizers.Sequence([*composed, normalizers.Replace(UNKNOWN_WORD, UNK)]), spaces
    characters = pre_tokenizers.Split(Regex(rf"[{UNSPACED}]\p{{M}}*"), "isolated")
    if scheme.form == "pieces":
        return normalizers.Sequence(composed), pre_tokenizers.Sequence([bert_words, characters])
    dropped = normalizers.Replace(Regex(DROPPED_MARKS), "")
    return normalizers.Sequence([*composed, dropped]), pre_tokenizers.Sequence([spaces, characters])


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
