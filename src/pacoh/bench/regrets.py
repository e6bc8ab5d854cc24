"""What a bandit's records say: regret round by round with its bands, and each PACOH beside each other method."""

import csv
import io
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ttest_rel

from pacoh.bench.cells import Record
from pacoh.bench.spec import Column
from pacoh.bench.tables import Results, number
from pacoh.optimize.bandit import regrets
from pacoh.pages import Block, Grid, Heading, Image, Text, blank, image

_LINES = {"pacoh": "-", "baseline": "--", "naive": ":"}


def regret_pages(results: Results) -> Iterator[Block]:
    """The figure with its numbers, and the comparison over rounds: over the starts of all columns."""
    columns = results.experiment.columns if results.experiment.bandit else ()
    played = _played(results, columns)
    if played:
        where = columns[0].label if len(columns) == 1 else f"All {len(columns)} environments"
        yield from _tabled(results, where, played)
        yield _figure(results, where, played)
        yield from _compared(results, where, played)


Played = dict[str, tuple[np.ndarray, np.ndarray]]
"""Average and simple regret of each row, (starts, rounds)."""


def _played(results: Results, columns: Sequence[Column]) -> Played:
    """Of the rows that have records in every column: the starts of one after those of the other."""
    found: Played = {}
    for row in results.experiment.rows if columns else ():
        cells = [results.known.get((row.key, column.key)) for column in columns]
        pairs = [_regrets(records) for records in cells if records is not None]
        if len(pairs) == len(columns):
            average, simple = zip(*pairs, strict=True)
            found[row.key] = np.concatenate(average), np.concatenate(simple)
    return found


def _regrets(records: list[Record]) -> tuple[np.ndarray, np.ndarray]:
    rewards = np.array([record["rewards"] for record in records], float)
    return regrets(rewards, float(records[0]["most"]))


def _tabled(results: Results, where: str, played: Played) -> Iterator[Block]:
    """Means over the starts at some rounds, the least average regret in bold."""
    rounds = results.experiment.bandit["at"]
    means = {key: [[regret[:, t - 1].mean() for t in rounds] for regret in pair] for key, pair in played.items()}
    least = np.min([average for average, _ in means.values()], axis=0)
    yield Heading(3, f"{where}: average regret (simple regret)")
    lines: list[list[tuple[str, bool]]] = []
    for key, (average, simple) in means.items():
        shown = [(f"{a:.3f} ({s:.3f})", bool(a == low)) for a, s, low in zip(average, simple, least, strict=True)]
        lines.append([(results.experiment.row(key).label, False), *shown])
    yield Grid([("", ["method", *(f"{t} rounds" for t in rounds)])], lines)


def _figure(results: Results, where: str, played: Played) -> Image:
    figure: Figure = blank(10.0, 4.2)
    panels = figure.subplots(1, 2)
    starts = 0
    for key, pair in played.items():
        row = results.experiment.row(key)
        for panel, regret in zip(panels, pair, strict=True):
            starts, rounds = regret.shape
            mean, half = regret.mean(0), _half(regret)
            at = np.arange(1, rounds + 1)
            (line,) = panel.plot(at, mean, _LINES[row.part], lw=1.4, label=row.label)
            panel.fill_between(at, mean - half, mean + half, color=line.get_color(), alpha=0.12, lw=0)
    for panel, title in zip(panels, ("average regret", "simple regret"), strict=True):
        panel.set(xlabel="round", title=title, ylim=(0, None))
    panels[0].legend(fontsize=7)
    said = f"{where}: average and simple regret, means over {starts} starts with 95 % bands."
    return image(f"{results.experiment.name}-regret", said, figure, _table(played))


def _half(regret: np.ndarray) -> np.ndarray:
    """Half the width of the 95 % band of the mean; none of a single start."""
    return 1.96 * regret.std(0, ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else 0 * regret[0]


def _table(played: Played) -> bytes:
    """The figure as CSV: a row a method and round."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    names = [f"{name}_regret{part}" for name in ("average", "simple") for part in ("", "_band")]
    rows.writerow(["method", "round", *names])
    for key, pair in played.items():
        numbers = [part for regret in pair for part in (regret.mean(0), _half(regret))]
        rows.writerows([key, t + 1, *(f"{part[t]:.5g}" for part in numbers)] for t in range(len(numbers[0])))
    return text.getvalue().encode()


def _compared(results: Results, where: str, played: Played) -> Iterator[Block]:
    """How far each PACOH is below each other method in average regret, at every round from the first one tabled on."""
    begin = int(results.experiment.bandit["at"][0])
    rows = [results.experiment.row(key) for key in played]
    lines = [
        [(mine.label, False), (other.label, False), *_gap(played[mine.key][0], played[other.key][0], begin)]
        for mine in rows
        for other in rows
        if mine.part == "pacoh" and other.part != "pacoh"
    ]
    if not lines:
        return
    yield Heading(3, f"{where}: average regret from round {begin} on")
    names = ["method", "against", "least gain", "largest gain", "largest p", "verdict"]
    yield Grid([("", names)], lines)
    yield Text(
        f"How far the method's average regret lies below the other's in the rounds from {begin} on: the least "
        "and the largest of these gains, and the largest p of one-sided t-tests paired over starts. Better: p below "
        "5 % in every round."
    )


def _gap(mine: np.ndarray, other: np.ndarray, begin: int) -> list[tuple[str, bool]]:
    """Gains over the rounds, the largest p, and whether all rounds are better."""
    mine, other = mine[:, begin - 1 :], other[:, begin - 1 :]
    gains = (other - mine).mean(0)
    if len(mine) < 2:
        return [(number(gains.min(), 3), False), (number(gains.max(), 3), False), ("n/a", False), ("one start", False)]
    p = float(np.max(ttest_rel(mine, other, alternative="less").pvalue))
    better = p < 0.05
    verdict = "better in every round" if better else "not better in every round"
    return [(number(gains.min(), 3), False), (number(gains.max(), 3), False), (f"{p:.2g}", False), (verdict, better)]
