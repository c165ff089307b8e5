# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The kernels of a transformer as data: the products, reads and writes of each.

The products of a whole step are those of the program that the compiler captures from the same model in PyTorch, up to
transposition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from repro_mlir.roofline.transformer.attention import Attention
from repro_mlir.roofline.transformer.config import TransformerConfig
from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS
from repro_mlir.roofline.transformer.operations import SOFTMAX_FLOPS, Operation, Product, moved, vector
from repro_mlir.roofline.transformer.share import DeviceSizes, Share

# Bytes read and written per element by PyTorch's unfused kernels for an RMS norm in f32, for complex rotations in
# f32, and for a gate with a separate multiplication.
_RMS_CHAIN, _ROTARY_CHAIN, _GATE_CHAIN = 32, 20, 10
_CHAIN_LAUNCHES = 6
# Vector operations per element of a norm and of an activation function. The gradient of a norm takes twice as many.
_NORM_FLOPS, _ACTIVATION_FLOPS = 8, 10


@dataclass(frozen=True)
class _Projection:
    """A product of activations and weights. There are `batch` weight matrices, inputs x outputs; the rows of the
    activations are divided evenly among these matrices."""

    name: str
    rows: int
    outputs: int
    inputs: int
    batch: int = 1
    is_quantized: bool = True
    group: str = "projection"

    @cached_property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a number of weight matrices, and the number of rows of activations that each of them multiplies. In
        an uneven division, some matrices have one row more than the others."""
        least, more = divmod(self.rows, self.batch)
        return tuple(part for part in ((more, least + 1), (self.batch - more, least)) if part[0])


class Kernels(DeviceSizes):
    """The kernels of one device for one microbatch.

    Args:
      config: the whole transformer; `Parallelism.check` ensures that the degrees of `share` divide its sizes.
      share: the device's part of a microbatch.
    """

    def __init__(self, config: TransformerConfig, share: Share) -> None:
        super().__init__(config, share)
        self._attention = Attention(config, share)

    def gathered_elements(self) -> tuple[int, ...]:
        """Returns the numbers of elements that devices gather in a layer if they gather operands instead of adding
        partial sums.

        The gathered tensors are the attention output, its projection, the inner activations and the output of the MLP.
        """
        config, rows = self.config, self.config.active_experts or 1
        widths = (config.query_size, config.hidden, config.ffn * rows, config.hidden * rows)
        return tuple(self.tokens * width for width in widths)

    def embedding(self) -> tuple[Operation, ...]:
        """Returns the kernel that looks up rows of the embedding."""
        return (vector("embedding", self.own_tokens * self.config.hidden, 2 * self.stored, 1),)

    def embedding_gradient(self) -> tuple[Operation, ...]:
        """Returns the kernel that adds rows to the gradient of the embedding."""
        return (vector("embedding gradient", self.own_tokens * self.config.hidden, self.stored + 8, 1),)

    def layer(self, cached_tokens: int | None = None) -> tuple[Operation, ...]:
        """Returns the forward kernels of a layer.

        Args:
          cached_tokens: None for whole sequences. For one new token per sequence, the number of its earlier tokens,
            whose keys and values are cached.
        """
        _, after = self._attention_projections
        found = [self._norm(), *self._before_attention(cached_tokens is not None)]
        if self.config.rotary:
            found.append(self._rotary())
        found += self._attention.forward() if cached_tokens is None else self._attention.cached(cached_tokens)
        found += self._forward((after,))
        found += [self._residual(), self._norm()]
        found += self._perceptron()
        found.append(self._residual())
        return tuple(found)

    def layer_gradient(self) -> tuple[Operation, ...]:
        """Returns the backward kernels of a layer."""
        before, after = self._attention_projections
        found = [*self._dropout_gradient(), *self._perceptron_gradient(), self._norm_gradient()]
        found += [*self._dropout_gradient(), *self._backward((after,)), *self._attention.gradient()]
        if self.config.rotary:
            found.append(self._rotary())
        if self.config.kv_latent:
            found.append(self._keys_of_heads())
            found += [each for projection in self._from_latents for each in self._backward((projection,))]
            found.append(self._latent_norms(2))
        found += [*self._backward(before), self._norm_gradient()]
        return tuple(found)

    def attention_core(self) -> tuple[Operation, ...]:
        """Returns the kernels that selective recomputation repeats: those of attention without projections."""
        return tuple(self._attention.forward())

    def weight_quantization(self) -> tuple[Operation, ...]:
        """Returns the kernels that quantize a layer's weights. These kernels run once for all microbatches."""
        format = NUMBER_FORMATS[self.share.precision]
        if not format.quantize_bytes:
            return ()
        before, after = self._attention_projections
        all_ = (*before, *self._from_latents, after, *self._perceptron_projections)
        weights = [each for each in all_ if each.is_quantized]
        elements = sum(each.batch * each.outputs * each.inputs for each in weights)
        return (vector("weights as operands", elements, format.quantize_bytes, 2, len(weights)),)

    def head(self) -> tuple[Operation, ...]:
        """Returns the kernels of the last norm, the last projection and the loss in f32."""
        projection = self._head_projection
        elements = projection.rows * projection.outputs
        loss = vector("loss", elements, self.stored + 4 + 4, SOFTMAX_FLOPS, exponentials=elements)
        return (self._norm(), *self._forward((projection,)), loss)

    def head_gradient(self) -> tuple[Operation, ...]:
        """Returns the kernels for the gradients of the loss, the last projection and the last norm."""
        projection = self._head_projection
        loss = vector("loss gradient", projection.rows * projection.outputs, 4 + self.stored, 2)
        return (loss, *self._backward((projection,)), self._norm_gradient())

    @cached_property
    def _head_projection(self) -> _Projection:
        outputs = -(-self.config.vocabulary // self.share.tensor)
        return _Projection("head", self.tokens, outputs, self.config.hidden, is_quantized=False, group="head")

    @cached_property
    def _attention_projections(self) -> tuple[tuple[_Projection, ...], _Projection]:
        """The projections of the layer's input, and the output projection of attention."""
        config, hidden, size = self.config, self.config.hidden, self.config.head_size
        widths = {"query": self.heads * size, "key": self.kv_heads * size, "value": self.kv_heads * size}
        if config.kv_latent:
            widths = {
                "query": config.query_latent or self.heads * config.score_size,
                "key and value": config.kv_latent + config.rotary_size,
            }
        if config.fused_projections:
            widths = {"query, key and value": sum(widths.values())}
        before = tuple(_Projection(name, self.tokens, width, hidden) for name, width in widths.items())
        return before, self._divided("attention output", self.tokens, hidden, self.heads * size)

    @cached_property
    def _from_latents(self) -> tuple[_Projection, ...]:
        """The projections from the latents of latent attention, keys and values first."""
        config, found = self.config, []
        if config.kv_latent:
            widths = 2 * self.kv_heads * config.head_size
            found.append(_Projection("keys and values of latents", self.tokens, widths, config.kv_latent))
        if config.query_latent:
            widths = self.heads * config.score_size
            found.append(_Projection("queries of latents", self.tokens, widths, config.query_latent))
        return tuple(found)

    def _before_attention(self, is_cached: bool) -> list[Operation]:
        """Returns the kernels from the layer's input to queries, keys and values, or to latents if these are cached
        instead."""
        before, _ = self._attention_projections
        found = self._forward(before)
        if self.config.kv_latent:
            found.append(self._latent_norms(1))
            for each in self._from_latents[1:] if is_cached else self._from_latents:
                found += self._forward((each,))
            if not is_cached:
                found.append(self._keys_of_heads())
        return found

    def _latent_norms(self, passes: int) -> Operation:
        """Returns the kernels of the norms of the latents; `passes` is 1 for forward, 2 for backward."""
        elements, flops = self.tokens * (self.config.query_latent + self.config.kv_latent), passes * _NORM_FLOPS
        fused, launches = passes * 2 * self.stored, 2 if self.config.query_latent else 1
        found = self._chain("latent norms", elements, fused, passes * _RMS_CHAIN, flops)
        return replace(found, launches=found.launches * launches)

    def _keys_of_heads(self) -> Operation:
        """Returns the kernel that concatenates the keys of each head with the shared rotated part; in the backward
        pass, it splits their gradients."""
        return vector("keys of heads", self.tokens * self.kv_heads * self.config.score_size, 2 * self.stored, 1)

    def _divided(self, name: str, rows: int, outputs: int, inputs: int, batch: int = 1) -> _Projection:
        """Returns the device's part of a projection. `inputs` is the device's number of inputs, `outputs` that of the
        whole projection. If devices gather operands, outputs are divided among devices instead of inputs."""
        tensor = self.share.tensor
        if self.share.gathers_operands:
            return _Projection(name, rows, outputs // tensor, inputs * tensor, batch)
        return _Projection(name, rows, outputs, inputs, batch)

    @cached_property
    def _perceptron_projections(self) -> tuple[_Projection, ...]:
        """The projections of the MLP, with the narrowing one last.

        With experts, these are the projections of the device's experts that receive tokens; tokens are spread evenly.
        """
        config = self.config
        rows, batch = self.tokens, 1
        if config.experts:
            rows *= config.active_experts
            batch = min(config.experts // self.share.expert, rows)
        names = ("gate", "widen") if config.gated else ("widen",)
        widths = dict.fromkeys(names, self.ffn)
        if config.fused_projections and config.gated:
            widths = {"gate and widen": 2 * self.ffn}
        widen = tuple(_Projection(name, rows, width, config.hidden, batch) for name, width in widths.items())
        return (*widen, self._divided("narrow", rows, config.hidden, self.ffn, batch))

    @cached_property
    def _inner_rows(self) -> int:
        """The number of rows that the MLP processes; with experts, a token is a row of each of its active experts."""
        return self._perceptron_projections[-1].rows

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
        choice = vector("choice of experts", scores, 3 * 4, SOFTMAX_FLOPS, exponentials=scores)
        return choice, self._combination("tokens apart")

    def _combination(self, name: str) -> Operation:
        """Returns the kernel `name`, which gathers rows of tokens into rows of experts, or the reverse."""
        return vector(name, (self._inner_rows + self.tokens) * self.config.hidden, self.stored, 1)

    def _forward(self, projections: Iterable[_Projection]) -> list[Operation]:
        """Returns the kernels of the products, preceded by one that quantizes their shared operand if the format
        requires it."""
        found = []
        for number, each in enumerate(projections):
            if number == 0:
                found += self._operand(each, each.rows * each.inputs)
            products = [self._product(each, part, rows, each.outputs, each.inputs) for part, rows in each.parts]
            found.append(self._operation(each, each.name, products, self.stored))
        return found

    def _backward(self, projections: Iterable[_Projection]) -> list[Operation]:
        """Returns the kernels for the gradient of the input, which is a sum over the projections, and for the gradients
        of the weights."""
        found = []
        for number, each in enumerate(projections):
            found += self._operand(each, each.rows * each.outputs)
            output = self.stored * (1 if number == 0 else 2)
            products = [self._product(each, part, rows, each.inputs, each.outputs) for part, rows in each.parts]
            found.append(self._operation(each, f"{each.name}, input", products, output))
            products = [self._product(each, part, each.outputs, each.inputs, rows) for part, rows in each.parts]
            found.append(self._operation(each, f"{each.name}, weight", products, self.share.gradient_bytes))
            if not self.config.rotary and each.name != "head":
                found.append(vector(f"{each.name}, bias", each.rows * each.outputs, self.stored, 1))
        return found

    def _operand(self, projection: _Projection, elements: float) -> list[Operation]:
        cost = NUMBER_FORMATS[self.share.precision].quantize_bytes
        if not cost or not projection.is_quantized:
            return []
        return [vector("operand", elements, cost, 3, 1 if self.share.is_fused else 3)]

    def _product(self, of: _Projection, batch: int, m: int, n: int, k: int) -> Product:
        return Product(batch, m, n, k, self.share.precision if of.is_quantized else self.wide)

    def _operation(self, of: _Projection, name: str, products: list[Product], output: float) -> Operation:
        """Returns a kernel that computes `products`, with `output` bytes of memory traffic for each element of their
        results."""
        return Operation(name, of.group, sum(moved(each, output) for each in products), tuple(products))

    def _chain(
        self, name: str, elements: float, fused: float, chain: float, flops: float, launches: int = _CHAIN_LAUNCHES
    ) -> Operation:
        """Returns one kernel with `fused` bytes per element if kernels are fused, else PyTorch's chain of kernels with
        `chain` bytes per element in total."""
        if self.share.is_fused:
            return vector(name, elements, fused, flops)
        return vector(name, elements, chain, flops, launches)

    def _norm(self) -> Operation:
        elements = self.own_tokens * self.config.hidden
        if not self.config.rotary:
            return vector("norm", elements, 2 * self.stored, _NORM_FLOPS)
        return self._chain("norm", elements, 2 * self.stored, _RMS_CHAIN, _NORM_FLOPS)

    def _norm_gradient(self) -> Operation:
        """Returns the kernel for the gradient of a norm, including the addition of the residual gradient."""
        elements, fused, flops = self.own_tokens * self.config.hidden, 4 * self.stored, 2 * _NORM_FLOPS
        if not self.config.rotary:
            # The summands are the numbers of values per element that three kernels access: those for the input, the
            # weight and the sum.
            return self._chain("norm gradient", elements, fused, (3 + 2 + 3) * self.stored, flops, 3)
        return self._chain("norm gradient", elements, fused, 2 * _RMS_CHAIN, flops)

    def _residual(self) -> Operation:
        """Returns the kernel of the residual sum, preceded by dropout with its mask if the model has dropout."""
        elements = self.own_tokens * self.config.hidden
        fused, flops = 3 * self.stored + self.config.dropout, 2
        if not self.config.dropout:
            return vector("sum", elements, fused, flops)
        return self._chain("sum", elements, fused, fused + 2 * self.stored, flops, 2)

    def _dropout_gradient(self) -> list[Operation]:
        elements = self.own_tokens * self.config.hidden
        return [vector("dropout gradient", elements, 2 * self.stored + 1, 1)] * self.config.dropout

    def _rotary(self) -> Operation:
        if self.config.kv_latent:
            elements = self.tokens * (self.heads + 1) * self.config.rotary_size
        else:
            elements = self.tokens * (self.heads + self.kv_heads) * self.config.head_size
        return self._chain("rotation", elements, 2 * self.stored, _ROTARY_CHAIN, 3)

    def _activation(self) -> Operation:
        elements, stored = self._inner_rows * self.ffn, self.stored
        if not self.config.gated:
            return vector("activation", elements, 2 * stored, _ACTIVATION_FLOPS, exponentials=elements)
        found = self._chain("gate", elements, 3 * stored, _GATE_CHAIN, _ACTIVATION_FLOPS)
        return replace(found, exponentials=elements)

    def _activation_gradient(self) -> Operation:
        elements, stored = self._inner_rows * self.ffn, self.stored
        if not self.config.gated:
            return vector("activation gradient", elements, 3 * stored, _ACTIVATION_FLOPS, 1, elements)
        found = self._chain("gate gradient", elements, 5 * stored, 2 * _GATE_CHAIN, 2 * _ACTIVATION_FLOPS)
        return replace(found, exponentials=elements)


def training_products(config: TransformerConfig, sequences: int, precision: str = "bf16") -> list[Product]:
    """Returns the products of a training step on one device without recomputation, forward and then backward.

    Args:
      sequences: the number of sequences of the batch, each of `config.sequence` tokens.
      precision: one of `NUMBER_FORMATS`.
    """
    kernels = Kernels(config, Share(sequences, precision))
    layers = config.layers
    found = [*kernels.layer() * layers, *kernels.head(), *kernels.head_gradient(), *kernels.layer_gradient() * layers]
    return [product for operation in found for product in operation.products]
