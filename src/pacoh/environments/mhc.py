"""MHC-I: how strongly peptides bind, an allele a task; the pool of one allele is there for bandits."""

import equinox as eqx
import numpy as np

from pacoh.encoding import default_columns
from pacoh.environments.base import PUBLISHED, AbstractEnvironment, Draw, Pair
from pacoh.errors import PacohError
from pacoh.reading import Split, Tasks
from pacoh.sources import source

TRAIN = ("A_0202", "A_0203", "A_0201", "A_2301", "A_2402")
TEST = "A_6901"
ALLELES = (*TRAIN, "A_2403", TEST)
_ARMS = 813  # of another allele's pool: as many as the published one has


class MHC(AbstractEnvironment):
    """MHC-I: peptide binding log10(500 / IC50) from 45 descriptors; five alleles to train, A*69:01 to test.

    The draw chooses the context peptides; the published one takes the first. `dropped` leaves out the last peptide of
    each meta-train allele, as the published sizes do. There are no validation tasks.

    `test` is another allele to test on, which is then none of the past, and `past` some alleles to train on: what a
    bandit's design is chosen on.
    """

    context: int = eqx.field(static=True, default=20)
    dropped: bool = eqx.field(static=True, default=False)
    test: str = eqx.field(static=True, default=TEST)
    past: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple)

    def __check_init__(self):
        for known, asked in ((ALLELES, (self.test,)), (TRAIN, self.past)):
            unknown = sorted(set(asked) - set(known))
            if unknown:
                raise PacohError(f"Alleles here are {', '.join(known)}; got {', '.join(map(repr, unknown))}.")
        if not self._past():
            raise PacohError(f"No allele is left to train on: `past` names {self.test}, the one to test on, alone.")

    def draw(self, number: int) -> Draw:
        """Five alleles, and the context of the sixth."""
        pairs = _alleles()
        last = -1 if self.dropped else None
        train = _tasks({name: (pairs[name][0][:last], pairs[name][1][:last]) for name in self._past()})
        x, y = pairs[self.test]
        rows = np.arange(len(y)) if number == PUBLISHED else np.random.RandomState(number).permutation(len(y))
        context, query = rows[: self.context], np.sort(rows[self.context :])
        return Draw(train, _split(self.test, (x, y), context, query), None)

    def pool(self) -> Pair:
        """All peptides of the test allele and their rewards."""
        return _alleles()[self.test]

    def arms(self) -> Pair:
        """What a bandit chooses from: as published without the context; of another allele as many random peptides."""
        x, y = self.pool()
        if self.test == TEST:
            return x[self.context :], y[self.context :]
        some = np.random.RandomState(0).permutation(len(y))[:_ARMS]
        return x[some], y[some]

    def _past(self) -> tuple[str, ...]:
        return tuple(name for name in TRAIN if name != self.test and (not self.past or name in self.past))


def _split(name: str, pair: Pair, context: np.ndarray, query: np.ndarray) -> Split:
    x, y = pair
    return Split(_tasks({name: (x[context], y[context])}), _tasks({name: (x[query], y[query])}))


def _alleles() -> dict[str, Pair]:
    arrays = source("mhc").load()
    return {
        str(name): (arrays["x"][arrays["allele"] == i], arrays["y"][arrays["allele"] == i])
        for i, name in enumerate(arrays["names"])
    }


def _tasks(pairs: dict[str, Pair]) -> Tasks:
    x, y = zip(*pairs.values(), strict=True)
    return Tasks(tuple(pairs), x, y, default_columns(x[0].shape[1]))
