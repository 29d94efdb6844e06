"""One large graph: on disk in pieces, sampled into batches.

Memory does not grow with the number of edges: ``arrays`` maps ``.npy`` files and allocates buffers that may be larger
than memory, ``npz`` unpacks archives into such files, ``cache`` keeps a converted graph, ``reverse_edges`` and
``incoming_edges`` (compressed sparse columns) sort edges in two sweeps, ``generator`` writes random graphs.

``loader`` has the interface of :class:`~graphbench.structures.DataLoaders`; its batches are the parts of a
random ``partition`` or sampled neighbourhoods (``neighbor_sampling``), cut out by ``subgraph``.
"""
