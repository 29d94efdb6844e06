"""Configuration: the schema and the loader. Nothing outside this package and ``build.py`` knows how a YAML looks."""

from graphbench.config.load import Config, load_config

__all__ = ["Config", "load_config"]
