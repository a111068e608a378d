"""The model that the page shows: its name, its steps, the models to choose from, and how a link describes it."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from balcony.frame.page_request import PageRequest
from balcony.handlers import plain, sentence_of
from balcony.server.news import series_of, thin
from balcony.server.workspace import Model, Workspace, is_finetuning
from balcony.server.workspaces import Workspaces
from bert_core.config import LOCAL, MAX_SEED
from bert_core.errors import ConfigError
from bert_core.runs.jobs import check_steps
from bert_core.runs.recipe import Recipe, recipe_named, recipe_names
from bert_core.runs.run import ACTIVE, Run
from bert_core.storage.checkpoint import Checkpoint

MOST_STEPS = 12  # of a run to compare with
CURVE_POINTS = 60
LINKED = [name for name in Recipe.settings() if name != "corpus.kind"]  # a link has a text of the program
STATUS_NAMES = {"running": "training"}  # on the page, where it differs from the program's, as in compare/runs.js
_repeated: WeakKeyDictionary[Run, dict[str, Any]] = WeakKeyDictionary()  # the descriptions of runs started for links
NOT_REPEATED = "It used another model or a recipe file, or changed while it trained, which a link does not repeat: {}."


def caption(model: Model) -> str:
    """The model's name above its view."""
    return f"{model.title}, {model.detail}"


def of_both(asked: PageRequest, first: dict[str, Any], second: Callable[[Checkpoint], dict[str, Any]]) -> list[Any]:
    """A value of the shown model, and the same of the model to compare with: None without one, and why there is none
    under "error". Where there are two, each has the name of its model under "caption"."""
    try:
        if (other := asked.other) is None:
            return [first, None]
        beside = second(other.checkpoint) | {"caption": caption(other)}
    except BaseException as error:
        beside = {"error": sentence_of(error), "caption": "The other model"}
    return [first | {"caption": caption(asked.model)}, beside]


def models(workspaces: Workspaces, space: Workspace) -> list[tuple[str, str, str, list[int] | None, bool]]:
    """All models that the visitor can choose: key, name and detail of each; of a run some of its steps, the newest
    first, or None before it has one; and whether it is the visitor's own."""

    def listed(run: Run) -> tuple[str, str, str, list[int] | None, bool]:
        steps = [snapshot.step for snapshot in run.snapshots]
        some = dict.fromkeys(steps[:: -(-len(steps) // MOST_STEPS) or 1] + steps[-1:])
        return run.id, space.title(run.id), STATUS_NAMES.get(run.status, run.status), [*reversed(some)] or None, True

    return [
        *((name, name, "comes with Balcony", [], False) for name in workspaces.shipped_names),
        *map(listed, [*space.runs.values()][::-1]),
        *((key, space.title(key), model.detail, [], True) for key, model in space.models.items()),
    ]


def shown_model(workspaces: Workspaces, space: Workspace, key: str, step: int | None) -> dict[str, Any]:
    """What the page's frame shows of a model.

    key, name, detail. own: whether the visitor may rename it. run: its id, None for another model. steps: of its
    snapshots. at: the shown one, None for the newest or one to come. curve: [step, MLM loss] points. recipe: what a
    link says of it, see `description`. Raises RunError for a model that the visitor does not have.
    """
    run = space.runs.get(key)
    if run is None:
        model = workspaces.model(space, key)
        is_own = key in space.models
        missing = f"It came from a file or the Hub, which a link does not carry: {model.title}."
        shown = {"key": key or workspaces.shipped_names[0], "name": plain(model.title), "detail": model.detail}
        recipe = {"missing": missing} if is_own else None
        return {**shown, "own": is_own, "run": None, "steps": [], "at": None, "recipe": recipe}
    is_active = run.status in ACTIVE  # read first: the snapshots of a run that has ended are all there
    steps = [snapshot.step for snapshot in run.snapshots]
    detail = "" if steps else "preparing" if is_active else "ended before it had a model"
    near = steps if steps and (not is_active or (step or 0) <= steps[-1]) else []
    return {
        "key": key,
        "name": plain(space.title(key)),
        "detail": detail,
        "own": True,
        "run": run.id,
        "steps": steps,
        "at": None if step is None else min(near, key=lambda each: abs(each - step), default=None),
        "curve": [point[:2] for point in thin(run.history(), CURVE_POINTS, series_of(run)[0])],
        "active": is_active,
        "recipe": description(run),
    }


def description(run: Run) -> dict[str, Any]:
    """How a link describes a run: recipe, seed and changed settings, with which it trains again bit for bit; or, for a
    text of one's own or settings that were changed during the run, why it cannot: {"missing": sentence}."""
    return _described(run, run.recipe)


def _described(run: Run, recipe: Any) -> dict[str, Any]:
    not_repeated = {"missing": NOT_REPEATED.format(recipe.title)}
    if is_finetuning(run):
        return not_repeated
    if run.job is None or run.recipe.corpus.file is None:
        return {"missing": f"It was trained on a text that a link does not carry: {recipe.title}."}
    program = recipe_named(recipe.name) if recipe.name in recipe_names() else None
    texts = [each and (each.corpus.file, each.corpus.kind) for each in (program, recipe)]
    if program is None or texts[0] != texts[1] or recipe.start is not None:
        return not_repeated
    own, changed = _settings(program), _settings(recipe)
    for each in (own, changed):  # nothing is held out of the short texts of the program, unless a person says so
        each["corpus.validation_share"] = each["corpus.validation_share"] or 0.0
    settings = {name: value for name, value in changed.items() if value != own[name]}
    if "training.steps" in settings:  # it overrides the recipe's epochs and parts
        settings = {name: value for name, value in settings.items() if name != "training.epochs"}
        if not recipe.training.parts:
            settings.pop("training.parts", None)
    if "training.parts" in settings:
        return not_repeated
    return {"recipe": recipe.name, "seed": str(recipe.seed), "settings": settings}


def _is(run: Run, described: Any) -> bool:
    """Whether a run that has models, or is to have them, is the described one: as it was asked for or, in a link to it,
    with what was settled then, such as the precision."""
    if not (run.snapshots or run.status in ACTIVE):
        return False
    found = description(run)
    return described in (found, _repeated.get(run)) or ("recipe" in found and described == _described(run, run.asked))


def _keeps(run: Run, step: int) -> bool:
    """Whether a run has, or will have, the snapshot of a step, which it keeps from now on."""
    run.keep_step(step)
    is_to_come = run.status in ACTIVE and run.steps_done < step <= run.recipe.training.total_steps
    return is_to_come or any(each.step == step for each in run.snapshots)


def repeated_run(workspaces: Workspaces, space: Workspace, described: Any, step: int | None = None) -> Run:
    """The visitor's run with such a description, or a new one, which keeps a step. Raises BertCoreError."""
    for run in space.runs.values():
        if _is(run, described) and (step is None or _keeps(run, step)):
            return run
    if not isinstance(described, dict) or not isinstance(settings := described.get("settings"), dict):
        raise ConfigError("This link describes no model; ask for it again.")
    seed = str(described.get("seed"))
    if not seed.isdecimal() or len(seed) > len(str(MAX_SEED)):
        raise ConfigError(f"The seed is {seed[:60]!r}; it must be a whole number up to {MAX_SEED}.")
    if foreign := sorted(map(str, settings.keys() - LINKED)):
        raise ConfigError(f"A link cannot set {foreign[0][:60]}; ask for it again.")
    recipe = recipe_named(str(described.get("recipe"))).override(settings)
    space.refuse_if_active()
    limits = LOCAL if described in workspaces.lesson_runs else workspaces.service.limits
    if recipe.training.epochs is None:
        check_steps(recipe.training.total_steps, limits)
    run = workspaces.start(space, recipe, None, int(seed), keep_step=step, limits=limits)
    _repeated[run] = described
    return run


def _settings(recipe: Recipe) -> dict[str, Any]:
    """The settings of a link, by names such as "data.batch_size", as JSON has them."""
    content = recipe.content()
    return {name: content[section][key] for name in LINKED for section, _, key in [name.partition(".")]}
