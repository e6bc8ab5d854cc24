"""Hematocrit of intensive-care patients over the hours since admission, one patient a task: `physionet-hct`.

`pacoh data fetch physionet2012` gets the file, where there is a network; the script says so when it is not here.

python examples/patients.py
"""

from comparing import compare

from pacoh.errors import PacohError
from pacoh.registry import environment

METHODS = {"pacoh-gp-svgd": {}, "vanilla-gp": {}, "last-value": {}, "context-mean": {}}

if __name__ == "__main__":
    try:
        draw = environment("physionet-hct").draw(29)
    except PacohError as absent:
        print(f"The data are not here, so there is nothing to compare. {absent}")
    else:
        compare(draw.train, draw.test, METHODS, "pacoh-gp-svgd")
