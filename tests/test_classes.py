"""Classification through the front door: labels shared by all tasks, and labels that each task has for itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pacoh
from pacoh.categorical import CategoricalMixture, PointClass
from pacoh.data import Dataset, Standardizer
from pacoh.environments.base import named
from pacoh.errors import PacohError
from pacoh.learners.base import AbstractMetaModel
from pacoh.learners.pacoh import PACOH
from pacoh.learners.sharpen import Sharpened, SharpPredictor, split_classes
from pacoh.priors.base import AbstractPredictor
from pacoh.reading import Split, read
from pacoh.registry import Shape, learner

SMALL = {"steps": 300, "adapt_steps": 60, "width": 8, "layers": 1, "waves": 0}


def blobs(labels, points: int = 6, n: int = 5, seed: int = 0, spread: float = 0.1):
    """Tasks whose classes lie at fixed places, each task shifted a little."""
    random = np.random.default_rng(seed)
    tasks = []
    for _ in range(n):
        ids = np.tile(np.arange(len(labels)), points)
        places = np.stack([np.cos(2 * np.pi * ids / len(labels)), np.sin(2 * np.pi * ids / len(labels))], -1)
        x = 50 + 10 * (places + 0.1 * random.normal(size=2) + spread * random.normal(size=(len(ids), 2)))
        tasks.append((x, [labels[i] for i in ids]))
    return tasks


@pytest.fixture(scope="module")
def shared():
    return pacoh.fit(blobs(["cat", "cow", "dog"]), "pacoh-nn-map", classes=True, **SMALL)


def test_predictions_carry_labels_probabilities_and_classes(shared):
    x, y = blobs(["cat", "cow", "dog"], seed=1)[0]
    predictive = shared.adapt(x, y)(x[:7])
    assert isinstance(predictive, CategoricalMixture)
    assert predictive.classes == ("cat", "cow", "dog")
    assert predictive.probs.shape == (7, 3)
    np.testing.assert_allclose(predictive.probs.sum(-1), 1, rtol=1e-6)
    assert list(predictive.labels) == y[:7]
    assert shared.card["classes"] == 3


def test_with_shared_labels_a_context_may_lack_classes_or_points(shared):
    x, y = blobs(["cat", "cow", "dog"], seed=1)[0]
    assert shared.adapt(x[:1], y[:1])(x[:3]).classes == ("cat", "cow", "dog")
    assert set(shared.adapt()(x).labels) <= {"cat", "cow", "dog"}
    with pytest.raises(PacohError, match="'horse' is not among the known values"):
        shared.adapt(x[:1], ["horse"])


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [3, 7, 11], [False, True]], ids=["text", "whole numbers", "booleans"]
)
def test_labels_of_any_kind_come_back_in_their_own_kind(labels):
    tasks = blobs(labels)
    model = pacoh.fit(tasks, "nearest-prototype", classes=True)
    predictive = model.adapt(*tasks[0])(tasks[0][0])
    assert isinstance(predictive, PointClass)
    assert predictive.labels.tolist() == tasks[0][1]
    assert {type(label) for label in predictive.labels.tolist()} == {type(labels[0])}


def test_class_ids_keep_their_values_and_inputs_are_standardised():
    tasks = read([(np.column_stack([x, np.ones(len(x))]), y) for x, y in blobs(["a", "b"])], classes=True)
    units = Standardizer.fit(tasks.pairs())
    pooled = np.concatenate([units(x, y)[0] for x, y in tasks.pairs()])
    np.testing.assert_allclose(pooled.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(pooled.std(0), [1, 1, 0], atol=1e-9)  # a constant pixel keeps scale 1
    assert all(units(x, y)[1] is y for x, y in tasks.pairs())


def test_a_saved_model_keeps_its_labels(shared, tmp_path):
    shared.save(tmp_path / "model")
    loaded = pacoh.load(tmp_path / "model")
    x, y = blobs(["cat", "cow", "dog"], seed=2)[0]
    before, after = (model.adapt(x, y)(x) for model in (shared, loaded))
    np.testing.assert_array_equal(before.probs, after.probs)
    assert before.classes == after.classes


def test_an_evaluation_is_the_metrics_by_hand(shared):
    split = read(blobs(["cat", "cow", "dog"], seed=3, spread=0.6), codec=shared.codec).shots(2)
    scores = shared.evaluate(split)
    whole = shared.predict_tasks(split.context.pairs(), split.query.x)
    assert whole.classes == ("cat", "cow", "dog")
    size = split.query.sizes[0]
    ids = np.stack(split.query.y)
    right = whole.probs[:, :size].argmax(-1) == ids
    assert scores["accuracy"] == pytest.approx(right.mean())
    chosen = np.take_along_axis(whole.probs[:, :size], ids[..., None], -1)
    assert scores["log_likelihood"] == pytest.approx(np.log(chosen).mean())
    assert scores["rmse"] is None
    assert scores["crps"] is None


def own_labels(seed: int = 0, n: int = 4):
    """Tasks of three classes whose labels are the task's own; x is near 0, 1 and 2 in the order of the labels."""
    random = np.random.default_rng(seed)
    tasks = []
    for i in range(n):
        ids = random.permutation(np.repeat(np.arange(3), 4))
        tasks.append((ids + 0.05 * random.normal(size=12), [f"{'zyxwvu'[i]}{k}" for k in ids]))
    return tasks


def test_ids_of_labels_per_task_are_their_order_within_the_task():
    tasks = read(own_labels(), classes="task")
    for (x, _), ids in zip(own_labels(), tasks.y, strict=True):
        np.testing.assert_array_equal(ids, np.round(x))
    assert tasks.classes == (0, 1, 2)


def test_a_new_tasks_labels_are_those_of_its_context():
    model = pacoh.fit(own_labels(), "nearest-prototype", classes="task")
    x, y = [0.0, 2.0, 1.0], ["apple", "pear", "fig"]
    predictive = model.adapt(x, y)([1.9, 0.1, 1.1])
    assert predictive.classes == ("apple", "fig", "pear")
    assert predictive.labels.tolist() == ["pear", "apple", "fig"]
    prior = model.adapt()([1.0])
    assert prior.classes is None
    assert prior.labels[0] in (0, 1, 2)


def test_a_context_that_does_not_name_all_classes_of_its_own_is_refused():
    model = pacoh.fit(own_labels(), "nearest-prototype", classes="task")
    for labels in (["a", "b", "a"], ["a", "b", "c", "d"]):
        with pytest.raises(PacohError, match=r"has \d classes .* have 3 each. .* at least one point of each"):
            model.adapt(np.arange(len(labels)), labels)


def test_tasks_with_unequal_numbers_of_classes_of_their_own_are_refused():
    tasks = {"first": ([1, 2, 3], ["a", "b", "c"]), "second": ([1, 2, 3], ["a", "b", "b"])}
    with pytest.raises(PacohError, match=r"'second' has 2 \(a, b\), task 'first' has 3 .*classes=True"):
        read(tasks, classes="task")


def test_an_evaluation_asks_only_for_classes_that_the_context_has():
    model = pacoh.fit(own_labels(), "nearest-prototype", classes="task")
    tasks = read(own_labels(seed=5), codec=model.codec)
    assert model.evaluate(tasks.shots(1))["accuracy"] == 1
    with pytest.raises(PacohError, match=r"no point of \d of the classes .*shots"):
        model.evaluate(tasks.split(1))


def test_shots_are_the_first_rows_of_each_class():
    tasks = named([(np.arange(6.0)[:, None], np.array([1, 1, 0, 1, 0, 0]))] * 2, ("a", "b"))
    split = tasks.shots(2)
    np.testing.assert_array_equal(split.context.x[0][:, 0], [0, 1, 2, 4])
    np.testing.assert_array_equal(split.query.y[0], [1, 0])
    for count, message in ((3, "none is left"), (0, "1 or more")):
        with pytest.raises(PacohError, match=message):
            tasks.shots(count)
    with pytest.raises(PacohError, match="targets are numbers"):
        named([(np.zeros((2, 1)), np.zeros(2))]).shots(1)


@pytest.mark.parametrize("method", ["pacoh-gp-map", "vanilla-gp", "mll-gp", "pooled-ridge"])
def test_a_method_for_numbers_refuses_classes_and_names_those_that_can(method):
    with pytest.raises(PacohError, match=f"{method} is for targets that are numbers.*pacoh-nn-map, pacoh-nn-svgd"):
        pacoh.fit(blobs(["a", "b"]), method, classes=True)


def test_a_method_for_classes_refuses_numbers():
    with pytest.raises(PacohError, match=r"majority-class is for targets that are classes.*vanilla-gp"):
        pacoh.fit([([1, 2], [0.1, 0.2])] * 2, "majority-class")


def test_tasks_of_the_other_kind_are_refused_by_an_evaluation(shared):
    numbers = named([(np.zeros((3, 2)), np.zeros(3))] * 2)
    with pytest.raises(PacohError, match=r"predicts the classes cat, cow, dog, and the targets .* are numbers"):
        shared.evaluate(numbers.split(1))
    others = read(blobs(["ant", "bee", "fly"]), classes=True)
    with pytest.raises(PacohError, match=r"are the classes ant, bee, fly. .*codec=model.codec"):
        shared.evaluate(others.shots(2))


def test_tuning_and_the_guard_are_refused_for_classes():
    tasks = read(blobs(["a", "b"]), classes=True)
    with pytest.raises(PacohError, match="Tuning is for targets that are numbers"):
        pacoh.fit(tasks, "pacoh-nn-map", tune=pacoh.Tune(settings=2))
    with pytest.raises(PacohError, match="guard"):
        pacoh.fit(tasks, "pacoh-nn-map", guard=True)


def test_another_word_for_classes_is_refused():
    with pytest.raises(PacohError, match="got 'tasks'"):
        pacoh.fit(own_labels(), "majority-class", classes="tasks")


def test_the_majority_is_that_of_the_context_and_without_points_that_of_the_tasks():
    tasks = [([1, 2, 3, 4], ["b", "b", "b", "a"])] * 3
    model = pacoh.fit(tasks, "majority-class", classes=True)
    assert model.adapt([1, 2, 3], ["a", "a", "b"])([0, 5]).labels.tolist() == ["a", "a"]
    assert model.adapt([1, 2], ["a", "b"])([0]).labels.tolist() == ["b"]
    assert model.adapt()([0]).labels.tolist() == ["b"]


def test_the_nearest_prototype_is_the_class_with_the_nearest_mean():
    random = np.random.default_rng(0)
    x, ids, query = random.normal(size=(12, 2)), np.arange(12) % 3, random.normal(size=(30, 2))
    model = pacoh.fit([(x, ids)] * 2, "nearest-prototype", classes=True)
    scale = x.std(0)
    means = np.stack([x[ids == c].mean(0) for c in range(3)])
    expected = (((query[:, None] - means) / scale) ** 2).sum(-1).argmin(-1)
    np.testing.assert_array_equal(model.adapt(x, ids)(query).labels, expected)
    seen = ids < 2
    assert set(model.adapt(x[seen], ids[seen])(query).labels) <= {0, 1}


def test_a_point_class_has_no_probabilities_to_give():
    model = pacoh.fit(blobs(["a", "b"]), "majority-class", classes=True)
    with pytest.raises(PacohError, match="no 'probs'"):
        _ = model.adapt()([[50.0, 50.0]]).probs


def test_pacoh_learns_where_classes_lie(shared):
    """Without a point of a new task the learned prior tells classes apart; two points of each do not hurt."""
    split = read(blobs(["cat", "cow", "dog"], n=10, seed=4, spread=0.2), codec=shared.codec).shots(2)
    empty = Split(split.context.rows([np.zeros(m, bool) for m in split.context.sizes]), split.query)
    assert shared.evaluate(empty)["accuracy"] > 0.9
    assert shared.evaluate(split)["accuracy"] > 0.9


def test_labels_on_the_command_line_from_fit_to_predictions(call, tmp_path):
    lines = ["task,u,v,kind,y"]
    for i, (x, y) in enumerate(blobs(["red", "white"])):
        lines += [f"t{i},{u},{v},{label},0" for (u, v), label in zip(x, y, strict=True)]
    source, model = tmp_path / "tasks.csv", tmp_path / "model"
    source.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    flags = ("--target", "kind")
    small = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
    reply = call("fit", source, "--out", model, *flags, "--classes", "--method", "pacoh-nn-map", *small)
    assert reply.code == 0, reply.err
    reply = call("evaluate", model, source, *flags, "--shots", 2)
    assert reply.code == 0, reply.err
    assert all(word in reply.out for word in ("accuracy", "ece", "log_likelihood"))
    assert "rmse" not in reply.out
    (tmp_path / "context.csv").write_text("u,v,kind\n60,50,red\n40,50,white\n")
    (tmp_path / "query.csv").write_text("u,v\n61,50\n39,50\n")
    reply = call(
        "predict", model, "--context", tmp_path / "context.csv", "--query", tmp_path / "query.csv", *flags,
        "--out", tmp_path / "out.csv",
    )  # fmt: skip
    assert reply.code == 0, reply.err
    header, first, second = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "u,v,label,p_red,p_white"
    assert (first.split(",")[2], second.split(",")[2]) == ("red", "white")
    assert sum(map(float, first.split(",")[3:])) == pytest.approx(1)


def test_labels_per_task_on_the_command_line(call, tmp_path):
    (tmp_path / "tasks").mkdir()
    for i, (x, y) in enumerate(own_labels()):
        rows = "\n".join(f"{u},{label}" for u, label in zip(x, y, strict=True))
        (tmp_path / "tasks" / f"{i}.csv").write_text(f"u,y\n{rows}\n")
    model, out = tmp_path / "model", tmp_path / "out.csv"
    flags = ("--task-classes", "--method", "nearest-prototype")
    assert call("fit", tmp_path / "tasks", "--out", model, *flags).code == 0
    (tmp_path / "c.csv").write_text("u,y\n0,10\n1,2\n2,7\n")
    (tmp_path / "q.csv").write_text("u\n0\n1\n2\n")
    assert (
        call("predict", model, "--context", tmp_path / "c.csv", "--query", tmp_path / "q.csv", "--out", out).code == 0
    )
    assert out.read_text().splitlines() == ["u,label", "0,10", "1,2", "2,7"]


class Hedger(AbstractMetaModel):
    """Says the right class with too little confidence: the root of the true probabilities, normalised."""

    def adapt(self, context, key):
        del context, key
        return HedgingPredictor()


class HedgingPredictor(AbstractPredictor):
    def __call__(self, x):
        return CategoricalMixture((0.5 * x)[None])

    def latent(self, x):
        return self(x)

    def function(self, key):
        del key
        return lambda x: jax.nn.softmax(0.5 * x)


def test_the_power_of_a_model_that_hedges_is_the_one_that_undoes_it():
    keys = jax.random.split(jax.random.key(3), 2)
    x = 2 * jax.random.normal(keys[0], (30, 80, 3))
    tasks = Dataset(x, jax.random.categorical(keys[1], x).astype(float), jnp.ones((30, 80), bool))
    power = Sharpened(learner("pacoh-nn-map", Shape(30, 80, 3, 3), sharpen=False))._power(Hedger(), tasks, keys[0])
    assert power == pytest.approx(2.0, rel=0.12)
    sharp = SharpPredictor(HedgingPredictor(), jnp.asarray(2.0))
    np.testing.assert_allclose(sharp(x[0]).probs, jax.nn.softmax(x[0]), rtol=1e-5)
    np.testing.assert_allclose(sharp.function(keys[0])(x[0]), jax.nn.softmax(x[0]), rtol=1e-5)


def test_a_share_of_every_class_is_context_and_padding_is_in_neither_part():
    y = np.array([2] * 8 + [0] * 4 + [5] + [0] * 3)
    mask = np.arange(16) < 13
    task = Dataset(jnp.zeros((16, 1)), jnp.asarray(y), jnp.asarray(mask))
    split = jax.vmap(lambda key: split_classes(task, 0.25, key))
    context, query = (np.asarray(part.mask) for part in split(jax.random.split(jax.random.key(0), 200)))
    for label, count in ((2, 2), (0, 1), (5, 1)):  # of a class with one point that one
        np.testing.assert_array_equal(context[:, mask & (y == label)].sum(1), count)
    np.testing.assert_array_equal(context ^ query, np.tile(mask, (200, 1)))
    np.testing.assert_allclose(context[:, :8].mean(0), 0.25, atol=0.1)  # any point may be chosen


def test_sharpening_is_for_classes_alone_and_can_be_left_out():
    with pytest.raises(PacohError, match="sharpen"):
        learner("pacoh-nn-map", Shape(4, 5, 1), sharpen=True)
    assert isinstance(learner("pacoh-nn-map", Shape(4, 5, 1)), PACOH)
    assert isinstance(learner("pacoh-nn-map", Shape(4, 5, 1, 2), sharpen=False), PACOH)
    assert isinstance(learner("pacoh-nn-map", Shape(4, 5, 1, 2)), Sharpened)
