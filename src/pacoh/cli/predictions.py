"""The table that `pacoh predict` writes: the columns of the query as they came, then the predictions."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacoh import files
from pacoh.categorical import AbstractClasses, CategoricalMixture
from pacoh.predictive import AbstractDistribution, AbstractNumeric, AbstractPredictive


def columns_of(predictive: AbstractPredictive) -> dict[str, Any]:
    """What is written of a predictive: mean, std and quantiles; or label and probabilities."""
    columns: dict[str, Any] = {}
    if isinstance(predictive, AbstractNumeric):
        columns["mean"] = predictive.mean
    if isinstance(predictive, AbstractDistribution):
        columns |= {"std": predictive.std, **{f"q{p:02d}": predictive.quantile(p / 100) for p in (5, 50, 95)}}
    if isinstance(predictive, AbstractClasses):
        columns["label"] = predictive.labels
    if isinstance(predictive, CategoricalMixture):
        probs = predictive.probs
        classes = range(probs.shape[-1]) if predictive.classes is None else predictive.classes
        columns |= {f"p_{name}": probs[:, i] for i, name in enumerate(classes)}
    return columns


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
