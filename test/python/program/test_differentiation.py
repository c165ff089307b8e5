# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""(J1) to (J4) Gradients of imported programs are close to finite differences in f64, and have the same bits in the
reference interpreter and in compiled code for CPUs and GPUs."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from repro_mlir.program import canonicalize
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.differentiation import differentiate
from repro_mlir.reference.interpreter import Interpreter
from support import device_kit, kit
from support.builder import Builder, Value, tensor

STEP = 1e-6


def _main(arguments: str, result: str, body: str) -> str:
    return f"""
func.func @main({arguments}) -> {result} attributes {{repro.num_state = 0 : i64}} {{
{body}
return %r : {result}
}}
"""


def _generic(body: str, maps: Sequence[str], iterators: str, ins: str, init: str, result: str) -> str:
    kinds = ", ".join('"parallel"' if c == "p" else '"reduction"' for c in iterators)
    all_maps = ", ".join(f"affine_map<{each}>" for each in maps)
    return f"""%r = linalg.generic {{indexing_maps = [{all_maps}], iterator_types = [{kinds}]}}
    ins({ins}) outs({init} : {result}) {{
{body}
}} -> {result}"""


def _program(write: Callable[..., Value], *shapes: Sequence[int]) -> str:
    """Returns a program of f64 arguments with one result."""
    b = Builder()
    return b.program(write(b, *(b.argument(shape, "f64") for shape in shapes)))


def _elementwise(body: str, operands: int = 2, count: int = 5, element: str = "f64") -> str:
    b = Builder()
    return b.program(b.elementwise(body, *(b.argument((count,), element) for _ in range(operands)), element=element))


def _fold(step: str, initial: float, maps: Sequence[str], iterators: str, x: Sequence[int], r: Sequence[int]) -> str:
    body = f"^bb0(%a: f64, %o: f64):\n%z = {step} : f64\nlinalg.yield %z : f64"
    init = f"%e = arith.constant dense<{initial}> : {tensor(r, 'f64')}"
    operation = _generic(body, maps, iterators, f"%x : {tensor(x, 'f64')}", "%e", tensor(r, "f64"))
    return _main(f"%x: {tensor(x, 'f64')}", tensor(r, "f64"), f"{init}\n{operation}")


PROGRAMS = {
    "add": _elementwise("%r0 = arith.addf %x0, %x1 : f64"),
    "subtract": _elementwise("%r0 = arith.subf %x0, %x1 : f64"),
    "multiply": _elementwise("%r0 = arith.mulf %x0, %x1 : f64"),
    "divide": _elementwise("%r0 = arith.divf %x0, %x1 : f64"),
    "remainder": _elementwise("%r0 = arith.remf %x0, %x1 : f64"),
    "maximum": _elementwise("%r0 = arith.maximumf %x0, %x1 : f64"),
    "minimum": _elementwise("%r0 = arith.minimumf %x0, %x1 : f64"),
    "negate": _elementwise("%r0 = arith.negf %x0 : f64"),
    "absolute": _elementwise("%r0 = math.absf %x0 : f64"),
    "copysign": _elementwise("%r0 = math.copysign %x0, %x1 : f64"),
    "root": _elementwise("%s = arith.mulf %x0, %x0 : f64\n%r0 = math.sqrt %s : f64"),
    "fma": _elementwise("%r0 = math.fma %x0, %x1, %x0 : f64"),
    "floor": _elementwise("%s = math.floor %x0 : f64\n%r0 = arith.mulf %s, %x1 : f64"),
    "select": _elementwise(
        "%c = arith.cmpf olt, %x0, %x1 : f64\n%m = arith.mulf %x0, %x1 : f64\n%r0 = arith.select %c, %x0, %m : f64"
    ),
    "reused": _elementwise(
        "%s = arith.mulf %x0, %x1 : f64\n%t = arith.addf %s, %x0 : f64\n%r0 = arith.mulf %s, %t : f64"
    ),
    "sum": _fold("arith.addf %a, %o", 0.5, ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0)"], "pr", [3, 4], [3]),
    "sum_of_all": _fold("arith.addf %a, %o", 0.0, ["(d0, d1) -> (d0, d1)", "(d0, d1) -> ()"], "rr", [3, 4], []),
    "product": _fold("arith.mulf %a, %o", 2.0, ["(d0, d1) -> (d1, d0)", "(d0, d1) -> (d0)"], "pr", [4, 3], [3]),
    "greatest": _fold("arith.maximumf %a, %o", -9.0, ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d1)"], "rp", [3, 4], [4]),
    "least": _fold("arith.minimumf %a, %o", 9.0, ["(d0, d1) -> (d0, d1)", "(d0, d1) -> (d1)"], "rp", [3, 4], [4]),
}

_WINDOW = """%w = tensor.empty() : tensor<3xf64>
%e = arith.constant dense<{initial}> : tensor<4xf64>
%r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> ({index})>, affine_map<(d0, d1) -> (d1)>,
    affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}}
    ins(%x, %w : tensor<{extent}xf64>, tensor<3xf64>) outs(%e : tensor<4xf64>) {{
^bb0(%a: f64, %v: f64, %o: f64):
  %z = {step} %a, %o : f64
  linalg.yield %z : f64
}} -> tensor<4xf64>"""


def _window(index: str, extent: int, step: str, initial: float) -> str:
    body = _WINDOW.format(index=index, extent=extent, step=step, initial=initial)
    return _main(f"%x: tensor<{extent}xf64>", "tensor<4xf64>", body)


def _read(index: str, extent: int) -> str:
    body = "%r0 = arith.mulf %x0, %x0 : f64"
    return _program(lambda b, x: b.generic((6,), [(x, index)], body, "f64")[0], (extent,))


def _gathered(b: Builder, x: Value) -> Value:
    rows = b.constant("dense<[3, 0, 3, 1, 3, 0]>", (6,), "i64")
    body = (
        "%one = arith.constant 1 : index\n%row = arith.index_cast %x0 : i64 to index\n"
        f"%r0 = tensor.extract {x.name}[%row, %one] : {x.type}"
    )
    return b.elementwise(body, rows, element="f64")


def _slices(b: Builder, x: Value, y: Value) -> Value:
    part, inserted = b.slice(x, [0, 1], [2, 2], [2, 1]), b.insert(y, x, [1, 0], [2, 2], [1, 2])
    return b.concat(0, inserted, b.pad(part, [0, 1], [0, 1], b.constant("0.0", None, "f64")))


def _scalars(b: Builder, x: Value) -> Value:
    first, second = (b.extract(x, b.constant(str(i), None, "index")) for i in range(2))
    product = b.op(f"arith.mulf {first.name}, {second.name} : f64", None, "f64")
    return b.from_elements((2,), product, second)


def _scan(combine: str) -> str:
    operation = f"repro.scan {combine} dimension = 1"
    return _program(lambda b, x: b.call(operation, [x], [b.empty((2, 4), "f64")])[0], (2, 4))


def _sorted(b: Builder, x: Value, y: Value) -> Value:
    empty = b.empty((2, 4), "f64")
    return b.concat(0, *b.call("repro.sort descending dimension = 1", [x, y], [empty, empty]))


def _greatest(b: Builder, x: Value) -> Value:
    return b.call("repro.arg_reduce max dimension = 1", [x], [b.empty((3,), "f64"), b.empty((3,), "i64")])[0]


def _scatter(combine: str) -> str:
    def write(b: Builder, x: Value, y: Value) -> Value:
        rows = b.constant("dense<[[3], [0], [3], [1], [3]]>", (5, 1), "i64")
        return b.call(f"repro.scatter {combine}", [y, rows], [x])[0]

    return _program(write, (4, 2), (5, 2))


PROGRAMS |= {
    # (J4) Some elements are read by several points of the iteration space, others by none.
    "windows": _window("d0 * 2 + d1", 9, "arith.addf", 0.0),
    "overlapping_windows": _window("d0 + d1 * 2", 8, "arith.addf", 0.0),
    "greatest_of_windows": _window("d0 + d1", 6, "arith.maximumf", -9.0),
    "descending": _read("5 - d0", 6),
    "strided": _read("d0 * 2 + 1", 13),
    "divided": _read("d0 floordiv 2", 3),
    "modulo": _read("d0 mod 4", 4),
    "constant": _read("2", 5),
    "diagonal": _program(lambda b, x: b.generic((4,), [(x, "d0, d0")], "", "f64", yields=["%x0"])[0], (4, 4)),
    "gathered": _program(_gathered, (4, 3)),
    "slices": _program(_slices, (3, 4), (2, 2)),
    "reshapes": _program(
        lambda b, x: b.reshape("expand", b.reshape("collapse", x, "[[0, 1]]", (12,)), "[[0, 1]]", (3, 4)), (2, 6)
    ),
    "scalars": _program(_scalars, (2,)),
    "prefix_sums": _scan("add"),
    "prefix_products": _scan("mul"),
    "sorted": _program(_sorted, (2, 4), (2, 4)),
    "greatest_with_index": _program(_greatest, (3, 4)),
}
PROGRAMS |= {f"scatter_{each}": _scatter(each) for each in ("add", "replace", "mul", "maximum", "minimum")}


def _convolution(
    x: Sequence[int], w: Sequence[int], r: Sequence[int], windows: str, reversal: str, groups: tuple[int, int]
) -> str:
    operation = (
        f"repro.convolution {windows} window_reversal = {reversal} feature_groups = {groups[0]} "
        f"batch_groups = {groups[1]}"
    )
    return _program(lambda b, data, kernel, init: b.call(operation, [data, kernel], [init])[0], x, w, r)


def _windows(strides: object, low: object, high: object, input_dilation: object, kernel_dilation: object) -> str:
    return (
        f"strides = {strides} padding_low = {low} padding_high = {high} input_dilation = {input_dilation} "
        f"kernel_dilation = {kernel_dilation}"
    )


PROGRAMS |= {
    "convolution": _convolution(
        [2, 3, 5, 6], [4, 3, 3, 2], [2, 4, 3, 3],
        _windows([2, 2], [1, 0], [1, 1], [1, 1], [1, 1]), "[false, false]", (1, 1),
    ),
    "dilated_convolution": _convolution(
        [1, 2, 7], [3, 2, 2], [1, 3, 4], _windows([2], [1], [2], [1], [2]), "[true]", (1, 1)
    ),
    "transposed_convolution": _convolution(
        [1, 2, 4], [3, 2, 3], [1, 3, 9], _windows([1], [2], [2], [2], [1]), "[true]", (1, 1)
    ),
    "grouped_convolution": _convolution(
        [2, 4, 5], [6, 2, 3], [2, 6, 4], _windows([1], [0], [1], [1], [1]), "[false]", (2, 1)
    ),
    "batch_grouped_convolution": _convolution(
        [4, 2, 5], [6, 2, 3], [2, 6, 3], _windows([1], [0], [0], [1], [1]), "[false]", (1, 2)
    ),
    "cropped_convolution": _convolution(
        [1, 1, 8], [1, 1, 2], [1, 1, 3], _windows([2], [-1], [-1], [1], [1]), "[false]", (1, 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_J1_gradients_are_those_of_finite_differences(name: str) -> None:
    text = PROGRAMS[name]
    plain = Interpreter(to_bytes(canonicalize(text)))
    kinds = plain.program.body.argument_types
    random = np.random.default_rng(3)
    # Values are far enough from each other and from zero that a step of the finite difference changes no order and no
    # sign.
    arguments = [
        (random.permutation(math.prod(k.shape)) * 0.3 + 0.17 + 0.01 * i).reshape(k.shape) - 0.8
        for i, k in enumerate(kinds)
    ]
    (result,) = plain.run(*arguments)
    gradient = random.standard_normal(result.shape)
    canonical = canonicalize(differentiate(text, [0], range(len(kinds))))
    interpreter = Interpreter(to_bytes(canonical))
    found = interpreter.run(*arguments, gradient)
    np.testing.assert_array_equal(found[0], result)
    for i, argument in enumerate(arguments):
        expected = np.zeros_like(argument)
        for position in np.ndindex(argument.shape):
            results = []
            for sign in (1, -1):
                moved = [each.copy() for each in arguments]
                moved[i][position] += sign * STEP
                results.append(plain.run(*moved)[0])
            expected[position] = np.sum((results[0] - results[1]) * gradient) / (2 * STEP)
        np.testing.assert_allclose(found[1 + i], expected, 1e-6, 1e-6, err_msg=f"argument {i}")
    want = kit.bits_of(found, interpreter.program)
    kit.check(canonical, [*arguments, gradient], want=want)
    device = device_kit.run(canonical, [*arguments, gradient], "sm_90")
    kit.compare(interpreter.program, want, device, "sm_90")


FUNCTIONS = {
    "acos": 0.3, "acosh": 1.7, "asin": 0.3, "asinh": 0.7, "atan": 0.7, "atanh": 0.3, "cbrt": 0.7, "cos": 0.7,
    "cosh": 0.7, "erf": 0.7, "erfc": 0.7, "exp": 0.7, "exp10": 0.7, "exp2": 0.7, "expm1": 0.7, "log": 0.7,
    "log10": 0.7, "log1p": 0.7, "log2": 0.7, "rsqrt": 0.7, "sin": 0.7, "sinh": 0.7, "tan": 0.7, "tanh": 0.7,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_J2_derivatives_of_functions(name: str) -> None:
    """Compares derivatives with those that mpmath computes for the same functions."""
    import mpmath

    given = {
        "cbrt": mpmath.cbrt, "exp10": lambda x: mpmath.mpf(10) ** x, "exp2": lambda x: mpmath.mpf(2) ** x,
        "log2": lambda x: mpmath.log(x, 2), "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    }  # fmt: skip
    function = given.get(name) or getattr(mpmath, name)
    text = _elementwise(f"%r0 = repro.{name} %x0 : f32", 1, 2, "f32")
    x = np.array([FUNCTIONS[name], FUNCTIONS[name] * 1.1], np.float32)
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(text, [0], [0]))))
    _, found = interpreter.run(x, np.array([1, -2], np.float32))
    want = [float(mpmath.diff(function, mpmath.mpf(float(each)))) for each in x]
    np.testing.assert_allclose(found, np.array(want) * [1, -2], 1e-5)


@pytest.mark.parametrize(("name", "x"), [("repro.exp", 200), ("repro.expm1", 200), ("repro.log", 0), ("math.sqrt", 0)])
def test_J2_an_infinite_slope_times_zero_is_zero(name: str, x: float) -> None:
    text = _elementwise(f"%r0 = {name} %x0 : f32", 1, 2, "f32")
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(text, [0], [0]))))
    _, found = interpreter.run(np.full(2, x, np.float32), np.array([0, 1], np.float32))
    np.testing.assert_array_equal(found, [0, np.inf])


_POWERS = [
    (2.0, 3.0, 12.0, 8 * math.log(2)), (0.0, 2.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), (3.0, 0.0, 0.0, math.log(3)),
    (-2.0, 3.0, 12.0, math.nan),
]  # fmt: skip


def test_J2_derivatives_of_powers() -> None:
    text = _elementwise("%r0 = repro.pow %x0, %x1 : f32", 2, len(_POWERS), "f32")
    x, y, by_base, by_exponent = np.array(_POWERS, np.float32).T.copy()
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(text, [0], [0, 1]))))
    _, first, second = interpreter.run(x, y, np.ones(len(_POWERS), np.float32))
    np.testing.assert_allclose(first, by_base, 1e-6)
    np.testing.assert_allclose(second, by_exponent, 1e-6)


def test_J3_equal_elements_share_the_gradient() -> None:
    text = PROGRAMS["greatest"]
    x = np.array([[1.0, 2.0, 3.0, 0.0], [1.0, 5.0, 3.0, 0.0], [0.0, 5.0, 3.0, 0.0]])
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(text, [0], [0]))))
    _, found = interpreter.run(x, np.array([6.0, 6.0, 6.0, 6.0]))
    np.testing.assert_array_equal(found, [[3, 0, 2, 2], [3, 3, 2, 2], [0, 3, 2, 2]])


@pytest.mark.parametrize("zeros", [[], [1], [1, 3], [0]])
@pytest.mark.parametrize("name", ["product", "prefix_products", "scatter_mul"])
@pytest.mark.diagonal
def test_J3_products_with_zeros(name: str, zeros: list[int]) -> None:
    """A product is linear in each factor, so a factor's gradient is the difference of the results for the factors 1 and
    0."""
    text = PROGRAMS[name]
    plain = Interpreter(to_bytes(canonicalize(text)))
    random = np.random.default_rng(5)
    arguments = [random.uniform(0.5, 2, k.shape) for k in plain.program.body.argument_types]
    for argument in arguments:
        argument.reshape(-1)[zeros] = 0
    gradient = random.standard_normal(plain.run(*arguments)[0].shape)
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(text, [0], range(len(arguments))))))
    found = interpreter.run(*arguments, gradient)[1:]
    for i, argument in enumerate(arguments):
        for position in np.ndindex(argument.shape):
            results = []
            for value in (1.0, 0.0):
                moved = [each.copy() for each in arguments]
                moved[i][position] = value
                results.append(plain.run(*moved)[0])
            want = np.sum((results[0] - results[1]) * gradient)
            np.testing.assert_allclose(found[i][position], want, 1e-9, 1e-12)


@pytest.mark.parametrize(
    ("name", "extents", "empty", "initial"),
    [("sum", "3x4", "3x0", 0.5), ("product", "4x3", "0x3", 2.0), ("greatest", "3x4", "0x4", -9.0)],
)
def test_folds_of_nothing_have_gradients(name: str, extents: str, empty: str, initial: float) -> None:
    """A fold over no elements returns its initial element; the gradients of its operands have no elements."""
    text = PROGRAMS[name].replace(f"tensor<{extents}xf64>", f"tensor<{empty}xf64>")
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(text, [0], [0]))))
    kind, gradient = interpreter.program.body.argument_types
    found = interpreter.run(np.zeros(kind.shape), np.ones(gradient.shape))
    assert (found[0] == initial).all() and found[0].size > 0
    assert found[1].shape == kind.shape


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_equal_operands_of_smooth_functions_share_the_gradient(name: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_mlir")
    from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
    from repro_mlir.frontends.torch.capture.inference import capture_inference

    class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: object, y: object) -> object:
            return getattr(torch, name)(x, y)

    zeros = np.zeros(2, np.float32)
    model = capture_inference(Model(), (torch.zeros(2), torch.zeros(2)), CaptureOptions())
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(model.text, [0], [0, 1]))))
    _, first, second = interpreter.run(zeros, zeros, np.array([1, 3], np.float32))
    np.testing.assert_allclose(first, [0.5, 1.5], 1e-6)
    np.testing.assert_allclose(second, [0.5, 1.5], 1e-6)


def test_a_scalar_outside_of_bodies_gives_no_nan_for_a_gradient_of_zero() -> None:
    """The exponential overflows in the branch that the select does not choose. The gradient must not be NaN."""
    body = """%a = tensor.extract %x[] : tensor<f32>
%limit = arith.constant 0.0 : f32
%c = arith.cmpf olt, %a, %limit : f32
%e = repro.exp %a : f32
%s = arith.select %c, %e, %a : f32
%r = tensor.from_elements %s : tensor<f32>"""
    text = _main("%x: tensor<f32>", "tensor<f32>", body)
    interpreter = Interpreter(to_bytes(canonicalize(differentiate(text, [0], [0]))))
    _, found = interpreter.run(np.array(200, np.float32), np.array(3, np.float32))
    assert found == 3


@pytest.mark.parametrize(
    ("formula", "order"),
    [
        # The order of the derivative's fold follows from the first operand of this fold: x, whose last dimension is
        # folded, or the gradient. For products, the order is that of (P1).
        ("arith.maximumf %x0, %x1", "chunk = 8192, lanes = 64, run = 1, totals = refold"),
        ("arith.mulf %x0, %x1", "chunk = 512, lanes = 1, run = 0, totals = sequential"),
        ("arith.divf %x0, %x1", "chunk = 8192, lanes = 64, run = 1, totals = refold"),
        ("arith.remf %x0, %x1", "chunk = 8192, lanes = 64, run = 1, totals = refold"),
        ("arith.addf %x0, %x1", "chunk = 512, lanes = 1, run = 0, totals = sequential"),
    ],
)
def test_J4_the_order_depends_on_the_operands_of_the_formula(formula: str, order: str) -> None:
    body = f"%r0 = {formula} : f64"
    text = _program(lambda b, x, y: b.generic((4, 3), [(x, "d0"), (y, "d1")], body, "f64")[0], (4,), (3,))
    found = canonicalize(differentiate(text, [0], [1]))
    (fold,) = [line for line in found.splitlines() if "repro.fold" in line]
    assert order in fold, found
