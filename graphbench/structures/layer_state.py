"""State that encoders and layers pass on to later layers of one forward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, eq=False)
class LayerState:
    """Tensors that travel with the batch through one forward pass, set with :meth:`GraphBatch.with_state`.

    Attributes:
        pair_bias: (sum n_g^2, heads) added to attention scores, in the order of
            :class:`~graphbench.structures.PairBlocks`; GraphormerBias computes it, BiasedTransformer reads it.
        stable_encoding: (N, dim_pe) the encoding of EquivStableLapPE or -RWSE; local layers gate edges by it.
        edge_states: hidden states (M, dim_edge) of the pairs of an edge set, by the set's name.
        virtual_nodes: (V * G, dim) states of Exphormer's virtual nodes, row v * G + g for node v of graph g.
        virtual_edges: (2 V, dim_edge) features of their edges, row 2 v for node -> virtual node, 2 v + 1 back.
        seed_nodes: (R,) int64 nodes whose predictions count; a model may leave others uncomputed. None: all.
        extra: tensors of components outside the package, by a name of their own.
    """

    pair_bias: Tensor | None = None
    stable_encoding: Tensor | None = None
    edge_states: Mapping[str, Tensor] = field(default_factory=dict)
    virtual_nodes: Tensor | None = None
    virtual_edges: Tensor | None = None
    seed_nodes: Tensor | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors that are set, by name."""
        for declared in dataclasses.fields(self):
            value = getattr(self, declared.name)
            if isinstance(value, Mapping):
                yield from value.items()
            elif value is not None:
                yield declared.name, value
