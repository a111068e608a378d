"""Tokenizers: trained on a text, or built from a vocabulary and a `Scheme`.

The library's loader can abort the process on a malicious file, so `bert_core.storage` reads tokenizer.json as JSON.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
_REPORTED_AT_ONCE = 10_000  # sentences
_WORTH_A_NOTE = 0.01  # of a text


@dataclass(frozen=True)
class Scheme:
    """Everything about a tokenizer except its vocabulary.

    model: "WordLevel", "WordPiece" or "BPE". form: one of FORMS: "words" (drops marks, splits at white space), "spaces"
    (splits there and keeps all marks, for texts such as WikiText, whose "<unk>" is the unknown token), "bert" (Google's
    BasicTokenizer) or "pieces" (as "bert"; here, as in "words", characters are composed, and scripts without spaces are
    split into them, not only Han). lowercase, strip_accents, handle_chinese_chars: as in `BertNormalizer`, where None
    follows lowercase.
    """

    model: str = "WordLevel"
    form: str = "words"
    lowercase: bool = True
    strip_accents: bool | None = None
    handle_chinese_chars: bool = True


FORMS = ("words", "spaces", "bert", "pieces")
# The model of a scheme, and its form.
_KINDS = {
    "word": ("WordLevel", "words"),
    "whitespace": ("WordLevel", "spaces"),
    "wordpiece": ("WordPiece", "pieces"),
    "bpe": ("BPE", "pieces"),
}


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

    kind: "whitespace" (a token for what stands between spaces), "word" (a token per word), "wordpiece" (Schuster &
    Nakajima 2012) or "bpe" (Sennrich et al. 2016; it knows every character of the text); in the last three, a character
    of a script without spaces, with its marks, is a word. vocab_size: at most so many tokens, with the special ones;
    None keeps every word, or 30,000 pieces. min_frequency: of a word or piece. lowercase, strip_accents: see `Scheme`.
    progress: called with the fraction of the sentences that are read; at 1, the vocabulary is made of them. Raises
    ConfigError for settings out of range or too few tokens for "bpe", CorpusError without a word.
    """
    config = TokenizerConfig().replace(
        kind=kind, vocab_size=vocab_size, min_frequency=min_frequency, lowercase=lowercase, strip_accents=strip_accents
    )
    model, form = _KINDS[kind]
    scheme = Scheme(model, form, lowercase, strip_accents, handle_chinese_chars=form != "spaces")
    words = _count_words(corpus.sentences, scheme, progress)
    tokenizer = (_train_words if model == "WordLevel" else _train_pieces)(words, config, scheme)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise CorpusError(
            f"No word occurs {min_frequency} times or more in {corpus.name}; lower min_frequency or use a longer text."
        )
    return tokenizer


def _count_words(sentences: Sequence[str], scheme: Scheme, progress: Callable[[float], None]) -> Counter[str]:
    """The words of sentences, normalised and split as the scheme says. progress: see `train_tokenizer`."""
    parts: Counter[str] = Counter()
    for number, sentence in enumerate(sentences):
        if number % _REPORTED_AT_ONCE == 0:
            progress(number / len(sentences))
        parts.update(sentence.split(" "))
    progress(1.0)
    tokenizer = _without_special_tokens(models.WordLevel(unk_token=UNK), scheme)
    words: Counter[str] = Counter()
    # A space always ends a word, so the text between two spaces is split once and not at every occurrence.
    for part, count in parts.items():
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(f" {part}")):
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
    is_bpe, vocab_size = scheme.model == "BPE", config.vocab_size or DEFAULT_PIECES
    if is_bpe and vocab_size < len(characters) + len(SPECIAL_TOKENS):
        raise ConfigError(
            f"vocab_size is {vocab_size:,}; the characters of the text, each first and inside a word, and the special "
            f"tokens are {len(characters) + len(SPECIAL_TOKENS):,}. Choose at least as many."
        )
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
    tokenizer.train_from_iterator(_repeated({word: words[word] for word in known}), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"] if is_bpe else ()
    return build_tokenizer(tokenizer.get_vocab(), scheme, merges)


def _spelled(word: str) -> list[str]:
    """The pieces of a word that have one character each."""
    return [word[0], *(PREFIX + character for character in word[1:])]


def _repeated(words: Mapping[str, int]) -> Iterator[str]:
    """Every word as often as it was counted, at most 1000 at once."""
    for word, count in words.items():
        for done in range(0, count, _REPEATED_AT_ONCE):
            yield " ".join([word] * min(_REPEATED_AT_ONCE, count - done))


def notes_on_words(sentences: Sequence[str], kind: str) -> list[str]:
    """What a tokenizer of this kind does to the words of a text that a person may not expect, one sentence each."""
    words = Counter(word for sentence in sentences for word in sentence.split())
    letters = sum(len(word) * count for word, count in words.items())
    split = normalizers.Replace(Regex(f"[{UNSPACED}]"), "")
    unspaced = 1 - sum(len(split.normalize_str(word)) * count for word, count in words.items()) / letters
    notes = []
    if unspaced > _WORTH_A_NOTE:
        read = "not split, so that a word may be a sentence" if kind == "whitespace" else "split into characters"
        notes.append(
            f"Han, kana, Thai and other scripts without spaces between words are {read} ({percent(unspaced)} of this "
            "text)."
        )
    if kind == "word":
        notes += _notes_on_marks(words)
    return notes


def _notes_on_marks(words: Counter[str]) -> Iterator[str]:
    """How many words the word tokenizer drops, and how many lose a mark inside, which puts their parts together."""
    drop = normalizers.Replace(Regex(DROPPED_MARKS), "")
    kept = {word: drop.normalize_str(f" {word}").strip() for word in words}  # a space, because ; stays behind one
    dropped = sum(words[word] for word, rest in kept.items() if not rest) / words.total()
    if dropped > _WORTH_A_NOTE:
        yield (
            f"The word tokenizer drops . , ! ? - and quotation marks: {percent(dropped)} of the words here. Wordpiece "
            "keeps them."
        )
    joined = [word for word, rest in kept.items() if rest not in word]
    if joined:
        count, example = sum(words[word] for word in joined), max(joined, key=words.__getitem__)
        yield (
            f"The word tokenizer drops marks inside {count:,} of the {words.total():,} words here too: "
            f"{quoted(example)} is read as {quoted(kept[example])}."
        )


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
    tokenizer = Tokenizer(model)
    bert = normalizers.BertNormalizer(
        clean_text=scheme.form in ("bert", "pieces"),  # it drops the joiners inside words of Indic scripts and Persian
        handle_chinese_chars=scheme.handle_chinese_chars,
        strip_accents=scheme.strip_accents,
        lowercase=scheme.lowercase,
    )
    if scheme.form == "bert":
        tokenizer.normalizer, tokenizer.pre_tokenizer = bert, pre_tokenizers.BertPreTokenizer()
        return tokenizer
    replace = {
        "words": [normalizers.Replace(Regex(DROPPED_MARKS), "")],
        "spaces": [normalizers.Replace(UNKNOWN_WORD, UNK)],
        "pieces": [],
    }
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), bert, *replace[scheme.form]])
    spaces = pre_tokenizers.WhitespaceSplit()
    words = pre_tokenizers.BertPreTokenizer() if scheme.form == "pieces" else spaces
    characters = pre_tokenizers.Split(Regex(rf"[{UNSPACED}]\p{{M}}*"), "isolated")
    tokenizer.pre_tokenizer = spaces if scheme.form == "spaces" else pre_tokenizers.Sequence([words, characters])
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
