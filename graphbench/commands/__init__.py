"""Commands that concern a configuration, a module per word of ``graphbench``: train, list, check, prepare, reproduce.

Those of runs lie with what they do (``sweeps/cli.py``, ``tables/cli.py``, ...); ``console.py`` has all words.
"""
