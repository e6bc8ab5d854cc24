"""What tuning may move for each method, and between which values: the one place to read and to change it."""

from collections.abc import Mapping
from typing import Any

from pacoh.errors import PacohError
from pacoh.tuning.search import Range, draw_settings

_SDS = {
    "sds.input": Range(1.0, 32.0),  # how many turns a network takes over the inputs: data differ most in this
    "sds.weight": Range(2.0, 30.0),
    "sds.bias": Range(1.0, 16.0),
    "sds.scale": Range(0.75, 12.0),
    "sds.noise": Range(0.25, 4.0),
}
_GP = {"rate": Range(0.004, 0.036), **_SDS}

_NN = {
    "rate": Range(0.001, 0.03),  # of numbers .003 is the default, of classes .01
    "spread": Range(0.07, 0.7),
    "sds.input": Range(2.5, 25.0),
    "sds.weight": Range(3.0, 30.0),
    "sds.bias": Range(0.4, 5.0),
    "sds.noise": Range(0.4, 4.0),
}

_MAML = {"rate": Range(0.0008, 0.008), "inner_rate": Range(0.004, 0.2), "decay": Range(1e-6, 1e-3)}
_MR_MAML = {"rate": Range(0.0015, 0.015), "inner_rate": Range(0.005, 0.08), "decay": Range(1e-6, 1e-4)}
_BMAML = {"rate": Range(0.0015, 0.015), "inner_rate": Range(0.005, 0.08), "sd": Range(6.0, 60.0)}
_NP = {"rate": Range(0.001, 0.02), "decay": Range(3e-5, 1e-2)}
_MLAP = {
    "rate": Range(0.001, 0.01),
    "spread": Range(0.03, 1.0),
    "adapt_rate": Range(0.003, 0.06),
    "wide": Range(20.0, 200000.0),
}
_MTGP = {"rate": Range(0.01, 0.1), "adapt_rate": Range(0.015, 0.15)}

SPACES: dict[str, dict[str, Range]] = {
    "vanilla-gp": {
        "rate": Range(0.01, 0.2),
        "sds.mean": Range(0.25, 4.0),
        "sds.scale": Range(0.1, 2.0),
        "sds.noise": Range(0.03, 2.0),  # a task of equal values takes the noise for none where it may
    },
    "dkl-gp": {"rate": Range(0.001, 0.05)},
    "vanilla-bnn": {
        "spread": Range(0.5, 8.0),
        "reach": Range(0.3, 6.0),
        "head": Range(0.2, 3.0),
        "adapt_rate": Range(0.001, 0.1),
    },
    "pacoh-gp-map": _GP,
    "pacoh-gp-svgd": _GP,
    "pacoh-gp-vi": {**_GP, "temperature": Range(0.002, 0.05)},
    "pacoh-gp-nuts": {"sds.mean": Range(0.75, 12.0), "sds.scale": _SDS["sds.scale"], "sds.noise": _SDS["sds.noise"]},
    "moved-gp": {"rate": Range(0.01, 0.1)},
    "pacoh-nn-map": _NN,
    "pacoh-nn-svgd": _NN,
    "pacoh-nn-vi": {**_NN, "temperature": Range(0.002, 0.05)},
    "mll-gp": {"rate": Range(0.0005, 0.03)},
    "maml": _MAML,
    "fo-maml": _MAML,
    "reptile": _MAML,
    "mr-maml-w": {**_MR_MAML, "beta": Range(1e-7, 1e-5), "spread": Range(0.02, 0.2)},
    "mr-maml-a": {**_MR_MAML, "beta": Range(1e-6, 1e-2)},
    "bmaml": _BMAML,
    "np": _NP,
    "cnp": _NP,
    "anp": _NP,
    "mlap-m": _MLAP,
    "mlap-s": _MLAP,
    "mtgp": _MTGP,
}
"""Continuous settings only, so that a batch of them trains in one `vmap`; `sds.noise` is the entry `noise` of `sds`."""

_ROUGH = {"kernel": "matern12"}  # what was seen last counts most
_LINEAR = {"mean": "linear"}
_DEEP = {"kernel": "network"}
_BOTH = {"kernel": "network+matern12", "mean": "linear"}
_OWN = {"own_scale": 0.4}  # tasks that differ in how noisy they are
_GP_FORMS = (_LINEAR, _ROUGH | _LINEAR, _ROUGH, _DEEP, _DEEP | _LINEAR, _BOTH, _ROUGH | _LINEAR | _OWN)
_ALONE = {"own_scale": 0.5}  # a task alone tells its scale badly,
_SLOW = {"length": 10.0}  # and how slowly its values change
_GELU, _TANH, _RELU = ({"activation": name} for name in ("gelu", "tanh", "relu"))

_SKIP = {"skip": True}  # a line beside the network, where test tasks may lie outside what was seen
_EXACT = {"exact": True}
_LONG, _LONGEST = {"steps": 3000}, {"steps": 10000}  # the defaults stop early, for few small tasks
_EPISODES = (_LONG, _LONGEST, _TANH, _RELU, _SKIP, _SKIP | _LONG)

FORMS: dict[str, tuple[dict[str, Any], ...]] = {
    "vanilla-gp": (_ROUGH, {"kernel": "se+linear"}, _ALONE, _ROUGH | _ALONE, _ROUGH | _ALONE | _SLOW),
    "dkl-gp": (_RELU,),
    "vanilla-bnn": (_TANH, _RELU, _EXACT, _EXACT | _TANH, _EXACT | _SKIP),
    **dict.fromkeys(("pacoh-gp-map", "pacoh-gp-svgd", "pacoh-gp-vi"), _GP_FORMS),
    **dict.fromkeys(("pacoh-nn-map", "pacoh-nn-svgd", "pacoh-nn-vi"), (_TANH, _RELU, _SKIP)),
    "mll-gp": ({"kernel": "se+linear"}, _ROUGH, _ROUGH | _LINEAR, _LINEAR, _BOTH, _ROUGH | _LINEAR | _OWN),
    **dict.fromkeys(("maml", "fo-maml", "reptile", "mr-maml-w", "mr-maml-a"), _EPISODES),
    **dict.fromkeys(("bmaml", "np", "cnp", "anp"), _EPISODES),
    **dict.fromkeys(("mlap-m", "mlap-s"), (_LONGEST, _TANH, _RELU, _SKIP)),
    "mtgp": (_ROUGH,),
}
"""Settings that make another program, or a longer training, beside the default: each is tuned by itself."""


def space(method: str, fixed: Mapping[str, Any]) -> dict[str, Range]:
    """What is left to tune of a method where some settings are fixed; an error where that is nothing."""
    if method not in SPACES:
        raise PacohError(f"{method} has no settings that tuning could choose; these methods do: {', '.join(SPACES)}.")
    left = free(method, fixed)
    if not left:
        raise PacohError(f"Every setting of {method} that tuning could choose is given: leave tuning out.")
    return left


def free(method: str, fixed: Mapping[str, Any]) -> dict[str, Range]:
    """The settings of a method that tuning could choose where some are fixed; none of a method without a space."""
    whole = SPACES.get(method, {})
    taken = {*fixed, *(f"sds.{group}" for group in fixed.get("sds") or ())}
    if fixed.get("paper") is not None:
        taken |= {name for name in whole if name.startswith("sds.")}  # the paper's hyper-prior has one sd
    return {name: axis for name, axis in whole.items() if name not in taken}


def forms(method: str, fixed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The forms of a method that leave the fixed settings alone, the default first."""
    if fixed.get("paper") is not None:
        return [{}]
    return [{}, *(form for form in FORMS.get(method, ()) if not set(form) & set(fixed))]


def candidates(free: Mapping[str, Range], count: int, seed: int) -> list[dict[str, float]]:
    """The default first (no setting moved), then random settings, of four digits each."""
    drawn = draw_settings(free, count - 1, seed)
    return [{}, *({name: float(f"{value:.4g}") for name, value in setting.items()} for setting in drawn)]


def merged(fixed: Mapping[str, Any], chosen: Mapping[str, float]) -> dict[str, Any]:
    """Settings as a method takes them: the fixed ones and the chosen ones, `sds.noise` inside `sds`."""
    answer = dict(fixed)
    for name, value in chosen.items():
        outer, _, inner = name.partition(".")
        answer[outer] = {**(answer.get(outer) or {}), inner: value} if inner else value
    return answer
