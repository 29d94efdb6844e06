"""Transforms: encodings computed once per data set, and kept on disk.

A transform is a subclass of :class:`~graphbench.transforms.base.Transform`: ``transform(store)`` returns tensors by
name, whose rows belong to nodes, edges or pairs (``level``). ``algorithms.cache.apply`` adds them to a store::

    store = apply(store, {"RWSE": RandomWalkSE([1, 2, 4])}, cache_dir)
    store.pe["RWSE.landing"]                                          # (N, 3)

What they make of graphs that are not simple, undirected and connected (details in each docstring, all tested):

============================================ =============== ============== ======== ==================================
transform                                    one-way edges   repeated edges loops    components
============================================ =============== ============== ======== ==================================
LaplacianPE                                  made two-way    count          left out 0 is an eigenvalue once for each
Wavelets                                     made two-way    count          left out a single node has e^-s
HeatKernelSE                                 made two-way    count          left out what stays in each is taken off
ElectrostaticSE                              made two-way    count          left out L^+ of each; statistics over all
EdgeResistance, EffectiveResistance          made two-way    count          left out L^+ of each
RandomWalkSE, RandomWalkEdgeSE               stay one-way    count          count    no way: 0; no way out: 0
ShortestPaths, HopNeighbors, GraphormerPaths stay one-way    change nothing nothing  no way: 255 (or not listed)
EgoNetEdges                                  stay one-way    listed each    listed   no way: not in a net
RicciCurvature                               made two-way    count once     left out nothing: both ends lie in one
SubstructureCounts, EdgeSubstructureCounts   made two-way    count once     left out nothing: a substructure lies in one
UndirectedEdges, Rings, RingEdges            made two-way    count once     left out nothing: a ring lies in one
Motifs, MotifNodes                           made two-way    count once     left out nothing: a motif lies in one
CosineSimilarity                             value per edge  value per edge 1        nothing
TruncatedSVD                                 stay one-way    count          count    no way: 0
Expander                                     none of the edges are looked at
============================================ =============== ============== ======== ==================================

``HopNeighbors(undirected=True)`` walks edges both ways. Where one-way edges are made two-way, this happens to each
graph that has one, and repeated edges of such a graph count once. Laplacian eigenvectors include the trivial one,
have any sign, and any basis inside a repeated eigenvalue (as in the code that published numbers come from); singular
vectors have a canonical sign and basis; everything else depends on neither. Float32 results of float64 arithmetic.
"""
