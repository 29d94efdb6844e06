"""Encoders: first states of nodes and edges, from features and positional encodings.

:class:`~graphbench.encoders.compose.NodeEncoder` maps a batch to ``(h (N, dim), batch')``,
:class:`~graphbench.encoders.compose.EdgeEncoder` to e (E, dim). Their parts are components::

    dataset: {node_encoder_name: TypeDictNode+RWSE, edge_encoder_name: TypeDictEdge}

- ``node``, ``edge``: :class:`~graphbench.encoders.contract.FeatureEncoder`, from raw features.
- ``positional``: :class:`~graphbench.encoders.contract.ColumnEncoder` (columns, concatenated) and
  :class:`~graphbench.encoders.contract.BatchEncoder` (changes of states or batch), from the output of a transform.
- ``expander``: pairs of Exphormer's attention. ``token``: graph tokens. ``inputs``, ``mlp``: used by the encoders.
"""
