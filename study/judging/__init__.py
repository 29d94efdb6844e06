"""Verdicts on claims: sources of numbers, rules on them, and the page (see study/README.md)."""
