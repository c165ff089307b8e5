# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compiles a canonical program to an object and a C header for a microcontroller (docs/guides/microcontroller.md)."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro_mlir import ir
from repro_mlir._mlir_libs import _repro
from repro_mlir.base.errors import CompileError, ReproError
from repro_mlir.base.numerics.elements import ELEMENTS
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.compilation.cpu import module_of
from repro_mlir.program import Program
from repro_mlir.runner.plan import Plan, read_plan
from repro_mlir.sandbox import compile_step

_LEVEL = "thumbv7em"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_C_TYPES = {
    "f64": "double",
    "f32": "float",
    "i64": "int64_t",
    "i32": "int32_t",
    "i16": "int16_t",
    "i8": "int8_t",
}
_KEYWORDS = frozenset(
    "alignas alignof and asm auto bool break case catch char class const constexpr continue decltype default delete do "
    "double else enum explicit export extern false float for friend goto if inline int long mutable namespace new not "
    "nullptr operator or private protected public register restrict return short signed sizeof static static_assert "
    "struct switch template this throw true try typedef typeid typeof typename union unsigned using virtual void "
    "volatile while xor".split()
)


@dataclass(frozen=True)
class StepLibrary:
    """The step of a program for a microcontroller.

    Attributes:
      name: the prefix of all names in the header.
      object: a relocatable ELF file that refers to no symbol.
      header: the C header, as text.
      plan: the calls of kernels that the step consists of.
      code, constants: the bytes of instructions and of read-only data in the object.
      memory: the bytes of the structure for intermediate results.
    """

    name: str
    object: bytes
    header: str
    plan: Plan
    code: int
    constants: int
    memory: int


def compile(program: Program, name: str, *, timing: bool = False) -> StepLibrary:
    """Compiles a program.

    Args:
      program: the program; its initial state, if it has one, becomes a constant of the object.
      name: the prefix of all names in the header, an identifier of C.
      timing: whether to print the time of each pass to stderr.

    Raises:
      ReproError: `name` is not such an identifier.
      CompileError: the compilation fails.
    """
    if not _NAME.fullmatch(name):
        what = "a name of 1 to 64 letters, digits and underscores that begins with a letter"
        raise ReproError(f"expected {what}, got {name!r}")
    initial = [value.tobytes() for value in program.initial]
    if program.untrusted:
        step = StepObject.from_bytes(compile_step(program.data, name, initial))
    else:
        step = make_object(program.data, name, initial, timing=timing)
    plan = read_plan(step.plan, "cpu", "the plan")
    header = "".join(_header(program, name, plan, step))
    return StepLibrary(name, step.object, header, plan, step.code, step.constants, step.memory)


_NUMBERS = struct.Struct("<5Q?")


@dataclass(frozen=True)
class StepObject:
    """The object of a step.

    Attributes:
      object, code, constants, memory: those of the `StepLibrary`.
      plan: the bytes of its plan.
      is_constant: whether the program returns every state as it got it.
    """

    object: bytes
    plan: bytes
    code: int
    constants: int
    memory: int
    is_constant: bool

    def to_bytes(self) -> bytes:
        """Encodes the object for `from_bytes`."""
        sizes = (len(self.object), len(self.plan), self.code, self.constants, self.memory)
        return _NUMBERS.pack(*sizes, self.is_constant) + self.object + self.plan

    @staticmethod
    def from_bytes(data: bytes) -> StepObject:
        """Decodes bytes that `to_bytes` has returned."""
        length, rest, *others = _NUMBERS.unpack_from(data)
        end = _NUMBERS.size + length
        return StepObject(data[_NUMBERS.size : end], data[end : end + rest], *others)


def make_object(data: bytes, name: str, initial: Sequence[bytes], *, timing: bool = False) -> StepObject:
    """Compiles a program in this process.

    Args:
      data: a stored program.
      name, timing: as for `compile`.
      initial: the bytes of each state of the initial state, or nothing.

    Raises:
      CompileError: the compilation fails.
    """
    module = module_of(data)
    try:
        elf, plan, code, constants, memory = _repro.compile_microcontroller(module, _LEVEL, name, initial, timing)
    except ValueError as error:
        raise CompileError(str(error)) from None
    return StepObject(elf, plan, code, constants, memory, _is_constant(module))


def _is_constant(module: ir.Module) -> bool:
    """Whether the program returns every state as it got it."""
    (main,) = (each for each in module.body.operations if each.operation.name == "func.func")
    states = ir.IntegerAttr(main.attributes["repro.num_state"]).value
    block = main.regions[0].blocks[0]
    returned = list(block.operations)[-1].operands
    return all(returned[i] == block.arguments[i] for i in range(states))


def member_names(tensors: Sequence[TensorType]) -> list[str]:
    """Returns a different identifier of C for each tensor, as similar to its name as possible."""
    names: list[str] = []
    for tensor in tensors:
        base = re.sub(r"[^A-Za-z0-9]+", "_", tensor.name).strip("_") or "tensor"
        if base[0].isdigit() or base in _KEYWORDS:
            base = f"_{base}" if base[0].isdigit() else f"{base}_"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names


def _c_type(tensor: TensorType) -> str:
    element = ELEMENTS[tensor.element]
    if tensor.unsigned:
        return f"uint{element.width}_t"
    # Types that C lacks are stored as their bits, i1 as 0 or 1.
    return _C_TYPES.get(tensor.element, f"uint{8 * element.dtype.itemsize}_t")


def _extents(tensor: TensorType) -> list[int]:
    """Returns the extents of the tensor's array: those of an array of C are not 0."""
    return [max(extent, 1) for extent in tensor.shape]


def _comment(text: str) -> str:
    """Returns the text of a comment on one line, in which nothing ends the comment."""
    return (
        text.encode("ascii", "backslashreplace").decode().replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")
    )


def _struct(kind: str, tensors: Sequence[TensorType], size: int) -> Iterator[str]:
    yield "typedef struct {\n"
    for tensor, name in zip(tensors, member_names(tensors), strict=True):
        extents = "".join(f"[{extent}]" for extent in _extents(tensor))
        what = "" if tensor.element in _C_TYPES else f", {tensor.element}"
        yield f"  {_c_type(tensor)} {name}{extents}; /* {_comment(tensor.name)}{what} */\n"
    yield f"}} {kind};\n"
    yield f"typedef char {kind}_has_its_size[sizeof({kind}) == {size} ? 1 : -1];\n\n"


def struct_layout(tensors: Sequence[TensorType]) -> tuple[list[int], int]:
    """Returns the offset of each tensor in the structure of these tensors, and its size, by the rules of C."""
    offsets, end, alignment = [], 0, 1
    for tensor in tensors:
        size = tensor.dtype.itemsize
        alignment = max(alignment, size)
        offsets.append(-(-end // size) * size)
        end = offsets[-1] + size * math.prod(_extents(tensor))
    return offsets, -(-end // alignment) * alignment


def _header(program: Program, name: str, plan: Plan, step: StepObject) -> Iterator[str]:
    groups = {"state": program.state, "inputs": program.inputs, "outputs": program.outputs}
    sizes = {group: struct_layout(tensors)[1] for group, tensors in groups.items()}
    state = "read" if step.is_constant else "read and written"
    guard = f"{name.upper()}_H"
    yield f"""/* One step of the program {program.hash}
 * for a Cortex-M4 with its FPU, made by repro-mlir. Link {name}.o. It needs no library, no heap and no other symbol.
 *
 * flash  {step.code + step.constants:>9,} bytes: {step.code:,} of code and {step.constants:,} of constants
 * RAM    {step.memory:>9,} bytes of memory for intermediate results
 *        {sizes["state"]:>9,} bytes of state, {state}
 *        {sizes["inputs"]:>9,} bytes of inputs, {sizes["outputs"]:,} bytes of outputs
 *
 * The FPU must be on. Calls pass f32 in registers (-mfloat-abi=hard). A structure has the alignment that C
 * gives it. Calls with different structures may run at the same time.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {name.upper()}_CODE_BYTES {step.code}
#define {name.upper()}_CONSTANT_BYTES {step.constants}
#define {name.upper()}_STATE_BYTES {sizes["state"]}
#define {name.upper()}_MEMORY_BYTES {step.memory}

"""
    parameters = []
    for group, tensors in groups.items():
        if not tensors:
            continue
        yield from _struct(f"{name}_{group}", tensors, sizes[group])
        reads = group == "inputs" or (group == "state" and step.is_constant)
        parameters.append(f"{'const ' if reads else ''}{name}_{group} *{group}")
    if step.memory:
        yield "/* Memory for intermediate results; its contents do not matter. */\n"
        yield f"typedef struct {{\n  uint64_t bytes[{step.memory // 8}];\n}} {name}_memory;\n\n"
        parameters.append(f"{name}_memory *memory")
    if program.initial and program.state:
        use = "Pass it to the step." if step.is_constant else "Copy it to RAM before the first step."
        yield f"/* The first state. {use} */\nextern const {name}_state {name}_initial;\n\n"
    yield "/* Runs one step, and returns 0."
    if plan.messages:
        yield " If a check fails, returns the number of its message, and the state is unchanged:\n"
        for number, message in enumerate(plan.messages, 1):
            yield f" *   {number}: {_comment(message)}\n"
    yield f" */\nint {name}_step({', '.join(parameters) or 'void'});\n"
    yield f"\n#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n"
