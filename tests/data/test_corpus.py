"""From bytes to sentences: encodings, limits, and where a sentence ends."""

import bz2
import codecs
import dataclasses
import gzip
import itertools
import lzma
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_core.config import CORPUS_KINDS, PUBLIC
from bert_core.data import corpus as corpus_module
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.data.decoding import ENCODINGS
from bert_core.data.sentences import split_sentences
from bert_core.errors import ConfigError, CorpusError


def test_a_line_is_a_sentence_and_a_blank_line_ends_a_document():
    corpus = Corpus.from_text("  Hello,\tthere. \nHow are   you?\n\n \nFine.\r\nThanks.\n", "lines")
    assert corpus.documents == [["Hello, there.", "How are you?"], ["Fine.", "Thanks."]]
    assert corpus.sentences == ["Hello, there.", "How are you?", "Fine.", "Thanks."]
    assert corpus.notes == ()


def test_documents_are_split_into_sentences():
    corpus = Corpus.from_text("Dr. Jekyll left. Who came in?\nMr. Hyde!\n\nThe end.", "documents")
    assert corpus.documents == [["Dr. Jekyll left.", "Who came in?", "Mr. Hyde!"], ["The end."]]


@pytest.mark.parametrize(
    ("paragraph", "sentences"),
    [
        ("", []),
        ("No end", ["No end"]),
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("(So it is.) And so on.", ["(So it is.)", "And so on."]),
        (
            "Mrs. Smith met J. R. Doe, e.g. at St. James, vs. Prof. X. Y.",
            ["Mrs. Smith met J. R. Doe, e.g. at St. James, vs. Prof. X. Y."],
        ),
        ("3.14 is pi. 2.71 is e.", ["3.14 is pi.", "2.71 is e."]),
        ("第一句。第二句！第三句？", ["第一句。", "第二句！", "第三句？"]),
        ("Wait... what?", ["Wait...", "what?"]),
    ],
)
def test_sentences_end_at_their_marks(paragraph, sentences):
    assert split_sentences(paragraph) == sentences


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab AB.!?…。'\")]é Dr. 1;»«“”」؟।中とไกๆໜក-"), max_size=60))
def test_splitting_removes_only_white_space(paragraph):
    sentences = split_sentences(paragraph)
    assert "".join("".join(sentences).split()) == "".join(paragraph.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_byte_order_mark_selects_the_encoding_and_a_note_names_it(encoding):
    mark = "\ufeff" if "-" in encoding[4:] and encoding != "utf-8-sig" else ""
    corpus = Corpus.from_bytes(f"{mark}Grüße, 世界 👍\nשלום".encode(encoding), "lines")
    assert corpus.sentences == ["Grüße, 世界 👍", "שלום"]
    said = f"It is not UTF-8 and was read as {encoding[:6]}; if letters are wrong, choose the encoding (--encoding)."
    assert corpus.notes == ((said,) if mark else ())


@pytest.mark.parametrize(
    "data",
    [
        *(b"abc\x81", b"one\nab\x00cd", "é\x00".encode(), b"\x89PNG\r\n\x1a\n", b"BZhang wrote\xff", b"a\xed\xa0\x80"),
        *(gzip.compress(b"Hello there.\n", mtime=0), lzma.compress(b"Hello there.\n"), bz2.compress(b"Hello there.\n")),
        *(codecs.BOM_UTF8 + b"ab\x00", codecs.BOM_UTF8 + b"a\xff", codecs.BOM_UTF16_LE + b"a\x00\x00\x00"),
    ],
)
def test_a_file_that_is_not_text_is_refused(data):
    with pytest.raises(CorpusError, match="the file is not plain text; save it as UTF-8 text, or choose"):
        Corpus.from_bytes(data)


# A page of each language in the encoding that its programs wrote before UTF-8.
OLD_FILES = {
    "gbk": ("gb18030", "他在北京的大学里学习了四年。现在他是一家公司的经理，每天都要开会。\n"),
    "big5": ("cp950", "我們從哪裡來？他說這個問題沒有人能回答。可是大家都想知道為什麼。\n"),
    "shift_jis": ("cp932", "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n"),
    "euc_jp": ("euc_jp", "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n"),
    "euc_kr": ("cp949", "나는 학교에 갑니다. 오늘은 날씨가 좋고 하늘이 아주 맑습니다.\n"),
    "windows-1252": ("cp1252", "L’été à Genève, Zoë a mangé des pâtés. Die Straße führt über Köln.\n"),
    "windows-1254": ("cp1254", "Güneş doğdu, çocuklar okula gidiyor. İyi akşamlar, nasılsınız?\n"),
    "windows-1253": ("cp1253", "Το παιδί πηγαίνει στο σχολείο. Η θάλασσα είναι πολύ όμορφη σήμερα.\n"),
    "windows-1251": ("cp1251", "Все счастливые семьи похожи друг на друга, каждая несчастлива по-своему.\n"),
    "windows-1250": ("cp1250", "Żółta łódź płynie po rzece, a dzieci śpią. Źrebię biegnie przez łąkę.\n"),
    "windows-1255": ("cp1255", "הילד הלך הבוקר לבית הספר. בחוץ היה קר מאוד.\n"),
    "windows-1256": ("cp1256", "ذهب الولد إلى المدرسة في الصباح. كان الجو باردا جدا.\n"),
    "windows-1257": (
        "cp1257",
        "Mazais zēns šorīt gāja uz skolu. Ārā bija ļoti auksts, un neviens negribēja iet ārā.\n",
    ),
    "windows-1258": ("cp1258", "Trơ\u0300i hôm nay râ\u0301t đe\u0323p. Ba\u0323n co\u0301 khoe\u0309 không?\n"),
    "windows-874": ("cp874", "วันนี้อากาศดีมาก เด็กเล่นอยู่ในสวน\n"),
    "iso-8859-2": ("iso8859-2", "Dziś mały ślimak poszedł ścieżką. Wszyscy mówią, że będzie padać śnieg.\n"),
    "koi8-r": ("koi8-r", "Мальчик сегодня утром пошёл в школу. На улице было холодно.\n"),
    "cp866": ("cp866", "Мальчик сегодня утром пошёл в школу. На улице было холодно.\n"),
    "utf-16": ("utf-16", "Grüße, 世界 👍\n"),
    "utf-32": ("utf-32", "Grüße, 世界 👍\n"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_file_that_is_not_utf_8_is_read_as_what_it_likely_is(name, tmp_path):
    codec, line = OLD_FILES[name]
    path = tmp_path / "old.txt"
    path.write_bytes(("Plain letters\n" + line).encode(codec))
    for corpus in (read_corpus(path, kind="lines"), read_corpus(path, kind="lines", encoding=name)):
        assert corpus.sentences == ["Plain letters", line.strip()]
        assert name in corpus.notes[0]


def test_an_encoding_is_one_of_a_list_and_fits_the_file():
    with pytest.raises(ConfigError, match="encoding 'punycode' is unknown; it can be one of: gbk, big5"):
        Corpus.from_bytes(b"abc", encoding="punycode")
    with pytest.raises(CorpusError, match="is not plain text") as caught:
        Corpus.from_bytes(b"abc\n\xff", encoding="euc_kr")
    assert caught.value.notes == ["Read as euc_kr."]
    with pytest.raises(CorpusError, match="not plain text"):
        Corpus.from_bytes(b"a\x00", encoding="windows-1252")


@pytest.mark.parametrize("codec", ["cp850", "utf-16-le", "cp037"])
def test_of_a_file_in_another_encoding_or_a_damaged_one_nothing_is_guessed(codec):
    with pytest.raises(CorpusError, match="not plain text"):
        Corpus.from_bytes("Größe, Über, été, élan".encode(codec))
    with pytest.raises(CorpusError, match="not plain text"):
        Corpus.from_bytes("été, ".encode() * 20 + b"\xe9t\xe9 ")


def test_a_lone_surrogate_is_a_damaged_character():
    corpus = Corpus.from_text("hello \ud83d there", "lines")
    assert corpus.sentences == ["hello \ufffd there"]
    assert corpus.notes == ("Characters that were damaged before: 1.",)


@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\u2028\u3000", "\ufeff"])
def test_an_empty_text_is_refused(text):
    with pytest.raises(CorpusError, match="is empty; type or paste at least two sentences"):
        Corpus.from_text(text)


def test_a_byte_order_mark_in_a_pasted_text_is_ignored():
    assert Corpus.from_text("\ufeffHello there").sentences == ["Hello there"]


def test_long_words_are_cut_and_counted_in_a_note():
    corpus = Corpus.from_text("a " + "b" * 101 + "\n" + "c" * 100 + "\n" + "d" * 1_000_000)
    assert corpus.sentences == ["a " + "b" * 100, "c" * 100, "d" * 100]
    assert corpus.notes[0] == "Words cut after 100 characters: 2; >99% of the text is left out."
    little = Corpus.from_text(f"{'a b ' * 500}{'c' * 300}", "lines")
    assert little.notes == ("Words cut after 100 characters: 1; 9% of the text is left out.",)


def test_only_letters_of_scripts_with_spaces_are_cut():
    address = "https://example.org/" + "a/b-c_d" * 40
    scripts = ["语" * 300, "ひらがな" * 50, "ภาษา" * 50, "ខ្មែរ" * 50, "မြန်မာ" * 50]
    text = "\n".join([address, *scripts, "x" * 99 + "语" * 300 + "y" * 101, "%" * 1001])
    corpus = Corpus.from_text(text, "lines")
    assert corpus.sentences == [address, *scripts, "x" * 99 + "语" * 300 + "y" * 100, "%" * 100]
    assert corpus.notes[0].startswith("Words cut after 100 characters: 2; ")


@pytest.mark.parametrize(
    "text",
    [
        *("x" * 500_000, "a. " * 50_000, "." * 100_000, "J. " * 50_000, "'" * 100_000 + ".\n", "." + ")" * 50_000),
        *(".)" * 30_000, "。」" * 30_000, "!?" * 30_000, "中" * 100_000, "1. " * 30_000, "ก " * 30_000, "…“" * 30_000),
    ],
)
def test_odd_texts_take_no_more_than_seconds(text):
    start = time.process_time()
    Corpus.from_text(text, "documents")
    assert time.process_time() - start < 5


@pytest.mark.parametrize("line", ["= " * 10_000 + "x", "= " * 10_000, "=" * 10_000 + "x ="])
def test_headings_of_wikitext_are_found_in_linear_time(line):
    start = time.process_time()
    assert Corpus.from_text(f"{line}\na b . c d .\n", "wikitext").documents == [["a b", "c d ."]]
    assert time.process_time() - start < 5


def test_a_path_is_read_and_other_strings_are_texts(tmp_path):
    path = tmp_path / "my text.txt"
    path.write_text("One\nTwo", encoding="utf-8")
    assert read_corpus(path).sentences == read_corpus(str(path)).sentences == ["One", "Two"]
    assert read_corpus(path).name == "my text.txt"
    assert read_corpus("One\nTwo\nThree").sentences == ["One", "Two", "Three"]
    assert Corpus.from_text(str(path)).sentences == [str(path)]
    with pytest.raises(CorpusError, match="cannot be read"):
        read_corpus(tmp_path / "nothing.txt")
    with pytest.raises(ConfigError, match="kind 'poem' is unknown"):
        Corpus.from_text("a", "poem")


def test_several_files_and_a_folder_are_one_text_in_order(tmp_path, monkeypatch):
    folder = tmp_path / "books"
    (folder / "older").mkdir(parents=True)
    with pytest.raises(CorpusError, match="no file of text"):
        read_corpus(folder)
    for name, text in {"p2": "Five\nSix", "p1": "One\n\nTwo\nThree", "p3": " \n", ".hidden": "Never\nNever"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    corpus = read_corpus(folder)
    assert corpus.documents == [["One"], ["Two", "Three"], ["Five", "Six"]]
    assert corpus.name == "p1, p2, p3"
    assert corpus.notes[0] == "Files read, in this order: p1, p2, p3."
    turned = read_corpus([folder / "p2", str(folder)])
    assert turned.documents == [["Five", "Six"], ["One"], ["Two", "Three"], ["Five", "Six"]]
    assert "Sentences that stand further up already: 2 of 7." in turned.notes
    assert read_corpus([folder / "p1"]).documents == read_corpus(folder / "p1").documents
    assert read_corpus(str(folder), most_documents=2).documents == corpus.documents[:2]
    with pytest.raises(CorpusError, match=r"The file .*p5 cannot be read"):
        read_corpus([folder, folder / "p5"])
    (folder / "p4").write_bytes("Мама мыла раму, а папа читал газету".encode("cp1251"))
    assert any(note.startswith("p4: It is not UTF-8") for note in read_corpus(folder).notes)
    (folder / "p5").write_bytes(b"\0\1\2")
    with pytest.raises(CorpusError, match=r"^p5 is not plain text"):
        read_corpus(folder)


def test_pairs_in_several_files_have_labels_in_all_or_none(tmp_path):
    quality = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\tthree\tfour\n"
    for name, text in {"a": "one\ttwo\t1", "b": quality, "c": "five\tsix\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError, match=r"is not a pair; .* It is 'five\\tsix'"):
        read_corpus(tmp_path, kind="pairs")
    (tmp_path / "c").unlink()
    both = read_corpus(tmp_path, kind="pairs")
    assert (both.documents, both.labels) == ([["one", "two"], ["three", "four"]], [True, False])


@pytest.mark.parametrize("kind", CORPUS_KINDS)
def test_the_text_of_a_corpus_is_read_as_the_same_corpus(kind, tmp_path):
    text = "One two. Three?\tfour five\n  And\u2028 six\tseven! Eight \n"
    texts = {"pairs": text, "wikitext": " a . b . c \n = d = \n e . f \n"}
    corpus = Corpus.from_text(texts.get(kind, text + "\n\n" + text * 2), kind)
    (tmp_path / "again.txt").write_text(corpus.text, encoding="utf-8", newline="")
    again = read_corpus(tmp_path / "again.txt", kind="pairs" if "\t" in corpus.text else "lines")
    assert again.fingerprint == corpus.fingerprint


def test_wikitext_lines_with_the_end_of_a_sentence_are_documents():
    text = " = Title = \n \n One two . Three four . \n A single sentence . \n = = Part = = \n a = b . c . d . \n"
    corpus = Corpus.from_text(text, "wikitext")
    assert corpus.documents == [["One two", "Three four ."], ["A single sentence ."], ["a = b", "c", "d ."]]


def test_lines_of_two_texts_are_pairs_of_neighbours():
    """As in the corpus of codertimo's BERT-pytorch."""
    text = "Welcome to the\tthe jungle\n\nI can stay\there all night\n"
    found = Corpus.from_text(text, "pairs")
    assert (found.labels, found.notes) == (None, ())
    assert found.documents == [["Welcome to the", "the jungle"], ["I can stay", "here all night"]]
    for mixed in (f"{text}one\ttwo\t1\n", "one two\tthree\t1\nfour\tfive\n", f"{text}no tab here\n", "a\tb\t2\n"):
        with pytest.raises(CorpusError, match=r"is not a pair; .* on all lines two texts"):
            Corpus.from_text(mixed, "pairs")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_other_separators_of_lines_end_no_pair(end):
    text = end.join(["the dog\u2028ran\tit\x85ran\t1", "", "we\x0csang\tit\u2029rained\t0", ""])
    assert Corpus.from_text(text, "pairs").labels == [True, False]
    assert Corpus.from_bytes(text.encode(), "pairs").documents[0] == ["the dog\u2028ran", "it\x85ran"]


def test_pairs_are_three_columns_or_those_of_mrpc():
    corpus = Corpus.from_text("one\ttwo\t1\n\nthree\tfour\t0\n", "pairs")
    assert corpus.documents == [["one", "two"], ["three", "four"]]
    assert corpus.labels == [True, False]
    mrpc = Corpus.from_text("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta b\tb a\n", "pairs")
    assert (mrpc.documents, mrpc.labels) == ([["a b", "b a"]], [True])
    with pytest.raises(CorpusError, match="Line 2 of the text is not a pair"):
        Corpus.from_text("one\ttwo\t1\none two 1\n", "pairs")


def test_a_text_is_split_in_order_between_documents_or_sentences():
    one = Corpus([[f"s{i}" for i in range(25)]])
    parts = one.split(0.16, 0.2)
    assert [part.sentences for part in parts] == [one.sentences[:16], one.sentences[16:20], one.sentences[20:]]
    many = Corpus([[f"a{i}", f"b{i}"] for i in range(10)], labels=[True, False] * 5)
    first, rest = many.split(0.3)
    assert (first.documents, rest.documents) == (many.documents[:7], many.documents[7:])
    assert rest.labels == many.labels[7:]
    assert many.first(3).labels == many.labels[:3]
    with pytest.raises(CorpusError, match="too short to be split"):
        Corpus([["a", "b", "c"]]).split(0.2)


@pytest.mark.parametrize(
    ("lengths", "training", "held_out"),
    [
        ([2] * 8 + [1000], [2] * 8 + [898], [102]),
        ([1000] + [2] * 8, [914], [86, *[2] * 8]),
        ([2000] * 7, [2000] * 6, [2000]),  # 14 % instead of 10 %
        ([3000, 3000], [3000, 2400], [600]),
        ([1] * 50 + [10, 40], [1] * 50 + [10, 30], [10]),
        ([90, 4, 6], [90], [4, 6]),
    ],
)
def test_the_shares_are_of_the_sentences_and_a_long_document_is_cut(lengths, training, held_out):
    words = (f"s{i}" for i in itertools.count())
    corpus = Corpus([list(itertools.islice(words, length)) for length in lengths])
    parts = corpus.split(0.1)
    assert [[*map(len, part.documents)] for part in parts] == [training, held_out]
    assert [*parts[0].sentences, *parts[1].sentences] == corpus.sentences


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.floats(0.01, 0.5), st.floats(0, 0.5))
def test_every_part_of_a_split_has_about_its_share_of_the_sentences(lengths, validation, test):
    corpus = Corpus([[f"{d}-{i}" for i in range(length)] for d, length in enumerate(lengths)])
    shares = [share for share in (validation, test) if share]
    try:
        parts = corpus.split(*shares)
    except CorpusError:
        return
    assert [sentence for part in parts for sentence in part.sentences] == corpus.sentences
    wanted = [share * len(corpus.sentences) for share in (1 - sum(shares), *shares)]
    for part, size in zip(parts, wanted):
        assert abs(len(part.sentences) - size) < min(wanted) + 1
        assert {sentence.split("-")[0] for sentence in part.sentences} == {d[0].split("-")[0] for d in part.documents}


def test_a_part_keeps_documents_and_their_labels() -> None:
    corpus = Corpus([["a", "b", "c"], ["d", "e", "f", "g"], ["h", "i"]])
    assert corpus.part(0, 5).documents == [["a", "b", "c"], ["d", "e"]]
    assert corpus.part(2, 3).documents == [["c"]]
    assert corpus.part(3, 7).documents == [["d", "e", "f", "g"]]
    assert corpus.part(0, 99) == corpus
    pairs = Corpus([["a", "b"], ["c", "d"], ["e", "f"]], labels=[True, False, True])
    assert pairs.part(0, 5) == Corpus([["a", "b"], ["c", "d"]], labels=[True, False])


def test_a_text_is_read_in_part_and_has_to_be_above_a_size(monkeypatch, tmp_path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("one\ntwo\n\n\nthree\n\nfour\nfive\n" * 9)
    assert read_corpus(path, kind="lines", most_documents=2).documents == [["one", "two"], ["three"]]
    assert read_corpus(path.read_text(), kind="lines", most_documents=1).documents == [["one", "two"]]
    pairs = read_corpus("one\ttwo\t1\nthree\tfour\t0\n" * 9, kind="pairs", most_documents=3)
    assert (len(pairs.documents), pairs.labels) == (3, [True, False, True])
    monkeypatch.setattr(corpus_module, "WHOLE_BYTES", 100)
    with pytest.raises(CorpusError, match=r"long\.txt has more than 0 kB; use a part of it, or say in a training with"):
        read_corpus(path, kind="lines")
    part = read_corpus(path, kind="lines", most_documents=2)
    assert len(part.documents) == 2
    assert part.notes[0] == "Of long.txt, the first 0 kB are read."


def test_two_texts_have_the_same_fingerprint_only_if_they_have_the_same_sentences_documents_and_labels() -> None:
    texts = [[["a", "b"]], [["a"], ["b"]], [["a\nb"]], [["ab"]], [["a", "b", ""]], [["\ud800", "b"]]]
    corpora = [*map(Corpus, texts), Corpus([["a", "b"]], labels=[True]), Corpus([["a", "b"]], labels=[False])]
    assert len({corpus.fingerprint for corpus in corpora}) == len(corpora)
    assert Corpus([["a", "b"]], "another name").fingerprint == corpora[0].fingerprint


def test_a_strangers_text_has_a_limit_on_bytes_lines_and_marks():
    few = dataclasses.replace(PUBLIC, items=10)
    assert len(Corpus.from_text("One. Two.\n" * 3, "lines", limits=few).sentences) == 3
    for kind in CORPUS_KINDS:
        with pytest.raises(CorpusError, match="has more than 10 lines and sentence marks, the limit here"):
            Corpus.from_text("One. Two.\n" * 4, kind, limits=few)
    with pytest.raises(CorpusError, match="10 MB; the limit is 5 MB"):
        Corpus.from_bytes(b"\xff " * PUBLIC.upload_bytes, limits=PUBLIC)
    with pytest.raises(CorpusError, match="the limit is 5 MB"):
        Corpus.from_text("a " * PUBLIC.upload_bytes, limits=PUBLIC)


def test_a_text_that_is_not_wikitext_is_not_called_empty():
    with pytest.raises(CorpusError, match=r"Your text has no wikitext: each line .* Choose another kind of text"):
        Corpus.from_text("Hello there. How are you?\n", "wikitext", "Your text")
    with pytest.raises(CorpusError, match="is empty"):
        Corpus.from_text(" \n", "wikitext")


@pytest.mark.parametrize("pairs", [1, 4, 6, 7, 9, 11])
@pytest.mark.parametrize("needs_pairs", [False, True])
@pytest.mark.parametrize("shares", [(0.1,), (0.3, 0.2)])
def test_a_split_never_divides_a_labelled_pair(pairs, needs_pairs, shares):
    text = "".join(f"cat number {n}\tdog number {n}\t{n % 2}\n" for n in range(pairs))
    corpus = Corpus.from_text(text, "pairs", "pairs.tsv")
    if min(shares) * pairs < 0.5:
        with pytest.raises(CorpusError, match="too short to be split; set validation_share and test_share to 0"):
            corpus.split(*shares, needs_pairs=needs_pairs)
        return
    parts = corpus.split(*shares, needs_pairs=needs_pairs)
    assert [document for part in parts for document in part.documents] == list(corpus.documents)
    assert [label for part in parts for label in part.labels] == list(corpus.labels)
    assert all(len(part.labels) == len(part.documents) > 0 for part in parts)
