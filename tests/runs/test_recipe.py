"""Recipes: read, checked, overridden; what they build; what a text gives before training."""

import itertools
import json
import re

import pytest
import torch
import transformers
from conftest import DIALOGUE

from balcony.compare.definitions import load_experiments
from balcony.train import preview as preview_module
from balcony.train.preview import preview
from bert_core import device
from bert_core.config import ASSETS
from bert_core.data.batches import IGNORED
from bert_core.data.corpus import Corpus, read_corpus
from bert_core.errors import BertCoreError, ConfigError, CorpusError
from bert_core.runs import jobs
from bert_core.runs.jobs import prepare
from bert_core.runs.recipe import Recipe, load_recipe, recipe_for, recipe_names
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bert_core.training import read_rows, step_cost


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("romeo-juliet")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_comes_with_the_app_can_be_read_and_has_a_description(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.title
    assert recipe.description.endswith(".")
    if recipe.corpus.file:
        assert recipe.source().sentences
    else:
        with pytest.raises(CorpusError, match=f"give it .*{recipe.corpus.needs[-12:]}"):
            recipe.source()


def test_the_quick_dialogue_is_the_default():
    assert recipe_names()[0] == "romeo-juliet"


def test_the_dialogues_are_the_tutorials():
    nine = load_recipe("romeo-juliet").source()
    assert len(nine.sentences) == 9
    assert nine.sentences[1] == "Hello, Romeo My name is Juliet. Nice to meet you."
    six = read_corpus(ASSETS / "corpora" / "romeo-juliet-short.txt")
    assert len(six.sentences) == 6
    assert six.sentences[-1] == "Thanks you Romeo"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("training.learning_rate", "0", "learning_rate is 0"),
        ("training.learning_rate", "1e9", "must be a number from"),
        ("training.learning_rate", "quick", "learning_rate is 'quick'"),
        ("training.steps", "12.5", "whole number"),
        ("training.speed", "1", "no setting 'speed'; there are: steps"),
        ("speed", "1", "no setting 'speed'"),
        ("vocab_size", "9", "no setting 'vocab_size'"),  # the tokenizer and the model have one each
        ("data.sequence_length", "65", "more than the 64 positions"),
        ("model.num_attention_heads", "7", "multiple of the number of heads"),
        ("tokenizer.kind", "syllable", "can be one of"),
    ],
)
def test_a_wrong_setting_is_refused_with_one_sentence(recipe, setting, value, message):
    with pytest.raises(ConfigError, match=message):
        recipe.override({setting: value})


def test_settings_are_read_from_strings(recipe):
    changed = recipe.override(
        {
            "training.steps": "40",
            "training.learning_rate": "5e-4",
            "tokenizer.vocab_size": "",
            "tokenizer.kind": "wordpiece",
        }
    )
    assert changed.training.steps == 40
    assert changed.training.learning_rate == 5e-4
    assert changed.tokenizer.vocab_size is None
    assert changed.tokenizer.kind == "wordpiece"
    assert recipe.training.steps != 40


def test_a_saved_recipe_is_read_as_the_same(recipe, tmp_path):
    path = tmp_path / "romeo-juliet.json"
    path.write_text(json.dumps(recipe.with_seed(7).content()))
    assert load_recipe(path) == recipe.with_seed(7) != recipe


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "The recipe mine cannot be used: These settings are needed: name, title, description"),
        (
            '{"title": "x", "description": "y", "speed": {}}',
            "The recipe mine cannot be used: There is no setting 'speed'; there are: name, title",
        ),
        ('{"title": "x", "description": "y", "training": 3}', "training is 3; it must map names to values"),
    ],
)
def test_a_broken_recipe_file_is_refused(tmp_path, content, message):
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_recipe(path)


def test_an_unknown_recipe_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="there are: romeo-juliet"):
        load_recipe("hamlet")


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "0", True])
def test_a_seed_is_a_whole_number(recipe, seed):
    content = recipe.content() | {"seed": seed}
    for use in (lambda: prepare(recipe, seed=seed), lambda: Recipe.from_dict("mine", content)):
        with pytest.raises(ConfigError, match="seed"):
            use()


def test_a_recipe_is_trained_with_its_own_seed_unless_another_one_is_given(recipe):
    seven = recipe.with_seed(7)
    expected = [prepare(recipe, seed=seed).first_model().state_dict() for seed in (7, 3)]
    for prepared, weights in zip((prepare(seven), prepare(seven, seed=3)), expected):
        assert all(torch.equal(ours, weights[name]) for name, ours in prepared.first_model().state_dict().items())
    assert [prepare(seven, seed=seed).recipe.seed for seed in (None, 3)] == [7, 3]


def test_a_recipe_of_another_text_does_not_name_or_describe_its_own(recipe):
    own = prepare(recipe, Corpus.from_text("How are you?\nGreat.", name="mine.txt")).recipe
    assert own.title == "mine.txt"
    for word in ("romeo-juliet.txt", "Romeo", "dialogue"):
        assert word not in json.dumps(own.content())
    with pytest.raises(CorpusError, match="give it the text that it was trained on"):
        prepare(own)
    assert own.text_kind == recipe.text_kind
    same = Corpus.from_text("\n".join(recipe.source().sentences), "lines")
    assert prepare(recipe, same).recipe.corpus.file == recipe.corpus.file
    missing = recipe.replace(corpus=recipe.corpus.replace(file="no-longer-here.txt"))
    assert prepare(missing, same).recipe.corpus.file is None


def test_a_warm_up_longer_than_the_training_is_shortened_with_a_note(recipe):
    short = recipe.override({"training.steps": 28, "training.warmup_steps": 100})
    prepared, facts = prepare(short), preview(short, short.source())
    assert (prepared.recipe.training.steps, prepared.recipe.training.warmup_steps) == (28, 2)
    assert facts.warnings == prepared.notes
    assert prepared.notes == ("A warm-up of 100 steps is too long for 28; it is shortened to 2.",)
    again = prepare(prepared.recipe)
    assert (again.recipe, again.notes) == (prepared.recipe, ())
    epochs = recipe.override({"training.epochs": 9, "data.batch_size": 6, "training.warmup_steps": 12})  # 12 steps
    assert prepare(epochs).recipe.training.warmup_steps == 1
    assert prepare(epochs.override({"training.warmup_steps": 11})).recipe.training.warmup_steps == 11


def test_preparing_draws_nothing_from_the_global_generator(recipe):
    before = torch.get_rng_state()
    first, again, other = prepare(recipe, seed=1), prepare(recipe, seed=1), prepare(recipe, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    weights = [p.first_model().bert.embeddings.word_embeddings.weight for p in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.tokenizer.to_str() == again.tokenizer.to_str()


def test_the_preview_of_the_dialogue(recipe):
    facts = preview(recipe, recipe.source())
    assert (facts.sentences, facts.tokens, facts.vocabulary) == (9, 62, 41)
    assert facts.unknown_share == 0
    assert facts.cut_share == 0
    assert facts.parameters == prepare(recipe).config.parameter_count()
    assert 0 < facts.seconds < 600


def test_the_preview_counts_unknown_and_cut_tokens(recipe):
    corpus = Corpus.from_text("a b c d e f\na b c d e f g\n")
    facts = preview(recipe.override({"tokenizer.min_frequency": 2, "data.sequence_length": 8}), corpus)
    assert facts.unknown_share == pytest.approx(1 / 13)  # g
    assert facts.cut_share == pytest.approx(8 / 13)  # 5 of 13 tokens fit beside the three special ones


@pytest.mark.parametrize(
    ("text", "message"),
    [("just one sentence", "single sentence"), ("same\nsame\nsame", "two different"), ("...\n!!!\n", "No word")],
)
def test_a_text_that_cannot_be_trained_on_is_refused(recipe, text, message):
    with pytest.raises(CorpusError, match=message):
        preview(recipe, Corpus.from_text(text))


def test_a_size_that_does_not_fit_this_machine_is_refused_before_anything_is_allocated(recipe):
    huge = recipe.override(
        {
            "model.hidden_size": 4096,
            "model.intermediate_size": 16384,
            "model.num_hidden_layers": 48,
            "data.batch_size": 4096,
        }
    )
    for ask in (lambda: preview(huge, huge.source()), lambda: prepare(huge)):
        with pytest.raises(BertCoreError, match=r"needs about [\d.]+ GB"):
            ask()


@pytest.mark.parametrize(
    ("name", "layers", "heads", "hidden", "batch", "short"),
    [
        ("bert-paper", 12, 12, 768, 256, 128),
        ("bert-paper-small", 2, 2, 128, 44, 128),
        ("bookcorpus-korean-tutorial", 12, 12, 768, 64, 128),
        ("bookcorpus-korean-tutorial-small", 2, 2, 128, 11, 128),
        ("romeo-juliet-wmathor", 6, 12, 768, 6, None),
    ],
)
def test_a_recipe_states_its_sizes(name, layers, heads, hidden, batch, short):
    recipe = load_recipe(name)
    model, data = recipe.model, recipe.data
    assert (model.num_hidden_layers, model.num_attention_heads, model.hidden_size) == (layers, heads, hidden)
    assert (data.batch_size, data.short_length) == (batch, short)
    assert f"{layers} layers of {hidden}" in recipe.description


def test_the_scale_of_an_earlier_version_is_refused(recipe):
    with pytest.raises(ConfigError, match=r"^The recipe mine cannot be used: There is no setting 'scale'; there are: "):
        Recipe.from_dict("mine", recipe.content() | {"scale": 0.5})
    with pytest.raises(ConfigError, match="There is no setting 'scale'; sections are: corpus"):
        recipe.override({"scale": "0.5"})


def test_epochs_become_steps(recipe):
    prepared = prepare(recipe.override({"training.epochs": 9, "data.batch_size": 6}))
    assert prepared.recipe.training.steps == 12  # 9 x 8 sentences that have a next one, in batches of 6
    assert (
        prepare(
            recipe.override({"training.epochs": 9, "data.batch_size": 6, "training.alternating": True})
        ).recipe.training.steps
        == 24
    )
    assert len(list(prepared.trainer())) == 12
    assert load_recipe("wikitext-d2l").override({"training.steps": 5}).training.epochs is None


def test_held_out_parts_are_no_part_of_the_training(recipe):
    corpus = Corpus.from_text("\n".join(f"word{i} is here" + " and there" * (i % 3) for i in range(50)))
    held = recipe.override({"corpus.validation_share": 0.16, "corpus.test_share": 0.2})
    prepared = prepare(held, corpus)
    sizes = [len(part.encoded.lengths) for part in (prepared.batches, prepared.validation, prepared.test)]
    assert sizes == [32, 8, 10]
    assert prepared.tokenizer.token_to_id("word31") is not None
    assert prepared.tokenizer.token_to_id("word32") is None  # the vocabulary is learnt from the training part alone
    assert prepared.validation.encoded.unknown_share == pytest.approx(8 / len(prepared.validation.encoded.ids))


def test_held_out_sentences_that_are_learned_from_are_counted(recipe):
    sentences = [f"number {i} is short" for i in range(30)]
    once, twice = ("\n".join(sentences * times) for times in (1, 2))
    half = recipe.override({"corpus.validation_share": 0.5, "training.nsp_weight": 0})
    said = [[each for each in prepare(half, Corpus.from_text(text)).notes if "heart" in each] for text in (once, twice)]
    counted = "Of the 30 sentences held out for validation, 30 are in the training part too"
    assert said == [[], [f"{counted}, so a model may know them by heart."]]


@pytest.mark.parametrize(
    ("text", "documents", "sentences"),
    [
        ("\n\n".join(f"one {i}\ntwo {i}" for i in range(20)), 2, 4),
        ("\n\n".join(f"one {i}\ntwo {i}" for i in range(7)), 0, 0),  # too few to miss one
        ("\n".join(f"one {i % 50}" for i in range(230)), 1, 23),  # one long document is cut
        ("\n".join(f"one {i % 50}" for i in range(199)), 0, 0),
        ("\n\n".join("\n".join(f"one {i % 50}" for i in range(40)) for _ in range(6)), 1, 24),  # of six, one is cut
        ("\n".join(f"one{i}" for i in range(230)), 0, 0),  # no word of the end is known from the beginning
        ("\n".join(f"one{i} here" for i in range(230)), 0, 0),  # what is left of each is the same
        ("\n\n".join(f"one {i}" + "\ntwo" * (i < 8) for i in range(10)), 0, 0),  # the last has no pair
    ],
)
def test_a_tenth_of_a_longer_text_is_held_out_unless_the_recipe_overrides_it(recipe, text, documents, sentences):
    corpus = Corpus.from_text(text, "lines")
    facts, prepared = preview(recipe, corpus), prepare(recipe, corpus)
    held_out = prepared.parts.validation
    assert (len(held_out.documents) if held_out else 0, facts.held_out_sentences) == (documents, sentences)
    assert (prepared.parts.validation is None, prepared.validation is None) == (documents == 0, documents == 0)
    held_out = prepared.parts.validation.sentences if prepared.parts.validation else ()
    assert [*prepared.parts.train.sentences, *held_out] == corpus.sentences
    again = prepare(prepared.recipe, corpus)  # the recipe that is saved states the share
    assert again.recipe == prepared.recipe
    assert again.parts.train == prepared.parts.train
    assert prepare(recipe.override({"corpus.validation_share": 0}), corpus).parts.validation is None


def test_the_tokenizer_of_a_text_that_holds_nothing_out_is_trained_on_all_of_it(recipe, monkeypatch):
    def train_tokenizer(corpus, **options):
        raise CorpusError("no word")

    text = Corpus.from_text("\n".join(f"one{i}" for i in range(230)))
    assert prepare(recipe, text).tokenizer.token_to_id("one229") is not None
    monkeypatch.setattr(jobs, "train_tokenizer", train_tokenizer)
    with pytest.raises(CorpusError, match="no word"):
        prepare(recipe, text)


@pytest.mark.parametrize("text", ["a single sentence", "\n\n".join(f"one {i}" for i in range(20))])
def test_documents_of_one_sentence_train_without_next_sentence_prediction(recipe, text):
    corpus = Corpus.from_text(text, "lines")
    with pytest.raises(CorpusError, match=r"at least two|no two neighbours"):
        prepare(recipe, corpus)
    recipe = recipe.override({"training.nsp_weight": 0})
    assert len(prepare(recipe, corpus).batches[0].input_ids) == recipe.data.batch_size
    facts = preview(recipe, corpus)
    assert (facts.cut_share, facts.held_out_sentences) == (0, 2 if len(corpus.sentences) > 1 else 0)


def test_the_recipe_of_the_paper_packs_its_segments(recipe):
    paper = load_recipe("bert-paper")
    assert (paper.data.segments, recipe.data.segments) == ("packed", "sentences")
    assert Recipe.from_dict("saved", paper.content()).data.segments == "packed"  # a saved run keeps it


def test_a_long_text_is_previewed_from_its_beginning(monkeypatch):
    monkeypatch.setattr(preview_module, "MAX_PREVIEWED", 60)
    words = ("one", "two", "three", "four", "five", "six", "seven")
    lines = [f"{words[i % 7]} {words[i * i % 7]} {words[i % 3]}" for i in range(240)]
    changed = {"training.epochs": 3, "training.warmup_steps": 2, "corpus.validation_share": 0.1}
    recipe = load_recipe("romeo-juliet").override(changed)
    whole = Corpus.from_text("\n".join(lines), "lines")
    facts, begun = preview(recipe, whole), preview(recipe, whole.part(0, 60))
    assert begun.sentences == 54  # without those held out
    for name in ("sentences", "tokens", "held_out_sentences"):
        assert getattr(facts, name) == 4 * getattr(begun, name)
    assert facts.seconds == pytest.approx(4 * begun.seconds, rel=0.2)
    assert begun.warnings == facts.warnings[:-1]
    assert "first 60 of 240 sentences" in facts.warnings[-1]


def test_preparing_reports_its_stages(recipe):
    stages = []
    prepare(recipe, progress=stages.append)
    assert stages == ["training the tokenizer", "encoding the text, 0%"]


def test_a_recipe_contains_the_parts_of_its_training(recipe, tmp_path):
    longer = recipe.replace(training=recipe.training.then(100, 50, 0.01))
    path = tmp_path / "romeo-juliet.json"
    path.write_text(json.dumps(longer.content()))
    assert load_recipe(path) == longer


def test_explicit_steps_override_epochs_and_parts(recipe):
    longer = recipe.replace(training=recipe.training.then(100, 50, 0.01))
    assert longer.override({"training.beta2": 0.9}).training.total_steps == 150
    assert longer.override({"training.steps": "77"}).training.total_steps == 77


OF_TEXTS = [experiment for experiment in load_experiments() if not experiment.of_task]


@pytest.mark.parametrize("experiment", OF_TEXTS, ids=lambda experiment: experiment.name)
def test_the_variants_of_an_experiment_train_and_differ_in_one_thing(recipe, experiment):
    assert experiment.question.endswith("?")
    prepared = [prepare(variant.apply(recipe), seed=3) for variant in experiment.variants]
    assert len({variant.title for variant in experiment.variants}) == len(prepared) >= 2
    differing = {
        name
        for variant in experiment.variants
        for name in variant.settings | variant.factors
        if len({(other.settings | other.factors)[name] for other in experiment.variants}) > 1
    }
    assert differing
    assert len({name.split(".")[0] for name in differing}) == 1
    losses = [read_rows([*itertools.islice(each.trainer(), 2)])[1] for each in prepared]
    assert len({(row.mlm_loss, row.nsp_loss, row.grad_norm) for row in losses}) == len(prepared)


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("model.use_position_embeddings", "position_embeddings.weight"),
        ("model.use_token_type_embeddings", "token_type_embeddings.weight"),
    ],
)
def test_embeddings_that_are_not_used_stay_zero_and_the_others_begin_alike(recipe, setting, part, tmp_path):
    smaller = recipe.override({"training.steps": 5, "training.weight_decay": 0.1})
    used, unused = prepare(smaller), prepare(smaller.override({setting: "false"}))
    for (name, ours), theirs in zip(used.first_model().named_parameters(), unused.first_model().parameters()):
        assert torch.equal(ours, theirs) == (not name.endswith(part)), name
    trainer = unused.trainer()
    list(trainer)
    weights = dict(trainer.model.named_parameters())
    assert not next(p for name, p in weights.items() if name.endswith(part)).any()
    save_checkpoint(Checkpoint(trainer.model.eval(), unused.tokenizer), tmp_path / "model")
    oracle = transformers.BertForPreTraining.from_pretrained(tmp_path / "model").eval()
    batch = unused.batches[0]
    inputs = (batch.input_ids, batch.attention_mask, batch.token_type_ids)
    with torch.no_grad():
        theirs, ours = oracle(*inputs), load_checkpoint(tmp_path / "model").model(*inputs)
    torch.testing.assert_close(ours.seq_relationship_logits, theirs.seq_relationship_logits, atol=1e-5, rtol=1e-4)
    asked = batch.labels != IGNORED
    torch.testing.assert_close(ours.prediction_logits[asked], theirs.prediction_logits[asked], atol=1e-4, rtol=1e-4)


def test_the_first_part_of_a_run_has_short_pairs(recipe):
    corpus = Corpus.from_text("\n".join(f"{i} " + "a long sentence " * 8 for i in range(20)))
    changed = {"data.short_length": 16, "data.sequence_length": 48, "training.steps": 50, "data.short_share": 0.8}
    batches = prepare(recipe.override(changed), corpus).batches
    assert [batches[k].input_ids.shape[1] for k in (0, 39, 40, 49)] == [16, 16, 48, 48]


def test_a_recipe_without_a_text_decides_how_a_given_text_is_split(recipe):
    assert recipe.text_kind == "auto"
    assert load_recipe("mrpc-morvan").text_kind == "pairs"


def test_threads_time_and_precision_are_those_of_the_long_pairs(recipe, monkeypatch):
    """And so is the limit of a step, which a recipe with many short ones would pass otherwise."""
    corpus = Corpus.from_text("\n".join(f"{i} " + "a long sentence " * 8 for i in range(20)))
    monkeypatch.setattr(device, "_rate", lambda *_: 1e9)
    long = recipe.override({"data.sequence_length": 48, "training.steps": 50})
    mixed = long.override({"data.short_length": 16, "data.short_share": 0.8})
    plain, with_short = (prepare(each, corpus) for each in (long, mixed))
    assert with_short.seconds(10) == pytest.approx(plain.seconds(10), rel=0.1)
    cost = step_cost(plain.config, plain.batches, plain.objective, "cpu")
    monkeypatch.setattr(device, "_SMALL", 0.9 * cost.operations)
    monkeypatch.setattr(device, "processor_cores", lambda: 3)
    assert with_short.trainer().threads == 3


def test_going_on_from_a_model_takes_a_rate_for_going_on(tiny_checkpoint):
    recipe = load_recipe("romeo-juliet").override({"training.steps": 3, "data.sequence_length": 17})
    corpus = Corpus.from_text(DIALOGUE, "lines", "the dialogue")
    prepared = prepare(recipe, corpus, start=tiny_checkpoint)
    assert prepared.recipe.training.learning_rate == 3e-4
    given = recipe.going_on_from("tiny", tiny_checkpoint).override({"training.learning_rate": 0.004})
    assert prepare(given, corpus, start=tiny_checkpoint).recipe.training.learning_rate == 0.004
    assert prepare(recipe, corpus).recipe.training.learning_rate == recipe.training.learning_rate > 0.001
    low = recipe.override({"training.learning_rate": 1e-5})
    assert prepare(low, corpus, start=tiny_checkpoint).recipe.training.learning_rate == 1e-5
    parts = recipe.override({"training.parts": [{"start": 2, "steps": 2, "learning_rate": 0.01}]})
    assert [part.learning_rate for part in parts.going_on_from("tiny", tiny_checkpoint).training.parts] == [3e-4]


def test_a_text_of_unknown_words_is_said_or_refused(tiny_checkpoint):
    recipe = load_recipe("romeo-juliet").override({"training.steps": 3, "data.sequence_length": 17})
    strange = [f"zork{n} blorb{n}" for n in range(90)]
    mixed = Corpus([list(DIALOGUE.splitlines() + strange[:9])], name="mixed")
    notes = prepare(recipe, mixed, start=tiny_checkpoint).notes
    assert re.match("[2-5].% of the words are unknown to this vocabulary; choose a model that knows", notes[0])
    with pytest.raises(CorpusError, match=r"9.% of the words of odd are unknown to this vocabulary"):
        prepare(recipe, Corpus([["i am romeo", *strange]], name="odd"), start=tiny_checkpoint)
    small = recipe.override({"tokenizer.vocab_size": 12})
    assert "% of the words are unknown to this vocabulary; make it larger." in " ".join(prepare(small, mixed).notes)
    with pytest.raises(ConfigError, match="The device 'tpu' is not available here"):
        prepare(recipe, mixed, device="tpu")


def test_a_recipe_for_any_text_describes_the_one_that_it_was_given():
    mini, small = load_recipe("english-mini"), {"training.steps": 3, "model.hidden_size": 12, "data.batch_size": 2}
    small |= {"model.num_attention_heads": 3, "model.intermediate_size": 8, "corpus.validation_share": 0}
    text = "One dog ran. Two cats sat. Three birds flew.\n\nA fourth came. It fell. It rose."
    corpus = Corpus.from_text(text, "documents", "mine.txt")
    first = prepare(mini.override(small), corpus).recipe
    assert (first.title, first.corpus.kind) == ("mine.txt", "documents")
    assert first.description == "A text of your own, with the settings of the recipe english-mini."
    again = Recipe.from_dict("recipe", first.content())
    assert prepare(again, corpus).recipe.content() == first.content()
    unread = Corpus(corpus.documents, "mine.txt")  # as a kept run has it
    assert prepare(again, unread).recipe.content() == first.content()
    other = prepare(again, Corpus.from_text("one two\nthree four\nfive six\nten", "lines", "other.txt")).recipe
    assert (other.title, other.corpus.kind, other.description) == ("other.txt", "lines", first.description)


@pytest.mark.parametrize("name", ["file", "encoding", "needs", "pair_label"])
@pytest.mark.parametrize("value", [[], {}, 3, True])
def test_a_text_among_the_settings_must_be_one(recipe, name, value):
    content = recipe.content()
    content["corpus"] |= {name: value}
    with pytest.raises(ConfigError, match=f"{name} is .*; it must be a text"):
        Recipe.from_dict("mine", content)


def lines(count, words=8, different=300):
    """A text of `count` sentences."""
    return "\n".join(" ".join(f"w{(i * j + j) % different}" for j in range(1, words + 1)) for i in range(count))


def test_a_recipe_is_chosen_by_the_size_of_the_text():
    texts = [Corpus.from_text(lines(count), "lines", "mine.txt") for count in (10, 600, 6_000, 30_000)]
    sizes = list(map(recipe_for, texts))
    assert sizes == list(map(recipe_for, texts)), "the same text has the same recipe"
    assert {recipe.title for recipe in sizes} == {"mine.txt"}
    assert [recipe.tokenizer.kind for recipe in sizes] == ["word", "wordpiece", "wordpiece", "wordpiece"]
    assert sizes[0].training.steps == load_recipe("romeo-juliet").training.steps, "a short one is learned by heart"
    hidden = [recipe.model.hidden_size for recipe in sizes[1:]]
    assert hidden == sorted(hidden)
    vocabulary = [recipe.tokenizer.vocab_size for recipe in sizes[1:]]
    assert vocabulary == sorted(vocabulary)
    dropout = [recipe.model.hidden_dropout_prob for recipe in sizes[1:]]
    assert dropout == sorted(dropout, reverse=True)
    assert [recipe.corpus.validation_share for recipe in sizes] == [None] * 4


@pytest.mark.parametrize("text", [lines(40, different=30), lines(300)])
def test_the_chosen_recipe_trains_and_says_that_it_was_chosen(text):
    corpus = Corpus.from_text(text, "lines", "mine.txt")
    prepared = prepare(recipe_for(corpus), corpus)
    found = prepared.recipe
    assert len(prepared.batches[0].input_ids) == found.data.batch_size
    assert prepared.notes[0] == "Balcony chose by the size what you did not set yourself."
    assert found.description == "A text of your own, with settings that were chosen by its size."
    assert prepare(Recipe.from_dict("saved", found.content()), corpus).recipe.content() == found.content()


@pytest.mark.parametrize("name", [path.stem for path in (ASSETS / "examples").glob("*.txt")])
def test_every_example_is_a_text_to_learn_by_heart_in_a_minute_and_a_half(name):
    path = ASSETS / "examples" / f"{name}.txt"
    corpus = read_corpus(path)
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    assert list(corpus.sentences) == lines, "each line is a sentence"
    assert corpus.notes[0].startswith("Read as lines: each line is a sentence.")
    recipe = recipe_for(corpus)
    assert recipe.tokenizer.kind == "word"
    facts = preview(recipe, corpus)
    assert facts.unknown_share == 0
    assert (facts.held_out_sentences > 0) == name.endswith("-song"), "the stanzas of a song are documents"
    assert facts.seconds < 90


def test_a_script_with_many_characters_has_them_all_in_its_vocabulary():
    characters = [chr(0xAC00 + 7 * number) for number in range(900)]
    words = ["".join(characters[(k * step + step) % 900] for step in (1, 2, 3)) for k in range(3_000)]
    corpus = Corpus.from_text("\n".join(" ".join(words[k : k + 6]) for k in range(0, 3_000, 6)), "lines")
    assert preview(recipe_for(corpus), corpus).unknown_share < 0.01
