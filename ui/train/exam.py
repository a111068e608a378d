"""Memorising versus generalising: words of the training text and held-out words, beside always the same guess."""

from typing import Any

import gradio as gr

from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.probes.exam import MOST_WORDS, PartExam, examine_part
from bert_core.runs.run import TRAINING, Run
from bert_core.training.verdicts import CHANCE, Tally, judge_memory
from ui.server.probe_lock import probe_lock
from ui.server.workspace import Workspace, is_finetuning
from ui.server.workspaces import Workspaces, functions
from ui.views import view

MOST_SENTENCES = 20_000  # of the held-out text, from its start

WHEN = "When training pauses or ends, words are hidden one at a time and pairs judged."
NOTHING_HELD_OUT = "There is nothing to hold out: all {sentences:,} sentences of this text are used for training."
HELD_OUT = "{sentences:,} sentences are held out."
FIRST = "The first {sentences:,} of them count here."
REPEATED = "{repeated:,} of them are in the training text too and are left out."
UNKNOWN = "{unknown:,} of {tokens:,} held-out words are left out: they are [UNK] or not in the training text."
VERDICTS = {
    "not asked": "No word of the training text could be asked.",
    "diverged": "This run has diverged: it guesses the same at every position, whatever the words around it. "
    "The learning rate, up to {rate:g}, is the suspect; train again with a smaller one.",
    "no better": "It predicts training words {seen} than always guessing “{frequent}”: it has not learned from "
    "context, not yet or not at this learning rate, up to {rate:g}.",
    "unmeasured": "It predicts training words better than always guessing “{frequent}”. Whether it memorises them or "
    "generalises cannot be measured without held-out words.",
    "memorised": "This is memorising: it predicts training words better than held-out words, and held-out words "
    "{unseen} than always guessing “{frequent}”.",
    "both": "It generalises, and memorises as well: it predicts held-out words better than always guessing "
    "“{frequent}”, and training words better still.",
    "generalises": "It generalises: it predicts held-out words better than always guessing “{frequent}”, "
    "and training words not clearly better than those.",
    "unclear": "Not settled: it predicts training words better than always guessing “{frequent}”, but so few words do "
    "not show whether held-out words too.",
}
PAIRS = "It judges pairs {how} than always guessing “{constant}”."
RULE = (
    f"At most {MOST_WORDS} words of each part are asked, each once. “Better” means that chance alone gives such a "
    f"difference in fewer than {CHANCE:.0%} of cases: by a sign test against the constant guess, and by Fisher's exact "
    "test between the parts."
)


def exam_view(workspaces: Workspaces) -> gr.HTML:
    """The view. It updates when it is visible and the run pauses or ends, or a step is selected."""

    def results(space: Workspace, key: str, step: int | None) -> dict[str, Any]:
        run = space.runs.get(key)
        return {"text": WHEN} if run is None else exam_value(space, run, step)

    return view("train/exam", server_functions=functions(workspaces, results, error="text"), elem_id="exam")


def exam_value(space: Workspace, run: Run, selected: int | None = None) -> dict[str, Any]:
    """What the exam view shows: `text` on the parts and, unless a run in training is shown live (selected is None),
    `step`, `verdict` (sentences), `rule`, `columns` and `rows` of a name and (right, of how many) for each column.
    """
    prepared, found = run.prepared, space.checkpoint(run, selected)
    if prepared is None or is_finetuning(run) or found is None:
        return {"text": WHEN}
    training_text, held_out, _ = prepared.parts
    training = prepared.batches.encoded
    nothing = NOTHING_HELD_OUT.format(sentences=len(training_text.sentences))
    if selected is None and run.status in TRAINING:
        return {"text": f"{HELD_OUT.format(sentences=len(held_out.sentences))} {WHEN}" if held_out else nothing}
    step, checkpoint = found
    parts = {"Training text": training}
    if held_out:
        parts["Held out"] = encode_corpus(held_out.excerpt(MOST_SENTENCES), checkpoint.tokenizer)
    with probe_lock:
        longest = run.recipe.data.sequence_length
        results = {name: examine_part(checkpoint, part, training, longest) for name, part in parts.items()}
    config, shown = run.recipe.training, list(results.values())
    constant = "does not follow" if training.pair_labels is None else "the more frequent label"
    rows, sentences = [], []
    if config.mlm_weight:
        rows += _rows("Hidden words right", f"Always “{shown[0].frequent}”", [each.words for each in shown])
        rate = max((row.learning_rate for row in run.history()[:step]), default=config.learning_rate)
        sentences.append(_word_verdict(*shown, rate=rate))
    if config.nsp_weight:
        rows += _rows("Pairs judged right", f"Always “{constant}”", [each.pairs for each in shown])
        sentences.append(_pair_verdict({name: each.pairs for name, each in results.items()}, constant))
    return {
        "text": _about(held_out, shown[1]) if held_out else nothing,
        "step": step,
        "verdict": [sentence for sentence in sentences if sentence],
        "rule": RULE,
        "columns": list(parts),
        "rows": rows,
    }


def first_verdict(space: Workspace, run: Run) -> str:
    """The sentence on memorising of a run that has paused or ended; "" without one."""
    return next(iter(exam_value(space, run).get("verdict", ())), "")


def _rows(name: str, baseline: str, tallies: list[Tally]) -> list[list[Any]]:
    return [
        [name, *((each.right, each.asked) for each in tallies)],
        [baseline, *((each.baseline, each.asked) for each in tallies)],
    ]


def _about(held_out: Corpus, asked: PartExam) -> str:
    """What is held out, and what of that is not asked."""
    sentences = [HELD_OUT.format(sentences=len(held_out.sentences))]
    if len(held_out.sentences) > MOST_SENTENCES:
        sentences.append(FIRST.format(sentences=MOST_SENTENCES))
    if asked.repeated:
        sentences.append(REPEATED.format(repeated=asked.repeated))
    if asked.unknown:
        sentences.append(UNKNOWN.format(unknown=asked.unknown, tokens=asked.tokens))
    return " ".join(sentences)


def _word_verdict(seen: PartExam, unseen: PartExam | None = None, *, rate: float) -> str:
    """A sentence on the words, and the fractions that are right: seen words, unseen words, a constant guess."""
    parts = {"training words": seen.words} | ({"held-out words": unseen.words} if unseen else {})
    parts = {name: words for name, words in parts.items() if words.asked}
    verdict = judge_memory(seen.words, parts.get("held-out words"), seen.information)
    how = {"seen": _how(seen.words), "unseen": _how(unseen.words) if unseen else ""}
    sentence = VERDICTS[verdict].format(frequent=seen.frequent, rate=rate, **how)
    numbers = [f"{name} {words.right / words.asked:.0%}" for name, words in parts.items()]
    numbers += [f"always “{seen.frequent}” {words.baseline / words.asked:.0%}" for words in [*parts.values()][-1:]]
    return f"{sentence} (Right: {', '.join(numbers)}.)" if numbers else sentence


def _pair_verdict(parts: dict[str, Tally], constant: str) -> str:
    """A sentence on the pairs; "" where none was judged."""
    how = {name: _how(tally) for name, tally in parts.items() if tally.asked}
    if not how:
        return ""
    each = [*how.values()][:1] if len(set(how.values())) == 1 else [f"{how[name]} ({name.lower()})" for name in how]
    return PAIRS.format(how=" and ".join(each), constant=constant)


def _how(tally: Tally) -> str:
    """How often the model is right beside the constant guess."""
    if tally.beats_baseline:
        return "better"
    return "not clearly better" if tally.right > tally.baseline else "no better"
