"""scikit-learn estimators of one task, with a prior learned from others. Needs the extra `sklearn`."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pacoh import registry
from pacoh.api import Model, Predictor, fit, load
from pacoh.data import Standardizer, padded, stack
from pacoh.encoding import Codec, default_columns
from pacoh.errors import PacohError
from pacoh.tuning import Tune

__all__ = ["PacohClassifier", "PacohRegressor"]

_SEEDS = np.iinfo(np.int32).max


class _OnPrior(BaseEstimator):
    """What both estimators share: a prior, and the predictor that it becomes on a task."""

    _alone = ""
    predictor_: Predictor

    def __init__(self, prior=None, *, settings=None, random_state=0):
        self.prior = prior
        self.settings = settings
        self.random_state = random_state

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)
        return text if self.prior is not None else f"{text} [no learned prior: {self._alone}]"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(_SEEDS))

    def _learn(self, tasks: Any, method: str | None, tune: Tune | None, classes: bool | str, settings: dict) -> Any:
        self.prior = fit(tasks, method, seed=self._seed(), tune=tune, classes=classes, **settings)
        return self

    def _learned(self, classes: bool) -> Model:
        """The prior, read where it is a file, if its targets are of the right kind."""
        model = load(self.prior) if isinstance(self.prior, str | Path) else self.prior
        if not isinstance(model, Model):
            raise PacohError(f"A prior is a fitted pacoh model, its file, or None; got a {type(model).__name__}.")
        if self.settings is not None:
            raise PacohError("Settings are for the learner without a prior: a learned one has its own, leave them out.")
        if (model.codec.classes is not None) != classes:
            kind, other = ("classes", "PacohRegressor") if classes else ("numbers", "PacohClassifier")
            raise PacohError(f"{type(self).__name__} needs a prior of {kind}; this one is for {other}.")
        return model

    def _read(self, X: Any, codec: Codec, reset: bool) -> Any:
        """Rows as the prior reads them: a table keeps its columns where the prior knows them by name."""
        named = codec.levels or codec.columns != default_columns(len(codec.columns))
        if named and hasattr(X, "iloc"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        return validate_data(self, X, reset=reset, dtype=np.float64)

    def _adapt(self, model: Model, X: Any, y: Any) -> Predictor:
        self.method_ = model.card["method"]
        self.vanilla_ = self.prior is None
        adapted = model.adapt(X, y, seed=self._seed())
        jax.block_until_ready(adapted.task.predictor)  # here, not when first asked
        return adapted

    def _untaught(self, X: np.ndarray, y: np.ndarray, classes: int | None) -> Model:
        """The model that learns from this task alone, in its units."""
        pair = [(X, y)]
        learner = registry.learner(self._alone, registry.Shape(1, len(y), X.shape[1], classes), **(self.settings or {}))
        units = Standardizer.fit(pair)
        codec = Codec(default_columns(X.shape[1]), (), None if classes is None else tuple(range(classes)))
        card = {"method": self._alone, "tasks": 0, "codec": codec.to_json()}
        return Model(learner.fit(stack([units(X, y)]), jax.random.key(0)), units, card)

    def _blocks(self, X: Any) -> list[Any]:
        """The predictive distributions of blocks of rows."""
        check_is_fitted(self)
        return self.predictor_.blocks(self._read(X, self.predictor_.codec, reset=False))


class PacohRegressor(RegressorMixin, _OnPrior):
    """Regression on one task with a prior that was learned from others: scikit-learn's interface to `Model.adapt`.

    `prior` is a fitted model or its file; `meta_fit` learns one and puts it there, so that clones keep it. **With
    `prior=None` nothing is transferred**: this is then the vanilla learner, a Gaussian process on the task alone
    (`vanilla-gp`, with its `settings`), and `vanilla_` is True. `method_` names what was fitted. `random_state` moves
    methods that draw.

    >>> import numpy as np
    >>> from pacoh.sklearn import PacohRegressor
    >>> x = np.arange(6.0)[:, None]
    >>> tasks = [(x, slope * x[:, 0]) for slope in (1.8, 2.0, 2.1, 2.2)]
    >>> regressor = PacohRegressor().meta_fit(tasks, "pacoh-gp-map", steps=20).fit(x[:2], [0.0, 2.1])
    >>> mean, std = regressor.predict(x, return_std=True)
    >>> mean.shape, bool((std > 0).all()), regressor.vanilla_
    ((6,), True, False)
    """

    _alone = "vanilla-gp"

    def meta_fit(self, tasks: Any, method: str | None = None, *, tune: Tune | None = None, **settings: Any) -> Any:
        """Learns the prior from tasks as `pacoh.fit` does, which chooses a method where none is named."""
        return self._learn(tasks, method, tune, False, settings)

    def fit(self, X: Any, y: Any) -> "PacohRegressor":
        """Adapts the prior to the points of a task."""
        if self.prior is None:
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
            self.predictor_ = self._adapt(self._untaught(X, np.asarray(y, np.float64), None), X, y)
            return self
        model = self._learned(classes=False)
        X = self._read(X, model.codec, reset=True)
        self.predictor_ = self._adapt(model, X, column_or_1d(y, warn=True))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean, and with `return_std` the standard deviation of a new observation beside it."""
        blocks = self._blocks(X)
        mean = np.concatenate([block.mean for block in blocks])
        return (mean, np.concatenate([block.std for block in blocks])) if return_std else mean

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of a new observation, one column each."""
        levels = np.atleast_1d(np.asarray(quantiles, np.float64))
        if not ((levels > 0) & (levels < 1)).all():
            raise PacohError(f"Quantiles lie between 0 and 1; got {levels.tolist()}.")
        return np.concatenate([np.stack([block.quantile(p) for p in levels], -1) for block in self._blocks(X)])

    def predict_frame(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> Any:
        """A DataFrame of mean, std and quantiles with the index of X."""
        mean, std = self.predict(X, return_std=True)
        found = self.predict_quantiles(X, quantiles).T
        names = [f"q{100 * p:02.4g}" for p in np.atleast_1d(quantiles)]
        return _frame({"mean": mean, "std": std} | dict(zip(names, found, strict=True)), X)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of the function at the rows of X, jointly and without noise: an array (rows, n_samples)."""
        check_is_fitted(self)
        predictor = self.predictor_
        x = predictor.inputs(self._read(X, predictor.codec, reset=False))
        keys = jax.random.split(jax.random.key(int(check_random_state(random_state).randint(_SEEDS))), n_samples)
        asked = padded(predictor.units.inputs(x), np.zeros(len(x)))[0]
        drawn = np.asarray(_functions(predictor.task.predictor, asked, keys), np.float64)[:, : len(x)].T
        return predictor.units.y_loc + predictor.units.y_scale * drawn


@eqx.filter_jit
def _functions(predictor: Any, x: Any, keys: Any) -> jax.Array:
    return jax.vmap(lambda key: predictor.function(key)(x))(keys)


class PacohClassifier(ClassifierMixin, _OnPrior):
    """Classification of one task with a prior that was learned from others: scikit-learn's interface to `Model.adapt`.

    `prior` is a fitted model or its file; `meta_fit` learns one and puts it there, so that clones keep it. **With
    `prior=None` nothing is transferred**: this is then the vanilla learner, a Bayesian network on the task alone
    (`vanilla-bnn`, with its `settings`), and `vanilla_` is True. `method_` names what was fitted. `random_state` moves
    methods that draw.

    >>> import numpy as np
    >>> from pacoh.sklearn import PacohClassifier
    >>> tasks = [(np.arange(4.0)[:, None] + shift, ["low", "low", "high", "high"]) for shift in (0, 1, 2)]
    >>> classifier = PacohClassifier().meta_fit(tasks, "pacoh-nn-map", steps=5, adapt_steps=20)
    >>> classifier.fit([[0.0], [3.0]], ["low", "high"]).predict_proba([[1.0], [2.5]]).shape
    (2, 2)
    """

    _alone = "vanilla-bnn"

    def meta_fit(
        self,
        tasks: Any,
        method: str | None = None,
        *,
        classes: bool | str = True,
        tune: Tune | None = None,
        **settings: Any,
    ) -> Any:
        """Learns the prior from tasks as `pacoh.fit` does; `classes="task"` where labels are each task's own."""
        return self._learn(tasks, method, tune, classes, settings)

    def fit(self, X: Any, y: Any) -> "PacohClassifier":
        """Adapts the prior to the points of a task."""
        if self.prior is None:
            X, y = validate_data(self, X, y, dtype=np.float64)
            check_classification_targets(y)
            self.classes_, ids = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise PacohError(f"A classifier needs points of two classes; got one class, {self.classes_[0]}.")
            self.predictor_ = self._adapt(self._untaught(X, ids, len(self.classes_)), X, ids)
            return self
        model = self._learned(classes=True)
        X, y = self._read(X, model.codec, reset=True), column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.predictor_ = self._adapt(model, X, y)
        self.classes_ = np.asarray(self.predictor_.classes)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each of `classes_`, one column each."""
        return np.concatenate([block.probs for block in self._blocks(X)])

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        found = np.concatenate([block.mode for block in self._blocks(X)])
        return self.classes_[found]

    def predict_frame(self, X: Any) -> Any:
        """A DataFrame of the most probable class and the probability of each, with the index of X."""
        probs = self.predict_proba(X)
        columns = {"class": self.classes_[probs.argmax(1)]}
        return _frame(columns | {f"p({c})": p for c, p in zip(self.classes_, probs.T, strict=True)}, X)


def _frame(columns: dict[str, np.ndarray], X: Any) -> Any:
    try:
        import pandas
    except ImportError:
        raise PacohError('Tables need pandas: pip install "pacoh[data]", or use predict.') from None
    return pandas.DataFrame(columns, index=getattr(X, "index", None))
