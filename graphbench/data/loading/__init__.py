"""Loading: the batches of training and evaluation.

:class:`~graphbench.data.loading.loader.GraphLoaders` is what a training loop sees::

    for batch, rows in loaders.train(epoch): ...          # rows of the prediction that count, None: all
    for evaluation in loaders.passes:                     # EvaluationPass
        for batch, rows in evaluation.batches(): ...           # evaluation.rows: part of the split -> rows

``batching`` composes an epoch (shuffled or bucketed by size, within a node budget, a shard per process), ``negatives``
draws negative pairs, ``prefetch`` computes the next batch while one is in use. Order and draws depend on seed and epoch
alone, so that a resumed run sees what it would have seen.
"""
