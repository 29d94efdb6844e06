"""Configuration: YAML in, one checked and frozen :class:`Config` out.

- ``schema.py`` and ``*_keys.py``: every key with default, type, allowed values and meaning; GraphGPS's vocabulary.
- ``tree.py``: the type that each key has in ``config.tree``, generated from the schema.
- ``components.py``: keys that components bring along, read from their constructors.
- ``yaml_files.py``, ``values.py``, ``dialect.py``, ``load.py``: reading, checking, and which fork a file was written
  for.
- ``settings.py``: what tells a configuration from another, and its hash; ``baseline.json`` is the ledger of released
  defaults that keeps hashes stable when keys are added.

Only this package and ``factory`` know how a YAML looks; everything else takes keyword arguments. An error names file,
line, the value received, what is allowed and the nearest valid name.
"""

from graphbench.config.config import Config
from graphbench.config.load import load_config

__all__ = ["Config", "load_config"]
