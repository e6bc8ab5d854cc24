"""The page of a report: the verdict first, then what it rests on."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pacoh.encoding import listed
from pacoh.pages import Block, Code, Grid, Heading, Image, Items, Text, blank, image
from pacoh.transfer.compare import ALONE, LABELS, LEARNED, PLAIN_CLOUDS, PLAIN_GP
from pacoh.transfer.contexts import FEW_POINTS, HALF
from pacoh.transfer.findings import Report
from pacoh.transfer.folds import CLASSES, NUMBERS
from pacoh.transfer.judge import CLASS_MARGIN, LEVEL, MARGIN

COLOURS = {
    LEARNED: "tab:blue",
    "vanilla-gp": "tab:orange",
    "averaged-gp": "tab:brown",
    "level-and-scale": "tab:gray",
    PLAIN_GP: "tab:green",
    "vanilla-bnn": "tab:orange",
    "averaged-clouds": "tab:brown",
    PLAIN_CLOUDS: "tab:green",
}


def blocks(report: Report) -> Iterator[Block]:
    """The whole page."""
    yield Heading(1, "Should I transfer?")
    yield Heading(2, report.headline)
    if report.advice:
        yield Items(report.advice)
    yield Grid(*_glance(report))
    yield _by_task(report)
    yield Heading(2, "How much of a task is needed" + (", and how many tasks" if len(report.curve) > 1 else ""))
    yield _context_curve(report)
    if len(report.curve) > 1:
        yield _task_curve(report)
    calibration = _calibration(report)
    if calibration is not None:
        yield Heading(2, "Can its certainty be trusted?")
        yield calibration
    if report.pictures:
        yield Heading(2, "Predictions on tasks that were left out")
        yield _predictions(report)
    yield from _unlike(report)
    yield Heading(2, "Every task")
    yield Grid(*_table(report))
    yield from _how(report)


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.0f} %"


def _error(report: Report, value: float) -> str:
    return f"{100 * value:.1f} %" if report.classes else f"{value:.4g}"


def _unit(report: Report) -> str:
    return "percentage points" if report.classes else "%"


def _words(report: Report, amount: str) -> str:
    return report.few if amount == FEW_POINTS else "half of a task's points"


def _glance(report: Report) -> tuple[list[Any], list[Any]]:
    """Every learner's error, log-likelihood and coverage (of classes confidence) with few points and with half."""
    parts = [report.error_name, "log-likelihood", "mean confidence" if report.classes else "90 % hold"]
    header = [
        ("", ["left-out tasks"]),
        *((f"with {_words(report, one)}", parts) for one in (FEW_POINTS, HALF)),
    ]
    lines = []
    for name in report.comparison.scores:
        cells = [(LABELS[name], name == LEARNED)]
        for amount in (FEW_POINTS, HALF):
            density = report.comparison.log_likelihood(name, amount)
            cells += [
                (_error(report, float(report.comparison.error(name, amount).mean())), name == LEARNED),
                ("n/a" if density is None else f"{np.median(density):.3g}", name == LEARNED),
                (_percent((report.confidence if report.classes else report.coverage)(name, amount)), name == LEARNED),
            ]
        lines.append(cells)
    return header, lines


def _by_task(report: Report) -> Image:
    """A row a task: the change of its error under the learned prior."""
    found = report.comparison
    names = [report.tasks.names[i] for i in found.able]
    odd = {one.task for one in report.unlike}
    figure = blank(9, 1.4 + 0.2 * len(names))
    for axes, amount in zip(figure.subplots(1, 2, sharey=True), (FEW_POINTS, HALF), strict=True):
        changes = found.changes(amount, found.alone(amount), report.classes)
        shown = 100 * (changes if report.classes else np.expm1(changes))
        order = np.argsort(found.changes(FEW_POINTS, found.alone(FEW_POINTS), report.classes))
        colours = ["tab:red" if names[i] in odd else "tab:blue" for i in order]
        axes.barh(range(len(names)), shown[order], color=colours, height=0.7)
        axes.axvline(0, color="k", lw=0.8)
        axes.set_yticks(range(len(names)), [_short(names[i]) for i in order], fontsize=7)
        axes.set(title=f"with {_words(report, amount)}", xlabel=f"change of the {_plainly(report)}, {_unit(report)}")
    said = (
        f"Each left-out task: its {_plainly(report)} under the learned prior beside {LABELS[found.alone(FEW_POINTS)]}"
    )
    return image("tasks", said + (". Red: unlike the rest." if odd else "."), figure)


def _plainly(report: Report) -> str:
    return report.error_name if report.classes else "error"


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def _context_curve(report: Report) -> Image:
    figure = blank(7, 3.6)
    axes = figure.subplots()
    sizes = report.contexts.curve
    for name in report.comparison.scores:
        values = [np.nanmean(report.comparison.error(name, str(size))) for size in sizes]
        style = "-" if name in (LEARNED, *ALONE) else "--"
        axes.plot(sizes, values, "o" + style, ms=4, color=COLOURS[name], label=LABELS[name])
    axes.set(
        xlabel="context points of a new task",
        ylabel=report.error_name,
        ylim=(0, None),
    )
    axes.legend(fontsize=7)
    said = f"The mean {_plainly(report)} on left-out tasks over the number of points known of them"
    said += " (tasks that have as many)."
    return image("context-curve", said, figure)


def _task_curve(report: Report) -> Image:
    figure = blank(7, 3.2)
    axes = figure.subplots()
    axes.axhline(0, color="tab:orange", label="learning alone")
    counts, ratios = np.array(report.curve).T
    axes.plot(counts, 100 * (ratios - 1), "o-", color="tab:blue", label="the learned prior")
    axes.set(xlabel="tasks that the prior is learned from", ylabel=f"{_plainly(report)} beside learning alone, %")
    axes.legend(fontsize=8)
    said = f"The {_plainly(report)} on left-out tasks with {report.few} over the number of other tasks."
    return image("task-curve", said, figure)


def _calibration(report: Report) -> Image | None:
    """Calibration curves of the learned prior and of the best reference alone; None of points."""
    scores = report.comparison.scores[LEARNED]
    if scores[HALF].sure is None:
        return None
    figure = blank(8, 3.8)
    for axes, amount in zip(figure.subplots(1, 2, sharey=True), (FEW_POINTS, HALF), strict=True):
        axes.plot([0, 1], [0, 1], color="k", lw=0.8)
        for name in (LEARNED, report.comparison.alone(amount)):
            sure = report.comparison.scores[name][amount].sure
            assert sure is not None
            values = np.concatenate([part for row in sure for part in row])
            x, y = _confidence_curve(values) if report.classes else _interval_curve(values)
            axes.plot(x, y, "o-", ms=3, color=COLOURS[name], label=LABELS[name])
        axes.set(
            title=f"with {_words(report, amount)}",
            xlabel="confidence" if report.classes else "level of the central interval",
            ylabel="share that was right" if report.classes and amount == FEW_POINTS else "",
        )
        axes.legend(fontsize=7)
    said = (
        "Of predictions made with some confidence, the share that was right."
        if report.classes
        else "The share of held-out points inside central intervals of each level: on the diagonal they hold what they "
        "say, below it they are too narrow."
    )
    return image("calibration", said, figure)


def _interval_curve(cdf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    levels = np.linspace(0.05, 0.95, 19)
    return levels, np.array([np.mean(np.abs(cdf - 0.5) <= level / 2) for level in levels])


def _confidence_curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bins = np.minimum((values[:, 0] * 10).astype(int), 9)
    kept = [values[bins == one] for one in range(10) if (bins == one).any()]
    return np.array([one[:, 0].mean() for one in kept]), np.array([one[:, 1].mean() for one in kept])


def _predictions(report: Report) -> Image:
    """A row a learner, a column a task."""
    learners = list(report.pictures[0].said)
    figure = blank(3.2 * len(report.pictures), 2.4 * len(learners))
    panels = figure.subplots(len(learners), len(report.pictures), squeeze=False, sharex="col", sharey="col")
    for column, drawn in zip(panels.T, report.pictures, strict=True):
        for axes, name in zip(column, learners, strict=True):
            mean, low, high = drawn.said[name]
            if low is not None and high is not None:
                axes.fill_between(drawn.grid, low, high, color=COLOURS[name], alpha=0.25, lw=0)
            axes.plot(drawn.grid, mean, color=COLOURS[name], lw=1.2)
            axes.plot(drawn.query[0][:, 0], drawn.query[1], ".", ms=3, color="0.4")
            axes.plot(drawn.context[0][:, 0], drawn.context[1], "o", ms=4, color="tab:red")
        column[0].set_title(_short(drawn.task), fontsize=9)
        y = np.concatenate([drawn.query[1], drawn.context[1]])
        column[0].set_ylim(y.min() - 0.5 * np.ptp(y), y.max() + 0.5 * np.ptp(y))
    said = f"Means and 90 % bands given {report.few} (red). Above: {LABELS[learners[0]]}; below: {LABELS[learners[1]]}."
    return image("predictions", said, figure)


def _unlike(report: Report) -> Iterator[Block]:
    yield Heading(2, "Tasks unlike the rest")
    if not report.unlike:
        yield Text("None was found." if len(report.tasks) >= 8 else "With fewer than 8 tasks there is no telling.")
        return
    said = []
    for one in report.unlike:
        harm = (
            "" if one.harm is None else f" Learning from it, too, changes the others' error by {100 * one.harm:+.0f} %."
        )
        said.append(f"{one.task}: {one.why}.{harm}")
    yield Items(said)
    yield Text(
        "The prior was learned without them. They were judged all the same, and count in every figure. Look at "
        "how they were measured; where they are right, they are tasks of another kind."
    )


def _table(report: Report) -> tuple[list[Any], list[Any]]:
    found = report.comparison
    header: list[Any] = [("", ["task", "points"])]
    for amount in (FEW_POINTS, HALF):
        change = f"change, {_unit(report)}"
        header.append((f"{_plainly(report)} with {_words(report, amount)}", ["learned", "alone", change]))
    lines = []
    for row, task in enumerate(found.able):
        cells = [(report.tasks.names[task], False), (str(report.tasks.sizes[task]), False)]
        for amount in (FEW_POINTS, HALF):
            alone = found.alone(amount)
            change = found.changes(amount, alone, report.classes)[row]
            shown = change if report.classes else np.expm1(change)
            cells += [(_error(report, float(found.error(name, amount)[row])), False) for name in (LEARNED, alone)]
            cells.append((f"{100 * shown:+.1f}", bool(shown > 0)))
        lines.append(cells)
    return header, lines


def _how(report: Report) -> Iterator[Block]:
    yield Heading(2, "Settings")
    settings = (
        ", ".join(f"{name} = {value}" for name, value in report.choice.settings.items()) or "as they are by default"
    )
    yield Items([f"Method: {report.choice.method}; settings: {settings}; seed {report.seed}.", *report.choice.reasons])
    yield Heading(2, "To do it")
    yield Code(report.snippet)
    yield Heading(2, "How this was found")
    leaving = CLASSES if report.classes else NUMBERS
    groups = f"in {leaving.groups} groups" if len(report.comparison.able) > leaving.alone else "one by one"
    margin = report.change(CLASS_MARGIN if report.classes else MARGIN)
    given = f" with {report.few}" if report.classes else ""
    times = f"{len(report.contexts.orders[0])} times"
    gain, loss, large = report.judgement.gain, report.judgement.loss, _said(report.judgement.large)
    yield Items(
        [
            f"Tasks were left out {groups}; the prior was learned from the others, given some points of the left-out "
            f"task at random ({times}), and asked for the rest. The references had the same points.",
            f"It helps where it gains{given}, over every reference, more than the margin in log-likelihood a point "
            f"({MARGIN:g}, the worth of {100 * MARGIN:.0f} % of the error to a Gaussian) or in error ({margin}), by a "
            f"signed-rank test over tasks at level {LEVEL / 2:g} each. p = {_said(gain) or 'n/a'}; in error p = "
            f"{_said(report.judgement.gain_in_error)}.",
            *(
                ["A gain of a third of the error over all but the plain GP is enough: p = " + large + "."]
                if large
                else []
            ),
            f"It harms where the error is larger by more than {margin} than that of every way to learn alone, by the "
            f"same test at level {LEVEL:g}: p = {_said(loss)}.",
            f"{report.seconds:.0f} seconds.",
        ]
    )


def _said(probabilities: dict[str, float]) -> str:
    return listed([f"{p:.2g} ({name})" for name, p in probabilities.items()])
