"""Kernels of :mod:`graphbench.ops.batch_rows.gpu`: where the graphs of a batch lie, and all of their rows."""

import triton
import triton.language as tl

from graphbench.ops.gpu_tiles import copy_rows

VALUES, ENDS, ORDER, GRAPHS, REAL, REAL_GRAPHS, LISTS = (tl.constexpr(number) for number in range(7))


@triton.jit
def places(
    numbers, ptr, capacity, offsets, shift, count,
    graphs, places_, padding_graphs, max_size,
    LEVELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program: offsets of all kinds of rows by place, and what leads from a row of the batch to the data set's.

    ``graphs`` of the data set, B ``places_`` of the batch, K ``padding_graphs`` of at most ``max_size`` nodes.
    """
    place = tl.arange(0, BLOCK)
    number = tl.load(numbers + place, place < places_, other=-1)
    present = number >= 0
    graph = tl.where(present, number, 0)
    all_graphs = places_ + padding_graphs
    for level in tl.static_range(LEVELS):
        first = tl.load(ptr + level * (graphs + 1) + graph, place < places_, other=0)
        after = tl.load(ptr + level * (graphs + 1) + graph + 1, place < places_, other=0)
        size = tl.where(present, after - first, 0)
        end = tl.cumsum(size, 0)
        total, rows = tl.sum(size, 0), tl.load(capacity + level)
        tl.store(shift + level * places_ + place, first - (end - size), place < places_)
        begin = offsets + level * (all_graphs + 1)
        tl.store(begin + place, end - size, place < places_)
        behind = total
        if level == 0:
            behind = tl.minimum(total + place * max_size, rows)
        behind = tl.where(place == padding_graphs, rows, behind)
        tl.store(begin + places_ + place, behind, place <= padding_graphs)
    tl.store(count, tl.sum(present.to(tl.int64), 0))


@triton.jit
def rows(
    numbers, capacity, offsets, shift, sources, targets, strides,
    places_, padding_graphs,
    KINDS: tl.constexpr, LEVELS: tl.constexpr, WIDTHS: tl.constexpr, EDGES: tl.constexpr, SEARCH: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """A tile of rows of one field: program (tile, field). ``EDGES``: the field of the ends that lists are made of."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    for field in tl.static_range(len(KINDS)):
        if tl.program_id(1) == field:
            KIND: tl.constexpr = KINDS[field]
            LEVEL: tl.constexpr = LEVELS[field]
            WIDTH: tl.constexpr = WIDTHS[field]
            source, target = sources[field], targets[field]
            if KIND == GRAPHS:
                inside = row < places_ + padding_graphs
                number = tl.load(numbers + row, row < places_, other=0)
                copy_rows(source, target, row, tl.maximum(number, 0), inside, WIDTH)
            elif KIND == REAL_GRAPHS:
                number = tl.load(numbers + row, row < places_, other=-1)
                tl.store(target + row, (number >= 0).to(tl.uint8), row < places_ + padding_graphs)
            elif KIND == REAL:
                total = tl.load(offsets + LEVEL * (places_ + padding_graphs + 1) + places_)
                tl.store(target + row, (row < total).to(tl.uint8), row < tl.load(capacity + LEVEL))
            elif KIND == LISTS:
                _lists(source, sources[EDGES], target, offsets, shift, capacity, row, strides[field], strides[EDGES],
                       places_, padding_graphs, LEVEL, SEARCH, ROWS)  # fmt: skip
            else:
                begin = offsets + LEVEL * (places_ + padding_graphs + 1)
                limit, total = tl.load(capacity + LEVEL), tl.load(begin + places_)
                inside, real = row < limit, row < total
                owner = _owner(begin, row, places_, SEARCH, ROWS)
                index = tl.where(real, tl.load(shift + LEVEL * places_ + owner) + row, 0)
                if KIND == VALUES:
                    copy_rows(source, target, row, index, inside, WIDTH)
                else:
                    padding = row
                    base = tl.load(begin + owner)
                    if KIND == ENDS:
                        base = tl.load(offsets + owner)
                        padding = _padding_end(offsets, capacity, row, total, limit, places_)
                    for end in tl.static_range(2):
                        local = tl.load(source + end * strides[field] + index, inside, other=0).to(tl.int64)
                        tl.store(target + end * limit + row, tl.where(real, local + base, padding), inside)


@triton.jit
def _owner(begin, row, places_, SEARCH: tl.constexpr, ROWS: tl.constexpr):
    """The last place that begins at or before a row: empty ones are passed over."""
    owner = tl.zeros([ROWS], tl.int64)
    for bit in tl.static_range(SEARCH):
        further = owner + (1 << (SEARCH - 1 - bit))
        known = further < places_
        reached = tl.load(begin + further, known, other=0) <= row
        owner = tl.where(known & reached, further, owner)
    return owner


@triton.jit
def _padding_end(offsets, capacity, row, total, limit, places_):
    """The padding node at both ends of a padding edge."""
    first, nodes = tl.load(offsets + places_), tl.load(capacity)
    return first + (row - total) * (nodes - first) // tl.maximum(limit - total, 1)


@triton.jit
def _lists(
    order, edges, target, offsets, shift, capacity, row, s_order, s_edges, places_, padding_graphs,
    LEVEL: tl.constexpr, SEARCH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Edges grouped by target, then by source: the node at the other end of each, and where the lists of nodes begin.

    ``target`` is (2, E) other ends, behind which lie two lines of N + 1 beginnings, of even length.
    """
    begin = offsets + LEVEL * (places_ + padding_graphs + 1)
    limit, total, nodes = tl.load(capacity + LEVEL), tl.load(begin + places_), tl.load(capacity)
    for line in tl.static_range(2):
        # [ROWS] node that the edge in front of a row is grouped by, and the one that its own is.
        before, _other = _grouped(
            order + line * s_order, edges, 1 - line, s_edges, offsets, shift, capacity, begin, row - 1, total, limit,
            places_, LEVEL, SEARCH, ROWS,
        )  # fmt: skip
        key, other = _grouped(
            order + line * s_order, edges, 1 - line, s_edges, offsets, shift, capacity, begin, row, total, limit,
            places_, LEVEL, SEARCH, ROWS,
        )  # fmt: skip
        tl.store(target + line * limit + row, other, row < limit)
        before = tl.where(row == 0, -1, before)
        key = tl.where(row < limit, key, tl.where(row == limit, nodes, before))
        for step in range(1, tl.max(key - before, 0) + 1):
            node = before + step
            tl.store(target + 2 * limit + line * ((nodes + 2) // 2 * 2) + node, row, node <= key)


@triton.jit
def _grouped(
    order, edges, end, s_edges, offsets, shift, capacity, begin, row, total, limit, places_,
    LEVEL: tl.constexpr, SEARCH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """([ROWS] node at that end of the edge which an order has at a row, the node at the other end)."""
    real = (row >= 0) & (row < total)
    owner = _owner(begin, tl.maximum(row, 0), places_, SEARCH, ROWS)
    further = tl.load(shift + LEVEL * places_ + owner)
    # Local number of the edge, and from it its row in the data set.
    edge = tl.load(order + tl.where(real, further + row, 0), real, other=0).to(tl.int64)
    index = tl.where(real, edge + tl.load(begin + owner) + further, 0)
    base, padding = tl.load(offsets + owner), _padding_end(offsets, capacity, row, total, limit, places_)
    node = tl.load(edges + end * s_edges + index, real, other=0).to(tl.int64) + base
    other = tl.load(edges + (1 - end) * s_edges + index, real, other=0).to(tl.int64) + base
    return tl.where(real, node, padding), tl.where(real, other, padding)
