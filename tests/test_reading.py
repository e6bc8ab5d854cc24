"""Bad tasks end in the error of their kind, good ones in the same arrays whatever they came in."""

import datetime
from decimal import Decimal

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pacoh.errors import PacohError
from pacoh.reading import Tasks, read, read_points

QUICK = settings(max_examples=100, deadline=None)
NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=3, max_size=5, unique=True)


class Case:
    """Random good tasks, and one of them picked to be spoiled."""

    def __init__(self, names: list[str], seed: int, container: str):
        self.rng = np.random.default_rng(seed)
        self.d = int(self.rng.integers(1, 4))
        self.names = [str(i) for i in range(len(names))] if container == "list" else names
        self.tasks = {name: self.task(int(self.rng.integers(1, 7)), self.d) for name in self.names}
        self.bad = self.names[self.rng.integers(len(names))]
        self.container = container

    def task(self, m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        dtype = [np.float64, np.float32, np.int64][self.rng.integers(3)]
        return (10 * self.rng.normal(size=(m, d))).astype(dtype), self.rng.normal(size=m).astype(dtype)

    def source(self):
        return list(self.tasks.values()) if self.container == "list" else dict(self.tasks)

    def spoil_cell(self, value) -> None:
        """Put `value` into one cell of the bad task, in its inputs or targets."""
        x, y = (part.astype(object) for part in self.tasks[self.bad])
        part = x if self.rng.random() < 0.5 else y
        part.flat[self.rng.integers(part.size)] = value
        as_list = self.rng.random() < 0.5
        self.tasks[self.bad] = (x.tolist(), y.tolist()) if as_list else (x, y)


CASES = st.builds(Case, NAMES, st.integers(0, 2**32 - 1), st.sampled_from(["list", "dict"]))


def missing(case: Case) -> str:
    case.spoil_cell([np.nan, None, pd.NA, np.float32("nan"), Decimal("sNaN")][case.rng.integers(5)])
    return "missing"


def infinite(case: Case) -> str:
    case.spoil_cell(np.inf if case.rng.random() < 0.5 else -np.inf)
    return "infinite"


def too_large(case: Case) -> str:
    case.spoil_cell([2e30, -1e300, 10**400, np.float64(1e38)][case.rng.integers(4)])
    return "larger than 1e+30"


def text(case: Case) -> str:
    case.spoil_cell(["high", "", "1.5", "12,5", b"7"][case.rng.integers(5)])
    return "where a number belongs"


def complex_number(case: Case) -> str:
    case.spoil_cell(1j)
    return "complex number"


def date(case: Case) -> str:
    case.spoil_cell([datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), pd.Timestamp(0)][case.rng.integers(3)])
    return "date or time"


def unequal_lengths(case: Case) -> str:
    x, y = case.tasks[case.bad]
    extra = int(case.rng.integers(1, 4))
    shorter = len(y) > extra and case.rng.random() < 0.5
    case.tasks[case.bad] = (x, y[:-extra] if shorter else np.append(y, np.ones(extra)))
    return "one target per input row"


def different_columns(case: Case) -> str:
    case.bad = case.names[case.rng.integers(1, len(case.names))]
    case.tasks[case.bad] = case.task(3, case.d + int(case.rng.integers(1, 3)))
    return "every task needs the same inputs"


def empty_task(case: Case) -> str:
    case.tasks[case.bad] = [([], []), (np.empty((0, case.d)), np.empty(0)), ((), ())][case.rng.integers(3)]
    return "is empty"


def wrong_dimensions(case: Case) -> str:
    x, y = case.tasks[case.bad]
    which = case.rng.integers(5)
    spoiled = [(x[None], y), (x, np.column_stack([y, y])), (5.0, y), (x, 5.0), (x, None)][which]
    case.tasks[case.bad] = spoiled
    return ["X has shape", "Several outputs", "X has shape", "y has shape", "y has shape"][which]


def not_a_pair(case: Case) -> str:
    x, y = case.tasks[case.bad]
    case.tasks[case.bad] = [(x, y, y), (x,), x, None, {"x": x, "y": y}, "task", 3][case.rng.integers(7)]
    return "is not a pair"


def rows_of_unequal_length(case: Case) -> str:
    case.tasks[case.bad] = ([[1.0] * case.d, [1.0] * (case.d + 1)], [1.0, 2.0])
    return "differ in length"


def too_few_tasks(case: Case) -> str:
    case.bad = case.names[0]
    case.tasks = {case.bad: case.tasks[case.bad]}
    return "2 tasks or more"


def duplicate_names(case: Case) -> str:
    case.container, case.bad = "dict", "1"
    case.tasks |= {"1": case.task(2, case.d), 1: case.task(2, case.d)}
    return "Two tasks are named"


CATEGORIES = [
    missing,
    infinite,
    too_large,
    text,
    complex_number,
    date,
    unequal_lengths,
    different_columns,
    empty_task,
    wrong_dimensions,
    not_a_pair,
    rows_of_unequal_length,
    too_few_tasks,
    duplicate_names,
]


@pytest.mark.parametrize("category", CATEGORIES, ids=lambda category: category.__name__)
@QUICK
@given(case=CASES)
def test_a_bad_task_ends_in_the_error_of_its_category_and_its_name(category, case):
    expected = category(case)
    with pytest.raises(PacohError) as caught:
        read(case.source())
    message = str(caught.value)
    assert expected in message
    assert repr(case.bad) in message or f": {case.bad}." in message
    assert len(message.split(". ")) > 1  # what is wrong, then what to do


@QUICK
@given(case=CASES)
def test_good_tasks_come_out_as_they_went_in(case):
    tasks = read(case.source())
    assert tasks.names == tuple(case.tasks)
    for (x, y), got_x, got_y in zip(case.tasks.values(), tasks.x, tasks.y, strict=True):
        assert got_x.dtype == got_y.dtype == np.float64
        np.testing.assert_array_equal(got_x, x)
        np.testing.assert_array_equal(got_y, y)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.complex_numbers()
    | st.binary(max_size=3)
    | st.dates()
    | st.decimals()
    | st.just(object())
)
JUNK = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def outcome(call, *args, **named):
    """What comes back, or the message of our own error; any other error passes."""
    try:
        return call(*args, **named), ""
    except PacohError as error:
        return None, str(error)


@settings(max_examples=300, deadline=None)
@given(source=JUNK | st.lists(st.tuples(JUNK, JUNK), min_size=2, max_size=3), classes=st.booleans())
def test_any_object_is_read_or_refused_in_our_own_words(source, classes):
    tasks, refusal = outcome(read, source, classes=classes)
    assert refusal or isinstance(tasks, Tasks)


@settings(max_examples=200, deadline=None)
@given(x=JUNK, y=JUNK, d=st.none() | st.integers(1, 3))
def test_any_points_are_read_or_refused_in_our_own_words(x, y, d):
    points, refusal = outcome(read_points, x, y if y is not None else [], d=d, name="new")
    assert "'new'" in refusal if points is None else points[0].shape[:1] == points[1].shape


X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]])
Y = np.array([1.0, 0.0, 2.0])
PLAIN = [(X, Y), (X[:1], Y[:1])]


@pytest.mark.parametrize(
    "wrap",
    [
        np.float32,
        jnp.asarray,
        np.ndarray.tolist,
        lambda a: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a),
        lambda a: np.ma.masked_array(a, mask=False),
        lambda a: a.astype(object),
        lambda a: np.asfortranarray(a)[::1],
        lambda a: [list(row) for row in a] if a.ndim == 2 else tuple(a),
    ],
    ids=["float32", "jax", "lists", "pandas", "unmasked", "object", "fortran", "list of lists"],
)
def test_every_kind_of_array_gives_the_same_numbers(wrap):
    tasks = read([(wrap(x), wrap(y)) for x, y in PLAIN])
    for got, expected in zip(tasks.x + tasks.y, [x for x, _ in PLAIN] + [y for _, y in PLAIN], strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == np.float64


def test_a_flat_X_is_one_column_and_a_column_y_is_flat():
    tasks = read([(Y, Y[:, None]), (Y[:2], Y[:2, None])])
    assert [x.shape for x in tasks.x] == [(3, 1), (2, 1)]
    assert [y.shape for y in tasks.y] == [(3,), (2,)]
    assert tasks.columns == ("x0",)


def test_booleans_and_integers_become_numbers():
    tasks = read([(np.array([[True], [False]]), [1, 2]), ([[3], [4]], [True, False])])
    np.testing.assert_array_equal(tasks.x[0], [[1.0], [0.0]])
    np.testing.assert_array_equal(tasks.y[1], [1.0, 0.0])


def test_an_iterator_of_pairs_is_a_list_of_pairs():
    assert read(zip([X, X], [Y, Y], strict=True)).names == ("0", "1")


def test_an_empty_source_says_that_it_is_empty():
    for source in ([], {}, (), pd.DataFrame({"task": [], "x": [], "y": []})):
        with pytest.raises(PacohError, match="no tasks: the source is empty"):
            read(source)


def test_other_sources_are_answered_with_those_that_are_accepted():
    for source in (None, 3, X, {1, 2}):
        with pytest.raises(PacohError, match=r"a list of \(X, y\), a dict .* DataFrame .* folder of .csv"):
            read(source)


def test_sparse_inputs_and_masked_cells_are_refused_with_a_remedy():
    with pytest.raises(PacohError, match=r"Task '0': X is a sparse matrix. Pass X.toarray"):
        read([(scipy.sparse.csr_matrix(X), Y), (X, Y)])
    with pytest.raises(PacohError, match="Task '1', column 'x1', row 2: the value is missing"):
        read([(X, Y), (np.ma.masked_greater(X, 6), Y)])


def test_the_error_of_a_cell_names_task_column_row_and_the_count_of_such_cells():
    spoiled = X.copy()
    spoiled[1:, 1] = np.nan
    with pytest.raises(
        PacohError, match=r"Task 'b', column 'x1', row 1: .*\(2 such cells in this task\). Drop .* fill"
    ):
        read({"a": (X, Y), "b": (spoiled, Y)})


def test_tasks_pass_through_and_are_looked_at_again():
    tasks = read(PLAIN)
    assert read(tasks) is tasks
    tasks.x[1][0, 0] = np.nan
    with pytest.raises(PacohError, match="Task '1', column 'x0', row 0"):
        read(tasks)
    with pytest.raises(PacohError, match="1 names, 2 X and 2 y"):
        read(Tasks(("a",), tasks.x, tasks.y, tasks.columns), minimum=1)


def test_fewer_tasks_are_fine_where_the_caller_says_so():
    assert len(read(PLAIN[:1], minimum=1)) == 1


def test_a_stack_of_read_tasks_counts_their_points():
    assert read(PLAIN).stack().sizes.tolist() == [3, 1]
    assert read(PLAIN).sizes == (3, 1)


LONG = [(np.arange(10.0), np.arange(10.0)), (np.arange(4.0), np.arange(4.0))]


@pytest.mark.parametrize(
    ("context", "sizes"), [(3, (3, 3)), (0, (0, 0)), (0.5, (5, 2)), ("2", (2, 2)), ("0.25", (2, 1))]
)
def test_a_split_takes_the_first_rows_and_loses_none(context, sizes):
    tasks = read(LONG)
    split = tasks.split(context)
    assert split.context.sizes == sizes
    for whole, before, after in zip(tasks.y, split.context.y, split.query.y, strict=True):
        np.testing.assert_array_equal(np.concatenate([before, after]), whole)
    assert split.stack().context.sizes.tolist() == list(sizes)


@given(share=st.floats(0.01, 0.99), sizes=st.lists(st.integers(2, 30), min_size=2, max_size=4))
@settings(max_examples=50, deadline=None)
def test_a_share_leaves_context_and_query_in_every_task(share, sizes):
    split = read([(np.arange(m), np.arange(m)) for m in sizes]).split(share)
    for m, before, after in zip(sizes, split.context.sizes, split.query.sizes, strict=True):
        assert before >= 1
        assert after >= 1
        assert abs(before - share * m) <= 1


def test_a_split_that_leaves_nothing_to_predict_names_the_task_and_what_fits():
    with pytest.raises(PacohError, match=r"Task '1' has 4 rows, all of them context.*at most 3"):
        read(LONG).split(4)


@pytest.mark.parametrize("context", [-1, 1.0, 0.0, 1.5, True, np.nan, "-3", [1]])
def test_a_split_is_a_count_or_a_share(context):
    with pytest.raises(PacohError, match="number of rows"):
        read(LONG).split(context)


def test_a_split_by_column_needs_one():
    for context in (None, "part"):
        with pytest.raises(PacohError, match="split_column"):
            read(LONG).split(context)
    with pytest.raises(PacohError, match="Task '0' has no column 'part'"):
        read(LONG, split_column="part")


def test_points_are_checked_against_the_inputs_of_the_model():
    np.testing.assert_array_equal(read_points([1, 2], d=1), [[1.0], [2.0]])
    x, y = read_points(X, Y, d=2)
    assert (x.shape, y.shape) == ((3, 2), (3,))
    with pytest.raises(PacohError, match=r"Task 'new' has 1 input column, expected 2: x0, x1.*shape \(points, 2\)"):
        read_points([1.0, 2.0], d=2, name="new")


@pytest.mark.parametrize("empty", [[], (), np.empty((0, 2)), np.empty(0)])
def test_no_points_are_an_empty_context(empty):
    x, y = read_points(empty, [], d=2)
    assert (x.shape, y.shape, y.dtype) == ((0, 2), (0,), np.float64)
