"""Benign or malignant, from the texture of a tumour: tumours of one size are a task. Data: `load_breast_cancer`.

The share of malignant tumours grows with their size, and what tells them apart may change with it. Every third size is
held out, eight patients of it are shown and the others are asked for. Labels mean the same in all tasks
(`classes=True`).

python examples/tumours.py
"""

import pandas as pd
from comparing import compare
from sklearn.datasets import load_breast_cancer

import pacoh
from pacoh.reading import Split, Tasks

INPUTS = ["mean texture", "mean smoothness", "mean compactness", "mean concavity", "mean symmetry"]
METHODS = {"pacoh-nn-map": {"steps": 500}, "vanilla-bnn": {}, "nearest-prototype": {}, "majority-class": {}}


def tasks() -> tuple[Tasks, Split]:
    """Sizes to learn from, and held-out sizes."""
    bunch = load_breast_cancer(as_frame=True)
    frame = bunch.frame[INPUTS].assign(size=pd.qcut(bunch.frame["mean radius"], 18, labels=False))
    frame["diagnosis"] = bunch.target_names[bunch.frame["target"]]
    frame = frame.sample(frac=1, random_state=0).sort_values("size", kind="stable")
    held_out = frame["size"] % 3 == 1
    known = pacoh.read(frame[~held_out], task="size", target="diagnosis", classes=True)
    return known, pacoh.read(frame[held_out], task="size", target="diagnosis", codec=known.codec).split(8)


if __name__ == "__main__":
    compare(*tasks(), METHODS, "pacoh-nn-map", classes=True)
