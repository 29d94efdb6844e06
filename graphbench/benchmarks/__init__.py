"""Benchmarks of scripts/bench.py: each module has ``run() -> list[Case]``; ``run(device)`` where a GPU has a part."""
