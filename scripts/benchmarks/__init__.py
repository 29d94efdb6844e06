"""Benchmarks of scripts/bench.py: each module has ``run() -> list[Case]``."""
