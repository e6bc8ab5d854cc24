"""An optimiser that asks and is told: a learned prior, adapted to what was told, chooses what to try next."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from pacoh import persistence
from pacoh.api import Model, fit
from pacoh.data import Dataset, Standardizer, padded
from pacoh.errors import PacohError
from pacoh.learners.base import AbstractMetaModel
from pacoh.learners.guard import Guarded
from pacoh.learners.moved import MovedModel
from pacoh.optimize.acquisition import UCB, AbstractAcquisition, LogEI
from pacoh.optimize.search import Effort, Known, Rule, from_box, from_pool
from pacoh.optimize.space import Pool, Space
from pacoh.optimize.warp import Warp
from pacoh.recipes.gp import lone_gp

_GOALS = {"maximize": True, "minimize": False}
_BASINS = 6  # of a landscape that is a sum of them
_LEAST = 16  # rows of the smallest padded context: 50 rounds meet three shapes


class Chooser(NamedTuple):
    """What a suggestion comes from: a model, the scale that it takes values on, a rule, and random points before."""

    model: Model
    warp: Warp
    rule: Rule
    initial: int
    places: np.ndarray | None = None


class Best(NamedTuple):
    """The best point told, and its value.

    >>> from pacoh.optimize import Optimizer, Pool
    >>> optimizer = Optimizer(None, Pool([0.0, 0.5, 1.0]), goal="minimize")
    >>> optimizer.tell([2, 0], [3.0, 1.0])
    >>> optimizer.best
    Best(point=0, value=1.0)
    """

    point: Any
    value: float


def rows_for(count: int) -> int:
    """The padded length of a context: 16, 32, 64, ..., so that a run compiles few programs."""
    return max(_LEAST, 1 << (count - 1).bit_length())


def untaught(width: int) -> Model:
    """The model where nothing was learned: a GP fitted to the task alone, for rows in [0, 1]."""
    uniform = Standardizer(np.full(width, 0.5), np.full(width, 12**-0.5), np.zeros(()), np.ones(()))
    return Model(lone_gp().model(), uniform, {})


def without_past(width: int, rule: Rule) -> Chooser:
    """What searches without a past: a GP of this search alone, after one random point more than there are columns."""
    return Chooser(untaught(width), Warp(), rule, width + 1)


def gives_way(values: Sequence[float], maximize: bool, width: int, pending: int = 0) -> bool:
    """Whether a past that is believed leaves the next point to a search without it: it is wrong, or has no more to say.

    After as many points as there are columns without a better value, it does so every second time.

    >>> from pacoh.optimize.optimizer import gives_way
    >>> [gives_way([3.0, 1.0, *[2.0] * count], False, 2) for count in range(6)]
    [False, False, True, False, True, False]
    """
    if not len(values):
        return False
    since = len(values) - 1 - int(np.argmax(values) if maximize else np.argmin(values)) + pending
    return since >= width and (since - width) % 2 == 0


def landscapes(values: Sequence[Any], method: str, given: Mapping[str, Any]) -> list[tuple[dict[str, Any], Warp]]:
    """How past searches may be learned: settings and the scale of values; more than one way of a moved landscape.

    As it is; of warped values, where these look more Gaussian; as a sum of basins, unless their number is given.
    """
    ways: list[tuple[dict[str, Any], Warp]] = [({}, Warp())]
    if method == "moved-gp":
        warp = Warp.of(values)
        ways += [({}, warp)] if warp.strength else []
        ways += [] if "basins" in given else [({"basins": _BASINS}, Warp())]
    return ways


def taught(tasks: Sequence[tuple[np.ndarray, np.ndarray]], method: str, **options: Any) -> tuple[Model, Warp]:
    """The model of past searches, and the scale it takes values on: of moved landscapes the likeliest."""
    values = [values for _, values in tasks]
    learned: list[tuple[Model, Warp]] = []
    for way, warp in landscapes(values, method, options):
        warped = [(rows, warp(told)) for rows, told in tasks] if warp.strength else list(tasks)
        learned.append((fit(warped, method, **options | way), warp))
    told = np.concatenate(values)
    return learned[0] if len(learned) == 1 else max(learned, key=lambda pair: likelihood(*pair, told))


def likelihood(model: Model, warp: Warp, values: np.ndarray) -> float:
    """ln p of the values of past searches under the landscape learned of them, on their own scale."""
    landscape = _landscape(model)
    assert landscape is not None
    return float(landscape.log_density + (warp.log_slopes(values) - np.log(model.units.y_scale)).sum())


def _landscape(model: Model) -> MovedModel | None:
    learned = model.meta.learned if isinstance(model.meta, Guarded) else model.meta
    return learned if isinstance(learned, MovedModel) else None


@eqx.filter_jit
def _believes(meta: Guarded, context: Dataset, key: Any) -> jax.Array:
    return meta.believes(context, key)


@eqx.filter_jit
def _choose_row(meta: AbstractMetaModel, known: Any, rule: Rule, pool: Any, key: Any, believe: bool) -> jax.Array:
    return from_pool(meta, Known(*known), rule, pool, key, believe)


@eqx.filter_jit
def _choose_point(
    meta: AbstractMetaModel, known: Any, rule: Rule, box: Any, key: Any, effort: Effort, believe: bool, places: Any
) -> jax.Array:
    return from_box(meta, Known(*known), rule, box, key, effort, believe, places)


class Optimizer:
    """Looks for the best point of a space or a pool with a model's predictions; adapting is all the fitting it does.

    `model` was fitted on tasks whose inputs are `space.encode(points)`, or on inputs like the pool's rows; None is a
    Gaussian process that learns from this task alone. The first `initial` points are random: by default none with a
    model, whose prior knows better, and one more than there are columns without. Points of a `Space` are dicts, those
    of a `Pool` numbers of rows. Without `repeats` no point is suggested twice. With `exact` values do not scatter: what
    was told is known, and is suggested again only where it beats what may be elsewhere. `warp` is the scale that the
    model takes values on, where they were warped before it was fitted. With `alone`, a guarded model that does not
    believe what it learned is set aside: the next point is the one that an optimiser without a model would try by this
    acquisition, its random points among them. So is every second point while the model finds nothing better for
    `patience` points or more, as many as there are columns unless given (`gives_way`).

    `places` are rows of a space, where past searches found good points: the model then chooses among them and points
    near them only, for where it was told little it promises too much. Without `alone` it leaves them where it would be
    set aside.

    A suggestion depends on the seed, on what was told and asked, and on nothing else, so a run that was saved and
    loaded goes on as if it had not been interrupted.

    >>> from pacoh.optimize import Effort, Optimizer, Real, Space
    >>> space = Space({"rate": Real(1e-4, 1.0, log=True)})
    >>> optimizer = Optimizer(None, space, effort=Effort(wide=64, near=32, ascents=2, steps=10))
    >>> for _ in range(4):
    ...     (point,) = optimizer.ask()
    ...     optimizer.tell([point], [(point["rate"] - 0.01) ** 2])
    >>> optimizer.best.value < 0.01, optimizer.pending
    (True, [])
    >>> optimizer.save("search.pacoh")
    >>> Optimizer.load("search.pacoh").best == optimizer.best
    True
    """

    def __init__(
        self,
        model: Model | None,
        where: Space | Pool,
        *,
        goal: str = "minimize",
        acquisition: AbstractAcquisition | None = None,
        alone: AbstractAcquisition | None = None,
        repeats: bool = False,
        exact: bool = False,
        initial: int | None = None,
        effort: Effort | None = None,
        warp: Warp | None = None,
        places: Any = None,
        patience: int | None = None,
        seed: int = 0,
    ):
        if goal not in _GOALS:
            raise PacohError(f"The goal is 'minimize' or 'maximize'; got {goal!r}.")
        self.model = untaught(where.width) if model is None else model
        if self.model.codec.classes is not None:
            raise PacohError("The model predicts classes, and an optimiser needs one that predicts numbers.")
        if len(self.model.units.x_loc) != where.width:
            raise PacohError(
                f"The model takes {len(self.model.units.x_loc)} inputs, and the points to choose from have "
                f"{where.width}: fit it on tasks whose inputs are space.encode(points), or on columns like the pool's."
            )
        self.where, self.goal, self.seed, self.effort = where, goal, seed, effort or Effort()
        self.warp = warp or Warp()
        self.patience = where.width if patience is None else patience
        self.places = None if places is None else _rows(places, where)
        self.rule = Rule(UCB() if acquisition is None else acquisition, _GOALS[goal], repeats, exact)
        self.alone = None if alone is None else Rule(alone, _GOALS[goal], repeats, exact)
        self.points: list[Any] = []
        self.values: list[float] = []
        self.pending: list[Any] = []
        self.asked = 0
        self.initial = (where.width + 1 if model is None else 0) if initial is None else initial

    @staticmethod
    def after(
        past: Sequence[tuple[Sequence[Any], Sequence[float]]],
        where: Space | Pool,
        *,
        method: str = "moved-gp",
        settings: Mapping[str, Any] | None = None,
        acquisition: AbstractAcquisition | None = None,
        seed: int = 0,
        **rest: Any,
    ) -> "Optimizer":
        """Learns from past searches over the same parameters, each (points, values), and begins the next one.

        `settings` are those of the method; without any, it is guarded against a past unlike the present. A moved
        landscape is learned as it is, of warped values, and as a sum of basins; the likeliest of them counts. The next
        point is that of the largest expected improvement, with the past and without, unless `acquisition` says
        otherwise; `rest` is as for any optimiser.

        >>> from pacoh.optimize import Effort, Optimizer, Real, Space
        >>> space, places = Space({"x": Real(0, 1)}), [0.0, 0.1, 0.3, 0.45, 0.6, 0.8, 1.0]
        >>> past = [([{"x": x} for x in places], [(x - best) ** 2 for x in places]) for best in (0.3, 0.4, 0.5)]
        >>> few = {"steps": 100, "draws": 32, "kept": 8, "adapt_steps": 3}  # to see it at work; leave them out
        >>> optimizer = Optimizer.after(past, space, settings=few, effort=Effort(wide=64, near=32, ascents=2, steps=5))
        >>> (point,) = optimizer.ask()
        >>> 0.2 < point["x"] < 0.6
        True
        """
        tasks = [(where.encode(points), np.asarray(values, np.float64)) for points, values in past]
        options: dict[str, Any] = {"guard": True} if settings is None else dict(settings)
        rule = LogEI() if acquisition is None else acquisition
        rest.setdefault("alone", rule)
        model, warp = taught(tasks, method, seed=seed, **options)
        return Optimizer(model, where, acquisition=rule, warp=warp, seed=seed, **rest)

    def ask(self, n: int = 1) -> list[Any]:
        """The next n points to try, pending until they are told."""
        if n < 1:
            raise PacohError(f"One asks for one or more points; got {n}.")
        left = self._open(self.where).sum() if isinstance(self.where, Pool) and not self.rule.repeats else n
        if n > left:
            raise PacohError(
                f"{n} candidates are asked for, and {left} of the pool were not tried yet: ask for fewer, or make the "
                "optimiser with repeats=True."
            )
        return [self._next() for _ in range(n)]

    def tell(self, points: Sequence[Any], values: Sequence[float]) -> None:
        """Values of points, whether they were asked for or not."""
        told = np.asarray(values, np.float64).reshape(-1)
        if len(points) != len(told):
            raise PacohError(f"Every point has one value; got {len(points)} points and {len(told)} values.")
        if not np.isfinite(told).all():
            raise PacohError(
                "A value is a finite number. Where an evaluation failed, `forget` its point, or tell a value that is "
                "bad but finite, so that its neighbourhood is avoided."
            )
        self.where.encode(points)  # refuses what is no point of the space
        self.forget(points)
        self.points += [_plain(point) for point in points]
        self.values += told.tolist()

    def forget(self, points: Sequence[Any]) -> None:
        """Gives up waiting for points."""
        for point in map(_plain, points):
            if point in self.pending:
                self.pending.remove(point)

    @property
    def best(self) -> Best | None:
        """The best point told so far."""
        if not self.values:
            return None
        at = int(np.argmax(self.values) if self.rule.maximize else np.argmin(self.values))
        return Best(self.points[at], self.values[at])

    def save(self, path: str | Path) -> None:
        """Writes everything: the model, the space or pool, what was told and asked."""
        content = {"meta": self.model.meta, "units": self.model.units, "where": self.where, "rule": self.rule}
        content |= {"alone": self.alone, "places": self.places}
        content |= {"effort": self.effort, "warp": self.warp, "values": np.array(self.values, np.float64)}
        state = {name: getattr(self, name) for name in ("points", "pending", "asked", "seed", "initial", "patience")}
        persistence.save(path, content, {"model": self.model.card, "optimizer": state | {"goal": self.goal}})

    @staticmethod
    def load(path: str | Path) -> "Optimizer":
        """The optimiser that `save` wrote; it suggests what the saved one would have suggested."""
        content, card = persistence.load(path)
        if "optimizer" not in card:
            raise PacohError(f"{path} is the file of a model, not of an optimiser: Optimizer(pacoh.load(...), space).")
        state, rule = card["optimizer"], content["rule"]
        model = Model(content["meta"], content["units"], card["model"])
        self = Optimizer(model, content["where"], goal=state["goal"], seed=state["seed"], effort=content["effort"])
        self.rule, self.points, self.pending = rule, state["points"], state["pending"]
        self.alone, self.places = content.get("alone"), content.get("places")
        self.warp = content.get("warp", Warp())  # files of earlier versions have none of the three
        self.asked, self.initial = state["asked"], state["initial"]
        self.patience = state.get("patience", self.patience)
        self.values = content["values"].tolist()
        return self

    def _next(self) -> Any:
        key = jax.random.fold_in(jax.random.key(self.seed), self.asked)
        chooser = self._chooser(key)
        first = len(self.points) + len(self.pending) < chooser.initial
        found = self._random(key) if first else self._modelled(chooser, key)
        self.pending.append(found)
        self.asked += 1
        return found

    def _chooser(self, key: Any) -> Chooser:
        """The model that was given; where it is guarded and not believed, what there is without one.

        Without `alone` that is the model, too (its guard decides), but free to leave the places.
        """
        free = Chooser(self.model, self.warp, self.rule, self.initial)
        if self.alone is None and self.places is None:
            return free
        taught, meta = free._replace(places=self.places), self.model.meta
        guarded = isinstance(meta, Guarded)
        idle = gives_way(self.values, self.rule.maximize, self.patience, len(self.pending))
        if not idle and (not guarded or bool(_believes(meta, self._known(free)[0], key))):
            return taught
        return without_past(self.where.width, self.alone) if guarded and self.alone is not None else free

    def _random(self, key: Any) -> Any:
        if isinstance(self.where, Pool):
            return int(jax.random.choice(key, np.flatnonzero(self._open(self.where))))
        return self.where.decode(np.asarray(jax.random.uniform(key, (1, self.where.width)), np.float64))[0]

    def _modelled(self, chooser: Chooser, key: Any) -> Any:
        given = (chooser.model.meta, self._known(chooser), chooser.rule)
        believe, units = bool(self.pending), chooser.model.units
        with threadpool_limits(1, "blas"):
            if isinstance(self.where, Pool):
                pool = (jnp.asarray(units.inputs(self.where.rows)), self._open(self.where))
                return int(_choose_row(*given, pool, key, believe))
            box = (self.where, *(jnp.asarray(part, float) for part in (units.x_loc, units.x_scale)))
            row = _choose_point(*given, box, key, self.effort, believe, chooser.places)
        return self.where.decode(np.asarray(row, np.float64)[None])[0]

    def _known(self, chooser: Chooser) -> tuple[Dataset, jax.Array]:
        points, units = self.points + self.pending, chooser.model.units
        rows = self.where.encode(points)
        targets = units.targets(chooser.warp(self.values))
        targets = np.concatenate([targets, np.zeros(len(self.pending))])
        x, y, mask = padded(units.inputs(rows), targets, rows_for(len(points)))
        told = np.arange(len(mask)) < len(self.points)
        return Dataset(*map(jnp.asarray, (x, y, mask & told))), jnp.asarray(mask & ~told)

    def _open(self, pool: Pool) -> np.ndarray:
        """Candidates that may be suggested."""
        open_ = np.ones(len(pool), bool)
        if not self.rule.repeats:
            open_[np.array(self.points + self.pending, int)] = False
        return open_


def _rows(places: Any, where: Space | Pool) -> np.ndarray:
    rows = np.asarray(places, np.float64)
    if isinstance(where, Pool) or rows.ndim != 2 or not len(rows) or rows.shape[1] != where.width:
        raise PacohError(
            f"Places are one or more rows of a Space, space.encode(points), here of {where.width} columns; got an "
            f"array of shape {rows.shape}{' beside a Pool' if isinstance(where, Pool) else ''}."
        )
    return rows


def _plain(point: Any) -> Any:
    return dict(point) if isinstance(point, dict) else int(point)
