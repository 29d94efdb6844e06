"""Data sets, one file for each format or collection, found by the registry.

A file holds a subclass of :class:`~graphbench.data.builder.DatasetBuilder`: ``names`` (values of ``dataset.name``),
``card`` (declared facts, without data) and ``load(roots)``. ``zinc.py`` is the smallest example with raw files,
``erdos_renyi.py`` with generated graphs, ``custom.py`` reads the user's own.

``OGB`` and ``PyG`` are collections: builders join them by naming them in ``offered_by``. ``*_files.py`` are readers of
published formats that need a file of their own.
"""
