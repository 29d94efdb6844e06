"""Operators: pure functions of tensors and a partition, no parameters, no state, no configuration.

Contract:

* Shapes: ``q, k`` (N, H, d), ``v`` (N, H, e), the rows of all graphs one after the other, H heads; which rows are a
  graph says a :class:`~graphbench.structures.Ragged` (an ``Adjacency`` where pairs are given). The output has the type
  of ``v``; sums over half precision are taken in float32.
* One public function per operator (``segment`` and ``propagate`` are families) that checks its arguments, raises
  ``ValueError`` with what was received, and takes ``backend="auto" | "reference" | "cpu" | "gpu"``. ``"auto"`` is
  ``"gpu"`` for CUDA tensors where the operator has Triton kernels and Triton is installed, else ``"cpu"``.
* Legal: no graph, empty graphs, graphs of one node, nodes without edges, graphs of any size side by side.
* Graphs are independent: nothing that is in a batch with a graph changes its rows beyond rounding, NaN included.
* Every floating input has a gradient unless its docstring says otherwise; backward passes repeat what is cheaper to
  compute than to keep. Random numbers come from torch's global generator, the same in both passes.
* ``reference.py`` is the equation as a loop over graphs, differentiated by autograd, in any dtype. It is never
  optimised: everything else is tested against it.
* Accuracy: the error against the reference in float64, of the output and of every gradient, is at most twice that of
  the reference in the same dtype plus a few roundings (``assert_within_budget`` of ``tests/ops/ragged_inputs.py``).

A folder holds ``__init__.py`` (the public function, with the equation), ``reference.py``, ``cpu.py`` (torch code, for
other devices as well), ``gpu.py`` and ``gpu_kernels.py`` where there are Triton kernels, and a README with
derivation, gradient, cost and measurements. ``backend.py`` chooses, ``library.py`` makes
public functions nodes of compiled graphs, ``bucket_pairs.py`` and ``gpu_*.py`` are shared.

To add one: write ``reference.py`` and the README's equation first, then ``tests/ops/test_<name>.py`` (the sizes of
``AWKWARD``, gradients, errors in float32, arguments that are refused), then ``cpu.py``, then kernels.
"""
