"""Integration nodes over the weights of a two-dimensional linear classifier.

The logistic likelihood bends sharply along the rays orthogonal to the inputs, and the 0-1 loss jumps there. Nodes are
laid out in polar coordinates with panels that end on those rays, grow geometrically away from them and from the
origin, and are never wider than the prior; Gauss-Legendre on each panel is then accurate to about 1e-10.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Box:
    """An axis-parallel rectangle."""

    low: np.ndarray
    high: np.ndarray

    def grown(self, by: float) -> "Box":
        """The box with every side moved out."""
        return Box(self.low - by, self.high + by)


def panels(start: float, stop: float, first: float, widest: float) -> np.ndarray:
    """Edges from start to stop with widths first, 2 first, 4 first, ... up to `widest`."""
    edges, width = [start], min(first, widest)
    while edges[-1] + 1.2 * width < stop:
        edges.append(edges[-1] + width)
        width = min(2 * width, widest)
    return np.array([*edges, stop])


def sector_panels(start: float, stop: float, first: float, widest: float) -> np.ndarray:
    """Edges over a sector, finest at both of its ends."""
    middle = (start + stop) / 2
    left = panels(0.0, middle - start, first, widest)
    return np.concatenate([start + left, (stop - left[-2::-1])])


def breaks(x: np.ndarray) -> np.ndarray:
    """The angles, in increasing order over one turn, at which some input is orthogonal to the weights."""
    x = x[np.any(x != 0, axis=1)]
    if not len(x):
        return np.linspace(0.0, 2 * np.pi, 5)
    angles = np.arctan2(x[:, 1], x[:, 0]) % np.pi
    quarter = np.concatenate([angles + np.pi / 2, angles - np.pi / 2]) % (2 * np.pi)
    cuts = np.sort(quarter)
    cuts = cuts[np.concatenate([[True], np.diff(cuts) > 1e-12])]
    return np.append(cuts, cuts[0] + 2 * np.pi)


def polar_rule(x: np.ndarray, scale: float, box: Box, order: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Nodes w (K, 2) and log-weights (K) of an integral over the box, for a prior of sd `scale` and inputs x."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    size = max(float(np.sqrt((x**2).sum(1)).max()), 1e-300)
    corners = np.maximum(np.abs(box.low), np.abs(box.high))
    nearest = float(np.linalg.norm(np.clip(0.0, box.low, box.high)))
    radii = panels(0.0, float(np.linalg.norm(corners)), 4 / size, 3 * scale)
    cuts = breaks(x)
    found_w, found_log = [], []
    for low, high in pairwise(radii):
        if high < nearest:
            continue
        sharp, smooth = 4 / (high * size), 3 * scale / high
        angles = [sector_panels(a, b, sharp, smooth) for a, b in pairwise(cuts)]
        edges = np.concatenate([np.stack([e[:-1], e[1:]], 1) for e in angles])
        half = (edges[:, 1] - edges[:, 0]) / 2
        theta = (edges.mean(1)[:, None] + half[:, None] * nodes).ravel()
        turn = (half[:, None] * weights).ravel()
        r = (low + high) / 2 + (high - low) / 2 * nodes
        ring = weights * (high - low) / 2 * r
        w = r[:, None, None] * np.stack([np.cos(theta), np.sin(theta)], -1)
        inside = np.all((w >= box.low) & (w <= box.high), -1)
        found_w.append(w[inside])
        found_log.append(np.log(ring[:, None] * turn)[inside])
    return np.concatenate(found_w), np.concatenate(found_log)
