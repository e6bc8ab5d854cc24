"""Learned priors inside other people's tools; each needs an extra of its own."""
