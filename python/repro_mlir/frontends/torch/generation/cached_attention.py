# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K6), (K7) Language models whose causal attention reads the keys and values of earlier tokens from a cache."""

import inspect
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.user_objects import require_model
from repro_mlir.frontends.torch.capture.programs import capture
from repro_mlir.frontends.torch.operators.blocks import PARTS, dequantize, quantize, zeros
from repro_mlir.frontends.torch.trace.attention import ReplacedAttention
from repro_mlir.precision.formats import Format
from repro_mlir.program import Program

_PIECE = 128
"""The maximum number of tokens per call when a model is tested with a cache."""

_DEVIATION = 1e-4
"""The tolerance for logits in eager mode, relative to the greatest logit; PyTorch's kernels round differently."""


def capture_generation(
    model: nn.Module, slots: int, capacity: int, chunk: int, reaches: Sequence[int], cache: Format | None = None
) -> list[tuple[Program, Program]]:
    """Captures pairs of programs: the first reads a chunk of tokens of one request, the second reads one token of each
    request.

    Args:
      model: see CachedModel.
      slots, capacity: the number of requests in the cache, and the maximum number of tokens per request.
      chunk: the number of tokens that the first program reads. The inputs of this program are all inputs of
        CachedModel.forward, with one row. The inputs of the second program are tokens and positions, with a row per
        slot.
      reaches: upper bounds for positions; one pair of programs is captured per bound and reads only positions below the
        bound.
      cache: the format of keys and values; f32 if None.
    Returns:
      a pair of programs per entry of `reaches`; all programs have the same state.
    Raises:
      ReproError: as for CachedModel and `capture`.
    """
    cached = CachedModel(model, slots, capacity, cache)

    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.int64)

    programs = []
    for reach in reaches:
        cached.reach = reach
        part = capture(cached, (zeros(1, chunk), zeros(1, chunk), zeros(1), zeros(1)))
        programs.append((part, capture(cached, (zeros(slots, 1), zeros(slots, 1)))))
    return programs


def capture_one_request(
    model: nn.Module, capacity: int, cache: Format | None = None
) -> tuple[Program, dict[str, tuple[str, bool]]]:
    """Captures the program that reads one token of a model's only request.

    The program is the second one that `capture_generation` returns for one slot. Arguments and errors are the same.

    Returns:
      the program; and a dictionary that maps the name of each state tensor, except caches, to a pair: the name of the
      model's tensor, and whether the state tensor is its transpose.
    """
    cached = CachedModel(model, 1, capacity, cache)
    token = torch.zeros((1, 1), dtype=torch.int64)
    return capture(cached, (token, token.clone())), cached.tensor_names()


class CachedModel(nn.Module):
    """A model with a cache of keys and values for several requests, one slot per request.

    `forward` accepts tokens and positions, i64 [rows, length], and returns the logits f32 [rows, length, vocabulary].
    With slots and `last`, i64 [rows], `forward` returns only the logits of token last[r] of row r, f32 [rows, 1,
    vocabulary]. Row r belongs to the request in slots[r]; no two rows share a slot. The positions in a row ascend;
    position -1 marks padding, whose logits are meaningless. Without slots, row r belongs to slot r, and every slot has
    a row.

    The parameters and buffers are those of the wrapped model, but the weights of linear layers are transposed, so that
    a product with few tokens reads each weight once, in memory order.

    Attributes:
      capacity: the maximum number of tokens per request.
      reach: the number of cache positions that attention reads, by default all; no token may be at a later position.
      caches: per call of attention, the names of the buffers of keys and the names of the buffers of values. Keys and
        values are stored as f32 [slots * heads, capacity + 1, size], or (K7) as the results of `quantize` for such a
        tensor. A product reads a contiguous slice per head. Keys are already scaled. The last position receives the
        keys and values of padding.
    """

    def __init__(self, model: nn.Module, slots: int, capacity: int, cache: Format | None = None) -> None:
        """Creates the caches and tests the model in eager mode on `capacity` tokens, without and with an f32 cache.

        The model's attention must be causal, and the cache must not change the logits.

        Args:
          model: a decoder in evaluation mode.
          slots: the number of requests.
          capacity: the maximum number of tokens per request.
          cache: (K7) the format of keys and values; f32 if None.
        Raises:
          CaptureError: the model does not support generation.
        """
        super().__init__()
        require_model(model)
        if model.training:
            raise CaptureError("the model is in training mode, expected evaluation mode: call model.eval()")
        self.capacity = self.reach = capacity
        self._format: Format | None = None
        self._calls = _caller(model)
        self._tensors: dict[str, tuple[str, bool]] = {}
        # Stored in a tuple, so that the linear layer does not become a submodule of this module.
        self._head: tuple[nn.Module] | None = None
        self._take_tensors(model)
        try:
            with torch.no_grad():
                logits, shapes = self._whole(model)
                self._make_caches(slots, shapes)
                self._require_tokens_apart()
                self._check(logits)
                # The check above uses an f32 cache, because the logits with a quantized cache deviate by more than the
                # tolerance.
                self._format = cache
                self._make_caches(slots, shapes)
        except CaptureError:
            raise
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise CaptureError(f"the model does not run on {capacity} tokens, the given capacity: {reason}") from error

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor | None = None,
        last: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Computes the logits, as the class docstring describes, and writes keys and values to the cache."""
        length = tokens.shape[1]
        entries = torch.where(positions < 0, self.capacity, positions)[:, None]
        visible = torch.arange(self.reach) <= positions[:, None, :, None]
        calls = iter(self.caches)

        def attend(
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            *_: Any,
            scale: float | None = None,
            **__: Any,
        ) -> torch.Tensor:
            # The call's mask is ignored: _require_causal checked that it is causal, and `visible` replaces it.
            keys, values = ([self.get_buffer(name) for name in names] for names in next(calls))
            rows, heads = key.shape[:2]
            first = (torch.arange(rows) if slots is None else slots) * heads
            entry = (first[:, None] + torch.arange(heads))[:, :, None]
            root = math.sqrt(1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
            # A non-finite value has weight 0 for queries that must not see it, but 0 * inf would make their results
            # NaN. Such a value is stored as 0 with a NaN key, which affects only the queries that see it.
            finite = torch.isfinite(self._load(self._store(value), value.shape[-1])).all(-1, keepdim=True)
            _put(keys, (entry, entries), self._store(torch.where(finite, key * root, math.nan)))
            _put(values, (entry, entries), self._store(torch.where(finite, value, 0.0)))
            keys, values = ([part[:, : self.reach] for part in parts] for parts in (keys, values))
            if len(keys[0]) > rows * heads:
                read = entry.flatten()
                keys, values = ([part[read] for part in parts] for parts in (keys, values))
            # Query heads that share a key head become additional queries of this head.
            grouped = (query * root).reshape(rows * heads, -1, query.shape[-1])
            scores = grouped @ self._load(keys, key.shape[-1]).transpose(1, 2)
            # Uses torch.where instead of an added mask, so that a NaN of an invisible key has no effect.
            seen = visible.repeat(1, 1, grouped.shape[1] // length, 1)
            chosen = torch.where(seen, scores.reshape(rows, heads, *scores.shape[1:]), -math.inf)
            weights = torch.softmax(chosen, -1).reshape(scores.shape)
            result = weights @ self._load(values, value.shape[-1])
            return result.reshape(*query.shape[:3], -1)

        tensors = {
            name: getattr(self, own).t() if is_transposed else getattr(self, own)
            for name, (own, is_transposed) in self._tensors.items()
        }

        def select(found: torch.Tensor) -> torch.Tensor:
            if last is None:
                return found
            # Avoids indexing, which would add a bounds check (E1): caches cannot be written in place before such a
            # check.
            chosen = torch.arange(length) == last[:, None]
            return torch.where(chosen[:, :, None], found, -math.inf).amax(1, keepdim=True)

        with ReplacedAttention(attend):
            if self._head is None:
                return select(self._calls(tokens, positions.clamp(min=0), tensors))
            with _before(*self._head, select):
                return self._calls(tokens, positions.clamp(min=0), tensors)

    def tensor_names(self) -> dict[str, tuple[str, bool]]:
        """Returns, for each parameter and buffer except caches, its name in the model and whether it is transposed."""
        return {own: (name, is_transposed) for name, (own, is_transposed) in self._tensors.items()}

    def _make_caches(self, slots: int, shapes: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        """Registers empty cache buffers. `shapes` has, for each call of attention, two pairs of the number of heads and
        the size of a head: one for the keys, one for the values."""
        self.caches = []
        for i, kinds in enumerate(shapes):
            names = []
            for name, (heads, size) in zip((f"keys{i}", f"values{i}"), kinds, strict=True):
                if hasattr(self, name):
                    del self._buffers[name]
                shape = slots * heads, self.capacity + 1, size
                parts = {name + part: value for part, value in self._empty(shape).items()}
                for part, value in parts.items():
                    self.register_buffer(part, value)
                names.append(tuple(parts))
            self.caches.append((names[0], names[1]))

    def _empty(self, shape: tuple[int, int, int]) -> dict[str, torch.Tensor]:
        """Returns the buffers of an empty cache, keyed by the suffixes of their names: zeros, with scales and amaxes of
        1."""
        if self._format is None:
            return {"": torch.zeros(shape)}
        return {f"_{part}": value for part, value in zip(PARTS, zeros(shape, self._format), strict=False)}

    def _store(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Converts keys or values to the format of the cache."""
        return (tensor,) if self._format is None else quantize(tensor, self._format)

    def _load(self, parts: Sequence[torch.Tensor], size: int) -> torch.Tensor:
        """Converts cached keys or values to f32."""
        return parts[0] if self._format is None else dequantize(parts, self._format, size)

    def _take_tensors(self, model: nn.Module) -> None:
        linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)}
        for name, parameter in model.named_parameters():
            own, is_transposed = f"parameter{len(self._tensors)}", id(parameter) in linear
            value = parameter.detach().t().contiguous() if is_transposed else parameter.detach()
            self.register_parameter(own, nn.Parameter(value, requires_grad=False))
            self._tensors[name] = (own, is_transposed)
        for name, buffer in model.named_buffers():
            own = f"buffer{len(self._tensors)}"
            self.register_buffer(own, buffer.detach().clone())
            self._tensors[name] = (own, False)

    def _whole(self, model: nn.Module) -> tuple[torch.Tensor, list[tuple[tuple[int, int], tuple[int, int]]]]:
        """Runs the model without a cache. Raises CaptureError if its attention or its logits are not supported, or it
        writes a buffer.

        Returns:
          the logits; and for each call of attention, two pairs of the number of heads and the size of a head: one for
          the keys, one for the values.
        """
        tokens, positions = self._tokens()
        found = []

        def attend(
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            attn_mask: torch.Tensor | None = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            scale: float | None = None,
            enable_gqa: bool = False,
        ) -> torch.Tensor:
            _require_causal(query, key, value, attn_mask, dropout_p, is_causal)
            found.append(((key.shape[1], key.shape[3]), (value.shape[1], value.shape[3])))
            return attention.original(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )

        before = [(name, buffer, buffer._version) for name, buffer in model.named_buffers()]
        with (attention := ReplacedAttention(attend)), _Linears(model) as linears:
            logits = self._calls(tokens, positions)
        head = linears.giving(logits)
        self._head = None if head is None else (head,)
        for name, buffer, version in before:
            if model.get_buffer(name) is not buffer or buffer._version != version:
                raise CaptureError(f"forward writes the buffer {name}, which requests would share: expected none")
        if not found:
            raise CaptureError(
                "the model does not call scaled_dot_product_attention: expected a decoder whose attention is "
                "torch.nn.functional.scaled_dot_product_attention(..., is_causal=True)"
            )
        if not (isinstance(logits, torch.Tensor) and logits.dim() == 3 and logits.shape[:2] == tokens.shape):
            kind = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise CaptureError(f"expected logits [rows, length, vocabulary] of {list(tokens.shape)} tokens, got {kind}")
        if logits.dtype != torch.float32:
            raise CaptureError(f"expected logits of float32, got {logits.dtype}: convert the model with model.float()")
        return logits, found

    def _require_tokens_apart(self) -> None:
        """Raises CaptureError if tokens influence each other by means other than attention.

        The test replaces attention by a function that does not combine tokens. Then changes of half of the tokens must
        not change any bit of the logits of the other half.
        """

        def alone(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
            return value.repeat_interleave(query.shape[1] // value.shape[1], 1)

        positions = self._tokens()[1][:, :_PIECE]
        first = positions < positions.shape[1] // 2
        with ReplacedAttention(alone):
            logits = self._calls(torch.zeros_like(positions), positions).view(torch.int32)
            for changed in (first, ~first):
                others = self._calls(changed.long(), positions).view(torch.int32)
                if not torch.equal(logits[~changed], others[~changed]):
                    raise CaptureError(
                        "tokens change the logits of other tokens outside of scaled_dot_product_attention: expected a "
                        "model whose tokens depend on each other only by causal attention"
                    )

    def _check(self, whole: torch.Tensor) -> None:
        """Raises CaptureError if a cache changes the logits by more than the tolerance: then tokens interact by means
        other than causal attention."""
        tokens, positions = self._tokens()
        slots = torch.zeros(1, dtype=torch.int64)
        greatest = whole.nan_to_num(0, 0, 0).abs().max().item()
        for start, end in itertools.pairwise([*range(0, self.capacity - 1, _PIECE), self.capacity - 1, self.capacity]):
            logits = self(tokens[:, start:end], positions[:, start:end], slots)
            if not torch.allclose(logits, whole[:, start:end], rtol=0, atol=_DEVIATION * greatest, equal_nan=True):
                raise CaptureError(
                    "the logits of the model change when its attention reads a cache: expected a model that uses the "
                    "given positions and whose tokens depend on each other only by causal attention"
                )
        # Tests whether the last linear layer can compute only the logits of `last`. If the code after this layer needs
        # the layer's results for all tokens, the layer computes them all.
        length = min(_PIECE, self.capacity)
        last = torch.tensor([length - 1])
        try:
            logits = self(tokens[:, :length], positions[:, :length], slots, last)[:, 0]
            knows = torch.allclose(logits, whole[:, length - 1], rtol=0, atol=_DEVIATION * greatest, equal_nan=True)
        except Exception:
            knows = False
        if not knows:
            self._head = None

    def _tokens(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns tokens and positions of a request of maximum length, for testing the model."""
        positions = torch.arange(self.capacity)[None]
        return positions % 2, positions


def _put(buffers: Sequence[torch.Tensor], places: tuple[torch.Tensor, ...], parts: Sequence[torch.Tensor]) -> None:
    """Writes each part to the positions `places` of the buffer with the same index; the last part may lack the element
    dimension."""
    for buffer, part in zip(buffers, parts, strict=True):
        buffer.index_put_(places, part)


class _Linears:
    """Records which linear layer of a model was called last."""

    def __init__(self, model: nn.Module) -> None:
        self._modules = [
            module
            for module in model.modules()
            if type(module) is nn.Linear and not module._forward_hooks and not module._forward_pre_hooks
        ]
        self._calls: Counter[nn.Module] = Counter()
        self._last: tuple[nn.Module, torch.Tensor, int] | None = None

    def __enter__(self) -> "_Linears":
        self._handles = [module.register_forward_hook(self._note) for module in self._modules]
        return self

    def __exit__(self, *exception: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def _note(self, module: nn.Module, arguments: tuple[Any, ...], result: torch.Tensor) -> None:
        self._calls[module] += 1
        self._last = (module, result, result._version) if len(arguments) == 1 else None

    def giving(self, logits: Any) -> nn.Module | None:
        """Returns the layer that was called last, if it ran only once and its result is `logits`, not modified since;
        else None."""
        if self._last is None:
            return None
        module, result, version = self._last
        return module if result is logits and result._version == version and self._calls[module] == 1 else None


@contextmanager
def _before(module: nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Within the block, applies `change` to the argument of each call of the module."""
    handle = module.register_forward_pre_hook(lambda _, arguments: (change(arguments[0]),))
    try:
        yield
    finally:
        handle.remove()


def _caller(model: nn.Module) -> Callable[..., Any]:
    """Returns a function that calls the model with tokens, positions and, optionally, replacements of tensors, keyed by
    name.

    Raises:
      CaptureError: the model's forward has fewer than two parameters.
    """
    names = list(inspect.signature(model.forward).parameters)
    if len(names) < 2:
        raise CaptureError(
            f"forward of {type(model).__qualname__} takes {', '.join(names) or 'nothing'}, expected tokens and their "
            "positions, both i64 [rows, length]"
        )

    def call(tokens: torch.Tensor, positions: torch.Tensor, tensors: dict[str, torch.Tensor] | None = None) -> Any:
        return functional_call(model, tensors or {}, (tokens, positions))

    return call


def _require_causal(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    is_causal: bool,
) -> None:
    """Raises CaptureError if attention with these operands cannot use a cache."""
    if not (query.dim() == 4 and query.shape[2] == key.shape[2]):
        raise CaptureError(
            "expected self-attention with query and key [rows, heads, length, size] of the same length, got "
            f"{list(query.shape)} and {list(key.shape)}"
        )
    if not (is_causal or _is_causal(mask, query.shape[2])):
        raise CaptureError("expected causal attention, by is_causal=True or a causal mask, got another")
    if dropout:
        raise CaptureError(f"expected attention without dropout, got dropout_p={dropout}")
    for operand in (query, key, value):
        if operand.dtype != torch.float32:
            raise CaptureError(f"expected attention in float32, got {operand.dtype}: model.float() converts the model")


def _is_causal(mask: torch.Tensor | None, length: int) -> bool:
    """Whether a mask, boolean or additive, hides exactly the later tokens."""
    if mask is None:
        return length == 1
    lower = torch.ones(length, length, dtype=torch.bool).tril()
    if mask.dtype == torch.bool:
        return bool((mask == lower).all())
    return bool(((mask == 0) == lower).all() and ((mask <= torch.finfo(mask.dtype).min) == ~lower).all())
