# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Dynamic sizes of a program: the dynamic shapes of torch.export as symbols of a trace."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy
import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StrictMinMaxConstraint

from repro_mlir.base.tensors.batches import as_arguments
from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.batch_leaves import flatten, leaf_names
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.program.imported import GREATEST_SIZE, Symbol

Extent: TypeAlias = int | sympy.Expr
"""An extent of a tensor: a number or an expression of the symbols of a `SymbolicSizes`."""

_CHOICES_OF_AN_ALGORITHM = {
    ("_decomp/decompositions.py", "matmul"),
    ("_decomp/decompositions.py", "should_fold"),
    ("_subclasses/fake_impls.py", "conv"),
}
"""Functions of PyTorch that read a size only to choose an algorithm: folding dimensions, copy or view, memory format.

All choices compute the same elements, so each choice is valid for every size."""

_CALLERS_OF_ALGORITHMS = {
    ("_decomp/decompositions.py", "one_layer_lstm"),
    ("_decomp/decompositions.py", "one_layer_rnn"),
    ("nn/functional.py", "_in_projection_packed"),
    ("nn/functional.py", "multi_head_attention_forward"),
    ("nn/modules/linear.py", "forward"),
}
"""Python functions of PyTorch that call C++ functions, which read sizes only to choose an algorithm.

A size that the Python code itself reads is a condition of the program."""

_CHOOSING_FUNCTIONS = {
    torch.flatten,
    torch.matmul,
    torch.nn.functional.linear,
    torch.reshape,
    torch.Tensor.__matmul__,
    torch.Tensor.contiguous,
    torch.Tensor.flatten,
    torch.Tensor.matmul,
    torch.Tensor.reshape,
}
_CHOOSING_OPERATORS = {
    torch.ops.aten.contiguous.default,
    torch.ops.aten.flatten.using_ints,
    torch.ops.aten.linear.default,
    torch.ops.aten.matmul.default,
    torch.ops.aten.reshape.default,
}
"""More functions and operators that read a size only to choose an algorithm. They are C++ and have no Python frame."""


_UNLIKELY_SIZES = (29, 31, 37, 41, 43, 47, 53, 59, 61, 23, 19, 17, 13, 11, 7, 5, 3)
"""The example sizes of traces: primes, so that a model's divisor, such as a number of heads, divides none of them."""


class _ShapeEnv(ShapeEnv):
    """Records a guard where a trace branches on a size, except where the branch only chooses an algorithm."""

    def evaluate_sym_node(self, *args: Any, **kwargs: Any) -> Any:
        if not _is_choice_of_an_algorithm():
            return super().evaluate_sym_node(*args, **kwargs)
        with self.suppress_guards():
            return super().evaluate_sym_node(*args, **kwargs)


def _is_choice_of_an_algorithm() -> bool:
    frame: Any = sys._getframe(2)
    is_python = False
    while frame.f_globals.get("__name__") in ("torch", "torch.fx.experimental.sym_node"):
        is_python |= frame.f_code.co_name == "__bool__"
        frame = frame.f_back
    place = frame.f_code.co_filename.rpartition("torch/")[2], frame.f_code.co_name
    if place == ("fx/experimental/proxy_tensor.py", "__torch_function__"):
        return frame.f_locals.get("func") in _CHOOSING_FUNCTIONS
    if place == ("_ops.py", "__call__"):
        return frame.f_locals.get("self") in _CHOOSING_OPERATORS
    return place in _CHOICES_OF_AN_ALGORITHM or (place in _CALLERS_OF_ALGORITHMS and not is_python)


@dataclass(frozen=True)
class _Open:
    """The entry of `dynamic_shapes` for one tensor: `dims` maps a dimension to a Dim or a hint such as Dim.AUTO."""

    dims: Mapping[int, Any]


class SymbolicSizes:
    """The symbols of a program and the extents of its inputs as expressions of the symbols.

    Attributes:
      symbols: the name and bounds per symbol.
      variables: the sympy variable per symbol, in the same order.
      extents: the extents per input; None for an input without symbols.
    """

    def __init__(self, names: Sequence[str], tensors: Sequence[torch.Tensor], *, of_examples: bool) -> None:
        """Creates sizes without symbols.

        Args:
          names: the names of the inputs.
          tensors: examples of the inputs.
          of_examples: whether a trace uses the sizes of the examples; otherwise it uses `_UNLIKELY_SIZES`.
        """
        self.symbols: list[Symbol] = []
        self.variables: list[sympy.Symbol] = []
        self.extents: list[list[Extent] | None] = [None] * len(tensors)
        self._names = names
        self._tensors = tensors
        self._env = _ShapeEnv(specialize_zero_one=False, duck_shape=False)
        self._of_examples = of_examples
        self._hints: dict[sympy.Symbol, int] = {}

    def _add(self, name: str, least: int, most: int, example: int) -> sympy.Symbol:
        """Adds and returns a symbol with the bounds `least` and `most`. The value of the symbol in the examples is
        `example`."""
        # Imported here because importing TorchDynamo can take longer than capturing a step.
        from repro_mlir.frontends.torch.base.torch_internals import ConstantSource

        if not name.isidentifier():
            raise CaptureError(f"expected an identifier as the name of a size, got {name!r}")
        given, least, most = f"{least} to {most}", max(least, 1), min(most, GREATEST_SIZE)
        if not least <= most:
            raise CaptureError(f"expected bounds of {name} within 1 to {GREATEST_SIZE}, got {given}")
        used = self._hints.values()
        apart = (size for size in _UNLIKELY_SIZES if least <= size <= most and size not in used)
        hint = min(max(example, least), most) if self._of_examples else next(apart, min(max(2, least), most))
        constraint = StrictMinMaxConstraint(warn_only=False, vr=internals.ValueRanges(least, most))
        variable = self._env.create_symbol(
            hint,
            # PyTorch orders the terms of sums and products by this name. A number makes the order independent of the
            # user's names.
            source=ConstantSource(f"size{len(self.symbols)}"),
            dynamic_dim=DimDynamic.DYNAMIC,
            constraint_dim=constraint,
            do_not_specialize_zero_one=True,
        )
        if not isinstance(variable, sympy.Symbol):
            raise CaptureError(f"{name} has only the size {variable}: leave out its torch.export.Dim")
        self.symbols.append(Symbol(name, least, most))
        self.variables.append(variable)
        self._hints[variable] = hint
        return variable

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Configures PyTorch within the block for tracing the tensors that `fake` returns."""
        with (
            # With this option, PyTorch assumes that sizes are above 1 in checks where a size of 1 gives the same
            # result, and adds no guard.
            internals.symbols_config.patch(backed_size_oblivious=True),  # type: ignore[attr-defined]
            internals.functorch_config.patch(fake_tensor_allow_unsafe_data_ptr_access=False),
        ):
            yield

    def fake(self, others: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns fake tensors for a trace: one like each of `others`, then one per input, whose dynamic extents are
        symbols."""
        mode = internals.FakeTensorMode(
            allow_fallback_kernels=True, allow_non_fake_inputs=True, shape_env=self._env, static_shapes=True
        )
        fakes: list[torch.Tensor] = [mode.from_tensor(tensor) for tensor in others]
        for tensor, extents in zip(self._tensors, self.extents, strict=True):
            if extents is None:
                fakes.append(mode.from_tensor(tensor))
                continue
            shape = [extent if isinstance(extent, int) else self._size(extent) for extent in extents]
            with mode:
                fakes.append(torch.empty(shape, dtype=tensor.dtype))
        return fakes

    def extents_of_program(self) -> list[list[Extent] | None]:
        """Returns `extents` for the program's inputs: a complex input has an additional last dimension, of extent 2
        (Z1)."""
        pairs = zip(self.extents, self._tensors, strict=True)
        return [[*found, 2] if found is not None and tensor.is_complex() else found for found, tensor in pairs]

    def _size(self, extent: sympy.Expr) -> Any:
        hint = int(extent.xreplace({variable: sympy.Integer(n) for variable, n in self._hints.items()}))
        return self._env.create_symintnode(extent, hint=hint)

    def conditions(self) -> list[sympy.Expr]:
        """Returns the conditions on sizes that the traces of the fake tensors assumed; the graph is valid for sizes
        that meet all these conditions.

        Raises:
          CaptureError: the conditions allow only one size for a symbol.
        """
        for variable in self.variables:
            size = self._env.replacements.get(variable)
            if size is not None and size.is_Integer:
                raise CaptureError(
                    f"the model only runs with size {size} of {self.describe(variable)}: leave out its torch.export.Dim"
                )
        return list(dict.fromkeys(guard.expr for guard in self._env.guards))

    def hold_for_examples(self) -> bool:
        """Returns whether the conditions hold for the sizes of the examples."""
        return all(condition.xreplace(self._examples()) == sympy.true for condition in self.conditions())

    def _examples(self) -> dict[sympy.Symbol, sympy.Integer]:
        places = ((variable, *self.place_of(variable)) for variable in self.variables)
        return {variable: sympy.Integer(self._tensors[number].shape[dim]) for variable, number, dim in places}

    def describe(self, expr: sympy.Basic) -> str:
        """Formats an expression with the names of the symbols."""
        names = zip(self.variables, self.symbols, strict=True)
        expr = expr.xreplace({variable: sympy.Symbol(symbol.name, integer=True) for variable, symbol in names})
        if isinstance(expr, sympy.Eq | sympy.Ne):
            return f"{expr.lhs} {'==' if isinstance(expr, sympy.Eq) else '!='} {expr.rhs}"
        return str(expr)

    def place_of(self, variable: sympy.Symbol) -> tuple[int, int]:
        """Returns the index of an input, and the index of its dimension whose extent is exactly this symbol.

        Raises:
          CaptureError: no dimension has this extent.
        """
        for number, extents in enumerate(self.extents):
            for dim, extent in enumerate(extents or []):
                if extent == variable:
                    return number, dim
        raise CaptureError(f"expected a dimension of extent {self.describe(variable)}, got only expressions of it")

    def _check(self) -> None:
        """Raises CaptureError if a symbol is not the extent of an input, or an example is outside of the bounds or
        differs from the extents."""
        examples = self._examples()
        for symbol, variable in zip(self.symbols, self.variables, strict=True):
            if not symbol.least <= examples[variable] <= symbol.most:
                found = f"{symbol.name} is {examples[variable]} in the example"
                raise CaptureError(f"{found}, expected {symbol.least} to {symbol.most}")
        for name, tensor, extents in zip(self._names, self._tensors, self.extents, strict=True):
            for dim, extent in enumerate(extents or []):
                wanted = extent if isinstance(extent, int) else int(extent.xreplace(examples))
                if tensor.shape[dim] != wanted:
                    what = extent if isinstance(extent, int) else self.describe(extent)
                    raise CaptureError(
                        f"{name} has extent {tensor.shape[dim]} in dimension {dim}, expected {what} = {wanted}"
                    )


# --- Dynamic shapes that users pass ---


def sizes_of_shapes(
    model: torch.nn.Module, inputs: Any, dynamic_shapes: Any, *, of_examples: bool = False
) -> SymbolicSizes:
    """Returns the sizes that `dynamic_shapes`, in the notation of torch.export, declares dynamic.

    Args:
      inputs: example inputs as for `capture`.
      dynamic_shapes: for each argument of the model, by name or in order, None or an entry for each dimension. An entry
        is a torch.export.Dim, an expression of one such as 2 * batch, Dim.AUTO, Dim.DYNAMIC or None.
      of_examples: see `SymbolicSizes`.
    Raises:
      CaptureError: the structure of `dynamic_shapes` differs from that of the inputs, or `dynamic_shapes` names a
        dimension that a tensor does not have; example sizes with equal names differ; bounds contain no size from 1 to
        2^31 - 1; no dimension is dynamic.
    """
    arguments = as_arguments(inputs)
    shapes = _in_order(model, arguments, dynamic_shapes)
    leaves, _ = flatten(inputs)
    found = pytree.tree_leaves(_match(arguments, shapes, "inputs"))
    tensors = [(n, t, o) for n, t, o in zip(leaf_names(inputs), leaves, found, strict=True) if _is_tensor(t)]
    sizes = SymbolicSizes(
        [name for name, _, _ in tensors], [tensor for _, tensor, _ in tensors], of_examples=of_examples
    )
    roots: dict[str, sympy.Symbol] = {}
    for number, (name, tensor, opened) in enumerate(tensors):
        if opened.dims:
            extents: list[Extent] = list(tensor.shape)
            for dim, said in opened.dims.items():
                extents[dim] = _extent(sizes, roots, said, tensor.shape[dim], f"{_identifier(name)}_{dim}")
            if any(not isinstance(extent, int) for extent in extents):
                sizes.extents[number] = extents
    sizes._check()
    if not sizes.symbols:
        raise CaptureError("expected a torch.export.Dim for at least one dimension in dynamic_shapes, got none")
    return sizes


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def _identifier(name: str) -> str:
    """Converts the name of a leaf to an identifier: `batch[0]['x']` to `batch_0_x`."""
    return "_".join("".join(c if c.isalnum() else " " for c in name).split())


def _in_order(model: torch.nn.Module, arguments: Any, shapes: Any) -> Any:
    """If `shapes` is keyed by name, returns its entries in the order of the arguments; else returns `shapes`
    unchanged."""
    if not (isinstance(arguments, tuple | list) and isinstance(shapes, Mapping)):
        return shapes
    try:
        bound = inspect.signature(model.forward).bind(*arguments).arguments
    except TypeError as error:
        raise CaptureError(f"the model's arguments: {error}") from None
    unknown = [name for name in shapes if name not in bound]
    if unknown:
        raise CaptureError(f"dynamic_shapes names {unknown[0]!r}, expected names of {', '.join(bound)}")
    ordered: list[Any] = []
    for name, value in bound.items():
        is_variadic = inspect.signature(model.forward).parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        said = shapes.get(name)
        ordered += (said or [None] * len(value)) if is_variadic else [said]
    return ordered


def _match(value: Any, said: Any, where: str) -> Any:
    """Returns a tree with the structure of `value` and an _Open for each leaf, made from the entry `said` of
    dynamic_shapes.
    """
    if isinstance(value, Mapping):
        if said is not None and not (isinstance(said, Mapping) and said.keys() <= value.keys()):
            raise CaptureError(f"dynamic_shapes of {where}: expected a dict with keys of {list(value)}, got {said!r}")
        return {key: _match(each, (said or {}).get(key), f"{where}[{key!r}]") for key, each in value.items()}
    if isinstance(value, tuple | list):
        if said is not None and not (isinstance(said, tuple | list) and len(said) == len(value)):
            raise CaptureError(f"dynamic_shapes of {where}: expected {len(value)} entries, got {said!r}")
        parts = [_match(each, said and said[i], f"{where}[{i}]") for i, each in enumerate(value)]
        return parts if isinstance(value, list) or not hasattr(value, "_fields") else type(value)(*parts)
    rank = getattr(value, "ndim", None)
    if said is None:
        return _Open({})
    if rank is None:
        raise CaptureError(f"dynamic_shapes of {where}: expected None for a {type(value).__name__}, got {said!r}")
    if isinstance(said, tuple | list):
        if len(said) != rank:
            raise CaptureError(f"dynamic_shapes of {where}: expected {rank} entries, one per dimension, got {said!r}")
        said = dict(enumerate(said))
    if not isinstance(said, Mapping) or any(type(dim) is not int or not 0 <= dim < rank for dim in said):
        raise CaptureError(f"dynamic_shapes of {where}: expected dimensions from 0 to {rank - 1}, got {said!r}")
    return _Open(said)


def _extent(sizes: SymbolicSizes, roots: dict[str, sympy.Symbol], said: Any, size: int, place: str) -> Extent:
    """Returns the extent of a dimension from the user's entry `said`; `size` is the extent in the example."""
    kind = type(said).__name__
    hint = getattr(getattr(said, "type", None), "name", None) if kind == "_DimHint" else None
    if said is None or hint == "STATIC":
        return size
    if isinstance(said, int):
        if said != size:
            raise CaptureError(f"{place} has extent {size}, expected {said}")
        return size
    if hint in ("AUTO", "DYNAMIC"):
        return sizes._add(place, said.min or 1, said.max or GREATEST_SIZE, size)
    root: Any = getattr(said, "root", said)
    if not isinstance(said, torch.export.Dim) or not isinstance(getattr(root, "min", None), int | sympy.Expr):
        raise CaptureError(f"dynamic_shapes of {place}: expected a torch.export.Dim, got {said!r}")
    least, most = int(max(root.min, 1)), int(min(root.max, GREATEST_SIZE))
    name = root.__name__
    if name not in roots:
        example = size if root is said else 2
        roots[name] = sizes._add(name, least, most, example)
    known = sizes.symbols[sizes.variables.index(roots[name])]
    if (known.least, known.most) != (least, most):
        raise CaptureError(f"{name} has different bounds: {known.least} to {known.most} and {least} to {most}")
    made: Any = said
    return roots[name] if root is said else sympy.expand(made.fn(roots[name]))


# --- Dynamic shapes of exported programs ---


def sizes_of_exported(
    exported: torch.export.ExportedProgram, inputs: Any, *, of_examples: bool = False
) -> SymbolicSizes | None:
    """Returns the dynamic sizes of an exported program; None if the program has no dynamic sizes.

    A symbol is named after the first dimension whose extent it is, such as `x_0`.

    Raises:
      CaptureError: an extent is not an expression of symbols with bounds, or the ranks of the inputs are not those at
        export.
    """
    names = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    held = {node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"}
    values = [held[name] for name in names if isinstance(held.get(name), torch.Tensor)]
    leaves, _ = flatten(inputs)
    tensors = [leaf for leaf in leaves if _is_tensor(leaf)]
    if not any(isinstance(extent, torch.SymInt) for value in values for extent in value.shape):
        return None
    if [value.dim() for value in values] != [tensor.dim() for tensor in tensors]:
        raise CaptureError("expected example inputs of the ranks that the model was exported with, got others")
    named = [name for name in names if isinstance(held.get(name), torch.Tensor)]
    sizes = SymbolicSizes(named, tensors, of_examples=of_examples)
    known: dict[sympy.Symbol, sympy.Symbol] = {}
    for name, value, tensor in zip(named, values, tensors, strict=True):
        for dim, extent in enumerate(value.shape):
            symbol = extent.node.expr if isinstance(extent, torch.SymInt) else None
            if isinstance(symbol, sympy.Symbol) and symbol not in known:
                bounds = exported.range_constraints.get(symbol)
                if bounds is None:
                    raise CaptureError(f"{name} has an extent {symbol} without bounds")
                least, most = (min(max(each, 1), GREATEST_SIZE) for each in (bounds.lower, bounds.upper))
                known[symbol] = sizes._add(f"{name}_{dim}", int(least), int(most), tensor.shape[dim])
    for number, value in enumerate(values):
        extents: list[Extent] = []
        for extent in value.shape:
            expr = extent.node.expr if isinstance(extent, torch.SymInt) else sympy.Integer(int(extent))
            if not expr.free_symbols <= known.keys():
                raise CaptureError(f"{named[number]} has the extent {expr}, expected each symbol in it as an extent")
            expr = expr.xreplace(known)
            extents.append(int(expr) if expr.is_Integer else expr)
        if any(not isinstance(extent, int) for extent in extents):
            sizes.extents[number] = extents
    sizes._check()
    return sizes
