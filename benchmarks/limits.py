"""What bounds the figures on three data sets, from the data alone: Berkeley, GCS, the bandit's peptides.

    PACOH_DATA_DIR=data python benchmarks/limits.py

Berkeley (split `tables`): the mean RMSE of the test sensors by one regression of the changes on the lags' differences,
fitted to the meta-train sensors, to the test queries' own answers, and by boosted trees. GCS: how many queries equal
the last value of their context, and the RMSE task by task and pooled of the last value and of PACOH-GP-MAP as tuned.
Peptides: how far the best of the ten that look best is from the best of all, to a forest that is told the rewards of
nine tenths of the allele's other peptides and what past alleles measured; ten divisions.
"""

from collections.abc import Callable

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict

from pacoh import api, registry
from pacoh.bench.bandit import measured
from pacoh.environments.base import Pair

TUNED = {"warp": True, "kernel": "matern12"}


def differences(x: np.ndarray) -> np.ndarray:
    """The lags beyond the last one, and one."""
    return np.column_stack([x[:, :9] - x[:, 9:10], np.ones(len(x))])


def pooled(pairs: list[Pair]) -> tuple[np.ndarray, np.ndarray]:
    """The differences and the changes of all sensors."""
    return np.concatenate([differences(x) for x, _ in pairs]), np.concatenate([y - x[:, 9] for x, y in pairs])


def error(pairs: list[Pair], change: Callable[[np.ndarray], np.ndarray]) -> float:
    """The mean over sensors of the RMSE."""
    return float(np.mean([np.sqrt(np.mean((change(differences(x)) + x[:, 9] - y) ** 2)) for x, y in pairs]))


def berkeley() -> None:
    draw = registry.environment("berkeley", split="tables").draw(29)
    query = draw.test.query.pairs()
    for name, pairs in (("meta-train sensors", draw.train.pairs()), ("the test queries' own answers", query)):
        rows, changes = pooled(pairs)
        slopes = np.linalg.lstsq(rows, changes, rcond=None)[0]
        print(f"one regression fitted to {name}: {error(query, lambda x, slopes=slopes: x @ slopes):.4f}")
    rows, changes = pooled(draw.train.pairs())
    unit = changes.std()
    trees = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.05, max_leaf_nodes=16, random_state=0)
    trees.fit(rows, changes / unit)
    print(f"boosted trees fitted to meta-train sensors: {error(query, lambda x: unit * trees.predict(x)):.4f}")


def gcs() -> None:
    draw = registry.environment("physionet-gcs").draw(29)
    both = zip(draw.test.context.pairs(), draw.test.query.y, strict=True)
    same = np.concatenate([asked == y[np.argmax(x[:, 0])] for (x, y), asked in both])
    print(f"{same.mean():.1%} of {len(same)} queries equal the last value")
    for method, settings in (("last-value", {}), ("pacoh-gp-map", TUNED)):
        scores = api.fit_many([draw.train], method, [0], **settings)[0].evaluate(draw.test)
        print(f"{method}: RMSE {scores['rmse']:.3f}, pooled {scores['pooled_rmse']:.3f}")


def peptides(divisions: int = 10) -> None:
    environment = registry.environment("mhc")
    (x, y), past = environment.arms(), environment.draw(29).train
    known = np.column_stack([x, *(np.nan_to_num(measured(x, *pair), nan=pair[1].mean()) for pair in past.pairs())])
    told, forest = [], ExtraTreesRegressor(300, random_state=0)
    for seed in range(divisions):
        said = cross_val_predict(forest, known, y, cv=KFold(10, shuffle=True, random_state=seed))
        best = y[np.argsort(-said)[:10]]
        told.append((np.corrcoef(said, y)[0, 1] ** 2, y.max() - best.max(), y.max() - best.mean()))
    told = np.array(told)
    for name, column in zip(
        ("variance explained", "simple regret after ten", "average regret after ten"), told.T, strict=True
    ):
        print(f"peptides, {name}: {column.mean():.2f} ({column.min():.2f} to {column.max():.2f})")


if __name__ == "__main__":
    berkeley()
    gcs()
    peptides()
