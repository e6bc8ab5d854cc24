"""Benchmarks: experiments as data, run cell by cell, resumed, and reported beside published numbers."""
