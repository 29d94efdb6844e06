"""Figures from finished runs, one file each; ``scripts/plots.py`` is their command line."""
