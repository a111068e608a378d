"""Texts in many scripts: every sentence is found, and no character is lost."""

import pytest

from bert_core.data.corpus import Corpus
from bert_core.data.sentences import split_sentences

SENTENCES = {
    "English": ["Dr. Lee lives at No. 5.", '"Come in!" she said.', "It cost 3.50 in 1990.", "Why not?", "I see…"],
    "German": ["Am 3. Oktober regnete es.", "Er rief: „Halt!“", "Es gibt z. B. Äpfel, ca. 20 kg.", "Schön, oder?"],
    "French": ["« Où vas-tu ? »", "Elle rit.", "M. Dupont est né en 1950.", "Il l’a vu !"],
    "Vietnamese": ["Trời hôm nay rất đẹp.", "Bạn đi đâu đấy?", "TP. Hồ Chí Minh rất đông!"],
    "Russian": ["А. С. Пушкин родился в Москве.", "«Ты куда?» — спросил он.", "Тогда ему было ок. 5 лет!"],
    "Greek": ["Πού πας;", "Είπε «γεια».", "Ο κ. Νίκος ήρθε.", "Τι ώρα είναι\u037e", "Πάμε!"],
    "Arabic": ["أين تذهب؟", "ذهب د. سمير إلى السوق.", "«مرحباً!»", "اشترى خبزاً، ثم عاد."],
    "Urdu": ["یہ میرا گھر ہے۔", "تم کہاں ہو؟", "میں یہاں ہوں۔"],
    "Hebrew": ["לאן אתה הולך?", "הוא אמר: ״שלום״.", "גם אני כאן!"],
    "Hindi": ["यह मेरा घर है।", "तुम कहाँ जा रहे हो?", "डॉ. राम ने कहा, “रुको!”", "कविता समाप्त हुई॥"],
    "Armenian": ["Սա իմ տունն է։", "Դու այստեղ ես։"],
    "Amharic": ["ይህ ቤቴ ነው።", "ወዴት ትሄዳለህ፧"],
    "Thai": ["วันนี้อากาศดีมาก", "เด็ก ๆ เล่นอยู่ในสวน", "เขาเกิดเมื่อปีพ.ศ. 2530 ที่เชียงใหม่"],
    "Lao": ["ມື້ນີ້ອາກາດດີ", "ຂ້ອຍໄປຕະຫຼາດ"],
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
    corpus = Corpus.from_text(paragraph)
    assert len(corpus.sentences) == 20 * len(SENTENCES[language])
    assert "".join("".join(corpus.sentences).split()) == "".join(paragraph.split())
    assert corpus.notes == ()
