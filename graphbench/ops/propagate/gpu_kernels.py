"""Triton kernels of sums over the edges of a node. Prefixes of names: ``ops/gpu_tiles.py``; equations: README.

A program handles some nodes and channels and walks through the lists of edges of its nodes side by side: sums have a
fixed order, and nothing is added in memory. ``ptr``, ``entry`` and ``other`` are the fields of a ``Csr``: of the edges
grouped by target in what sums at targets, by source in what sums at sources. ``s_`` are distances between rows in
memory.
"""

import triton
import triton.language as tl


@triton.jit
def locate_nodes(ptr, num_nodes, SPAN: tl.constexpr, ROWS: tl.constexpr):
    """([ROWS] nodes, which of them exist, first edge and number of edges of each, [SPAN] channels)."""
    o_n = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    m_n = o_n < num_nodes
    b_first = tl.load(ptr + o_n, mask=m_n, other=0)
    b_edges = tl.load(ptr + o_n + 1, mask=m_n, other=0) - b_first
    return o_n, m_n, b_first, b_edges, tl.program_id(1) * SPAN + tl.arange(0, SPAN)


@triton.jit
def load_edge(entry, other, b_first, b_edges, i):
    """([ROWS] i-th edge of every node, the node at its other end, whether there is one)."""
    m_e = i < b_edges
    b_edge = tl.load(entry + b_first + i, mask=m_e, other=0)
    return b_edge, tl.load(other + b_first + i, mask=m_e, other=0), m_e


@triton.jit
def load_rows(x, o_x, m_x, s_x, o_c, WIDTH: tl.constexpr, ACC: tl.constexpr):
    """[ROWS, SPAN] of (.., WIDTH) rows; 0 where there is nothing."""
    mask = m_x[:, None] & (o_c < WIDTH)[None, :]
    return tl.load(x + o_x[:, None] * s_x + o_c[None, :], mask=mask, other=0.0).to(ACC)


@triton.jit
def store_rows(x, b_x, o_x, m_x, s_x, o_c, WIDTH: tl.constexpr):
    """Inverse of :func:`load_rows`."""
    mask = m_x[:, None] & (o_c < WIDTH)[None, :]
    tl.store(x + o_x[:, None] * s_x + o_c[None, :], b_x.to(x.dtype.element_ty), mask=mask)


@triton.jit
def sigmoid(b_x):
    """1 / (1 + exp(-x)), in the type of x."""
    return 1.0 / (1.0 + tl.exp(-b_x))


@triton.jit(do_not_specialize=["num_nodes"])
def inverse_roots(
    ptr, entry, other, roots, num_nodes,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """1 / sqrt(1 + number of edges from other nodes) of every node."""
    o_n, m_n, b_first, b_edges, _o_c = locate_nodes(ptr, num_nodes, SPAN, ROWS)
    b_degree = tl.zeros([ROWS], dtype=ACC) + 1.0
    for i in range(0, tl.max(b_edges, 0)):
        _b_edge, b_source, m_e = load_edge(entry, other, b_first, b_edges, i)
        b_degree += (m_e & (b_source != o_n)).to(ACC)
    tl.store(roots + o_n, 1.0 / tl.sqrt(b_degree), mask=m_n)


@triton.jit(do_not_specialize=["num_nodes"])
def sum_with_loops(
    h, roots, ptr, entry, other, out, num_nodes, s_h,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """D^-1/2 (A + I) D^-1/2 h: a loop among the edges does not count, the one of every node does."""
    o_n, m_n, b_first, b_edges, o_c = locate_nodes(ptr, num_nodes, SPAN, ROWS)
    b_root = tl.load(roots + o_n, mask=m_n, other=0.0)
    # [ROWS, SPAN]
    b_out = b_root[:, None] * load_rows(h, o_n, m_n, s_h, o_c, WIDTH, ACC)
    for i in range(0, tl.max(b_edges, 0)):
        _b_edge, b_source, m_e = load_edge(entry, other, b_first, b_edges, i)
        m_e = m_e & (b_source != o_n)
        b_weight = tl.load(roots + b_source, mask=m_e, other=0.0)
        b_out += b_weight[:, None] * load_rows(h, b_source, m_e, s_h, o_c, WIDTH, ACC)
    store_rows(out, b_root[:, None] * b_out, o_n, m_n, WIDTH, o_c, WIDTH)


@triton.jit(do_not_specialize=["num_nodes"])
def relu_sum(
    h, e, eps, ptr, entry, other, out, num_nodes, s_h, s_e,
    OWN: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Sum of relu(h_s + e_st) over the incoming edges of a node; with ``OWN`` plus 1 + eps times its own row."""
    o_n, m_n, b_first, b_edges, o_c = locate_nodes(ptr, num_nodes, SPAN, ROWS)
    # [ROWS, SPAN]
    b_out = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i in range(0, tl.max(b_edges, 0)):
        b_edge, b_source, m_e = load_edge(entry, other, b_first, b_edges, i)
        b_x = load_rows(h, b_source, m_e, s_h, o_c, WIDTH, ACC) + load_rows(e, b_edge, m_e, s_e, o_c, WIDTH, ACC)
        b_out += tl.where(b_x <= 0.0, 0.0, b_x)  # NaN stays NaN
    if OWN:
        b_out += (1.0 + tl.load(eps).to(ACC)) * load_rows(h, o_n, m_n, s_h, o_c, WIDTH, ACC)
    store_rows(out, b_out, o_n, m_n, WIDTH, o_c, WIDTH)


@triton.jit(do_not_specialize=["num_nodes"])
def relu_sum_backward(
    h, e, eps, grad, grad_edge, ptr, entry, other, dh, de, num_nodes, s_h, s_e, s_grad, s_edge,
    OWN: tl.constexpr, EDGES: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of a node and of its outgoing edges.

    ``EDGES``: the rows of the edges have been handed on, and have a gradient from there.
    """
    o_n, m_n, b_first, b_edges, o_c = locate_nodes(ptr, num_nodes, SPAN, ROWS)
    # [ROWS, SPAN]
    b_h = load_rows(h, o_n, m_n, s_h, o_c, WIDTH, ACC)
    b_dh = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i in range(0, tl.max(b_edges, 0)):
        b_edge, b_target, m_e = load_edge(entry, other, b_first, b_edges, i)
        b_x = b_h + load_rows(e, b_edge, m_e, s_e, o_c, WIDTH, ACC)
        b_de = tl.where(b_x > 0.0, load_rows(grad, b_target, m_e, s_grad, o_c, WIDTH, ACC), 0.0)
        b_dh += b_de
        if EDGES:
            b_de += load_rows(grad_edge, b_edge, m_e, s_edge, o_c, WIDTH, ACC)
        store_rows(de, b_de, b_edge, m_e, WIDTH, o_c, WIDTH)
    if OWN:
        b_dh += (1.0 + tl.load(eps).to(ACC)) * load_rows(grad, o_n, m_n, s_grad, o_c, WIDTH, ACC)
    store_rows(dh, b_dh, o_n, m_n, WIDTH, o_c, WIDTH)


@triton.jit(do_not_specialize=["num_nodes"])
def gated_mean(
    target, source, edge, value, own, ptr, entry, other, out, mean, logit, norm, num_nodes, s_target, s_source, s_edge,
    s_value, s_own, OWN: tl.constexpr, APART: tl.constexpr, EPS: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gated mean of the incoming edges of a node, the sum of its gates plus eps, and the logits of these edges.

    ``OWN``: ``out`` is the mean plus what the node itself adds. ``APART``: ``out`` is not ``mean`` then, or rounded.
    """
    o_n, m_n, b_first, b_edges, o_c = locate_nodes(ptr, num_nodes, SPAN, ROWS)
    # [ROWS, SPAN]
    b_target = load_rows(target, o_n, m_n, s_target, o_c, WIDTH, ACC)
    b_out, b_norm = tl.zeros([ROWS, SPAN], dtype=ACC), tl.zeros([ROWS, SPAN], dtype=ACC)
    for i in range(0, tl.max(b_edges, 0)):
        b_edge, b_source, m_e = load_edge(entry, other, b_first, b_edges, i)
        b_logit = b_target + load_rows(source, b_source, m_e, s_source, o_c, WIDTH, ACC)
        b_logit += load_rows(edge, b_edge, m_e, s_edge, o_c, WIDTH, ACC)
        store_rows(logit, b_logit, b_edge, m_e, WIDTH, o_c, WIDTH)
        b_gate = tl.where(m_e[:, None], sigmoid(b_logit), 0.0)
        b_norm += b_gate
        b_out += b_gate * load_rows(value, b_source, m_e, s_value, o_c, WIDTH, ACC)
    b_norm += EPS
    b_out = b_out / b_norm
    store_rows(mean, b_out, o_n, m_n, WIDTH, o_c, WIDTH)
    store_rows(norm, b_norm, o_n, m_n, WIDTH, o_c, WIDTH)
    if OWN:
        b_out += load_rows(own, o_n, m_n, s_own, o_c, WIDTH, ACC)
    if APART:
        store_rows(out, b_out, o_n, m_n, WIDTH, o_c, WIDTH)


@triton.jit(do_not_specialize=["num_nodes"])
def gated_mean_at_target(
    value, mean, logit, norm, grad, grad_logit, ptr, entry, other, dtarget, down, dedge, num_nodes, s_value, s_grad,
    s_logit, s_parts, OWN: tl.constexpr, EDGES: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr,
    ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of the logits of the incoming edges of a node, and their sum.

    ``OWN``: the gradient of what the node itself adds is copied beside it. ``EDGES``: the logits have a gradient of
    their own besides.
    """
    o_n, m_n, b_first, b_edges, o_c = locate_nodes(ptr, num_nodes, SPAN, ROWS)
    # [ROWS, SPAN]
    b_mean = load_rows(mean, o_n, m_n, WIDTH, o_c, WIDTH, ACC)
    b_along = load_rows(grad, o_n, m_n, s_grad, o_c, WIDTH, ACC)
    if OWN:
        store_rows(down, b_along, o_n, m_n, s_parts, o_c, WIDTH)
    b_along = tl.where(m_n[:, None], b_along / load_rows(norm, o_n, m_n, WIDTH, o_c, WIDTH, ACC), 0.0)
    b_dtarget = tl.zeros([ROWS, SPAN], dtype=ACC)
    for i in range(0, tl.max(b_edges, 0)):
        b_edge, b_source, m_e = load_edge(entry, other, b_first, b_edges, i)
        b_gate = sigmoid(load_rows(logit, b_edge, m_e, WIDTH, o_c, WIDTH, ACC))
        b_change = load_rows(value, b_source, m_e, s_value, o_c, WIDTH, ACC) - b_mean
        b_dlogit = b_along * b_change * b_gate * (1.0 - b_gate)
        if EDGES:
            b_dlogit += load_rows(grad_logit, b_edge, m_e, s_logit, o_c, WIDTH, ACC)
        store_rows(dedge, b_dlogit, b_edge, m_e, WIDTH, o_c, WIDTH)
        b_dtarget += tl.where(m_e[:, None], b_dlogit, 0.0)
    store_rows(dtarget, b_dtarget, o_n, m_n, s_parts, o_c, WIDTH)


@triton.jit(do_not_specialize=["num_nodes"])
def gated_mean_at_source(
    logit, norm, grad, dedge, ptr, entry, other, dsource, dvalue, num_nodes, s_grad, s_parts,
    WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of what a node sends: its part of the logits and its value, summed over its outgoing edges."""
    o_n, m_n, b_first, b_edges, o_c = locate_nodes(ptr, num_nodes, SPAN, ROWS)
    # [ROWS, SPAN]
    b_dsource, b_dvalue = tl.zeros([ROWS, SPAN], dtype=ACC), tl.zeros([ROWS, SPAN], dtype=ACC)
    for i in range(0, tl.max(b_edges, 0)):
        b_edge, b_target, m_e = load_edge(entry, other, b_first, b_edges, i)
        b_dsource += load_rows(dedge, b_edge, m_e, WIDTH, o_c, WIDTH, ACC)
        b_along = load_rows(grad, b_target, m_e, s_grad, o_c, WIDTH, ACC)
        b_norm = tl.where(m_e[:, None], load_rows(norm, b_target, m_e, WIDTH, o_c, WIDTH, ACC), 1.0)
        b_dvalue += b_along / b_norm * sigmoid(load_rows(logit, b_edge, m_e, WIDTH, o_c, WIDTH, ACC))
    store_rows(dsource, b_dsource, o_n, m_n, s_parts, o_c, WIDTH)
    store_rows(dvalue, b_dvalue, o_n, m_n, s_parts, o_c, WIDTH)
