# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Creates operations of any dialect in generic form, with the MLIR Python bindings of a frontend's framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class OperationWriter:
    """Creates operations directly before a given one, with its source location."""

    def __init__(self, ir: Any, operation: Any) -> None:
        """`ir` is the Python module of the MLIR bindings to which `operation` belongs."""
        self._ir = ir
        self._location = operation.location
        self._point = ir.InsertionPoint(operation)

    def create(
        self,
        name: str,
        operands: Sequence[Sequence[Any]],
        results: Sequence[Any],
        attributes: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Creates an operation and returns its results.

        Args:
          name: `dialect.operation`.
          operands: one list of values per operand group. If there are several groups, `operandSegmentSizes` is set too.
          results: the types of the results.
          attributes: inherent attributes by name.
        """
        attributes = dict(attributes or {})
        if len(operands) > 1:
            counts = [len(values) for values in operands]
            attributes["operandSegmentSizes"] = self._ir.DenseI32ArrayAttr.get(counts)
        return list(
            self._ir.Operation.create(
                name,
                operands=[value for values in operands for value in values],
                results=list(results),
                attributes=attributes,
                loc=self._location,
                ip=self._point,
            ).results
        )

    def structured(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        maps: Sequence[Any],
        iterators: Sequence[str],
        compute: Callable[[list[Any]], Sequence[Any]],
    ) -> list[Any]:
        """Creates a linalg.generic and returns its results.

        Args:
          inputs, outputs: tensors; the results have the types of the outputs.
          maps: one indexing map per input and output.
          iterators: "parallel" or "reduction" for each dimension.
          compute: creates the operations of the body. Receives one element of each input and output, and returns one
            element of each result.
        """
        ir = self._ir
        kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{each}>") for each in iterators]
        generic = ir.Operation.create(
            "linalg.generic",
            operands=[*inputs, *outputs],
            results=[value.type for value in outputs],
            attributes={
                "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
                "iterator_types": ir.ArrayAttr.get(kinds),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(outputs)]),
            },
            regions=1,
            loc=self._location,
            ip=self._point,
        )
        elements = [ir.RankedTensorType(value.type).element_type for value in (*inputs, *outputs)]
        body = generic.regions[0].blocks.append(*elements, arg_locs=[self._location] * len(elements))
        with ir.InsertionPoint(body), self._location:
            ir.Operation.create("linalg.yield", operands=list(compute(list(body.arguments))))
        return list(generic.results)
