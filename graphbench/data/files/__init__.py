"""Files: where raw data is looked for, how it is downloaded and read, and what is kept of it.

``roots`` finds raw files (``dataset.dir``, ``$GRAPHBENCH_DATA``) or downloads them (``download``); ``raw_files`` and
``molecules`` read the published formats without executing anything inside them. ``cached_graphs`` and ``tensor_cache``
keep results by the content of what they were computed from, verified by ``checksums``; ``progress`` shows how far a
long computation is. A builder uses them in this order::

    root = roots.require(card.name, card.files, urls, card.sha256)
    store, splits = cached_graphs(roots, "ZINC", name, files, read)
    card.check(store, str(root))
"""
