"""The exam of a part of a text: what is asked, what is left out and counted, and the constant guesses beside it."""

import itertools

import pytest

from balcony.train.exam import MOST_WORDS, examine_part
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import EncodedCorpus, encode_corpus
from bert_core.probes import sentence_pairs as exam_module
from bert_core.probes.masked_words import fill_mask
from bert_core.probes.sentence_pairs import exam
from bert_core.storage.checkpoint import Checkpoint

TRAINING = ("hello how are you", "hello i am romeo", "thank you romeo", "you are nice")


def encoded(checkpoint: Checkpoint, *documents: tuple[str, ...], **options: object) -> EncodedCorpus:
    return encode_corpus(Corpus(documents, **options), checkpoint.tokenizer)  # type: ignore[arg-type]


def test_every_word_of_a_short_text_is_asked_once(tiny_checkpoint: Checkpoint) -> None:
    text = encoded(tiny_checkpoint, TRAINING)
    result = examine_part(tiny_checkpoint, text, text, 17)
    right = both = 0
    for number, sentence in enumerate(TRAINING):
        words = sentence.split()
        for i, word in enumerate(words):
            masked = " ".join([*words[:i], "[MASK]", *words[i + 1 :]])
            is_last = number == len(TRAINING) - 1
            pair = (TRAINING[number - 1], masked) if is_last else (masked, TRAINING[number + 1])
            guess = fill_mask(tiny_checkpoint, *pair)[0][0][0]
            right += guess == word
            both += guess == word == "you"
    assert result.words == (14, right, 3, both)
    assert (result.frequent, result.sentences, result.repeated) == ("you", 4, 0)
    assert (result.tokens, result.unknown) == (14, 0)


def test_pairs_are_those_of_the_exam_beside_always_not_next(tiny_checkpoint: Checkpoint, dialogue: Corpus) -> None:
    text = encode_corpus(dialogue, tiny_checkpoint.tokenizer)
    pairs, known = examine_part(tiny_checkpoint, text, text, 17).pairs, exam(tiny_checkpoint, dialogue).pairs
    assert (pairs.right, pairs.asked) == (known.right, known.asked)
    too_long = sum(len(a) + len(b) > 14 for a, b in itertools.pairwise(s.split() for s in dialogue.sentences))
    assert pairs.asked - pairs.baseline == len(dialogue.sentences) - 1 - too_long


def test_held_out_words_that_no_label_ever_was_are_left_out_and_counted(tiny_checkpoint: Checkpoint) -> None:
    training = encoded(tiny_checkpoint, TRAINING)
    held_out = encoded(tiny_checkpoint, ("hello zebra romeo", "baseball are you"))  # the vocabulary has "baseball"
    result = examine_part(tiny_checkpoint, held_out, training, 17)
    assert (result.tokens, result.unknown, result.words.asked) == (6, 2, 4)
    assert (result.frequent, result.words.baseline) == ("you", 1)


def test_held_out_sentences_of_the_training_text_are_left_out_and_others_asked_once(
    tiny_checkpoint: Checkpoint,
) -> None:
    training = encoded(tiny_checkpoint, TRAINING)
    held_out = encoded(tiny_checkpoint, ("Thank you, Romeo!", "are you romeo", "hello you"), ("hello you", "i am"))
    result = examine_part(tiny_checkpoint, held_out, training, 17)
    assert (result.sentences, result.repeated, result.words.asked) == (5, 1, 7)
    # Of three different sentences.
    assert (result.pairs.asked, result.pairs.asked - result.pairs.baseline) == (9, 2)
    nothing = examine_part(tiny_checkpoint, encoded(tiny_checkpoint, TRAINING[:2]), training, 17)
    assert (nothing.repeated, nothing.words, nothing.pairs) == (2, (0, 0, 0, 0), (0, 0, 0, 0))


@pytest.mark.parametrize("longest", [6, 9, 17])
def test_a_long_pair_is_cut_around_the_asked_word(
    tiny_checkpoint: Checkpoint, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = ("hello how are you i am romeo", "you", "thank you romeo nice to meet you too")
    text = encoded(tiny_checkpoint, document, ("how are you today great my baseball team won",))
    asked = {}
    score = exam_module.word_scores

    def spy(checkpoint: Checkpoint, rows: list, positions: list, read: object) -> object:
        asked["rows"], asked["positions"] = rows, positions
        return score(checkpoint, rows, positions, read)

    monkeypatch.setattr(exam_module, "word_scores", spy)
    assert examine_part(tiny_checkpoint, text, text, longest).words.asked == 7 + 1 + 8 + 9
    mask = tiny_checkpoint.tokenizer.token_to_id("[MASK]")
    for (ids, segments), [position] in zip(asked["rows"], asked["positions"], strict=True):
        assert len(ids) == len(segments) <= longest
        assert [i for i, token in enumerate(ids) if token == mask] == [position]


def test_of_a_long_text_a_sample_is_asked(tiny_checkpoint: Checkpoint) -> None:
    words = ("hello", "you", "romeo", "am", "i")
    text = encoded(tiny_checkpoint, tuple(" ".join(each) for each in itertools.product(words, repeat=3)))
    result = examine_part(tiny_checkpoint, text, text, 17)
    assert (result.words.asked, result.tokens, result.pairs.asked) == (MOST_WORDS, 375, 256)
    assert examine_part(tiny_checkpoint, text, text, 17) == result


def test_labelled_pairs_are_asked_beside_the_more_frequent_label(tiny_checkpoint: Checkpoint) -> None:
    pairs = tuple(itertools.pairwise(TRAINING))
    training = encoded(tiny_checkpoint, *pairs, labels=(True, True, False))
    held_out = encoded(tiny_checkpoint, ("hello you", "i am"), ("are you", "thank you"), labels=(True, False))
    result = examine_part(tiny_checkpoint, held_out, training, 17)
    assert (result.pairs.asked, result.pairs.baseline) == (2, 1)
    corpus = Corpus([["hello you", "i am"], ["are you", "thank you"]], labels=[True, False])
    assert result.pairs.right == exam(tiny_checkpoint, corpus).pairs.right
