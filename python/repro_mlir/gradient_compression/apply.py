# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Adds gradient compression to training steps in microbatches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.philox import random_uniform
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.gradient_compression.arithmetic import GradientWriter, Random, compressed, low_rank, with_feedback
from repro_mlir.gradient_compression.methods import GradientCompression, MethodState, PowerSGD
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.importing import run_prepared_passes
from repro_mlir.program.signatures import named, set_arguments, set_results, signed_arguments, signed_results
from repro_mlir.program.writer import Tensor, quoted, text_of

PREFIX = "gradient_compression"
"""State tensors are named PREFIX.KIND.PARAMETER."""

B = TypeVar("B", bound=Any)


def compress_gradients(imported: ImportedProgram[B], method: GradientCompression) -> ImportedProgram[B]:
    """Adds gradient compression (L1) to a training step in microbatches; returns the new imported program.

    The method's state for each parameter follows the state of `imported`, in the order of the gradients:
    `gradient_compression.residual.NAME`, for one_bit also `gradient_compression.mean_residual.NAME`, for power_sgd also
    `gradient_compression.right.NAME`.

    Args:
      imported: a step with the attribute `gradient` on each `repro.reduce_microbatches` of a gradient, and with `seed`
        and `step` if the method draws random numbers.
      method: the compression method.
    Raises:
      ReproError: a gradient that is not f32; a step in which no gradient would be compressed, or
        whose state already uses names of the method's state.
    """
    if method.is_stochastic and imported.random is None:
        raise ReproError(f"{method.name} draws random numbers: expected a program with seed and step")
    rewriter = _Rewriter(imported, method)
    text = run_prepared_passes(imported.text, rewriter.rewrite, "compress", _text_of)
    new, count = rewriter.states, len(imported.state)
    for name in sorted({each.kind.name for each in new} & {kind.name for kind in imported.state}):
        raise ReproError(f"the step has a state tensor {name}, a name that {method.name} needs: rename the module")
    return dataclasses.replace(
        imported,
        text=text,
        state=(*imported.state, *(each.kind for each in new)),
        initial=(*imported.initial, *(each.initial for each in new)),
        own=(*imported.own, *(count + i for i, each in enumerate(new) if each.is_own)),
    )


def _text_of(module: Any) -> str:
    return str(module.operation.get_asm(enable_debug_info=True))


@dataclass
class _State:
    """A state tensor that a compression method adds to a step.

    Attributes:
      is_own: whether each microbatch has its own copy of the tensor.
      value: the MLIR value that holds the tensor's current value while the program is rewritten.
    """

    kind: TensorType
    initial: np.ndarray
    is_own: bool
    value: Any = None


@dataclass
class _Rewriter:
    """Rewrites the MLIR module of a step.

    Attributes:
      states: the method's state tensors, in the order of the gradients.
    """

    imported: ImportedProgram[Any]
    method: GradientCompression
    states: list[_State] = field(default_factory=list)

    def rewrite(self, module: Any) -> str:
        """Adds the compression and its state to `main`; returns the pass pipeline that must run next."""
        main = next(op for op in module.body.operations if op.operation.name == "func.func")
        block = main.regions[0].blocks[0]
        reductions = [op for op in block.operations if _gradient(op) is not None]
        site = 1 + max(_sites(module), default=-1)
        chosen = [(op, kind) for op in reductions if self.method.compresses((kind := self._kind(op)).shape)]
        if not chosen:
            names = ", ".join(filter(None, map(_gradient, reductions)))
            raise ReproError(f"expected a gradient that {self.method.name} compresses, got {names or 'none'}")
        for number, (op, kind) in enumerate(chosen):
            self._compress(module, block, op, kind, number, site + number)
        self._sign(main, block)
        return "import-linalg"

    def _kind(self, op: Any) -> TensorType:
        from repro_mlir import ir

        name, type = _gradient(op), ir.RankedTensorType(op.operands[0].type)
        if str(type.element_type) != "f32":
            raise ReproError(f"the gradient of {name}: expected f32 for {self.method.name}, got {type.element_type}")
        return TensorType(str(name), "f32", tuple(type.shape))

    def _compress(self, module: Any, block: Any, op: Any, kind: TensorType, number: int, site: int) -> None:
        """Compresses a gradient before its reduction over the microbatches, its mean after the reduction, or both."""
        from repro_mlir import ir

        method = self.method
        kept = method.kept(kind.shape)
        if method.is_of_microbatches:
            states = [self._state(block, kind, each, number) for each in kept if each.is_own]
            text = _function(f"compress.{number}", method, kind, states, site)
            with ir.InsertionPoint(op):
                op.operation.operands[0] = self._call(module, block, text, op.operands[0], states)
        if method.is_of_means:
            states = [self._state(block, kind, each, number) for each in kept if not each.is_own]
            text = _function(f"compress_mean.{number}", method, kind, states, site)
            mean = op.results[0]
            users = [use.owner for use in mean.uses]
            with ir.InsertionPoint.after(op):
                found = self._call(module, block, text, mean, states)
            for user in users:
                for i, operand in enumerate(user.operands):
                    if operand == mean:
                        user.operands[i] = found

    def _state(self, block: Any, kind: TensorType, kept: MethodState, number: int) -> _State:
        """Adds a state tensor for gradient `number` as the last argument of `main`; `_sign` later moves it to the other
        states."""
        from repro_mlir import ir

        own = TensorType(f"{PREFIX}.{kept.name}.{kind.name}", "f32", kept.shape)
        value = block.add_argument(ir.Type.parse(text_of(own)), ir.Location.unknown())
        start = np.zeros(kept.shape, np.float32)
        if kept.name == "right":
            start = random_uniform(kept.shape, 0, number, 0) * np.float32(2) - np.float32(1)
        self.states.append(_State(own, start, kept.is_own, value))
        return self.states[-1]

    def _call(self, module: Any, block: Any, text: str, gradient: Any, states: Sequence[_State]) -> Any:
        """Adds a function to the module, calls it at the current insertion point, and sets each state's value to its
        new value. Returns the compressed gradient."""
        from repro_mlir import ir

        parsed = ir.Module.parse(text)
        function = parsed.body.operations[0]
        name = ir.StringAttr(function.attributes["sym_name"])
        types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        module.body.append(function.operation.detach_from_parent())
        random = self.imported.random if len(types.inputs) > 1 + len(states) else None
        operands = [gradient, *(each.value for each in states), *(block.arguments[i] for i in random or ())]
        call = ir.Operation.create(
            "func.call",
            results=list(types.results),
            operands=operands,
            attributes={"callee": ir.FlatSymbolRefAttr.get(name.value)},
            loc=function.location,
        )
        for state, value in zip(states, list(call.results)[1:], strict=True):
            state.value = value
        return call.results[0]

    def _sign(self, main: Any, block: Any) -> None:
        """Changes the signature of `main`: the method's state moves from after the inputs to the end of the state, and
        `main` also returns the new values of the method's state."""
        count, total = len(self.imported.state), len(block.arguments)
        first = total - len(self.states)
        arguments, results = signed_arguments(main), signed_results(main)
        added = [named(block.arguments[i], each.kind.name) for i, each in enumerate(self.states, first)]
        changed = [named(each.value, each.kind.name) for each in self.states]
        set_results(main, [*results[:count], *changed, *results[count:]])
        set_arguments(main, [*arguments[:count], *added, *arguments[count:]], count + len(self.states))


def _gradient(op: Any) -> str | None:
    """Returns the name of the parameter whose gradient an operation reduces; None if the operation reduces no
    gradient."""
    from repro_mlir import ir

    if op.operation.name != "repro.reduce_microbatches" or "gradient" not in op.attributes:
        return None
    return str(ir.StringAttr(op.attributes["gradient"]).value)


def _sites(module: Any) -> list[int]:
    """(R1) Returns the random sites of all operations, including those in regions."""
    from repro_mlir import ir

    found: list[int] = []

    def look(op: Any) -> Any:
        if "site" in op.attributes:
            found.append(int(ir.IntegerAttr(op.attributes["site"]).value))
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def _function(name: str, method: GradientCompression, kind: TensorType, states: Sequence[_State], site: int) -> str:
    """Returns the MLIR text of a function that maps a gradient, the states and, if the method draws random numbers,
    seed and step, to the compressed gradient and the new states."""
    writer = GradientWriter()
    gradient = Tensor("%g", TensorType("", "f32", kind.shape))
    kept = [Tensor(f"%s{i}", each.kind) for i, each in enumerate(states)]
    given, random = [gradient, *kept], None
    if method.is_stochastic:
        given += [Tensor("%seed", TensorType("", "i64", ())), Tensor("%step", TensorType("", "i64", ()))]
        seed, step = (writer.write(f"tensor.extract {each.name}[] : tensor<i64>") for each in given[-2:])
        random = Random(seed, step, site)
    if isinstance(method, PowerSGD):
        right: list[Tensor] = []

        def compress(tensor: Tensor) -> Tensor:
            found, new = low_rank(writer, method, tensor, kept[1])
            right.append(new)
            return found

        results = [*with_feedback(writer, gradient, kept[0], compress), *right]
    elif states:
        results = [*with_feedback(writer, gradient, kept[0], lambda tensor: compressed(writer, method, tensor, random))]
    else:
        results = [compressed(writer, method, gradient, random)]
    arguments = ", ".join(f"{each.name}: {text_of(each.kind)}" for each in given)
    types = ", ".join(text_of(each.kind) for each in results)
    lines = [*writer.lines, f"return {', '.join(each.name for each in results)} : {types}"]
    place = f" loc({quoted(f'compression of {kind.name}')})\n"
    # A line that ends with `{` or `:` opens a region or a block, and MLIR allows no location there.
    body = "".join(f"{line}\n" if line.endswith(("{", ":")) else line + place for line in "\n".join(lines).split("\n"))
    return f"func.func private @{name}({arguments}) -> ({types}) {{\n{body}}}{place}"
