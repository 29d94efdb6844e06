"""ANS-GT, a Transformer on sequences of nodes (https://arxiv.org/abs/2210.03930).

- ``sampling_tables``, ``proximity``: what is computed once per graph: candidates of samplers, super-nodes, powers of
  the adjacency.
- ``bandit``, ``sequences``: shares of the samplers, and the sequences of a round.
- ``block``, ``model``: the Transformer.
"""
