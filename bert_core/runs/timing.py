"""When a run may train: its lease, its pace, and means of measured times."""

import math
from collections.abc import Callable
from typing import Literal

from bert_core.errors import ConfigError

FREE_AFTER = 18  # leases without a visitor, after which a run is freed: three hours for a lease of ten minutes
PACES = (0.05, 1000.0)  # steps a second


class Lease:
    """How long a run trains without a visitor. seconds: None for an endless lease."""

    def __init__(self, seconds: float | None, clock: Callable[[], float]) -> None:
        self.seconds, self._clock = seconds, clock
        self.renew()

    def renew(self) -> None:
        """Count the time anew: the visitor is here."""
        self._renewed = self._clock()

    def status(self, now: float) -> Literal["valid", "lapsed", "expired"]:
        """ "lapsed" after `seconds` without a renewal, "expired" after FREE_AFTER times as many."""
        away = now - self._renewed
        if self.seconds is None or away <= self.seconds:
            return "valid"
        return "expired" if away > FREE_AFTER * self.seconds else "lapsed"


class Pace:
    """A limit on the steps a second. due: when the next step may begin, -inf for at once."""

    def __init__(self) -> None:
        self.steps_per_second: float | None = None
        self.due = -math.inf

    def set(self, steps_per_second: float | None) -> None:
        """None for full speed. Raises ConfigError outside PACES."""
        low, high = PACES
        if steps_per_second is not None and not low <= steps_per_second <= high:
            raise ConfigError(f"The pace is {steps_per_second!r}; it must be from {low:g} to {high:g} steps a second.")
        self.steps_per_second, self.due = steps_per_second, -math.inf

    def take_step(self, now: float) -> bool:
        """Whether a step may begin now; if so, the next one is due a period later."""
        if now < self.due:
            return False
        if self.steps_per_second is not None:
            period = 1 / self.steps_per_second
            # A step that begins a little late does not shift the later ones; a longer delay is not caught up.
            self.due = (self.due if now - self.due < period else now) + period
        return True


class RunningMean:
    """An exponentially weighted mean; nan before the first value. weight: of a new value."""

    def __init__(self, weight: float) -> None:
        self.weight, self.value = weight, math.nan

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.value)

    def add(self, value: float) -> None:
        self.value = (1 - self.weight) * self.value + self.weight * value if self.is_known else value
