"""PACOH-GP in GPyTorch, written in the ordinary way: tasks in a loop, particles as a batch dimension.

The same objective as `pacoh.theory.HyperPosterior` under the Bayesian rates, from the same parameters, so that
`speed.py` compares two ways of computing one number.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import gpytorch
import numpy as np
import torch
from gpytorch.constraints import Positive


class Net(torch.nn.Module):
    """Fully connected tanh layers; with particles every weight has a leading axis."""

    def __init__(self, layers: list[dict], lead: tuple[int, ...]):
        super().__init__()
        self.weights = torch.nn.ParameterList(_tensor(layer["w"], lead) for layer in layers)
        self.biases = torch.nn.ParameterList(_tensor(layer["b"], (*lead, 1)) for layer in layers)
        self.apply_layer = torch.baddbmm if lead else torch.addmm
        self.lead = lead

    def forward(self, x):
        if self.lead and x.dim() == 2:
            x = x.expand(*self.lead, *x.shape)
        last = len(self.weights) - 1
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = self.apply_layer(bias, x, weight)
            x = x if number == last else torch.tanh(x)
        return x


def _tensor(array: np.ndarray, lead: tuple[int, ...]) -> torch.nn.Parameter:
    """An array (K, ...) as a parameter with the leading shape `lead`, K = 1 where there is none."""
    array = np.array(array, np.float32)
    return torch.nn.Parameter(torch.from_numpy(array.reshape(*lead, *array.shape[1:])))


def _positive() -> Positive:
    return Positive(transform=torch.exp, inv_transform=torch.log)


class Parts(torch.nn.Module):
    """What all tasks share: mean network, feature network, kernel, likelihood. `phis` has a leading axis K."""

    def __init__(self, phis: dict, batched: bool):
        super().__init__()
        count = len(phis["log_noise"])
        lead = (count,) if batched else ()
        shape = torch.Size(lead)
        base = phis["kernel"]["base"]
        self.mean = Net(phis["mean"], lead)
        self.features = Net(phis["kernel"]["net"], lead)
        inner = gpytorch.kernels.RBFKernel(
            ard_num_dims=base["log_length"].shape[-1], batch_shape=shape, lengthscale_constraint=_positive()
        )
        self.kernel = gpytorch.kernels.ScaleKernel(inner, batch_shape=shape, outputscale_constraint=_positive())
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=shape, noise_constraint=_positive())
        with torch.no_grad():  # all three are logarithms here; ours of the output and the noise are of sds
            _fill(inner.raw_lengthscale, base["log_length"])
            _fill(self.kernel.raw_outputscale, 2 * base["log_sd"])
            _fill(self.likelihood.noise_covar.raw_noise, 2 * phis["log_noise"])

    def flat(self):
        """All parameters as rows (K, D)."""
        count = len(self.kernel.raw_outputscale) if self.kernel.batch_shape else 1
        return torch.cat([p.reshape(count, -1) for p in self.parameters()], 1)


@contextmanager
def _fastest() -> Iterator[None]:
    """The settings that are fastest on small matrices: exact Cholesky, kernels evaluated at once, no checks."""
    exact = gpytorch.settings.fast_computations(False, False, False)
    with gpytorch.settings.debug(False), gpytorch.settings.lazily_evaluate_kernels(False), exact:
        yield


def _fill(parameter: torch.nn.Parameter, array: np.ndarray) -> None:
    parameter.copy_(torch.from_numpy(np.array(array, np.float32)).reshape(parameter.shape))


class TaskGP(gpytorch.models.ExactGP):
    """One task's process on the shared parts."""

    def __init__(self, x, y, parts: Parts):
        super().__init__(x, y, parts.likelihood)
        self.parts = parts

    def forward(self, x):
        mean = self.parts.mean(x).squeeze(-1)
        return gpytorch.distributions.MultivariateNormal(mean, self.parts.kernel(self.parts.features(x)))


class Objective:
    """ln Q* on a batch of tasks: the weighted evidences in a loop, and the Gaussian hyper-prior."""

    def __init__(self, parts: Parts, hyper: tuple[Parts, Parts], tasks, weight: float, batch: int):
        self.parts, self.weight, self.batch = parts, weight, batch
        self.x, self.y = (torch.from_numpy(np.array(part, np.float32)) for part in tasks)
        self.models = [TaskGP(x, y, parts) for x, y in zip(self.x, self.y, strict=True)]
        self.evidence = gpytorch.mlls.ExactMarginalLogLikelihood(parts.likelihood, self.models[0])
        loc, sd = (part.flat().detach() for part in hyper)
        self.hyper = torch.distributions.Normal(loc, sd, validate_args=False)

    def __call__(self, chosen=None):
        """The value for each particle."""
        chosen = torch.randperm(len(self.models))[: self.batch].tolist() if chosen is None else chosen
        total = self.hyper.log_prob(self.parts.flat()).sum(-1)
        scale = self.weight * len(self.models) / len(chosen)
        for index in chosen:
            x, y = self.x[index], self.y[index]
            total = total + scale * len(y) * self.evidence(self.models[index](x), y)
        return total


class Training:
    """Steps of MAP, or of SVGD with the median heuristic, by Adam."""

    def __init__(self, objective: Objective, rate: float, stein: bool):
        self.objective, self.stein = objective, stein
        self.parameters = list(objective.parts.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=rate, fused=True)

    def __call__(self, steps: int) -> None:
        with _fastest():
            for _ in range(steps):
                self.optimizer.zero_grad()
                (-self.objective().sum()).backward()
                if self.stein:
                    self._repel()
                self.optimizer.step()

    def _repel(self) -> None:
        """Turns the gradients of the particles into the Stein direction."""
        count = len(self.parameters[0])
        particles = torch.cat([p.detach().reshape(count, -1) for p in self.parameters], 1)
        gradients = torch.cat([p.grad.reshape(count, -1) for p in self.parameters], 1)
        squared = torch.cdist(particles, particles) ** 2
        rows, columns = torch.triu_indices(count, count, 1)
        ell = squared[rows, columns].median() / (2 * np.log(count + 1))
        kernel = torch.exp(-squared / (2 * ell))
        repulsion = (particles * kernel.sum(1, keepdim=True) - kernel @ particles) / ell
        direction = (kernel @ gradients - repulsion) / count
        ends = itertools.accumulate(p.numel() // count for p in self.parameters)
        pieces = torch.tensor_split(direction, list(ends)[:-1], 1)
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            parameter.grad.copy_(piece.reshape(parameter.shape))


def adapt_predict(parts: Parts, units, context, query) -> tuple[np.ndarray, np.ndarray]:
    """NumPy in, NumPy out: the mean and sd of y at the query inputs, in original units."""
    x, y = units(*context)
    x, y, asked = (torch.from_numpy(np.asarray(part, np.float32)) for part in (x, y, units.inputs(query)))
    model = TaskGP(x, y, parts)
    model.eval()
    parts.likelihood.eval()
    with torch.no_grad(), _fastest(), gpytorch.settings.fast_pred_var():
        predictive = parts.likelihood(model(asked))
        mean, sd = predictive.mean.numpy(), predictive.stddev.numpy()
    return units.y_loc + units.y_scale * mean, units.y_scale * sd
