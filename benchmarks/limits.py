"""What bounds the errors on two data sets, from the data alone: Berkeley's linear models, GCS' last values.

    PACOH_DATA_DIR=data python benchmarks/limits.py

Berkeley (split `tables`): the mean RMSE of the test sensors by one regression of the changes on the lags' differences,
fitted to the meta-train sensors, to the test queries' own answers, and by boosted trees. GCS: how many queries equal
the last value of their context, and the RMSE task by task and pooled of the last value and of PACOH-GP-MAP as tuned.
"""

from collections.abc import Callable

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from pacoh import api, registry
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


if __name__ == "__main__":
    berkeley()
    gcs()
