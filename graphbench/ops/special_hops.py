"""Distances that are none: the special values of :mod:`graphbench.structures.pairs`, which operators do not import."""

TOKEN, UNREACHABLE = 254, 255
