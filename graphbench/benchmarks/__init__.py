"""Benchmarks against other implementations (``graphbench bench``); a benchmark is no test, and no test runs one.

A module has ``run(device) -> list[Case]``, or ``run()`` where a GPU has no part, and is named in
:mod:`graphbench.benchmarks.cli`. Both sides are checked to compute the same before they are timed, and are timed in
turns (:mod:`graphbench.benchmarks.measuring`)::

    def run(device):
        seconds = paired(ours, peer, pairs=9, device=device)
        return [Case(f"what, {device_name(device)}", "PyG", *seconds, target=1.0)]
"""
