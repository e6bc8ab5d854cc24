"""Environments on data of others: the splits, on small files of the same layout and on the real ones where they are."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import source_cases as cases
from pacoh import api, registry
from pacoh.environments import MHC, Berkeley, Omniglot, PhysioNet, SwissFEL, SwissFELStandIn
from pacoh.environments.berkeley import lagged
from pacoh.errors import PacohError
from pacoh.reading import Split
from pacoh.sources import SOURCES

REAL = os.environ.get("PACOH_DATA_DIR")
real = pytest.mark.skipif(REAL is None, reason="the real files are not here: PACOH_DATA_DIR is not set")


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A data folder of the test's own, and an empty cache."""
    monkeypatch.setenv("PACOH_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in SOURCES:
        (tmp_path / name).mkdir()
    return tmp_path


def any_size(monkeypatch, name: str) -> None:
    """Lets the files of a source be others than the real ones."""
    files = tuple(replace(file, checksum=None) for file in SOURCES[name].files)
    monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], files=files, expected={}))


@pytest.fixture
def patients(home, monkeypatch) -> PhysioNet:
    any_size(monkeypatch, "physionet2012")
    cases.physionet(home / "physionet2012" / "set-a.tar.gz", 120)
    return PhysioNet(n=20, tests=15, valids=10)


def same(first, second) -> bool:
    return first.names == second.names and all(map(np.array_equal, first.y, second.y))


@pytest.mark.parametrize("number", [29, 3])
def test_a_patient_is_in_one_part_only_and_has_enough_values(patients, number):
    draw = patients.draw(number)
    parts = [draw.train.names, draw.test.context.names, draw.valid.context.names]
    assert [len(part) for part in parts] == [20, 15, 10]
    assert len({name for part in parts for name in part}) == 45
    assert min(draw.train.sizes) >= 4
    assert max(x.max() for x in draw.train.x) <= 47
    for split in (draw.test, draw.valid):
        assert split.context.names == split.query.names
        assert min(split.context.sizes) >= 4
        assert max(x.max() for x in split.context.x) <= 24
        assert min(x.min() for x in split.query.x) > 24


def test_the_published_patients_are_the_first_and_the_last_by_record(patients):
    draw = patients.draw(29)
    train, test, valid = (
        [int(name) for name in part] for part in (draw.train.names, draw.test.query.names, draw.valid.query.names)
    )
    assert train == sorted(train)
    assert test + valid == sorted(test + valid, reverse=True)
    assert max(train) < min(test + valid)
    assert not same(draw.train, patients.draw(3).train)
    assert same(patients.draw(3).train, patients.draw(3).train)


def test_two_values_of_one_minute_are_both_kept(patients):
    draw = patients.draw(29)
    doubled = [x for x in draw.train.x if len(np.unique(x)) < len(x)]
    assert doubled
    assert all((np.diff(x[:, 0]) >= 0).all() for x in draw.train.x)


def test_another_variable_or_more_patients_than_there_are_is_answered_in_a_sentence(patients):
    with pytest.raises(PacohError, match=r"no variable 'Mood'.*GCS"):
        PhysioNet("Mood").draw(29)
    with pytest.raises(PacohError, match="ask for fewer"):
        PhysioNet("GCS").draw(29)


def test_a_missing_measurement_is_no_value(patients):
    with pytest.raises(PacohError, match="Height has 0 patients"):
        PhysioNet("Height").draw(29)


@pytest.mark.parametrize("split", ["paper", "tables"])
def test_a_berkeley_sensor_is_trained_or_tested_on_and_its_rows_are_where_the_split_says(home, monkeypatch, split):
    any_size(monkeypatch, "berkeley")
    matrix = cases.berkeley(home / "berkeley" / "berkeley_data.mat")
    draw = Berkeley(split).draw(29)
    assert (len(draw.train), set(draw.train.sizes)) == (36, {288})
    assert len({*draw.train.names, *draw.test.context.names}) == 46
    sizes = (set(draw.test.context.sizes), set(draw.test.query.sizes))
    assert sizes == (({144}, {144}) if split == "paper" else ({144}, {288}))
    sensor = int(draw.test.query.names[0].split()[1])
    x, y = lagged(matrix[:, sensor])
    assert len(y) == 576
    np.testing.assert_allclose(draw.test.query.y[0], y[432:] if split == "paper" else y[288:])
    np.testing.assert_allclose(draw.test.context.x[0], x[288:432] if split == "paper" else x[144:288])
    assert draw.valid is None


def test_a_berkeley_row_is_ten_minutes_in_order_and_the_next_one():
    series = np.arange(7205.0)
    x, y = lagged(series)
    np.testing.assert_array_equal(x[3, :10], 1441 + 30 + np.arange(10))
    assert y[3] == 1441 + 40
    np.testing.assert_allclose(x[3, 10], 40 / 1441)


def test_the_berkeley_outlier_is_gone(home, monkeypatch):
    any_size(monkeypatch, "berkeley")
    matrix = cases.berkeley(home / "berkeley" / "berkeley_data.mat")
    patched = SOURCES["berkeley"].load()["temperature"]
    assert patched[4278, 6] == pytest.approx((matrix[4277, 6] + matrix[4279, 6]) / 2)
    assert (np.delete(patched.ravel(), 4278 * 46 + 6) == np.delete(matrix.ravel(), 4278 * 46 + 6)).all()


@pytest.mark.parametrize("minutes", [7204, 100])
def test_a_berkeley_file_of_another_shape_is_refused(home, monkeypatch, minutes):
    expected = SOURCES["berkeley"].expected
    any_size(monkeypatch, "berkeley")
    monkeypatch.setitem(SOURCES, "berkeley", replace(SOURCES["berkeley"], expected=expected))
    cases.berkeley(home / "berkeley" / "berkeley_data.mat", minutes=minutes)
    with pytest.raises(PacohError, match="7205"):
        Berkeley().draw(29)


@pytest.mark.parametrize(("name", "make"), [("berkeley", cases.berkeley), ("mhc", cases.mhc)])
def test_a_file_of_the_right_shape_with_other_numbers_is_refused(home, name, make):
    make(home / name / SOURCES[name].files[0].name)
    with pytest.raises(PacohError, match=r"has another checksum than .* get it from"):
        SOURCES[name].load()


def damaged(content: bytes, kind: int, random: np.random.Generator) -> bytes:
    """Cut somewhere, or with some bytes changed."""
    if kind % 2:
        return content[: random.integers(len(content))]
    changed = bytearray(content)
    for place in random.integers(min(len(content), 3000), size=20):
        changed[place] = random.integers(256)
    return bytes(changed)


@pytest.mark.parametrize("name", SOURCES)
def test_damaged_files_end_in_a_sentence(home, name):
    makes = {
        "physionet2012": lambda folder: cases.physionet(folder / "set-a.tar.gz", 10),
        "berkeley": lambda folder: cases.berkeley(folder / "berkeley_data.mat"),
        "mhc": lambda folder: cases.mhc(folder / "iedb_benchmark.mat"),
        "omniglot": lambda folder: cases.omniglot(folder, letters=5, background=1, evaluation=1),
        "swissfel": lambda folder: cases.swissfel(folder, points=50),
    }
    makes[name](home / name)
    path = home / name / SOURCES[name].files[0].name
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for kind in range(16):
        path.write_bytes(damaged(whole, kind, random))
        with pytest.raises(PacohError, match="get it"):
            SOURCES[name].load()


def test_splits_that_there_are_not_are_refused():
    with pytest.raises(PacohError, match="paper"):
        Berkeley("paper2")
    with pytest.raises(PacohError, match="official"):
        Omniglot(split="mine")


@pytest.fixture
def letters(home, monkeypatch) -> Path:
    any_size(monkeypatch, "omniglot")
    cases.omniglot(home / "omniglot")
    return home


def drawn(x: np.ndarray) -> set[tuple[int, int]]:
    """Letter and drawing of each row of fixture pixels, by the width and height of the ink."""
    pictures = x.reshape(-1, 28, 28)
    return {(int(p.any(0).sum()), int(p.any(1).sum())) for p in pictures}


def test_omniglot_tasks_have_their_own_letters_and_every_drawing_once(letters):
    for each, shots in ((1, 2), (2, 5)):
        draw = Omniglot(shots=shots, each=each).draw(29)
        alphabets = {name.split()[0] for name in draw.train.names}
        others = {name.split()[0] for name in draw.test.query.names}
        assert (len(alphabets), len(others), len(alphabets & others)) == (30, 20, 0)
        assert (len(draw.train), len(draw.test.query)) == (30 * each, 20 * each)
        assert set(draw.train.sizes) == {100}
        assert draw.train.classes == (0, 1, 2, 3, 4)
        for y in draw.test.context.y:
            assert np.issubdtype(y.dtype, np.integer)
            np.testing.assert_array_equal(np.bincount(y), [shots] * 5)
        for y in draw.test.query.y:
            np.testing.assert_array_equal(np.bincount(y), [20 - shots] * 5)
        for context, query in zip(draw.test.context.x, draw.test.query.x, strict=True):
            assert set(np.unique(context)) == {0.0, 1.0}
            assert not {tuple(row) for row in context.astype(int)} & {tuple(row) for row in query.astype(int)}
    first, second = draw.train.x[0], draw.train.x[1]
    assert not {width for width, _ in drawn(first)} & {width for width, _ in drawn(second)}


def test_ink_is_one_and_pixels_are_the_nearest(letters):
    draw = Omniglot().draw(29)
    heights = [int(p.any(1).sum()) for p in draw.train.x[0].reshape(-1, 28, 28)[:20]]
    assert heights == sorted(heights)
    expected = [sum(int((i + 0.5) * 105 / 28) < 5 * (k + 1) for i in range(28)) for k in range(20)]
    assert heights == expected


def test_the_official_split_of_omniglot_is_its_two_sets(letters):
    draw = Omniglot(split="official").draw(29)
    assert draw.train.names == tuple(f"Alphabet_{i:02d}" for i in range(30))
    assert set(draw.test.query.names) == {f"Alphabet_{i:02d}" for i in range(30, 50)}


def test_the_published_alphabets_are_those_of_its_shuffle(letters):
    names = [f"Alphabet_{i:02d}" for i in range(50)]
    np.random.RandomState(123).shuffle(names)
    assert Omniglot().draw(29).train.names == tuple(names[:30])
    assert Omniglot().draw(1).train.names != tuple(names[:30])


def test_alleles_to_train_and_to_test_differ_and_the_published_sizes_come_out(home, monkeypatch):
    any_size(monkeypatch, "mhc")
    cases.mhc(home / "mhc" / "iedb_benchmark.mat")
    draw = MHC().draw(29)
    assert draw.train.sizes == (1447, 1443, 3089, 104, 197)
    assert MHC(dropped=True).draw(29).train.sizes == (1446, 1442, 3088, 103, 196)
    assert (draw.test.context.sizes, draw.test.query.sizes) == ((20,), (813,))
    assert draw.test.query.names == ("A_6901",)
    x, y = MHC().pool()
    assert x.shape == (833, 45)
    np.testing.assert_array_equal(draw.test.context.y[0], y[:20])
    other = MHC().draw(5)
    np.testing.assert_array_equal(np.sort(np.concatenate([other.test.context.y[0], other.test.query.y[0]])), np.sort(y))


def test_swissfel_runs_are_trained_or_tested_on_and_points_are_not_in_context_and_query(home):
    cases.swissfel(home / "swissfel")
    draw = SwissFEL().draw(29)
    assert draw.train.sizes == (200,) * 5
    assert (draw.test.context.sizes, draw.test.query.sizes) == ((200,) * 4, (200,) * 4)
    runs = [{int(y) for y in part.y[i]} for part in (draw.train, draw.test.query) for i in range(len(part))]
    assert sorted(next(iter(run)) for run in runs) == list(range(9))
    np.testing.assert_allclose(draw.train.y[0] % 1, np.arange(200) / 1000, atol=1e-9)
    rows = np.concatenate([draw.test.context.y[0], draw.test.query.y[0]]) % 1
    np.testing.assert_allclose(np.sort(rows), np.arange(400) / 1000, atol=1e-9)
    assert draw.train.x[0].shape[1] == 12


@pytest.mark.parametrize(("points", "inputs"), [(399, 12), (420, 5)])
def test_swissfel_runs_that_are_too_short_or_of_other_parameters_are_refused(home, points, inputs):
    cases.swissfel(home / "swissfel", points, inputs)
    with pytest.raises(PacohError, match="This is not the whole of SwissFEL"):
        SwissFEL().draw(29)


def test_a_file_of_another_layout_is_no_swissfel_run(home):
    cases.swissfel(home / "swissfel")
    (home / "swissfel" / "2018_10_31" / "line_ucb" / "data" / "evaluations.hdf5").write_bytes(b"nothing")
    with pytest.raises(PacohError, match="no dataset /1/0"):
        SwissFEL().draw(29)


def test_the_stand_in_has_the_shape_of_swissfel_and_says_what_it_is():
    draw = SwissFELStandIn().draw(0)
    assert draw.train.sizes == (200,) * 5
    assert draw.train.x[0].shape == (200, 12)
    assert len(draw.test.query) == 4
    assert "stand-in" in SwissFELStandIn.__doc__
    assert same(draw.train, SwissFELStandIn().draw(0).train)
    assert not same(draw.train, SwissFELStandIn().draw(1).train)


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_the_stand_in_gives_another_energy_at_the_same_place_later_only_if_it_drifts(drift):
    draw = SwissFELStandIn(noise=0.0, drift=drift).draw(0)
    x, y = draw.train.x[0], draw.train.y[0]
    later = np.arange(31, 200, 21)  # the middle of a line is the best point of the line before
    earlier = [np.flatnonzero((x[:row] == x[row]).all(1))[0] for row in later]
    assert (np.abs(y[later] - y[earlier]).max() > 1e-3) == (drift > 0)


@real
@pytest.mark.parametrize("name", [name for name in registry.ENVIRONMENTS if name != "swissfel"])
def test_every_environment_loads_from_the_real_files(name):
    draw = registry.environment(name).draw(29)
    assert len(draw.train) >= 5
    assert all(np.isfinite(x).all() for x in (*draw.train.x, *draw.test.query.x))


@real
@pytest.mark.parametrize(("variable", "most", "mean"), [("GCS", 44, 14.3), ("HCT", 16, 6.3)])
def test_real_patients_split_as_published(variable, most, mean):
    draw = PhysioNet(variable).draw(29)
    assert (len(draw.train), max(draw.train.sizes)) == (100, most)
    assert np.mean(draw.train.sizes) == pytest.approx(mean, abs=0.05)
    parts = [draw.train.names, draw.test.query.names, draw.valid.query.names]
    assert [len(part) for part in parts] == [100, 500, 500]
    assert len({name for part in parts for name in part}) == 1100


@real
def test_the_real_hematocrit_has_as_many_eligible_patients_as_counted():
    arrays = SOURCES["physionet2012"].load("HCT/record", "HCT/hours")
    record, hours = arrays["HCT/record"], arrays["HCT/hours"]
    records = np.unique(record)
    early = np.array([(hours[record == one] <= 24).sum() for one in records])
    late = np.array([(hours[record == one] > 24).sum() for one in records])
    assert ((early >= 4) & (late >= 1)).sum() == 1101


@real
def test_real_letters_are_never_in_two_tasks():
    arrays = SOURCES["omniglot"].load()
    environment = Omniglot(each=2)
    draw = environment.draw(29)
    groups = environment._letters(arrays["alphabet"], sorted(set(arrays["alphabet"].tolist())))
    chosen = np.concatenate(list(groups.values()))
    assert len(np.unique(chosen)) == len(chosen) == 500
    assert (len(draw.train), len(draw.test.query)) == (60, 40)


def both(draw) -> Split:
    """Test and validation patients together: the thousand that the references are known for."""
    from pacoh.reading import Tasks

    def joined(first: Tasks, second: Tasks) -> Tasks:
        return replace(first, names=first.names + second.names, x=first.x + second.x, y=first.y + second.y)

    return Split(joined(draw.test.context, draw.valid.context), joined(draw.test.query, draw.valid.query))


REFERENCES = [
    ("physionet-gcs", {}, "last-value", {}, 1.43, 0.005),
    ("physionet-gcs", {}, "context-mean", {}, 2.19, 0.005),
    ("physionet-hct", {}, "last-value", {}, 2.75, 0.005),
    ("physionet-hct", {}, "last-value", {"share": 0.7, "keep": 0.65}, 2.47, 0.005),
    ("berkeley", {"split": "tables"}, "last-value", {"lag": 9}, 0.0558, 0.00006),
    ("berkeley", {"split": "paper"}, "last-value", {"lag": 9}, 0.0704, 0.00006),
    ("berkeley", {"split": "paper"}, "pooled-ridge", {}, 0.0615, 0.00006),
]


@real
@pytest.mark.parametrize(("name", "options", "method", "settings", "rmse", "within"), REFERENCES)
def test_naive_references_come_out_as_known(name, options, method, settings, rmse, within):
    draw = registry.environment(name, **options).draw(29)
    split = draw.test if draw.valid is None else both(draw)
    assert api.fit(draw.train, method, **settings).evaluate(split)["rmse"] == pytest.approx(rmse, abs=within)


@real
def test_the_second_load_of_thousands_of_files_is_fast():
    import time

    SOURCES["physionet2012"].load("variables")
    began = time.perf_counter()
    PhysioNet("GCS").draw(29)
    assert time.perf_counter() - began < 1.0


@real
def test_verify_prints_the_known_counts_of_the_real_files(call):
    import json

    facts = json.loads(call("data", "verify", "--json").out)
    assert facts["physionet2012"]["GCS values"] == 61563
    assert facts["physionet2012"]["HCT patients with 4 or more"] == 2294
    assert facts["omniglot"]["characters"] == [964, 659]
    assert facts["mhc"]["sizes"]["A_0201"] == 3089
    assert facts["berkeley"]["minutes"] == 7205


def test_omniglot_is_learned_and_evaluated_with_labels_per_task(letters):
    draw = Omniglot(shots=2).draw(29)
    assert draw.train.codec.by_task
    prototype = api.fit(draw.train, "nearest-prototype")
    assert len(set(prototype.units.x_scale)) == len(set(prototype.units.x_loc)) == 1  # pixels share their unit
    assert prototype.evaluate(draw.test)["accuracy"] > 0.5
    settings = {"steps": 5, "adapt_steps": 5, "width": 2, "layers": 2, "draws": 2, "hypotheses": 2}
    network = api.fit(draw.train, "pacoh-nn-map", net="conv", **settings)
    scores = network.evaluate(draw.test)
    assert scores["ece"] is not None
    x, y = draw.test.context.x[0], np.array(list("vwxyz"))[draw.test.context.y[0]]
    assert network.adapt(x, y)(x[:3]).classes == tuple("vwxyz")
