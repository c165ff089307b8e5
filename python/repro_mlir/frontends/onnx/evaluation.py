# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs an ONNX graph on PyTorch tensors, node by node; tracing this run creates the program.

Operators that depend on no input and no weight are computed immediately if PyTorch yields the same bits as the program,
so shapes become numbers. The program computes all other constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import torch

from repro_mlir.frontends.onnx.consistency import require_consistency
from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.nodes import (
    MOST_KNOWN,
    Call,
    Node,
    Operator,
    attribute_value,
    is_known,
    outside_of_trace,
)
from repro_mlir.frontends.onnx.operators import EXACT, EXACT_FOR_INTEGERS, OPERATORS
from repro_mlir.frontends.onnx.values import Value, to_torch, type_proto

MOST_CALLS = 20_000
"""The limit on the number of evaluated nodes, counting each execution in loops and functions: one or two minutes of
work.
"""

MOST_KNOWN_OF_ALL = 1 << 27
"""The limit on the number of elements of all tensors that are computed before the program runs."""

_FEW_OPERATORS = (torch.uint16, torch.uint32, torch.uint64)
"""Element types for which PyTorch implements hardly any operators on real tensors."""

_FEW = 4096
"""The program, not the import, fills the result of a ConstantOfShape with more elements than this."""

_DEEPEST = 32
"""The limit on the nesting depth of functions and graphs."""

_OF_FIRST = ("CastLike",)
"""Operators that read only the element type of the inputs after the first one."""

_OF_PAIRS = ("Gather", "GatherND")
"""Operators that may read the entire first input for each element of the second input."""

OWN_DOMAINS = ("", "ai.onnx")


class GraphEvaluation:
    """One run of a model's graph."""

    def __init__(self, model: onnx.ModelProto, origins: dict[int, str]) -> None:
        """Prepares a run, which adds the names of nodes to `origins`, keyed by the ids of their `_Running` objects."""
        self._functions = {(each.domain, each.name): each for each in model.functions}
        self._versions = versions_of(model.opset_import)
        self._origins = origins
        self._kept: list[_Running] = []
        self._calls = self._known = 0

    def run(self, graph: onnx.GraphProto, values: dict[str, Value]) -> list[Value]:
        """Returns the outputs of a graph; `values` maps the names of its inputs and initializers to their values."""
        self._run_nodes(graph.node, values, self._versions, {}, "", 0)
        return [_found(values, output.name) for output in graph.output]

    def _run_nodes(
        self,
        nodes: Sequence[onnx.NodeProto],
        values: dict[str, Value],
        versions: Mapping[str, int],
        given: Mapping[str, onnx.AttributeProto],
        origin: str,
        depth: int,
    ) -> None:
        # Checks the limit for all of these nodes before the first one runs.
        self._spend(len(nodes))
        self._spend(-len(nodes))
        for number, proto in enumerate(nodes):
            # Nodes inside a function or loop have the name of the node that runs the function or loop.
            where = origin or name_of(proto, number)
            running = _Running(self, proto, values, versions, given, where, depth)
            self._origins[id(running)] = where
            # Keeps the object alive, because ids are only unique among living objects.
            self._kept.append(running)
            running.run()

    def call(
        self,
        proto: onnx.NodeProto,
        values: dict[str, Value],
        versions: Mapping[str, int],
        given: Mapping[str, onnx.AttributeProto],
        origin: str,
        depth: int,
    ) -> None:
        """Evaluates one node and stores its outputs in `values`; `given` has the enclosing function's attributes."""
        self._spend(1)
        domain = "" if proto.domain in OWN_DOMAINS else proto.domain
        attributes = {each.name: each for each in (_resolved(each, given) for each in proto.attribute) if each}
        inputs = [_found(values, name) if name else None for name in proto.input]
        function = self._functions.get((proto.domain, proto.op_type))
        operator = None if domain or function is not None else OPERATORS.get(proto.op_type)
        version = versions.get(domain)
        if version is None and function is None:
            raise OnnxError(f"expected an operator set of the domain {domain!r} in opset_import, got none")
        if operator is not None:
            assert version is not None
            node = Node(
                origin, domain, proto.op_type, version, tuple(proto.input), tuple(proto.output),
                {name: attribute_value(each) for name, each in attributes.items()}, proto,
            )  # fmt: skip

            def run_graph(graph: onnx.GraphProto, arguments: Sequence[Value]) -> list[Value]:
                return self._subgraph(graph, arguments, values, versions, given, origin, depth + 1)

            outputs = _computed(operator, Call(node, inputs, run_graph, self._spend))
            self._keep(outputs)
        else:
            if function is None:
                function = _function_of(proto, domain, version or 0, attributes, inputs)
            if function is None:
                name = f"{domain}.{proto.op_type}" if domain else proto.op_type
                raise OnnxError(f"operator {name} is not supported")
            outputs = self._function(function, attributes, inputs, versions, origin, depth + 1)
        for name, value in zip(proto.output, outputs, strict=False):
            if name:
                values[name] = value

    def _spend(self, count: int) -> None:
        self._calls += count
        if self._calls > MOST_CALLS:
            raise OnnxError(f"expected at most {MOST_CALLS:,} runs of nodes, each step of loops included, got more")

    def _keep(self, values: Sequence[Value]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor) and is_known(value):
                self._known += value.numel()
        if self._known > MOST_KNOWN_OF_ALL:
            raise OnnxError(f"expected at most {MOST_KNOWN_OF_ALL:,} elements computed from constants, got more")

    def _subgraph(
        self,
        graph: onnx.GraphProto,
        arguments: Sequence[Value],
        outer: Mapping[str, Value],
        versions: Mapping[str, int],
        given: Mapping[str, onnx.AttributeProto],
        origin: str,
        depth: int,
    ) -> list[Value]:
        # Counts the graph itself, so that a loop with an empty body also terminates.
        self._spend(1)
        _require_depth(depth)
        values = {**outer, **initial_values(graph)}
        if len(arguments) != len(graph.input):
            raise OnnxError(f"expected {len(arguments)} inputs of a graph of the node, got {len(graph.input)}")
        values.update(zip((each.name for each in graph.input), arguments, strict=True))
        self._run_nodes(graph.node, values, versions, given, origin, depth)
        return [_found(values, output.name) for output in graph.output]

    def _function(
        self,
        function: onnx.FunctionProto,
        attributes: Mapping[str, onnx.AttributeProto],
        inputs: Sequence[Value],
        versions: Mapping[str, int],
        origin: str,
        depth: int,
    ) -> list[Value]:
        _require_depth(depth)
        given = {each.name: each for each in function.attribute_proto}
        given.update(attributes)
        values: dict[str, Value] = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        imported = {**versions, **versions_of(function.opset_import)}
        self._run_nodes(function.node, values, imported, given, origin, depth)
        return [values.get(name) for name in function.output]


class _Running:
    """A node while it runs. The trace finds `run` on the call stack and reads the node's name from `origins`."""

    def __init__(self, evaluation: GraphEvaluation, *arguments: Any) -> None:
        self._evaluation = evaluation
        self._arguments = arguments

    def run(self) -> None:
        """Evaluates the node."""
        self._evaluation.call(*self._arguments)
        self._arguments = ()


def name_of(node: onnx.NodeProto, number: int) -> str:
    """Returns the name of a node for messages and locations."""
    operator = f"{node.domain}.{node.op_type}" if node.domain not in OWN_DOMAINS else node.op_type
    return f"node {node.name or number} ({operator})"


def versions_of(imports: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Returns the operator version per domain."""
    return {"" if each.domain in OWN_DOMAINS else each.domain: each.version for each in imports}


def initial_values(graph: onnx.GraphProto) -> dict[str, Value]:
    """Returns the initializers of a graph as real tensors."""
    if graph.sparse_initializer:
        raise OnnxError(f"sparse initializer {graph.sparse_initializer[0].values.name!r} is not supported")
    with outside_of_trace():
        return {each.name: to_torch(each) for each in graph.initializer}


def _require_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise OnnxError(f"expected graphs and functions nested at most {_DEEPEST} deep, got more")


def _found(values: Mapping[str, Value], name: str) -> Value:
    if name not in values:
        raise OnnxError(f"value {name!r} is read but not computed before: expected nodes in the order of their inputs")
    return values[name]


def _resolved(attribute: onnx.AttributeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.AttributeProto | None:
    """Returns the attribute, or the enclosing function's attribute that it refers to; None if the function has none."""
    if not attribute.ref_attr_name:
        return attribute
    found = given.get(attribute.ref_attr_name)
    if found is None:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(found)
    copy.name = attribute.name
    return copy


def _computed(operator: Operator, call: Call) -> list[Value]:
    """Returns the outputs of an operator: real tensors if no input is traced and the operator is exact, else traced
    ones."""
    require_consistency(call)
    looked_at = call.inputs[:1] if call.node.operator in _OF_FIRST else call.inputs
    if all(map(is_known, looked_at)) and _is_exact(call):
        with outside_of_trace():
            result = operator(call)
            is_exact = call.node.operator not in ("Cast", "CastLike") or _is_conversion(call.inputs[0], result)
    else:
        is_exact = False
    if not is_exact:
        result = operator(call)
    return list(result) if isinstance(result, tuple) else [result]


def _is_exact(call: Call) -> bool:
    """Whether PyTorch computes the same bits as the program, in bounded memory."""
    tensors = [each for each in call.inputs if isinstance(each, torch.Tensor)]
    name = call.node.operator
    if any(each.dtype in _FEW_OPERATORS for each in tensors):
        return False
    if name in EXACT_FOR_INTEGERS:
        return not any(each.is_floating_point() for each in tensors)
    if name == "ConstantOfShape" and math.prod(call.numbers(0) or []) > _FEW:
        # Computing the constant now would store all of its equal elements in the program.
        return False
    if name in _OF_PAIRS:
        size = math.prod(max(each.numel(), 1) for each in tensors)
    else:
        size = max(sum(each.numel() for each in tensors), _broadcast_size(tensors))
    return name in EXACT and size <= MOST_KNOWN


def _is_conversion(given: Any, result: Any) -> bool:
    """Returns whether `result`, PyTorch's conversion of `given`, is as (S3) defines. It may not be for floats outside
    the range of an integer type: PyTorch's result then depends on the machine."""
    if not isinstance(given, torch.Tensor) or not given.is_floating_point() or result.is_floating_point():
        return True
    return result.dtype is torch.bool or bool((result.double() == given.double().trunc()).all())


def _broadcast_size(tensors: Sequence[torch.Tensor]) -> int:
    try:
        return math.prod(torch.broadcast_shapes(*(each.shape for each in tensors)))
    except RuntimeError:
        return 0


def _function_of(
    proto: onnx.NodeProto,
    domain: str,
    version: int,
    attributes: Mapping[str, onnx.AttributeProto],
    inputs: Sequence[Value],
) -> onnx.FunctionProto | None:
    """Returns the function that defines an operator in terms of other operators, if the ONNX standard has one."""
    try:
        # Annotated as Any, because onnx's type stubs are incomplete.
        schema: Any = onnx.defs.get_schema(proto.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    function = onnx.FunctionProto()
    # The newest definition up to the model's version, so that the operators that the definition calls exist in that
    # version.
    own = [each for each in schema.function_opset_versions if each <= version]
    dependent = [each for each in schema.context_dependent_function_opset_versions if each <= version]
    if own:
        function.ParseFromString(schema.get_function_with_opset_version(max(own)))
    elif dependent:
        node = onnx.NodeProto()
        node.CopyFrom(proto)
        del node.attribute[:]
        node.attribute.extend(attributes.values())
        types = [type_proto(each).SerializeToString() for each in inputs]
        body = schema.get_context_dependent_function_with_opset_version(max(dependent), node.SerializeToString(), types)
        function.ParseFromString(body)
    else:
        return None
    defaults = [
        each.default_value
        for name, each in schema.attributes.items()
        if name not in attributes and each.default_value.type != onnx.AttributeProto.UNDEFINED
    ]
    function.attribute_proto.extend(defaults)
    return function
