# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Handles the PyTorch calls of a traced optimizer step that have traced numbers as arguments.

An operator that accepts a tensor instead of a number gets the number as a tensor of shape [], rounded once to the type
in which the operator computes, as eager mode rounds a Python number. An operator whose argument must be a number
(`alpha=`, `value=`) is replaced by arithmetic. A traced number that is passed to any other function becomes a constant
of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import FakeTensor, pytree
from repro_mlir.frontends.torch.optimizers.traced_numbers import Node, Tape, is_traced, node_of, traced_number
from repro_mlir.frontends.torch.trace.opmath import LOW_PRECISION


@dataclass(frozen=True)
class _Known:
    """A tensor whose elements all equal the number `node`, as long as the tensor's version counter is `version`."""

    tensor: torch.Tensor
    version: int
    node: Node


class NumberCalls(TorchFunctionMode):
    """Intercepts the PyTorch calls of one traced step.

    Also tracks tensors that contain one number, such as a step counter, so that their `item()` returns that number
    instead of an element with unknown value.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape
        self._known: dict[int, _Known] = {}

    def note(self, tensor: torch.Tensor, node: Node) -> None:
        """Records that every element of the tensor equals this number."""
        self._known[id(tensor)] = _Known(tensor, tensor._version, node)

    def known(self, tensor: torch.Tensor) -> Node | None:
        """Returns the number that every element of the tensor equals; None if no such number is known."""
        found = self._known.get(id(tensor))
        return found.node if found is not None and found.version == tensor._version else None

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name in _ELEMENTS and isinstance(args[0], torch.Tensor):
            found = self._element(name, args[0])
            return function(*args, **kwargs) if found is NotImplemented else found
        if function == _DATA:
            # Writes through `.data` do not change the tensor's version, so the tensor is no longer tracked.
            self._known.pop(id(args[0]), None)
        leaves = pytree.tree_leaves((args, kwargs))
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and not isinstance(leaf, FakeTensor):
                raise CaptureError(
                    "the optimizer's step uses a tensor that is neither a parameter nor in its state: keep the tensor "
                    "in optimizer.state"
                )
        uniform = self._uniform(name, args, kwargs)
        if any(map(is_traced, leaves)) or any(isinstance(kwargs.get(key), torch.Tensor) for key in _FACTORS):
            result = self._call_on_numbers(function, name, args, kwargs)
        else:
            result = function(*args, **kwargs)
        if uniform is not None and isinstance(result, torch.Tensor):
            self._note_result(name, result, uniform, leaves)
        return result

    def _element(self, name: str, tensor: torch.Tensor) -> Any:
        """Returns a tensor's element for calls such as `item()` and `bool()`; NotImplemented to run the call
        unchanged."""
        if tensor.numel() != 1:
            return NotImplemented
        node = self.known(tensor)
        if node is not None:
            if name == "item" and node.kind is not bool:
                return traced_number(self._tape, node)
            value = self._tape.decide(node) if node.kind is bool else self._tape.exact(node)
            return {"__bool__": bool, "__float__": float, "__int__": int, "__index__": int}.get(name, bool)(value)
        if name != "item" or tensor.dtype is torch.bool or tensor.is_complex():
            return NotImplemented
        return traced_number(self._tape, self._tape.tensor_element(tensor))

    # --- Calls with numbers among the arguments ---

    def _call_on_numbers(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name.startswith("_foreach_"):
            return self._call_foreach(name, args, kwargs)
        base = name.strip("_")
        in_place = name.endswith("_") and not name.endswith("__")
        if base in _NUMBER_FIRST and len(args) > 2 and node_of(self._tape, args[1]) is not None:
            # PyTorch's deprecated signature has the number before the tensors.
            kwargs = {**kwargs, _NUMBER_FIRST[base]: args[1]}
            args = (args[0], *args[2:])
        if name in _FACTORIES:
            return self._make(function, name, args, kwargs)
        factors = [kwargs.get(key) for key in _FACTORS]
        if base in _FUSED and any(is_traced(each) or isinstance(each, torch.Tensor) for each in factors):
            result = self._fuse(_FUSED[base], args, kwargs)
            return args[0].copy_(result) if in_place else result
        if base in _ARITHMETIC:
            args, kwargs = self._with_tensors(args, kwargs, every=base in _TENSORS_ALONE)
            return function(*args, **kwargs)
        args, kwargs = pytree.tree_map(lambda leaf: leaf.exact() if is_traced(leaf) else leaf, (args, kwargs))
        return function(*args, **kwargs)

    def _with_tensors(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], every: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Replaces each traced number by a tensor; with `every`, each Python number too."""
        dtype = _computed_in(pytree.tree_leaves((args, kwargs)))

        def replace(leaf: Any) -> Any:
            if is_traced(leaf) or (every and type(leaf) in (int, float)):
                return self._rounded(node_of(self._tape, leaf), dtype)
            return leaf

        return pytree.tree_map(replace, (args, kwargs))

    def _rounded(self, node: Node | None, dtype: torch.dtype | None) -> torch.Tensor:
        assert node is not None
        if dtype is None:
            dtype = torch.get_default_dtype() if node.kind is float else torch.int64
        return self._tape.tensor(node).to(dtype)

    def _fuse(self, compute: Callable[..., torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Computes an operator of `_FUSED`. For a low-precision element type, computes in f32 and rounds once."""
        dtype = args[0].dtype
        args, kwargs = self._with_tensors(args, kwargs, every=False)
        if dtype not in LOW_PRECISION:
            return compute(*args, **kwargs)

        def widen(leaf: Any) -> Any:
            return leaf.to(torch.float32) if isinstance(leaf, torch.Tensor) else leaf

        args, kwargs = pytree.tree_map(widen, (args, kwargs))
        return compute(*args, **kwargs).to(dtype)

    def _make(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Creates a tensor that is filled with a number."""
        keyword, position = _FACTORIES[name]
        number = kwargs[keyword] if keyword in kwargs else args[position]
        if not is_traced(number):
            args, kwargs = pytree.tree_map(lambda leaf: leaf.exact() if is_traced(leaf) else leaf, (args, kwargs))
            return function(*args, **kwargs)
        blank: Any = 0 if number.number.kind is int else 0.0
        if keyword in kwargs:
            kwargs = {**kwargs, keyword: blank}
        else:
            args = (*args[:position], blank, *args[position + 1 :])
        result = function(*args, **kwargs)
        result.fill_(self._tape.tensor(number.number).to(result.dtype))
        return result

    def _call_foreach(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Applies an operator on lists of tensors to one tensor at a time."""
        base = name.removeprefix("_foreach_")
        method = getattr(torch.Tensor, base, None)
        count = len(args[0])
        if method is None:
            raise CaptureError(f"torch.{name} with a number that changes is not supported")

        def of(index: int, value: Any) -> Any:
            return value[index] if isinstance(value, list | tuple) and len(value) == count else value

        names = {"scalars": "value", "tensors1": "end", "weights": "weight"}
        results = []
        for index in range(count):
            own = {names.get(key, key): of(index, value) for key, value in kwargs.items()}
            positional = [of(index, value) for value in args]
            if base.rstrip("_") in ("addcdiv", "addcmul") and len(positional) == 4:
                own["value"] = positional.pop()
            results.append(self.__torch_function__(method, (), tuple(positional), own))
        return None if base.endswith("_") else results

    # --- Tensors that contain numbers ---

    def _uniform(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node | None:
        """Returns the number that every element of a call's result equals, before rounding to its element type; None if
        there is none, or it is unknown."""
        try:
            if name in _FACTORIES:
                keyword, position = _FACTORIES[name]
                value = kwargs[keyword] if keyword in kwargs else args[position]
                return self._operand(value)
            if name in _BLANKS:
                return self._tape.constant(_BLANKS[name])
            base = name.strip("_")
            operation = _UNIFORM.get(base)
            if operation is None or any(kwargs.get(key) is not None for key in kwargs if key != "alpha"):
                return None
            reflected = base in ("rsub", "rdiv", "rpow")
            operands = [node for each in args if (node := self._operand(each, args)) is not None]
            if len(operands) < len(args):
                return None
            if "alpha" in kwargs:
                factor = self._operand(kwargs["alpha"], args)
                if factor is None:
                    return None
                operands[1] = self._tape.apply("mul", operands[1], factor)
            if operation == "first":
                return operands[0]
            if operation == "second":
                return operands[1] if len(operands) > 1 else None
            if operation == "zero":
                return self._tape.constant(0)
            return self._tape.apply(operation, *(operands[::-1] if reflected else operands))
        except (IndexError, ArithmeticError, ValueError, TypeError, KeyError):
            # The call itself reports the error.
            return None

    def _operand(self, value: Any, args: Sequence[Any] = ()) -> Node | None:
        if not isinstance(value, torch.Tensor):
            node = node_of(self._tape, value)
            # An operator rounds a number to the type in which it computes.
            if node is None or not args:
                return node
            dtype = _computed_in([*args])
            return self._at(node, torch.int64 if dtype is None else dtype)
        return self.known(value)

    def _at(self, node: Node, dtype: torch.dtype | None) -> Node | None:
        """Returns the number rounded to an element type; None if numbers of that type are not tracked."""
        if dtype is torch.float64:
            return node if node.kind is float else self._tape.apply("f64", node)
        if dtype is torch.float32:
            return self._tape.apply("f32", node)
        return node if dtype is torch.int64 and node.kind is int else None

    def _note_result(self, name: str, result: torch.Tensor, node: Node, leaves: Sequence[Any]) -> None:
        if result.dtype is torch.bool and node.kind is bool:
            self.note(result, node)
            return
        rounded = self._at(node, result.dtype)
        if rounded is not None:
            self.note(result, rounded)


def _computed_in(leaves: Sequence[Any]) -> torch.dtype | None:
    """Returns the type to which an operator on these arguments rounds its numbers: f32 if the arguments are of low
    precision, f64 if none is a tensor. None if all tensors are integers, because the number then decides the type."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not any(tensor.is_floating_point() for tensor in tensors):
        return torch.float64 if not tensors else None
    floats = [tensor for tensor in tensors if tensor.is_floating_point()]
    floats = [tensor for tensor in floats if tensor.dim()] or floats
    dtype = floats[0].dtype
    for tensor in floats[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return torch.float32 if dtype in LOW_PRECISION and any(tensor.dim() for tensor in floats) else dtype


_ELEMENTS = ("item", "__float__", "__int__", "__bool__", "__index__")
_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]

_FACTORIES = {
    "full": ("fill_value", 1),
    "full_like": ("fill_value", 1),
    "new_full": ("fill_value", 2),
    "tensor": ("data", 0),
    "as_tensor": ("data", 0),
    "scalar_tensor": ("s", 0),
    "new_tensor": ("data", 1),
}
"""Functions that fill a new tensor with a number: the number's keyword and its position among the arguments."""

_BLANKS = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
"""Functions that fill a new tensor with a fixed number."""


def _add(x: torch.Tensor, other: Any, *, alpha: Any) -> torch.Tensor:
    return x + other * alpha


def _sub(x: torch.Tensor, other: Any, *, alpha: Any) -> torch.Tensor:
    return x - other * alpha


def _addcmul(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, value: Any = 1) -> torch.Tensor:
    return x + value * one * other


def _addcdiv(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, value: Any = 1) -> torch.Tensor:
    return x + value * one / other


def _product(multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def compute(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        return x * beta + multiply(one, other) * alpha

    return compute


_FUSED: dict[str, Callable[..., torch.Tensor]] = {
    "add": _add,
    "sub": _sub,
    "subtract": _sub,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "addmm": _product(torch.mm),
    "addmv": _product(torch.mv),
    "addr": _product(torch.outer),
    "baddbmm": _product(torch.bmm),
    "addbmm": _product(lambda one, other: torch.bmm(one, other).sum(0)),
}
"""Operators with arguments that must be numbers, each with a function that computes it by arithmetic on tensors."""

_FACTORS = ("alpha", "beta", "value")
"""Arguments that must be numbers; PyTorch also accepts tensors of one element."""

_NUMBER_FIRST = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}

_ARITHMETIC = frozenset(
    """
    add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow lerp clamp clip clamp_min
    clamp_max maximum minimum fmax fmin where eq ne lt le gt ge fill masked_fill copysign atan2 radd rmul rdiv
    rtruediv rpow truediv floordiv rfloordiv mod rmod setitem iadd isub imul itruediv idiv
    """.split()
)
"""Operators that accept a tensor of shape [] instead of a number."""

_TENSORS_ALONE = frozenset(["clamp", "clip"])
"""Operators that accept either numbers or tensors, but no mix of them."""

_UNIFORM = {
    "add": "add",
    "radd": "add",
    "sub": "sub",
    "rsub": "sub",
    "mul": "mul",
    "rmul": "mul",
    "div": "truediv",
    "rdiv": "truediv",
    "true_divide": "truediv",
    "pow": "pow",
    "rpow": "pow",
    "neg": "neg",
    "abs": "abs",
    "sqrt": "sqrt",
    "maximum": "max",
    "minimum": "min",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "eq": "eq",
    "ne": "ne",
    "clone": "first",
    "detach": "first",
    "copy": "second",
    "fill": "second",
    "zero": "zero",
}
"""Operators whose result contains one number if each operand does, with the operation of the tape on these numbers."""
