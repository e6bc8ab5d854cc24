"""Progression of diabetes: a group of patients of one sex and age is a task. Data: scikit-learn's `load_diabetes`.

Held out are every third group; ten patients of each are shown, the others are asked for. All groups may well follow one
rule, in which case one regression on everybody is hard to beat: the table says whether it is beaten.

python examples/diabetes.py
"""

import pandas as pd
from comparing import compare
from sklearn.datasets import load_diabetes

import pacoh
from pacoh.reading import Split, Tasks

METHODS = {"pacoh-gp-svgd": {}, "vanilla-gp": {}, "pooled-ridge": {}, "context-mean": {}}


def tasks() -> tuple[Tasks, Split]:
    """Groups to learn from, and held-out groups."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    bands = pd.cut(frame["age"], [18, 30, 35, 40, 45, 50, 55, 60, 65, 80]).astype(str)
    frame["group"] = frame["sex"].map({1: "one sex, ", 2: "the other, "}) + bands
    frame = frame.drop(columns=["age", "sex"]).sample(frac=1, random_state=0)
    names = sorted(frame["group"].unique())
    held_out = frame["group"].isin(names[1::3])
    known = pacoh.read(frame[~held_out], task="group", target="target")
    return known, pacoh.read(frame[held_out], task="group", target="target", codec=known.codec).split(10)


if __name__ == "__main__":
    compare(*tasks(), METHODS, "pacoh-gp-svgd")
