"""Small matrix products (matmul) for numba kernels, computed in tiles that fit the registers.

BLAS is made for large matrices; a step of a recurrent network multiplies a few rows. Here a tile
of 4 rows by a few vectors is accumulated in registers over the whole depth, and one load of the
right-hand matrix serves all rows. Reference implementation: ``numpy.matmul``.
"""

from itertools import product
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from lamatext.kernels.numba_compat import cgutils, compiled, intrinsic, types
from lamatext.kernels.simd import FLAGS, at, lanes, lanes_of, shift, splat, vector_at

ROWS = 4  # per tile; with 6 vectors: 24 sums, 6 loaded vectors and 1 broadcast are 31 registers
VECTORS = 6 if llvm.get_host_cpu_features().get("avx512vl") else 3

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


class Matrix(NamedTuple):
    """Strided matrix operand of the tiled matmul: a pointer with two strides.

    Element (i, j) is at ``data[i * row + j * step]``; if ``row`` is 0, all rows are the same.
    """

    data: Any
    row: int
    step: int


@intrinsic
def _tile(
    _context: Any,
    out: Any,
    start: Any,
    left: Any,
    right: Any,
    _depth: Any,
    _rows: Any,
    _vectors: Any,
) -> Any:
    """Compute one matmul tile of at most ROWS rows and VECTORS SIMD vectors (numba intrinsic)."""
    scalar = out.types[0].dtype
    count = lanes(scalar)

    def build(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        *operands, depth, rows, vectors = values
        done = builder.append_basic_block("done")
        size = rows.type
        case = builder.add(builder.mul(rows, size(VECTORS + 1)), vectors)
        switch = builder.switch(case, done)
        for shape in product(range(1, ROWS + 1), range(1, VECTORS + 1)):
            block = builder.append_basic_block(f"tile{shape[0]}x{shape[1]}")
            switch.add_case(size(shape[0] * (VECTORS + 1) + shape[1]), block)
            builder.position_at_end(block)
            _emit_tile(builder, operands, depth, shape, count)
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    sizes = (types.intp,) * 3
    return types.void(out, start, left, right, *sizes), build


def _emit_tile(builder: Any, operands: Any, depth: Any, shape: tuple[int, int], count: int) -> None:
    """Emit the LLVM code that computes one tile of a matmul."""
    out, start, left, right = (_Operand(builder, value) for value in operands)
    places = list(product(range(shape[0]), range(shape[1])))
    size = depth.type
    sums = {}
    for i, j in places:
        sums[i, j] = cgutils.alloca_once_value(
            builder, builder.load(start.vector(size(i), size(j * count), count), align=4)
        )
    with cgutils.for_range(builder, depth) as loop:
        words = [
            builder.load(right.vector(loop.index, size(j * count), count), align=4)
            for j in range(shape[1])
        ]
        for i in range(shape[0]):
            factor = splat(builder, builder.load(left.scalar(size(i), loop.index)), count)
            for j in range(shape[1]):
                term = builder.fmul(factor, words[j], flags=FLAGS)
                total = builder.fadd(builder.load(sums[i, j]), term, flags=FLAGS)
                builder.store(total, sums[i, j])
    for i, j in places:
        address = out.vector(size(i), size(j * count), count)
        builder.store(builder.load(sums[i, j]), address, align=4)


class _Operand:
    """Matrix operand of a matmul as LLVM values, to compute the addresses of its elements."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.data, self.row, self.step = (builder.extract_value(value, part) for part in range(3))

    def scalar(self, i: Any, j: Any) -> Any:
        """Return an LLVM pointer to one element of this matmul operand."""
        build = self.builder
        return build.gep(self.data, [build.add(build.mul(i, self.row), build.mul(j, self.step))])

    def vector(self, i: Any, j: Any, count: int) -> Any:
        """Return an LLVM pointer to a SIMD vector in a row of this matmul operand.

        The vector holds ``count`` elements of row i from column j on; the step must be 1.
        """
        build = self.builder
        return vector_at(build, self.data, build.add(build.mul(i, self.row), j), count)


@compiled
def matrix(array: Floats, start: int, row: int) -> Matrix:  # pragma: no cover
    """Create a matmul operand that starts at ``array[start]`` and has the row stride ``row``."""
    return Matrix(at(array, start), row, 1)


@compiled
def multiply(  # noqa: PLR0913 - four operands and three sizes
    out: Matrix, start: Matrix, left: Matrix, right: Matrix, rows: int, columns: int, depth: int
) -> None:  # pragma: no cover
    """Compute a tiled matmul plus initial values: out = start + left · right.

    ``out`` and ``start`` are (rows, columns), ``left`` is (rows, depth) and ``right`` is (depth,
    columns). ``columns`` is a multiple of the SIMD lanes; the steps of ``out``, ``start`` and
    ``right`` are 1. ``out`` may be ``start``.
    """
    width = lanes_of(out.data)
    vectors = columns // width
    tiles = -(-vectors // VECTORS)
    for tile in range(tiles):
        first = vectors * tile // tiles
        count = vectors * (tile + 1) // tiles - first
        j = first * width
        for i in range(0, rows, ROWS):
            _tile(
                Matrix(shift(out.data, i * out.row + j), out.row, 1),
                Matrix(shift(start.data, i * start.row + j), start.row, 1),
                Matrix(shift(left.data, i * left.row), left.row, left.step),
                Matrix(shift(right.data, j), right.row, 1),
                depth,
                min(ROWS, rows - i),
                count,
            )
