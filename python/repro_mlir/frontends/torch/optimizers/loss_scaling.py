# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The rule of `torch.amp.GradScaler` in a training step: a scaled loss, and no update for non-finite gradients."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

import torch

from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import phase

_SCALE, _TRACKER = "loss_scale.scale", "loss_scale.growth_tracker"


def check_scaler(scaler: Any) -> None:
    """Raises CaptureError unless `scaler` is an enabled GradScaler whose growth interval fits into an i32."""
    if not isinstance(scaler, torch.amp.GradScaler):
        raise CaptureError(f'loss_scale is a {type(scaler).__name__}, expected a torch.amp.GradScaler("cpu")')
    if not scaler.is_enabled():
        raise CaptureError("loss_scale is a disabled GradScaler, expected an enabled one or None")
    interval = scaler.get_growth_interval()
    if not isinstance(interval, int) or not 0 < interval < 2**31:
        raise CaptureError(f"expected a growth_interval of loss_scale from 1 to 2^31 - 1, got {interval!r}")


def scaler_values(scaler: torch.amp.GradScaler) -> dict[str, torch.Tensor]:
    """Returns copies of the scale (f32) and the growth tracker (i32), both of shape [], keyed by the names of their
    state tensors.
    """
    tracker = scaler._get_growth_tracker()
    return {
        _SCALE: torch.tensor(scaler.get_scale(), dtype=torch.float32),
        _TRACKER: torch.tensor(tracker, dtype=torch.int32),
    }


def scaler_tensors(scaler: torch.amp.GradScaler) -> dict[str, torch.Tensor]:
    """Returns the scaler's own tensors; initializes them if the scaler has not scaled anything yet."""
    if scaler._scale is None:
        scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
    assert scaler._scale is not None and scaler._growth_tracker is not None
    return {_SCALE: scaler._scale, _TRACKER: scaler._growth_tracker}


def scaler_rule(scaler: torch.amp.GradScaler) -> Hashable:
    """Returns the settings of a scaler that are constants of a program."""
    return scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()


def scaled(loss: torch.Tensor, state: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Returns the scaled loss, from which the gradients are computed."""
    with phase("scaling of the loss"):
        return loss * state[_SCALE]


def unscaled(
    gradients: Mapping[str, torch.Tensor], updated: Collection[str], state: Mapping[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Divides the gradients of the scaled loss by the scale.

    Args:
      updated: names of the parameters that the optimizer updates; `GradScaler.unscale_` leaves the other gradients as
        they are, and so does this function.
    Returns:
      the gradients, keyed by name; and an i1 of shape []: whether any gradient of `updated` is not finite.
    Raises:
      CaptureError: a parameter is f16, which `GradScaler` refuses too.
    """
    results = dict(gradients)
    found = torch.zeros((), dtype=torch.bool)
    with phase("unscaling of the gradients"):
        factor = state[_SCALE].double().reciprocal().float()
        for name, gradient in gradients.items():
            if name not in updated:
                continue
            if gradient.dtype is torch.float16:
                raise CaptureError(f"loss_scale: parameter {name} is float16, expected float32 parameters and autocast")
            found = found | ~torch.isfinite(gradient).all()
            wide = torch.promote_types(gradient.dtype, torch.float32)
            results[name] = (gradient.to(wide) * factor.to(wide)).to(gradient.dtype)
    return results, found


def keep_where(found: torch.Tensor, former: Mapping[str, torch.Tensor], values: dict[str, torch.Tensor]) -> None:
    """Restores the entries of `former` in `values` if a gradient was not finite, so that the step is skipped."""
    with phase("check of the gradients"):
        for name, value in former.items():
            if values[name] is not value:
                values[name] = torch.where(found, value, values[name])


def update_scale(scaler: torch.amp.GradScaler, found: torch.Tensor, state: dict[str, torch.Tensor]) -> None:
    """Updates the scale and the growth tracker in `state` as `scaler.update()` does."""
    growth, backoff, interval = (
        scaler.get_growth_factor(),
        scaler.get_backoff_factor(),
        scaler.get_growth_interval(),
    )
    with phase("update of the scale"):
        scale, tracker = state[_SCALE], state[_TRACKER] + 1
        due = tracker == interval
        # Each product is computed in f64 and rounded once.
        larger = (scale.double() * growth).float()
        grown = torch.where(due & torch.isfinite(larger), larger, scale)
        state[_SCALE] = torch.where(found, (scale.double() * backoff).float(), grown)
        state[_TRACKER] = torch.where(found | due, torch.zeros_like(tracker), tracker)
