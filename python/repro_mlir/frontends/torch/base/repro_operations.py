# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operations of the repro dialect in captured graphs.

Each operation is a custom operator `torch.ops.repro.<name>`, which torch-mlir does not know. While torch-mlir lowers
the other operators, calls of private functions replace the custom operators, because torch-mlir does not change such
calls. Afterwards each call is replaced by operations in generic form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.fx

from repro_mlir.base.errors import ReproError
from repro_mlir.frontends.base.generic_form import OperationWriter
from repro_mlir.frontends.torch.base.torch_internals import parse_schema
from repro_mlir.frontends.torch.base.torch_mlir_names import ir

if TYPE_CHECKING:
    from repro_mlir.frontends.torch.base.symbolic_extents import ExtentWriter

# A process can define the library of a namespace only once, and the operators live as long as the library. The library
# is stored in torch.ops because this package may be imported more than once: all imports share the operators.
_namespace: Any = torch.ops.repro
if "library" not in vars(_namespace):
    _namespace.library, _namespace.writers = torch.library.Library("repro", "DEF"), {}


class Builder(OperationWriter):
    """Writes operations in generic form that replace one call.

    Attributes:
      types: the types of the call's results.
    """

    def __init__(self, call: ir.Operation, shape: Sequence[Any] = (), extents: ExtentWriter | None = None) -> None:
        """Creates a builder that writes directly before `call`. `shape` is the shape of the first result; `extents`
        writes its symbolic extents."""
        super().__init__(ir, call)
        self.types = [value.type for value in call.results]
        self._shape = shape
        self._extents = extents

    def i64(self, value: int) -> ir.Attribute:
        """Returns an attribute of type i64."""
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

    def f32(self, value: float) -> ir.Attribute:
        """Returns an attribute of type f32, rounded to nearest even."""
        return ir.FloatAttr.get(ir.F32Type.get(), value)

    def f64(self, value: float) -> ir.Attribute:
        """Returns an attribute of type f64."""
        return ir.FloatAttr.get(ir.F64Type.get(), value)

    def string(self, text: str) -> ir.Attribute:
        """Returns a string attribute."""
        return ir.StringAttr.get(text)

    def attribute(self, text: str) -> ir.Attribute:
        """Parses an attribute in MLIR's textual format."""
        return ir.Attribute.parse(text)

    def scalar(self, tensor: ir.Value) -> ir.Value:
        """Extracts the element of a tensor of shape []."""
        return self.create("tensor.extract", [[tensor]], [ir.RankedTensorType(tensor.type).element_type])[0]

    def extent(self, dim: int) -> ir.Value:
        """Returns the extent of dimension `dim` of the first result; only for a program with symbols."""
        assert self._extents is not None
        return self._extents.value(self._shape[dim])

    def empty(self, kind: ir.Type) -> ir.Value:
        """Creates an uninitialized tensor for the output of an operation that does not read the tensor.

        A dynamic extent of the type equals the extent of the first result in that dimension.
        """
        ranked = ir.RankedTensorType(kind)
        unknown = [self.extent(dim) for dim in range(ranked.rank) if ranked.is_dynamic_dim(dim)]
        return self.create("tensor.empty", [unknown], [kind])[0]

    def elementwise(self, name: str, operands: Sequence[ir.Value]) -> ir.Value:
        """Applies the operation `name` to the elements of tensors that have the type of the first result."""
        kind = ir.RankedTensorType(self.types[0])

        def compute(values: Sequence[ir.Value]) -> ir.Value:
            return ir.Operation.create(name, operands=list(values), results=[kind.element_type]).result

        return self.generic(operands, [ir.AffineMap.get_identity(kind.rank)] * len(operands), compute)

    def generic(
        self,
        operands: Sequence[ir.Value],
        maps: Sequence[ir.AffineMap],
        compute: Callable[[Sequence[ir.Value]], ir.Value],
    ) -> ir.Value:
        """Creates a tensor of the first result's type. `compute` returns one element of it, given the elements of the
        operands that `maps` select."""
        kind = ir.RankedTensorType(self.types[0])
        maps = [*maps, ir.AffineMap.get_identity(kind.rank)]
        parallel = ["parallel"] * kind.rank
        return self.structured(operands, [self.empty(kind)], maps, parallel, lambda values: [compute(values[:-1])])[0]


class Writer(Protocol):
    """A function that writes the operations of one call, given the custom operator's arguments (tensors as values)."""

    def __call__(self, build: Builder, /, *arguments: Any) -> Sequence[ir.Value]: ...


_writers: dict[Any, Writer] = _namespace.writers


def define(
    schema: str,
    *,
    meta: Callable[..., Any],
    write: Callable[..., Sequence[ir.Value]],
    eager: Callable[..., Any] | None = None,
) -> Any:
    """Defines the custom operator `torch.ops.repro.<name>`.

    Args:
      schema: PyTorch's schema without the namespace; arguments that are not tensors are constants of the program.
      meta: returns tensors with the shapes and dtypes of the results.
      write: writes the operations that replace the operator, and returns one value per result.
      eager: computes the operator on CPU tensors if PyTorch runs a captured graph; None if PyTorch cannot run it.
    Returns:
      the operator, which an earlier import of this package may have defined.
    Raises:
      ReproError: an earlier import of another version of the package defined the operator with a different schema.
    """
    name = schema.split("(")[0]
    if not hasattr(_namespace, name):
        _namespace.library.define(schema)
        if eager is not None:
            _namespace.library.impl(name, eager, "CPU")
        _namespace.library.impl(name, meta, "Meta")
    operator = getattr(_namespace, name).default
    if str(operator._schema) != str(parse_schema(f"repro::{schema}")):
        raise ReproError("another version of repro_mlir has been imported in this process: restart Python")
    _writers[operator] = write
    return operator


@dataclass(frozen=True)
class _Call:
    """The call that replaces the custom operator of one node."""

    writer: Writer
    arguments: tuple[Any, ...]
    """The node's arguments, in the order of the schema; a tensor argument is a node."""
    shape: Sequence[Any]
    """The shape of the first result."""


class OperationCalls:
    """The calls that replace the custom operators of a module."""

    def __init__(self, graph: torch.fx.Graph, module: ir.Module) -> None:
        """Replaces the custom operators of `module`, imported from `graph`, by calls of private functions."""
        nodes = [node for node in graph.nodes if node.op == "call_function" and node.target in _writers]
        self._calls: dict[str, _Call] = {}
        for operation in _collect(module, "torch.operator"):
            name = ir.StringAttr(operation.attributes["name"]).value
            if not name.startswith("torch.repro."):
                continue
            node = nodes[len(self._calls)]
            symbol = f"repro.{len(self._calls)}"
            self._calls[symbol] = _Call(_writers[node.target], tuple(_arguments(node)), _shape(node))
            operands = [value for value in operation.operands if str(value.type).startswith("!torch.vtensor")]
            types = [value.type for value in operation.results]
            with module.context, ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
                ir.Operation.create(
                    "func.func",
                    regions=1,
                    attributes={
                        "sym_name": ir.StringAttr.get(symbol),
                        "sym_visibility": ir.StringAttr.get("private"),
                        "function_type": ir.TypeAttr.get(ir.FunctionType.get([v.type for v in operands], types)),
                    },
                )
                call = ir.Operation.create(
                    "func.call",
                    operands=operands,
                    results=types,
                    attributes={"callee": ir.FlatSymbolRefAttr.get(symbol)},
                    loc=operation.location,
                    ip=ir.InsertionPoint(operation),
                )
            for old, new in zip(operation.results, call.results, strict=True):
                old.replace_all_uses_with(new)
            operation.erase()

    def write(self, module: ir.Module, extents: ExtentWriter | None = None) -> None:
        """Replaces the calls in `module`, which torch-mlir has lowered, by the operations of their writers.

        `extents` writes the extents of a program with symbols.
        """
        with module.context:
            for operation in _collect(module, "func.call"):
                call = self._calls[ir.FlatSymbolRefAttr(operation.attributes["callee"]).value]
                operands = iter(operation.operands)
                arguments = [next(operands) if isinstance(a, torch.fx.Node) else a for a in call.arguments]
                build = Builder(operation, call.shape, extents)
                for old, new in zip(operation.results, call.writer(build, *arguments), strict=True):
                    old.replace_all_uses_with(new)
                operation.erase()
            for operation in _collect(module, "func.func"):
                if ir.StringAttr(operation.attributes["sym_name"]).value in self._calls:
                    operation.erase()


def _arguments(node: torch.fx.Node) -> list[Any]:
    """Returns all arguments of a node, including defaults, in the order of the schema."""
    schema: Any = node.target._schema  # type: ignore[union-attr]  # a custom operator has one
    given = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    return [given.get(a.name, a.default_value) for a in schema.arguments]


def _shape(node: torch.fx.Node) -> Sequence[Any]:
    """Returns the shape of the first result that is a tensor."""
    values = node.meta.get("val")
    for value in values if isinstance(values, tuple | list) else [values]:
        if isinstance(value, torch.Tensor):
            return tuple(value.shape)
    return ()


def _collect(module: ir.Module, name: str) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == name:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found
