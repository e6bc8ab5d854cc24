"""What a training step and a prediction cost on one core, beside the same computation in PyTorch: one table.

    python benchmarks/speed.py

Both libraries first give the same value of the objective from the same parameters. Timings alternate between them;
a row shows medians, their ratio, and the least and largest ratio of a pair of neighbours in time.
"""

import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}  # this and the next line: before jax starts threads
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import argparse  # noqa: E402
import math  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import peer  # noqa: E402
import peer_nn  # noqa: E402
import torch  # noqa: E402
from jax.scipy.linalg import solve_triangular  # noqa: E402

from pacoh import api, registry  # noqa: E402
from pacoh.compiling import compile_options  # noqa: E402
from pacoh.data import Standardizer, stack  # noqa: E402
from pacoh.inference.base import Adam, Budget, Problem, run  # noqa: E402
from pacoh.inference.map import MAP  # noqa: E402
from pacoh.inference.starts import Layout  # noqa: E402
from pacoh.inference.svgd import SVGD  # noqa: E402
from pacoh.learners.pacoh import PACOH, PACOHModel  # noqa: E402
from pacoh.priors import gp  # noqa: E402
from pacoh.priors.base import AbstractPrior, standard_normals  # noqa: E402
from pacoh.priors.hyper import GroupGaussian  # noqa: E402
from pacoh.theory import BAYES, HyperPosterior  # noqa: E402

RATE, BATCH, PARTICLES = 1e-3, 4, 10
NETWORKS, DRAWS = 3, 10
PRIOR = registry.gp_prior("network", "network", activation="tanh")
HYPER = GroupGaussian({"input": 1.0, "weight": 1.0, "bias": 1.0, "scale": 1.0, "noise": 1.0})


def draw_tasks(n: int, m: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sinusoids of random phase and height."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-5, 5, (n, m, 1))
    phase, height = draw.uniform(0, np.pi, (2, n, 1))
    return list(zip(x, height * np.sin(x[..., 0] + phase) + 0.1 * draw.normal(size=(n, m)), strict=True))


def problem(
    tasks: list, particles: int, steps: int, batch: int | None = BATCH, prior: AbstractPrior = PRIOR
) -> Problem:
    """One lane of PACOH-GP: MAP for one particle, else SVGD."""
    adam = Adam(RATE, steps)
    engine = MAP(adam) if particles == 1 else SVGD(particles, adam)
    units = Standardizer.fit(tasks)
    stacked = stack([units(x, y) for x, y in tasks], len(tasks[0][0]))
    made = PACOH(prior, HYPER, engine, batch=batch).problem(stacked)
    return jax.tree.map(lambda leaf: leaf[None] if isinstance(leaf, jax.Array) else leaf, made)


def first_lane(trained: Problem) -> Problem:
    return jax.tree.map(lambda leaf: leaf[0] if isinstance(leaf, jax.Array) else leaf, trained)


def training(trained: Problem) -> Callable[[], None]:
    """A whole run of the problem's steps, as a learner does it, compiled before."""
    keys = jax.random.split(jax.random.key(0), 1)
    steps = trained.engine.steps

    def train() -> None:
        run(trained, keys, Budget(chunk=steps))

    train()
    return train


def draw_phis(particles: int) -> dict:
    """Training starts, with networks that are not flat."""
    draw = problem(draw_tasks(2, 2), particles, 1).draw
    return jax.vmap(draw)(jax.random.split(jax.random.key(1), particles))


def their_parts(phis: dict, particles: int) -> peer.Parts:
    return peer.Parts(jax.tree.map(np.asarray, phis), batched=particles > 1)


def their_objective(trained: Problem, particles: int) -> peer.Objective:
    density = jax.tree.map(lambda leaf: leaf[0], trained.log_density)
    hyper = density.hyper_prior
    spread = jax.tree.map(lambda m, s: jnp.broadcast_to(s, m.shape), hyper.loc, hyper.sd)
    both = [their_parts(jax.tree.map(lambda leaf: leaf[None], tree), 1) for tree in (hyper.loc, spread)]
    tasks = (density.tasks.x, density.tasks.y)
    parts = their_parts(draw_phis(particles), particles)
    return peer.Objective(parts, both, tasks, float(density.weights[0]), BATCH)


def check_equal(trained: Problem, theirs: peer.Objective, particles: int) -> float:
    """The largest relative difference of the two objectives on all tasks."""
    density: HyperPosterior = jax.tree.map(lambda leaf: leaf[0], trained.log_density)
    ours = jax.vmap(lambda phi: density(phi, jax.random.key(0)))(draw_phis(particles))
    with torch.no_grad():
        other = theirs(range(len(theirs.models))).numpy() + 2 * np.log(2)  # their parameters are twice two of ours
    error = float(np.max(np.abs(np.asarray(ours) / other - 1)))
    if error > 1e-4:
        raise SystemExit(f"The two libraries compute different objectives: {ours} against {other}.")
    return error


class Clock:
    """Alternates two calls and collects rows of the table."""

    def __init__(self, repeats: int, cpu: bool):
        self.repeats, self.now = repeats, time.process_time if cpu else time.perf_counter
        self.rows = [("", "unit", "pacoh", "other", "ratio", "least", "most", "target")]

    def seconds(self, call: Callable[[], object]) -> float:
        began = self.now()
        call()
        return self.now() - began

    def compare(self, name: str, target: str, ours: tuple[Callable, int], other: tuple[Callable, int]) -> None:
        """Each side is a call and how many units of work it does."""
        pairs = np.array([[self.seconds(call) / units for call, units in (ours, other)] for _ in range(self.repeats)])
        medians, ratios = np.median(pairs, 0), pairs[:, 1] / pairs[:, 0]
        times = [f"{1e3 * value:.3f}" for value in medians]
        shares = [f"{value:.2f}" for value in (medians[1] / medians[0], ratios.min(), ratios.max())]
        self.rows.append((name, "ms", *times, *shares, target))
        print(*self.rows[-1], flush=True)


def training_rows(clock: Clock) -> None:
    """MAP and SVGD steps against GPyTorch."""
    tasks = draw_tasks(20, 5)
    for particles, target, steps in ((1, ">= 60", 4000), (PARTICLES, ">= 12", 1000)):
        ours = problem(tasks, particles, steps)
        theirs = their_objective(ours, particles)
        error = check_equal(ours, theirs, particles)
        name = "MAP" if particles == 1 else f"SVGD, {particles} particles"
        print(f"{name}: the objectives differ by {error:.1e} of their value")
        step = peer.Training(theirs, RATE, stein=particles > 1)
        step(5)
        clock.compare(f"{name}: a step", target, (training(ours), steps), (lambda step=step: step(40), 40))


def many_tasks_rows(clock: Clock) -> None:
    """The same steps with a thousand times the tasks."""
    for particles, steps in ((1, 4000), (PARTICLES, 1000)):
        few, many = (training(problem(draw_tasks(n, 5), particles, steps)) for n in (20, 20_000))
        name = "MAP" if particles == 1 else f"SVGD, {particles} particles"
        clock.compare(f"{name}: a step, 20 and (other) 20,000 tasks", "<= 1.10", (few, steps), (many, steps))


def prediction_rows(clock: Clock) -> None:
    """Adapt and predict, NumPy in and NumPy out, for the mode."""
    phis = draw_phis(1)
    tasks = draw_tasks(500, 55, seed=1)
    contexts = [(x[:5], y[:5]) for x, y in tasks]
    queries = [x[5:] for x, _ in tasks]
    units = Standardizer.fit(tasks)
    codec = {"columns": ["x0"], "levels": [], "classes": None}
    model = api.Model(PACOHModel(PRIOR, phis, BAYES), units, {"codec": codec})
    parts = their_parts(phis, 1)

    def ours(some: slice) -> list:
        each = [model.adapt(*context)(query) for context, query in zip(contexts[some], queries[some], strict=True)]
        return [(predictive.mean, predictive.std) for predictive in each]

    def theirs(some: slice) -> list:
        pairs = zip(contexts[some], queries[some], strict=True)
        return [peer.adapt_predict(parts, units, context, query) for context, query in pairs]

    def at_once() -> tuple:
        predictive = model.predict_tasks(contexts, queries)
        return predictive.mean, predictive.std

    few, everything = slice(0, 20), slice(0, 500)
    np.testing.assert_allclose(ours(few), theirs(few), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(np.stack(at_once(), 1)[few, :, :50], theirs(few), rtol=2e-3, atol=2e-3)
    clock.compare("adapt to 5 points, predict 50", ">= 5", (lambda: ours(few), 20), (lambda: theirs(few), 20))
    clock.compare("500 tasks at once, other: a loop", "", (at_once, 1), (lambda: theirs(everything), 1))
    clock.compare("500 tasks at once, other: our loop", "", (at_once, 1), (lambda: ours(everything), 1))


class PlainGP(AbstractPrior):
    """What `GPPrior` computes with a network kernel, written out and left to automatic differentiation."""

    prior: gp.GPPrior

    def specs(self, d: int) -> Any:
        return self.prior.specs(d)

    def condition(self, phi, data, beta, key):
        return self.prior.condition(phi, data, beta, key)

    def log_evidence(self, phi, data, beta, key) -> jax.Array:
        """At beta = m."""
        del beta, key
        params, both = phi["kernel"], data.mask[:, None] & data.mask[None]
        features = self.prior.kernel.net(params["net"], data.x) * jnp.exp(-params["base"]["log_length"])
        squared = sum((column[:, None] - column[None]) ** 2 for column in features.T)
        gram = jnp.exp(2 * params["base"]["log_sd"]) * jnp.exp(-0.5 * squared)
        noise = jnp.diag(jnp.where(data.mask, jnp.exp(2 * phi["log_noise"]), 1.0))
        factor = jnp.linalg.cholesky(jnp.where(both, gram, 0.0) + noise)
        residual = jnp.where(data.mask, data.y - self.prior.mean(phi["mean"], data.x), 0.0)
        whitened = solve_triangular(factor, residual, lower=True)
        constant = 0.5 * data.mask.sum() * math.log(2 * math.pi)
        return -0.5 * whitened @ whitened - jnp.log(jnp.diagonal(factor)).sum() - constant


def gradient_rows(clock: Clock) -> None:
    """The closed-form gradient of the evidence against differentiating the factorisation."""
    steps, tasks = 20, draw_tasks(5, 200)
    ours = problem(tasks, PARTICLES, steps, batch=None)
    other = problem(tasks, PARTICLES, steps, batch=None, prior=PlainGP(PRIOR))
    phis, key = draw_phis(PARTICLES), jax.random.key(0)
    values = [jax.vmap(lambda phi, p=p: p.log_density(phi, key))(phis) for p in (first_lane(ours), first_lane(other))]
    np.testing.assert_allclose(*values, rtol=1e-4)
    name = f"SVGD, {PARTICLES} particles, 5 tasks of 200 points: a step, other: through the Cholesky"
    clock.compare(name, ">= 2.5", (training(ours), steps), (training(other), steps))


def network_learner(n: int, m: int, steps: int, **settings) -> PACOH:
    """PACOH-NN-SVGD as the paper has it: all layers drawn, K = 3, L = 10, four tasks a step."""
    drawn = {"exact": False, "waves": 0, "draws": DRAWS, "particles": NETWORKS, "batch": BATCH, "activation": "relu"}
    return registry.learner("pacoh-nn-svgd", registry.Shape(n, m, 1), **drawn, rate=RATE, steps=steps, **settings)


def network_problem(n: int, steps: int) -> Problem:
    """One lane of it."""
    tasks = draw_tasks(n, 5)
    units = Standardizer.fit(tasks)
    made = network_learner(n, 5, steps).problem(stack([units(x, y) for x, y in tasks], 5))
    return jax.tree.map(lambda leaf: leaf[None] if isinstance(leaf, jax.Array) else leaf, made)


def their_networks(trained: Problem) -> peer_nn.Objective:
    """The same problem in PyTorch, from the same start; an error where one noise gives two values."""
    density: HyperPosterior = jax.tree.map(lambda leaf: leaf[0], trained.log_density)
    phis = jax.vmap(trained.draw)(jax.random.split(jax.random.key(1), NETWORKS))
    flat = Layout.of(density.hyper_prior.loc).flatten
    sds = jax.tree.map(lambda m, s: jnp.broadcast_to(s, m.shape), density.hyper_prior.loc, density.hyper_prior.sd)
    hyper, tasks = (flat(density.hyper_prior.loc), flat(sds)), (density.tasks.x, density.tasks.y)
    spread, weight = float(density.prior.weights.spread), float(density.weights[0])
    theirs = peer_nn.Objective(peer_nn.Prior(phis), hyper, spread, tasks, weight, BATCH, DRAWS)
    keys = jax.random.split(jax.random.key(2), NETWORKS)

    def noise(phi, key):
        key_draws = jax.random.split(jax.random.split(key)[0])[0]
        return jax.vmap(flat)(standard_normals(phi["loc"], DRAWS, key_draws))

    ours = jax.vmap(density)(phis, keys)
    with torch.no_grad():
        same = torch.from_numpy(np.array(jax.vmap(noise)(phis, keys)))
        other = theirs(torch.arange(len(tasks[0])), same).numpy()
    error = float(np.max(np.abs(np.asarray(ours) / other - 1)))
    print(f"networks: the objectives differ by {error:.1e} of their value")
    if error > 1e-4:
        raise SystemExit(f"The two libraries compute different objectives: {ours} against {other}.")
    return theirs


def network_rows(clock: Clock) -> None:
    """A step of PACOH-NN-SVGD against PyTorch, with many tasks, and adapting to a new task."""
    steps = 500
    ours = network_problem(20, steps)
    began = clock.now()
    train = training(ours)
    once = clock.now() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"networks: tracing and compiling {once - clock.seconds(train):.1f} s (target < 8 s)")
    print(f"networks: peak memory {peak:.0f} MB, with what importing PyTorch takes (target < 650 MB without)")
    step = peer.Training(their_networks(ours), RATE, stein=True)
    step(5)
    name = f"networks, K={NETWORKS}, L={DRAWS}: a step"
    clock.compare(name, ">= 2", (train, steps), (lambda: step(100), 100))
    many = training(network_problem(20_000, steps))
    clock.compare(f"{name}, 20 and (other) 20,000 tasks", "<= 1.10", (train, steps), (many, steps))
    adapting = network_learner(20, 5, 1, hypotheses=15 // NETWORKS, adapt_steps=5000).prior
    phis = jax.vmap(ours.draw)(jax.random.split(jax.random.key(1), NETWORKS))
    context = jax.tree.map(lambda leaf: leaf[0, 0], ours.log_density.tasks)
    adapt = jax.jit(
        lambda key: adapting.condition_all(phis, context, jnp.asarray(5.0), key)(context.x).mean,
        compiler_options=compile_options(),  # as `Model.adapt` has them
    )
    adapt(jax.random.key(0)).block_until_ready()
    call = lambda: adapt(jax.random.key(1)).block_until_ready()  # noqa: E731
    clock.compare("networks: 15 hypotheses, 5,000 steps on a new task (ours twice)", "< 1200 ms", (call, 1), (call, 1))


SECTIONS = {
    "networks": network_rows,
    "training": training_rows,
    "tasks": many_tasks_rows,
    "prediction": prediction_rows,
    "gradient": gradient_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument(
        "--cpu", action="store_true", help="time of this process alone, for a machine with others on it"
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)
    clock = Clock(asked.repeats, asked.cpu)
    for name in asked.sections:
        SECTIONS[name](clock)
    widths = [max(len(row[j]) for row in clock.rows) for j in range(len(clock.rows[0]))]
    for row in clock.rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
