# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs for many sizes: one imported module with symbols, and the canonical program of each size."""

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
    """An input of a program for many sizes.

    Attributes:
      name: as of a TensorType.
      element: MLIR's name of the element type.
      extents: for each dimension the extent, or its expression in the symbols as MLIR writes it, s0 being the first.
      symbols: by dimension the name of the symbol that is the extent.
    """

    name: str
    element: str
    extents: tuple[int | str, ...]
    symbols: Mapping[int, str] = field(compare=False)


@dataclass(frozen=True, eq=False)
class SymbolicProgram:
    """A program whose inputs have sizes that are left open: what is computed at each of them.

    At given sizes it is a `Program` like any other, `specialize`: that is what runs, and what receipts, bundles and
    disputes name.

    Attributes:
      text: MLIR text of the imported module, with symbols (docs/architecture.md).
      initial: the initial value of each state tensor; do not write to them.
      unsigned, complex: as of a SymbolicImport.
    Raises:
      ReproError: text that is no module with symbols.
    """

    text: str = field(repr=False)
    initial: tuple[np.ndarray, ...] = field(repr=False)
    unsigned: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)
    complex: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        _examine(self.text)

    @property
    def hash(self) -> str:
        """The identity (H4), in hexadecimal: one for all sizes. Names, of symbols too, are no part of it."""
        return _examine(self.text).identity

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Name and bounds of each size that is left open."""
        return _examine(self.text).symbols

    @property
    def inputs(self) -> tuple[SymbolicInput, ...]:
        """The inputs, of which the sizes are read."""
        return _examine(self.text).inputs

    def initial_state(self) -> dict[str, np.ndarray]:
        """New arrays with the initial state, by name."""
        names = _examine(self.text).state
        return {name: value.copy() for name, value in zip(names, self.initial, strict=True)}

    def sizes_of(self, inputs: Sequence[Any]) -> dict[str, int]:
        """The size of each symbol, of the shapes of inputs.

        Args:
          inputs: an array of any framework, or anything with a `shape`, for each entry of `self.inputs`.
        Raises:
          ReproError: another number of inputs or rank, or two extents where the program has one symbol.
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
        """The size of each symbol. ReproError as `specialize`, but for conditions."""
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
        """The canonical program of one size of each symbol, with an identity (H2) of its own.

        Raises:
          ReproError: a symbol without a size or an unknown one, a size out of its bounds, or one for which the program
            does not hold, with the condition.
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
    """What is made of a program at each size, kept for the sizes that were used last."""

    MOST = 32

    def __init__(self, program: SymbolicProgram, make: Any) -> None:
        """`make` makes it of the `Program` of a size."""
        self._program = program
        self._make = make
        self._made: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._made)

    def __call__(self, sizes: Mapping[str, int]) -> Any:
        """That of these sizes. ReproError as `SymbolicProgram.specialize`, and what `make` raises."""
        key = self._program.in_order(sizes)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(self._program.specialize(**sizes))
                if len(self._made) > self.MOST:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]


def symbolic_program_of(imported: SymbolicImport) -> SymbolicProgram:
    """The program of what a frontend hands over. ReproError for text that is no module with symbols."""
    names = _examine(imported.text)
    pairs = zip(imported.initial, names.elements, strict=False)
    initial = tuple(canonical_of(value, element) for value, element in pairs)
    return SymbolicProgram(imported.text, initial, imported.unsigned, imported.complex)


@dataclass(frozen=True)
class _Examined:
    """What the module of a program for many sizes says; `state` and `elements` are of its state tensors."""

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
