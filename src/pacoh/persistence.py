"""Model files: one safetensors file, arrays beside a JSON header that says how they fit together. No pickle.

A module is written as its class and fields. Reading builds only classes of this package and classes named to `trust`.
"""

import dataclasses
import hashlib
import importlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from pacoh.errors import PacohError

FORMAT = 1
_TRUSTED: dict[str, type] = {}


def trust(cls: type) -> type:
    """Lets model files hold instances of a class from outside this package; usable as a decorator."""
    _TRUSTED[_name(cls)] = cls
    return cls


def save(path: str | Path, content: Any, card: dict[str, Any]) -> None:
    """Writes `content` (modules, arrays, plain values) and its `card` (plain JSON), atomically."""
    arrays: dict[str, np.ndarray] = {}
    tree = _encode(content, "model", arrays)
    header = {"format": str(FORMAT), "tree": json.dumps(tree), "card": json.dumps(card)}
    header["digest"] = _digest(header, arrays)
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(to_bytes(arrays, {"pacoh": json.dumps(header)}))
        os.chmod(temporary, _usual_mode())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _usual_mode() -> int:
    """The permissions that a new file gets from the user's mask; a temporary one has none but the owner's."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def load(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """The content and the card of a model file."""
    header, arrays = _read(Path(path))
    if _digest(header, arrays) != header["digest"]:
        raise PacohError(f"{path} is damaged: its content does not match its checksum. Copy or fit the model again.")
    return _decode(json.loads(header["tree"]), arrays), json.loads(header["card"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise PacohError(f"There is no model file {path}. `pacoh fit ... --out {path}` makes one.")
    try:
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise PacohError(f"{path} is no whole model file ({error}): it is cut short or of another kind.") from error
    if "pacoh" not in metadata:
        raise PacohError(f"{path} is a safetensors file, but not one that pacoh wrote.")
    try:
        header = json.loads(metadata["pacoh"])
        version = int(header["format"])
        if not all(isinstance(header[part], str) for part in ("tree", "card", "digest")):
            raise TypeError("a part is no text")
    except (ValueError, KeyError, TypeError) as error:
        raise PacohError(f"{path} is damaged: its header cannot be read. Copy or fit the model again.") from error
    if version > FORMAT:
        raise PacohError(f"{path} has format {version}, and this pacoh reads up to {FORMAT}: install a newer pacoh.")
    return header, arrays


def _digest(header: dict[str, str], arrays: dict[str, np.ndarray]) -> str:
    whole = hashlib.sha256()
    whole.update(json.dumps([header["tree"], header["card"]]).encode())
    for key in sorted(arrays):
        whole.update(f"{key} {arrays[key].dtype} {arrays[key].shape}".encode())
        whole.update(np.ascontiguousarray(arrays[key]).tobytes())
    return whole.hexdigest()


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _encode(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        arrays[path] = np.asarray(value)
        return {"array": path, "host": not isinstance(value, jax.Array)}
    if isinstance(value, list):
        return [_encode(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": {key: _encode(item, f"{path}.{key}", arrays) for key, item in value.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: _encode(getattr(value, f.name), f"{path}.{f.name}", arrays) for f in dataclasses.fields(value)
        }
        return {"class": _name(type(value)), "fields": fields}
    raise PacohError(f"A model file holds modules, arrays and plain values; {path} is a {type(value).__name__}.")


def _decode(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(tree, list):
        return [_decode(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]] if tree["host"] else jnp.asarray(arrays[tree["array"]])
    if "tuple" in tree:
        return tuple(_decode(item, arrays) for item in tree["tuple"])
    if "dict" in tree:
        return {key: _decode(item, arrays) for key, item in tree["dict"].items()}
    made = object.__new__(_class(tree["class"]))
    for name, item in tree["fields"].items():
        object.__setattr__(made, name, _decode(item, arrays))
    return made


def _class(name: str) -> type:
    if name in _TRUSTED:
        return _TRUSTED[name]
    module, _, qualified = name.partition(":")
    if not module.startswith("pacoh."):
        raise PacohError(
            f"The model holds a {name}, which is not of this package: call pacoh.persistence.trust on the class first."
        )
    try:
        found = getattr(importlib.import_module(module), qualified)
    except (ImportError, AttributeError) as error:
        raise PacohError(f"The model holds a {name}, which this pacoh does not know: install a newer pacoh.") from error
    if not (isinstance(found, type) and (issubclass(found, eqx.Module) or dataclasses.is_dataclass(found))):
        raise PacohError(f"The model names {name}, which is no part of a model: the file was not written by pacoh.")
    return found
