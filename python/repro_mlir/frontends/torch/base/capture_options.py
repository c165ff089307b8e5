# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The options of a capture: the keywords that users pass, and the object that they are parsed into."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack, get_args

from repro_mlir.base.numerics.philox import signed_seed
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.gradient_compression.chosen import compression_of
from repro_mlir.gradient_compression.methods import GradientCompression
from repro_mlir.precision.recipe import Recipe
from repro_mlir.precision.recipe_json import recipe_of
from repro_mlir.program.exact import check_digits
from repro_mlir.program.imported import Microbatches

if TYPE_CHECKING:
    import torch
    from torch.optim.swa_utils import AveragedModel

Returned = Literal["outputs", "gradient_norm", "gradients", "metrics"]
"""The name of a result that a step returns in addition to the loss."""

RETURNED: tuple[Returned, ...] = get_args(Returned)
_OF_GRADIENTS = ("gradient_norm", "gradients")


class NumericsKeywords(TypedDict, total=False):
    """Keywords that change the numerics of a captured program."""

    exact_digits: int | None
    precision: Recipe | str | Mapping[str, Any] | None


class InferenceKeywords(NumericsKeywords, total=False):
    """Keywords of a capture of inference."""

    attention_block: int | None


class CaptureKeywords(InferenceKeywords, total=False):
    """Keywords of `repro_mlir.capture`."""

    clip_norm: float | None
    autocast: torch.dtype | None
    seed: int


class StepKeywords(CaptureKeywords, total=False):
    """Keywords that determine the program of a `Trainer`'s step."""

    returns: Sequence[Returned]
    metrics: Mapping[str, Callable[..., torch.Tensor]] | None
    average: AveragedModel | None
    loss_scale: torch.amp.GradScaler | None
    microbatches: int | None
    accumulate: int
    microbatch_inputs: Sequence[str] | None
    gradient_compression: GradientCompression | str | Mapping[str, Any] | None


@dataclass(frozen=True)
class CaptureOptions:
    """Options that determine a program in addition to the user's model, loss function, optimizer and batch.

    Attributes:
      clip_norm: the 2-norm, above 0, to which all gradients together are clipped. None: no clipping.
      autocast: torch.bfloat16 or torch.float16, for automatic mixed precision in the forward pass and the loss. None:
        the element types of the model.
      seed: the initial seed of the random numbers, -2^63 to 2^64 - 1, if the step draws any.
      exact_digits: 2 or 3 makes all contractions of the canonical program exact (K4; see `exact_contractions`).
      attention_block: (K5) the number of queries, or keys, in a block of attention, above 0. None: attention is not
        divided.
      returns: the results of a training step other than the loss, in the order of `Returned`. Empty: the outputs of the
        model, if there is a loss function.
      metrics: functions of the model outputs and the target, keyed by name; "metrics" in `returns` requests their
        results. None: no metrics.
      average: the `AveragedModel` that averages the parameters; its state is updated after each training step. None: no
        averaging.
      loss_scale: the `GradScaler` that scales the loss; a training step skips the update if a gradient is not finite.
        None: the loss is not scaled.
      microbatches: (B1) the example batch is one microbatch, and the results of a training step are reduced over all
        microbatches. None: the example batch is a whole batch.
      precision: the precision recipe for the operands of contractions. None: the precision of the framework.
      gradient_compression: the compression method for the gradients of each microbatch. None: no compression.
      changing: names of Python numbers and strings on which the program must not depend; numbers become inputs.
    Raises:
      ReproError: an option has a type or value that is not listed here, or needs an option that is not set.
    """

    clip_norm: float | None = None
    autocast: torch.dtype | None = None
    seed: int = 0
    exact_digits: int | None = None
    attention_block: int | None = None
    returns: tuple[Returned, ...] = ()
    metrics: Mapping[str, Callable[..., torch.Tensor]] | None = None
    average: AveragedModel | None = None
    loss_scale: torch.amp.GradScaler | None = None
    microbatches: Microbatches | None = None
    precision: Recipe | None = None
    gradient_compression: GradientCompression | None = None
    changing: frozenset[str] = frozenset()

    @classmethod
    def parsed(cls, **given: Unpack[StepKeywords]) -> Self:
        """Returns the options that a user has passed as keywords (see `Trainer`).

        Raises:
          ReproError: an option is invalid.
        """
        values: dict[str, Any] = {**given}
        accumulate, cut = values.pop("accumulate", 1), values.pop("microbatch_inputs", None)
        values["microbatches"] = Microbatches.chosen(values.get("microbatches"), accumulate, cut)
        for name, parse in (("precision", recipe_of), ("gradient_compression", compression_of)):
            if values.get(name) is not None:
                values[name] = parse(values[name])
        return cls(**values)

    def __post_init__(self) -> None:
        clip_norm, block = self.clip_norm, self.attention_block
        if clip_norm is not None and not (isinstance(clip_norm, numbers.Real) and 0 < float(clip_norm) < math.inf):
            raise CaptureError(f"expected a number above 0 as clip_norm, got {clip_norm!r}")
        if self.autocast is not None:
            # Imported here because the package can be imported without PyTorch.
            import torch

            if self.autocast not in (torch.bfloat16, torch.float16):
                raise CaptureError(f"expected torch.bfloat16 or torch.float16 as autocast, got {self.autocast!r}")
        signed_seed(self.seed)
        if self.exact_digits is not None:
            check_digits(self.exact_digits)
        if block is not None and (not isinstance(block, numbers.Integral) or isinstance(block, bool) or int(block) < 1):
            raise CaptureError(f"expected a whole number above 0 as attention_block, got {block!r}")
        metrics = self.metrics
        if metrics is not None and not (
            isinstance(metrics, Mapping)
            and all(isinstance(name, str) and callable(each) for name, each in metrics.items())
        ):
            raise CaptureError(f"expected metrics as a mapping from names to functions, got {metrics!r}")
        object.__setattr__(self, "returns", self._requested(self.returns, RETURNED))
        if self.gradient_compression is None:
            return
        if self.microbatches is None:
            raise CaptureError(
                "gradient_compression compresses the gradients of microbatches: expected microbatches=N, 1 for the "
                "whole batch"
            )
        if self.loss_scale is not None:
            raise CaptureError(
                "expected either gradient_compression or loss_scale, got both: the errors of compressed gradients of "
                "one scale cannot be added to gradients of another"
            )

    def _requested(self, returns: object, known: Sequence[Returned]) -> tuple[Returned, ...]:
        """Returns the requested results in the order of `known`."""
        if isinstance(returns, str) or not isinstance(returns, Iterable):
            raise CaptureError(f"expected returns as a tuple of names among {', '.join(known)}, got {returns!r}")
        asked = [*returns]
        for name in asked:
            if name not in known:
                raise CaptureError(f"expected returns among {', '.join(known)}, got {name!r}")
        if "metrics" in asked and not self.metrics:
            raise CaptureError('returns has "metrics" without metrics: expected Trainer(..., metrics={name: function})')
        return tuple(name for name in known if name in asked)

    def with_returns(self, returns: Sequence[Returned], is_evaluation: bool = False) -> Self:
        """Returns these options with more requested results.

        Raises:
          CaptureError: a name is unknown, an evaluation requests gradients, or metrics are requested but there are
            none.
        """
        known = [name for name in RETURNED if not (is_evaluation and name in _OF_GRADIENTS)]
        return replace(self, returns=(*self.returns, *self._requested(returns, known)))

    @property
    def is_stochastic(self) -> bool:
        """Whether the precision or the gradient compression of a training step draws random numbers."""
        chosen = self.precision, self.gradient_compression
        return any(each is not None and each.is_stochastic for each in chosen)
