# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Makes training steps from inference programs with the pass `repro-differentiate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program import Program
from repro_mlir.program.differentiation import differentiate
from repro_mlir.program.imported import ImportedProgram
from repro_mlir.program.importing import run_passes_on_text
from repro_mlir.program.program import import_program
from repro_mlir.program.writer import Tensor, Writer, quoted, text_of
from repro_mlir.program_training.losses import Loss
from repro_mlir.program_training.optimizers import Optimizer

_STEP = "optimizer.step"
_LR = "lr"


def training_step(
    model: ImportedProgram[Any],
    loss: Loss,
    optimizer: Optimizer,
    *,
    train: Sequence[str],
    output: str | None = None,
    recompute: Sequence[str] = (),
) -> Program:
    """Returns a program that trains a model: forward, loss, gradients, update.

    Its state is that of the model, then the number of completed steps, `optimizer.step`, then the optimizer's state
    for each parameter, `optimizer.<slot>.<parameter>`. Its inputs are the hyper-parameter `lr`, f32 of shape [], then
    those of the model, then `target`. Its output is `loss`.

    Args:
      model: an inference program from a frontend.
      loss: the loss function of the output and the target.
      train: the names of the state tensors to train, all f32. An inference program does not mark its parameters, so the
        caller names them, and leaves out what a framework would not train, such as frozen weights and the statistics of
        a BatchNorm in eval mode. Gradients ignore `detach`, `no_grad` and `padding_idx`, which the program does not
        contain.
      output: the name of the model's output from which the loss is computed; by default the only output.
      recompute: (J5) glob patterns of locations as in error messages: a node (`/layers.0/*`), a module
        (`module layers.0*`) or a line (`model.py:12`). The results of matching operations of the model are recomputed
        for the gradients instead of kept, which takes more time and less memory, and changes no bits.
    Raises:
      ReproError: a name is unknown, the loss does not accept the output, an operation has no derivative, the model
        writes a parameter, or a pattern matches no operation.
    """
    chosen = _output(model, output)
    names = [kind.name for kind in model.state]
    written = _written(model)
    parameters = [_position(names, name, "state tensor") for name in train]
    for i in parameters:
        if model.state[i].element != "f32" or i in written:
            reason = "the model writes it" if i in written else f"it is {model.state[i]}"
            raise ReproError(f"{names[i]!r} cannot be trained: {reason}, expected f32 that only the optimizer writes")
    if not parameters or len({*parameters}) < len(parameters):
        given = [names[i] for i in parameters]
        raise ReproError(f"expected different names in train, at least one of {', '.join(names)}, got {given}")

    count = len(model.state)
    target = loss.target(model.outputs[chosen])
    with_loss = _with_loss(model, loss, chosen, target)
    with_gradients = differentiate(with_loss, [count], parameters, recompute)
    slots = [
        TensorType(f"optimizer.{slot}.{names[i]}", "f32", model.state[i].shape)
        for slot in optimizer.slots
        for i in parameters
    ]
    counter = TensorType(_STEP, "i64", ())
    state = (*model.state, counter, *slots)
    inputs = (TensorType(_LR, "f32", ()), *model.inputs, target)
    text = _with_update(model, optimizer, parameters, with_gradients, state, inputs)
    initial = (*model.initial, *(np.zeros(kind.shape, kind.dtype) for kind in (counter, *slots)))
    return Program(import_program(text), state, inputs, (TensorType("loss", "f32", ()),), 1, initial)


def _output(model: ImportedProgram[Any], name: str | None) -> int:
    names = [kind.name for kind in model.outputs]
    if name is not None:
        return _position(names, name, "output")
    if len(names) != 1:
        raise ReproError(f"the model has {len(names)} outputs: pass output=..., one of {', '.join(names)}")
    return 0


def _position(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise ReproError(f"the model has no {what} {name!r}, expected one of {', '.join(names)}")
    return names.index(name)


def _written(model: ImportedProgram[Any]) -> set[int]:
    """Returns the indices of the state tensors that the model changes."""

    def find(module: Any) -> set[int]:
        main = next(op for op in module.body.operations if op.operation.name == "func.func")
        block = main.regions[0].blocks[0]
        returned = list(block.operations[len(block.operations) - 1].operands)
        return {i for i in range(len(model.state)) if returned[i] != block.arguments[i]}

    return run_passes_on_text(model.text, "import-linalg", "differentiate", find)


def _with_loss(model: ImportedProgram[Any], loss: Loss, output: int, target: TensorType) -> str:
    """Returns the text of a program that calls the model and computes the loss. The program maps the model's arguments
    and the target to the model's state and the loss."""
    writer = Writer()
    count = len(model.state)
    kinds = [*model.state, *model.inputs]
    given = [Tensor(f"%a{i}", kind) for i, kind in enumerate([*kinds, target])]
    results = [*model.state, *model.outputs]
    found = _call(writer, "model", given[:-1], results)
    total = loss.write(writer, found[count + output], given[-1])
    return _join("model", model.text, writer, given, [*found[:count], total], count, ["loss"])


def _with_update(
    model: ImportedProgram[Any],
    optimizer: Optimizer,
    parameters: Sequence[int],
    gradients: str,
    state: Sequence[TensorType],
    inputs: Sequence[TensorType],
) -> str:
    """Returns the text of the whole step, which calls `gradients` and the optimizer. The step maps the state and the
    inputs to the new state and the loss."""
    writer = Writer()
    count = len(model.state)
    kinds = [*state, *inputs]
    given = [Tensor(f"%a{i}", kind) for i, kind in enumerate(kinds)]
    states, rate, batch = given[: len(state)], given[len(state)], given[len(state) + 1 :]
    seed = Tensor(writer.write("arith.constant dense<1.0> : tensor<f32>"), TensorType("", "f32", ()))
    scalar = TensorType("", "f32", ())
    results = [*model.state, scalar, *(model.state[i] for i in parameters)]
    found = _call(writer, "gradients", [*states[:count], *batch, seed], results)
    step = writer.increment(states[count])
    number = writer.convert(step)
    new = [*found[:count], step, *states[count + 1 :]]
    for k, i in enumerate(parameters):
        positions = {slot: count + 1 + row * len(parameters) + k for row, slot in enumerate(optimizer.slots)}
        kept = {slot: states[position] for slot, position in positions.items()}
        new[i], changed = optimizer.write(writer, states[i], found[count + 1 + k], kept, rate, number)
        for slot, tensor in changed.items():
            new[positions[slot]] = tensor
    return _join("gradients", gradients, writer, given, [*new, found[count]], len(state), ["loss"])


def _call(writer: Writer, callee: str, given: Sequence[Tensor], results: Sequence[TensorType]) -> list[Tensor]:
    arguments = ", ".join(each.name for each in given)
    kinds = ", ".join(text_of(each.kind) for each in given)
    gives = ", ".join(map(text_of, results))
    writer.lines.append(f"%r:{len(results)} = func.call @{callee}({arguments}) : ({kinds}) -> ({gives})")
    return [Tensor(f"%r#{i}", kind) for i, kind in enumerate(results)]


def _join(
    callee: str,
    text: str,
    writer: Writer,
    arguments: Sequence[Tensor],
    results: Sequence[Tensor],
    num_state: int,
    outputs: Sequence[str],
) -> str:
    """Returns the text of a program with a new `main`, whose body is that of `writer`. The `main` of `text`, which the
    new one calls, is renamed to `callee` and inlined."""
    from repro_mlir import ir

    names = [each.kind.name for each in arguments]
    given = ", ".join(
        f"{each.name}: {text_of(each.kind)} {{repro.name = {quoted(name)}}}"
        for each, name in zip(arguments, names, strict=True)
    )
    called = [*names[:num_state], *outputs]
    gives = ", ".join(
        f"{text_of(each.kind)} {{repro.name = {quoted(name)}}}" for each, name in zip(results, called, strict=True)
    )
    returned = ", ".join(each.name for each in results)
    types = ", ".join(text_of(each.kind) for each in results)
    body = "\n".join(writer.lines)
    main = (
        f"func.func @main({given}) -> ({gives}) attributes {{repro.num_state = {num_state} : i64}} {{\n"
        f"{body}\nreturn {returned} : {types}\n}}\n"
    )

    def rename(module: Any) -> str:
        called = next(op for op in module.body.operations if op.operation.name == "func.func")
        called.attributes["sym_name"] = ir.StringAttr.get(callee)
        called.attributes["sym_visibility"] = ir.StringAttr.get("private")
        # Only `main` may have this attribute, and this function is no longer `main`.
        del called.attributes["repro.num_state"]
        whole = str(called.get_asm(enable_debug_info=True, use_local_scope=True))
        return f"module {{\n{main}{whole}\n}}\n"

    joined = run_passes_on_text(text, "import-linalg", "differentiate", rename)
    return run_passes_on_text(joined, "import-linalg", "differentiate", _text_of)


def _text_of(module: Any) -> str:
    return str(module.operation.get_asm(enable_debug_info=True))
