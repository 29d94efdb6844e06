"""Complete layers, with residuals and norms: subclasses of :class:`~graphbench.layers.contract.Block`.

``forward`` maps h (N, dim), e (E, dim_edge) or None and the batch to ``(h', e', batch')``. A ``layer_type`` that names
one block uses it alone; sublayers joined by ``+`` go into a :class:`~graphbench.layers.gps.GPSBlock`::

    gt: {layer_type: GraphormerLayer}

Files: ``bigbird``, ``graphormer``, ``performer``, ``san`` (SAN and SAN2), ``pre_norm`` (FFGT and GRPE), ``convolution``
(GCN and GINE), ``gated_gcn_conv`` (the layers of GraphGPS's ``custom_gnn``).
"""
