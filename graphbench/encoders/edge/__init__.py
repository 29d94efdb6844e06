"""Encoders of edge features: subclasses of :class:`~graphbench.encoders.contract.FeatureEncoder`.

``forward`` maps a batch to the first columns (E, dim) of the edge states, from ``batch.edge_attr``
(:func:`graphbench.encoders.inputs.edge_features`)::

    dataset: {edge_encoder: true, edge_encoder_name: TypeDictEdge, edge_encoder_num_types: 4}

``edge_in`` and ``num_types`` come from the data, see :class:`~graphbench.encoders.contract.FeatureContext`.
``DummyEdge`` is one learned vector for all edges, for layers that need edge states where the data set has none.
"""
