# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes symbolic extents and conditions of a program as operations of an imported module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.open_sizes import SymbolicSizes
from repro_mlir.frontends.torch.base.torch_mlir_names import ir

_COMPARISONS = {
    "Equality": "eq",
    "Unequality": "ne",
    "StrictLessThan": "slt",
    "LessThan": "sle",
    "StrictGreaterThan": "sgt",
    "GreaterThan": "sge",
}
_PREDICATES = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5}
_FOLDED = {
    "Add": "arith.addi",
    "Mul": "arith.muli",
    "Max": "arith.maxsi",
    "Min": "arith.minsi",
    "And": "arith.andi",
    "Or": "arith.ori",
}


class ExtentWriter:
    """Writes, at the beginning of `main`, operations that compute integers and conditions from the program's
    symbols."""

    def __init__(self, main: ir.OpView, sizes: SymbolicSizes, first_input: int) -> None:
        self._sizes = sizes
        self._block = main.regions[0].blocks[0]
        self._first_input = first_input
        self._anchor = self._block.operations[0]
        self._written: dict[sympy.Basic, ir.Value] = {}

    def value(self, expr: Any) -> ir.Value:
        """Returns a value of type index for an int, a torch.SymInt or an expression, or an i1 for a condition.

        Raises:
          CaptureError: the expression contains an unsupported function or a symbol that is not an input's extent.
        """
        node = getattr(expr, "node", None)
        expr = sympy.sympify(expr if node is None else node.expr)
        if expr not in self._written:
            self._written[expr] = self._write(expr)
        return self._written[expr]

    def require(self, conditions: Sequence[sympy.Basic]) -> None:
        """Writes an assertion for each condition on the sizes."""
        for condition in conditions:
            message = f"the program holds for sizes with {self._sizes.describe(condition)}"
            self._create("cf.assert", [self.value(condition)], None, msg=ir.StringAttr.get(message))

    def _write(self, expr: sympy.Basic) -> ir.Value:
        kind = type(expr).__name__
        if isinstance(expr, sympy.Integer):
            return self._constant(int(expr))
        if isinstance(expr, sympy.Symbol):
            if expr not in self._sizes.variables:
                raise CaptureError("a shape depends on tensor values")
            number, dim = self._sizes.place_of(expr)
            argument = self._block.arguments[self._first_input + number]
            return self._create("tensor.dim", [argument, self._constant(dim)], ir.IndexType.get())
        if kind in _COMPARISONS:
            predicate = _PREDICATES[_COMPARISONS[kind]]
            attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
            return self._create("arith.cmpi", self._operands(expr), self._boolean(), predicate=attribute)
        if kind in _FOLDED:
            first, *rest = self._operands(expr)
            for value in rest:
                first = self._create(_FOLDED[kind], [first, value], first.type)
            return first
        if kind == "Not":
            one = ir.IntegerAttr.get(self._boolean(), 1)
            truth = self._create("arith.constant", [], self._boolean(), value=one)
            return self._create("arith.xori", [*self._operands(expr), truth], self._boolean())
        if kind in ("FloorDiv", "CleanDiv"):
            return self._create("arith.floordivsi", self._operands(expr), ir.IndexType.get())
        if kind in ("Mod", "PythonMod"):
            # Extents are not negative, so the signed remainder equals Python's modulo.
            return self._create("arith.remsi", self._operands(expr), ir.IndexType.get())
        if isinstance(expr, sympy.Pow) and isinstance(expr.exp, sympy.Integer) and 2 <= expr.exp <= 8:
            base = value = self.value(expr.base)
            for _ in range(int(expr.exp) - 1):
                value = self._create("arith.muli", [value, base], base.type)
            return value
        raise CaptureError(f"the program computes {self._sizes.describe(expr)} from its sizes, which is not supported")

    def _operands(self, expr: sympy.Basic) -> list[ir.Value]:
        return [self.value(each) for each in expr.args]

    def _boolean(self) -> ir.Type:
        return ir.IntegerType.get_signless(1)

    def _constant(self, number: int) -> ir.Value:
        kind = ir.IndexType.get()
        return self._create("arith.constant", [], kind, value=ir.IntegerAttr.get(kind, number))

    def _create(
        self, name: str, operands: Sequence[ir.Value], result: ir.Type | None, **attributes: ir.Attribute
    ) -> Any:
        created = ir.Operation.create(
            name,
            operands=list(operands),
            results=[] if result is None else [result],
            attributes=attributes,
            loc=ir.Location.unknown(),
            ip=ir.InsertionPoint(self._anchor),
        )
        return None if result is None else created.result


def extent_maps(sizes: SymbolicSizes) -> list[ir.AffineMap | None]:
    """Returns for each input the map from the symbols to the input's extents; None for an input without symbols. Raises
    CaptureError if an extent is not an affine expression such as 2 * batch + 1."""

    def affine(expr: Any) -> ir.AffineExpr:
        expr = sympy.sympify(expr)
        if isinstance(expr, sympy.Integer):
            return ir.AffineExpr.get_constant(int(expr))
        if isinstance(expr, sympy.Symbol):
            return ir.AffineExpr.get_symbol(sizes.variables.index(expr))
        make: Callable[[Any, Any], ir.AffineExpr]
        if isinstance(expr, sympy.Add):
            make = ir.AffineExpr.get_add
        elif isinstance(expr, sympy.Mul) and len(expr.free_symbols) == 1 and not isinstance(expr.args[-1], sympy.Pow):
            make = ir.AffineExpr.get_mul
        else:
            raise CaptureError(f"expected an extent such as 2 * batch + 1, got {sizes.describe(expr)}")
        first, *rest = (affine(each) for each in expr.args)
        for each in rest:
            first = make(first, each)
        return first

    return [
        None if extents is None else ir.AffineMap.get(0, len(sizes.variables), [affine(each) for each in extents])
        for extents in sizes.extents_of_program()
    ]
