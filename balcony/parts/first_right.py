"""At which of a run's kept steps its models guess hidden words right for the first time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from balcony.server.probe_lock import probe_lock
from bert_core.probes.forward import word_scores
from bert_core.probes.reading import Row, token_text
from bert_core.runs.run import MAX_SNAPSHOTS, Run
from bert_core.storage.checkpoint import Checkpoint


@dataclass
class FirstRight:
    """Hidden words of one run. rows: one for each word, with its [MASK]s. positions: of these. answers: its pieces.
    right: by step, whether each word was guessed, of the steps that were asked so far."""

    rows: Sequence[Row]
    positions: Sequence[Sequence[int]]
    answers: Sequence[Sequence[str]]
    right: dict[int, list[bool]] = field(default_factory=dict, compare=False)

    def steps(self, run: Run, most: int = MAX_SNAPSHOTS) -> list[int | None] | None:
        """For each word the first kept step at which it is right, None for no step; None for a run that keeps only a
        step from its middle or end. most: how many more steps are judged, the first ones first."""
        if len(run.snapshots) == 1 and run.snapshots[0].step:
            return None
        found: list[int | None] = [None] * len(self.rows)
        for snapshot in run.snapshots:
            if None not in found:
                break
            if snapshot.step not in self.right:
                if not most:
                    break
                most -= 1
                self.right[snapshot.step] = self._judge(snapshot.checkpoint())
            right = self.right[snapshot.step]
            found = [snapshot.step if step is None and is_right else step for step, is_right in zip(found, right)]
        return found

    def _judge(self, checkpoint: Checkpoint) -> list[bool]:
        with probe_lock:
            likeliest = word_scores(
                *(checkpoint, self.rows, self.positions), lambda _, scores: scores.argmax(-1).tolist()
            )
        guesses = [tuple(token_text(checkpoint.tokenizer, token) for token in each) for each in likeliest]
        return [guess == tuple(answer) for guess, answer in zip(guesses, self.answers)]
