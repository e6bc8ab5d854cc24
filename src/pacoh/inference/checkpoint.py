"""Checkpoints of a run: one safetensors file, replaced whole after each chunk, that only the same run picks up."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from pacoh.errors import PacohError
from pacoh.types import Key
from pacoh.version import VERSION
from pacoh.writing import unfinished, write_whole

Fingerprint = dict[str, str]

_FORM = "2"  # grows when a state has other leaves


class Progress(NamedTuple):
    """What a run needs to go on: the lanes' states, the steps done, and what was recorded on the way."""

    states: Any
    done: int
    curve: np.ndarray
    skipped: np.ndarray


def fingerprint(problem: Any, keys: Key, chunk: int) -> Fingerprint:
    """What must be equal for a run to go on bit for bit, part by part, so that a refusal can say what differs."""
    leaves, treedef = jax.tree.flatten(problem)
    return {
        "the settings": _hash(_plain(treedef)),
        "the data or numeric settings": _hash(*(_content(leaf) for leaf in leaves)),
        "the seeds": _hash(_content(keys)),
        "the steps a chunk": str(chunk),
        "the version of pacoh": VERSION,
        "the form of training states": _FORM,
        "the version of jax": jax.__version__,
        "the kind of device": jax.devices()[0].device_kind,
    }


def write(path: Path, made_by: Fingerprint, progress: Progress) -> None:
    """Replaces the checkpoint at once: whoever reads it, or is killed meanwhile, finds the old one or the new one."""
    leaves = {f"state.{i:05d}": leaf for i, leaf in enumerate(jax.tree.leaves(progress.states))}
    generators = {name: str(jax.random.key_impl(leaf)) for name, leaf in leaves.items() if _is_key(leaf)}
    arrays = {name: _array(leaf) for name, leaf in leaves.items()}
    arrays |= {"curve": progress.curve, "skipped": progress.skipped}
    header = {"fingerprint": made_by, "done": progress.done, "generators": generators}
    content = to_bytes({name: np.ascontiguousarray(a) for name, a in arrays.items()}, {"run": json.dumps(header)})
    write_whole(path, content)


def read(path: Path, made_by: Fingerprint, like: Any) -> Progress | None:
    """The progress of the same run, None where there is no checkpoint; another run's is refused. `like`: its states."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, "numpy") as file:
            header = json.loads((file.metadata() or {})["run"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise PacohError(f"{path} is no checkpoint that pacoh wrote ({error}): name another file.") from error
    differing = [part for part, value in made_by.items() if header["fingerprint"].get(part) != value]
    if differing:
        raise PacohError(
            f"The checkpoint {path} belongs to another run: {' and '.join(differing)} differ. Repeat the command that "
            "was interrupted to go on with it; delete the file, or name another, to start afresh."
        )
    treedef = jax.tree.structure(like)
    leaves = {f"state.{i:05d}": jnp.asarray(arrays[f"state.{i:05d}"]) for i in range(treedef.num_leaves)}
    for name, generator in header["generators"].items():
        leaves[name] = jax.random.wrap_key_data(leaves[name], impl=generator)
    return Progress(
        jax.tree.unflatten(treedef, list(leaves.values())), header["done"], arrays["curve"], arrays["skipped"]
    )


def remove(path: Path) -> None:
    """Deletes a checkpoint that has served."""
    for file in (path, unfinished(path)):
        file.unlink(missing_ok=True)


def _hash(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def _plain(value: Any) -> bytes:
    """The text of an object without the addresses that change from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value)).encode()


def _content(leaf: Any) -> bytes:
    if not isinstance(leaf, jax.Array | np.ndarray):
        return _plain(leaf)
    array = _array(leaf)
    return f"{array.dtype}{array.shape}".encode() + array.tobytes()


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
