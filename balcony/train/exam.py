"""Memorising versus generalising: words of the training text and held-out words, beside always the same guess."""

import statistics
from collections.abc import Sequence
from typing import Any

import gradio as gr

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.handlers import on_error
from balcony.parts.verdicts import CHANCE, MARGIN, beats_baseline, judge_memory
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace, is_finetuning
from balcony.train.part_exam import MOST_WORDS, PartExam, examine_part
from balcony.views import view
from bert_core.config import DataConfig
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import encode_corpus
from bert_core.probes.sentence_pairs import Tally
from bert_core.runs.run import TRAINING, Run

MOST_SENTENCES = 20_000  # of the held-out text, from its start

WHEN = "When training pauses or ends, words are hidden one at a time and pairs judged."
NOTHING_HELD_OUT = "There is nothing to hold out: all {sentences:,} sentences of this text are used for training."
HELD_OUT = "{sentences:,} sentences are [[held out]]."
FIRST = "The first {sentences:,} of them count here."
REPEATED = "{repeated:,} of them are in the training text too and are left out."
UNKNOWN = "{unknown:,} of {tokens:,} held-out words are left out: they are [UNK] or not in the training text."
VERDICTS = {
    "not asked": "No word of the training text could be asked.",
    "no better": "That is {seen} than always giving that answer: it has not learned from the words around, not yet or "
    "not at this learning rate, up to {rate:g}.",
    "unmeasured": "{why}, so this cannot show whether it learned a rule or learned the text by heart.",
    "memorised": "It learned its own text by heart: on held-out words it is {unseen} than always giving that answer. A "
    "longer text of the same kind teaches more that carries over, and so do initial weights of a model that knows the "
    "language; words in random order teach nothing.",
    "both": "It learned something that carries over to new text, and some of its own text by heart.",
    "generalises": "It learned something that carries over to new text: its own text is not clearly easier for it.",
    "unclear": "So few held-out words cannot show whether what it learned carries over to new text; take a longer "
    "text.",
}
ALL_USED, NONE_HELD = "All {sentences:,} sentences were used for training", "No held-out word could be asked"
OWN = "{words.right:,} of {words.asked:,} hidden words of its own text"
HELD = "{words.right:,} of {words.asked:,} of the held-out text"
PAIRS = (
    "It judges {pairs.right:,} of {pairs.asked:,} pairs of {text} right: {how} than always answering “{constant}” "
    "({pairs.baseline:,})."
)
CURVE = (
    " The accuracy in the curve is lower: a step hides {share:.0%} of the words at once{others}, "
    "the exam one at a time."
)
OTHERS = " and replaces some by others"
FEW = 10  # steps: the end of a curve is their mean
ENOUGH = 0.9  # of the words right: more steps would teach little
RULE = (
    f"At most {MOST_WORDS} words of each part are asked, each once. “Better” means that chance alone gives such a "
    f"difference in fewer than {CHANCE:.0%} of cases: by a sign test against the constant guess, and by Fisher's exact "
    "test between the parts. The accuracy in the curves asks something else: the words drawn for each step, before the "
    "step changes the weights."
)


def exam_view(page: Page) -> gr.HTML:
    """The view. It updates when it is visible and the run pauses or ends, or a step is selected."""

    def exam(asked: PageRequest, key: str, step: int | None) -> dict[str, Any]:
        run = asked.space.runs.get(key)
        return {"text": WHEN} if run is None else exam_value(asked.space, run, step)

    page.answers.add("exam", on_error(lambda sentence: {"text": sentence})(exam))
    return view("train/exam", elem_id="exam")


def exam_value(space: Workspace, run: Run, selected: int | None = None) -> dict[str, Any]:
    """What the exam view shows: `text` on the parts and, unless a run in training is shown live (selected is None),
    `step`, `verdict` (sentences), `hasMore` (whether more steps may help) and `rule`."""
    prepared, found = run.job, space.checkpoint(run, selected)
    if prepared is None or is_finetuning(run) or found is None:
        return {"text": WHEN}
    training_text, held_out, _ = prepared.parts
    training = prepared.batches.encoded
    nothing = NOTHING_HELD_OUT.format(sentences=len(training_text.sentences))
    if selected is None and run.status in TRAINING:
        return {"text": f"{HELD_OUT.format(sentences=len(held_out.sentences))} {WHEN}" if held_out else nothing}
    step, checkpoint = found
    parts = [training]
    if held_out:
        parts.append(encode_corpus(held_out.part(0, MOST_SENTENCES), checkpoint.tokenizer))
    config, longest = run.recipe.training, run.recipe.data.sequence_length
    with probe_lock:
        shown = [examine_part(checkpoint, part, training, longest) for part in parts]
    constant = "does not follow" if training.pair_labels is None else "the more frequent label"
    sentences, has_more = [], False
    if config.mlm_weight:
        steps = run.history()[:step]
        rate = max((row.learning_rate for row in steps), default=config.learning_rate)
        curve = _curve(shown[0].words, run.recipe.data, [row.mlm_accuracy for row in steps])
        sentence, has_more = _word_verdict(*shown, rate=rate, curve=curve)
        sentences.append(sentence)
    if config.nsp_weight:
        sentences += _pair_verdicts([each.pairs for each in shown], constant)
    return {
        "text": _about(held_out, shown[1]) if held_out else nothing,
        "step": step,
        "verdict": sentences,
        "hasMore": has_more,
        "rule": RULE,
    }


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


def _curve(words: Tally, data: DataConfig, accuracies: Sequence[float]) -> str:
    """Why the curve ends lower than the exam, "" if it does not."""
    if not accuracies or words.right <= (statistics.fmean(accuracies[-FEW:]) + MARGIN) * words.asked:
        return ""
    return CURVE.format(share=data.mask_probability, others=OTHERS if data.random_share else "")


def _word_verdict(seen: PartExam, unseen: PartExam | None = None, *, rate: float, curve: str = "") -> tuple[str, bool]:
    """Sentences on the words, the counts first, and whether more steps may help. rate: the highest. curve: why it ends
    lower."""
    held = unseen.words if unseen and unseen.words.asked else None
    verdict = judge_memory(seen.words, held)
    why = NONE_HELD if unseen else ALL_USED.format(sentences=seen.sentences)
    how = {"seen": _how(seen.words), "unseen": _how(held) if held else ""}
    sentence = VERDICTS[verdict].format(rate=rate, why=why, **how)
    if verdict == "not asked":
        return sentence, False
    parts = [seen.words, *([held] if held else [])]
    counts = " and ".join(text.format(words=words) for text, words in zip((OWN, HELD), parts))
    constant = " and ".join(f"{words.baseline:,}" for words in parts)
    has_more = verdict != "memorised" and seen.words.right < ENOUGH * seen.words.asked
    said = f"It fills in {counts}. (Always answering “{seen.frequent}” would fill in {constant}.){curve} {sentence}"
    return said, has_more


def _pair_verdicts(parts: list[Tally], constant: str) -> list[str]:
    """A sentence on the pairs of each part where some were judged."""
    texts = zip(("its own text", "the held-out text"), parts)
    return [
        PAIRS.format(text=text, how=_how(tally), constant=constant, pairs=tally) for text, tally in texts if tally.asked
    ]


def _how(tally: Tally) -> str:
    """How often the model is right beside the constant guess."""
    if beats_baseline(tally):
        return "better"
    return "not clearly better" if tally.right > tally.baseline else "no better"
