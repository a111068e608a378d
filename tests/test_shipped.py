"""The models that come with the program."""

from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import BertForPreTraining, PreTrainedTokenizerFast

import balcony.app
from bert_core import attention, encode, fill_mask, load_checkpoint, next_sentence
from bert_core.probes.reading import unknown_words
from bert_core.probes.sentence_pairs import exam
from bert_core.probes.stages import follow, without_heads
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import load_recipe
from bert_core.storage.checkpoint import Checkpoint

MEGABYTES = 10
DIALOGUE, ENGLISH, POEMS = balcony.app.SHIPPED


@pytest.fixture(scope="module", params=balcony.app.SHIPPED, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_its_folder_is_small_and_its_card_complete(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MEGABYTES * 2**20
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlicense: ")
    for part in ("**Made by**", "`python -m bert_core train --recipe", "**Data**", "**Results**", "**Limits**"):
        assert part in card
    assert load_checkpoint(folder).notes == ()


def test_its_results_are_read_as_the_hub_reads_them(folder: Path) -> None:
    card = ModelCard.load(folder / "README.md")
    results = card.data.eval_results
    assert {each.metric_type for each in results} == set(card.data.metrics)
    for each in results:  # the same numbers stand in the card's text
        value = each.metric_value
        written = f"{value:.2f}" if each.metric_type == "loss" else f"{100 * value:.1f}%"
        assert written in card.text


def test_transformers_computes_the_same_logits(folder: Path) -> None:
    checkpoint = load_checkpoint(folder)
    tokens = PreTrainedTokenizerFast.from_pretrained(folder)("hello how are you", "i am romeo", return_tensors="pt")
    theirs = BertForPreTraining.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        ours, expected = checkpoint.model(**tokens), theirs(**tokens)
    torch.testing.assert_close(ours.prediction_logits, expected.prediction_logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.seq_relationship_logits, expected.seq_relationship_logits, atol=1e-4, rtol=1e-4)


def test_the_dialogue_model_knows_its_dialogue() -> None:
    result = exam(load_checkpoint(DIALOGUE), load_recipe("romeo-juliet").source())
    assert (result.words[:2], result.pairs[:2]) == ((105, 105), (81, 81)), "asked and right"


@pytest.mark.parametrize("name", ["romeo-juliet-chinese", "romeo-juliet-korean"])
def test_the_dialogues_in_other_languages_are_memorised(name: str) -> None:
    prepared = prepare(load_recipe(name))
    trainer = prepared.trainer()
    for _ in trainer:
        pass
    result = exam(Checkpoint(trainer.model.eval(), prepared.tokenizer, name), prepared.source)
    assert len(prepared.source.sentences) == 10
    assert result.words.right >= 0.95 * result.words.asked
    assert result.pairs.right >= 95


@pytest.mark.parametrize(
    ("text", "sensible"),
    [
        ("the album was [MASK] in 1999.", {"released", "published", "recorded"}),
        ("he put his hand on her [MASK].", {"head", "hand", "hands", "face", "arm", "shoulder", "heart", "hair"}),
        ("he is a professional football [MASK].", {"player", "team", "league", "club", "coach"}),
        ("it was a [MASK] day and the sun was shining.", {"long", "good", "great", "fine", "beautiful", "little"}),
    ],
)
def test_the_english_model_guesses_ordinary_words(text: str, sensible: set[str]) -> None:
    [guesses] = fill_mask(load_checkpoint(ENGLISH), text)
    assert {word for word, _ in guesses} & sensible


def test_the_english_model_has_learned_some_facts_from_its_dictionary() -> None:
    checkpoint = load_checkpoint(ENGLISH)
    [capitals] = fill_mask(checkpoint, "the capital of france is [MASK].", top_k=20)
    assert "paris" in dict(capitals)
    [kinds] = fill_mask(checkpoint, "a dog is a kind of [MASK].")
    assert "animal" in dict(kinds)


@pytest.mark.parametrize(
    ("text", "likeliest"),
    [("故人此去三千[MASK]，明月今宵共倚楼。", "里"), ("江上秋[MASK]送客舟，寒灯一点照沙洲。", "风")],
)
def test_the_model_of_poems_completes_lines_that_it_has_not_read(text: str, likeliest: str) -> None:
    assert fill_mask(load_checkpoint(POEMS), text)[0][0][0] == likeliest


def test_the_model_of_poems_knows_which_line_follows_by_its_length() -> None:
    checkpoint = load_checkpoint(POEMS)
    first, second, of_another = (
        "雨后山村草色新，柴门半掩少行人。",
        "牧童不问城中事，独向溪边数白云。",
        "大漠孤城远，长河落雁低。",
    )
    assert next_sentence(checkpoint, first, second) > 0.9
    assert next_sentence(checkpoint, first, of_another) < 0.1


def test_the_english_model_separates_a_next_sentence_from_another() -> None:
    checkpoint = load_checkpoint(ENGLISH)
    asked = '"Where are you going?" she asked.'
    follows = next_sentence(checkpoint, asked, '"To the village," he said.')
    assert follows > next_sentence(checkpoint, asked, "The species is found in the rivers of Brazil.")


def chance_of(checkpoint: Checkpoint, texts: tuple[str, str], word: str) -> float:
    """Of a word at the [MASK]."""
    position = follow(checkpoint, *texts).tokens.index("[MASK]")
    scores = follow(checkpoint, *texts, position=position).words["log_probabilities"]
    return scores[checkpoint.tokenizer.token_to_id(word)].exp().item()


def test_a_model_learns_first_which_words_are_frequent() -> None:
    """What the lesson on memorising says of the steps of the default recipe."""
    run = prepare(load_recipe("romeo-juliet"))
    trainer = run.trainer()
    frequent = {"you", "are", "i", "am", "romeo", "my", "going"}  # three times and more in the text
    checkpoint = Checkpoint(trainer.model, run.tokenizer)
    asked = ("my name is [MASK]", "i am going [MASK]", "thank [MASK] romeo", "the [MASK] team won")
    for number, _ in enumerate(trainer, 1):
        if number == 5:
            assert {fill_mask(checkpoint, text)[0][0][0] for text in asked} <= frequent
            break


def test_the_numbers_of_the_lessons() -> None:
    """What the lessons state of the shipped models."""
    dialogue, english = load_checkpoint(DIALOGUE), load_checkpoint(ENGLISH)
    first, second = "Hello, how are you? I am Romeo.", "Hello, Romeo My name is Juliet. Nice to meet you."
    [[(word, probability), *_]] = fill_mask(dialogue, first, second.replace("Juliet", "[MASK]"))
    assert (word, round(probability, 2)) == ("juliet", 0.94)
    assert next_sentence(dialogue, first, second) > 0.99
    assert next_sentence(dialogue, second, first) < 0.01
    sizes = dialogue.config.vocab_size, dialogue.config.hidden_size // dialogue.config.num_attention_heads
    assert (*sizes, english.config.vocab_size) == (41, 12, 6000)
    maps = attention(english, "He put his hand on her head.", '"Are you ill?" he asked.')
    assert round(float(maps.weights[0, 5].diagonal(1).mean()), 2) == 0.88
    hidden = ("He put his hand on her [MASK].", '"Are you ill?" he asked.')
    maps = attention(english, *hidden)
    separators = [i for i, token in enumerate(maps.tokens) if token == "[SEP]"]
    to_separators = maps.weights[1, :, :, separators].sum(-1).mean(1)  # for each head of layer 2
    assert to_separators[5] > 0.5
    assert maps.weights[1, 0].diagonal(-1).mean() > 0.5
    shares = [chance_of(without_heads(english, off), hidden, "head") for off in ((), [(1, 5)], [(1, 0)])]
    assert [round(share, 2) for share in shares] == [0.09, 0.06, 0.02]
    masked = (first, second.replace("Juliet", "[MASK]"))
    cut = (without_heads(dialogue, [], [part]) for part in ((0, 2), (1, 2), (0, 0), (1, 0)))
    less = [chance_of(each, masked, "juliet") for each in cut]
    assert less[0] < 0.01
    assert [round(share, 2) for share in less[1:]] == [0.32, 0.79, 0.79]
    texts = ["he sat on the bank of the river", "she took her money to the bank"]
    texts += ["they walked along the bank of the lake", "the bank lent him the money"]
    states = [encode(english, text) for text in texts]
    vectors = torch.stack([each.states[-1, each.tokens.index("bank")] for each in states])
    similar = torch.cosine_similarity(vectors[:, None], vectors, dim=-1)
    assert round(float(similar[0, 2]), 2) == 0.94
    similar[[0, 2], [2, 0]] = 0
    assert round(float(similar.fill_diagonal_(0).max()), 2) == 0.65
    unseen, known = "the king of france is old", "the album was [MASK] in 1999."
    assert len(unknown_words(dialogue, unseen)) >= 3
    assert fill_mask(english, known)[0][0][0] == "released"
