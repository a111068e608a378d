"""The time slider shows exactly the numbers that the run had at that step."""

import torch
from helpers import finished

from balcony.frame.question import Question
from balcony.frame.shown_model import shown_model
from balcony.masked_words.tab import guesses_value
from balcony.next_sentence.tab import verdict_value
from balcony.server.workspaces import Workspaces
from bert_core import TrainingService, load_recipe, prepare
from bert_core.storage.checkpoint import Checkpoint


def test_a_moment_of_a_run_has_the_numbers_of_its_step() -> None:
    recipe = load_recipe("romeo-juliet").override({"training.steps": 25})
    service = TrainingService(device="cpu")
    try:
        run = finished(service.start(recipe, seed=3))
    finally:
        service.close()
    workspaces = Workspaces(service, {})
    space = workspaces.enter(None)
    space.add_run(run)
    steps = shown_model(workspaces, space, run.id, None)["steps"]
    assert (steps[0], steps[-1]) == (0, 25)
    hidden, pair = Question("hello my name", hidden=(1,)), Question("thank you", "hello")
    # The same training, step by step, without a service.
    prepared = prepare(recipe, seed=3)
    trainer, seen = prepared.trainer(), 0
    for step in steps:
        while trainer.step < step:
            next(trainer)
        assert shown_model(workspaces, space, run.id, step)["at"] == step
        shown = workspaces.model(space, run.id, step).checkpoint
        weights = dict(shown.model.named_parameters())
        assert all(torch.equal(weights[name], there) for name, there in trainer.model.named_parameters())
        then = Checkpoint(trainer.model.eval(), prepared.tokenizer)
        assert guesses_value(shown, hidden) == guesses_value(then, hidden)
        assert verdict_value(shown, pair) == verdict_value(then, pair)
        trainer.model.train()
        seen += 1
    assert seen == len(run.snapshots) > 5
