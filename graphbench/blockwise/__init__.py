"""Evaluation of one large graph block by block of its nodes: the predictions of a forward pass, in bounded memory.

A :class:`~graphbench.blockwise.model.BlockwiseModel` has ``forward_blockwise(graph)`` next to ``forward(batch)``. It
applies its parts one after the other, each to all blocks, through :class:`~graphbench.blockwise.forward.Blockwise`::

    blocks = Blockwise(graph, model)                    # graph: structures.NodeBlocks, e.g. StoredBlocks(store)
    h = blocks.nodes(model.encoder)
    for block in model.layers:
        h, e = blocks.step(block, h, e)
    prediction = blocks.rows(model.head, h).tensor      # (N, out_dim) on the host

``stored.py``: blocks of a store. ``neighborhood.py``, ``part.py``: the batches that layers see of a block; whatever
needs the whole graph raises there, and the message names the module. A layer is exact in blocks if it reads incoming
edges only (``LocalLayer``), or all nodes through sums only (``BlockwiseAttention``).
"""
