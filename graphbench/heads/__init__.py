"""Prediction heads: subclasses of :class:`~graphbench.heads.contract.Head`, named by ``gnn.head``.

``forward`` maps hidden states h (N, dim_in) and the batch to predictions: (G, out_dim) of graphs, (N, out_dim) of
nodes, or (P, out_dim) of the labelled pairs ``batch.edge_sets["label"]``::

    head = GraphHead(dim_in=64, out_dim=10, pooling="mean")
    logits = head(h, batch)  # (G, 10)

- ``graph``, ``node``, ``edge``: GraphGym's heads, the defaults of the three kinds of tasks.
- ``mlp_graph``, ``san_graph``, ``graphormer_graph``, ``norm_mlp``, ``ogb_code_graph``, ``infer_links``: others.
- ``mlp``, ``pooling``, ``link_ranking``: prediction MLP, pooling functions, ranks of true pairs.
"""
