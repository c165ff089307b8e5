# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The kernels of attention: with a whole score matrix, blocked (K5), and for one new token per sequence."""

from __future__ import annotations

from functools import cached_property

from repro_mlir.roofline.transformer.operations import SOFTMAX_FLOPS, Operation, Product, moved, vector
from repro_mlir.roofline.transformer.share import DeviceSizes


class Attention(DeviceSizes):
    """The attention kernels of one device for one microbatch, from queries, keys and values to the attention output."""

    @cached_property
    def _bytes(self) -> float:
        """The total number of bytes of the queries, of the output, and of the keys and values of whole sequences."""
        kv_tokens = self.share.sequences * self.config.sequence
        size = (self.config.score_size + self.config.head_size) * self.stored
        return (self.tokens * self.heads + kv_tokens * self.kv_heads) * size

    @cached_property
    def _scores(self) -> int:
        """The number of elements of the score matrices of all heads."""
        return self.tokens * self.config.sequence * self.heads

    def forward(self) -> list[Operation]:
        """Returns the forward kernels for whole sequences."""
        batch, size, length = self.share.sequences * self.heads, self.config.head_size, self.config.sequence
        wide = self.config.score_size
        if self.config.is_blocked:
            products = []
            for begin, rows in self._blocks():
                keys = self._block_end(begin)
                products += [self._product(batch, rows, keys, wide), self._product(batch, rows, size, keys)]
            return [self._blocked("attention", products, self._bytes, products[::2])]
        rows = self.tokens // self.share.sequences
        scores = self._product(batch, rows, length, wide)
        values = self._product(batch, rows, size, length)
        stored = self.stored
        found = [
            Operation("scores", "attention", moved(scores, stored), (scores,)),
            vector("softmax", self._scores, 2 * stored, SOFTMAX_FLOPS, exponentials=self._scores),
            Operation("values", "attention", moved(values, stored), (values,)),
        ]
        if self.config.dropout:
            found.insert(2, vector("attention dropout", self._scores, 2 * stored + 1, 2))
        return found

    def cached(self, length: int) -> list[Operation]:
        """Returns the kernels for one query per sequence and head; the queries of heads that share keys are rows of one
        product.

        With latent attention, latents serve as keys and values of all heads: queries are projected to latents, and the
        attention output is projected back (DeepSeek-AI, arXiv:2405.04434, section 2.1.2).
        """
        config, latent = self.config, self.config.kv_latent
        groups, size = (1, latent) if latent else (self.kv_heads, config.head_size)
        batch, rows, wide = self.tokens * groups, self.heads // groups, size + config.rotary_size
        products = (self._product(batch, rows, length, wide), self._product(batch, rows, size, length))
        cache = self.tokens * length * self.cache_width * self.stored
        elements = batch * rows * length
        found = [Operation("attention", "attention", cache, products, elements * SOFTMAX_FLOPS, elements)]
        if not latent:
            return found
        into = self._product(self.heads, self.tokens, latent, config.head_size)
        out = self._product(self.heads, self.tokens, config.head_size, latent)
        before, after = (
            Operation(name, "projection", moved(each, self.stored), (each,))
            for name, each in (("queries to latents", into), ("values of latents", out))
        )
        return [before, *found, after]

    def gradient(self) -> list[Operation]:
        """Returns the kernels of the gradient of `forward`."""
        batch, size, length = self.share.sequences * self.heads, self.config.head_size, self.config.sequence
        wide = self.config.score_size
        if self.config.is_blocked:
            products = []
            for begin, keys in self._blocks():
                rows = length - begin // self.config.attention_block * self.config.attention_block
                products += [self._product(batch, rows, keys, wide), self._product(batch, rows, keys, size)]
                products += [self._product(batch, keys, size, rows), self._product(batch, keys, wide, rows)]
                products.append(self._product(batch, rows, wide, keys))
            return [self._blocked("attention gradient", products, 2 * self._bytes, products[::5])]
        rows, stored = self.tokens // self.share.sequences, self.stored
        products = [
            self._product(batch, length, size, rows),
            self._product(batch, rows, length, size),
            self._product(batch, rows, wide, length),
            self._product(batch, length, wide, rows),
        ]
        values, weights, query, key = (
            Operation(name, "attention", moved(each, stored), (each,))
            for name, each in zip(
                ("values, input", "values, scores", "scores, query", "scores, key"), products, strict=True
            )
        )
        found = [values, weights, vector("softmax gradient", self._scores, 3 * stored, 4), query, key]
        if self.config.dropout:
            found.insert(2, vector("attention dropout gradient", self._scores, 2 * stored + 1, 1))
        return found

    def _blocked(self, name: str, products: list[Product], bytes: float, scores: list[Product]) -> Operation:
        """Returns blocked attention as one kernel, which keeps the scores on the chip."""
        elements = sum(each.batch * each.m * each.n for each in scores)
        return Operation(name, "attention", bytes, tuple(products), elements * SOFTMAX_FLOPS, elements)

    def _blocks(self) -> list[tuple[int, int]]:
        """Returns the start and the length of the device's part of each block of tokens (K5).

        Devices that share a sequence have equal numbers of tokens from both ends of the sequence, so that the work of
        all devices is equal (Llama Team, arXiv:2407.21783, section 3.3.2).
        """
        length, own = self.config.sequence, self.config.sequence // self.share.context
        last = own // 2
        parts = [(0, length)] if own == length else [(0, own - last), (length - last, length)]
        found = []
        for begin, end in parts:
            while begin < end:
                rows = min(self._block_end(begin), end) - begin
                found.append((begin, rows))
                begin += rows
        return found

    def _block_end(self, token: int) -> int:
        block = self.config.attention_block
        return min((token // block + 1) * block, self.config.sequence)

    def _product(self, batch: int, m: int, n: int, k: int) -> Product:
        return Product(batch, m, n, k, self.wide)
