"""The table that `pacoh predict` writes: the columns of the query as they came, then the predictions."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pacoh import files


def write(out: Path, query: Path, inputs: Sequence[str], predictions: Mapping[str, np.ndarray]) -> None:
    """Writes one row a query. A prediction whose name is taken by a column of the query gets `predicted_` before it."""
    sheet = files.sheet(query)
    columns = list(sheet.columns or inputs)
    names = [f"predicted_{name}" if name in columns else name for name in predictions]
    cells = [*sheet.cells, *([_text(value) for value in values] for values in predictions.values())]
    with out.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow([*columns, *names])
        table.writerows(zip(*cells, strict=True))


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float | np.floating) else str(value)
