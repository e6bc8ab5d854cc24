"""PACOH-NN in PyTorch, written in the ordinary way: all networks of a step in batched matrix products, autograd.

The same objective as `pacoh.theory.HyperPosterior` on a `BNNPrior` of fully connected ReLU layers, from the same
parameters and the same noise, so that `speed.py` compares two ways of computing one number. All parameters of a
particle lie in one flat tensor: with one tensor a layer the same step took half as long again.
"""

import math

import jax
import numpy as np
import torch


def _tensor(array) -> torch.Tensor:
    return torch.from_numpy(np.array(array, np.float32))


class Prior(torch.nn.Module):
    """Means, log sds and levels of K Gaussian priors, in the order of our flat vector."""

    def __init__(self, phis: dict):
        super().__init__()
        count = len(jax.tree.leaves(phis)[0])
        self.shapes = [leaf.shape[1:] for leaf in jax.tree.leaves(phis["loc"])]
        sizes = [math.prod(shape) for shape in self.shapes]
        self.leaf = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.flat = torch.nn.Parameter(torch.cat([_tensor(p).reshape(count, -1) for p in jax.tree.leaves(phis)], 1))

    def draw(self, spread: float, noise: torch.Tensor) -> torch.Tensor:
        """(K, L, D) hypotheses from standard normals."""
        size = len(self.leaf)
        level, loc, log_sd = self.flat.split([len(self.shapes), size, size], 1)
        sd = spread * torch.exp(level[:, self.leaf] + log_sd)
        return loc[:, None] + sd[:, None] * noise

    def layers(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Rows of hypotheses as arrays: bias and weight of each layer, then the log noise."""
        pieces = flat.split([math.prod(shape) for shape in self.shapes], 1)
        return [piece.reshape(-1, *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]


class Objective:
    """ln Q* on a batch of tasks for each of K particles, with L fresh draws."""

    def __init__(self, prior: Prior, hyper: tuple, spread: float, tasks: tuple, weight: float, batch: int, draws: int):
        self.parts, self.spread, self.weight, self.batch, self.draws = prior, spread, weight, batch, draws
        self.x, self.y = (_tensor(part) for part in tasks)
        self.loc, self.sd = (_tensor(part) for part in hyper)

    def __call__(self, chosen=None, noise=None) -> torch.Tensor:
        """The value for each particle."""
        count, size = len(self.parts.flat), len(self.parts.leaf)
        chosen = torch.randperm(len(self.x))[: self.batch] if chosen is None else chosen
        noise = torch.randn(count, self.draws, size) if noise is None else noise
        x, y = self.x[chosen].flatten(0, 1), self.y[chosen].flatten()
        *net, log_noise = self.parts.layers(self.parts.draw(self.spread, noise).flatten(0, 1))
        hidden = x.expand(count * self.draws, *x.shape)
        for number in range(0, len(net), 2):
            hidden = torch.relu(hidden) if number else hidden
            hidden = torch.baddbmm(net[number][:, None], hidden, net[number + 1])
        log_noise = log_noise[:, None]
        z = (y - hidden[..., 0]) * torch.exp(-log_noise)
        each = -0.5 * z**2 - log_noise - 0.5 * math.log(2 * math.pi)
        tasks = each.reshape(count, self.draws, len(chosen), -1).sum(-1)
        evidence = (torch.logsumexp(tasks, 1) - math.log(self.draws)).sum(-1)
        units = (self.parts.flat - self.loc) / self.sd
        hyper = -(0.5 * units**2 + torch.log(self.sd) + 0.5 * math.log(2 * math.pi)).sum(-1)
        return self.weight * len(self.x) / len(chosen) * evidence + hyper
