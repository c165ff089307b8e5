# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Lowers a functional ATen graph to imported linalg text (docs/contributors/architecture.md) with torch-mlir."""

import io
import re
from collections.abc import Sequence

import torch
import torch.fx

from repro_mlir.frontends.base.newer_mlir import for_llvm_22
from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.open_sizes import SymbolicSizes
from repro_mlir.frontends.torch.base.repro_operations import OperationCalls
from repro_mlir.frontends.torch.base.source_lines import origin_of_node, origin_of_trace
from repro_mlir.frontends.torch.base.symbolic_extents import ExtentWriter, extent_maps
from repro_mlir.frontends.torch.base.torch_internals import context_cache, replace_context_cache
from repro_mlir.frontends.torch.base.torch_mlir_names import (
    TORCH_DTYPE_TO_MLIR_TYPE,
    ContextCache,
    FxImporter,
    FxImporterHooks,
    GraphNodeImporter,
    InputInfo,
    PassManager,
    ir,
    torch_dialect,
)
from repro_mlir.frontends.torch.lower.lowering_process import LoweringEnded, run_torch_mlir

_CANONICALIZE = "func.func(canonicalize)"
# torch-mlir's pipeline from the torch dialect to linalg on tensors, without the last pass, which rejects operations of
# other dialects.
_PIPELINE = ",".join(
    [
        "builtin.module(func.func(torch-match-quantized-custom-ops)",
        "torchdynamo-export-to-torch-backend-pipeline",
        "func.func(torch-restructure-non-constant-axes,torch-fuse-quantized-ops)",
        "func.func(convert-torch-to-tmtensor{allow-non-finites=true})",
        _CANONICALIZE,
        "func.func(convert-torch-to-linalg{allow-non-finites=true})",
        _CANONICALIZE,
        "func.func(convert-torch-to-scf,convert-torch-to-arith,convert-torch-to-tensor)",
        "convert-torch-conversion-to-mlprogram",
        "func.func(memref-expand)",
        _CANONICALIZE,
        "func.func(resolve-shaped-type-result-dims,cse)",
        "torch-func-backend-type-conversion",
        _CANONICALIZE,
        "func.func(torch-finalizing-backend-type-conversion))",
    ]
)
_PROBE_DIVIDES_SECONDS = 10
"""The divisor of the time limit for each attempt of the search for the operator that makes torch-mlir fail."""


def lower(
    module: torch.fx.GraphModule,
    num_state: int,
    arguments: Sequence[str],
    results: Sequence[str],
    *,
    name_nodes: bool = False,
    sizes: SymbolicSizes | None = None,
) -> str:
    """Lowers a graph to MLIR generic text.

    Args:
      module: the functional graph; its first `num_state` arguments and results are the state.
      num_state: the number of state tensors.
      arguments, results: names for `repro.name`, one per argument and result.
      name_nodes: whether locations begin with the names of the graph's nodes, which are not part of the program.
      sizes: the sizes of a program with symbols, whose inputs are the arguments after the state.
    Returns:
      a module with one `func.func @main`, in generic text that LLVM 22 parses.
    Raises:
      CaptureError: an operator has no lowering.
    """
    context = ir.Context()
    torch_dialect.register_dialect(context)
    # The context does not know the repro dialect, whose operations are written in generic form.
    context.allow_unregistered_dialects = True
    imported, calls = _import(module.graph, context, name_nodes)
    try:
        lowered = _run_pipeline(imported)
    except LoweringEnded as error:
        raise CaptureError(_crash_reason(module.graph, error)) from None
    with context:
        # Running the passes on an empty module loads their dialects into the context.
        PassManager.parse(_PIPELINE).run(ir.Module.parse("module {}").operation)
        imported = ir.Module.parse(lowered)
    with context, ir.Location.unknown():
        left = _first_operator(imported)
        if left is not None:
            raise CaptureError(_with_line(left[1], _unsupported(left[0])))
        main = next(
            op
            for op in imported.body.operations
            if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main"
        )
        extents = None if sizes is None else ExtentWriter(main, sizes, num_state)
        if sizes is not None and extents is not None:
            extents.require(sizes.conditions())
        calls.write(imported, extents)
        _round_constants(imported)
        _name(main, num_state, arguments, results)
        if sizes is not None:
            _mark_sizes(main, sizes, num_state)
    if sizes is None:
        _require_static_shapes(imported)
    text = imported.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return for_llvm_22(text)


# --- torch-mlir ---


def _import(graph: torch.fx.Graph, context: ir.Context, name_nodes: bool = False) -> tuple[ir.Module, OperationCalls]:
    for node in graph.nodes:
        # For a node without a trace, torch-mlir would use the location of the preceding node.
        node.meta.setdefault("stack_trace", "")
    importer = FxImporter(context=context, hooks=_InlineConstants())
    locations = _NamedNodes if name_nodes else _Origins
    replace_context_cache(importer, locations, context)
    try:
        importer.import_stateless_graph(graph, func_name="main")
    except KeyError:
        # torch-mlir looks up the subgraphs of a higher-order operator by name and does not find them.
        raise CaptureError("torch-mlir cannot import the graph: operators with subgraphs are not supported") from None
    except (NotImplementedError, TypeError, ValueError, AssertionError, RuntimeError) as error:
        for node in graph.nodes:
            # Arithmetic on sizes uses Python functions, which torch-mlir rejects because they are not ATen operators.
            if node.op == "call_function" and f"Unimplemented call_function: target={node.target}," in str(error):
                raise located(origin_of_node(node), _unsupported(node.target.__name__)) from None
        raise CaptureError(f"torch-mlir cannot import the graph: {str(error).strip().splitlines()[0]}") from error
    return importer.module, OperationCalls(graph, importer.module)


def _run_pipeline(module: ir.Module, *, divide_seconds: int = 1) -> bytes:
    """Lowers a module to linalg and returns bytecode.

    Raises:
      CaptureError: torch-mlir reports an error.
      LoweringEnded: torch-mlir crashes or exceeds a limit.
    """
    source = io.BytesIO()
    module.operation.write_bytecode(source)
    done = run_torch_mlir(source.getvalue(), _PIPELINE, divide_seconds=divide_seconds)
    if done.returncode == 0:
        return done.stdout
    try:
        # The passes run again in this process, because the Python bindings return diagnostics with locations.
        with module.context:
            PassManager.parse(_PIPELINE).run(module.operation)
    except ir.MLIRError as error:
        raise CaptureError(_reason(error, module)) from None
    raise CaptureError(f"torch-mlir cannot lower the graph: {done.stderr.decode(errors='replace').strip()[:200]}")


def _crash_reason(whole: torch.fx.Graph, error: LoweringEnded) -> str:
    """Returns a message that names the operator at which torch-mlir fails.

    The operator is the last node of the shortest prefix of the graph that makes torch-mlir fail.
    """
    nodes = list(whole.nodes)

    def ends(count: int) -> bool:
        graph = torch.fx.Graph(whole.owning_module)
        values: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in nodes[:count]:
            values[node] = graph.node_copy(node, values.__getitem__)
        ends = [
            value
            for node, value in values.items()
            if not value.users and isinstance(node.meta.get("val"), torch.Tensor)
        ]
        graph.output(ends)
        context = ir.Context()
        torch_dialect.register_dialect(context)
        try:
            _run_pipeline(_import(graph, context)[0], divide_seconds=_PROBE_DIVIDES_SECONDS)
        except LoweringEnded:
            return True
        except CaptureError:
            return False
        return False

    low, high = 0, len(nodes) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if ends(middle) else (middle + 1, high)
    node = nodes[max(low - 1, 0)]
    reason = f"operator {str(node.target).removesuffix('.default')} {error}"
    origin = origin_of_trace(node.meta.get("stack_trace"))
    return f"{origin}: {reason}" if origin else reason


def _require_static_shapes(module: ir.Module) -> None:
    found: list[str] = []

    def check(operation: ir.Operation) -> ir.WalkResult:
        for result in operation.results:
            kind = result.type
            if isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape:
                found.append(str(operation.location))
                return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(check)
    if found:
        raise CaptureError(_with_line(found[0], "a shape depends on tensor values"))


# --- Locations ---


class _Origins(ContextCache):
    """Gives each node the user's line as its location, or the name of the module or phase if there is no line."""

    def get_node_location(self, node: torch.fx.Node) -> ir.Location:
        location = super().get_node_location(node)
        origin = origin_of_trace(node.meta.get("stack_trace"))
        # torch-mlir returns None or an unknown location if it cannot parse the trace.
        known = location is not None and location != ir.Location.unknown(context=self._c)
        if known or not origin:
            return location
        return ir.Location.name(origin, context=self._c)


class _NamedNodes(_Origins):
    """Begins each location with the name of the graph's node."""

    def get_node_location(self, node: torch.fx.Node) -> ir.Location:
        return ir.Location.name(node.name, super().get_node_location(node), context=self._c)


# --- Constants ---


class _InlineConstants(FxImporterHooks):
    """Imports tensor constants as dense attributes; torch-mlir's default is resources outside of the program text."""

    def resolve_literal(self, gni: GraphNodeImporter, literal: object, info: InputInfo | None) -> ir.Value | None:
        if not isinstance(literal, torch.Tensor) or literal.dtype not in TORCH_DTYPE_TO_MLIR_TYPE:
            return None
        tensor = literal.detach().contiguous().cpu()
        if tensor.is_complex():
            return None
        data = tensor.reshape(-1).view(torch.uint8).numpy()
        kind = ir.RankedTensorType.get(list(tensor.shape), TORCH_DTYPE_TO_MLIR_TYPE[tensor.dtype]())
        value = ir.DenseElementsAttr.get(data, type=kind)
        cache: ContextCache = context_cache(gni)
        return ir.Operation.create(
            "torch.vtensor.literal",
            results=[cache.tensor_to_vtensor_type(tensor)],
            attributes={"value": value},
        ).result


def _round_constants(module: ir.Module) -> None:
    """Replaces a truncation of an f64 constant by a constant of the narrow type, rounded once."""
    narrowings: list[ir.Operation] = []

    def collect(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "arith.truncf":
            source = operation.operands[0].owner
            if isinstance(source, ir.Operation | ir.OpView) and source.operation.name == "arith.constant":
                narrowings.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for operation in narrowings:
        constant = operation.operands[0].owner.operation
        number = ir.FloatAttr(constant.attributes["value"]).value
        kind = operation.results[0].type
        # FloatAttr rounds a double to the attribute's type, to nearest even.
        rounded = ir.Operation.create(
            "arith.constant",
            attributes={"value": ir.FloatAttr.get(kind, number)},
            results=[kind],
            loc=constant.location,
            ip=ir.InsertionPoint(constant),
        )
        operation.results[0].replace_all_uses_with(rounded.results[0])
        operation.erase()
        if not list(constant.results[0].uses):
            constant.erase()


# --- Signature ---


def _name(main: ir.OpView, num_state: int, arguments: Sequence[str], results: Sequence[str]) -> None:
    def names(values: Sequence[str]) -> ir.ArrayAttr:
        return ir.ArrayAttr.get([ir.DictAttr.get({"repro.name": ir.StringAttr.get(value)}) for value in values])

    main.attributes["arg_attrs"] = names(arguments)
    main.attributes["res_attrs"] = names(results)
    main.attributes["repro.num_state"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), num_state)


def _mark_sizes(main: ir.OpView, sizes: SymbolicSizes, num_state: int) -> None:
    """Sets the attributes for symbols and extents (docs/contributors/architecture.md)."""
    bounds = ", ".join(f"{symbol.least}, {symbol.most}" for symbol in sizes.symbols)
    main.attributes["repro.symbols"] = ir.ArrayAttr.get([ir.StringAttr.get(symbol.name) for symbol in sizes.symbols])
    main.attributes["repro.bounds"] = ir.Attribute.parse(f"array<i64: {bounds}>")
    marked = list(ir.ArrayAttr(main.attributes["arg_attrs"]))
    for number, extents in enumerate(extent_maps(sizes), num_state):
        if extents is not None:
            entries = {entry.name: entry.attr for entry in ir.DictAttr(marked[number])}
            marked[number] = ir.DictAttr.get(entries | {"repro.extents": ir.AffineMapAttr.get(extents)})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(marked)


# --- Errors ---

_LOCATION = re.compile(r'"([^"]+)":(\d+):\d+')
_NAME = re.compile(r'"([^"]+)"')


# Operators that remain until the last conversions and are rarely the cause of a failure.
_SCALAR_OPERATORS = re.compile(r"torch\.(constant|prim|vtensor|aten\.(Int|Float|Bool|size)|runtime)")


def _reason(error: ir.MLIRError, module: ir.Module) -> str:
    """Returns one line that names the unsupported operator and its Python line.

    A failed conversion reports the first illegal operation that remains, often a scalar constant. The message then
    names the first remaining tensor operator instead.
    """
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return f"lowering failed: {str(error).splitlines()[0]}"
    message, location = diagnostics[0].message.splitlines()[0], str(diagnostics[0].location)
    operator = re.search(r"'(torch\.[\w.]+)'", message)
    if operator is None:
        return _with_line(location, message)
    name = operator[1]
    if name == "torch.operator":
        named = re.search(r'name = "([\w.]+)"', message)
        name = named[1] if named else name
    elif _SCALAR_OPERATORS.match(name):
        kept = _first_operator(module)
        if kept is not None:
            name, location = kept
    return _with_line(location, _unsupported(name))


def _unsupported(name: str) -> str:
    return f"operator {name.removeprefix('torch.')} is not supported"


def _with_line(location: str, reason: str) -> str:
    if found := _LOCATION.search(location):
        return f"{found[1]}:{found[2]}: {reason}"
    named = _NAME.search(location)
    return f"{named[1]}: {reason}" if named else reason


def _first_operator(module: ir.Module) -> tuple[str, str] | None:
    """Returns the name and location of the first tensor operator that remains in `module`; None if none remains."""
    found: list[tuple[str, str]] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        if not operation.name.startswith("torch.") or _SCALAR_OPERATORS.match(operation.name):
            return ir.WalkResult.ADVANCE
        if operation.name == "torch.operator":
            found.append((ir.StringAttr(operation.attributes["name"]).value, str(operation.location)))
        elif operation.name.startswith("torch.aten."):
            found.append((operation.name, str(operation.location)))
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found[0] if found else None
