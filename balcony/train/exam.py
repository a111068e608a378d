"""Memorising versus generalising: words of the training text and held-out words, beside always the same guess."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
import numpy as np

from balcony.frame.page import Page
from balcony.frame.page_request import PageRequest
from balcony.handlers import on_error
from balcony.parts.verdicts import CHANCE, MARGIN, beats_baseline, judge_memory
from balcony.server.probe_lock import probe_lock
from balcony.server.workspace import Workspace, is_finetuning
from balcony.views import view
from bert_core.config import DataConfig
from bert_core.data.batches import truncated_lengths
from bert_core.data.corpus import Corpus
from bert_core.data.encoding import IS_NEXT, EncodedCorpus, encode_corpus
from bert_core.data.tokenizer import UNK
from bert_core.probes.reading import pair_row, token_text
from bert_core.probes.sentence_pairs import Question, Tally, ask_words, ids_of, judge, label_pairs
from bert_core.runs.run import TRAINING, Run
from bert_core.storage.checkpoint import Checkpoint

MOST_SENTENCES = 20_000  # of the held-out text, from its start
MOST_WORDS = 200  # drawn by chance; an answer takes a moment
PAIRED_SENTENCES = 16  # from the start of the part: every ordered pair of them
LABELLED_PAIRS = 256  # from the start of the part

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


@dataclass(frozen=True)
class PartExam:
    """Answers to questions about a part of a text. unknown: tokens left out because they are [UNK] or not in the
    training text."""

    words: Tally  # beside always guessing `frequent`
    pairs: Tally  # beside always the more frequent label; of neighbours, NotNext
    frequent: str  # the most frequent token of the training text
    sentences: int  # in the part
    repeated: int  # of these, left out because the training text has them too
    tokens: int  # of the others, each different sentence once
    unknown: int


def examine_part(checkpoint: Checkpoint, part: EncodedCorpus, training: EncodedCorpus, longest: int) -> PartExam:
    """Ask about a part of a text that a model was trained on, or about held-out text; at most MOST_WORDS words.

    training: the whole training text; `part` may be the same object. longest: tokens of a pair in training. A word is
    masked once, beside a neighbouring sentence; a longer pair is cut around it. Every ordered pair of the first
    PAIRED_SENTENCES is judged, or the first LABELLED_PAIRS, without those that the training text has.
    """
    counts = np.bincount(training.ids, minlength=checkpoint.tokenizer.get_vocab_size())
    counts[checkpoint.tokenizer.token_to_id(UNK)] = 0
    repeated = np.zeros(len(part), bool) if part is training else np.isin(part.hashes, training.hashes)
    tokens = np.flatnonzero((_is_first(part.hashes) & ~repeated).repeat(part.lengths))
    known = tokens[counts[part.ids[tokens]] > 0]
    frequent = int(counts.argmax())
    drawn = np.random.default_rng(0).permutation(known)[:MOST_WORDS]
    of_sentence, has_next = np.searchsorted(part.offsets, drawn, side="right") - 1, part.has_next
    questions = [_question_around(checkpoint, part, has_next, *each, longest) for each in zip(drawn, of_sentence)]
    labels = None if part.pair_labels is None else training.pair_labels
    constant_pair = labels is not None and bool((labels == IS_NEXT).mean() > 0.5)
    numbers, is_next = _new_pairs(part, ~repeated, labels is not None)
    pairs = [(ids_of(part, a), ids_of(part, b)) for a, b in numbers]
    return PartExam(
        words=ask_words(checkpoint, questions, frequent),
        pairs=judge(checkpoint, pairs, is_next, constant_pair),
        frequent=token_text(checkpoint.tokenizer, frequent),
        sentences=len(part),
        repeated=int(repeated.sum()),
        tokens=len(tokens),
        unknown=len(tokens) - len(known),
    )


def _question_around(
    checkpoint: Checkpoint, part: EncodedCorpus, has_next: np.ndarray, token: int, s: int, longest: int
) -> Question:
    """The row of a token of sentence s, of at most `longest` tokens. The sentence is before the next one, at the end of
    a document after the previous one, and alone where it has neither."""
    start, end = part.offsets[s : s + 2]
    is_second = bool(not has_next[s] and s and has_next[s - 1])
    near = ids_of(part, s - 1) if is_second else ids_of(part, s + 1) if has_next[s] else []
    kept, rest = truncated_lengths(end - start, np.asarray(len(near)), longest - 3)
    begin = min(max(token - kept // 2, start), end - kept)
    own = part.ids[begin : begin + kept].tolist()
    if is_second:
        return pair_row(checkpoint, near[len(near) - rest :], own), int(token - begin + rest + 2)
    return pair_row(checkpoint, own, near[:rest]), int(token - begin + 1)


def _new_pairs(part: EncodedCorpus, is_new: np.ndarray, has_labels: bool) -> tuple[np.ndarray, np.ndarray]:
    """Different pairs of a part: numbers of two sentences, (N, 2), and whether they are IsNext, (N,). is_new: which
    sentences the training text lacks: both of a pair, one of a labelled one."""
    if has_labels:
        assert part.pair_labels is not None
        kept = np.flatnonzero(is_new.reshape(-1, 2).any(1))[:LABELLED_PAIRS]
        return np.stack([2 * kept, 2 * kept + 1], 1), part.pair_labels[kept] == IS_NEXT
    numbers = np.flatnonzero(is_new)[:PAIRED_SENTENCES]
    followed = np.flatnonzero(part.has_next[numbers[:-1]] & (np.diff(numbers) == 1))
    labels = label_pairs(part.hashes[numbers].tolist(), dict.fromkeys(followed.tolist(), 1), other=0).numpy() == 1
    is_first = _is_first(part.hashes[numbers])
    asked = np.outer(is_first, is_first)
    return numbers[np.argwhere(asked)], labels[asked]


def _is_first(texts: np.ndarray) -> np.ndarray:
    """Whether each text is the first of those equal to it."""
    return np.isin(np.arange(len(texts)), np.unique(texts, return_index=True)[1])


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
