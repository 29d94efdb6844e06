"""Plug-in that makes the graphs of ``link_graphs.py`` known to a configuration."""

from graphbench.registry import register
from tests.link_graphs import Contacts, OneContactGraph

register("contacts", namespace="data/datasets")(Contacts)
register("one-contact-graph", namespace="data/datasets")(OneContactGraph)
