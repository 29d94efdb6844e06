"""Models: subclasses of :class:`~graphbench.models.contract.Model`, named by ``model.type``.

A model maps a batch to predictions. It receives encoders and factories of layers and head from
:class:`~graphbench.models.contract.ModelContext` and does not read the configuration::

    model = GPSModel(encoder, dim_encoded, edge_encoder, dim, layers, block=make_block, head=make_head)
    prediction = model(batch)

- ``stacked``: encoders, blocks, head (``GPSModel``); ``gps_variants``: models of this shape by GraphGPS's names.
- ``two_branch``, ``branches``: parallel branches of attention and message passing (SGFormer).
- ``gnn``, ``pre_layers``: GraphGym's network. ``geco``: GECO's. ``jknet``, ``decoupled``: baselines.

Models that are also a :class:`~graphbench.blockwise.model.BlockwiseModel` predict large graphs in bounded memory.
"""
