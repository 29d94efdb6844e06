"""Types that flow between packages: ragged batches of graphs, pair distances, and the facts a model is built from."""

from graphbench.structures.adjacency import Adjacency, adjacency
from graphbench.structures.buckets import Bucket, PaddedLayout
from graphbench.structures.capacity import BatchCounts, Capacity, CapacityRagged, RealRows
from graphbench.structures.data_info import DataInfo
from graphbench.structures.data_loaders import (
    AssemblesOnDevice,
    Batches,
    BatchPlan,
    DataLoaders,
    DeviceBatch,
    EvaluationPass,
)
from graphbench.structures.edge_set import EdgeSet
from graphbench.structures.graph_batch import GraphBatch
from graphbench.structures.layer_state import LayerState
from graphbench.structures.pairs import HopNeighbors, PairBlocks
from graphbench.structures.ragged import Ragged
from graphbench.structures.sparse_rows import Features, SparseRows, as_dense

__all__ = [
    "Adjacency",
    "AssemblesOnDevice",
    "BatchCounts",
    "BatchPlan",
    "Batches",
    "Bucket",
    "Capacity",
    "CapacityRagged",
    "DataInfo",
    "DataLoaders",
    "DeviceBatch",
    "EdgeSet",
    "EvaluationPass",
    "Features",
    "GraphBatch",
    "HopNeighbors",
    "LayerState",
    "PaddedLayout",
    "PairBlocks",
    "Ragged",
    "RealRows",
    "SparseRows",
    "adjacency",
    "as_dense",
]
