"""Positional and structural encodings, named after the feature encoder (``TypeDictNode+LapPE+RWSE``).

A :class:`~graphbench.encoders.contract.ColumnEncoder` maps a batch to (N, dim_pe), or (E, dim_pe) with
``level = "edge"``; a :class:`~graphbench.encoders.contract.BatchEncoder` maps ``(h, batch)`` to ``(h', batch')``. The
class attribute ``transform`` names the transform whose output it reads
(``self.encoding(batch, output)``); keys of ``posenc_<Name>`` are arguments of both::

    posenc_RWSE: {enable: true, dim_pe: 16, kernel: {times_func: "range(1,17)"}}

Files: ``lap_pe``, ``add_lap_pe``, ``equiv_stable_lap_pe``, ``sign_net`` (Laplacian eigenvectors), ``kernel_se`` (RWSE,
HKdiagSE, ElstaticSE), ``rwse_edge``, ``effective_resistance`` (ERN, ERE), ``svd_pe``, ``graphormer_bias``,
``graph_token``.
"""
