"""SIMD vectors of 32 or 64 bytes and pointers for numba functions.

LLVM vectorises simple loops by itself, but not always and not in the same way on every machine. The
kernels are explicit instead: ``r = load(gates, j)`` loads eight float32 (or four float64) numbers
into one SIMD register, ``+ - * /`` work on all of them, and numba compiles the rest. With AVX-512
there are twice as many. No sum runs over the lanes of a vector, so the results are the same.
"""

import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from lamatext.kernels.numba_compat import (
    cgutils,
    intrinsic,
    ir,
    models,
    overload,
    register_model,
    types,
)

# The first CPUs with AVX-512 lower their clock for it; they lack this part of it.
VECTOR_BYTES = 64 if llvm.get_host_cpu_features().get("avx512vbmi2") else 32
FLAGS = ("contract",)  # a multiplication and the addition after it may become one FMA


def lanes(scalar: Any) -> int:
    """Return the number of SIMD lanes for a numba data type."""
    return VECTOR_BYTES * 8 // int(scalar.bitwidth)


@intrinsic
def lanes_of(_context: Any, pointer: Any) -> Any:
    """Return the number of SIMD lanes for the element type of a pointer."""

    def build(context: Any, _builder: Any, signature: Any, _values: Any) -> Any:
        return context.get_constant(signature.return_type, lanes(pointer.dtype))

    return types.intp(pointer), build


class Vector(types.Type):  # type: ignore[misc]  # numba has no stubs
    """Numba type for a SIMD vector of float32 or float64 numbers."""

    def __init__(self, scalar: Any) -> None:
        self.scalar = scalar
        super().__init__(name=f"Vector({scalar})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """Numba data model that represents a SIMD vector as an LLVM vector."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        scalar = manager[kind.scalar].get_value_type()
        super().__init__(manager, kind, ir.VectorType(scalar, lanes(kind.scalar)))


def splat(builder: Any, scalar: Any, count: int) -> Any:
    """Return a SIMD vector with ``scalar`` in every lane."""
    whole = ir.VectorType(scalar.type, count)
    first = builder.insert_element(
        ir.Constant(whole, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(whole, ir.Undefined), mask)


def vector_at(builder: Any, pointer: Any, index: Any, count: int) -> Any:
    """Return ``pointer + index`` as a pointer to a SIMD vector of ``count`` numbers."""
    whole = ir.VectorType(pointer.type.pointee, count)
    return builder.bitcast(builder.gep(pointer, [index]), whole.as_pointer())


@intrinsic
def at(_context: Any, array: Any, _index: Any) -> Any:
    """Return a pointer to ``array[index]`` of a flat array, for SIMD loads and stores."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.gep(data, [values[1]])

    return types.CPointer(array.dtype)(array, types.intp), build


@intrinsic
def shift(_context: Any, pointer: Any, _count: Any) -> Any:
    """Advance a pointer by ``count`` elements, for SIMD loads and stores."""

    def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.gep(values[0], [values[1]])

    return pointer(pointer, types.intp), build


@intrinsic
def load(_context: Any, pointer: Any, _index: Any) -> Any:
    """Load the SIMD vector that starts at ``pointer[index]``."""
    scalar = pointer.dtype

    def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        address = vector_at(builder, values[0], values[1], lanes(scalar))
        return builder.load(address, align=scalar.bitwidth // 8)

    return Vector(scalar)(pointer, types.intp), build


@intrinsic
def store(_context: Any, pointer: Any, _index: Any, vector: Any) -> Any:
    """Store a SIMD vector at ``pointer[index]``."""
    scalar = pointer.dtype

    def build(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        address = vector_at(builder, values[0], values[1], lanes(scalar))
        builder.store(values[2], address, align=scalar.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(pointer, types.intp, vector), build


@intrinsic
def take_next(_context: Any, counter: Any) -> Any:
    """Atomically increment a counter and return its previous value, as a numba intrinsic."""

    def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        one = ir.Constant(values[0].type.pointee, 1)
        return builder.atomic_rmw("add", values[0], one, "seq_cst")

    return counter.dtype(counter), build


def _operation(emit: str) -> Any:
    """Create a numba intrinsic for a binary SIMD instruction on vectors or scalars."""

    @intrinsic
    def operation(_context: Any, left: Any, right: Any) -> Any:
        vector = left if isinstance(left, Vector) else right
        numbers = [kind if isinstance(kind, Vector) else vector.scalar for kind in (left, right)]

        def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            whole = [
                value if isinstance(kind, Vector) else splat(builder, value, lanes(kind))
                for kind, value in zip(numbers, values, strict=True)
            ]
            return getattr(builder, emit)(*whole, flags=FLAGS)

        return vector(*numbers), build

    return operation


def _overload_operator(symbol: Callable[[Any, Any], Any], emit: str) -> None:
    """Overload a Python operator for SIMD vectors in numba-compiled code."""
    operation = _operation(emit)

    @overload(symbol)
    def _operator(left: Any, right: Any) -> Any:
        def apply(left: Any, right: Any) -> Any:
            return operation(left, right)

        return apply if isinstance(left, Vector) or isinstance(right, Vector) else None


for _symbol, _emit in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _overload_operator(_symbol, _emit)


@intrinsic
def clamp(_context: Any, vector: Any, _limit: Any) -> Any:
    """Clamp every lane of a SIMD vector to [-limit, limit], leaving NaN unchanged."""
    scalar = vector.scalar

    def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        value, top = values[0], splat(builder, values[1], lanes(scalar))
        bottom = builder.fneg(top)
        value = builder.select(builder.fcmp_ordered(">", value, top), top, value)
        return builder.select(builder.fcmp_ordered("<", value, bottom), bottom, value)

    return vector(vector, scalar), build


@intrinsic
def exp(_context: Any, vector: Any) -> Any:
    """Compute the exponential of every lane of a SIMD vector, as accurately as the C library."""

    def build(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        kind = values[0].type
        scalar = f"f{vector.scalar.bitwidth}"
        name = f"llvm.exp.v{kind.count}{scalar}"
        signature = ir.FunctionType(kind, [kind])
        return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), values)

    return vector(vector), build


def tanh(vector: Any) -> Any:
    """Compute the hyperbolic tangent of every lane of a SIMD vector (compiled code only)."""
    raise NotImplementedError


@overload(tanh)
def _tanh(vector: Any) -> Any:
    return _tanh_rational if vector.scalar == types.float32 else _tanh_exact


def _tanh_exact(vector: Any) -> Any:  # pragma: no cover
    return 1.0 - 2.0 / (exp(vector * 2.0) + 1.0)


def _tanh_rational(vector: Any) -> Any:  # pragma: no cover
    """Approximate tanh of a SIMD vector by Eigen's rational function, accurate to 3 ulp."""
    x = clamp(vector, 7.90531110763549805)
    s = x * x
    p = s * -2.76076847742355e-16 + 2.00018790482477e-13
    p = p * s + -8.60467152213735e-11
    p = p * s + 5.12229709037114e-08
    p = p * s + 1.48572235717979e-05
    p = p * s + 6.37261928875436e-04
    p = p * s + 4.89352455891786e-03
    q = s * 1.19825839466702e-06 + 1.18534705686654e-04
    q = q * s + 2.26843463243900e-03
    q = q * s + 4.89352518554385e-03
    return x * p / q
