# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(H2): a stored program can be read only if its bytes are those that the writer produces for it."""

from __future__ import annotations

import random
import re
import struct

import pytest
from support.stored_samples import EVERYTHING, LINES, PROGRAM

ir = pytest.importorskip("repro_mlir.ir")
from blake3 import blake3  # noqa: E402
from repro_mlir import ReproError  # noqa: E402
from repro_mlir._mlir_libs._repro import program_hash, read_program, write_program  # noqa: E402
from repro_mlir.program.canonical import examine, examine_admitted, from_bytes, to_bytes  # noqa: E402
from support import identity_bytes, stored_programs  # noqa: E402

MAGIC = b"\x89repro-mlir\r\n\x1a\n\0"


def stored(text: str) -> bytes:
    with ir.Context():
        return write_program(ir.Module.parse(text))


def sections(data: bytes) -> dict[int, bytes]:
    assert data[:20] == MAGIC + struct.pack("<I", 1)
    found, position = {}, 20
    while position < len(data):
        kind, size = struct.unpack_from("<IQ", data, position)
        found[kind] = data[position + 12 : position + 12 + size]
        position += 12 + size
    return found


def file_of(found: dict[int, bytes], version: int = 1) -> bytes:
    parts = (struct.pack("<IQ", kind, len(contents)) + contents for kind, contents in found.items())
    return MAGIC + struct.pack("<I", version) + b"".join(parts)


def generic_form(text: str) -> str:
    with ir.Context():
        form: str = ir.Module.parse(text).operation.get_asm(print_generic_op_form=True)
        return form


def check(text: str) -> None:
    """Checks that the stored body is what (H2) hashes and what the second implementation writes, and that reading it
    restores the program."""
    with ir.Context() as context:
        module = ir.Module.parse(text)
        data, identity = write_program(module), program_hash(module)
        body = sections(data)[0]
        assert blake3(body).hexdigest() == identity
        generic = module.operation.get_asm(print_generic_op_form=True)
        assert body == identity_bytes.ProgramBytes().program(generic)
        again = read_program(data, context)
        assert again.operation.verify()
        assert program_hash(again) == identity and write_program(again) == data
    assert examine_admitted(data) == examine(data)


@pytest.mark.parametrize("group", stored_programs.GROUPS)
def test_programs(group: str) -> None:
    for text in stored_programs.programs(group):
        check(text)


def test_names_and_locations_are_kept() -> None:
    with ir.Context() as context:
        text = str(read_program(stored(LINES), context).operation.get_asm(enable_debug_info=True, use_local_scope=True))
    for kept in (
        'repro.name = "\\C3\\A9"',
        'repro.name = "y"',
        'loc("module encoder.0")',
        '"first" loc("model.py":7:3)',
        '"second" loc("node"("model.py":8:3))',
        'tensor<4xf32> loc("a.py":1:2)',
    ):
        assert kept in text


def test_names_and_locations_are_not_part_of_the_identity() -> None:
    plain = LINES.replace("first", "other").replace('"y"', '"z"').replace("model.py", "other.py")
    assert sections(stored(plain))[0] == sections(stored(LINES))[0]
    assert stored(plain) != stored(LINES)


def test_one_definition_as_every_operand() -> None:
    """Every operand is the same value, so the program has more operands than values."""
    check("""
    func.func @main(%x: tensor<2xf32>) -> tensor<10xf32> attributes {repro.num_state = 0 : i64} {
      %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
          affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]} ins(%x, %x, %x, %x : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
          tensor<2xf32>) outs(%x : tensor<2xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %o: f32):
        linalg.yield %d : f32
      } -> tensor<2xf32>
      %1 = tensor.concat dim(0) %0, %0, %0, %0, %0
          : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<10xf32>
      return %1 : tensor<10xf32>
    }
    """)


def test_equal_elements_take_no_space() -> None:
    """A constant of equal elements is stored as one element, even if MLIR stores all of them, or if they are different
    NaNs (V4)."""
    program = """
    func.func @main() -> tensor<{shape}xf32> attributes {{repro.num_state = 0 : i64}} {{
      %c = arith.constant dense<{value}> : tensor<{shape}xf32>
      return %c : tensor<{shape}xf32>
    }}
    """
    assert len(stored(program.format(shape="50257x768", value="0.0"))) < 500
    three = [program.format(shape="3", value=v) for v in ("0x7FC00000", "[0x7FC00000, 0x7FC00000, 0xFFC00001]")]
    assert stored(three[0]) == stored(three[1])
    assert stored(program.format(shape="3", value="[0.0, 0.0, -0.0]")) != stored(program.format(shape="3", value="0.0"))
    for shape in ("1", "0", "0x5"):
        check(program.format(shape=shape, value="" if shape == "0" else "1.0"))


MAP = """
func.func @main(%x: tensor<9x9xf32>) -> tensor<2x2xf32> attributes {{repro.num_state = 0 : i64}} {{
  %e = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> ({first}, 0)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<9x9xf32>) outs(%e : tensor<2x2xf32>) {{
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  }} -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}}
"""


def test_an_index_is_a_sum() -> None:
    """Index expressions that differ only in the order of terms and in brackets give the same program."""
    sums = ["d0 * 2 + d1 + 1", "1 + d1 + d0 * 2", "d1 + (d0 + 1) + d0", "(d0 * 3 + d1) - (d0 - 1)"]
    assert len({stored(MAP.format(first=each)) for each in sums}) == 1
    divisions = ["(d0 + d1 * 3) mod 5 + d1 floordiv 2", "d1 floordiv 2 + (d1 * 3 + d0) mod 5"]
    assert len({stored(MAP.format(first=each)) for each in divisions}) == 1
    for each in (*sums, *divisions, "d0 ceildiv 2 + d0 floordiv 2 + d0 mod 2", "(d0 floordiv 2 + d1) ceildiv 3"):
        data = stored(MAP.format(first=each))
        assert sections(data)[0] == identity_bytes.ProgramBytes().program(generic_form(MAP.format(first=each)))
        with ir.Context() as context:
            assert write_program(read_program(data, context)) == data


DIMENSION = struct.pack("<Q", 1) + b"\0" + bytes(8)
SUM = struct.pack("<QQ", 1, 1)


def division(kind: int, inner: bytes, divisor: int) -> bytes:
    return struct.pack("<QB", 1, kind) + inner + struct.pack("<Q", divisor % 2**64)


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ([bytes(8) + DIMENSION[8:]], "ascending order with factors other than 0"),
        ([DIMENSION, DIMENSION], "ascending order"),
        ([DIMENSION[:9] + b"\1" + bytes(7), DIMENSION], "ascending order"),
        ([division(1, SUM + DIMENSION, 2), DIMENSION], "ascending order"),
        ([DIMENSION[:9] + b"\2" + bytes(7)], "expected a dimension below 2"),
        ([struct.pack("<QB", 1, 4) + bytes(8)], "expected a kind of term below 4, got 4"),
        ([division(2, SUM + DIMENSION, 0)], "a division by a positive constant"),
        ([division(2, SUM + DIMENSION, -1)], "a division by a positive constant"),
        ([division(3, struct.pack("<QQ", 7, 0), 2)], "a division by a positive constant, of dimensions"),
        (
            [division(1, bytes(8) + SUM[8:] + struct.pack("<QBQ", 4, 0, 0), 2)],
            "expected what the program is written as",
        ),
        (
            [division(2, bytes(8) + SUM[8:] + struct.pack("<QBQ", 4, 0, 0), 2)],
            "expected what the program is written as",
        ),
    ],
    ids=range(11),
)
def test_refused_sums(terms: list[bytes], reason: str) -> None:
    rest = sections(stored(MAP.format(first="d0 + 1")))
    changed = struct.pack("<QQ", 1, len(terms)) + b"".join(terms)
    body = rest[0].replace(SUM + DIMENSION, changed, 1)
    assert body != rest[0] and re.search(reason, refusal(file_of(rest | {0: body})))


def test_sums_are_bounded() -> None:
    """Divisions that are nested more than 64 deep, and sums of more than 64 terms, are refused."""
    rest = sections(stored(MAP.format(first="d0 + 1")))
    inner = SUM + DIMENSION
    for _ in range(10_000):
        inner = SUM + division(1, inner, 7)
    assert "at most 64 deep" in refusal(file_of(rest | {0: rest[0].replace(SUM + DIMENSION, inner, 1)}))
    long = struct.pack("<QQ", 0, 100_000) + bytes(17 * 100_000)
    assert "at most 64 terms" in refusal(file_of(rest | {0: rest[0].replace(SUM + DIMENSION, long, 1)}))


def refusal(data: bytes) -> str:
    with ir.Context() as context, pytest.raises(ValueError) as caught:
        read_program(data, context)
    return str(caught.value)


DATA = sections(stored(PROGRAM))
BODY = DATA[0]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "byte 0 of the stored program: expected the beginning of a stored program"),
        (b"\x89repro-mlir\n\x1a\n\0", "byte 0 "),
        (file_of(DATA, version=2), "byte 16 .*expected version 1 of the format, got 2"),
        (file_of({}), "byte 20 .*expected a body"),
        (file_of({1: DATA[1], 0: BODY}), "expected the sections in their order"),
        (file_of({0: BODY}) + file_of({0: BODY})[20:], "expected the sections in their order"),
        (file_of(DATA | {4: b""}), "expected a kind of section below 4, got 4"),
        (file_of(DATA)[:-1], "expected no more bytes than the file holds"),
        (file_of(DATA) + b"\0", "expected 4 bytes, got 1"),
        (file_of({0: BODY, 1: DATA[1]}), "expected a message for each assertion"),
        (file_of({0: BODY[:-1], 1: DATA[1], 2: DATA[2]}), "the bytes have|expected 8 bytes"),
        (file_of(DATA | {0: BODY + b"\0"}), "expected the end of the body, got 1 bytes more"),
        (file_of(DATA | {1: DATA[1] + b"\0"}), "expected the end of the names"),
        (file_of(DATA | {2: DATA[2] + b"\0"}), "expected the end of the messages"),
        (file_of(DATA | {0: BODY.replace(b"-v2\0", b"-v1\0")}), "expected the beginning of a body"),
        (file_of(DATA | {0: BODY.replace(b"f32\0", b"f33\0", 1)}), "expected the name of an element type"),
        (file_of(DATA | {0: BODY.replace(b"arith.subf", b"arith.subg")}), "expected the name of an operation"),
        (file_of(DATA | {0: BODY.replace(b"arith.subf", b"arith.addi")}), "'arith.addi' op"),
        (file_of(DATA | {0: BODY[:17] + struct.pack("<Q", 9) + BODY[25:]}), "of states, got 9"),
        (file_of(DATA | {2: DATA[2].replace(b"message", b"\xff" * 7)}), "expected UTF-8"),
        # The writer omits an empty section, and a section of names that are all empty.
        (file_of(DATA | {1: struct.pack("<8Q", 3, 0, 0, 0, 3, 0, 0, 0)}), "written as"),
        (file_of(DATA | {3: struct.pack("<Q", 0)}), "expected 4 bytes, got 0"),
    ],
    ids=range(22),
)
def test_refusals(data: bytes, reason: str) -> None:
    assert re.search(reason, refusal(data)), refusal(data)


def test_counts_are_compared_before_memory_is_taken() -> None:
    """Puts a huge number at each position: the reader must give an error at once and allocate no memory for it."""
    body = sections(stored(LINES))[0]
    rest = sections(stored(LINES))
    for position in range(17, len(body) - 8):
        for number in (1 << 63, (1 << 63) - 1, 1 << 40):
            changed = body[:position] + struct.pack("<Q", number) + body[position + 8 :]
            if changed != body:
                refusal(file_of(rest | {0: changed}))


@pytest.mark.parametrize(("extent", "constant"), [(4, 2**63 - 4), (4, 2**63 - 1), (0, 2**63), (0, 2**63 - 1)])
def test_indices_that_overflow(extent: int, constant: int) -> None:
    """MLIR's verifier would abort the process, or accept an index to which it adds 1, so the reader must refuse the
    indices before verification."""
    text = f"""
    func.func @main(%x: tensor<9xf32>) -> tensor<{extent}xf32> attributes {{repro.num_state = 0 : i64}} {{
      %e = tensor.empty() : tensor<{extent}xf32>
      %0 = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0 + 5)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]}} ins(%x : tensor<9xf32>) outs(%e : tensor<{extent}xf32>) {{
      ^bb0(%a: f32, %b: f32):
        linalg.yield %a : f32
      }} -> tensor<{extent}xf32>
      return %0 : tensor<{extent}xf32>
    }}
    """
    index = struct.pack("<4Q", 1, 5, 1, 1)
    assert stored(text).count(index) == 1
    changed = stored(text).replace(index, struct.pack("<4Q", 1, constant, 1, 1))
    assert "(A2) expected indices below 2^63 - 1" in refusal(changed)


def test_every_accepted_mutation_is_another_program() -> None:
    """A program has exactly one encoding: if the reader accepts changed bytes, the writer produces these bytes
    again."""
    draw = random.Random(7)
    data = bytearray(stored(EVERYTHING))
    accepted = 0
    for _ in range(4000):
        changed = bytearray(data)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        with ir.Context() as context:
            try:
                module = read_program(bytes(changed), context)
            except ValueError:
                continue
            accepted += 1
            assert write_program(module) == changed
    assert accepted


def test_prefixes() -> None:
    data = stored(LINES)
    without_origins = file_of({kind: sections(data)[kind] for kind in (0, 1, 2)})
    for size in range(len(data)):
        if size != len(without_origins):
            refusal(data[:size])


def test_text_and_bytes() -> None:
    text = from_bytes(to_bytes(LINES))
    assert from_bytes(to_bytes(text)) == text and 'loc("model.py":7:3)' in text
    with pytest.raises(ReproError, match=r"^expected a stored program: \(H2\) byte 0"):
        from_bytes(b"x")
    with pytest.raises(ReproError, match="expected a canonical program: "):
        to_bytes("module {}")
