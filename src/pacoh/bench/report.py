"""What the results say, once as a list of blocks, shown as one self-contained HTML page and as Markdown."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pacoh.bench.pictures import pictures
from pacoh.bench.regrets import regret_pages
from pacoh.bench.short import Reasons, short_pages
from pacoh.bench.spec import Claim, Table, published
from pacoh.bench.store import Plan, Store
from pacoh.bench.tables import CALIBRATION, LABELS, LISTS, UNLIKELY, Entry, Results, number, sequence, with_sd
from pacoh.errors import PacohError
from pacoh.pages import Block, Code, Details, Grid, Heading, Image, Items, Text, to_html, to_markdown
from pacoh.writing import write_whole


def write(folder: Path, out: Path, name: str = "report", note: str = "", reasons: Reasons | None = None) -> list[Path]:
    """Writes an HTML page, a Markdown page and the figures that the latter shows; a note follows the first lines.

    `reasons` say why cells fall short of published ones.
    """
    if not folder.is_dir():
        raise PacohError(
            f"There is no folder {str(folder)!r} of results: make it with `pacoh bench run NAME --out ...`."
        )
    store = Store(folder)
    blocks = list(report(store, store.plans(), note, reasons or {}))
    (out / "figures").mkdir(parents=True, exist_ok=True)
    written = [out / f"{name}.html", out / f"{name}.md"]
    write_whole(written[0], to_html("Benchmark", blocks).encode())
    write_whole(written[1], to_markdown(blocks).encode())
    for block in blocks:
        if isinstance(block, Image):
            write_whole(out / "figures" / f"{block.name}.svg", block.svg)
            if block.table:
                write_whole(out / "figures" / f"{block.name}.csv", block.table)
    return written


def report(store: Store, plans: list[Plan], note: str = "", reasons: Reasons | None = None) -> Iterator[Block]:
    """All that the folder holds: first whether PACOH beats what needs no learning."""
    every = [(plan, Results(plan.experiment, store)) for plan in plans]
    yield Heading(1, "Benchmark")
    yield Items(
        [line for _, results in every for line in headline(results)]
        or ["No PACOH method was run beside a naive reference."]
    )
    yield Items([*(_standing(results) for _, results in every), *_others(store, every)])
    yield from (Text(" ".join(paragraph.split())) for paragraph in note.split("\n\n") if paragraph.strip())
    yield from short_pages([results for _, results in every], reasons or {})
    for plan, results in every:
        yield Heading(2, plan.experiment.name)
        yield Text(plan.experiment.summary)
        yield from _trouble(results)
        for table in plan.experiment.tables:
            yield from show_table(results, table)
        yield from _claims(results)
        yield from regret_pages(results)
        yield from pictures(results)
        yield from _settings(results)
        yield Details(list(_times(results)))
        yield Heading(3, "Commands")
        yield Code("\n".join([plan.command, f"pacoh bench report {store.root}"]))


def headline(results: Results) -> Iterator[str]:
    """For each environment whether the best PACOH beats the best reference that needs no learning."""
    for column in results.experiment.columns:
        leaders = results.leaders(column)
        if leaders is None:
            continue
        metric, ours, naive, gap = leaders
        scores = [
            f"{_label(results, key)}, {LABELS[metric]} {number(_mean(results, key, column.key, metric))}"
            for key in (ours, naive)
        ]
        verdict = gap.verdict(metric)
        says = {"better": "beats", "worse": "does NOT beat", "not finite": "cannot be compared with"}.get(
            verdict, "does NOT beat (the difference is not distinguishable from none)"
        )
        yield f"{column.label}: the best PACOH ({scores[0]}) {says} the best reference without learning ({scores[1]})."


def _mean(results: Results, row: str, column: str, metric: str) -> float:
    values = results.values(row, column, metric)
    return float("nan") if values is None else float(values.mean())


def _label(results: Results, key: str) -> str:
    return results.experiment.row(key).label


def _standing(results: Results) -> str:
    """What was run, on what."""
    cells = len(results.cells)
    made = [records[0]["made"] for records in results.known.values()]
    said = f"{results.experiment.name}: {len(results.known)} of {cells} cells finished"
    if results.failures:
        said += f", {len(results.failures)} failed"
    if results.missing:
        said += f", {len(results.missing)} missing"
    for name, word in (("device", "on"), ("revision", "revision"), ("pacoh", "pacoh"), ("jax", "jax")):
        found = sorted({str(one[name]) for one in made})
        if found:
            said += f"; {word} {sequence(found)}"
    return said + "."


def _others(store: Store, every: list[tuple[Plan, Results]]) -> list[str]:
    others = store.others([cell for _, results in every for cell in results.cells.values()])
    return [f"{others} files of results are of other settings than these and are not shown."] if others else []


def _trouble(results: Results) -> Iterator[Block]:
    """Cells without a result, by name."""
    if results.failures:
        yield Text("Cells that failed:")
        yield Items([f"{column} / {_row(results, row)}: {why}" for (row, column), why in results.failures.items()])
    if results.missing:
        names = [f"{column} / {_row(results, row)}" for row, column in results.missing]
        yield Text(f"Cells that were not run: {', '.join(names)}.")


def _row(results: Results, key: str) -> str:
    labels = {row.key: row.label for row in results.experiment.rows}
    return labels.get(key, key)


def show_table(results: Results, table: Table) -> Iterator[Block]:
    """One metric: ours | published | difference in published sds, for each environment."""
    made, entries = results.experiment, results.table(table)
    known = published(table.published) if table.published else {}
    columns = [c for c in made.columns if any(_numeric(entries.get((row.key, c.key))) for row in made.rows)]
    rows = [row for row in made.rows if any(_worth(entries.get((row.key, c.key))) for c in columns)]
    if not columns:
        return
    yield Heading(3, (known.get("title") or _sentence(LABELS[table.metric])) + LISTS[table.list])
    header, lines = [("", ["method"])], [[(row.label, False)] for row in rows]
    for column in columns:
        mine = [entries.get((row.key, column.key)) for row in rows]
        beside = any(one is not None and one.published is not None for one in mine)
        header.append((column.label, ["ours", "published", "difference in published sds"] if beside else ["ours"]))
        for line, one in zip(lines, mine, strict=True):
            line.extend(_shown(one)[: 3 if beside else 1])
    yield Grid(header, lines)
    notes = ["Mean ± sd over seeds" + (" and draws" if len(made.draws) > 1 else "") + "."]
    if table.metric not in ("coverage_90", "coverage_95"):
        notes.append("Bold: the best, and what is within one standard error of it (paired over tasks and seeds).")
    if any(not one.counts for one in entries.values() if _numeric(one)):
        notes.append("†: does not count, for its log-likelihood is worse than that of learning each task alone.")
    notes += [f"{c.label}: {known['notes'][c.key]}" for c in columns if c.key in known.get("notes", {})]
    yield Text(" ".join(notes))
    yield from _reached(results, table, entries)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _numeric(entry: Entry | None) -> bool:
    return entry is not None and not entry.state


def _worth(entry: Entry | None) -> bool:
    return entry is not None and (entry.state != "n/a" or entry.published is not None)


def _shown(one: Entry | None) -> list[tuple[str, bool]]:
    """Ours, published, difference: each with whether it is bold."""
    if one is None:
        return [("", False)] * 3
    told = "" if one.published is None else with_sd(*one.published)
    ours = one.state or with_sd(one.mean, one.sd) + ("" if one.counts else " †")
    return [(ours, one.best), (told, False), ("" if one.gap is None else f"{one.gap:+.1f}", False)]


def _reached(results: Results, table: Table, entries: dict[tuple[str, str], Entry]) -> Iterator[Block]:
    """How many cells are at the published mean or better, or within one sd of it, and which are not."""
    for part, name in (("pacoh", "PACOH"), ("baseline", "baseline")):
        rows = {row.key: row.label for row in results.experiment.rows if row.part == part}
        judged = {place: one for place, one in entries.items() if place[0] in rows and one.published is not None}
        judged = {place: one for place, one in judged.items() if one.state != "n/a"}
        if not judged:
            continue
        short = {place: one for place, one in judged.items() if not one.holds(table.metric)}
        fine = len(judged) - len(short)
        yield Text(f"{fine} of {len(judged)} {name} cells reach the published mean, or are within one sd of it.")
        if short:
            yield Items([*_behind(short, rows), *_without_number(short, rows)])


def _behind(short: dict[tuple[str, str], Entry], rows: dict[str, str]) -> list[str]:
    return [f"{column} / {rows[row]}: {_short(one)}" for (row, column), one in short.items() if not one.state]


def _without_number(short: dict[tuple[str, str], Entry], rows: dict[str, str]) -> list[str]:
    """An environment's cells that are missing or failed, in one line."""
    found: dict[tuple[str, str], list[str]] = {}
    for (row, column), one in short.items():
        if one.state:
            found.setdefault((column, one.state), []).append(rows[row])
    return [f"{column} / {', '.join(names)}: {state}" for (column, state), names in found.items()]


def _short(one: Entry) -> str:
    told = f"{with_sd(one.mean, one.sd)} against {_shown(one)[1][0]}"
    return told + ("" if one.counts else f", and {UNLIKELY}")


def _claims(results: Results) -> Iterator[Block]:
    """The order that the paper claims, tested on our numbers."""
    made = results.experiment
    if not made.claims:
        return
    lines = []
    for claim in made.claims:
        for column in made.columns:
            line = _claim(results, claim, column.key)
            if line is not None:
                lines.append([(column.label, False), *line])
    if not lines:
        return
    yield Heading(3, "Comparisons")
    columns = ["environment", "metric", "method", "against", "difference", "standard error", "p", "verdict"]
    yield Grid([("", columns)], lines)
    yield Text(
        "Differences of means, paired over seeds and tasks: both count as samples, and the standard error has a part "
        "of each; Student's t, two-sided, 5 % a comparison, without correction for their number. A calibration that "
        "does not count (†) is not called better."
    )


def _claim(results: Results, claim: Claim, column: str) -> list[tuple[str, bool]] | None:
    gap = results.difference(column, claim)
    if gap is None:
        return None
    verdict = gap.verdict(claim.metric)
    if claim.metric in CALIBRATION and verdict == "better":
        table, place = Table(claim.metric), next(c for c in results.experiment.columns if c.key == column)
        entry = results.entry(results.experiment.row(claim.method), place, table)
        verdict = verdict if entry is None or entry.counts else "does not count †"
    names = [_label(results, key) for key in (claim.method, claim.against)]
    numbers = [f"{gap.mean:+.4f}", f"{gap.error:.4f}", f"{gap.p:.2g}"]
    return [(text, False) for text in (LABELS[claim.metric], *names, *numbers)] + [(verdict, verdict == "better")]


def _settings(results: Results) -> Iterator[Block]:
    """What differs from the defaults, cell by cell."""
    found = [(cell, cell.what.get("settings")) for cell in results.cells.values()]
    lines = [[cell.column, _row(results, cell.row), json.dumps(settings)] for cell, settings in found if settings]
    if lines:
        yield Heading(3, "Settings other than the defaults")
        yield Grid([("", ["environment", "method", "settings"])], [[(text, False) for text in line] for line in lines])


def _times(results: Results) -> Iterator[Block]:
    """What each cell took."""
    lines = []
    for (row, column), records in results.known.items():
        made = records[0]["made"]
        times = made.get("times", {})
        step = made["seconds_per_step"]
        texts = [column, _row(results, row), str(times.get("lanes", 1))]
        texts += [number(times.get(part)) for part in ("fit", "evaluate")] + [number(made["seconds"])]
        texts += [number(None if step is None else 1e3 * step, 3), number(made["peak_bytes"] / 2**20, 3)]
        lines.append([(text, False) for text in (*texts, made["device"], str(len(made["warnings"])))])
    if not lines:
        return
    yield Heading(3, "Times")
    columns = ["environment", "method", "lanes", "fit s", "evaluate s", "in all s", "ms a step", "peak MiB", "device"]
    yield Grid([("", [*columns, "warnings"])], lines)
    whole = float(np.sum([records[0]["made"]["seconds"] for records in results.known.values()]))
    yield Text(
        f"{whole:.0f} s in all. Times are of all lanes of a cell together, compilation included (a step's without it); "
        "the peak is that of the process so far."
    )
