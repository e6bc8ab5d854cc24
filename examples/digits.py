"""Handwritten digits that were never seen: three kinds a task, three drawings of each.

Data: scikit-learn's `load_digits`. Tasks to learn from are made of the digits 0 to 4, held-out tasks of 5 to 9. Labels
are each task's own (`classes="task"`).

python examples/digits.py
"""

import numpy as np
from comparing import compare
from sklearn.datasets import load_digits

import pacoh
from pacoh.reading import Split, Tasks

WAYS, SHOTS = 3, 3
METHODS = {"pacoh-nn-svgd": {}, "vanilla-bnn": {}, "maml": {}, "nearest-prototype": {}}


def tasks(count: int = 40) -> tuple[Tasks, Split]:
    """Tasks of the first five digits, and held-out tasks of the others."""
    images, digits = load_digits(return_X_y=True)
    random = np.random.default_rng(0)

    def task(kinds, each):
        chosen = random.choice(kinds, WAYS, replace=False)
        rows = np.concatenate([random.choice(np.flatnonzero(digits == kind), each, replace=False) for kind in chosen])
        return images[rows] / 16, [f"digit {kind}" for kind in digits[rows]]

    known = pacoh.read([task(np.arange(5), 8) for _ in range(count)], classes="task")
    return known, pacoh.read([task(np.arange(5, 10), SHOTS + 12) for _ in range(30)], codec=known.codec).shots(SHOTS)


if __name__ == "__main__":
    compare(*tasks(), METHODS, "pacoh-nn-svgd", classes="task")
