"""What was found, in numbers and in words."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pacoh.encoding import counted, listed
from pacoh.pages import to_html
from pacoh.reading import Tasks
from pacoh.transfer.choice import PLAIN
from pacoh.transfer.compare import ALONE, LEARNED, PLAIN_GP, Comparison
from pacoh.transfer.contexts import FEW, FEW_POINTS, HALF, Contexts
from pacoh.transfer.illustrations import Drawn
from pacoh.transfer.judge import CLASS_MARGIN, HARMS, HELPS, LEVEL, MARGIN, NO_BENEFIT, Judgement, judge
from pacoh.transfer.unlike import Unlike
from pacoh.tuning import Choice
from pacoh.writing import write_whole

_HALF = "half of a task's points"


@dataclass(frozen=True)
class Effect:
    """What transfer changes with an amount of context: `change` of the error, -0.38 for 38 % less.

    Of classes it is a difference. It is beside the best learner of each task alone; `worst` is the task whose error
    grows most. `confidence` is the mean probability of the predicted classes, None of numbers.
    """

    amount: str
    reference: str
    change: float
    log_likelihood: float | None  # the median gain a point
    better: int
    tasks: int
    worst: str
    worst_change: float
    coverage: float | None
    coverage_alone: float | None
    confidence: float | None = None


@dataclass(frozen=True, eq=False)
class Report:
    """The verdict on transfer, the numbers behind it, and a page that shows them."""

    tasks: Tasks
    choice: Choice
    contexts: Contexts
    comparison: Comparison
    unlike: tuple[Unlike, ...]
    curve: tuple[tuple[int, float], ...]  # tasks learned from, and the error with few points beside learning alone
    pictures: tuple[Drawn, ...]
    origin: str | None
    seed: int
    seconds: float

    @property
    def classes(self) -> bool:
        """Whether targets are classes."""
        return self.tasks.classes is not None

    @property
    def verdict(self) -> str:
        """`helps`, `no benefit` or `do not transfer`."""
        return self.judgement.verdict

    @cached_property
    def judgement(self) -> Judgement:
        """The verdict with its p-values."""
        others = [name for name in self.comparison.scores if name != LEARNED]
        return judge([self.comparison.paired(name, self.classes) for name in others], self.classes)

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """What changes with few points and with half of a task."""
        return {amount: self._effect(amount) for amount in (FEW_POINTS, HALF)}

    def _effect(self, amount: str) -> Effect:
        found, reference = self.comparison, self.comparison.alone(amount)
        logs = found.changes(amount, reference, self.classes)
        changes = logs if self.classes else np.expm1(logs)
        gain = found.gain(amount, reference)
        worst = int(np.argmax(changes))
        return Effect(
            amount,
            reference,
            float(logs.mean() if self.classes else np.expm1(logs.mean())),
            None if gain is None else float(np.median(gain)),
            int((changes < 0).sum()),
            len(changes),
            self.tasks.names[found.able[worst]],
            float(changes[worst]),
            self.coverage(LEARNED, amount),
            self.coverage(reference, amount),
            self.confidence(LEARNED, amount),
        )

    def coverage(self, learner: str, amount: str) -> float | None:
        """The share of held-out points inside the 90 % interval, averaged over tasks; None of classes and of points."""
        scores = self.comparison.scores[learner][amount]
        return None if self.classes or scores.sure is None else float(scores.covered().mean())

    def confidence(self, learner: str, amount: str) -> float | None:
        """The mean probability of the predicted classes, averaged over tasks; None of numbers and of points."""
        sure = self.comparison.scores[learner][amount].sure
        if not self.classes or sure is None:
            return None
        return float(np.mean([part[:, 0].mean() for row in sure for part in row]))

    @property
    def few(self) -> str:
        """The small context in words."""
        counts = self.contexts.amounts[FEW_POINTS][self.comparison.able]
        return f"{FEW} points" if (counts == FEW).all() else f"up to {counts.max()} points"

    @property
    def headline(self) -> str:
        """The verdict in a sentence or two."""
        first, second = (self.effects[amount] for amount in (FEW_POINTS, HALF))
        said = [f"{self._said(one)} with {with_}" for one, with_ in ((first, self.few), (second, _HALF))]
        changes = f"{', '.join(said)}, beside learning each task alone"
        if self.classes:
            changes = f"the share of wrong classes is {changes}"
        if self.verdict == HELPS:
            worst = max(first.worst_change, second.worst_change)
            name = (first if first.worst_change == worst else second).worst
            least = f"no task gets worse by more than {self.change(worst)} ({name})"
            return f"Transfer helps: {changes}; {least if worst > 0 else 'no task gets worse'}."
        if self.verdict == HARMS:
            return f"Do not transfer: {changes}. Learn each task alone."
        return f"No benefit: {changes}. {self._why_not()}"

    def _said(self, effect: Effect) -> str:
        """The error with and without transfer."""
        if not self.classes:
            return f"error {100 * effect.change:+.0f} %"
        shares = [self.comparison.error(name, effect.amount).mean() for name in (LEARNED, effect.reference)]
        return "{:.0f} % instead of {:.0f} %".format(*(100 * share for share in shares))

    def _why_not(self) -> str:
        if self._failed and not self._failed & {*ALONE}:
            return (
                "All that the other tasks tell is how wide the classes are, how far apart and how frequent."
                if self.classes
                else "All that the other tasks tell is the level, the scale and the smoothness of y: settings of a "
                "plain GP."
            )
        if len(self.comparison.able) < 6:
            return "With fewer than 6 tasks no benefit can be shown."
        least = self.change(CLASS_MARGIN if self.classes else MARGIN)
        return f"That is not a gain of {least} or more that would show on other tasks of this kind."

    @property
    def plain(self) -> bool:
        """Whether all that the other tasks tell is what a plain GP can know, and that is of use."""
        if self.verdict != NO_BENEFIT or PLAIN_GP not in self.comparison.scores or self._failed & {*ALONE}:
            return False
        found, amounts = self.comparison, (FEW_POINTS, HALF)
        return all(found.changes(one, found.alone(one), False, PLAIN_GP).mean() < 0 for one in amounts)

    @property
    def _failed(self) -> set[str]:
        """The references over which no gain was shown, by the measure that shows most."""
        ways = [way for way in (self.judgement.gain, self.judgement.gain_in_error) if way]
        return set(min(([name for name, p in way.items() if p >= LEVEL / 2] for way in ways), key=len))

    def change(self, size: float) -> str:
        """A change of the error in words."""
        return f"{100 * size:.0f} {'percentage points' if self.classes else '%'}"

    @property
    def error_name(self) -> str:
        """What the error is."""
        return "share of wrong classes" if self.classes else "RMSE"

    @property
    def advice(self) -> list[str]:
        """What else to know, a sentence each."""
        said, first = [], self.effects[FEW_POINTS]
        if self.unlike:
            names = listed([one.task for one in self.unlike])
            verb = "is" if len(self.unlike) == 1 else "are"
            said.append(
                f"{names} {verb} unlike the rest: the prior is learned without {'it' if verb == 'is' else 'them'}."
            )
        if self.plain:
            logs = self.comparison.changes(FEW_POINTS, first.reference, False, PLAIN_GP)
            said.append(
                "A plain GP whose length-scale, scale and noise are learned from the other tasks has error "
                f"{100 * float(np.expm1(logs.mean())):+.0f} % with {self.few}: the snippet fits that."
            )
        for one in self.effects.values():
            if one.coverage is not None and not 0.85 <= one.coverage <= 0.95:
                kind = "narrow" if one.coverage < 0.85 else "wide"
                with_ = self.few if one.amount == FEW_POINTS else _HALF
                held = f"{100 * one.coverage:.0f} % of the points"
                said.append(f"With {with_} the 90 % intervals hold {held}: they are too {kind}.")
        half = self.effects[HALF]
        if self.verdict == HELPS and half.change > (CLASS_MARGIN if self.classes else MARGIN):
            said.append(f"With {_HALF} learning alone is better: transfer where a task has few.")
        if len(self.curve) > 1:
            (_, before), (n, last) = self.curve[-2:]
            if last < min(1, 0.95 * before):
                said.append(
                    f"The error still falls with the number of tasks ({n} here): more tasks would help further."
                )
        return said

    @property
    def snippet(self) -> str:
        """Python that learns the recommended model, saves it and predicts a task with it."""
        transfer = self.verdict == HELPS
        alone = Choice("vanilla-bnn" if self.classes else "vanilla-gp", {}, {})
        method, settings, _ = self.choice if transfer else PLAIN if self.plain else alone
        origin = self.origin or "...  # as they were given to pacoh.report"
        lines = ["import pacoh", *(["from pacoh import registry"] if origin.startswith("registry.") else [])]
        lines += ["", f"tasks = {origin}"]
        if transfer and self.unlike:
            lines.append(f"tasks = tasks.without({[one.task for one in self.unlike]!r})  # unlike the rest")
        given = "".join(f", {name}={value!r}" for name, value in settings.items())
        lines += [
            f"model = pacoh.fit(tasks, {method!r}, seed={self.seed}{given})",
            'model.save("model.safetensors")',
            "",
            'model = pacoh.load("model.safetensors")',
            "X, y = tasks.x[0], tasks.y[0]  # a new task: its inputs, and its targets at the first of them",
            f"predictive = model.adapt(X[:{FEW}], y[:{FEW}])(X)",
        ]
        shown = "predictive.labels" if self.classes else "predictive.mean, *predictive.interval(0.9)"
        return "\n".join([*lines, f"print({shown})", ""])

    def record(self) -> dict[str, Any]:
        """Everything in lists, strings and numbers only."""
        return {
            "verdict": self.verdict,
            "headline": self.headline,
            "advice": self.advice,
            "tasks": len(self.tasks),
            "method": self.choice.method,
            "settings": self.choice.settings,
            "reasons": self.choice.reasons,
            "effects": {amount: asdict(one) for amount, one in self.effects.items()},
            "p_of_a_gain": self.judgement.gain,
            "p_of_a_gain_in_error": self.judgement.gain_in_error,
            "p_of_a_large_gain_in_error": self.judgement.large,
            "p_of_a_loss": self.judgement.loss,
            "unlike_the_rest": [asdict(one) for one in self.unlike],
            "error_by_context": {size: self._errors(str(size)) for size in self.contexts.curve},
            "error_by_tasks": [{"tasks": n, "beside_learning_alone": ratio} for n, ratio in self.curve],
            "seed": self.seed,
            "seconds": self.seconds,
        }

    def _errors(self, amount: str) -> dict[str, float]:
        return {name: float(np.nanmean(self.comparison.error(name, amount))) for name in self.comparison.scores}

    def write(self, path: str | Path) -> None:
        """Writes one HTML page that needs nothing else."""
        from pacoh.transfer.page import blocks

        write_whole(Path(path), to_html("Should I transfer?", blocks(self)).encode())

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.advice, f"({counted(len(self.tasks), 'task')}, {self.choice.method})"])
