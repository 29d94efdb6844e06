"""Message passing along edges: subclasses of :class:`~graphbench.layers.contract.LocalLayer`.

::

    @register("Mean")
    class Mean(LocalLayer):
        def __init__(self, dim_in: FromContext[int], dim_out: FromContext[int]) -> None:
            super().__init__()
            self.lin = nn.Linear(dim_in, dim_out)

        def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
            return self.lin(propagate(batch.adjacency(norm="row"), h)), e

``forward`` maps h (N, dim_in) and e (E, dim_edge) or None to h' (N, dim_out) and e'. Optional class attributes:
``needs_edges`` (refuses e = None), ``has_residual`` (adds its input itself), ``reads_sparse`` (begins with an
:class:`~graphbench.layers.input_linear.InputLinear`). The contract suite ``tests/layers/test_contract.py`` finds every
layer by its registered name. ``graphgym.py`` has the names of GraphGym's ``gnn.layer_type``.
"""
