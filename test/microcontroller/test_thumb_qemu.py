# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""An image for a board with a Cortex-M4 runs folds of the catalogue in QEMU, with the results of Unicorn."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from repro_mlir.base.numerics.hashing import tensor_digest
from repro_mlir.compilation import microcontroller
from repro_mlir.compilation.microcontroller import StepLibrary, struct_layout
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.program import read_signature
from support import kit
from test_thumb_cores import folds
from test_thumb_example import BARE, COMPILER, EXAMPLE, run
from thumb import Thumb

MOST_BYTES = 1 << 16
"""Larger arguments of a fold do not fit into the image."""

MAIN = """
#include "hash.h"
{declarations}
static uint64_t outputs[{outputs}], memory[{memory}];
static void print_digest(const void *data, uint32_t size) {{
  const uint64_t shape[] = {{size}};
  uint8_t digest[DIGEST];
  hash_tensor("i8", 1, shape, data, size, digest);
  print_hex(digest, DIGEST);
  print("\\n");
}}
int main(void) {{
{calls}
  return 0;
}}
"""


def numbers(data: bytes) -> str:
    """Returns the bytes as the elements of an array of uint64_t."""
    padded = data + bytes(-len(data) % 8)
    return ", ".join(f"0x{word:x}u" for word in np.frombuffer(padded, "<u8").tolist()) or "0"


def pack(program: Program, arrays: list[np.ndarray]) -> bytes:
    offsets, size = struct_layout(program.inputs)
    packed = bytearray(max(size, 8))
    for offset, array in zip(offsets, arrays, strict=True):
        data = np.ascontiguousarray(array).tobytes()
        packed[offset : offset + len(data)] = data
    return bytes(packed)


def call(name: str, program: Program, library: StepLibrary) -> str:
    """Returns the statements that run a step and print the digest of each output."""
    arguments = [f"inputs_{name}"] if program.inputs else []
    arguments += ["outputs"] + (["memory"] if library.memory else [])
    lines = [f"  if ({name}_step({', '.join(arguments)})) return 1;"]
    for offset, tensor in zip(struct_layout(program.outputs)[0], program.outputs, strict=True):
        lines.append(f"  print_digest((const uint8_t *)outputs + {offset}, {tensor.nbytes});")
    return "\n".join(lines)


@pytest.mark.skipif(
    not shutil.which("qemu-system-arm"), reason="qemu-system-arm is not installed (apt-get install qemu-system-arm)"
)
def test_folds_in_an_image(tmp_path: Path) -> None:
    declarations, calls, objects, expected = [], [], [], []
    outputs = memory = 8
    for case in folds():
        if sum(array.nbytes for array in case.inputs) > MOST_BYTES:
            continue
        name = f"fold{len(objects)}"
        known = kit.read(case.program)
        program = read_signature(to_bytes(case.program))
        library = microcontroller.compile(program, name)
        arrays = [kit.public(array, kind) for array, kind in zip(case.inputs, known.body.argument_types, strict=True)]
        thumb = Thumb(library, program, tmp_path)
        thumb.write(1, arrays)
        assert thumb.step() == 0
        results = thumb.read(2)
        bits = [kit.bits(value, kind) for value, kind in zip(results, known.result_types, strict=True)]
        kit.compare(known, kit.reference(case.program, case.inputs), bits, "thumb")
        expected += [tensor_digest(np.frombuffer(value.tobytes(), np.int8), "i8").hex() for value in results]
        objects.append(tmp_path / f"{name}.o")
        objects[-1].write_bytes(library.object)
        declarations.append(f"static const uint64_t inputs_{name}[] = {{{numbers(pack(program, arrays))}}};")
        declarations.append(f"int {name}_step();")
        calls.append(call(name, program, library))
        outputs = max(outputs, struct_layout(program.outputs)[1])
        memory = max(memory, library.memory)
    source, script, image = tmp_path / "main.c", tmp_path / "board.ld", tmp_path / "image.elf"
    text = {"declarations": "\n".join(declarations), "calls": "\n".join(calls)}
    source.write_text(MAIN.format(outputs=outputs // 8 + 1, memory=memory // 8 + 1, **text))
    # The board has more memory than the example needs.
    script.write_text((EXAMPLE / "mps2-an386.ld").read_text().replace("256K", "4M"))
    options = [*BARE[:-1], "-std=c99", "-Wno-strict-prototypes", "-Wno-deprecated-non-prototype"]
    run(*COMPILER, *options, "-I", EXAMPLE, "-T", script, source, EXAMPLE / "board.c", *objects, "-o", image)
    semihosting = ("-semihosting-config", "enable=on,target=native")
    out = run("qemu-system-arm", "-M", "mps2-an386", "-nographic", *semihosting, "-kernel", image)
    assert len(expected) >= len(objects) > 5
    assert out.split() == expected
