# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(H1), (H2), (H3): a second implementation of docs/verification/identity.md and the hashes of numerics.md gives the
same hashes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
from support.stored_samples import BLOCK_CONTRACTIONS, BLOCKS, EVERYTHING, MANY_FORMS, PACKED_CODES, PROGRAM

ir = pytest.importorskip("repro_mlir.ir")
from repro_mlir._mlir_libs._repro import program_hash  # noqa: E402
from repro_mlir.base.numerics import hashing  # noqa: E402
from repro_mlir.passmanager import PassManager  # noqa: E402
from support import identity_bytes  # noqa: E402

IMPORTED = Path(__file__).parents[2] / "Pipelines" / "import-linalg.mlir"
# The texts include constants of more than a hundred elements, which MLIR prints as raw bytes.
TEXTS = {
    "program": PROGRAM,
    "everything": EVERYTHING,
    "forms": MANY_FORMS,
    "blocks": BLOCKS,
    "block contractions": BLOCK_CONTRACTIONS,
    "packed codes": PACKED_CODES,
}
TEXTS["imported"] = IMPORTED.read_text()


@pytest.mark.parametrize("name", TEXTS)
def test_programs(name: str) -> None:
    """(H2) Both implementations give a program the same identity."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(TEXTS[name])
        if name == "imported":
            PassManager.parse("builtin.module(import-linalg,canonical)").run(module.operation)
        text = module.operation.get_asm(print_generic_op_form=True)
        assert identity_bytes.program_hash(text) == program_hash(module)


@pytest.mark.parametrize(
    ("element", "bits"),
    [
        ("f64", [0, 1 << 63, 0x7FF0000000000001, 0xFFF8000000000123, 0x7FF0000000000000, 1]),
        ("f32", [0, 1 << 31, 0x7F800001, 0xFFC00123, 0xFF800000, 1]),
        ("bf16", [0, 0x8000, 0x7F81, 0xFFC1, 0x7F80, 1]),
        ("f16", [0, 0x8000, 0x7C01, 0xFE01, 0xFC00, 1]),
        ("f8E4M3FN", [0, 0x80, 0x7F, 0xFF, 0x7E, 1]),
        ("f8E5M2", [0, 0x80, 0x7D, 0xFF, 0xFC, 1]),
        ("f6E3M2FN", [0, 0x20, 0x1F, 0x3F, 0x3C, 1]),
        ("f6E2M3FN", [0, 0x20, 0x1F, 0x3F, 0x3C, 1]),
        ("f4E2M1FN", [0, 8, 7, 0xF, 0xC, 1]),
        ("f8E8M0FNU", [0, 0x80, 0xFE, 0xFF, 0x7F, 1]),
        ("i64", [0, 1, 2**63, 2**64 - 1, 2**53 + 1, 7]),
        ("i32", [0, 1, 2**31, 2**32 - 1, 3, 7]),
        ("i16", [0, 1, 2**15, 2**16 - 1, 3, 7]),
        ("i8", [0, 1, 128, 255, 3, 7]),
        ("i1", [0, 1, 1, 0, 0, 1]),
    ],
)
def test_tensors(element: str, bits: list[int]) -> None:
    """(H1), (H3) Both implementations give tensors of special values the same hashes; NaNs hash as the canonical NaN
    (V4)."""
    width = max(8, int("".join(c for c in element.split("E")[0] if c.isdigit())))
    items = [value.to_bytes(width // 8, "little") for value in bits]
    array = np.frombuffer(b"".join(items), dtype=f"<u{width // 8}").reshape(2, 3)
    kinds = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "<i1", "i1": "?"}
    array = array.view(kinds.get(element, array.dtype))
    digest = identity_bytes.tensor_hash(element, (2, 3), items)
    assert digest.hex() == hashing.tensor_hash(array, element)
    assert identity_bytes.state_hash([digest, digest]) == hashing.state_hash([(array, element), (array, element)])


def test_worked_example() -> None:
    """The example in docs/verification/identity.md has the bytes and the hash of its program."""
    page = (Path(__file__).parents[3] / "docs" / "verification" / "identity.md").read_text()
    program = page.split("```mlir\n")[1].split("```")[0]
    shown = page.split("```text\n")[1].split("```")[0]
    data = b"".join(example_bytes(line) for line in shown.splitlines())
    with ir.Context():
        module = ir.Module.parse(program)
        text = module.operation.get_asm(print_generic_op_form=True)
        identity = program_hash(module)
    assert data == identity_bytes.ProgramBytes().program(text)
    assert identity in page


def example_bytes(line: str) -> bytes:
    """Returns the bytes of a line of the example: a number is a u64, or has the width in `N:u8` or `N:u32`; a name in
    quotes; a type, padded to 16 bytes; or a float as hexadecimal bytes. A remark follows `;`."""
    data = b""
    for token in line.partition(";")[0].split():
        if token.startswith('"'):
            data += token.strip('"').encode().replace(b"\\0", b"\0")
        elif token.startswith("0x"):
            data += bytes.fromhex(token[2:])
        elif ":" in token:
            value, _, width = token.partition(":u")
            data += int(value).to_bytes(int(width) // 8, "little")
        elif token.isdigit():
            data += identity_bytes.u64(int(token))
        else:
            data += identity_bytes.element_name(token)
    return data


def test_imports_nothing_of_the_package() -> None:
    folder = Path(identity_bytes.__file__).parent
    for name in ("generic_form", "identity_bytes"):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in modules:
                root = module.partition(".")[0]
                assert module in ("blake3", "support.generic_form") or root in sys.stdlib_module_names, (name, module)
