"""The version, which any module may know: where pacoh runs from its sources there is no installed one to ask."""

VERSION = "0.1.0"
