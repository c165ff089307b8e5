# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Changes programs so that they read and write views of other tensors. Such views are rarely contiguous in memory."""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Sequence

import numpy as np
from repro_mlir import ir

from support import inputs as values
from support.builder import tensor
from support.catalogue import Case

_HEADER = re.compile(r"func\.func @main\((.*?)\) -> (.*?) attributes \{repro\.num_state = (\d+) : i64\} \{\n")
_RETURN = re.compile(r"\n    return (.*?) : .*\n")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+)>")
_MOST_ELEMENTS = 1 << 20
"""The maximum number of elements of the larger tensor; larger views are not generated."""


@dataclasses.dataclass(frozen=True)
class _Part:
    """A slice of a tensor; extracting it may drop dimensions of extent 1."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"{list(self.offsets)} {list(self.sizes)} {list(self.strides)}"

    @property
    def slices(self) -> tuple[slice | int, ...]:
        """Returns the slice as a NumPy index, which keeps dimensions of extent 1."""
        return tuple(
            slice(offset, offset + size * stride, stride)
            for offset, size, stride in zip(self.offsets, self.sizes, self.strides, strict=True)
        )


def _part(choose: random.Random, shape: Sequence[int]) -> _Part:
    """Returns a random slice of a larger tensor. The slice has the shape `shape`; the larger tensor may have one more
    dimension."""
    dims = []
    for size in shape:
        offset, stride = choose.choice([0, 0, 1, 8]), choose.choice([1, 1, 2, 3])
        extent = offset + max(size - 1, 0) * stride + 1 + choose.choice([0, 0, 1, 5])
        dims.append((extent, offset, size, stride))
    if shape and choose.random() < 0.5:
        dims.insert(choose.choice([len(dims), len(dims), choose.randint(0, len(dims))]), (2, choose.randrange(2), 1, 1))
    return _Part(*zip(*dims, strict=True)) if dims else _Part((), (), (), ())


def _around(choose: random.Random, element: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(values.mixed(element, shape, choose.getrandbits(16)))


def of_views(case: Case, seed: int) -> Case:
    """Returns the case with its arguments, except states, replaced by views of larger tensors, and with its results
    inserted into larger tensors.

    The larger tensors have arbitrary bits around the views. A view is a slice or has permuted dimensions. If a result
    is inserted into a tensor that the program fills, the operation can write to this tensor directly.
    """
    choose = random.Random(seed)
    with ir.Context(), ir.Location.unknown():
        text = str(ir.Module.parse(case.program))
    header, end = _HEADER.search(text), _RETURN.search(text)
    assert header and end, "expected @main on arguments without attributes"
    states = int(header[3])
    arguments, lines, arrays = [], [], []
    for number, (argument, array) in enumerate(zip(header[1].split(", "), case.inputs, strict=True)):
        name, kind = argument.split(": ")
        found = _TENSOR.fullmatch(kind)
        assert found
        part = _part(choose, array.shape)
        if number < states or math.prod(part.shape) > _MOST_ELEMENTS:
            arguments.append(argument)
            arrays.append(array)
        elif array.ndim > 1 and choose.random() < 0.2:
            order = choose.sample(range(array.ndim), array.ndim)
            arrays.append(np.ascontiguousarray(array.transpose(order)))
            turned = tensor(arrays[-1].shape, found[2])
            arguments.append(f"%turned{number}: {turned}")
            dims = [f"d{i}" for i in range(array.ndim)]
            maps = [f"affine_map<({', '.join(dims)}) -> ({', '.join(m)})>" for m in ([dims[i] for i in order], dims)]
            kinds = ", ".join(['"parallel"'] * array.ndim)
            lines.append(
                f"%empty{number} = tensor.empty() : {kind}\n"
                f"{name} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
                f"iterator_types = [{kinds}]}} "
                f"ins(%turned{number} : {turned}) outs(%empty{number} : {kind}) {{\n"
                f"^bb0(%in: {found[2]}, %out: {found[2]}):\nlinalg.yield %in : {found[2]}\n}} -> {kind}"
            )
        else:
            larger = tensor(part.shape, found[2])
            arguments.append(f"%whole{number}: {larger}")
            arrays.append(_around(choose, found[2], part.shape).astype(array.dtype))
            arrays[-1][part.slices] = array.reshape(part.sizes)
            lines.append(f"{name} = tensor.extract_slice %whole{number}{part.text} : {larger} to {kind}")
    ends, results, kinds = [], [], []
    for number, (name, found) in enumerate(zip(end[1].split(", "), _TENSOR.finditer(header[2]), strict=True)):
        part = _part(choose, tuple(map(int, found[1].split("x")[:-1])))
        results.append(name)
        kinds.append(found[0])
        if number < states or math.prod(part.shape) > _MOST_ELEMENTS:
            continue
        results[-1], kinds[-1] = f"%put{number}", tensor(part.shape, found[2])
        if choose.random() < 0.5:
            arguments.append(f"%room{number}: {kinds[-1]}")
            arrays.append(_around(choose, found[2], part.shape))
        else:
            one = "true" if found[2] == "i1" else f"{1 if found[2][0] == 'i' else 1.0} : {found[2]}"
            lines.append(f"%one{number} = arith.constant {one}")
            lines.append(f"%room{number} = tensor.splat %one{number} : {kinds[-1]}")
        ends.append(
            f"%put{number} = tensor.insert_slice {name} into %room{number}{part.text} : {found[0]} into {kinds[-1]}"
        )
    body = [*lines, text[header.end() : end.start()], *ends, f"return {', '.join(results)} : {', '.join(kinds)}"]
    main = f"func.func @main({', '.join(arguments)}) -> ({', '.join(kinds)})"
    text = "\n".join(
        [
            text[: header.start()],
            f"{main} attributes {{repro.num_state = {states} : i64}} {{",
            *body,
            text[end.end() :],
        ]
    )
    return Case(f"views-{case.name}", text, tuple(arrays))
