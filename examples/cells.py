"""Ten measurements of cell nuclei, each a task: its worst value from its mean and its standard error, over patients.

Data: scikit-learn's `load_breast_cancer`. The ten measurements (radius, texture, ...) have units of their own, so each
is scaled by eight of its patients, as one could do with a new measurement. Seven are learned from; of the other three
those eight patients are shown. Three times three are held out in turn.

python examples/cells.py
"""

import numpy as np
from comparing import compare
from sklearn.datasets import load_breast_cancer

import pacoh
from pacoh.reading import Split, Tasks

METHODS = {"pacoh-gp-svgd": {}, "vanilla-gp": {}, "pooled-ridge": {}, "context-mean": {}}
SHOWN, ASKED = 8, 60


def measurement(data: np.ndarray, which: int, patients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error (inputs) and worst value of one measurement, in units of the patients shown first."""
    mean, error, worst = (data[patients, column] for column in (which, which + 10, which + 20))
    loc, scale = mean[:SHOWN].mean(), mean[:SHOWN].std()
    return np.stack([(mean - loc) / scale, error / scale], 1), (worst - loc) / scale


def tasks(part: int) -> tuple[Tasks, Split]:
    """Seven measurements with thirty patients each, and the other three, each with four sets of patients."""
    bunch = load_breast_cancer()
    random = np.random.default_rng(0)
    out = np.random.default_rng(1).permutation(10)[3 * part : 3 * part + 3]
    names = [str(name).removeprefix("mean ") for name in bunch.feature_names[:10]]

    def sample(which, count):
        return measurement(bunch.data, which, random.permutation(len(bunch.data))[:count])

    known = pacoh.read({names[i]: sample(i, 30) for i in range(10) if i not in out})
    held = pacoh.read({f"{names[i]} {k}": sample(i, SHOWN + ASKED) for i in out for k in range(4)}, codec=known.codec)
    return known, held.split(SHOWN)


if __name__ == "__main__":
    for part in range(3):
        train, test = tasks(part)
        print("Held out:", ", ".join(dict.fromkeys(name.rsplit(" ", 1)[0] for name in test.context.names)))
        compare(train, test, METHODS, "pacoh-gp-svgd")
        print()
