"""Layers: message passing, global attention, complete blocks, and the modules that they are made of.

All layers take ``(h, e, batch)``: node states h (N, dim), edge states e (E, dim_edge) or None, and a
:class:`~graphbench.structures.GraphBatch`. Base classes and context are in :mod:`graphbench.layers.contract`::

    layer = GCN(16, 32)
    h, e = layer(h, e, batch)  # LocalLayer: (N, 32), edge states

- ``local``, ``attention``, ``blocks``: components that ``layer_type`` names, one file or folder each.
- ``gps``, ``single``: blocks of sublayers, with residual, norm and (``gps``) feed-forward network.
- ``norm``, ``activation``, ``dropout``, ``feed_forward``, ``input_linear``, ``module_list``: their modules.
- ``sharing``: parameters shared by all layers of a model.
"""
