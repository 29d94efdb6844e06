"""graphbench: a config-driven benchmark framework for graph transformers."""

__version__ = "0.1.0"
