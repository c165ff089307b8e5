# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The kernels of a transformer as data: what each multiplies, reads and writes.

The products of a whole step are those of the program that the compiler captures of the same model in PyTorch, up to the
transposition of a product.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from .config import TransformerConfig
from .number_formats import NUMBER_FORMATS

# Of attention and of the last projection, whose operands recipes of narrow formats leave alone.
_UNQUANTIZED = {"f32": "f32", "tf32": "tf32"}
# Bytes of an element, read and written: of one kernel, and of the chain of kernels that PyTorch runs without fusion
# for a norm of the mean square in f32, complex rotations in f32, and a gate that is not multiplied at once.
_RMS_CHAIN, _ROTARY_CHAIN, _GATE_CHAIN = 32, 20, 10
_CHAIN_LAUNCHES = 6
# Vector operations of an element: of a norm and its gradient, of an activation, of a softmax beside its exponential.
_NORM_FLOPS, _ACTIVATION_FLOPS, _SOFTMAX_FLOPS = 8, 10, 5


@dataclass(frozen=True)
class Product:
    """`batch` products of matrices m x k and k x n, whose operands have a format of `NUMBER_FORMATS`."""

    batch: int
    m: int
    n: int
    k: int
    format: str

    @property
    def flops(self) -> int:
        """Operations, a multiply-add being two."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Operation:
    """A kernel, or a chain of them.

    Attributes:
      name: what it computes.
      group: `projection`, `attention`, `vector` or `head`.
      products: that it has, in their order.
      vector_flops, exponentials: of vector units.
      bytes: that it reads and writes in memory.
      launches: kernels.
    """

    name: str
    group: str
    bytes: float
    products: tuple[Product, ...] = ()
    vector_flops: float = 0.0
    exponentials: float = 0.0
    launches: int = 1


@dataclass(frozen=True)
class Share:
    """What one device has of a microbatch.

    Attributes:
      sequences: of the microbatch.
      precision: of `NUMBER_FORMATS`, that of the projections of layers.
      tensor: devices that share heads and inner widths.
      sequence_parallel: those share the tokens of what is not divided so.
      gathers_operands: those of `tensor` gather what a product reads and have columns of each weight, so that no sum is
        of several devices (T2); else they have rows of every second weight, and add.
      context: devices that share the tokens of a sequence.
      expert: devices that share the experts.
      is_fused: whether chains of element-wise operations are one kernel.
      gradient_bytes: read and written for an element of a weight's gradient.
    """

    sequences: int
    precision: str = "bf16"
    tensor: int = 1
    sequence_parallel: bool = False
    gathers_operands: bool = False
    context: int = 1
    expert: int = 1
    is_fused: bool = True
    gradient_bytes: int = 4


@dataclass(frozen=True)
class _Projection:
    """A product of activations with a weight: `batch` of rows x inputs and inputs x outputs."""

    name: str
    rows: int
    outputs: int
    inputs: int
    batch: int = 1
    is_quantized: bool = True
    group: str = "projection"


class Kernels:
    """The kernels of one device for one microbatch.

    Args:
      config: the whole transformer; the degrees of `share` divide its sizes, as `Parallelism.check` makes sure.
      share: what the device has of it.
    """

    def __init__(self, config: TransformerConfig, share: Share) -> None:
        self.config, self.share = config, share
        self.tokens = share.sequences * (config.sequence // share.context)
        self._stored = NUMBER_FORMATS[share.precision].stored_bytes
        self._wide = _UNQUANTIZED.get(share.precision, "bf16")
        self._own_tokens = self.tokens / (share.tensor if share.sequence_parallel else 1)

    @cached_property
    def heads(self) -> int:
        """Of queries."""
        return self.config.heads // self.share.tensor

    @cached_property
    def kv_heads(self) -> int:
        """Of keys and values; devices beyond them have copies."""
        return max(1, self.config.kv_heads // self.share.tensor)

    @cached_property
    def ffn(self) -> int:
        """The inner width."""
        return self.config.ffn // self.share.tensor

    def gathered_elements(self) -> tuple[int, ...]:
        """What devices gather in a layer where they gather operands: attention, its projection, the inner activations
        and what the perceptron gives."""
        config, rows = self.config, self.config.active_experts or 1
        widths = (config.query_size, config.hidden, config.ffn * rows, config.hidden * rows)
        return tuple(self.tokens * width for width in widths)

    def embedding(self) -> tuple[Operation, ...]:
        """Rows of the table of tokens."""
        elements = self._own_tokens * self.config.hidden
        return (self._vector("embedding", elements, 2 * self._stored, 1),)

    def embedding_gradient(self) -> tuple[Operation, ...]:
        """Rows that are added to the gradient of the table."""
        elements = self._own_tokens * self.config.hidden
        return (self._vector("embedding gradient", elements, self._stored + 8, 1),)

    def layer(self, cached_tokens: int | None = None) -> tuple[Operation, ...]:
        """A layer, forward.

        Args:
          cached_tokens: how many keys and values of each sequence are in memory, where the tokens are new ones of as
            many sequences; None for whole sequences.
        """
        before, after = self._attention_projections
        found = [self._norm(), *self._forward(before)]
        if self.config.rotary:
            found.append(self._rotary())
        found += self._attention() if cached_tokens is None else self._cached_attention(cached_tokens)
        found += self._forward((after,))
        found += [self._residual(), self._norm()]
        found += self._perceptron()
        found.append(self._residual())
        return tuple(found)

    def layer_gradient(self) -> tuple[Operation, ...]:
        """A layer, backward."""
        before, after = self._attention_projections
        found = [*self._dropout_gradient(), *self._perceptron_gradient(), self._norm_gradient()]
        found += [*self._dropout_gradient(), *self._backward((after,)), *self._attention_gradient()]
        if self.config.rotary:
            found.append(self._rotary())
        found += [*self._backward(before), self._norm_gradient()]
        return tuple(found)

    def attention_core(self) -> tuple[Operation, ...]:
        """What selective recomputation repeats: from queries, keys and values to what attention gives."""
        return tuple(self._attention())

    def weight_quantization(self) -> tuple[Operation, ...]:
        """Weights of a layer as operands, once for all microbatches."""
        format = NUMBER_FORMATS[self.share.precision]
        if not format.quantize_bytes:
            return ()
        before, after = self._attention_projections
        weights = [each for each in (*before, after, *self._perceptron_projections) if each.is_quantized]
        elements = sum(each.batch * each.outputs * each.inputs for each in weights)
        return (self._vector("weights as operands", elements, format.quantize_bytes, 2, len(weights)),)

    def head(self) -> tuple[Operation, ...]:
        """The last norm and projection, and the loss in f32."""
        projection = self._head_projection
        elements = projection.rows * projection.outputs
        loss = self._vector("loss", elements, self._stored + 4 + 4, _SOFTMAX_FLOPS, exponentials=elements)
        return (self._norm(), *self._forward((projection,)), loss)

    def head_gradient(self) -> tuple[Operation, ...]:
        """Of the last norm and projection, and of the loss."""
        projection = self._head_projection
        loss = self._vector("loss gradient", projection.rows * projection.outputs, 4 + self._stored, 2)
        return (loss, *self._backward((projection,)), self._norm_gradient())

    @cached_property
    def _head_projection(self) -> _Projection:
        outputs = -(-self.config.vocabulary // self.share.tensor)
        return _Projection("head", self.tokens, outputs, self.config.hidden, is_quantized=False, group="head")

    @cached_property
    def _attention_projections(self) -> tuple[tuple[_Projection, ...], _Projection]:
        """Those before and the one after attention."""
        hidden, size = self.config.hidden, self.config.head_size
        widths = {"query": self.heads * size, "key": self.kv_heads * size, "value": self.kv_heads * size}
        if self.config.fused_projections:
            widths = {"query, key and value": sum(widths.values())}
        before = tuple(_Projection(name, self.tokens, width, hidden) for name, width in widths.items())
        return before, self._divided("attention output", self.tokens, hidden, self.heads * size)

    def _divided(self, name: str, rows: int, outputs: int, inputs: int, batch: int = 1) -> _Projection:
        """A projection of which the device has so many inputs, or its part of the outputs and all inputs."""
        tensor = self.share.tensor
        if self.share.gathers_operands:
            return _Projection(name, rows, outputs // tensor, inputs * tensor, batch)
        return _Projection(name, rows, outputs, inputs, batch)

    @cached_property
    def _perceptron_projections(self) -> tuple[_Projection, ...]:
        """All of the perceptron, or of a device's experts, tokens being spread evenly; the last one narrows."""
        config, share = self.config, self.share
        rows, batch = self.tokens, 1
        if config.experts:
            batch = min(config.experts, self.tokens * share.expert * config.active_experts) // share.expert
            rows = max(1, -(-self.tokens * share.expert * config.active_experts // config.experts))
        names = ("gate", "widen") if config.gated else ("widen",)
        widths = dict.fromkeys(names, self.ffn)
        if config.fused_projections and config.gated:
            widths = {"gate and widen": 2 * self.ffn}
        widen = tuple(_Projection(name, rows, width, config.hidden, batch) for name, width in widths.items())
        return (*widen, self._divided("narrow", rows, config.hidden, self.ffn, batch))

    @cached_property
    def _inner_rows(self) -> int:
        """Rows that go through the perceptron."""
        last = self._perceptron_projections[-1]
        return last.rows * last.batch

    def _perceptron(self) -> list[Operation]:
        *widen, narrow = self._perceptron_projections
        found = []
        if self.config.experts:
            found += [*self._forward((self._router,)), *self._routing()]
        found += [*self._forward(widen), self._activation(), *self._forward((narrow,))]
        if self.config.experts:
            found.append(self._combination("experts together"))
        return found

    def _perceptron_gradient(self) -> list[Operation]:
        *widen, narrow = self._perceptron_projections
        found = [self._combination("experts apart")] if self.config.experts else []
        found += [*self._backward((narrow,)), self._activation_gradient(), *self._backward(widen)]
        if self.config.experts:
            found += [self._combination("tokens together"), *self._backward((self._router,))]
        return found

    @cached_property
    def _router(self) -> _Projection:
        return _Projection("router", self.tokens, self.config.experts, self.config.hidden, is_quantized=False)

    def _routing(self) -> tuple[Operation, ...]:
        scores = self.tokens * self.config.experts
        choice = self._vector("choice of experts", scores, 3 * 4, _SOFTMAX_FLOPS, exponentials=scores)
        return choice, self._combination("tokens apart")

    def _combination(self, name: str) -> Operation:
        """Rows of tokens to rows of experts, or back."""
        elements = (self._inner_rows + self.tokens) * self.config.hidden
        return self._vector(name, elements, self._stored, 1)

    def _forward(self, projections: Iterable[_Projection]) -> list[Operation]:
        """The operand once, and the products."""
        found = []
        for number, each in enumerate(projections):
            if number == 0:
                found += self._operand(each, each.rows * each.inputs)
            found.append(self._product(each, each.name, each.rows, each.outputs, each.inputs, self._stored))
        return found

    def _backward(self, projections: Iterable[_Projection]) -> list[Operation]:
        """Gradients of the input, added where there are several, and of the weight."""
        found = []
        for number, each in enumerate(projections):
            found += self._operand(each, each.rows * each.outputs)
            output = self._stored * (1 if number == 0 else 2)
            found.append(self._product(each, f"{each.name}, input", each.rows, each.inputs, each.outputs, output))
            gradient = self.share.gradient_bytes
            found.append(self._product(each, f"{each.name}, weight", each.outputs, each.inputs, each.rows, gradient))
            if not self.config.rotary and each.name != "head":
                elements = each.batch * each.rows * each.outputs
                found.append(self._vector(f"{each.name}, bias", elements, self._stored, 1))
        return found

    def _operand(self, projection: _Projection, elements: float) -> list[Operation]:
        cost = NUMBER_FORMATS[self.share.precision].quantize_bytes
        if not cost or not projection.is_quantized:
            return []
        return [self._vector("operand", projection.batch * elements, cost, 3, 1 if self.share.is_fused else 3)]

    def _product(self, of: _Projection, name: str, m: int, n: int, k: int, output: float) -> Operation:
        format = self.share.precision if of.is_quantized else self._wide
        product = Product(of.batch, m, n, k, format)
        return Operation(name, of.group, _moved(product, output), (product,))

    def _vector(
        self, name: str, elements: float, bytes: float, flops: float, launches: int = 1, exponentials: float = 0.0
    ) -> Operation:
        return Operation(name, "vector", elements * bytes, (), elements * flops, exponentials, launches)

    def _chain(self, name: str, elements: float, fused: float, chain: float, flops: float) -> Operation:
        """A kernel, or the kernels that PyTorch runs without fusion."""
        if self.share.is_fused or not self.config.rotary:
            return self._vector(name, elements, fused, flops)
        return self._vector(name, elements, chain, flops, _CHAIN_LAUNCHES)

    def _norm(self) -> Operation:
        elements = self._own_tokens * self.config.hidden
        return self._chain("norm", elements, 2 * self._stored, _RMS_CHAIN, _NORM_FLOPS)

    def _norm_gradient(self) -> Operation:
        """With the gradient beside it added."""
        elements = self._own_tokens * self.config.hidden
        return self._chain("norm gradient", elements, 4 * self._stored, 2 * _RMS_CHAIN, 2 * _NORM_FLOPS)

    def _residual(self) -> Operation:
        """The sum, behind dropout and its mask."""
        elements = self._own_tokens * self.config.hidden
        return self._vector("sum", elements, 3 * self._stored + self.config.dropout, 2)

    def _dropout_gradient(self) -> list[Operation]:
        elements = self._own_tokens * self.config.hidden
        return [self._vector("dropout gradient", elements, 2 * self._stored + 1, 1)] * self.config.dropout

    def _rotary(self) -> Operation:
        elements = self.tokens * (self.heads + self.kv_heads) * self.config.head_size
        return self._chain("rotation", elements, 2 * self._stored, _ROTARY_CHAIN, 3)

    def _activation(self) -> Operation:
        elements, stored = self._inner_rows * self.ffn, self._stored
        if not self.config.gated:
            return self._vector("activation", elements, 2 * stored, _ACTIVATION_FLOPS, exponentials=elements)
        found = self._chain("gate", elements, 3 * stored, _GATE_CHAIN, _ACTIVATION_FLOPS)
        return replace(found, exponentials=elements)

    def _activation_gradient(self) -> Operation:
        elements, stored = self._inner_rows * self.ffn, self._stored
        if not self.config.gated:
            return self._vector("activation gradient", elements, 3 * stored, _ACTIVATION_FLOPS, 1, elements)
        found = self._chain("gate gradient", elements, 5 * stored, 2 * _GATE_CHAIN, 2 * _ACTIVATION_FLOPS)
        return replace(found, exponentials=elements)

    @cached_property
    def _attention_bytes(self) -> tuple[float, float]:
        """Of queries, and of keys and values of a whole sequence."""
        kv_tokens = self.share.sequences * self.config.sequence
        size = self.config.head_size * self._stored
        return self.tokens * self.heads * size, 2 * kv_tokens * self.kv_heads * size

    @cached_property
    def _scores(self) -> int:
        """Of the matrices of all heads."""
        return self.tokens * self.config.sequence * self.heads

    def _attention(self) -> list[Operation]:
        batch, size, length = self.share.sequences * self.heads, self.config.head_size, self.config.sequence
        queries, kv = self._attention_bytes
        if self.config.is_blocked:
            products = []
            for begin, rows in self._blocks():
                keys = min(begin + rows, length)
                products += [self._wide_product(batch, rows, keys, size), self._wide_product(batch, rows, size, keys)]
            return [self._blocked("attention", products, 2 * queries + kv, products[::2])]
        rows = self.tokens // self.share.sequences
        scores = self._wide_product(batch, rows, length, size)
        values = self._wide_product(batch, rows, size, length)
        stored = self._stored
        found = [
            Operation("scores", "attention", _moved(scores, stored), (scores,)),
            self._vector("softmax", self._scores, 2 * stored, _SOFTMAX_FLOPS, exponentials=self._scores),
            Operation("values", "attention", _moved(values, stored), (values,)),
        ]
        if self.config.dropout:
            found.insert(2, self._vector("attention dropout", self._scores, 2 * stored + 1, 2))
        return found

    def _cached_attention(self, length: int) -> list[Operation]:
        """Of one query for each sequence and head; heads that share keys are rows of a product."""
        batch, rows, size = self.tokens * self.kv_heads, self.heads // self.kv_heads, self.config.head_size
        products = (self._wide_product(batch, rows, length, size), self._wide_product(batch, rows, size, length))
        cache = 2 * batch * length * size * self._stored
        elements = batch * rows * length
        return [Operation("attention", "attention", cache, products, elements * _SOFTMAX_FLOPS, elements)]

    def _attention_gradient(self) -> list[Operation]:
        batch, size, length = self.share.sequences * self.heads, self.config.head_size, self.config.sequence
        queries, kv = self._attention_bytes
        if self.config.is_blocked:
            products = []
            for begin, keys in self._blocks():
                rows = length - begin
                products += [self._wide_product(batch, rows, keys, size)] * 2
                products += [self._wide_product(batch, keys, size, rows)] * 2
                products.append(self._wide_product(batch, rows, size, keys))
            return [self._blocked("attention gradient", products, 4 * queries + 2 * kv, products[::5])]
        rows, stored = self.tokens // self.share.sequences, self._stored
        products = [
            self._wide_product(batch, length, size, rows),
            self._wide_product(batch, rows, length, size),
            self._wide_product(batch, rows, size, length),
            self._wide_product(batch, length, size, rows),
        ]
        values, weights, query, key = (
            Operation(name, "attention", _moved(each, stored), (each,))
            for name, each in zip(
                ("values, input", "values, scores", "scores, query", "scores, key"), products, strict=True
            )
        )
        found = [values, weights, self._vector("softmax gradient", self._scores, 3 * stored, 4), query, key]
        if self.config.dropout:
            found.insert(2, self._vector("attention dropout gradient", self._scores, 2 * stored + 1, 1))
        return found

    def _blocked(self, name: str, products: list[Product], bytes: float, scores: list[Product]) -> Operation:
        """Attention by blocks is one kernel, which keeps the scores on the chip."""
        elements = sum(each.batch * each.m * each.n for each in scores)
        return Operation(name, "attention", bytes, tuple(products), elements * _SOFTMAX_FLOPS, elements)

    def _blocks(self) -> list[tuple[int, int]]:
        """Where a block (K5) begins, and its length.

        Devices that share a sequence have blocks from both ends of it, so that each has the same work (Llama Team,
        arXiv:2407.21783, section 3.3.2).
        """
        length, block, context = self.config.sequence, self.config.attention_block, self.share.context
        found = [(begin, min(block, length - begin)) for begin in range(0, length, block)]
        if context == 1:
            return found
        part = -(-len(found) // (2 * context))
        return found[:part] + found[len(found) - part :]

    def _wide_product(self, batch: int, m: int, n: int, k: int) -> Product:
        return Product(batch, m, n, k, self._wide)


def _moved(product: Product, output: float) -> float:
    """Bytes of both operands and of the result, each once."""
    operand = NUMBER_FORMATS[product.format].operand_bytes
    read = (product.m + product.n) * product.k * operand
    return product.batch * (read + product.m * product.n * output)


def training_products(config: TransformerConfig, sequences: int, precision: str = "bf16") -> list[Product]:
    """The products of a training step on one device, without recomputation, forward and then backward.

    Args:
      sequences: of a batch, each of `config.sequence` tokens.
      precision: of `NUMBER_FORMATS`.
    """
    kernels = Kernels(config, Share(sequences, precision))
    layers = config.layers
    found = [*kernels.layer() * layers, *kernels.head(), *kernels.head_gradient(), *kernels.layer_gradient() * layers]
    return [product for operation in found for product in operation.products]
