"""Categorical inputs and class labels go to numbers and are known again later."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacoh.encoding import Codec
from pacoh.errors import PacohError
from pacoh.reading import read, read_points

LEVELS = st.text(max_size=4) | st.integers(-99, 99) | st.booleans()
LABELS = st.lists(LEVELS, min_size=2, max_size=6).filter(lambda labels: len(set(labels)) > 1)


def frame(**columns) -> pd.DataFrame:
    return pd.DataFrame({"task": ["a", "a", "b", "b"], "u": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 1.0, 2.0, 3.0], **columns})


@settings(max_examples=100, deadline=None)
@given(labels=LABELS)
def test_class_ids_point_back_to_the_labels(labels):
    tasks = read([(range(len(labels)), labels), ([0.0], labels[:1])], classes=True)
    assert tasks.classes == tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))
    for ids, given_labels in zip(tasks.y, (labels, labels[:1]), strict=True):
        assert ids.dtype == np.int64
        assert [tasks.classes[i] for i in ids] == given_labels


@settings(max_examples=100, deadline=None)
@given(cells=st.lists(LEVELS, min_size=1, max_size=6), labels=LABELS)
def test_a_codec_survives_json_and_encodes_as_before(cells, labels):
    tasks = read([([[cell, 1.5] for cell in cells], [0] * len(cells))], minimum=1, categorical=["x0"])
    stored = json.loads(json.dumps(tasks.codec.to_json()))
    codec = Codec.from_json(stored)
    assert codec == tasks.codec
    assert hash(codec) == hash(tasks.codec)
    np.testing.assert_array_equal(read_points([[cell, 1.5] for cell in cells], codec=codec), tasks.x[0])
    known = read([([0.0] * len(labels), labels)], minimum=1, classes=True).codec
    assert Codec.from_json(json.loads(json.dumps(known.to_json()))).classes == known.classes


@settings(max_examples=50, deadline=None)
@given(cells=st.lists(st.text(max_size=3), min_size=4, max_size=4))
def test_a_one_hot_row_has_one_one_at_its_level_and_keeps_the_other_columns(cells):
    tasks = read(frame(c=cells))
    levels = dict(tasks.codec.levels)["c"]
    assert tasks.columns == ("u", *(f"c={level}" for level in levels))
    assert tasks.codec.d == len(tasks.columns)
    x = np.concatenate(tasks.x)
    np.testing.assert_array_equal(x[:, 0], [1.0, 2.0, 3.0, 4.0])
    assert [levels[i] for i in x[:, 1:].argmax(1)] == cells
    np.testing.assert_array_equal(x[:, 1:].sum(1), 1.0)


@settings(max_examples=100, deadline=None)
@given(level=st.text(max_size=5).filter(lambda text: text not in ("red", "blue")), name=st.text(min_size=1, max_size=5))
def test_an_unknown_level_is_named_with_its_column_and_task(level, name):
    codec = read(frame(c=["red", "blue", "red", "red"])).codec
    with pytest.raises(PacohError) as caught:
        read_points(pd.DataFrame({"u": [1.0], "c": [level]}), codec=codec, name=name)
    assert f"Task {name!r}, column 'c', row 0: {level!r} is not among the known values (blue, red)" in str(caught.value)


def test_levels_come_from_the_meta_train_tasks_alone():
    codec = read(frame(c=["red", "blue", "red", "red"])).codec
    tasks = read(frame(c=["red"] * 4), codec=codec)
    assert tasks.columns == ("u", "c=blue", "c=red")
    with pytest.raises(PacohError, match="Task 'b', column 'c', row 3: 'green'"):
        read(frame(c=["red", "red", "red", "green"]), codec=codec)


def test_an_unknown_label_is_named_with_its_task():
    codec = read([([1, 2], ["cat", "dog"]), ([1], ["cat"])], classes=True).codec
    np.testing.assert_array_equal(read_points([1, 2], ["dog", "cat"], codec=codec)[1], [1, 0])
    with pytest.raises(PacohError, match="Task 'new', column 'y', row 1: 'cow' is not among the known values"):
        read_points([1, 2], ["dog", "cow"], codec=codec, name="new")
    assert read_points([], [], codec=codec)[1].dtype == np.int64


def test_labels_from_files_and_from_memory_are_the_same_labels(tmp_path):
    for name, text in {"a": "x,y\n1,0\n2,10\n", "b": "x,y\n1,2\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    tasks = read(tmp_path, classes=True)
    assert tasks.classes == (0, 2, 10)
    for labels in ([10, 0], ["10", "0"], np.array([10.0, 0.0]), np.array(["10", "0"])):
        np.testing.assert_array_equal(read_points([1, 2], labels, codec=tasks.codec)[1], [2, 0])
    (tmp_path / "c.csv").write_text("x,y\n1,ten\n")
    assert read(tmp_path, classes=True).classes == ("0", "10", "2", "ten")


def test_categorical_columns_of_plain_files_are_named_and_stay_text(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("c,u,y\n1,1,2\nNA,2,3\n01,1,2\n")
    with pytest.raises(PacohError, match=r"Task 'a', column 'c', line 3 of a.csv: the value is missing"):
        read(tmp_path)
    assert read(tmp_path, categorical=["c"]).columns == ("c=01", "c=1", "c=NA", "u")
    assert read(tmp_path, categorical="c").columns == ("c=01", "c=1", "c=NA", "u")
    with pytest.raises(PacohError, match=r"no column 'k' to be categorical. The columns are: c, u"):
        read(tmp_path, categorical=["k"])


def test_text_in_a_frame_is_categorical_unless_it_stands_among_numbers_or_is_told_not_to_be():
    assert read(frame(c=["r", "b", "r", "r"])).columns == ("u", "c=b", "c=r")
    assert read(frame(c=pd.Categorical([1, 2, 1, 1]))).columns == ("u", "c=1", "c=2")
    with pytest.raises(PacohError, match="Task 'a', column 'c', row 1: the text 'b' stands where a number"):
        read(frame(c=pd.Series([1, "b", 2, 3], dtype=object)))
    with pytest.raises(PacohError, match="Task 'a', column 'c', row 0: the text 'r'"):
        read(frame(c=["r", "b", "r", "r"]), categorical=[])


def test_a_missing_level_or_label_is_refused():
    with pytest.raises(PacohError, match="Task 'a', column 'c', row 1: the value is missing"):
        read(frame(c=["r", None, "r", "r"]))
    with pytest.raises(PacohError, match="Task '0', column 'y', row 1: the value is missing"):
        read([([1, 2], ["a", None]), ([1], ["b"])], classes=True)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1.5], "For regression leave classes"),
        (["a", "a"], "two labels or more"),
        ([datetime.date(2020, 1, 1)] * 2, "neither"),
    ],
)
def test_what_cannot_be_classes_is_refused(labels, message):
    with pytest.raises(PacohError, match=message):
        read([([1, 2], labels), ([1, 2], labels)], classes=True)


def test_points_are_matched_to_the_columns_of_the_codec_by_name():
    codec = read(frame(v=[1.0, 2.0, 3.0, 4.0])).codec
    np.testing.assert_array_equal(read_points(pd.DataFrame({"z": [9], "v": [2], "u": [1]}), codec=codec), [[1.0, 2.0]])
    np.testing.assert_array_equal(read_points([[1, 2]], codec=codec), [[1.0, 2.0]])
    with pytest.raises(PacohError, match="Task 'q' has no input column 'v'; its inputs are: u"):
        read_points(pd.DataFrame({"u": [1]}), codec=codec, name="q")
