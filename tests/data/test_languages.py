"""Texts in many scripts: every sentence is found, no character is lost, and every word can be read and masked."""

import re
import unicodedata

import pytest

from balcony.frame.masking import mask_words
from balcony.frame.question import Question
from balcony.train.preview import preview
from bert_core.config import BertConfig
from bert_core.data.corpus import Corpus
from bert_core.data.sentences import split_sentences
from bert_core.data.tokenizer import DROPPED_MARKS, MASK, UNK, train_tokenizer
from bert_core.model import BertForPreTraining
from bert_core.probes.attention import attention
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.reading import read_words, unknown_words
from bert_core.runs.recipe import recipe_named
from bert_core.storage.checkpoint import Checkpoint

SENTENCES = {
    "English": [
        "Dr. Lee lives at No. 5.",
        '"Come in!" she said.',
        "It cost 3.50 in 1990.",
        "He left at 5 p.m.",
        "Why not?",
        "Sgt. Hill met Gov. Brown and Sen. Ford.",
        "I see…",
    ],
    "German": ["Am 3. Oktober regnete es.", "Er rief: „Halt!“", "Es gibt z. B. Äpfel, ca. 20 kg.", "Ja, d. h. Nein."],
    "French": ["« Où vas-tu ? »", "Elle rit.", "M. Dupont et le prof. Petit voient Mlle. Roux.", "Il l’a vu !"],
    "Spanish": ["¿Adónde vas?", "La Sra. Ruiz y la Dra. López viven en EE. UU. desde 1990.", "¡Qué frío!"],
    "Italian": ["Il Sig. Rossi vide il dott. Verdi.", "Disse: «Andiamo»."],
    "Vietnamese": ["Trời hôm nay rất đẹp.", "Bạn đi đâu đấy?", "TP. Hồ Chí Minh rất đông!"],
    "Russian": [
        "А. С. Пушкин родился в Москве.",
        "«Ты куда?» — спросил он.",
        "Ему, т. е. мне, было ок. 5 лет!",
    ],
    "Greek": ["Πού πας;", "Είπε «γεια».", "Ο κ. Νίκος ήρθε.", "Τι ώρα είναι\u037e", "Πάμε!"],
    "Arabic": ["أين تذهب؟", "ذهب د. سمير إلى السوق.", "«مرحباً!»", "اشترى خبزاً، ثم عاد."],
    "Urdu": ["یہ میرا گھر ہے۔", "تم کہاں ہو؟", "میں یہاں ہوں۔"],
    "Hebrew": ["לאן אתה הולך?", "הוא אמר: ״שלום״.", "גם אני כאן!"],
    "Hindi": ["यह मेरा घर है।", "तुम कहाँ जा रहे हो?", "डॉ. राम ने कहा, “रुको!”", "कविता समाप्त हुई॥"],
    "Armenian": ["Սա իմ տունն է։", "Դու այստեղ ես։"],
    "Amharic": ["ይህ ቤቴ ነው።", "ወዴት ትሄዳለህ፧"],
    "Thai": ["วันนี้อากาศดีมาก", "เด็ก ๆ เล่นอยู่ในสวน", "เขาเกิดเมื่อปีพ.ศ. 2530 ที่เชียงใหม่"],
    "Lao": ["ມື້ນີ້ອາກາດດີ", "ຂ້ອຍໄປຕະຫຼາດ", "ໝູ່ຂອງຂ້ອຍ"],
    "Khmer": ["ថ្ងៃនេះមេឃស្រឡះ។", "អ្នកទៅណា?", "ខ្ញុំទៅផ្សារ។"],
    "Burmese": ["ဒီနေ့ ရာသီဥတု ကောင်းတယ်။", "ဘယ်သွားမလဲ။"],
    "Tibetan": ["ངའི་མིང་ལ་བཀྲ་ཤིས་ཟེར།", "ཁྱེད་རང་ག་པར་ཕེབས་ག།"],
    "Chinese": [
        "他问：“你去哪儿？”",
        "我不知道……",
        "价格是3.5元；",
        "太贵了！！",
        "（真的吗？）",
        "我们走吧。",
        "你好!",
        "再见.",
    ],
    "Japanese": [
        "「行くぞ！」と彼は言った。",
        "犬の名前は『ポチ。』",
        "本当ですか？！",
        "２．５キロ走った。",
        "そう…",
        "ええ。",
    ],
    "Korean": ["오늘은 날씨가 좋다.", "어디 가세요?", "“안녕하세요.”", "그는 1990년에 태어났다."],
    "mixed": ["I said 你好。", "Then “再见！”", "مرحبا means hello.", "東京は3.5°Cです。", "Да?"],
    "emoji": ["Great 👍🏽!", "👩‍👩‍👧 are here.", "🎉🎉🎉?!", "❤️…"],
}
JOINED_WITH = {"Chinese": "", "Japanese": "", "Hindi": " ", "Khmer": "", "Burmese": "", "Tibetan": ""}  # others: " "
LANGUAGES = sorted(SENTENCES)


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_paragraph_has_the_sentences_that_a_reader_counts(language):
    paragraph = JOINED_WITH.get(language, " ").join(SENTENCES[language])
    assert split_sentences(paragraph) == SENTENCES[language]


def test_no_character_of_a_long_paragraph_is_lost(language):
    paragraph = JOINED_WITH.get(language, " ").join(SENTENCES[language] * 20)
    corpus = Corpus.from_text(paragraph, "documents")
    assert len(corpus.sentences) == 20 * len(SENTENCES[language])
    assert "".join("".join(corpus.sentences).split()) == "".join(paragraph.split())


KINDS = ["word", "wordpiece", "bpe"]


def _letters(text: str) -> str:
    return re.sub(rf"\s|{DROPPED_MARKS}", "", unicodedata.normalize("NFC", text))


def _model(language: str, kind: str) -> Checkpoint:
    tokenizer = train_tokenizer(Corpus([list(SENTENCES[language])]), kind=kind)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=12,
    )
    return Checkpoint(BertForPreTraining(config).eval(), tokenizer, language)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_has_the_same_tokens_composed_and_decomposed_and_keeps_its_letters(language, kind):
    tokenizer = train_tokenizer(Corpus([list(SENTENCES[language])]), kind=kind)
    for sentence in SENTENCES[language]:
        tokens = tokenizer.encode(sentence, add_special_tokens=False).tokens
        assert UNK not in tokens
        spelled = re.sub(DROPPED_MARKS, "", "".join(token.removeprefix("##") for token in tokens))
        assert spelled == _letters(sentence.lower()).replace("\u200d" if kind != "word" else "", "")
        for form in ("NFC", "NFD"):
            text = unicodedata.normalize(form, sentence)
            assert tokenizer.encode(text, add_special_tokens=False).tokens == tokens


@pytest.mark.parametrize("kind", KINDS)
def test_each_word_of_each_script_can_be_masked_and_shown(language, kind):
    checkpoint = _model(language, kind)
    texts = [unicodedata.normalize(form, text) for text in SENTENCES[language] for form in ("NFC", "NFD")]
    for text in texts:
        words = read_words(checkpoint, text)
        assert unknown_words(checkpoint, text) == []
        assert _letters("".join(word.text for word in words)) == _letters(text)
        assert attention(checkpoint, text).tokens[1:-1] == [piece for word in words for piece in word.pieces]
        for index, word in enumerate(words):
            masked = mask_words(checkpoint, Question(text, hidden=(index,)))[0].text
            tokens = checkpoint.tokenizer.encode(masked).tokens
            expected = checkpoint.tokenizer.encode(text).tokens
            expected[word.first : word.last] = [MASK] * len(word.pieces)
            assert tokens == expected, masked
    assert fill_mask(checkpoint, masked)


def test_characters_of_scripts_without_spaces_are_tokens_with_their_marks():
    expected = {
        "你好，world2023年": "你 好 world2023 年",
        "がっこうへ": "が っ こ う へ",
        "ที่นี่ดี": "ที่ นี่ ดี",
        "ខ្មែរ": "ខ្ មែ រ",
        "မြန်မာ": "မြ န် မာ",
        "हिन्दी है": "हिन्दी है",
        "한국어 말": "한국어 말",
    }
    for text, tokens in expected.items():
        for form in ("NFC", "NFD"):
            read = train_tokenizer(Corpus.from_text(unicodedata.normalize(form, text))).encode(text)
            assert " ".join(read.tokens[1:-1]) == tokens


def test_the_preview_says_what_becomes_of_the_words():
    recipe = recipe_named("romeo-juliet")
    assert preview(recipe, Corpus.from_text("a , b , c\nd , e @-@ f - 3.50\n", "lines")).warnings == (
        "The word tokenizer drops . , ! ? - and quotation marks: 33% of the words here. Wordpiece keeps them.",
        "The word tokenizer drops marks inside 1 of the 12 words here too: '@-@' is read as '@@'.",
    )
    french = Corpus.from_text("il vient ; elle part\nelle est là ; il dort\n", "lines")
    assert preview(recipe, french).warnings == ()
    wordpiece = recipe.override({"tokenizer.kind": "wordpiece"})
    assert preview(wordpiece, Corpus.from_text("a , b , c\nd , e @-@ f -\n", "lines")).warnings == ()


def test_a_part_of_a_chinese_text_is_held_out():
    digits = "零一二三四五六七八九"
    text = "\n".join(f"第{digits[i // 100]}{digits[i // 10 % 10]}{digits[i % 10]}天下雨。" for i in range(300))
    assert preview(recipe_named("romeo-juliet"), Corpus.from_text(text)).held_out_sentences == 30
