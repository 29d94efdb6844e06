"""Kernels of :mod:`graphbench.ops.batch_rows.gpu`: where the graphs of a batch lie, and all of their rows."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

VALUES, ENDS, ORDER, GRAPHS = (tl.constexpr(number) for number in range(4))


@triton.jit
def places(
    numbers, ptr, room, offsets, shift, count,
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
        total, rows = tl.sum(size, 0), tl.load(room + level)
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
    numbers, room, offsets, shift, sources, targets, strides,
    places_, padding_graphs,
    KINDS: tl.constexpr, LEVELS: tl.constexpr, WIDTHS: tl.constexpr, SEARCH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """A tile of rows of one field: program (tile, field)."""
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
                _copy(source, target, row, tl.maximum(number, 0), inside, WIDTH, ROWS)
            else:
                begin = offsets + LEVEL * (places_ + padding_graphs + 1)
                limit, total = tl.load(room + LEVEL), tl.load(begin + places_)
                inside, real = row < limit, row < total
                # The last place that begins at or before the row: empty ones are passed over.
                owner = tl.zeros([ROWS], tl.int64)
                for bit in tl.static_range(SEARCH):
                    further = owner + (1 << (SEARCH - 1 - bit))
                    known = further < places_
                    reached = tl.load(begin + further, known, other=0) <= row
                    owner = tl.where(known & reached, further, owner)
                index = tl.where(real, tl.load(shift + LEVEL * places_ + owner) + row, 0)
                if KIND == VALUES:
                    _copy(source, target, row, index, inside, WIDTH, ROWS)
                else:
                    padding = row
                    base = tl.load(begin + owner)
                    if KIND == ENDS:
                        base = tl.load(offsets + owner)
                        first, nodes = tl.load(offsets + places_), tl.load(room)
                        padding = first + (row - total) * (nodes - first) // tl.maximum(limit - total, 1)
                    for end in tl.static_range(2):
                        local = tl.load(source + end * strides[field] + index, inside, other=0).to(tl.int64)
                        tl.store(target + end * limit + row, tl.where(real, local + base, padding), inside)


@triton.jit
def _copy(source, target, row, index, inside, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    SPAN: tl.constexpr = min(triton.next_power_of_2(WIDTH), 32)
    for start in tl.static_range(0, WIDTH, SPAN):
        column = start + tl.arange(0, SPAN)
        valid = inside[:, None] & (column < WIDTH)[None, :]
        values = tl.load(source + index[:, None] * WIDTH + column[None, :], valid)
        tl.store(target + row[:, None] * WIDTH + column[None, :], values.to(target.dtype.element_ty), valid)
