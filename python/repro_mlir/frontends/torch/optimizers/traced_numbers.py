# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Python numbers of a traced optimizer: the program computes with them in f64; a branch on one specializes the program.

The program computes in f64 as Python does: +, -, *, / and square roots yield the same bits. Powers, exponentials and
logarithms differ from those of libm, which depend on the machine; see `_power`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import operator
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import is_user_file, user_line
from repro_mlir.frontends.torch.base.torch_internals import replaced
from repro_mlir.frontends.torch.trace.tracing import TRACE_LOCK

Scalar = float | int

_EXACT_INTEGERS = 2**53
_EXPONENT_BITS = 32


@dataclass(frozen=True, eq=False)
class Node:
    """A number of a trace; equal numbers of a tape are the same object.

    Attributes:
      operation: `leaf`, `constant`, `tensor`, or a key of `_OPERATIONS`.
      operands: the operands of the operation; for a leaf its key, for a constant the number.
      kind: float, int or bool.
      value: the number at capture; None if it depends on tensors.
    """

    operation: str
    operands: tuple[Any, ...]
    kind: type
    value: Scalar | None


@dataclass(frozen=True)
class Guard:
    """A use of a number that specializes the program: a comparison, or a read of the number's value.

    Attributes:
      exact: whether the step reads the number itself, not only the outcome of a comparison.
      line: the user's source line, or "" if it is unknown.
    """

    exact: bool
    line: str


class Tape:
    """The numbers of a traced step, and the guards that depend on them.

    Attributes:
      guards: the guards by node; a different program is needed if a guard has a different outcome.
      read: the leaves from which tensors have been computed since `begin`.
    """

    def __init__(self) -> None:
        self.guards: dict[Node, Guard] = {}
        self.read: set[Node] = set()
        self._nodes: dict[tuple[Any, ...], Node] = {}
        self._tensors: dict[Node, torch.Tensor] = {}
        self._source: Callable[[Node], torch.Tensor] | None = None
        self._note: Callable[[Node, torch.Tensor], None] | None = None

    def begin(
        self, source: Callable[[Node], torch.Tensor], note: Callable[[Node, torch.Tensor], None] | None = None
    ) -> None:
        """Begins a trace; `source` returns the tensor of a leaf, an f64 of shape [], and `note` is called with each
        number that becomes a tensor."""
        self._source, self._note, self._tensors = source, note, {}
        self.read.clear()

    def end(self) -> None:
        """Ends a trace and drops its tensors."""
        self._source, self._note, self._tensors = None, None, {}

    def leaf(self, key: Hashable, value: Scalar) -> Node:
        """Returns the node of an input number, which `key` identifies."""
        if isinstance(value, int) and abs(value) > _EXACT_INTEGERS:
            raise CaptureError(f"expected an integer of at most 2^53, which f64 represents exactly, got {value}")
        return self._node("leaf", (key, type(value), _bits(value)), type(value), value)

    def constant(self, value: Scalar) -> Node:
        """Returns the node of a number that the step's code contains."""
        return self._node("constant", (type(value), _bits(value)), type(value), value)

    def tensor_element(self, tensor: torch.Tensor) -> Node:
        """Returns the node of the only element of a tensor of the trace."""
        kind = float if tensor.is_floating_point() else int
        node = Node("tensor", (tensor,), kind, None)
        # A copy, because the step may change the tensor afterwards.
        return self._has_tensor(node, tensor.reshape([]).to(torch.float64, copy=True))

    def apply(self, operation: str, *operands: Node) -> Node:
        """Returns the node of the result of an operation of `_OPERATIONS`."""
        if operation == "pow" and all(each.kind is int for each in operands):
            # A power of integers is an integer only if the exponent is not negative.
            self.decide(self.apply("ge", operands[1], self.constant(0)))
        found = _OPERATIONS[operation]
        if any(each.value is None for each in operands):
            kind = found.kind or (int if all(each.kind is int for each in operands) else float)
            return self._node(operation, operands, kind, None)
        value = found.number(*(each.value for each in operands))
        if all(each.operation == "constant" for each in operands):
            return self.constant(value)
        return self._node(operation, operands, type(value), value)

    def _node(self, operation: str, operands: tuple[Any, ...], kind: type, value: Scalar | None) -> Node:
        return self._nodes.setdefault((operation, *operands), Node(operation, operands, kind, value))

    def tensor(self, node: Node) -> torch.Tensor:
        """Returns the number as a tensor of the program: f64 of shape [], or i1 for a comparison."""
        if node not in self._tensors:
            if node.operation == "leaf":
                assert self._source is not None
                self.read.add(node)
                found = self._source(node)
            elif node.operation == "constant":
                found = torch.full((), float(node.value), dtype=torch.float64)  # type: ignore[arg-type]
            elif node.operation == "pow" and node.operands[1].operation == "constant":
                found = _constant_power(self.tensor(node.operands[0]), node.operands[1].value)
            else:
                found = _OPERATIONS[node.operation].tensor(*map(self.tensor, node.operands))
            self._has_tensor(node, found)
        return self._tensors[node]

    def _has_tensor(self, node: Node, tensor: torch.Tensor) -> Node:
        self._tensors[node] = tensor
        if self._note is not None:
            self._note(node, tensor)
        return node

    def decide(self, node: Node) -> bool:
        """Returns the outcome of a comparison, for which the program is specialized from now on."""
        return bool(self._guarded(node, exact=False))

    def exact(self, node: Node) -> Scalar:
        """Returns the number itself, for which the program is specialized from now on."""
        return self._guarded(node, exact=True)

    def _guarded(self, node: Node, exact: bool) -> Scalar:
        if node.value is None:
            raise CaptureError("control flow or a Python number depends on tensor values")
        if node.operation != "constant":
            self.guards.setdefault(node, Guard(exact, user_line() or ""))
        return node.value

    def outcomes(self, values: Mapping[Node, Scalar] | None = None) -> tuple[Hashable, ...]:
        """Returns the outcomes of the guards for these values of the leaves; for None, the outcomes at capture.

        Raises:
          ArithmeticError, ValueError: the step itself would raise the error for these values.
        """
        known: dict[Node, Scalar] = {}

        def value(node: Node) -> Scalar:
            if values is None or node.operation == "constant":
                assert node.value is not None
                return node.value
            if node.operation == "leaf":
                return values[node]
            if node not in known:
                known[node] = _OPERATIONS[node.operation].number(*map(value, node.operands))
            return known[node]

        return tuple((type(found := value(node)), _bits(found)) for node in self.guards)


def leaves_of(node: Node) -> Iterator[Node]:
    """Yields the leaves from which a number is computed."""
    pending, seen = [node], {node}
    while pending:
        found = pending.pop()
        if found.operation == "leaf":
            yield found
        elif found.operation not in ("constant", "tensor"):
            new = {*found.operands} - seen
            seen |= new
            pending += new


def _bits(value: Scalar) -> Hashable:
    # The hexadecimal format distinguishes -0.0 from 0.0, and makes all NaNs equal.
    return value.hex() if isinstance(value, float) else value


# --- Operations ---


@dataclass(frozen=True)
class _Operation:
    """An operation as Python computes it, and as the program computes it on f64 tensors of shape []."""

    number: Callable[..., Any]
    tensor: Callable[..., torch.Tensor]
    kind: type | None = None
    """The type of the result; None: that of the operands."""


def _to_f32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


_DIGITS = Context(prec=40)


def _rounded(function: Callable[[Decimal], Decimal], value: float, special: Callable[[float], float]) -> float:
    """Computes an elementary function as the program does: rounds the operand to f32 and the result to f32."""
    value = _to_f32(value)
    if not math.isfinite(value):
        return special(value)
    try:
        return _to_f32(float(function(Decimal(value))))
    except InvalidOperation:
        raise ValueError("math domain error") from None


def _integer_power(x: float, exponent: int) -> float:
    result, square = 1.0, float(x)
    rest = abs(exponent)
    while rest:
        if rest & 1:
            result *= square
        square *= square
        rest >>= 1
    return 1.0 / result if exponent < 0 else result


def _power(x: Scalar, y: Scalar) -> Scalar:
    """Returns x ** y without libm: by repeated squaring for the integer part of y, by an f32 power for the rest."""
    if isinstance(x, int) and isinstance(y, int):
        return x**y if y >= 0 else _integer_power(x, y)
    if y == 0.5:
        return math.sqrt(x)
    if not math.isfinite(y) or not math.isfinite(x):
        return float(x) ** y
    whole = math.trunc(y)
    rest = y - whole
    if x == 0 and y < 0:
        raise ZeroDivisionError("0.0 cannot be raised to a negative power")
    result = _integer_power(x, whole)
    if rest == 0:
        return result
    if x < 0:
        raise ValueError("expected a power that is a real number, got a complex one")
    if x == 0:
        return 0.0
    base, exponent = Decimal(_to_f32(x)), Decimal(_to_f32(rest))
    return result * (_to_f32(float(_DIGITS.power(base, exponent))) if base else _to_f32(0.0**rest))


def _constant_power(x: torch.Tensor, y: Scalar) -> torch.Tensor:
    """Returns x ** y as `_power` does, for an exponent that is a constant of the code."""
    if y == 0.5:
        return torch.sqrt(x)
    whole = math.trunc(y) if math.isfinite(y) else 0
    if abs(whole) >= 2**_EXPONENT_BITS:
        return torch.full_like(x, math.nan)
    rest, square, result = abs(whole), x, torch.ones_like(x)
    while rest:
        if rest & 1:
            result = result * square
        square = square * square
        rest >>= 1
    if whole < 0:
        result = torch.ones_like(x) / result
    if y == whole:
        return result
    return result * torch.pow(x.to(torch.float32), _to_f32(y - whole)).to(torch.float64)


def _program_power(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Returns x ** y as `_power` does; NaN if the exponent's magnitude is 2^32 or larger."""
    whole = torch.trunc(y)
    rest = torch.pow(x.to(torch.float32), (y - whole).to(torch.float32)).to(torch.float64)
    count, square, result = whole.abs(), x, torch.ones_like(x)
    for _ in range(_EXPONENT_BITS):
        half = torch.floor(count * 0.5)
        result = torch.where(count - half * 2.0 == 1.0, result * square, result)
        square, count = square * square, half
    result = torch.where(count == 0.0, result, torch.full_like(x, math.nan))
    result = torch.where(whole < 0.0, torch.ones_like(x) / result, result)
    return torch.where(y == 0.5, torch.sqrt(x), result * rest)


def _in_f32(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: function(x.to(torch.float32)).to(torch.float64)


def _compare(function: Callable[[Any, Any], Any]) -> _Operation:
    return _Operation(function, function, bool)


_OPERATIONS: dict[str, _Operation] = {
    "add": _Operation(operator.add, torch.add),
    "sub": _Operation(operator.sub, torch.sub),
    "mul": _Operation(operator.mul, torch.mul),
    "truediv": _Operation(operator.truediv, torch.div, float),
    "floordiv": _Operation(operator.floordiv, lambda x, y: torch.div(x, y, rounding_mode="floor")),
    "mod": _Operation(operator.mod, torch.remainder),
    "pow": _Operation(_power, _program_power),
    "neg": _Operation(operator.neg, torch.neg),
    "abs": _Operation(operator.abs, torch.abs),
    "sqrt": _Operation(math.sqrt, torch.sqrt, float),
    "exp": _Operation(lambda x: _rounded(_DIGITS.exp, x, math.exp), _in_f32(torch.exp), float),
    "log": _Operation(lambda x: _rounded(_DIGITS.ln, x, math.log), _in_f32(torch.log), float),
    "max": _Operation(lambda x, y: y if y > x else x, lambda x, y: torch.where(y > x, y, x)),
    "min": _Operation(lambda x, y: y if y < x else x, lambda x, y: torch.where(y < x, y, x)),
    "f32": _Operation(_to_f32, _in_f32(lambda x: x), float),
    "f64": _Operation(float, lambda x: x, float),
    "lt": _compare(operator.lt),
    "le": _compare(operator.le),
    "gt": _compare(operator.gt),
    "ge": _compare(operator.ge),
    "eq": _compare(operator.eq),
    "ne": _compare(operator.ne),
}
"""The operations on numbers, keyed by name. As in Python, max and min return the first of two equal operands."""


# --- The numbers with which the step computes ---


class TracedNumber:
    """The base class of traced floats and integers.

    The subclasses derive from PyTorch's symbolic numbers, which PyTorch's operators accept instead of Python numbers;
    `NumberCalls` replaces the traced numbers before an operator reads their value. The attribute `__class__` of a
    traced number is float or int.
    """

    tape: Tape
    number: Node

    def __init__(self, tape: Tape, number: Node) -> None:
        self.tape = tape
        self.number = number

    def _apply(self, operation: str, *others: Any, reflected: bool = False) -> Any:
        nodes = [node_of(self.tape, other) for other in others]
        if any(node is None for node in nodes):
            return NotImplemented
        operands = [*nodes, self.number] if reflected else [self.number, *nodes]
        return traced_number(self.tape, self.tape.apply(operation, *operands))  # type: ignore[arg-type]

    def _decide(self, operation: str, other: Any) -> Any:
        node = node_of(self.tape, other)
        if node is None:
            return NotImplemented
        return self.tape.decide(self.tape.apply(operation, self.number, node))

    def exact(self) -> Any:
        """Returns the Python number, for which the program is specialized from now on."""
        return self.tape.exact(self.number)

    def __eq__(self, other: object) -> Any:
        return self._decide("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._decide("ne", other)

    def __hash__(self) -> int:
        return hash(self.exact())

    def __bool__(self) -> bool:
        return self.tape.decide(self.tape.apply("ne", self.number, self.tape.constant(0)))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def sqrt(self) -> Any:
        """Returns the square root."""
        return self._apply("sqrt")

    def exp(self) -> Any:
        """Returns the exponential."""
        return self._apply("exp")

    def log(self) -> Any:
        """Returns the natural logarithm."""
        return self._apply("log")

    def conjugate(self) -> Any:
        """Returns the number itself, which is real."""
        return self

    def __pos__(self) -> Any:
        return self


def _binary(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._apply(name, other, reflected=reflected)


def _asked(name: str) -> Callable[..., Any]:
    return lambda self, *arguments: getattr(self.exact(), name)(*arguments)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(TracedNumber, f"__{_name}__", _binary(_name, False))
    setattr(TracedNumber, f"__r{_name}__", _binary(_name, True))
for _name in ("neg", "abs"):
    setattr(TracedNumber, f"__{_name}__", lambda self, _name=_name: self._apply(_name))
for _name in ("lt", "le", "gt", "ge"):
    setattr(TracedNumber, f"__{_name}__", lambda self, other, _name=_name: self._decide(_name, other))
for _name in ("int", "float", "round", "trunc", "floor", "ceil", "format", "str", "repr", "divmod", "rdivmod"):
    setattr(TracedNumber, f"__{_name}__", _asked(f"__{_name}__"))
for _name in ("is_integer", "hex", "as_integer_ratio"):
    setattr(TracedNumber, _name, _asked(_name))


class TracedFloat(TracedNumber, torch.SymFloat):
    """A traced float."""

    __hash__ = TracedNumber.__hash__

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float


class TracedInt(TracedNumber, torch.SymInt):
    """A traced int."""

    __hash__ = TracedNumber.__hash__

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def __index__(self) -> int:
        return int(self.exact())

    def bit_length(self) -> int:
        """Returns the number of bits of the exact int."""
        return int(self.exact()).bit_length()


def is_traced(value: Any) -> bool:
    """Whether a value is a number of a trace; `isinstance` does not show this, because `__class__` is float or int."""
    return issubclass(type(value), TracedNumber)


def traced_number(tape: Tape, node: Node) -> Any:
    """Returns the number of a node: a Python number if the node depends on no input, else a traced number."""
    if node.operation == "constant":
        return node.value
    return (TracedInt if node.kind is int else TracedFloat)(tape, node)


def node_of(tape: Tape, value: Any) -> Node | None:
    """Returns the node of a number; None for anything else."""
    if is_traced(value):
        return value.number
    if isinstance(value, bool):
        return tape.constant(int(value))
    return tape.constant(value) if type(value) in (int, float) else None


# --- Python's functions on traced numbers ---

Known = Callable[[torch.Tensor], Node | None]


def _chosen(operation: str, original: Callable[..., Any], known: Known) -> Callable[..., Any]:
    is_better = operator.gt if operation == "max" else operator.lt

    def better(a: Any, b: Any) -> torch.Tensor:
        return torch.where(is_better(b, a), b, a)

    def choose(*arguments: Any, **keywords: Any) -> Any:
        values: Sequence[Any] = arguments
        if len(arguments) == 1 and isinstance(arguments[0], list | tuple):
            values = arguments[0]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if not keywords and any(each.dim() == 0 and known(each) is None for each in tensors):
            return functools.reduce(better, values)
        if keywords or not any(map(is_traced, values)):
            return original(*arguments, **keywords)
        tape = next(value.tape for value in values if is_traced(value))
        nodes = [node for value in values if (node := node_of(tape, value)) is not None]
        if len(nodes) < len(values):
            return original(*arguments)
        return traced_number(tape, functools.reduce(functools.partial(tape.apply, operation), nodes))

    return choose


def _method(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(value: Any, *arguments: Any) -> Any:
        return getattr(value, name)() if is_traced(value) and not arguments else original(value, *arguments)

    return call


def _math_power(x: Any, y: Any) -> Any:
    return x**y if is_traced(x) or is_traced(y) else _MATH_POWER(x, y)


_MATH_POWER = math.pow
_MATH: dict[Any, Callable[..., Any]] = {
    math.sqrt: _method("sqrt", math.sqrt),
    math.exp: _method("exp", math.exp),
    math.log: _method("log", math.log),
    math.pow: _math_power,
}
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time")


def _clock(name: str, original: Callable[[], Any]) -> Callable[[], Any]:
    tracing = threading.get_ident()

    def read() -> Any:
        if threading.get_ident() == tracing and is_user_file(sys._getframe(1).f_code.co_filename):
            raise CaptureError(f"the optimizer's step reads time.{name}, which a compiled step cannot: remove the call")
        return original()

    return read


@contextlib.contextmanager
def functions_on_numbers(modules: Iterable[types.ModuleType], known: Known) -> Iterator[None]:
    """Makes `min`, `max` and functions of `math` accept traced numbers, even where `modules` imported them by name.

    `min` and `max` also accept tensors of shape [] whose number is not known (`known` returns None). Raises
    CaptureError if the user's code reads a clock.
    """
    with TRACE_LOCK, contextlib.ExitStack() as stack:
        choices = {name: functools.partial(_chosen, name, known=known) for name in ("max", "min")}
        stack.enter_context(replaced(builtins, **choices))
        for module in (math, *modules):
            found = [name for name, value in vars(module).items() if isinstance(value, types.BuiltinFunctionType)]
            of_numbers = [name for name in found if vars(module)[name] in _MATH]
            stack.enter_context(replaced(module, **dict.fromkeys(of_numbers, _MATH.__getitem__)))
        clocks = (*_CLOCKS, *(f"{each}_ns" for each in _CLOCKS))
        stack.enter_context(replaced(time, **{name: functools.partial(_clock, name) for name in clocks}))
        yield
