"""All pairs of sentences, against one pair at a time, the exam, and hand-made matrices."""

import dataclasses

import pytest
import torch

from bert_core.data.corpus import Corpus
from bert_core.errors import InputError
from bert_core.probes import sentence_pairs
from bert_core.probes.sentence_pairs import UNLABELLED, PairMatrix, exam, next_sentence, pair_matrix, window

TEXT = Corpus(
    [
        ["how are you", "...", "i am romeo", "thank you juliet", "how are you"],
        ["you " * 12, "oh congratulations", "how are you"],
    ]
)


def test_every_cell_is_the_pair_by_itself(tiny_checkpoint):
    matrix = pair_matrix(tiny_checkpoint, TEXT)
    sentences = [sentence for sentence in TEXT.sentences if sentence != "..."]
    assert matrix.sentences == tuple(sentences)
    assert matrix.numbers == (0, 2, 3, 4, 5, 6, 7), "the second has no word"
    too_long = 0
    for i, a in enumerate(sentences):
        for j, b in enumerate(sentences):
            try:
                expected = next_sentence(tiny_checkpoint, a, b)
            except InputError:
                too_long += 1
                assert matrix.probabilities[i, j].isnan()
            else:
                assert matrix.probabilities[i, j].item() == pytest.approx(expected, abs=1e-5)
    assert too_long == 11


def test_a_pair_is_labelled_by_the_texts_of_neighbours_in_a_document(tiny_checkpoint):
    labels = pair_matrix(tiny_checkpoint, TEXT).labels
    true = {(0, 1), (1, 2), (2, 3), (4, 5), (5, 6)}
    true |= {(3, 1), (6, 1), (2, 0), (2, 6), (5, 0), (5, 3)}  # "how are you" occurs three times
    assert {tuple(pair) for pair in labels.nonzero().tolist()} == true


def test_the_counts_are_those_of_the_exam(tiny_checkpoint):
    matrix = pair_matrix(tiny_checkpoint, TEXT)
    pairs = exam(tiny_checkpoint, TEXT).pairs
    assert (int(matrix.is_right.sum()), int(matrix.is_asked.sum())) == (pairs.right, pairs.asked)


def test_of_a_longer_text_the_first_sentences_are_judged(tiny_checkpoint):
    whole = pair_matrix(tiny_checkpoint, TEXT)
    part = pair_matrix(tiny_checkpoint, TEXT, limit=4)
    assert part.numbers == (0, 2, 3), "the second has no word"
    torch.testing.assert_close(part.probabilities, whole.probabilities[:3, :3])
    assert part.labels.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_a_pair_that_is_too_long_never_becomes_a_row(tiny_checkpoint, monkeypatch):
    """Of 32 sentences of 10,000 words, the rows of all pairs would take 700 MB."""
    lengths = []
    monkeypatch.setattr(
        sentence_pairs, "pair_scores", lambda _, rows: lengths.extend(map(len, rows)) or torch.zeros(len(rows))
    )
    monkeypatch.setattr(sentence_pairs, "pair_row", lambda _, a, b: [*a, *b])
    pair_matrix(tiny_checkpoint, Corpus((("you " * 300, "how are you", "romeo " * 300, "i am"),)))
    assert max(lengths) == 6


def test_labelled_pairs_keep_their_labels_and_all_others_are_unlabelled(tiny_checkpoint):
    pairs = Corpus([["how are you", "i am romeo"], ["thank you", "oh romeo"], ["a", "b"]], labels=[True, False, True])
    matrix = pair_matrix(tiny_checkpoint, pairs, limit=5)
    assert matrix.sentences == tuple(pairs.sentences[:4])
    assert (matrix.labels[0, 1].item(), matrix.labels[2, 3].item()) == (1, 0)
    assert (matrix.labels == UNLABELLED).sum() == 14
    judged = [next_sentence(tiny_checkpoint, a, b) >= 0.5 for a, b in pairs.documents[:2]]
    assert int(matrix.is_right.sum()) == sum(answer == label for answer, label in zip(judged, (True, False)))


def test_a_window_keeps_documents_and_pairs_apart():
    start, part = window(TEXT, 4, 3)
    assert (start, part.documents) == (3, [TEXT.documents[0][3:], TEXT.documents[1][:2]])
    assert window(TEXT, 5)[1].documents == TEXT.documents[:1]
    assert window(TEXT, 3, 100) == (5, Corpus(TEXT.documents[1:]))
    pairs = Corpus([[f"{i}", "x"] for i in range(9)], labels=[True, False] * 4 + [True])
    assert window(pairs, 5, 3) == (2, Corpus([["1", "x"], ["2", "x"]], labels=[False, True]))


def test_a_true_next_sentence_is_found_when_no_other_is_likelier():
    likely = torch.tensor([[0.9, 0.4, 0.1], [torch.nan] * 3, [0.8, 0.1, 0.1]])
    labels = torch.tensor([[0, 1, 0], [1, 0, 0], [1, 0, 0]])
    matrix = PairMatrix((0, 1, 2), ("a", "b", "c"), likely, labels)
    assert matrix.found == (1, 2), "a likelier one beats the first, the second is too long, the third is found"


@pytest.mark.parametrize("corpus", [Corpus((("alone",),)), Corpus((("hello", "..."),))])
def test_one_sentence_is_not_a_pair(tiny_checkpoint, corpus):
    with pytest.raises(InputError, match="fewer than two sentences"):
        pair_matrix(tiny_checkpoint, corpus)


def test_a_model_without_the_next_sentence_head_is_refused(tiny_checkpoint):
    with pytest.raises(InputError, match="came without a"):
        pair_matrix(dataclasses.replace(tiny_checkpoint, missing=frozenset({"nsp"})), TEXT)
