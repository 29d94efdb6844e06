"""Data sets: from raw files to batches on the device.

A data set is a :class:`~graphbench.data.builder.DatasetBuilder` in ``datasets``: a card (declared facts, without data)
and ``load(roots)``, which returns a :class:`~graphbench.data.store.GraphStore` and the published splits. A store holds
all graphs as concatenated tensors; ``store.gather([4, 2])`` makes a batch of any of them::

    store = ZINC("subset").load(Roots.from_environment("datasets")).store
    batch = store.gather([4, 2])                # GraphBatch of two molecules

``files``: downloads, raw formats, caches. ``large``: one graph that does not fit into memory or a batch. ``loading``:
batches of an epoch. Here: stores (``store*``, ``stored_pairs``, ``row_selection``, ``gather``), input of single graphs
(``graph_records``, ``edge_lists``, ``single_graph``, ``sparse_features``), splits, generators.
"""
