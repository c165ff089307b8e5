# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs with dynamic sizes: an imported module with symbols, and the canonical program for given sizes."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import canonical_of
from repro_mlir.program.imported import Symbol, SymbolicImport
from repro_mlir.program.importing import IMPORT
from repro_mlir.program.program import Program, cached_import, read_signature


@dataclass(frozen=True)
class SymbolicInput:
    """An input of a program with dynamic sizes.

    Attributes:
      name: the name, as in a TensorType.
      element: the MLIR name of the element type.
      extents: the extent of each dimension, or its MLIR expression in the symbols, of which s0 is the first.
      symbols: maps each dimension whose extent is a symbol to the name of that symbol.
    """

    name: str
    element: str
    extents: tuple[int | str, ...]
    symbols: Mapping[int, str] = field(compare=False)


@dataclass(frozen=True, eq=False)
class SymbolicProgram:
    """A program whose inputs have dynamic sizes.

    `specialize` returns an ordinary `Program` for given sizes; that program runs, and receipts, bundles and disputes
    refer to it.

    Attributes:
      text: MLIR text of the imported module, with symbols (docs/contributors/architecture.md).
      initial: the initial value of each state tensor; do not write to the arrays.
      unsigned, complex: as for a SymbolicImport.
    Raises:
      ReproError: the text is not a module with symbols.
    """

    text: str = field(repr=False)
    initial: tuple[np.ndarray, ...] = field(repr=False)
    unsigned: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)
    complex: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        _examine(self.text)

    @property
    def hash(self) -> str:
        """The hexadecimal identity (H4), the same for all sizes; does not depend on names, including symbol names."""
        return _examine(self.text).identity

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The name and bounds of each dynamic size."""
        return _examine(self.text).symbols

    @property
    def inputs(self) -> tuple[SymbolicInput, ...]:
        """The inputs, from whose shapes the sizes are determined."""
        return _examine(self.text).inputs

    def initial_state(self) -> dict[str, np.ndarray]:
        """Returns new arrays with the initial state, by name."""
        names = _examine(self.text).state
        return {name: value.copy() for name, value in zip(names, self.initial, strict=True)}

    def sizes_of(self, inputs: Sequence[Any]) -> dict[str, int]:
        """Determines the size of each symbol from the shapes of inputs.

        Args:
          inputs: for each entry of `self.inputs`, an array of any framework or an object with a `shape`.
        Raises:
          ReproError: the number of inputs or a rank is wrong, or a symbol has two different sizes.
        """
        expected = self.inputs
        if len(inputs) != len(expected):
            raise ReproError(f"expected {len(expected)} inputs, got {len(inputs)}")
        found: dict[str, tuple[int, str]] = {}
        for kind, value in zip(expected, inputs, strict=True):
            shape = tuple(np.shape(value))
            if ("input", kind.name) in self.complex and len(shape) == len(kind.extents) - 1:
                shape = (*shape, 2)
            if len(shape) != len(kind.extents):
                raise ReproError(f"input {kind.name}: expected {len(kind.extents)} dimensions, got shape {list(shape)}")
            for dim, symbol in kind.symbols.items():
                size, where = found.setdefault(symbol, (int(shape[dim]), kind.name))
                if size != shape[dim]:
                    raise ReproError(
                        f"{symbol} is {size} in {where} and {shape[dim]} in dimension {dim} of {kind.name}, "
                        "expected one size"
                    )
        return {symbol.name: found[symbol.name][0] for symbol in self.symbols}

    def in_order(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Returns the sizes in the order of the symbols. Raises ReproError as `specialize` does, but does not check the
        conditions."""
        unknown = sizes.keys() - {symbol.name for symbol in self.symbols}
        if unknown:
            names = ", ".join(symbol.name for symbol in self.symbols)
            raise ReproError(f"expected sizes of {names}, got one of {min(unknown)}")
        for symbol in self.symbols:
            size = sizes.get(symbol.name)
            if type(size) is not int or not symbol.least <= size <= symbol.most:
                raise ReproError(f"expected a size of {symbol.name} from {symbol.least} to {symbol.most}, got {size!r}")
        return tuple(sizes[symbol.name] for symbol in self.symbols)

    def specialize(self, **sizes: int) -> Program:
        """Returns the canonical program for one size per symbol, which has its own identity (H2).

        Raises:
          ReproError: a symbol has no size or is unknown, a size is out of bounds, or the sizes violate a condition of
            the program, which the message contains.
        """
        chosen = dict(zip((symbol.name for symbol in self.symbols), self.in_order(sizes), strict=True))
        try:
            named = ",".join(f"{name}={size}" for name, size in chosen.items())
            data = cached_import(self.text, f"repro-specialize-shapes{{sizes={named}}},{IMPORT}")
        except ReproError as error:
            found = _CONDITION.match(str(error))
            if found is None:
                raise
            at = ", ".join(f"{name} = {size}" for name, size in chosen.items())
            raise ReproError(f"{at}: {found[1]}") from None
        program = read_signature(data)
        state, inputs, outputs = (
            tuple(
                dataclasses.replace(
                    kind, unsigned=(role, kind.name) in self.unsigned, complex=(role, kind.name) in self.complex
                )
                for kind in kinds
            )
            for role, kinds in (("state", program.state), ("input", program.inputs), ("output", program.outputs))
        )
        return dataclasses.replace(program, state=state, inputs=inputs, outputs=outputs, initial=self.initial)


_CONDITION = re.compile("cannot import the program: (?:.*?: )?at these sizes: (.*?)(; to repeat it: .*)?$")


class PerSize:
    """A cache of objects that are built from a symbolic program, one for each of the most recently used combinations of
    sizes."""

    MOST = 32

    def __init__(self, program: SymbolicProgram, make: Any) -> None:
        """Creates an empty cache; `make(program)` builds the object for a program that has been specialized for some
        sizes."""
        self._program = program
        self._make = make
        self._made: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._made)

    def __call__(self, sizes: Mapping[str, int]) -> Any:
        """Returns the object for these sizes. Raises the same errors as `SymbolicProgram.specialize` and `make`."""
        key = self._program.in_order(sizes)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(self._program.specialize(**sizes))
                if len(self._made) > self.MOST:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]


def symbolic_program_of(imported: SymbolicImport) -> SymbolicProgram:
    """Returns the symbolic program of a frontend's result. Raises ReproError if it is not a module with symbols."""
    names = _examine(imported.text)
    pairs = zip(imported.initial, names.elements, strict=False)
    initial = tuple(canonical_of(value, element) for value, element in pairs)
    return SymbolicProgram(imported.text, initial, imported.unsigned, imported.complex)


@dataclass(frozen=True)
class _Examined:
    """The properties of a module with symbols. `state` and `elements` are the names and the element types of the state
    tensors."""

    identity: str
    symbols: tuple[Symbol, ...]
    state: tuple[str, ...]
    elements: tuple[str, ...]
    inputs: tuple[SymbolicInput, ...]


@functools.lru_cache(maxsize=8)
def _examine(text: str) -> _Examined:
    from repro_mlir import ir
    from repro_mlir._mlir_libs import _repro

    context = ir.Context()
    with context:
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(text)
            identity = _repro.symbolic_hash(module)
        except (ir.MLIRError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ReproError(f"expected an imported program with symbols: {reason}") from None
        main = module.body.operations[0]
        names = [ir.StringAttr(name).value for name in ir.ArrayAttr(main.attributes["repro.symbols"])]
        bounds = list(ir.DenseI64ArrayAttr(main.attributes["repro.bounds"]))
        symbols = tuple(map(Symbol, names, bounds[::2], bounds[1::2]))
        kinds = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
        marks = [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["arg_attrs"])]
        count = ir.IntegerAttr(main.attributes["repro.num_state"]).value
        pairs = zip(kinds, marks, strict=True)
        described = [_describe(ir, f"argument {number}", *pair, names) for number, pair in enumerate(pairs)]
        state = described[:count]
        return _Examined(
            identity,
            symbols,
            tuple(each.name for each in state),
            tuple(each.element for each in state),
            tuple(described[count:]),
        )


def _describe(ir: Any, name: str, kind: Any, marks: Any, names: Sequence[str]) -> SymbolicInput:
    ranked = ir.RankedTensorType(kind)
    if "repro.name" in marks:
        name = ir.StringAttr(marks["repro.name"]).value
    if "repro.extents" not in marks:
        return SymbolicInput(name, str(ranked.element_type), tuple(ranked.shape), {})
    extents: list[int | str] = []
    symbols: dict[int, str] = {}
    for dim, expr in enumerate(ir.AffineMapAttr(marks["repro.extents"]).value.results):
        each = expr.maybe_downcast()
        extents.append(each.value if isinstance(each, ir.AffineConstantExpr) else str(each))
        if isinstance(each, ir.AffineSymbolExpr):
            symbols[dim] = names[each.position]
    return SymbolicInput(name, str(ranked.element_type), tuple(extents), symbols)
