"""Encoders of node features: subclasses of :class:`~graphbench.encoders.contract.FeatureEncoder`.

``forward`` maps a batch to the first columns (N, dim) of the node states. Inputs are read with
:mod:`graphbench.encoders.inputs`, whose messages name the encoder::

    @register("Scaled")
    class Scaled(FeatureEncoder):
        def __init__(self, dim: FromContext[int], node_in: FromContext[int]) -> None:
            super().__init__()
            self.lin = nn.Linear(node_in, dim)

        def forward(self, batch: GraphBatch) -> Tensor:
            return self.lin(node_features(batch, "Scaled"))
"""
