# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Programs, as text and as stored bytes, that crash, stall or exhaust the process that reads them, with the expected
errors."""

from __future__ import annotations

import struct

from repro_mlir.program.canonical import to_bytes

DEEP = 100_000


def program(body: str = "", attributes: str = "", result: str = "%a", location: str = "", before: str = "") -> bytes:
    """Returns a canonical program; hostile text can be inserted in the given places."""
    return f"""{before}
module {{
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> attributes {{{attributes}repro.num_state = 1 : i64}} {{
    {body}
    return {result} : tensor<4xf32> {location}
  }}
}}
""".encode()


def generic(index_map: str) -> bytes:
    """Returns a program with a generic whose input has the given index map."""
    return program(
        f"""%e = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {{indexing_maps = [{index_map}, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
        ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) {{
      ^bb0(%x: f32, %o: f32):
        linalg.yield %x : f32
    }} -> tensor<4xf32>""",
        result="%r",
    )


# Texts that are refused before they are parsed, and the error messages.
BEFORE_PARSING = {
    "deep attributes": (program(attributes=f"x = {'[' * DEEP}{']' * DEEP}, "), "levels of brackets, got 100,002"),
    "deep locations": (
        program(location="loc(" + 'callsite("a" at ' * DEEP + '"b"' + ")" * DEEP + ")"),
        "expected a program with at most 256 levels of brackets",
    ),
    "deep regions": (program("scf.execute_region {" * DEEP + "}" * DEEP), "levels of brackets"),
    "long number": (program(f"%c = arith.constant {'9' * 1_000_000} : i64"), "expected numbers of at most 64 digits"),
    "terabyte splat": (
        program("%c = arith.constant dense<0.0> : tensor<1000000000000xf32>"),
        "expected tensors of at most 68,719,476,736 bytes in a program, got one of 1000000000000 elements",
    ),
    "product beyond 2^64": (
        program("%c = tensor.empty() : tensor<6148914691236517206x3xi8>"),
        "bytes in a program, got one of 6148914691236517206x3 elements",
    ),
}

# Texts that the child process refuses, or for which it exceeds its limits, and the error messages.
IN_THE_CHILD = {
    "deep negation": (program(before=f"#m = affine_map<(i) -> ({'- ' * 1_000_000}i)>"), "ended by SIGSEGV"),
    "division by zero": (
        generic("affine_map<(i) -> (i floordiv 0)>"),
        "program could not be imported|cannot be imported",
    ),
    "remainder by zero": (generic("affine_map<(i) -> (i mod 0)>"), "program could not be imported|cannot be imported"),
    "no UTF-8": (b"\xff\xfe\x00", "cannot be imported"),
    "no MLIR": (b"hello", "cannot be imported"),
    "zero bytes": (bytes(1000), "cannot be imported"),
    "not canonical": (program('"foo.bar"() : () -> ()'), "cannot be imported"),
}


def slow_to_compile() -> bytes:
    """Returns a program with a chain of 30,000 additions: compiling it is slow, interpreting it is fast."""
    chain = "\n".join(f"%x{i} = arith.addf %x{i - 1}, %x{i - 1} : f32" for i in range(1, 30_000))
    return program(
        f"""%e = tensor.empty() : tensor<4xf32>
    %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]}} ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) {{
      ^bb0(%x0: f32, %o: f32):
        {chain}
        linalg.yield %x29999 : f32
    }} -> tensor<4xf32>""",
        result="%r",
    )


_BODY = slice(32, None)
_SUM = struct.pack("<QQQ", 0, 1, 1)
"""The encoding of an index expression: a sum of one term, whose factor is 1."""


def _deep_sums() -> bytes:
    """Returns a stored program with an index expression of 10,000 nested divisions."""
    data = to_bytes(generic("affine_map<(i) -> (i)>").decode())
    inner = _SUM + b"\0" + bytes(8)
    outer = inner
    for _ in range(10_000):
        outer = _SUM + b"\2" + outer + struct.pack("<Q", 7)
    body = data[_BODY].replace(inner, outer, 1)
    return data[:24] + struct.pack("<Q", len(body)) + body


def _large(body: str) -> bytes:
    return to_bytes(program(body).decode())


def _terabytes() -> bytes:
    shape = b"\1f32" + bytes(13) + struct.pack("<Q", 1)
    return to_bytes(program().decode()).replace(shape + struct.pack("<Q", 4), shape + struct.pack("<Q", 10**12))


# Bytes that are not a stored program, and the error messages.
NOT_STORED = {
    "hello": (b"hello", "expected the beginning of a stored program"),
    "zero bytes": (bytes(1000), "expected the beginning of a stored program"),
    "text": (program(), "expected the beginning of a stored program"),
    "a part": (to_bytes(program().decode())[:-1], "than the file holds"),
    "deep sums": (_deep_sums(), "64 deep"),
    "terabytes": (_terabytes(), r"\(A4\) expected a tensor of at most"),
}

# Stored programs that exceed the limits on sizes, and the error messages.
TOO_LARGE = {
    "large tensor": (
        _large("%c = tensor.empty() : tensor<50000000000xf32>"),
        "expected tensors of at most 68,719,476,736 bytes in a program, got one of 200,000,000,000",
    ),
    "many splats": (
        _large("\n".join(f"%c{i} = arith.constant dense<{i}.0> : tensor<50000000xf32>" for i in range(20))),
        "expected constants of at most 2,147,483,648 bytes, got 4,000,000,000",
    ),
}
