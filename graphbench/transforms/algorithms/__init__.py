"""Algorithms that several transforms share; nothing here is registered.

- ``cache``: applies transforms to a store, results kept on disk
- ``dense_blocks``: graphs of one size as stacks of dense matrices, whose decompositions several transforms share
- ``large_graphs``: sparse matrices of graphs too large for that
- ``canonical_basis``: singular vectors that do not depend on the library that computed them
- ``bit_search``, ``path_search``: hop distances of all pairs, without and with the paths; ``batch_hops``: of a batch
- ``all_pairs``: memory limit of encodings per pair; ``threads``: small jobs in parallel
"""
