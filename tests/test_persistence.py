"""A model file gives back what was saved, or one clear error; it holds no code and none of the data."""

import json
import os
import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from pacoh import api, persistence
from pacoh.data import Standardizer
from pacoh.errors import PacohError
from pacoh.inference.base import Adam
from pacoh.inference.map import MAP
from pacoh.priors.gp import GPPrior
from pacoh.priors.kernels import SE
from pacoh.testing import ragged_tasks

CARD = {"method": "test", "numbers": [1, 2.5, None]}


def content() -> dict:
    return {
        "units": Standardizer(np.array([1e9]), np.array([3.0]), np.array(2.0), np.array(0.1)),
        "parts": (GPPrior(kernel=SE()), MAP(Adam(0.1, 7))),
        "draws": {"a": jnp.arange(6.0).reshape(2, 3), "b": [jnp.ones(3, jnp.int32), True, None, "text", 1.5]},
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "model"
    persistence.save(path, content(), CARD)
    return path.read_bytes()


@pytest.fixture(scope="module")
def model() -> api.Model:
    return api.fit(ragged_tasks(), "pacoh-gp-map", steps=20, layers=1, width=8)


def header_length(file: bytes) -> int:
    return struct.unpack("<Q", file[:8])[0]


def rewritten(file: bytes, **changes) -> bytes:
    """The file with other entries in its header."""
    length = header_length(file)
    outer = json.loads(file[8 : 8 + length])
    inner = json.loads(outer["__metadata__"]["pacoh"]) | changes
    outer["__metadata__"]["pacoh"] = json.dumps(inner)
    text = json.dumps(outer).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + file[8 + length :]


def loaded(tmp_path, file: bytes):
    path = tmp_path / "changed"
    path.write_bytes(file)
    return persistence.load(path)


def assert_same(first, second) -> None:
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
        assert np.asarray(a).dtype == np.asarray(b).dtype


def test_what_is_loaded_is_what_was_saved(tmp_path, whole):
    back, card = loaded(tmp_path, whole)
    assert_same(back, content())
    assert card == CARD


def test_a_loaded_model_predicts_the_same(tmp_path, model):
    model.save(tmp_path / "model")
    again = api.load(tmp_path / "model")
    x, y = ragged_tasks()[1]
    before, after = (m.adapt(x, y)(np.linspace(-2, 2, 5)) for m in (model, again))
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.std, after.std)
    assert again.card == model.card


def test_the_same_fit_gives_the_same_file(tmp_path, model):
    other = api.fit(ragged_tasks(), "pacoh-gp-map", steps=20, layers=1, width=8)
    for name, one in (("a", model), ("b", other)):
        one.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("part", ["nothing", "length", "header", "no arrays", "arrays", "all but a byte"])
def test_a_file_cut_anywhere_is_refused(tmp_path, whole, part):
    header = header_length(whole)
    ends = {
        "nothing": 0,
        "length": 5,
        "header": 8 + header // 2,
        "no arrays": 8 + header,
        "arrays": (8 + header + len(whole)) // 2,
        "all but a byte": len(whole) - 1,
    }
    with pytest.raises(PacohError, match="cut short or of another kind"):
        loaded(tmp_path, whole[: ends[part]])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_is_refused_or_harmless(tmp_path_factory, whole, data):
    position = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    folder = tmp_path_factory.mktemp("flip")
    try:
        back, card = loaded(folder, bytes(flipped))
    except PacohError:
        return
    assert_same(back, content())
    assert card == CARD


def test_a_file_of_another_kind_is_refused(tmp_path):
    for junk in (b"hello, world" * 10, b"\x93NUMPY" + bytes(100), b"PK\x03\x04" + bytes(100)):
        with pytest.raises(PacohError, match="cut short or of another kind"):
            loaded(tmp_path, junk)


def test_a_safetensors_file_of_someone_else_is_refused(tmp_path):
    save_file({"weights": np.ones(3)}, tmp_path / "theirs")
    with pytest.raises(PacohError, match="not one that pacoh wrote"):
        persistence.load(tmp_path / "theirs")


def test_a_newer_format_is_refused_with_the_remedy(tmp_path, whole):
    with pytest.raises(PacohError, match=r"format 2, .* up to 1: install a newer pacoh"):
        loaded(tmp_path, rewritten(whole, format="2"))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(PacohError, match="no model file"):
            persistence.load(path)


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "builtins:eval", "pacoh.persistence:os.system", "pacohlike.x:Y"]
)
def test_a_file_cannot_name_code_to_run(tmp_path, monkeypatch, whole, name):
    monkeypatch.setattr(persistence, "_digest", lambda *_: "forged")
    forged = rewritten(whole, tree=json.dumps({"class": name, "fields": {}}), digest="forged")
    with pytest.raises(PacohError, match=r"not of this package|no part of a model|does not know"):
        loaded(tmp_path, forged)


def test_a_function_of_the_package_is_no_part_of_a_model(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(persistence, "_digest", lambda *_: "forged")
    forged = rewritten(whole, tree=json.dumps({"class": "pacoh.api:fit", "fields": {}}), digest="forged")
    with pytest.raises(PacohError, match="no part of a model"):
        loaded(tmp_path, forged)


def test_what_is_no_data_is_not_written(tmp_path):
    with pytest.raises(PacohError, match=r"model\.f is a function"):
        persistence.save(tmp_path / "model", {"f": lambda: 0}, {})
    assert not list(tmp_path.iterdir())


def test_no_targets_and_no_inputs_are_in_the_file(tmp_path, model):
    model.save(tmp_path / "model")
    file = (tmp_path / "model").read_bytes()
    units = model.units
    for x, y in ragged_tasks():
        for values in (x[:, 0], y, units.inputs(x)[:, 0], units.targets(y)):
            inside = values[(values > values.min()) & (values < values.max())]  # the card holds the range of inputs
            for kind in (np.float32, np.float64):
                assert not any(v.tobytes() in file for v in inside.astype(kind))
            assert not any(repr(float(v)).encode() in file for v in inside)


def test_a_model_of_more_tasks_makes_no_larger_file(tmp_path, model):
    many = api.fit(ragged_tasks(sizes=(5, 3, 6, 6, 4, 5, 3)), "pacoh-gp-map", steps=20, layers=1, width=8)
    sizes = []
    for name, one in (("few", model), ("many", many)):
        one.save(tmp_path / name)
        sizes.append((tmp_path / name).stat().st_size)
    assert abs(sizes[0] - sizes[1]) < 64


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, whole):
    path = tmp_path / "model"
    path.write_bytes(whole)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        persistence.save(path, content(), {"method": "newer"})
    assert path.read_bytes() == whole
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
