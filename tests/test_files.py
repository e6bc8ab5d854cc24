"""Every format gives the same tasks, and a bad file the error of its own."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pacoh.encoding import Codec
from pacoh.errors import PacohError
from pacoh.files import natural
from pacoh.reading import csv_table, read, read_points

IN_FOLDER = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ragged(sizes, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return {f"t{i}": (rng.normal(size=(m, d)) * 1e3, rng.normal(size=m)) for i, m in enumerate(sizes)}


def as_frame(tasks) -> pd.DataFrame:
    parts = [pd.DataFrame(x).add_prefix("x").assign(y=y, task=name) for name, (x, y) in tasks.items()]
    return pd.concat(parts, ignore_index=True)


def write_folder(tasks, path):
    path.mkdir(exist_ok=True)
    for file in path.iterdir():
        file.unlink()
    for name, part in as_frame(tasks).groupby("task"):
        part.drop(columns="task").to_csv(path / f"{name}.csv", index=False)
    return path


def write_headerless(tasks, path):
    write_folder(tasks, path)
    for file in path.iterdir():
        file.write_text(file.read_text().split("\n", 1)[1])
    return path


def write_csv(tasks, path):
    as_frame(tasks).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def write_parquet(tasks, path):
    as_frame(tasks).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def write_npz(tasks, path):
    arrays = {f"{name}_{part}": value for name, pair in tasks.items() for part, value in zip("xy", pair, strict=True)}
    np.savez(path.with_suffix(".npz"), **arrays)
    return path.with_suffix(".npz")


def write_pooled(tasks, path):
    frame = as_frame(tasks)
    x = frame.drop(columns=["task", "y"]).to_numpy()
    np.savez(path.with_suffix(".npz"), x=x, y=frame["y"].to_numpy(), task=frame["task"].to_numpy(dtype=str))
    return path.with_suffix(".npz")


WRITERS = [write_folder, write_headerless, write_csv, write_parquet, write_npz, write_pooled]


@pytest.mark.parametrize("write", [*WRITERS, lambda tasks, _: as_frame(tasks)], ids=lambda write: write.__name__)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 7), min_size=2, max_size=12), d=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_a_format_gives_the_tasks_back_to_the_last_bit(write, tmp_path, sizes, d, seed):
    tasks = ragged(sizes, d, seed)
    got = read(write(tasks, tmp_path / "tasks"))
    assert got.names == tuple(tasks)
    assert got.columns == tuple(f"x{j}" for j in range(d))
    for (x, y), got_x, got_y in zip(tasks.values(), got.x, got.y, strict=True):
        np.testing.assert_array_equal(got_x, x)
        np.testing.assert_array_equal(got_y, y)


def folder(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


GOOD = "x,y\n1,2\n3,4\n"


@IN_FOLDER
@given(line=st.integers(0, 5), change=st.sampled_from([-1, 1, 2]), name=st.sampled_from(["b", "10", "run 7"]))
def test_a_ragged_line_is_named_with_its_file_and_task(tmp_path, line, change, name):
    for old in tmp_path.iterdir():
        old.unlink()
    rows = ["x,z,y", *["1,2,3"] * 6]
    rows[line + 1] = ",".join(["5"] * (3 + change))
    source = folder(tmp_path, a="x,z,y\n1,2,3\n", **{name: "\n".join(rows)})
    with pytest.raises(PacohError, match=f"Task '{name}': line {line + 2} of {name}.csv has {3 + change} cells"):
        read(source)


@IN_FOLDER
@given(
    cell=st.sampled_from(
        [("high", "where a number"), ("", "missing"), ("NA", "missing"), ("inf", "infinite"), ("1e31", "larg")]
    ),
    row=st.integers(0, 3),
    column=st.integers(0, 2),
)
def test_a_bad_cell_is_named_with_its_line_column_and_task(tmp_path, cell, row, column):
    cells = [["1", "2", "3"] for _ in range(4)]
    cells[row][column] = cell[0]
    bad = "\n".join(["u,v,y", *map(",".join, cells)])
    column_name = "uvy"[column]
    source = folder(tmp_path, good="u,v,y\n1,2,3\n", bad=bad)
    with pytest.raises(PacohError, match=f"Task 'bad', column '{column_name}', line {row + 2} of bad.csv: .*{cell[1]}"):
        read(source)


def test_files_are_read_in_natural_order(tmp_path):
    source = folder(tmp_path, run10=GOOD, run2=GOOD, run1=GOOD, a=GOOD)
    assert read(source).names == ("a", "run1", "run2", "run10")
    assert sorted(["b", "a10b", "a9b", "10", "9", ""], key=natural) == ["", "9", "10", "a9b", "a10b", "b"]


def test_hidden_and_other_files_in_a_folder_are_left_alone(tmp_path):
    source = folder(tmp_path, a=GOOD, b=GOOD)
    (tmp_path / "._a.csv").write_bytes(b"\x00\x05")
    (tmp_path / "notes.txt").write_text("not a task")
    assert read(source).names == ("a", "b")


def test_columns_are_matched_by_name_not_by_order(tmp_path):
    source = folder(tmp_path, a="u,v,y\n1,2,3\n", b="v,u,y\n2,1,3\n")
    tasks = read(source)
    np.testing.assert_array_equal(tasks.x[0], tasks.x[1])
    with pytest.raises(PacohError, match="Task 'c' has no input column 'u'; its inputs are: w, v"):
        read(folder(tmp_path, c="w,v,y\n1,2,3\n"))


def test_the_target_is_the_last_column_or_the_one_that_is_named(tmp_path):
    source = folder(tmp_path, a="u,out,w\n1,2,3\n", b="u,out,w\n4,5,6\n")
    assert [y.tolist() for y in read(source).y] == [[3.0], [6.0]]
    assert [y.tolist() for y in read(source, target="out").y] == [[2.0], [5.0]]
    with pytest.raises(PacohError, match=r"Task 'a' \(a.csv\) has no column 'z' for the target.*: u, out, w"):
        read(source, target="z")


def test_a_column_y_that_is_not_the_last_one_is_asked_about(tmp_path):
    with pytest.raises(PacohError, match=r"Task 'a'.*'z', would be the target, but there is a column 'y'"):
        read(folder(tmp_path, a="x,y,z\n1,2,3\n", b="x,y,z\n1,2,3\n"))


@pytest.mark.parametrize("text", ["", "x,y\n", "\n\n"])
def test_a_file_without_points_is_an_empty_task(tmp_path, text):
    with pytest.raises(PacohError, match=r"Task 'b'.* is empty: it has no points"):
        read(folder(tmp_path, a=GOOD, b=text))


def test_other_delimiters_quotes_and_byte_order_marks_change_nothing(tmp_path):
    variants = {
        "a": GOOD,
        "b": GOOD.replace(",", ";"),
        "c": GOOD.replace(",", "\t"),
        "d": '\ufeff"x","y"\r\n"1", 2\r\n\r\n3,4\r\n',
        "e": "# x,y\n1,2\n3,4",
    }
    tasks = read(folder(tmp_path, **variants))
    for x, y in tasks.pairs():
        np.testing.assert_array_equal(x, [[1.0], [3.0]])
        np.testing.assert_array_equal(y, [2.0, 4.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",x,y\n0,1,2\n", "column number 1 has no name.*index=False"),
        ("x,x,y\n0,1,2\n", "two columns named 'x'"),
        ('x,y\n"1,2\n', "could not be read"),
        ("y\n1\n", "no input columns"),
        ("x,y\n1_000,2\n", "'1_000'"),
    ],
)
def test_a_malformed_file_is_refused_with_the_name_of_its_task(tmp_path, text, message):
    with pytest.raises(PacohError, match=f"Task 'b'.*{message}"):
        read(folder(tmp_path, a=GOOD, b=text))


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"x,y\n\xff\xfe,2\n")
    with pytest.raises(PacohError, match=r"Task 'b': b.csv could not be read.*UTF-8"):
        read(folder(tmp_path, a=GOOD))


def test_a_path_that_holds_no_tasks_says_what_is_accepted(tmp_path):
    (tmp_path / "a.txt").write_text(GOOD)
    for source, message in [
        (tmp_path / "none", "no file or folder"),
        (tmp_path / "a.txt", "of no known kind"),
        (tmp_path, "no .csv files"),
        ("~nobody-of-this-name/x.csv", "no file or folder"),
        ("x" * 5000, "no file or folder"),
    ]:
        with pytest.raises(PacohError, match=message):
            read(source)
    with pytest.raises(PacohError, match="leave task='task' out"):
        read(folder(tmp_path, a=GOOD), task="task")


def test_one_file_needs_its_task_and_target_columns(tmp_path):
    (tmp_path / "all.csv").write_text("group,x,value\na,1,2\nb,3,4\n")
    assert read(tmp_path / "all.csv", task="group", target="value").names == ("a", "b")
    with pytest.raises(
        PacohError, match=r"'all.csv' has no column 'task' for the task; its columns are: group, x, value"
    ):
        read(tmp_path / "all.csv")
    with pytest.raises(PacohError, match=r"'all.csv' has no column 'y' for the target"):
        read(tmp_path / "all.csv", task="group")
    (tmp_path / "all.csv").write_text("task,x,y\na,1,2\n,3,4\n")
    with pytest.raises(PacohError, match=r"name of the task is missing in line 3 of all.csv"):
        read(tmp_path / "all.csv")
    (tmp_path / "all.csv").write_text("1,2,3\n4,5,6\n")
    with pytest.raises(PacohError, match="no header line"):
        read(tmp_path / "all.csv")


def test_tasks_of_a_frame_come_in_order_of_appearance_from_a_column_or_the_index():
    frame = pd.DataFrame({"task": [2, 10, 2], "x": [1, 2, 3], "y": [4, 5, 6]})
    for source in (frame, frame.set_index("task")):
        tasks = read(source)
        assert tasks.names == ("2", "10")
        assert tasks.y[0].tolist() == [4.0, 6.0]


def test_nullable_columns_are_numbers_and_their_gaps_are_missing():
    frame = pd.DataFrame({"task": ["a", "a", "b"], "x": pd.array([1, 2, 3], "Int64"), "y": [0.0, 1.0, 2.0]})
    assert read(frame).x[0].tolist() == [[1.0], [2.0]]
    frame.loc[1, "x"] = pd.NA
    with pytest.raises(PacohError, match="Task 'a', column 'x', row 1: the value is missing"):
        read(frame)


@pytest.mark.parametrize(("context", "query"), [("context", "query"), (1, 0), (True, False), ("train", "test")])
def test_a_split_column_marks_the_context_in_every_format(tmp_path, context, query):
    frame = pd.DataFrame(
        {"x": [1, 2, 3, 4], "part": [context, query, query, context], "y": [1, 2, 3, 4], "task": [*"aabb"]}
    )
    frame.to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "each").mkdir()
    for name, part in frame.groupby("task"):
        part.drop(columns="task").to_csv(tmp_path / "each" / f"{name}.csv", index=False)
    frame.to_parquet(tmp_path / "all.parquet")
    arrays = {key: np.array(frame[key].tolist()) for key in frame}
    np.savez(tmp_path / "all.npz", **arrays)
    pairs = {f"{name}_{key}": arrays[key][i : i + 2] for i, name in ((0, "a"), (2, "b")) for key in ("x", "y", "part")}
    np.savez(tmp_path / "pairs.npz", **pairs)
    for source in (frame, *(tmp_path / n for n in ("all.csv", "each", "all.parquet", "all.npz", "pairs.npz"))):
        tasks = read(source, split_column="part")
        assert [x.shape for x in tasks.x] == [(2, 1), (2, 1)]
        split = tasks.split("part")
        assert [y.tolist() for y in split.context.y] == [[1.0], [4.0]]
        assert [y.tolist() for y in tasks.split().query.y] == [[2.0], [3.0]]
    frame["part"] = "maybe"
    with pytest.raises(PacohError, match="Task 'a', column 'part', row 0: 'maybe' is no side of a split"):
        read(frame, split_column="part")


def test_an_archive_says_which_array_is_missing(tmp_path):
    np.savez(tmp_path / "t.npz", a_x=[1.0], a_y=[1.0], b_x=[1.0])
    with pytest.raises(PacohError, match=r"Task 'b' in 't.npz' has no array b_y"):
        read(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", [1.0], [2.0])
    with pytest.raises(PacohError, match=r"holds arr_0, arr_1. Write <task>_x and <task>_y"):
        read(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", x=[1.0, 2.0], y=[1.0], task=["a", "b"])
    with pytest.raises(PacohError, match="one row a point"):
        read(tmp_path / "t.npz")


def test_an_archive_may_name_its_inputs(tmp_path):
    np.savez(
        tmp_path / "t.npz", a_x=np.ones((1, 2)), a_y=[1.0], b_x=np.ones((3, 2)), b_y=np.ones(3), columns=["u", "v"]
    )
    assert read(tmp_path / "t.npz").columns == ("u", "v")


class Trap:
    """An object whose unpickling would be noticed."""

    def __reduce__(self):
        return (sys.exit, ("a pickle was opened",))


def test_no_pickle_is_ever_opened_and_a_broken_archive_is_refused(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, a_x=np.array([Trap()], object), a_y=[1.0])
    with pytest.raises(PacohError, match=r"not an .npz file of plain arrays"):
        read(path)
    whole = write_npz(ragged([3, 4]), tmp_path / "t").read_bytes()
    for content in (
        b"",
        b"text",
        pickle.dumps([1]),
        whole[: len(whole) // 2],
        whole[:-30],
        whole.replace(b"NUMPY", b"NUMPX"),
    ):
        path.write_bytes(content)
        with pytest.raises(PacohError, match=r"'t.npz'"):
            read(path)


def test_parquet_without_pandas_names_the_extra_and_a_broken_file_is_refused(tmp_path, monkeypatch):
    path = write_parquet(ragged([3, 4]), tmp_path / "t")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(PacohError, match=r"'t.parquet' could not be read as Parquet"):
        read(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PacohError, match=r'pip install "pacoh\[data\]"'):
        read(path)


def test_lists_and_plain_files_need_no_pandas(tmp_path, monkeypatch):
    tasks = ragged([3, 4])
    sources = [
        tasks,
        write_folder(tasks, tmp_path / "each"),
        write_csv(tasks, tmp_path / "all"),
        write_npz(tasks, tmp_path / "t"),
    ]
    monkeypatch.setitem(sys.modules, "pandas", None)
    for source in sources:
        assert read(source).sizes == (3, 4)


def test_the_points_of_one_file_fit_the_model_or_say_why_not(tmp_path):
    folder(tmp_path, c="u,v,y\n1,2,3\n", q="v,u\n2,1\n", none="u,v,y\n")
    codec = Codec(("u", "v"))

    def points(file, codec, targets=True):
        table = csv_table(tmp_path / file, codec, targets=targets)
        return read_points(table, table.y if targets else None, codec=codec)

    x, y = points("c.csv", codec)
    np.testing.assert_array_equal(x, [[1.0, 2.0]])
    np.testing.assert_array_equal(y, [3.0])
    for file in ("q.csv", "c.csv"):
        np.testing.assert_array_equal(points(file, codec, targets=False), x)
    assert points("none.csv", codec)[0].shape == (0, 2)
    with pytest.raises(PacohError, match="Task 'c' has no input column 'a'"):
        points("c.csv", Codec(("a", "b", "c")))
    with pytest.raises(PacohError, match=r"Task 'absent': absent.csv could not be read"):
        points("absent.csv", codec)
