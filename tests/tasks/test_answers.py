"""Windows, offsets and the best answers of hand-worked cases."""

import unicodedata

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from bert_core.config import FinetuningData
from bert_core.data.corpus import Corpus
from bert_core.data.tokenizer import end_of_marks, train_tokenizer
from bert_core.errors import CorpusError
from bert_core.tasks.examples import TASKS
from bert_core.tasks.question_answering import REFUSED, best_answers, candidates, refusals
from bert_core.tasks.task import Example, Layout

CONTEXT = "one two three four five six seven eight nine ten"
CHINESE = "黑豹队的防守只丢了 308分。"


@pytest.fixture(scope="module")
def tokenizer():
    text = f"{CONTEXT} where is it\n" + " ".join(CHINESE) + " 多 少\n"
    return train_tokenizer(Corpus.from_text(text, "lines", "numbers"), kind="wordpiece", vocab_size=300)


@pytest.fixture(scope="module")
def word_tokenizer():
    return train_tokenizer(Corpus.from_text(f"{CONTEXT}\nwhere is it\n", "lines", "numbers"))


def windows(tokenizer, example, **settings):
    return TASKS["question-answering"].rows([example], Layout((), tokenizer, FinetuningData(**settings)))


def texts(row, context):
    return [context[a:b] for a, b in row.offsets.tolist() if a >= 0]


def test_a_long_context_is_read_in_overlapping_windows(word_tokenizer):
    # 12 tokens: [CLS] where is it [SEP], 6 words of the context, [SEP]; the next window begins 4 words further.
    example = Example(("where is it", CONTEXT), (("seven eight", CONTEXT.index("seven")),))
    rows = windows(word_tokenizer, example, sequence_length=12, stride=4)
    assert [texts(row, CONTEXT) for row in rows] == [CONTEXT.split()[:6], CONTEXT.split()[4:]]
    assert all(len(row.ids) == 12 and row.second == 5 for row in rows)
    assert [row.target.tolist() for row in rows] == [[[0, 0]], [[7, 8]]]  # [CLS] where the answer is not
    # "five" is the second last word of one window and the first of the other, "six" the last and the second.
    assert [np.flatnonzero(row.widest).tolist() for row in rows] == [[5, 6, 7, 8, 9], [6, 7, 8, 9, 10]]


def test_a_context_may_stand_before_its_question(word_tokenizer):
    example = Example(("where is it", CONTEXT), (("seven eight", CONTEXT.index("seven")),))
    rows = windows(word_tokenizer, example, sequence_length=12, stride=4, context_first=True)
    written = [" ".join(map(word_tokenizer.id_to_token, row.ids)) for row in rows]
    assert written == [
        "[CLS] one two three four five six [SEP] where is it [SEP]",
        "[CLS] five six seven eight nine ten [SEP] where is it [SEP]",
    ]
    assert [(row.second, row.window.start) for row in rows] == [(8, 0), (8, 4)]
    assert [texts(row, CONTEXT) for row in rows] == [CONTEXT.split()[:6], CONTEXT.split()[4:]]
    assert [row.target.tolist() for row in rows] == [[[0, 0]], [[3, 4]]]
    assert [np.flatnonzero(row.widest).tolist() for row in rows] == [[1, 2, 3, 4, 5], [2, 3, 4, 5, 6]]
    logits = np.zeros((12, 2))
    logits[3, 0], logits[4, 1], logits[9] = 5, 4, 99  # "is", of the question
    [best, *_] = best_answers(CONTEXT, [(rows[1], logits)])
    assert (best.text, best.score) == ("seven eight", 9)


@pytest.mark.parametrize("context_first", [False, True])
@pytest.mark.parametrize(("length", "stride"), [(12, 4), (13, 3), (17, 10), (40, 7)])
def test_windows_are_those_of_transformers(word_tokenizer, length, stride, context_first):
    question, context = "where is it", f"{CONTEXT} {CONTEXT} one"
    own = windows(
        word_tokenizer, Example((question, context)), sequence_length=length, stride=stride, context_first=context_first
    )
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", unk_token="[UNK]"
    )
    found = theirs(
        *((context, question) if context_first else (question, context)),
        max_length=length,
        truncation="only_first" if context_first else "only_second",
        stride=length - 6 - stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    assert [list(row.ids) for row in own] == found["input_ids"]
    assert [[int(t >= row.second) for t in range(len(row.ids))] for row in own] == found["token_type_ids"]
    for k, row in enumerate(own):
        inside = row.offsets[:, 0] >= 0
        assert inside.tolist() == [part == (not context_first) for part in found.sequence_ids(k)]
        assert row.offsets[inside].tolist() == [
            list(pair) for pair, is_in in zip(found["offset_mapping"][k], inside) if is_in
        ]


def test_an_answer_on_the_edge_of_a_window_is_in_the_other_one(word_tokenizer):
    example = Example(("where is it", CONTEXT), (("six seven", CONTEXT.index("six")),))
    rows = windows(word_tokenizer, example, sequence_length=12, stride=4)
    assert [row.target.tolist() for row in rows] == [[[0, 0]], [[6, 7]]]


def test_a_question_without_an_answer_points_at_cls(word_tokenizer):
    rows = windows(word_tokenizer, Example(("where is it", CONTEXT), ()), sequence_length=40)
    assert [row.target.tolist() for row in rows] == [[[0, 0]]]
    unlabelled = windows(word_tokenizer, Example(("where is it", CONTEXT)), sequence_length=40)
    assert unlabelled[0].target is None


def test_a_question_that_leaves_no_room_is_refused(word_tokenizer):
    question = " ".join(["where"] * 30)
    with pytest.raises(CorpusError, match="A question of 30 tokens leaves 0 for its context; the model reads 32"):
        windows(word_tokenizer, Example((question, CONTEXT), ()), sequence_length=32)
    assert windows(word_tokenizer, Example((question, CONTEXT), ()), sequence_length=32, question_length=16)


def test_offsets_cut_the_answer_from_the_original_characters(tokenizer):
    example = Example(("多少", CHINESE), (("308", CHINESE.index("308")),))
    row = windows(tokenizer, example, sequence_length=64)[0]
    [[first, last]] = row.target.tolist()
    assert CHINESE[row.offsets[first, 0] : row.offsets[last, 1]] == "308"
    logits = np.zeros((len(row.ids), 2))
    logits[first, 0], logits[last, 1] = 5, 4
    best = best_answers(CHINESE, [(row, logits)])[0]
    assert (best.text, best.start, best.score) == ("308", CHINESE.index("308"), 9)


def test_an_answer_in_decomposed_letters_is_whole(tokenizer):
    context = unicodedata.normalize("NFD", "juliet é 한국 two")
    row = windows(tokenizer, Example(("where", context)), sequence_length=64)[0]
    ends = {context[a : end_of_marks(context, b)] for a, b in row.offsets.tolist() if a >= 0}
    assert {unicodedata.normalize("NFD", "é"), "two"} <= ends
    last = max(i for i, (a, _) in enumerate(row.offsets.tolist()) if 0 <= a < context.index("two"))
    logits = np.zeros((len(row.ids), 2))
    logits[last] = 9
    assert best_answers(context, [(row, logits)])[0].text.endswith(unicodedata.normalize("NFD", "국"))


def scored(row, **words):
    """Logits for a window of CONTEXT: words=(start, end)."""
    logits = np.zeros((len(row.ids), 2))
    for word, (start, end) in words.items():
        logits[5 + texts(row, CONTEXT).index(word)] = start, end
    return logits


def test_the_best_answer_ends_after_its_start_inside_the_context_and_is_not_too_long(word_tokenizer):
    row = windows(word_tokenizer, Example(("where is it", CONTEXT)), sequence_length=40)[0]
    logits = scored(row, two=(6, 7), three=(5, 1), four=(0, 3))
    logits[1] = 99, 99  # in the question
    found = best_answers(CONTEXT, [(row, logits)], best=3)
    assert [answer.text for answer in found] == ["two", "two three four", "three four"]
    assert [answer.score for answer in found] == [13, 9, 8]
    weights = np.exp([0, -4, -5])
    assert [answer.probability for answer in found] == pytest.approx(list(weights / weights.sum()))
    assert best_answers(CONTEXT, [(row, logits)], best=3, longest=2)[1].text == "three four"
    reversed_ends = scored(row, two=(0, 9), nine=(9, 0))
    assert best_answers(CONTEXT, [(row, reversed_ends)], best=1)[0].text == ""


def test_each_pair_of_a_start_and_an_end_that_is_no_answer_has_its_reason(word_tokenizer):
    rows = windows(word_tokenizer, Example(("where is it", CONTEXT)), sequence_length=12, stride=4)
    six = np.array([5 + texts(row, CONTEXT).index("six") for row in rows])  # the last token, then the second
    wanted = ["longer than the limit", "outside the context", "", "the end is before the start"]
    found = refusals(rows[0], np.array([5, 1, 6, 7]), np.array([9, 8, 7, 6]), 3).diagonal()
    assert [REFUSED[i] for i in found] == wanted
    own = [REFUSED[refusals(row, at[None], at[None], 3)[0, 0]] for row, at in zip(rows, six)]
    assert own == ["another window shows more context around the start", ""]


def test_each_window_proposes_its_candidates_before_one_is_chosen(word_tokenizer):
    rows = windows(word_tokenizer, Example(("where is it", CONTEXT)), sequence_length=12, stride=4)
    first = scored(rows[0], two=(6, 7), three=(5, 1), six=(9, 0))  # "six" starts in the other window
    second = scored(rows[1], six=(1, 2), eight=(2, 3))
    found = candidates(CONTEXT, rows[0], first, best=2, longest=2)  # starts two and three, ends two and three
    assert [(each.start, each.end, each.score, CONTEXT[slice(*each.span)]) for each in found] == [
        (6, 6, 13, "two"),
        (6, 7, 7, "two three"),
        (7, 7, 6, "three"),
    ]
    other = candidates(CONTEXT, rows[1], second, best=2)
    assert [CONTEXT[slice(*each.span)] for each in other] == ["eight", "six seven eight", "six"]
    chosen = best_answers(CONTEXT, [(rows[0], first), (rows[1], second)], best=2)
    assert [answer.text for answer in chosen] == ["two", "two three"]


def test_the_best_of_all_windows_starts_where_its_window_shows_most_context(word_tokenizer):
    rows = windows(word_tokenizer, Example(("where is it", CONTEXT)), sequence_length=12, stride=4)
    first, second = scored(rows[0], six=(9, 0)), scored(rows[1], six=(1, 2), eight=(2, 3))
    found = best_answers(CONTEXT, [(rows[0], first), (rows[1], second)])
    assert (found[0].text, found[0].score) == ("eight", 5)


def test_no_answer_has_the_lowest_score_of_the_first_token(word_tokenizer):
    rows = windows(word_tokenizer, Example(("where is it", CONTEXT)), sequence_length=12, stride=4)
    first, second = scored(rows[0], two=(2, 2)), scored(rows[1], nine=(1, 1))
    first[0], second[0] = (4, 4), (3, 2)
    both = [(rows[0], first), (rows[1], second)]
    assert best_answers(CONTEXT, both, may_be_missing=True)[0].text == ""
    assert best_answers(CONTEXT, both, may_be_missing=True)[0].score == 5
    assert best_answers(CONTEXT, both)[0].text == "two"


def test_a_tag_belongs_to_the_first_piece_of_its_word_and_a_long_sentence_is_read_in_parts():
    corpus = Corpus.from_text(f"{CONTEXT}\nwhere is it\n", "lines", "numbers")
    tokenizer = train_tokenizer(corpus, kind="wordpiece", vocab_size=50)
    words = ("two", "seven", "ten", "one", "where", "three")
    tags = ("O", "B-x", "O", "O", "B-x", "I-x")
    task, examples = TASKS["token-classification"], [Example((" ".join(words),), tags, words)]
    whole = task.rows(examples, Layout(("O", "B-x", "I-x"), tokenizer, FinetuningData()))
    assert len(whole) == 1
    pieces = [tokenizer.id_to_token(whole[0].ids[position]) for position in whole[0].positions]
    assert [piece[0] for piece in pieces] == [words[word][0] for word in whole[0].words]
    assert whole[0].target.tolist() == [("O", "B-x", "I-x").index(tags[word]) for word in whole[0].words]

    parts = task.rows(examples, Layout(("O", "B-x", "I-x"), tokenizer, FinetuningData(sequence_length=12)))
    assert len(parts) > 1
    assert np.concatenate([part.words for part in parts]).tolist() == whole[0].words.tolist()
    assert all(len(part.ids) <= 12 for part in parts)
