# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Canonical programs that the importer generates for random distributions (R2) and blockwise attention (K5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from repro_mlir.program import canonicalize

from support import inputs as values
from support.builder import Builder, tensor, typed

DISTRIBUTIONS = (
    ("uniform", "f32"),
    ("bits", "i32"),
    ("bernoulli probability = 0.0", "i1"),
    ("bernoulli probability = 0.3", "i1"),
    ("bernoulli probability = 1.0", "i1"),
    *((f"randint range = {count}", "i64") for count in (1, 10, 2**31, 2**32 - 1, 2**32)),
    ("normal", "f32"),
)
"""The attributes and the result's element type of each repro.random; its position in the list is its site number."""


def distributions(shape: Sequence[int], kinds: Sequence[tuple[str, str]] = DISTRIBUTIONS) -> str:
    """Returns a program that draws one tensor per distribution, given the seed and the step."""
    b = Builder()
    drawn = b.scalar_arguments(2)
    results = []
    for site, (distribution, element) in enumerate(kinds):
        results += b.call(f"repro.random {distribution} site = {site}", drawn, [b.empty(shape, element)])
    return canonicalize(b.program(*results))


@dataclass(frozen=True)
class Attention:
    """A program of blockwise attention and its gradient.

    Attributes:
      items: the numbers of items (batch x heads) of queries, keys and values.
      lengths: the numbers of queries and keys per item, the width of queries and keys, and the width of values.
      block: the operation's block size.
      mask: "causal", the element type of a mask operand, or "" for no mask.
      rate: the dropout rate, if any.
    """

    name: str
    items: tuple[int, int, int]
    lengths: tuple[int, int, int, int]
    block: int
    mask: str = ""
    rate: float | None = None

    def _shapes(self) -> list[tuple[int, int, int]]:
        """Returns the shapes of query, key, value and the gradient of the result."""
        (n, k, v), (queries, keys, size, width) = self.items, self.lengths
        return [(n, queries, size), (k, keys, size), (v, keys, width), (n, queries, width)]

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Returns random inputs of `program`. A mask excludes all keys of the second query."""
        arrays = [values.random("f32", shape, seed, 1) for seed, shape in enumerate(self._shapes())]
        shape = (self.items[0], *self.lengths[:2])
        if self.mask == "i1":
            mask = np.random.default_rng(4).random(shape) < 0.7
            mask[:, 1] = False
            arrays.append(mask)
        if self.mask == "f32":
            mask = values.random("f32", shape, 4, 1)
            mask[:, 1] = -np.inf
            arrays.append(mask)
        if self.rate is not None:
            arrays += [np.array(-5), np.array(7)]
        return tuple(arrays)

    def program(self) -> str:
        """Returns a program that maps query, key, value, gradient of the result, mask, seed and step to the result and
        the gradients."""
        b = Builder()
        q, k, v, g = (b.argument(shape, "f32") for shape in self._shapes())
        words, masks = f"block = {self.block} scale = 0.375", []
        if self.mask == "causal":
            words = f"causal {words}"
        elif self.mask:
            masks.append(b.argument((self.items[0], *self.lengths[:2]), self.mask))
            words += f" mask({masks[0].name} : {masks[0].type})"
        if self.rate is not None:
            words += f" dropout rate = {self.rate} site = 3 ({typed(*b.scalar_arguments(2))})"
        words += f" ins({typed(q, k, v)})"

        of_query = (self.items[0], self.lengths[0])
        shapes = [g.shape, of_query, of_query]
        types = ", ".join(tensor(shape, "f32") for shape in shapes)
        results = b.ops(f"repro.attention {words} -> {types}", *((shape, "f32") for shape in shapes))
        differentiable = [q, k, v, *(mask for mask in masks if mask.element == "f32")]
        gradients = b.ops(
            f"repro.attention_gradient {words} gradient({typed(g)}) results({typed(*results)}) "
            f"-> {', '.join(x.type for x in differentiable)}",
            *((x.shape, "f32") for x in differentiable),
        )
        return canonicalize(b.program(*results, *gradients))


ATTENTION = (
    Attention("plain", (2, 2, 2), (5, 6, 4, 5), 4),
    Attention("causal", (6, 2, 3), (10, 7, 4, 5), 5, "causal"),
    Attention("causal-of-more-keys", (2, 2, 2), (5, 11, 4, 5), 4, "causal"),
    Attention("causal-with-dropout", (2, 1, 2), (3, 3, 3, 2), 2, "causal", 0.5),
    Attention("booleans", (3, 3, 3), (9, 7, 4, 5), 64, "i1"),
    Attention("numbers-with-dropout", (4, 4, 2), (6, 7, 4, 3), 4, "f32", 0.25),
    Attention("all-dropped", (2, 2, 2), (3, 4, 4, 3), 4, "f32", 1.0),
    Attention("long", (2, 1, 2), (16, 33, 8, 8), 64, "i1", 0.1),
)
