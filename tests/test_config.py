"""Settings check themselves once; the error names the value, what is allowed and what to do."""

import json

import pytest
from pydantic import ValidationError

from bert_core.config import (
    BertConfig,
    CorpusConfig,
    DataConfig,
    FinetuningConfig,
    FinetuningData,
    TokenizerConfig,
    TrainingConfig,
    TrainingPart,
    choices,
    limits_of,
)
from bert_core.errors import BertCoreError, ConfigError
from bert_core.model import BertForPreTraining

ALL = (BertConfig, TokenizerConfig, DataConfig, TrainingConfig, TrainingPart, FinetuningConfig, FinetuningData)


@pytest.mark.parametrize(
    ("kind", "name", "value", "allowed"),
    [
        (TrainingConfig, "learning_rate", 0, "must be a number from 1e-08 to 1"),
        (TrainingConfig, "learning_rate", 1e9, "must be a number"),
        (TrainingConfig, "learning_rate", float("nan"), "must be a number"),
        (TrainingConfig, "learning_rate", "fast", "must be a number"),
        (TrainingConfig, "learning_rate", True, "must be a number"),
        (TrainingConfig, "steps", 0, "must be a whole number from 1 to 100,000,000"),
        (TrainingConfig, "steps", 2.5, "must be a whole number"),
        (TrainingConfig, "steps", "48", "must be a whole number"),
        (TrainingConfig, "steps", True, "must be a whole number"),
        (TrainingConfig, "decay", "cosine", "can be one of: linear, none"),
        (TrainingConfig, "alternating", 1, "can be one of: False, True"),
        (TrainingConfig, "parts", 7, "must be a list"),
        (TrainingConfig, "parts", "ab", "must be a list"),
        (DataConfig, "mask_probability", 0, "must be a number from 0.001 to 1"),
        (DataConfig, "batch_size", 10**9, "must be a whole number"),
        (DataConfig, "short_length", "64", "must be a whole number"),
        (BertConfig, "hidden_size", 1, "must be a whole number from 2 to 4,096"),
        (BertConfig, "hidden_size", 10**400, "must be a whole number"),
        (BertConfig, "vocab_size", None, "must be a whole number"),
        (TokenizerConfig, "kind", "letters", "can be one of: word, whitespace, wordpiece, bpe"),
        (TokenizerConfig, "strip_accents", "no", "can be one of: False, True, None"),
        (CorpusConfig, "file", ["a"], "must be a text"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(kind, name, value, allowed):
    with pytest.raises(ConfigError) as made:
        kind(**{name: value})
    with pytest.raises(ConfigError) as replaced:
        kind().replace(**{name: value})
    for message in (str(made.value), str(replaced.value)):
        assert message.startswith(f"{name} is {repr(value)[:110]}; it {allowed}")
        assert message.endswith(".")


def test_an_unknown_name_is_refused_with_the_known_ones():
    for use in (lambda: TrainingPart(begin=4), lambda: TrainingPart().replace(begin=4)):
        with pytest.raises(ConfigError) as caught:
            use()
        known = "steps, learning_rate, warmup_steps, decay, start"
        assert str(caught.value) == f"There is no setting 'begin'; there are: {known}."


@pytest.mark.parametrize("name", ["\ud800", "", "a b", "self", "9"])
def test_a_name_that_nobody_could_mean_is_refused_in_letters_that_can_be_printed(name):
    for values in ({name: 1}, {"parts": [{name: 1}]}):
        with pytest.raises(ConfigError, match=r"^There is no setting '") as caught:
            TrainingConfig(**values)
        assert str(caught.value).encode()


def test_optional_values_may_be_left_empty():
    assert TokenizerConfig(vocab_size=None).vocab_size is None
    assert BertConfig(classifier_dropout=None).classifier_dropout is None


@pytest.mark.parametrize(
    ("config", "name", "typed", "value"),
    [
        (TrainingConfig(), "steps", " 40 ", 40),
        (TrainingConfig(), "steps", "1e3", 1000),
        (TrainingConfig(), "learning_rate", "5e-4", 5e-4),
        (TrainingConfig(), "learning_rate", ".5", 0.5),
        (TrainingConfig(epochs=3), "epochs", "", None),
        (TrainingConfig(), "alternating", "True", True),
        (TrainingConfig(), "decay", "none", "none"),
        (TrainingConfig(steps=5), "parts", '[{"start": 5}]', (TrainingPart(start=5),)),
        (TrainingConfig(parts=[{"start": 5}]), "parts", "", ()),
        (TokenizerConfig(), "strip_accents", "None", None),
        (CorpusConfig(), "pair_label", "1", "1"),
        (CorpusConfig(), "encoding", "1252", "1252"),
    ],
)
def test_a_typed_text_stands_for_a_value_where_that_is_asked_for(config, name, typed, value):
    assert getattr(config.replace_by_texts({name: typed}), name) == value
    if typed != value:
        with pytest.raises(ConfigError):
            config.replace(**{name: typed})


@pytest.mark.parametrize("typed", ["fast", "12.5", "[3", "nan", "inf", "9" * 5000, "[" * 5000, ""])
def test_a_typed_text_that_is_no_value_is_refused(typed):
    with pytest.raises(ConfigError, match=r"^steps is .*it must be a whole number"):
        TrainingConfig().replace_by_texts({"steps": typed})


def test_values_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match="multiple of the number of heads"):
        BertConfig(hidden_size=10, num_attention_heads=3)
    with pytest.raises(ConfigError, match="multiple of the number of heads"):
        BertConfig().replace(num_attention_heads=3)
    with pytest.raises(ConfigError, match="more than 1 together"):
        DataConfig(mask_share=0.8, random_share=0.3)
    with pytest.raises(ConfigError, match="outside the vocabulary"):
        BertConfig(vocab_size=30, pad_token_id=30)


@pytest.mark.parametrize("kind", ALL)
def test_every_setting_has_a_hint_and_limits_or_choices_that_include_its_default(kind):
    for name, field in kind.model_fields.items():
        is_of_the_tokenizer = kind is BertConfig and name in ("vocab_size", "pad_token_id")  # no person chooses it
        assert is_of_the_tokenizer or field.description.endswith("."), name
        if name != "parts":  # parts check themselves
            assert bool(limits_of(field)) != bool(choices(field)), name
        assert kind().replace(**{name: field.default}) == kind()


@pytest.mark.parametrize("kind", ALL)
def test_settings_are_frozen_and_the_same_as_json(kind):
    with pytest.raises(ValidationError):
        setattr(kind(), next(iter(kind.model_fields)), 7)
    assert kind(**json.loads(json.dumps(kind().content()))) == kind()


def test_a_training_run_may_have_later_parts():
    config = TrainingConfig(steps=10, learning_rate=0.1, decay="none")
    assert (config.total_steps, config.parts) == (10, ())
    longer = config.then(10, 5, 0.2)
    assert longer.total_steps == 15
    assert longer.parts == (TrainingPart(start=10, steps=5, learning_rate=0.2, decay="none"),)
    again = longer.then(15, 7)  # keeps the current peak
    assert (again.total_steps, again.parts[1].learning_rate) == (22, 0.2)
    changed_early = longer.then(10, 5, 0.3)  # replaces the part that starts there
    assert changed_early.parts == (TrainingPart(start=10, steps=5, learning_rate=0.3, decay="none"),)
    assert TrainingConfig(**json.loads(json.dumps(again.content()))) == again


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([{"start": 11, "steps": 5}], "starts at step 11"),
        ([{"start": 4}, {"start": 4}], "starts at step 4"),
        ([{"start": 4, "steps": 0}], "steps is 0"),
        ([{"begin": 4}], "no setting 'begin'; there are: steps, learning_rate, .*start"),
        ([7], "parts is 7; it must be a list"),
    ],
)
def test_parts_that_do_not_follow_one_another_are_refused(parts, message):
    with pytest.raises(ConfigError, match=message):
        TrainingConfig(steps=10, parts=parts)


def test_the_parameter_count_is_that_of_the_built_model():
    config = BertConfig(
        vocab_size=37,
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=29,
        max_position_embeddings=17,
    )
    assert config.parameter_count() == sum(p.numel() for p in BertForPreTraining(config).parameters())


def test_bert_base_has_the_published_size():
    base = BertConfig(
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=512,
    )
    assert base.parameter_count() == 110_106_428  # transformers' BertForPreTraining of bert-base-uncased


def test_all_errors_have_one_base_class():
    assert issubclass(ConfigError, BertCoreError)
