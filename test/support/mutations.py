# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Deterministic mutations of MLIR text, and a script that parses them.

As a program, `mutations.py CORPUS FIRST LAST PROGRESS` parses, verifies, prints and canonicalizes the mutations FIRST
to LAST - 1 of CORPUS, a JSON file with lists of texts. The file PROGRESS contains the number of the current mutation,
so that the parent knows which mutation ended the process.
"""

import json
import random
import re
import sys
from pathlib import Path

_TOKEN = re.compile(r'"[^"\n]*"|[%#@^]?[A-Za-z_][\w.$]*|-?\d+(?:\.\d+)?|->|::|\S')
_NUMBER = re.compile(r"-?\d+$")

# Replacements of numbers, types and attributes as careless or hostile authors would write them.
_NUMBERS = ["0", "1", "-1", "2", "3", "7", "64", "65", "1024", "2147483647", "2147483648", "4294967296"]
_NUMBERS += ["9223372036854775807", "-9223372036854775808", "18446744073709551616", "?"]
_TYPES = ["f32", "f64", "bf16", "f8E5M2", "f80", "i1", "i0", "i64", "i65", "si8", "index", "none", "complex<f32>"]
_TYPES += ["f6E3M2FN", "f4E2M1FN", "f8E8M0FNU", "tensor<4x8xf4E2M1FN>", "tensor<4x2xf8E8M0FNU>"]
_TYPES += [
    "tuple<f32>",
    "vector<4xf32>",
    "vector<[4]xf32>",
    "vector<f32>",
    "tensor<f32>",
    "tensor<*xf32>",
    "tensor<?xf32>",
]
_TYPES += ["tensor<0xf32>", "tensor<8xf32>", "tensor<4x8xf32>", "tensor<9223372036854775807x4xf32>", "memref<*xf32>"]
_TYPES += [
    "memref<8xf32>",
    "memref<4x8xf32, strided<[?, 1], offset: ?>>",
    "memref<8xf32, affine_map<(i) -> (i mod 3)>>",
]
_MAPS = ["affine_map<() -> ()>", "affine_map<() -> (0)>", "affine_map<(i) -> ()>", "affine_map<(i) -> (i)>"]
_MAPS += ["affine_map<(i, j) -> (j, i)>", "affine_map<(i, j) -> (i - j)>", "affine_map<(i) -> (i mod 0)>"]
_MAPS += [
    "affine_map<(i)[s] -> (i + s)>",
    "affine_map<(i, j) -> (i + j, i floordiv 2)>",
    "affine_map<(i, j) -> (i, i)>",
]
_MAPS += [
    "affine_map<(i) -> (i * -1)>",
    "affine_map<(i) -> (i ceildiv -1)>",
    "affine_map<(i) -> (-9223372036854775807)>",
]
_ATTRIBUTES = ["#repro.any_order", "#repro.sequential", "unit", "1 : i64", '"text"', "[]", "array<i32: 1, 1>"]
_ATTRIBUTES += [
    "array<i32: -1, 3>",
    "#repro.order<chunk = 2, lanes = 1, run = 0, totals = refold>",
    "#repro.rounding<direction = sr, bits = 8>",
    "#repro.power_scale<rule = rceil>",
    "#repro.quotient_scale<levels = 2>",
    "#repro.given_scale",
    "#repro.fdpa<terms = 32, fraction = 25, round = rz_f32, floor = -133, group = 16>",
    "@symbol",
    "dense<0> : tensor<4xi64>",
]
_OPERATIONS = ["fold", "arg_reduce", "scatter", "scan", "sort", "random", "yield", "index", "exp", "pow", "powi"]
_OPERATIONS += ["block_contraction", "quantize", "dequantize", "pack_codes", "unpack_codes"]
_OPERATIONS = [f"repro.{name}" for name in _OPERATIONS] + [
    "arith.addf",
    "math.fma",
    "repro.barrier",
    "func.return",
    "linalg.yield",
    "cf.br",
]
_WORDS = [
    "maximum",
    "replace",
    "add",
    "ascending",
    "bits",
    "uniform",
    "max",
    "refold",
    "parallel",
    "reduction",
    "(",
    ")",
    "<",
    "]",
    "{",
]
_POOLS = [_NUMBERS, _TYPES, _MAPS, _ATTRIBUTES, _OPERATIONS, _WORDS]


def mutate(corpus: list[list[str]], number: int) -> str:
    """Returns the mutation with the given number: a changed text. First a list of the corpus is chosen, then one of its
    texts."""
    choose = random.Random(number)
    return change(choose.choice(choose.choice(corpus)), choose)


def change(text: str, choose: random.Random) -> str:
    """Returns the text with one to three changes."""
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        text = _change_once(text, choose)
    return text


def _change_once(text: str, choose: random.Random) -> str:
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return text
    token = choose.choice(tokens)
    kind = choose.randrange(9)
    if kind == 0:  # remove a token
        return text[: token.start()] + text[token.end() :]
    if kind == 1:  # duplicate a token
        return f"{text[: token.end()]} {text[token.start() :]}"
    if kind == 2:  # exchange two tokens
        first, second = sorted([token, choose.choice(tokens)], key=lambda t: t.start())
        if first.end() > second.start():
            return text
        middle = text[first.end() : second.start()]
        return text[: first.start()] + second[0] + middle + first[0] + text[second.end() :]
    if kind == 3:  # replace a number
        numbers = [t for t in tokens if _NUMBER.match(t[0])]
        token = choose.choice(numbers or tokens)
        return text[: token.start()] + choose.choice(_NUMBERS) + text[token.end() :]
    if kind == 4:  # replace a value, symbol, alias or block by another one from the text
        names = [t for t in tokens if t[0][0] in "%#@^"]
        token = choose.choice(names or tokens)
        return text[: token.start()] + choose.choice(names or tokens)[0] + text[token.end() :]
    if kind == 5:  # remove, duplicate or move a line
        lines = text.split("\n")
        at = choose.randrange(len(lines))
        line = lines.pop(at)
        for _ in range(choose.randrange(3)):
            lines.insert(choose.randrange(len(lines) + 1), line)
        return "\n".join(lines)
    if kind == 6:  # truncate the text
        return text[: token.start()]
    if kind == 7:  # replace an operation
        operations = [t for t in tokens if t[0].strip('"').startswith("repro.")]
        token = choose.choice(operations or tokens)
        quote = '"' if token[0][0] == '"' else ""
        return text[: token.start()] + quote + choose.choice(_OPERATIONS) + quote + text[token.end() :]
    return text[: token.start()] + choose.choice(choose.choice(_POOLS)) + text[token.end() :]


def main(corpus_file: str, first: int, last: int, progress_file: str) -> None:
    """Parses, verifies, prints and canonicalizes the mutations `first` to `last` - 1; prints how many are valid."""
    from repro_mlir import ir
    from repro_mlir.passmanager import PassManager

    corpus = json.loads(Path(corpus_file).read_text())
    valid = 0
    with open(progress_file, "w") as progress:
        for number in range(first, last):
            if (number - first) % 500 == 0:
                context = ir.Context()
                context.attach_diagnostic_handler(lambda _: True)
                canonicalize = PassManager.parse("builtin.module(canonicalize)", context)
            progress.seek(0)
            progress.write(f"{number:12}")
            progress.flush()
            try:
                module = ir.Module.parse(mutate(corpus, number), context)
                module.operation.get_asm(print_generic_op_form=True)
                canonicalize.run(module.operation)
            except ir.MLIRError:
                continue
            valid += 1
    print(valid)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
