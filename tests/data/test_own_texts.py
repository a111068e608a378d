"""Texts as people have them: in old encodings, wrapped at some width, with marks that nobody sees."""

import dataclasses
import itertools
import textwrap

import pytest

from bert_core.config import DataConfig
from bert_core.data.batches import PretrainingBatches
from bert_core.data.corpus import Corpus
from bert_core.data.decoding import ENCODINGS
from bert_core.data.encoding import encode_corpus
from bert_core.data.sentences import split_sentences
from bert_core.data.tokenizer import SPECIAL_TOKENS, train_tokenizer
from bert_core.errors import CorpusError
from bert_core.tasks.examples import load_task

# Encoding, and a text in it of one or two short sentences.
OLD_TEXTS = {
    "Polish": ("windows-1250", "Mały chłopiec poszedł dziś rano do szkoły. Wszyscy mówią, że będzie padać śnieg."),
    "Polish, short": ("windows-1250", "Książka leży na stole.\nŹrebię biegnie przez łąkę."),
    "Polish, ISO": ("iso-8859-2", "Mały chłopiec poszedł dziś rano do szkoły. Wszyscy mówią, że będzie padać śnieg."),
    "Czech": ("windows-1250", "Dnes ráno přišel náš soused a řekl, že příští týden odjíždí k moři."),
    "Slovak": ("windows-1250", "Môj brat býva v malom dome pri rieke. Včera sme celý deň čakali na vlak."),
    "Hungarian": ("windows-1250", "Őszintén szólva nem tudom, miért sírt az öreg hölgy. A könyv az asztalon van."),
    "Croatian": ("windows-1250", "Moj susjed živi u maloj kući pokraj rijeke. Što ćeš raditi sutra? Želim šetati."),
    "Slovenian": (
        "windows-1250",
        "Naša hiša stoji ob reki. Včeraj je deževalo, zato smo ostali doma in brali časopis.",
    ),
    "Romanian": ("windows-1250", "Băiatul merge la şcoală în fiecare dimineaţă. Astăzi plouă şi este frig."),
    "German": ("windows-1252", "Die Bäckerin öffnet ihren Laden früh am Morgen. Die Straße gehört den Vögeln."),
    "German, short": ("windows-1252", "Grüße aus München!\nWir fahren heute mit dem Zug nach Köln."),
    "French": ("windows-1252", "Le garçon est allé à l’école très tôt ce matin. Où est la clé ? Elle était déjà là."),
    "Spanish": ("windows-1252", "El niño llegó tarde al colegio. ¿Dónde está mañana la reunión?"),
    "Portuguese": ("windows-1252", "A manhã estava fria e as crianças não queriam sair. O avô contou uma história."),
    "Swedish": ("windows-1252", "Pojken går till skolan varje dag. Det är kallt på vintern, när nätterna är långa."),
    "Danish": ("windows-1252", "Drengen går i skole hver dag. Søen ligger bag de høje træer."),
    "Icelandic": ("windows-1252", "Drengurinn fór í skólann í morgun. Það er kalt úti og snjórinn liggur yfir öllu."),
    "English": ("windows-1252", "He said “come in” and closed the door. It wasn’t late – only six o’clock."),
    "Turkish": ("windows-1254", "Küçük çocuk bu sabah okula gitti. Hava çok soğuktu, ama güneş ışıl ışıl parlıyordu."),
    "Greek": ("windows-1253", "Το μικρό παιδί πήγε σήμερα στο σχολείο. Έξω έβρεχε και όλοι έμειναν στο σπίτι."),
    "Russian": ("windows-1251", "Мальчик сегодня утром пошёл в школу. На улице было холодно."),
    "Russian, KOI8": ("koi8-r", "Мальчик сегодня утром пошёл в школу. На улице было холодно."),
    "Russian, DOS": ("cp866", "Мальчик сегодня утром пошёл в школу. На улице было холодно."),
    "Ukrainian": ("windows-1251", "Хлопчик сьогодні вранці пішов до школи. Надворі було холодно."),
    "Bulgarian": ("windows-1251", "Момчето отиде рано на училище. Навън беше студено и никой не искаше да излиза."),
    "Hebrew": ("windows-1255", "הילד הלך הבוקר לבית הספר. בחוץ היה קר מאוד, ואף אחד לא רצה לצאת מהבית."),
    "Hebrew, short": ("windows-1255", "שלום לכולם.\nמה שלומך היום?"),
    "Arabic": ("windows-1256", "ذهب الولد إلى المدرسة في الصباح. كان الجو باردا جدا."),
    "Lithuanian": ("windows-1257", "Mažas berniukas šiandien ryte nuėjo į mokyklą. Lauke buvo labai šalta."),
    "Thai": ("windows-874", "วันนี้อากาศดีมาก เด็กเล่นอยู่ในสวน"),
    "Chinese": ("gbk", "小男孩今天早上去了学校。外面很冷，没有人想出门。"),
    "Chinese, short": ("gbk", "你好吗？\n我很好，谢谢。"),
    "Chinese of Taiwan": ("big5", "小男孩今天早上去了學校。外面很冷，沒有人想出門。"),
    "Japanese": ("shift_jis", "男の子は今朝、学校へ行きました。外はとても寒くて、だれも出かけません。"),
    "Japanese, EUC": ("euc_jp", "男の子は今朝、学校へ行きました。外はとても寒くて、だれも出かけません。"),
    "Korean": ("euc_kr", "남자아이는 오늘 아침에 학교에 갔습니다. 밖은 아주 추워서 아무도 나가지 않았습니다."),
}


@pytest.mark.parametrize("language", OLD_TEXTS)
def test_the_encoding_of_a_small_file_is_found_and_a_note_names_it_and_the_control(language):
    encoding, text = OLD_TEXTS[language]
    data = text.encode(ENCODINGS[encoding])
    corpus = Corpus.from_bytes(data, "lines")
    assert corpus == dataclasses.replace(Corpus.from_text(text, "lines", "the file"), notes=corpus.notes)
    said = f"It is not UTF-8 and was read as {encoding}; if letters are wrong, choose the encoding (--encoding)."
    assert corpus.notes == (said,)
    chosen = Corpus.from_bytes(data, "lines", encoding=encoding)
    assert (chosen.sentences, chosen.notes) == (corpus.sentences, (f"Read as {encoding}.",))


# One story, in languages whose lines begin with small letters, with capitals, or with letters that are neither.
PARAGRAPHS = {
    "English": (
        "The river rises in the mountains. It flows through three lakes before it reaches the city. In the "
        "spring the water is high, and boats can go as far as the old bridge. The bridge is made of stone. "
        "Nobody knows who built it."
    ),
    "German": (
        "Der Fluss entspringt in den Bergen. Er fließt durch drei Seen, bevor er die Stadt erreicht. Im "
        "Frühling steht das Wasser hoch, und Boote fahren bis zur alten Brücke. Die Brücke ist aus Stein. "
        "Niemand kennt den Baumeister."
    ),
    "Polish": (
        "Rzeka wypływa z gór na północy kraju. Płynie przez trzy jeziora, zanim dotrze do miasta. Wiosną "
        "woda jest wysoka, więc łodzie mogą płynąć aż do starego mostu. Most jest z kamienia. Nikt nie wie, "
        "kto go zbudował."
    ),
    "Greek": (
        "Το ποτάμι πηγάζει από τα βουνά. Περνάει από τρεις λίμνες πριν φτάσει στην πόλη. Την άνοιξη τα νερά "
        "είναι ψηλά και οι βάρκες φτάνουν ως την παλιά γέφυρα. Η γέφυρα είναι πέτρινη. Κανείς δεν ξέρει "
        "ποιος την έχτισε."
    ),
    "Russian": (
        "Река берёт начало в горах. Она течёт через три озера, прежде чем достигает города. Весной вода "
        "стоит высоко, и лодки доходят до старого моста. Мост сложен из камня. Никто не знает, кто его "
        "построил."
    ),
    "Hindi": (
        "यह नदी पहाड़ों से निकलती है। शहर तक पहुँचने से पहले वह तीन झीलों से होकर बहती है। वसंत में पानी "
        "ऊँचा रहता है और नावें पुराने पुल तक जा सकती हैं। पुल पत्थर का बना है। कोई नहीं जानता कि उसे किसने "
        "बनाया।"
    ),
    "Arabic": (
        "ينبع النهر من الجبال في شمال البلاد. يمر عبر ثلاث بحيرات قبل أن يصل إلى المدينة. في الربيع يرتفع "
        "الماء وتستطيع القوارب أن تصل إلى الجسر القديم. الجسر مبني من الحجر. لا يعرف أحد من بناه."
    ),
    "Korean": (
        "강은 북쪽 산에서 시작된다. 도시에 닿기 전에 세 개의 호수를 지나 흐른다. 봄에는 물이 높아서 배가 "
        "오래된 다리까지 갈 수 있다. 다리는 돌로 만들어졌다. 누가 그것을 지었는지 아무도 모른다."
    ),
    "Vietnamese": (
        "Con sông bắt nguồn từ những ngọn núi. Nó chảy qua ba cái hồ trước khi đến thành phố. Vào mùa xuân "
        "nước dâng cao và thuyền có thể đi đến cây cầu cũ. Cây cầu làm bằng đá. Không ai biết người nào đã "
        "xây nó."
    ),
    "Chinese": (
        "这条河从北方的山里流出来。它流过三个湖，然后才到达城市。春天的时候水位很高，船可以一直开到那座古老的"
        "石桥旁边。桥是用石头做的。没有人知道是谁修建了它。老人们说，从前每到夏天的夜晚，孩子们都会在桥上听故"
        "事。"
    ),
    "Japanese": (
        "その川は北の山から流れ出している。町に着くまでに三つの湖を通り抜けて流れていく。春になると水かさが増"
        "して、舟は古い橋のところまで行くことができる。橋は石でできている。だれがそれを造ったのかを知る人はも"
        "ういない。"
    ),
}
UNSPACED = ("Chinese", "Japanese")


def wrapped(paragraph: str, language: str, width: int) -> str:
    """A paragraph in lines of `width` columns."""
    if language in UNSPACED:
        return "\n".join(paragraph[start : start + width // 2] for start in range(0, len(paragraph), width // 2))
    return textwrap.fill(paragraph, width)


WRAPPED = "Read as wrapped: the lines up to a blank line are joined and divided into sentences."
LINES = "Read as lines: each line is a sentence."
DOCUMENTS = "Read as documents: each line is a paragraph, which is divided into sentences."


@pytest.mark.parametrize("language", PARAGRAPHS)
@pytest.mark.parametrize("width", [40, 60])
def test_wrapped_paragraphs_have_the_sentences_of_the_same_text_unwrapped(language, width):
    paragraph = PARAGRAPHS[language]
    text = "\n\n".join([wrapped(paragraph, language, width)] * 3)
    corpus = Corpus.from_text(text)
    assert corpus.documents == [split_sentences(paragraph)] * 3
    assert corpus.notes[0].startswith(WRAPPED)
    lines = Corpus.from_text(text, "lines")
    assert len(lines.sentences) == len([line for line in text.split("\n") if line])
    assert not any(note.startswith("Read as") for note in lines.notes), "it was chosen"


@pytest.mark.parametrize("language", PARAGRAPHS)
def test_a_sentence_a_line_stays_so_and_a_paragraph_a_line_is_divided(language):
    sentences = split_sentences(PARAGRAPHS[language])
    for lines in (sentences, [sentence.rstrip(".。।") for sentence in sentences]):
        corpus = Corpus.from_text("\n".join(lines))
        assert corpus.documents == [lines]
        assert corpus.notes[0].startswith(LINES)
    corpus = Corpus.from_text("\n".join([PARAGRAPHS[language]] * 2))
    assert corpus.documents == [sentences * 2]
    assert corpus.notes[0].startswith(DOCUMENTS)


MESSAGES = """\
are you still at work or can i call you for a minute
i have lost the key of the cellar again, do you have yours
no but ask the neighbours, i think that they have a spare one
ok thanks. i will try
and do not forget that the plumber comes on friday at eight
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (MESSAGES, "lines"),
        ("床前明月光，疑是地上霜。\n举头望明月，低头思故乡。\n", "lines"),
        ("one two three four five\n" * 7, "lines"),
        ("One. Two. Three.\n" * 5, "lines"),
        ("One. Two. Three. Four.\n" * 5, "documents"),
        ("'Come in,' he said.\n\n'It is late.'\n\nShe sat. He stood. Nobody spoke. Then it rained.", "documents"),
        ("'Come in,' he said.\n\nYes.\n\n'It is late.'\n\nNo.\n\nShe sat. He stood. Nobody spoke. It rained.", "lines"),
        ("The house was\nold. Nobody\nlived in it.", "wrapped"),
        ("The house was\n\nold. Nobody\n\nlived in it.", "lines"),
        ("so many words " * 20 + "\nand a mark\nat the end.", "lines"),
        ("太阳出来了\n狗叫了。谁在\n那儿？没人知道", "wrapped"),
        ("www.example.org/a\nwww.example.org/b\nwww.example.org/c", "lines"),
        ("วันนี้อากาศดีมาก\nเด็กเล่นอยู่ในสวน\nฉันไปตลาด", "lines"),
    ],
)
def test_what_auto_stands_for(text, kind):
    corpus = Corpus.from_text(text)
    assert corpus.notes[0].startswith(f"Read as {kind}: ")
    assert corpus.notes[0].endswith(" If that is wrong, choose another kind of text (--kind).")
    assert corpus.documents == Corpus.from_text(text, kind).documents


def test_the_first_thousand_lines_decide():
    lines, paragraph = "A line.\n" * 999, "One. Two. Three. Four.\n"
    assert Corpus.from_text(lines + paragraph * 999).notes[0].startswith(LINES)
    assert Corpus.from_text(lines[:400] + paragraph * 999).notes[0].startswith(DOCUMENTS)


def test_blank_lines_end_documents_in_each_kind():
    text = "One. Two\nmore.\n \n\nThree.\n"
    assert Corpus.from_text(text, "lines").documents == [["One. Two", "more."], ["Three."]]
    assert Corpus.from_text(text, "documents").documents == [["One.", "Two", "more."], ["Three."]]
    assert Corpus.from_text(text, "wrapped").documents == [["One.", "Two more."], ["Three."]]


def test_what_is_no_prose_stays_as_it_is():
    """A line of DNA is no heading, and Python is no Markdown."""
    dna = "ACGTGACA\nGGATCACAGTCTACACTGCTCACTCCAACCGATTACA\nTTGACC"
    assert Corpus.from_text(dna).documents == [dna.split("\n")]
    code = "# Add\n\ndef add(a, b):\n    return a + b\n"
    assert Corpus.from_text(code, "lines").documents == [["# Add"], ["def add(a, b):", "return a + b"]]


def test_what_stands_twice_is_counted():
    talk = "good morning\ntwo rolls please\nhere you are\n"
    assert Corpus.from_text(talk * 4, "lines").notes == ("Sentences that stand further up already: 9 of 12.",)
    assert Corpus.from_text(talk, "lines").notes == ()
    many = "".join(f"line {i}\n" for i in range(150)) + "line 3\n"
    assert Corpus.from_text(many, "lines").notes == (), "one of a hundred is said"
    pairs = "one\ttwo\t1\nthree\ttwo\t0\none\ttwo\t1\n"
    assert Corpus.from_text(pairs, "pairs").notes == ("Pairs that stand further up already: 1 of 3.",)


def test_control_characters_are_left_out_of_a_text_and_counted():
    data = b"The exam\x02ple was very long, and we knew it.\nIt had a sec\x02ond pa\x7frt.\x1b\n"
    corpus = Corpus.from_bytes(data, "lines")
    assert corpus.sentences == ["The example was very long, and we knew it.", "It had a second part."]
    assert corpus.notes == ("Controls and characters without width left out: 4.",)
    assert Corpus.from_text("a long li\x02ne of text") == Corpus.from_text("a long line of te\x02xt")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("\ufeffone\n\ufefftwo", "one\ntwo"),
        ("Donau\xaddampf\xadschiff", "Donaudampfschiff"),
        ("a\u200bb c\u2060d \u202ae\u202c \u2066f\u2069", "ab cd e f"),
        ("\u200fשלום\u200f \u200eabc", "שלום abc"),
        ("Auf\u200clage", "Auflage"),
        *((kept, kept) for kept in ("می\u200cخواهم", "क्\u200dष क्\u200cष", "👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥")),
    ],
)
def test_marks_without_width_are_taken_out_of_words_except_joiners_that_belong_to_them(text, read, tmp_path):
    corpus = Corpus.from_text(text, "lines")
    assert "\n".join(corpus.sentences) == read
    assert len(corpus.notes) == (text.removeprefix("\ufeff") != read)
    path = tmp_path / "task.tsv"
    line = text.replace("\n", " ")
    path.write_text(f"{line}\tyes\ngood\tno\nfine\tyes\n", encoding="utf-8")
    assert load_task(path, "text-classification").examples[0].texts == (read.replace("\n", " "),)


@pytest.mark.parametrize(
    "sentences",
    [
        ["In Smith v. Jones the court held that Art. 5 applied.", "Acme Inc. and Beta Corp. appealed in Jan. 2001."],
        ["See Fig. 3 and sec. 12.", "The op. cit. is of Sept. 1999, c. 40 pages, by Roe et al. of Bonn."],
        ["Es geschah am 3. Mai unter Heinrich III. von Bayern.", "Siehe Abb. 7 und Bd. 2."],
        ["The war ended in 1918.", "1919 was cold.", "It snowed in Ireland.", "25 people died."],
        ["the text is in small letters.", "its sentences end.", "12 of them do."],
        ["i like NASA.", "it is good."],
        ["1. Grate the cheese.", "2. Cut it.", "10. Eat."],
        ["1. Mix.", "2. Cut!", "3. Eat."],
        ["1.) Grate.", "2.) Cut."],
        ["(1. Grate.)", "2. Cut."],
        ["a. Grate.", "b. Cut."],
        ["I. Methods.", "II. Results.", "III. End."],
        ["1.1. Scope.", "1.2. Terms."],
        ["1. Раз.", "2. Два."],
        ["Is it late?", "No.", "Are you tired?"],
        ["He lives at No. 5.", "No, not there."],
        ["the house is no. 5 there.", "no.", "it is not."],
        ["¿Vienes?", "No.", "Estoy cansado."],
        ["We buy apples, pears, etc.", "Then we go."],
        ["Er mag Äpfel usw.", "Dann geht er."],
        ["I saw it.", "12 dogs ran."],
    ],
)
def test_a_full_stop_before_a_small_letter_ends_no_sentence_where_sentences_begin_with_capitals(sentences):
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize(("kind", "lowercase"), [*itertools.product(("word", "wordpiece", "bpe"), (True, False))])
def test_a_special_token_in_a_text_is_a_word_and_typed_by_a_person_it_is_the_token(kind, lowercase):
    corpus = Corpus([["The [SEP] and [MASK], or x[MASK]y", "A [CLS] or [PAD]. 中[SEP]文 ก[MASK]ก"]])
    tokenizer = train_tokenizer(corpus, kind=kind, lowercase=lowercase)
    special = {tokenizer.token_to_id(token) for token in SPECIAL_TOKENS if token != "[UNK]"}
    assert special.isdisjoint(encode_corpus(corpus, tokenizer).ids.tolist())
    assert tokenizer.token_to_id("[MASK]") in tokenizer.encode("the [MASK]").ids


def test_a_text_without_neighbours_is_refused_with_the_remedy():
    corpus = Corpus.from_text("One line here.\n\nAnother line here.\n\nA third line here.\n")
    tokenizer = train_tokenizer(corpus)
    with pytest.raises(CorpusError, match=r"no two neighbours in a document .* Take out blank lines"):
        PretrainingBatches(encode_corpus(corpus, tokenizer), tokenizer, DataConfig())
    corpus = Corpus.from_text("One line here.\nAnother line here.\n")
    with pytest.raises(CorpusError, match=r"fit into 8 tokens.*raise sequence_length"):
        PretrainingBatches(
            encode_corpus(corpus, tokenizer), tokenizer, DataConfig(sequence_length=8, long_pairs="drop")
        )
