"""Temperatures of an office from its own past, one sensor a task: the environment `berkeley`.

The file comes from the authors of the paper; the script says where it is looked for when it is not here. Inputs are the
last ten values of a sensor and the time of day, so the last value alone is a strong reference. Tasks of 288 points are
large for a Gaussian process: few steps, on four tasks at a time.

python examples/sensors.py
"""

from comparing import compare_environment

FEW = {"steps": 300, "batch": 4}
METHODS = {"pacoh-gp-map": FEW, "mll-gp": FEW, "vanilla-gp": {}, "pooled-ridge": {}, "last-value": {"lag": 9}}

if __name__ == "__main__":
    compare_environment("berkeley", METHODS, "pacoh-gp-map")
