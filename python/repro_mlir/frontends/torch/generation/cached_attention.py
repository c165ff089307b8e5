# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K6), (K7) A language model whose causal attention reads the keys and values of earlier tokens from a cache."""

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
"""How many tokens a call has at most in which a model is tried with a cache."""

_DEVIATION = 1e-4
"""By how much of the greatest logit others may deviate in eager mode, where PyTorch rounds in its own ways."""


def capture_generation(
    model: nn.Module, slots: int, capacity: int, chunk: int, reaches: Sequence[int], cache: Format | None = None
) -> list[tuple[Program, Program]]:
    """The programs by which a model reads a chunk of one request, and a token of each.

    Args:
      model: see CachedModel.
      slots, capacity: of the cache.
      chunk: how many tokens the first program reads; its inputs are all those of CachedModel.forward with one row,
        those of the second one tokens and positions with a row for each slot.
      reaches: for each two programs that are wanted, below which position all tokens are.
      cache: the format of keys and values; None: f32.
    Returns:
      both for each of `reaches`, over one state.
    Raises:
      ReproError: as CachedModel and `capture`.
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
    """The program by which a model reads one token of its only request, and what its state has of the model.

    Arguments and errors are those of `capture_generation`, whose second program this is for one slot.

    Returns:
      the program; for each state tensor that is not a cache, by name, which tensor of the model it is, and whether it
      is transposed.
    """
    cached = CachedModel(model, 1, capacity, cache)
    token = torch.zeros((1, 1), dtype=torch.int64)
    return capture(cached, (token, token.clone())), cached.tensor_names()


class CachedModel(nn.Module):
    """A model with a cache for some requests, each in a slot of its own.

    Its forward takes tokens and positions, i64 [rows, length], and gives the logits f32 [rows, length, vocabulary].
    With slots and `last`, i64 [rows], it gives those of token number last[r] of row r alone, f32 [rows, 1, vocabulary].
    Row r belongs to the request in slots[r]; no two rows share a slot. Its tokens stand at ascending positions; a
    position of -1 is that of no token, and its logits mean nothing. Without slots, row r belongs to slot r, and all
    slots have a row.

    Its parameters and buffers are the model's, those of linear layers transposed: few tokens at a time read each weight
    once, as it lies in memory.

    Attributes:
      capacity: how many tokens a request has at most.
      reach: how many positions of the cache attention reads, by default all: those from there on have no token.
      caches: the names of the buffers of keys and of values for each call of attention: f32 [slots * heads, capacity +
        1, size], or (K7) what `quantize` gives of that. The slice that a product reads of a head is one stretch of
        memory. Keys are scaled already. The last position takes what belongs to no token.
    """

    def __init__(self, model: nn.Module, slots: int, capacity: int, cache: Format | None = None) -> None:
        """Tries the model in eager mode on as many tokens as a request may have, twice: its attention must be causal,
        and a cache of f32 must not change its logits.

        Args:
          model, slots, capacity: see above.
          cache: (K7) the format of keys and values; None: f32.
        Raises:
          CaptureError: a model that is none for generation, with the reason.
        """
        super().__init__()
        require_model(model)
        if model.training:
            raise CaptureError("the model is in training mode, in which dropout draws: model.eval() changes it")
        self.capacity = self.reach = capacity
        self._format: Format | None = None
        self._calls = _caller(model)
        self._tensors: dict[str, tuple[str, bool]] = {}
        # A submodule is part of the model that is given, not of this one.
        self._head: tuple[nn.Module] | None = None
        self._take_tensors(model)
        try:
            with torch.no_grad():
                logits, shapes = self._whole(model)
                self._make_caches(slots, shapes)
                self._require_tokens_apart()
                self._check(logits)
                # Codes would deviate by more than PyTorch does.
                self._format = cache
                self._make_caches(slots, shapes)
        except CaptureError:
            raise
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise CaptureError(f"the model does not run on {capacity} tokens, its capacity: {reason}") from error

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor | None = None,
        last: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The logits, see above; writes the cache."""
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
            # Masks are causal, which _require_causal saw, and positions say so again.
            keys, values = ([self.get_buffer(name) for name in names] for names in next(calls))
            rows, heads = key.shape[:2]
            first = (torch.arange(rows) if slots is None else slots) * heads
            entry = (first[:, None] + torch.arange(heads))[:, :, None]
            root = math.sqrt(1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
            # A value that is not finite would reach queries that do not see it, by its product with a weight of zero.
            finite = torch.isfinite(self._load(self._store(value), value.shape[-1])).all(-1, keepdim=True)
            _put(keys, (entry, entries), self._store(torch.where(finite, key * root, math.nan)))
            _put(values, (entry, entries), self._store(torch.where(finite, value, 0.0)))
            keys, values = ([part[:, : self.reach] for part in parts] for parts in (keys, values))
            if len(keys[0]) > rows * heads:
                read = entry.flatten()
                keys, values = ([part[read] for part in parts] for parts in (keys, values))
            # The heads of a group are as many more queries of one key.
            grouped = (query * root).reshape(rows * heads, -1, query.shape[-1])
            scores = grouped @ self._load(keys, key.shape[-1]).transpose(1, 2)
            # Keys that a query does not see are chosen away, so that not even a NaN of theirs counts.
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
            # An index would be checked, and no cache could be written in place before that (E1).
            chosen = torch.arange(length) == last[:, None]
            return torch.where(chosen[:, :, None], found, -math.inf).amax(1, keepdim=True)

        with ReplacedAttention(attend):
            if self._head is None:
                return select(self._calls(tokens, positions.clamp(min=0), tensors))
            with _before(*self._head, select):
                return self._calls(tokens, positions.clamp(min=0), tensors)

    def tensor_names(self) -> dict[str, tuple[str, bool]]:
        """For each own parameter and buffer but the caches, the model's name and whether it is transposed."""
        return {own: (name, is_transposed) for name, (own, is_transposed) in self._tensors.items()}

    def _make_caches(self, slots: int, shapes: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        """Registers buffers without tokens for calls of attention, whose heads and sizes are `shapes`."""
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
        """What the cache has before any token: zeros, under scales of 1; by the part of a name."""
        if self._format is None:
            return {"": torch.zeros(shape)}
        return {f"_{part}": value for part, value in zip(PARTS, zeros(shape, self._format), strict=False)}

    def _store(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the cache keeps of keys or values."""
        return (tensor,) if self._format is None else quantize(tensor, self._format)

    def _load(self, parts: Sequence[torch.Tensor], size: int) -> torch.Tensor:
        """The keys or values that attention reads."""
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
        """The logits of the model's own forward pass; of each call of attention heads and size of keys and values."""
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
                raise CaptureError(f"forward writes the buffer {name}, which requests would share")
        if not found:
            raise CaptureError(
                "the model calls no scaled_dot_product_attention: expected a decoder whose attention is "
                "torch.nn.functional.scaled_dot_product_attention(..., is_causal=True)"
            )
        if not (isinstance(logits, torch.Tensor) and logits.dim() == 3 and logits.shape[:2] == tokens.shape):
            kind = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise CaptureError(f"expected logits [rows, length, vocabulary] of {list(tokens.shape)} tokens, got {kind}")
        if logits.dtype != torch.float32:
            raise CaptureError(f"expected logits of float32, got {logits.dtype}: model.float() converts the model")
        return logits, found

    def _require_tokens_apart(self) -> None:
        """CaptureError where tokens know each other by other ways than attention: without it, half of them may change
        no bit of the others."""

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
                        "tokens change the logits of others by more than scaled_dot_product_attention: expected a "
                        "model whose tokens know each other by causal attention alone"
                    )

    def _check(self, whole: torch.Tensor) -> None:
        """CaptureError where a cache changes the logits: the model does more than attention among its tokens."""
        tokens, positions = self._tokens()
        slots = torch.zeros(1, dtype=torch.int64)
        greatest = whole.nan_to_num(0, 0, 0).abs().max().item()
        for start, end in itertools.pairwise([*range(0, self.capacity - 1, _PIECE), self.capacity - 1, self.capacity]):
            logits = self(tokens[:, start:end], positions[:, start:end], slots)
            if not torch.allclose(logits, whole[:, start:end], rtol=0, atol=_DEVIATION * greatest, equal_nan=True):
                raise CaptureError(
                    "the logits of the model change when its attention reads a cache: expected a model that uses the "
                    "positions that it is given, and whose tokens know each other by causal attention alone"
                )
        # A model may look at what its last layer gives, and expect all tokens.
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
        """Tokens and positions of a request of the greatest length, to try the model on."""
        positions = torch.arange(self.capacity)[None]
        return positions % 2, positions


def _put(buffers: Sequence[torch.Tensor], places: tuple[torch.Tensor, ...], parts: Sequence[torch.Tensor]) -> None:
    """Writes each part to the places of its buffer; the last one may have no dimension of elements."""
    for buffer, part in zip(buffers, parts, strict=True):
        buffer.index_put_(places, part)


class _Linears:
    """The linear layers of a model, and which of them was called last."""

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
        """The layer that gave `logits` as they are, and nothing else."""
        if self._last is None:
            return None
        module, result, version = self._last
        return module if result is logits and result._version == version and self._calls[module] == 1 else None


@contextmanager
def _before(module: nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Gives a module the changed argument meanwhile."""
    handle = module.register_forward_pre_hook(lambda _, arguments: (change(arguments[0]),))
    try:
        yield
    finally:
        handle.remove()


def _caller(model: nn.Module) -> Callable[..., Any]:
    """A call of a model with tokens and positions, and by name with other tensors in place of its own."""
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
    """CaptureError for operands of attention that a cache cannot serve."""
    if not (query.dim() == 4 and query.shape[2] == key.shape[2]):
        raise CaptureError(
            "expected attention among the tokens, query and key [rows, heads, length, size], got "
            f"{list(query.shape)} and {list(key.shape)}"
        )
    if not (is_causal or _is_causal(mask, query.shape[2])):
        raise CaptureError("expected causal attention: is_causal=True, or such a mask")
    if dropout:
        raise CaptureError(f"expected attention without dropout, which would draw, got dropout_p={dropout}")
    for operand in (query, key, value):
        if operand.dtype != torch.float32:
            raise CaptureError(f"expected attention in float32, got {operand.dtype}: model.float() converts the model")


def _is_causal(mask: torch.Tensor | None, length: int) -> bool:
    """Whether a mask, of booleans or of numbers to add, hides later tokens alone."""
    if mask is None:
        return length == 1
    lower = torch.ones(length, length, dtype=torch.bool).tril()
    if mask.dtype == torch.bool:
        return bool((mask == lower).all())
    return bool(((mask == 0) == lower).all() and ((mask <= torch.finfo(mask.dtype).min) == ~lower).all())
