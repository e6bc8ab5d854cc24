"""Hematocrit of intensive-care patients over the hours since admission, one patient a task: `physionet-hct`.

`pacoh data fetch physionet2012` gets the file, where there is a network; the script says so when it is not here.

python examples/patients.py
"""

from comparing import compare_environment

METHODS = {"pacoh-gp-svgd": {}, "mll-gp": {}, "vanilla-gp": {}, "last-value": {}, "context-mean": {}}

if __name__ == "__main__":
    compare_environment("physionet-hct", METHODS, "pacoh-gp-svgd")
