"""Why the theory does not cover a fitted model, and what its user must vouch for: each a plain sentence."""

import jax
import numpy as np

from pacoh import registry
from pacoh.api import Model
from pacoh.data import Standardizer
from pacoh.inference.map import MAP
from pacoh.inference.svgd import SVGD
from pacoh.learners.base import AbstractMetaLearner, AbstractMetaModel
from pacoh.learners.change import ChangedModel
from pacoh.learners.guard import Guard, Guarded
from pacoh.learners.pacoh import PACOH, PACOHModel
from pacoh.priors.gp import GPPrior
from pacoh.priors.hyper import NoHyperPrior
from pacoh.priors.scaled import ScaledGPPrior
from pacoh.reading import Tasks
from pacoh.theory import BAYES, Rates

FIXED = (
    "the loss, its clip and delta were chosen before these tasks were looked at",
    "the tasks are independent draws of one kind of task, and a new task is one more with as many points",
)
SAME = "these are the tasks the model was trained on: it keeps no data, so only counts and input ranges were compared"
SETTINGS = "the model's settings were chosen without these tasks: its card does not say otherwise"


def learned(model: Model) -> PACOHModel | None:
    """The learned GP priors of a model, without its guard; None where the closed forms do not apply."""
    meta = _unguarded(model)
    return meta if isinstance(meta, PACOHModel) and isinstance(meta.prior, GPPrior) else None


def _unguarded(model: Model) -> AbstractMetaModel:
    return model.meta.learned if isinstance(model.meta, Guarded) else model.meta


def rates(model: Model) -> Rates:
    """lambda and beta of a model: the Bayesian ones where it has none of its own."""
    found = learned(model)
    return BAYES if found is None else found.rates


def made_by(model: Model) -> AbstractMetaLearner | None:
    """The learner that the card describes, without its guard; None where it is no registered method."""
    card = model.card
    if card["method"] not in registry.METHODS:
        return None
    shape = registry.Shape(card["tasks"], card["points"]["in_all"] / card["tasks"], len(card["ranges"]))
    made = registry.learner(card["method"], shape, **card["settings"])
    return made.learner if isinstance(made, Guard) else made


def has_point_masses(model: Model) -> bool:
    """Whether the hyper-posterior is, by its method, made of points: its KL to a continuous hyper-prior is infinite."""
    made = made_by(model)
    return isinstance(made, PACOH) and isinstance(made.inference, MAP | SVGD) and not _flat(made)


def reasons(model: Model, tasks: Tasks) -> list[str]:
    """Everything but infinite KLs that stands between this model and the theorem (section 1.2)."""
    return [*_method(model), *_units(model), *_other_tasks(model, tasks), *unequal(tasks, rates(model))]


def notes(model: Model, tasks: Tasks) -> tuple[str, ...]:
    """What cannot be seen from the model and the tasks."""
    same = () if _other_tasks(model, tasks) else (SAME,)
    return (*FIXED, *same, *(() if _tuned(model) else (SETTINGS,)))


def unequal(tasks: Tasks, used: Rates) -> list[str]:
    """Tasks whose beta_i differ."""
    if len({size**used.beta_power for size in tasks.sizes}) == 1:
        return []
    spread = f"{min(tasks.sizes)} to {max(tasks.sizes)} points"
    return [f"the tasks differ in size ({spread}), so each has a beta of its own, and the theorem has one beta for all"]


def _flat(made: PACOH) -> bool:
    return isinstance(made.hyper_prior, NoHyperPrior)


def _method(model: Model) -> list[str]:
    name, made, found = model.card["method"], made_by(model), learned(model)
    if isinstance(model.meta, ChangedModel):
        return ["inputs were turned by the covariance of the same tasks (`whiten`), so the prior depends on them"]
    meta = _unguarded(model)
    if isinstance(meta, PACOHModel) and isinstance(meta.prior, ScaledGPPrior):
        return ["each task has a scale of its own (`own_scale`), so posteriors are no Gaussians, and no KL is known"]
    if found is None:
        return [f"{name} learns no hyper-posterior over GP priors, so the KLs that the theorem needs are not known"]
    answer = []
    if made is None:
        answer.append(f"{name} is no registered method, so its hyper-prior and temperature are not on record")
    elif isinstance(made, PACOH):
        draws = len(jax.tree.leaves(found.phis)[0])
        if _flat(made):
            answer.append(f"{name} has no hyper-prior, and without one there is no theorem")
        elif not isinstance(made.inference, MAP | SVGD):
            answer.append(
                f"the model keeps {draws} draws of its hyper-posterior and not the distribution itself, whose KL to "
                "the hyper-prior is therefore not known"
            )
        temperature = float(made.temperature)
        if temperature != 1:
            answer.append(
                f"the temperature is {temperature:g}, not 1: training then minimised another objective than the bound, "
                "with a hyper-prior changed to suit"
            )
    if isinstance(model.meta, Guarded):
        answer.append(
            "a guard mixes the learned prior with a weak one by a rule that the theorem does not describe (the terms "
            "are those of the learned prior alone)"
        )
    return answer


def _units(model: Model) -> list[str]:
    answer = []
    same = Standardizer.identity(len(model.units.x_loc))
    fields = ("x_loc", "x_scale", "y_loc", "y_scale")
    if not all(np.array_equal(getattr(model.units, name), getattr(same, name)) for name in fields):
        answer.append(
            "inputs and targets were standardised by means and scales of the same tasks, so the prior depends on them"
        )
    return [*answer, *_tuned(model)]


def _tuned(model: Model) -> list[str]:
    """How the card says that method or settings depend on the tasks; nothing where only one was tried."""
    tuned = model.card.get("tuned") or {"settings_tried": 1}
    tried = tuned.get("settings_tried")
    if tried == 1:
        return []
    best = "" if tried is None else f" (the best of {tried})"
    what = "method and settings" if "method" in tuned else "settings"
    if tuned.get("on") == "validation tasks":
        return [
            f"{what} were chosen{best} by training on the same tasks and scoring others, so the prior depends on them"
        ]
    return [f"{what} were chosen on the same tasks{best}, so the prior depends on them"]


def _other_tasks(model: Model, tasks: Tasks) -> list[str]:
    """What shows that these are not the tasks of training."""
    card, sizes = model.card, tasks.sizes
    points = {"least": min(sizes), "most": max(sizes), "in_all": sum(sizes)}
    if card["tasks"] != len(tasks) or card["points"] != points:
        here, there = (
            f"{len(tasks)} tasks of {sum(sizes)} points in all",
            f"{card['tasks']} of {card['points']['in_all']}",
        )
        return [f"these are not the tasks the model was trained on: {here} against {there} in its card"]
    pooled = np.concatenate(tasks.x)
    if not np.array_equal(np.stack([pooled.min(0), pooled.max(0)], -1), np.asarray(card["ranges"])):
        return ["these are not the tasks the model was trained on: the ranges of the inputs differ from its card"]
    return []
