"""Writing by unmasking, against fill_mask and by hand, and the runs of words that stand in a text."""

import math

import pytest
import torch
from helpers import make_model

from bert_core import Corpus, encode_corpus, load_checkpoint, load_recipe
from bert_core.config import CHECKPOINTS, BertConfig
from bert_core.data.tokenizer import SPECIAL_TOKENS, Scheme, build_tokenizer, train_tokenizer
from bert_core.errors import ConfigError, InputError
from bert_core.model import BertForPreTraining, PretrainingOutput
from bert_core.probes.masked_words import Writing, copied, fill_mask, unmask
from bert_core.storage.checkpoint import Checkpoint

VOCABULARY = (*SPECIAL_TOKENS, "a", "b", "c", "##d")


class Set(BertForPreTraining):
    """A model whose probabilities are set: for what stands at the masks, those of some tokens at each; [PAD] has the
    rest."""

    def __init__(self, table: dict[str, list[dict[str, float]]]) -> None:
        super().__init__(BertConfig(vocab_size=9, hidden_size=4, num_attention_heads=1, max_position_embeddings=64))
        self.logits = {}
        for shown, given in table.items():
            rows = [{}, *({"[PAD]": max(1e-9, 1 - sum(row.values())), **row} for row in given), {}]
            self.logits[shown] = torch.tensor([[row.get(token, 1e-9) for token in VOCABULARY] for row in rows]).log()
        self.eval()

    def forward(self, ids, mask=None, segments=None, *, watch=None, asked_positions=None):
        shown = " ".join(VOCABULARY[token] for token in ids[0, 1:-1].tolist())
        return PretrainingOutput(None, None, self.logits[shown][asked_positions], torch.zeros(1, 2))


def checkpoint_of(table: dict[str, list[dict[str, float]]]) -> Checkpoint:
    tokenizer = build_tokenizer({token: i for i, token in enumerate(VOCABULARY)}, Scheme("WordPiece", "pieces"))
    return Checkpoint(Set(table), tokenizer)


def test_three_rounds_by_hand():
    model = checkpoint_of(
        {
            "[MASK] [MASK] [MASK]": [{"##d": 0.5, "a": 0.4}, {"##d": 0.6}, {"c": 0.3, "a": 0.25}],
            "[MASK] ##d [MASK]": [{"b": 0.9}, {}, {"[UNK]": 0.4, "[SEP]": 0.3, "a": 0.2, "b": 0.1}],
            "b ##d [MASK]": [{}, {}, {"c": 0.8}],
            "a [MASK]": [{}, {"##d": 0.9, "b": 0.1}],
        }
    )
    found = unmask(model, "[MASK] [MASK] [MASK]", rounds=3)
    assert [each.tokens for each in found.rounds] == [("a", "##d", "c"), ("b", "##d", "a"), ("b", "##d", "c")]
    assert [each.hidden for each in found.rounds] == [(0, 2), (2,), ()]
    written = [[0.4, 0.6, 0.3], [0.9, 0.6, 0.2], [0.9, 0.6, 0.8]]
    assert [each.probabilities for each in found.rounds] == [pytest.approx(each, abs=1e-5) for each in written]
    assert (found.tokens, found.texts) == (("[CLS]", "b", "##d", "c", "[SEP]"), ("bd c", ""))
    assert len(unmask(model, "[MASK] [MASK] [MASK]", rounds=99).rounds) == 3
    assert unmask(model, "a [MASK]").texts[0] == "a b"  # the given word stays as it is


def test_each_round_is_the_best_of_fill_mask(tiny_checkpoint):
    text, pair = "hello [MASK] are [MASK] [MASK] zyzzyva [MASK]", "[MASK] my [MASK] is romeo"
    found = unmask(tiny_checkpoint, text, pair, rounds=4)
    assert [len(each.hidden) for each in found.rounds] == [4, 3, 1, 0]
    now = tiny_checkpoint.tokenizer.encode(text, pair).tokens
    hidden = range(6)
    for each in found.rounds:
        for number in hidden:
            now[found.masks[number]] = "[MASK]"
        cut = now.index("[SEP]")
        guesses = fill_mask(tiny_checkpoint, " ".join(now[1:cut]), " ".join(now[cut + 1 : -1]), top_k=10**6)
        for number, listed in zip(hidden, guesses, strict=True):
            best = next(guess for guess in listed if guess[0] not in SPECIAL_TOKENS)
            assert each.tokens[number] == best[0]
            assert each.probabilities[number] == pytest.approx(best[1], abs=1e-5)
        for number, token in enumerate(each.tokens):
            now[found.masks[number]] = token
        hidden = each.hidden
        shown = [p for number, p in enumerate(each.probabilities) if number not in hidden]
        assert max((each.probabilities[number] for number in hidden), default=0) <= min(shown)
    assert found.tokens == tuple(now)
    assert found.texts == (" ".join(now[1:cut]), " ".join(now[cut + 1 : -1]))
    assert "[UNK]" in found.texts[0]  # of a given word


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_draws_follow_the_softmax(temperature):
    probabilities = {"a": 0.5, "b": 0.3, "c": 0.1, "[UNK]": 0.1}
    masks = " ".join(["[MASK]"] * 50)
    model = checkpoint_of({masks: [probabilities] * 50})

    def draws(seed: int) -> tuple[str, ...]:
        return unmask(model, masks, rounds=1, temperature=temperature, seed=seed).rounds[0].tokens

    drawn = [token for seed in range(200) for token in draws(seed)]
    powers = {token: probabilities[token] ** (1 / temperature) for token in "abc"}
    for token, power in powers.items():
        share = power / sum(powers.values())
        assert drawn.count(token) / 10_000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 10_000))
    assert draws(3) == draws(3) != draws(4)


def test_what_cannot_be_written_is_said(tiny_checkpoint):
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        unmask(tiny_checkpoint, "hello")
    for settings in ({"rounds": 0}, {"temperature": -1.0}, {"temperature": math.nan}, {"temperature": math.inf}):
        with pytest.raises(InputError, match="ask for 1 or more, at 0 or above"):
            unmask(tiny_checkpoint, "[MASK]", **settings)
    with pytest.raises(ConfigError, match="seed"):
        unmask(tiny_checkpoint, "[MASK]", seed=-1)
    pieces = build_tokenizer({token: i for i, token in enumerate((*SPECIAL_TOKENS, "##d"))}, Scheme("WordPiece"))
    model = make_model(BertConfig(vocab_size=6, hidden_size=4, num_attention_heads=1))
    with pytest.raises(InputError, match="no word that can be written"):
        unmask(Checkpoint(model, pieces), "[MASK]")


def test_words_of_scripts_without_spaces_stand_together():
    tokenizer = train_tokenizer(Corpus.from_text("湘山不见\n青山 bert 路\n", "lines"))
    model = make_model(BertConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=4, num_attention_heads=1))
    assert unmask(Checkpoint(model, tokenizer), "湘山 bert 不见 [MASK]").texts[0].startswith("湘山 bert 不见")


def test_runs_that_stand_in_a_text():
    vocabulary = (*SPECIAL_TOKENS, "the", "cat", "##s", "sat", "on", "mat", "dog", "a")
    tokenizer = build_tokenizer({token: i for i, token in enumerate(vocabulary)}, Scheme("WordPiece", "pieces"))
    model = Checkpoint(make_model(BertConfig(vocab_size=13, hidden_size=4, num_attention_heads=1)), tokenizer)
    corpus = Corpus([["the cats sat", "on a mat"], ["the dog sat zyzzyva on the mats"]])
    encoded = encode_corpus(corpus, tokenizer)

    def runs(text: str, *masks: int) -> list[tuple[int, int]]:
        tokens = tuple(tokenizer.encode(text).tokens)
        return copied(model, Writing(tokens, masks or tuple(range(1, len(tokens) - 1)), (), ("", "")), encoded)

    assert runs("dog the cats sat on a dog") == [(2, 8)]  # on into the next sentence
    assert runs("a mat the dog") == [(1, 3), (3, 5)]  # not on into the next document
    assert runs("the mat") == runs("the cat sat") == []  # "the mats", "cats"
    assert runs("sat zyzzyva on") == []
    assert runs("the cats sat on the mats", 6) == [(6, 9)]  # the run before has nothing written
    assert runs("the dog a the dog", 2) == [(1, 3)]
    assert runs("a") == []


def test_a_trained_model_copies_and_random_weights_do_not():
    trained, recipe = load_checkpoint(CHECKPOINTS / "romeo-juliet"), load_recipe("romeo-juliet")
    encoded = encode_corpus(recipe.source(), trained.tokenizer)
    masks = " ".join(["[MASK]"] * 12)
    assert copied(trained, unmask(trained, masks), encoded) == [(1, 13)]
    for seed in range(8):
        model = BertForPreTraining(trained.config, generator=torch.Generator().manual_seed(seed)).eval()
        random = Checkpoint(model, trained.tokenizer)
        found = copied(random, unmask(random, masks, temperature=1.0, seed=seed), encoded)
        assert max((last - first for first, last in found), default=0) <= 3
