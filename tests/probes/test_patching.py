"""States carried from one text into another: against hooks on `transformers`, and controls that bring nothing back."""

import contextlib

import pytest
import torch
import transformers
from helpers import make_model

from bert_core import BertConfig, carrying, follow, load_checkpoint, patch_map
from bert_core.config import CHECKPOINTS
from bert_core.errors import InputError
from bert_core.storage.checkpoint import Checkpoint

QUEEN, KING = "the queen took [MASK] crown.", "the king took [MASK] crown."
HER = ("her", "his")
DIFFERS, ASKED = 2, 4  # tokens


@pytest.fixture(scope="module")
def english():
    return load_checkpoint(CHECKPOINTS / "english-mini")


@pytest.fixture(scope="module")
def found(english):
    return patch_map(english, QUEEN, KING, answers=HER)


def test_the_ends_are_exact_and_the_way_between_them_is_the_known_one(found):
    states = found.states.fractions
    assert states[0, DIFFERS].item() == pytest.approx(1, abs=1e-5)  # the other word itself
    assert states[-1, ASKED].item() == pytest.approx(1, abs=1e-5)  # all that the answer is read from
    assert states[1, [1, DIFFERS]].tolist() == pytest.approx([0.10, 0.85], abs=0.01)
    equal = [i for i in range(len(found.tokens[0])) if i != DIFFERS]
    torch.testing.assert_close(states[0, equal], torch.zeros(len(equal)), atol=1e-5, rtol=0)
    assert states[-1].count_nonzero() == 1
    torch.testing.assert_close(found.states.answers[-1, ASKED], found.answers[0], atol=1e-5, rtol=0)


def test_beyond_what_random_sentences_bring_back_is_the_queen_and_not_the_end(found):
    out = found.states.stands_out
    assert out.nonzero().tolist() == [[0, DIFFERS], [1, DIFFERS]]  # at [MASK], any sentence brings much back
    assert found.states.random.shape == (16, *out.shape)


@torch.no_grad()
def test_states_and_heads_are_those_of_hooks_on_transformers(english, found):
    theirs = transformers.BertForPreTraining.from_pretrained(CHECKPOINTS / "english-mini", dtype=torch.float32).eval()
    size, words = (
        theirs.config.hidden_size // theirs.config.num_attention_heads,
        [*map(english.tokenizer.token_to_id, HER)],
    )
    source, target = (torch.tensor([english.tokenizer.encode(text).ids]) for text in (QUEEN, KING))
    kept = {}

    def answers(module, change):
        hook = module.register_forward_hook(lambda _, __, output: change(output))
        scores = theirs(target).prediction_logits[0, ASKED].log_softmax(-1)[words]
        hook.remove()
        return scores

    bert = theirs.bert
    for layer, block in enumerate(bert.encoder.layer):
        block.attention.self.register_forward_hook(
            lambda _, __, output, at=layer: kept.update({("heads", at): output[0]})
        )
    for level, state in enumerate(theirs(source, output_hidden_states=True).hidden_states):
        kept["state", level] = state
    heads = [kept["heads", layer].clone() for layer in range(len(bert.encoder.layer))]

    for level, layer in enumerate([bert.embeddings, *bert.encoder.layer]):
        for token in (1, DIFFERS, ASKED):

            def carry(output, level=level, token=token):
                output = output.clone()
                output[0, token] = kept["state", level][0, token]
                return output

            torch.testing.assert_close(answers(layer, carry), found.states.answers[level, token], atol=1e-5, rtol=0)
    for layer, block in enumerate(bert.encoder.layer):
        for head in range(0, theirs.config.num_attention_heads, 3):

            def carry_head(output, layer=layer, part=slice(head * size, (head + 1) * size)):
                context = output[0].clone()
                context[..., part] = heads[layer][..., part]
                return context, *output[1:]

            ours = found.heads.answers[layer, head]
            torch.testing.assert_close(answers(block.attention.self, carry_head), ours, atol=1e-5, rtol=0)


def test_a_pass_that_is_followed_has_the_carried_state(english, found):
    words = [*map(english.tokenizer.token_to_id, HER)]
    for at, expected in (
        (("state", 1, DIFFERS), found.states.answers[1, DIFFERS]),
        (("state", 0, DIFFERS), found.answers[0]),
        (("head", 1, 5), found.heads.answers[1, 5]),
    ):
        carried = carrying(english, QUEEN, *at)
        scores = follow(carried, KING, position=ASKED).words["log_probabilities"]
        torch.testing.assert_close(scores[words], expected, atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="of a text of 9 tokens; this one has 4"):
        follow(carried, "the king")
    with pytest.raises(InputError, match="has no state 1 in layer 3; it has 9 tokens"):
        carrying(english, QUEEN, "state", 3, 1)


def test_of_models_with_random_weights_next_to_nothing_stands_out(word_tokenizer):
    """A source is one more random sentence to them."""
    config = BertConfig(
        vocab_size=word_tokenizer.get_vocab_size(),
        hidden_size=12,
        num_attention_heads=3,
        num_hidden_layers=2,
        intermediate_size=17,
        initializer_range=0.4,
    )
    out = []
    texts = ("hello romeo my [MASK] is juliet", "hello juliet my [MASK] is juliet")
    for seed in range(30):
        checkpoint = Checkpoint(make_model(config, seed).eval(), word_tokenizer)
        with contextlib.suppress(InputError):  # of models to which both words are the same
            found = patch_map(checkpoint, *texts, answers=("name", "great"))
            assert found.states.fractions[0, 2].item() == pytest.approx(1, abs=1e-4)
            out.append(found.states.stands_out.float().mean().item())
    assert len(out) > 10
    assert sum(out) / len(out) < 0.02  # against 2 of 27 with the queen


def test_what_has_no_map_is_refused_in_a_sentence(english):
    for source, answers, sentence in (
        (
            "the old queen took [MASK] crown.",
            HER,
            "have 10 and 9 tokens, with the .MASK. at 5 and 4.*of as many tokens",
        ),
        ("the [MASK] queen took crown.", HER, "at 2 and 4"),
        (KING, HER, "would be noise. Choose other words"),
        (QUEEN, ("her", "zyx"), "as . pieces; put|never learned"),
        ("the queen took a crown.", HER, "There is no .MASK."),
    ):
        with pytest.raises(InputError, match=sentence):
            patch_map(english, source, KING, answers=answers, random_sentences=0)
