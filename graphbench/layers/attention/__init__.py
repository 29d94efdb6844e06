"""Global attention: subclasses of :class:`~graphbench.layers.contract.GlobalAttention`.

::

    @register("MeanField")
    class MeanField(GlobalAttention):
        def __init__(self, dim: FromContext[int], *, scale: float = 1.0) -> None:  # gt.MeanField.scale is a key
            super().__init__()
            self.scale = scale
            self.lin = nn.Linear(dim, dim)

        def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
            mean = segment_mean(self.lin(h), batch.ragged)
            return self.scale * segment_repeat(mean, batch.ragged)

``forward`` maps h (N, dim) to h' (N, dim), without residual and norm, graph by graph, without padding. An attention
that passes state to the next block is a :class:`~graphbench.layers.contract.StatefulAttention` and returns
``(h', batch')``; one that reads other nodes through sums only may be a
:class:`~graphbench.layers.contract.BlockwiseAttention`. Transforms that it needs are returned by
``required_transforms``. ``attention_weights`` and ``statistics`` come with the mixins of :mod:`graphbench.contract`.
"""
