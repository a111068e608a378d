"""Settings check themselves once; the error names the value, what is allowed and what to do."""

import dataclasses

import pytest

from bert_core.config import BertConfig, DataConfig, TokenizerConfig, TrainingConfig, TrainingPart
from bert_core.errors import BertCoreError, ConfigError
from bert_core.model import BertForPreTraining

ALL = (BertConfig, TokenizerConfig, DataConfig, TrainingConfig, TrainingPart)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (TrainingConfig, "learning_rate", 0),
        (TrainingConfig, "learning_rate", 1e9),
        (TrainingConfig, "learning_rate", float("nan")),
        (TrainingConfig, "learning_rate", "fast"),
        (TrainingConfig, "steps", 0),
        (TrainingConfig, "steps", 2.5),
        (TrainingConfig, "steps", True),
        (TrainingConfig, "decay", "cosine"),
        (DataConfig, "mask_probability", 0),
        (DataConfig, "batch_size", 10**9),
        (BertConfig, "hidden_size", 10**400),
        (TokenizerConfig, "kind", "letters"),
        (BertConfig, "hidden_size", -12),
        (BertConfig, "vocab_size", None),
    ],
)
def test_a_value_out_of_range_is_named_with_its_limits(kind, name, value):
    with pytest.raises(ConfigError) as caught:
        kind(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} is {value!r}")
    assert message.endswith(".")


def test_optional_values_may_be_left_empty():
    assert TokenizerConfig(vocab_size=None).vocab_size is None
    assert BertConfig(classifier_dropout=None).classifier_dropout is None


def test_values_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match="multiple of the number of heads"):
        BertConfig(hidden_size=10, num_attention_heads=3)
    with pytest.raises(ConfigError, match="more than 1 together"):
        DataConfig(mask_share=0.8, random_share=0.3)
    with pytest.raises(ConfigError, match="outside the vocabulary"):
        BertConfig(vocab_size=30, pad_token_id=30)


@pytest.mark.parametrize("kind", ALL)
def test_every_setting_has_a_hint_and_a_range_or_choices_that_include_its_default(kind):
    for field in dataclasses.fields(kind):
        assert field.metadata["hint"].endswith("."), field.name
        if field.name != "parts":  # parts check themselves
            assert ("range" in field.metadata) != ("choices" in field.metadata), field.name
    kind()


@pytest.mark.parametrize("kind", ALL)
def test_settings_are_frozen(kind):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kind(), dataclasses.fields(kind)[0].name, 7)


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
    assert TrainingConfig(**dataclasses.asdict(again)) == again  # as in JSON


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([{"start": 11, "steps": 5}], "starts at step 11"),
        ([{"start": 4}, {"start": 4}], "starts at step 4"),
        ([{"start": 4, "steps": 0}], "steps is 0"),
        ([{"begin": 4}], "steps, learning_rate, .*start"),
        (7, "must be a list"),
        ("ab", "must be a list"),
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
