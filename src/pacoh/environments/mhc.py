"""MHC-I: how strongly peptides bind, an allele a task; the pool of one allele is there for bandits."""

import equinox as eqx
import numpy as np

from pacoh.encoding import default_columns
from pacoh.environments.base import PUBLISHED, AbstractEnvironment, Draw, Pair
from pacoh.reading import Split, Tasks
from pacoh.sources import source

TRAIN = ("A_0202", "A_0203", "A_0201", "A_2301", "A_2402")
TEST = "A_6901"


class MHC(AbstractEnvironment):
    """MHC-I: peptide binding log10(500 / IC50) from 45 descriptors; five alleles to train, A*69:01 to test.

    The draw chooses the context peptides; the published one takes the first. `dropped` leaves out the last peptide of
    each meta-train allele, as the published sizes do. There are no validation tasks.
    """

    context: int = eqx.field(static=True, default=20)
    dropped: bool = eqx.field(static=True, default=False)

    def draw(self, number: int) -> Draw:
        """Five alleles, and the context of the sixth."""
        pairs = _alleles()
        last = -1 if self.dropped else None
        train = _tasks({name: (pairs[name][0][:last], pairs[name][1][:last]) for name in TRAIN})
        x, y = pairs[TEST]
        rows = np.arange(len(y)) if number == PUBLISHED else np.random.RandomState(number).permutation(len(y))
        context, query = rows[: self.context], np.sort(rows[self.context :])
        return Draw(train, Split(_tasks({TEST: (x[context], y[context])}), _tasks({TEST: (x[query], y[query])})), None)

    def pool(self) -> Pair:
        """All peptides of A*69:01 and their rewards: what a bandit chooses from."""
        return _alleles()[TEST]


def _alleles() -> dict[str, Pair]:
    arrays = source("mhc").load()
    return {
        str(name): (arrays["x"][arrays["allele"] == i], arrays["y"][arrays["allele"] == i])
        for i, name in enumerate(arrays["names"])
    }


def _tasks(pairs: dict[str, Pair]) -> Tasks:
    x, y = zip(*pairs.values(), strict=True)
    return Tasks(tuple(pairs), x, y, default_columns(x[0].shape[1]))
