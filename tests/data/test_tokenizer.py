"""Tokenizers: the same ids in every process and in `transformers`; untrusted files are checked."""

import itertools
import json
import os
import subprocess
import sys
import unicodedata
from collections import Counter

import pytest
import transformers
from helpers import load_tokenizer, save_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_core.config import BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import (
    CLS,
    MASK,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    UNK,
    Scheme,
    build_tokenizer,
    plain,
    special_ids,
    train_tokenizer,
)
from bert_core.errors import CheckpointError, ConfigError, CorpusError
from bert_core.model import BertForPreTraining
from bert_core.runs.recipe import recipe_named
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

PIECES = [
    *SPECIAL_TOKENS, "the", "cafe", "caf", "##e", "##é", "café", "un", "##want",
    "##ed", "wa", "##s", "hello", "Hello",
    "中", "文", "##文", "!", "#", "##", "'", "-", "[", "]", "mask", "a", "b", "##a", "##b", "1", "##0", "شكرا",
    "ß", "i",
    "i̇", "👍", "e", "é", "co", "co-op", "ا", "##ا", "x", "##x", "$", "€", "<", ">", "/",
]  # fmt: skip
NASTY = [
    "", " ", "\t\n\r", "the the", "unwanted unwantedx UNWANTED", "Café CAFÉ cafe\u0301",
    "中文 中文a文", "[MASK]", "[mask]",
    "x[MASK]x [SEP][CLS] [PAD] [UNK]", "[ MASK ]", "hello\u0000\ufffdhello",
    "a\u200bb a\u00a0b a\u3000b a\u2028b a\u00adb",
    "شكرا", "\u202ehello\u202c", "👍🏽 👩\u200d👩\u200d👧 👍", "e\u0301\u0301\u0301", "İi̇ıI", "ß ẞ SS",
    "##e", "co-op", "don't!",
    "100 10 1", "a" * 99, "a" * 100, "a" * 101, "ab" * 60, "\u0600\u0301", "<b>hello</b> ${1}",
    "\x1b[0m\x7f", "\ue000", "²½",
]  # fmt: skip


def vocabulary() -> dict[str, int]:
    return {piece: index for index, piece in enumerate(PIECES)}


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [None, True, False])
@pytest.mark.parametrize("chinese", [True, False])
def test_wordpiece_gives_the_ids_of_transformers(lowercase, strip_accents, chinese):
    ours = build_tokenizer(vocabulary(), Scheme("WordPiece", "bert", lowercase, strip_accents, chinese))
    theirs = transformers.BertTokenizer(
        vocabulary(), do_lower_case=lowercase, strip_accents=strip_accents, tokenize_chinese_chars=chinese
    )
    for text in NASTY:
        assert ours.encode(text).ids == theirs(text).input_ids, text
    pair, expected = ours.encode("the café", "中文 x"), theirs("the café", "中文 x")
    assert (pair.ids, pair.type_ids) == (expected.input_ids, expected.token_type_ids)


_OURS = build_tokenizer(vocabulary(), Scheme("WordPiece", "bert"))
_THEIRS = transformers.BertTokenizer(vocabulary())


@settings(max_examples=150, deadline=None)
@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("ab e#[]-é中")), max_size=30))
def test_wordpiece_gives_the_ids_of_transformers_on_any_text(text):
    assert _OURS.encode(text).ids == _THEIRS(text).input_ids


def test_words_are_lower_cased_and_without_the_five_marks(word_tokenizer):
    ids = special_ids(word_tokenizer)
    encoded = word_tokenizer.encode("Hello, how are-you?  ROMEO!", "My [MASK] is Juliet.")
    assert encoded.tokens == [CLS, "hello", "how", UNK, "romeo", SEP, "my", MASK, "is", "juliet", SEP]
    assert encoded.type_ids == [0] * 6 + [1] * 5
    assert (encoded.ids[3], encoded.ids[7]) == (ids[UNK], ids[MASK])
    assert word_tokenizer.encode("...,,!?").tokens == [CLS, SEP]
    assert word_tokenizer.encode("(hello)").tokens[1] == UNK


def test_special_tokens_have_different_ids_and_come_first(word_tokenizer):
    ids = special_ids(word_tokenizer)
    assert ids == {PAD: 0, UNK: 1, CLS: 2, SEP: 3, MASK: 4}


def test_words_are_ordered_by_frequency_then_alphabet():
    tokenizer = train_tokenizer(Corpus.from_text("b a c c\nd c a b"))
    assert [tokenizer.id_to_token(index) for index in range(5, 9)] == ["c", "a", "b", "d"]
    assert train_tokenizer(Corpus.from_text("b a c c\nd c a b"), min_frequency=2).get_vocab_size() == 5 + 3
    assert train_tokenizer(Corpus.from_text("b a c c\nd c a b"), vocab_size=6).get_vocab() == {
        **{token: index for index, token in enumerate(SPECIAL_TOKENS)},
        "c": 5,
    }


@pytest.mark.parametrize("kind", ["word", "whitespace", "wordpiece", "bpe"])
def test_special_tokens_in_a_training_text_are_words_like_any_other(kind):
    tokenizer = train_tokenizer(Corpus.from_text("say [MASK] now\nwhat [SEP] then\n[CLS] [PAD] [UNK]"), kind=kind)
    assert list(special_ids(tokenizer).values()) == [0, 1, 2, 3, 4]
    assert tokenizer.encode("say [MASK] now").tokens.count(MASK) == 1


def test_ids_are_the_same_in_every_process(dialogue):
    program = (
        "import sys\nfrom bert_core.data.corpus import Corpus\nfrom bert_core.data.tokenizer import train_tokenizer\n"
        "corpus = Corpus.from_text(sys.stdin.read())\n"
        "for kind in ('word', 'wordpiece', 'bpe'): print(train_tokenizer(corpus, kind=kind, vocab_size=120).to_str())"
    )
    text = "\n".join(dialogue.sentences) + "\nÀ Århus zéro naïve Ωmega 漢字 ok"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for seed in (1, 2)
    ]
    outputs = [process.communicate(text, timeout=120)[0] for process in processes]
    corpus = Corpus.from_text(text)
    here = [train_tokenizer(corpus, kind=kind, vocab_size=120).to_str() for kind in ("word", "wordpiece", "bpe")]
    assert [output.splitlines() for output in outputs] == [here, here]


def test_wordpiece_keeps_its_vocabulary_limit_and_knows_every_character_that_fits(dialogue):
    tokenizer = train_tokenizer(dialogue, kind="wordpiece", vocab_size=60)
    assert tokenizer.get_vocab_size() == 60
    full = train_tokenizer(dialogue, kind="wordpiece")
    for sentence in dialogue.sentences:
        assert UNK not in full.encode(sentence).tokens
    many = Corpus.from_text(" ".join(chr(0x4E00 + i) for i in range(500)) + "\n一 二")
    assert train_tokenizer(many, kind="wordpiece", vocab_size=100).get_vocab_size() <= 100


def _merged_by_hand(word: str, merges: list[list[str]]) -> list[str]:
    """Sennrich et al. 2016, algorithm 1: join the neighbours whose merge was learned first, again and again."""
    pieces = [word[0], *(f"##{character}" for character in word[1:])]
    while True:
        found = [(merges.index([a, b]), i) for i, (a, b) in enumerate(itertools.pairwise(pieces)) if [a, b] in merges]
        if not found:
            return pieces
        _, i = min(found)
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1].removeprefix("##")]


def test_bpe_merges_pieces_in_the_order_in_which_they_were_learned(dialogue):
    tokenizer = train_tokenizer(dialogue, kind="bpe", vocab_size=90)
    assert tokenizer.get_vocab_size() == 90
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    assert len(merges) > 20
    for word in ("congratulations", "the", "juliet", "mnemo", "ententeam", "o"):
        assert tokenizer.encode(word, add_special_tokens=False).tokens == _merged_by_hand(word, merges), word


def test_the_first_merge_of_bpe_is_the_most_frequent_pair():
    corpus = Corpus.from_text("aab aab\naac aac\nxy")
    characters = 9  # a, b, c and y at the start and inside of a word, x at the start
    tokenizer = train_tokenizer(corpus, kind="bpe", vocab_size=5 + characters + 1)
    assert json.loads(tokenizer.to_str())["model"]["merges"] == [["a", "##a"]]
    assert train_tokenizer(corpus, kind="bpe", min_frequency=5).get_vocab_size() == 5 + characters


def test_bpe_knows_every_character_that_fits_and_decodes_to_it(dialogue):
    tokenizer = train_tokenizer(dialogue, kind="bpe", vocab_size=80)
    for sentence in dialogue.sentences:
        encoding = tokenizer.encode(sentence)
        assert UNK not in encoding.tokens
        spelled = " ".join(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(sentence.lower()))
        assert tokenizer.decode(encoding.ids).replace(" ", "") == spelled.replace(" ", "")
    assert tokenizer.decode(tokenizer.encode("thank you romeo").ids) == "thank you romeo"
    many = Corpus.from_text(" ".join(chr(0x4E00 + i) for i in range(500)) + "\n一 二")
    few = train_tokenizer(many, kind="bpe", vocab_size=100)
    assert few.get_vocab_size() == 100
    assert few.encode(many.sentences[1], add_special_tokens=False).tokens == ["一", "二"], "they occur twice"
    assert UNK not in train_tokenizer(many, kind="bpe", vocab_size=505).encode(many.sentences[0]).tokens


def test_transformers_opens_a_bpe_with_the_same_ids(dialogue, tmp_path):
    ours = train_tokenizer(dialogue, kind="bpe", vocab_size=110)
    save_tokenizer(ours, tmp_path / "tokenizer.json")
    specials = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs, **specials}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(theirs, transformers.PreTrainedTokenizerFast)
    back = load_tokenizer(tmp_path / "tokenizer.json", settings)
    for text in [*NASTY, *dialogue.sentences]:
        assert back.encode(text).ids == ours.encode(text).ids == theirs(text).input_ids, text
    assert ours.encode("thank you", "my [MASK]").type_ids == theirs("thank you", "my [MASK]").token_type_ids


@pytest.mark.parametrize("kind", ["word", "wordpiece", "bpe"])
@pytest.mark.parametrize(
    ("lowercase", "strip_accents", "read"),
    [
        (True, False, "café が"),
        (True, True, "cafe か"),
        (True, None, "cafe か"),
        (False, False, "Café が"),
        (False, True, "Cafe か"),
        (False, None, "Café が"),
    ],
)
def test_lowercase_and_strip_accents_mean_what_they_mean_in_bert_and_are_saved(
    kind, lowercase, strip_accents, read, tmp_path
):
    text = "Café Cafe\u0301 が か\u3099 하늘 हिन्दी ที่"
    settings = {"lowercase": lowercase, "strip_accents": strip_accents}
    ours = train_tokenizer(Corpus.from_text(text), kind=kind, **settings)
    tokens = "".join(ours.encode(text, add_special_tokens=False).tokens).replace("##", "")
    assert tokens.startswith("".join(2 * word for word in read.split()))
    model = BertForPreTraining(
        BertConfig(
            vocab_size=ours.get_vocab_size(),
            hidden_size=12,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=12,
        )
    )
    save_checkpoint(Checkpoint(model, ours, "a model"), tmp_path)
    assert load_checkpoint(tmp_path).tokenizer.to_str() == ours.to_str()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for each in (text, *NASTY):
        assert theirs(each).input_ids == ours.encode(each).ids
    reference = transformers.BertTokenizer(
        {token: i for i, token in enumerate(SPECIAL_TOKENS)}, do_lower_case=lowercase, strip_accents=strip_accents
    )
    normalized = reference.backend_tokenizer.normalizer.normalize_str("Café")
    assert ours.normalizer.normalize_str("Café") == unicodedata.normalize("NFC", normalized)


def test_quotation_marks_belong_to_no_word():
    corpus = Corpus([["“I want to fly,” said the tortoise.", '«I» "want" 「to」 fly, don’t the tortoise\'s said']])
    learned = train_tokenizer(corpus)
    assert {"fly", "i", "want", "to", "don’t", "tortoise's"} <= learned.get_vocab().keys()
    assert not [word for word in learned.get_vocab() if set(word) & set('"“”«»「」')]
    assert learned.encode("“Fly!” ‹fly›").tokens[1:-1] == ["fly", "fly"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It cost 3.50, not 3,50 or 1,000.50.", "it cost 3.50 not 3,50 or 1,000.50"),
        ("-5 degrees (-7), then -0.5!", "-5 degrees (-7) then -0.5"),
        ("$-5, -.5 and .5; 1914-1918.", "$-5 -.5 and .5; 1914-1918"),
        ("Call 555-1234? On 2024-05-06...", "call 555-1234 on 2024-05-06"),
        ("३.५ ３．５ 1、2 2010，2011", "३.५ ３．５ 1、2 2010，2011"),
        ("He paid--5 dollars - 5 each...5", "he paid5 dollars 5 each5"),
        ("covid-19, 5-A, A-5. Well-known", "covid19 5a a5 wellknown"),
        ("1. One 2. Two 3, 4", "1 one 2 two 3 4"),
    ],
)
def test_marks_that_belong_to_a_number_are_kept(text, words):
    learned = train_tokenizer(Corpus([[text, "other words"]]))
    assert learned.encode(text, add_special_tokens=False).tokens == words.split()


def test_a_tokenizer_of_an_earlier_version_is_refused_by_a_sentence(word_tokenizer, tmp_path):
    content = json.loads(word_tokenizer.to_str())
    content["normalizer"]["normalizers"] = [
        {"type": "Lowercase"},
        {"type": "Replace", "pattern": {"Regex": "[.,!?\\-]"}, "content": ""},
    ]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"^tokenizer\.json divides .* train .* again"):
        load_tokenizer(tmp_path / "tokenizer.json", {"tokenizer_class": "PreTrainedTokenizerFast"})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("merges", None, "model.merges None"),
        ("merges", ["t##h"], "model.merges.0 't##h'"),
        ("merges", [["t", "##h", "##e"]], "model.merges.0"),
        ("merges", [["t", 1]], "model.merges.0.1 1"),
        ("merges", [["t", "h"]], "merge of 't' and 'h' does not fit"),  # the library would cut two bytes off "h"
        ("merges", [["t", "é"]], "merge of 't' and 'é' does not fit"),
        ("merges", [["t", "##"]], "does not fit"),
        ("merges", [["q", "##q"]], "does not fit"),
        ("merges", [["\ud800", "##h"]], "not valid JSON"),
        ("continuing_subword_prefix", None, "model.continuing_subword_prefix None, .*'##'"),
        ("continuing_subword_prefix", "@@", "model.continuing_subword_prefix '@@'"),
    ],
)
def test_a_bpe_with_unsupported_settings_is_refused(field, value, message, dialogue, tmp_path):
    content = json.loads(train_tokenizer(dialogue, kind="bpe", vocab_size=110).to_str())
    content["model"][field] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(tmp_path / "tokenizer.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert len(str(caught.value)) < 400


def test_a_text_without_words_or_with_wrong_settings_is_refused():
    with pytest.raises(CorpusError, match="No word occurs 3 times"):
        train_tokenizer(Corpus.from_text("a b\nb a"), min_frequency=3)
    with pytest.raises(CorpusError, match="No word"):
        train_tokenizer(Corpus.from_text("...\n!!!"))
    with pytest.raises(ConfigError, match="vocab_size is 3"):
        train_tokenizer(Corpus.from_text("a b"), vocab_size=3)
    with pytest.raises(ConfigError, match="kind is 'bytes'"):
        train_tokenizer(Corpus.from_text("a b"), kind="bytes")


def test_vocabularies_need_all_special_tokens_and_ids_without_gaps():
    with pytest.raises(CheckpointError, match="The vocabulary must have"):
        build_tokenizer({PAD: 0, UNK: 1, CLS: 2, SEP: 3, "a": 4}, Scheme())
    with pytest.raises(CheckpointError, match="The vocabulary must have"):
        build_tokenizer({**{token: index for index, token in enumerate(SPECIAL_TOKENS)}, "a": 7}, Scheme())
    with pytest.raises(CheckpointError, match="The vocabulary must have"):
        build_tokenizer({**{token: index for index, token in enumerate(SPECIAL_TOKENS)}, "a": 4}, Scheme())


@pytest.mark.parametrize("kind", ["word", "whitespace", "wordpiece", "bpe"])
def test_a_saved_tokenizer_loads_unchanged(kind, dialogue, tmp_path):
    tokenizer = train_tokenizer(dialogue, kind=kind)
    save_tokenizer(tokenizer, tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert loaded.to_str() == tokenizer.to_str()


def test_vocab_txt_is_read_line_by_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join([*SPECIAL_TOKENS, "\u2028", "hello", "é"]).encode() + b"\r\n")
    assert load_tokenizer(path, {"do_lower_case": False}).encode("hello é Hello").ids == [2, 6, 7, 1, 3]
    path.write_text("\n".join([*SPECIAL_TOKENS, "a", "a"]))
    assert load_tokenizer(path).encode("a").ids == [2, 6, 3]
    path.write_bytes(b"[PAD]\n\xff")
    with pytest.raises(CheckpointError, match=r"vocab\.txt is not UTF-8 text"):
        load_tokenizer(path)


@pytest.mark.parametrize("cls", ["BertJapaneseTokenizer", "KoBertTokenizer", "RobertaTokenizer", ["BertTokenizer"], 7])
def test_vocab_txt_of_another_tokenizer_is_refused(cls, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "日本", "##語"]), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"neither tokenizer\.json nor the vocab\.txt of a BertTokenizer"):
        load_tokenizer(tmp_path / "vocab.txt", {"tokenizer_class": cls})


@pytest.mark.parametrize(
    "flags", [{}, {"do_lower_case": False}, {"strip_accents": False}, {"tokenize_chinese_chars": False}]
)
@pytest.mark.parametrize(
    ("file", "cls"),
    [
        *(
            (file, cls)
            for file in ("tokenizer.json", "vocab.txt")
            for cls in (None, "BertTokenizer", "BertTokenizerFast")
        ),
        ("tokenizer.json", "PreTrainedTokenizerFast"),
    ],
)
def test_flags_of_tokenizer_config_mean_the_same_as_in_transformers(file, cls, flags, tmp_path):
    if file == "vocab.txt":
        (tmp_path / file).write_text("\n".join(PIECES), encoding="utf-8")
    else:
        save_tokenizer(build_tokenizer(vocabulary(), Scheme("WordPiece", "bert", lowercase=False)), tmp_path / file)
    config = {**flags, **({"tokenizer_class": cls} if cls else {})}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path / file, config)
    for text in ("Hello café CAFÉ 中文a", "UNWANTED [MASK]"):
        assert ours.encode(text).ids == theirs(text).input_ids


def _change(path: str, value: object):
    """A change to a tokenizer.json: the entry at a dotted path becomes the value."""

    def change(content: dict) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            content = content[parent]
        content[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model", None, "model None"),
        ("model.vocab", [["a", 1.0]], "model.vocab "),
        ("model.vocab", {"[PAD]": "0"}, "a whole number"),
        ("model.vocab", {"[PAD]": True}, "a whole number"),
        ("model.vocab", {"[PAD]": -1}, "must have"),
        ("model.vocab.\ud800", 99, "not valid JSON"),
        ("model.vocab.word", 10**9, "must have"),
        ("model.type", "Unigram", "model.type .*'WordPiece' or 'BPE'"),
        ("model.type", ["WordLevel"], "model.type .*'WordPiece' or 'BPE'"),
        ("model.unk_token", "<unk>", "model.unk_token '<unk>'"),
        ("normalizer", None, "normalizer None"),
        ("normalizer.type", "Precompiled", "neither as BERT nor"),
        ("normalizer.normalizers.2.pattern.Regex", "(a+)+$", "neither as BERT nor"),
        ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}}, "neither as BERT nor"),
    ],
)
def test_a_tokenizer_json_that_is_not_a_berts_is_refused(path, value, message, word_tokenizer, tmp_path):
    content = json.loads(word_tokenizer.to_str())
    # The path names an item of the list by its number.
    content["normalizer"]["normalizers"] = dict(enumerate(content["normalizer"]["normalizers"]))
    content["normalizer"]["normalizers"] = {
        str(key): step for key, step in content["normalizer"]["normalizers"].items()
    }
    _change(path, value)(content)
    if isinstance(content.get("normalizer"), dict) and "normalizers" in content["normalizer"]:
        content["normalizer"]["normalizers"] = list(content["normalizer"]["normalizers"].values())
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=message) as caught:
        load_tokenizer(tmp_path / "tokenizer.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"[]", "does not hold a JSON object"),
        (b"\x80\x04K\x01.", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a":' * 100_000, "not valid JSON"),
        (b'{"model": NaN}', "expected value"),
        (b'{"model": 1' + b"0" * 10_000 + b"}", "number out of range"),
    ],
    ids=["empty", "list", "pickle", "deep list", "deep object", "nan", "long number"],
)
def test_json_files_made_to_harm_a_reader_are_refused(data, message, tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_tokens_added_to_a_vocabulary_are_refused(word_tokenizer, tmp_path):
    content = json.loads(word_tokenizer.to_str())
    for added in ([{"id": 5, "content": "hello"}], ["hello"], "hello", [{}]):
        (tmp_path / "tokenizer.json").write_text(json.dumps({**content, "added_tokens": added}))
        with pytest.raises(CheckpointError, match=r"added_tokens|tokens beside those"):
            load_tokenizer(tmp_path / "tokenizer.json")


def test_flags_that_are_not_booleans_are_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        with pytest.raises(CheckpointError, match=r"tokenizer_config\.json has .* Input should be a valid boolean"):
            load_tokenizer(tmp_path / "vocab.txt", {name: "no"})


def test_a_word_of_a_megabyte_is_unknown():
    assert _OURS.encode("a" * 1_000_000).tokens == [CLS, UNK, SEP]


def test_a_word_with_the_name_of_a_special_token_is_no_special_token():
    tokenizer = train_tokenizer(Corpus([["a [MASK] b", "[CLS] a"]]), lowercase=False)
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert sorted(tokenizer.get_vocab().values()) == list(range(7))


def d2l_vocabulary(lines: list[str], least: int) -> dict[str, int]:
    """How often the words of the book's WikiText data set occur: `_read_wiki`, `tokenize` and `Vocab` of d2l."""
    paragraphs = [line.strip().lower().split(" . ") for line in lines if len(line.split(" . ")) >= 2]
    counts = Counter(word for paragraph in paragraphs for sentence in paragraph for word in sentence.split())
    return {word: count for word, count in counts.items() if count >= least and word != "<unk>"}


def test_the_recipe_of_the_book_has_its_words(tmp_path):
    text = " = Title , again = \n \n The <unk> cost 1 @,@ 000 , well @-@ known . It 's a Café , too . \n"
    text += " Only one , here . \n"
    text += " = = Part = = \n Well , the café . A @-@ B . <unk> <unk> . \n No end , no document \n"
    recipe = recipe_named("wikitext-d2l")
    config = vars(recipe.tokenizer) | {"min_frequency": 2}
    ours = train_tokenizer(Corpus.from_text(text, recipe.text_kind), **config)
    assert ours.get_vocab().keys() - {*SPECIAL_TOKENS} == d2l_vocabulary(text.splitlines(keepends=True), 2).keys()
    read = ours.encode("The  <unk> , @-@\tCAFÉ cafe", add_special_tokens=False).tokens
    assert read == ["the", UNK, ",", "@-@", "café", UNK]
    assert plain(ours).encode("a <unk>").ids == [ours.token_to_id("a"), ours.token_to_id(UNK)]
    save_tokenizer(ours, tmp_path / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert theirs("The <unk> , well").input_ids == ours.encode("The <unk> , well").ids
