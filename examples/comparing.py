"""What the examples share: several methods on the same held-out tasks, and a verdict on whether transfer helped."""

import time

import numpy as np

import pacoh
from pacoh import metrics
from pacoh.errors import PacohError
from pacoh.registry import environment


def compare(train, test, methods: dict[str, dict], subject: str, **options) -> dict[str, dict[str, float]]:
    """Fits each method on `train`, scores it on the split `test`, prints a table, and compares `subject` with the rest.

    `methods` maps names to settings; `options` go to every fit. A difference counts where it is more than twice its
    standard error over the held-out tasks; these may overlap in their points, so the error is a rough one.
    """
    main = "rmse" if test.query.classes is None else "accuracy"
    columns = (main, "log_likelihood", "coverage_90" if main == "rmse" else "ece")
    context = f"{np.mean(test.context.sizes):.0f} points of each as context"
    print(f"{len(train)} tasks to learn from; {len(test.context)} held out, {context}")
    print(f"{'method':18}{columns[0]:>10}{columns[1]:>16}{columns[2]:>13}{'seconds':>9}")
    scores, tasks = {}, {}
    for method, settings in methods.items():
        began = time.perf_counter()
        model = pacoh.fit(train, method, **settings, **options)
        answers = model.answers(test)
        found, tasks[method] = metrics.summary(*answers), metrics.by_task(*answers)[main]
        scores[method] = {name: found[name] for name in columns}
        told = [f"{value:.3f}" if value is not None else "-" for value in scores[method].values()]
        seconds = time.perf_counter() - began
        print(f"{method:18}{told[0]:>10}{told[1]:>16}{told[2]:>13}{seconds:>9.0f}")
    for method in methods:
        if method != subject:
            print(f"{subject} against {method}: {verdict(tasks[subject], tasks[method], main)}")
    return scores


def compare_environment(name: str, methods: dict[str, dict], subject: str) -> None:
    """The same on the published draw of an environment; where its data are not here, that is said."""
    try:
        draw = environment(name).draw(29)
    except PacohError as absent:
        print(f"The data are not here, so there is nothing to compare. {absent}")
    else:
        compare(draw.train, draw.test, methods, subject)


def verdict(ours: np.ndarray, theirs: np.ndarray, score: str) -> str:
    """Whether a score is better over tasks, in words."""
    gap = ours - theirs
    mean, error = gap.mean(), gap.std(ddof=1) / np.sqrt(len(gap))
    better = mean < 0 if score == "rmse" else mean > 0
    word = "no clear difference" if abs(mean) <= 2 * error else "better" if better else "WORSE"
    return f"{word} ({score} {'higher' if mean > 0 else 'lower'} by {abs(mean):.3f} +- {error:.3f} a task)"
