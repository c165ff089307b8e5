# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX normalization and recurrent operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.movement import axis_of
from repro_mlir.frontends.onnx.nodes import Call, Operator


def _batch_norm(call: Call) -> Any:
    x, scale, bias, mean, variance = (call.tensor(i) for i in range(5))
    epsilon, momentum = call.attribute("epsilon", 1e-5), call.attribute("momentum", 0.9)
    is_training = call.attribute("training_mode", 0)
    if call.version < 9 and not call.attribute("spatial", 1):
        raise OnnxError("spatial=0 is not supported: expected 1")
    if not is_training:
        return F.batch_norm(x, mean, variance, scale.to(x.dtype), bias.to(x.dtype), False, 0.0, epsilon)
    axes = [i for i in range(x.dim()) if i != 1]
    variance_now, mean_now = torch.var_mean(x, axes, correction=0)
    shape = [-1 if i == 1 else 1 for i in range(x.dim())]
    scaled = (x - mean_now.reshape(shape)) / torch.sqrt(variance_now.reshape(shape) + epsilon)
    result = scaled * scale.reshape(shape) + bias.reshape(shape)
    new = [old * momentum + now * (1 - momentum) for old, now in ((mean, mean_now), (variance, variance_now))]
    return result, *new


def _instance_norm(call: Call) -> torch.Tensor:
    return F.instance_norm(
        call.tensor(0), None, None, call.tensor(1), call.tensor(2), eps=call.attribute("epsilon", 1e-5)
    )


def _layer_norm(call: Call) -> Any:
    x, scale, bias = call.tensor(0), call.tensor(1), call.optional(2)
    axis = axis_of(call.attribute("axis", -1), x.dim())
    shape, epsilon = [*x.shape[axis:]], call.attribute("epsilon", 1e-5)
    if call.wants(1) or call.wants(2) or [*scale.shape] != shape or (bias is not None and [*bias.shape] != shape):
        wide = x.to(torch.float32) if call.attribute("stash_type", 1) == 1 else x
        variance, mean = torch.var_mean(wide, [*range(axis, x.dim())], correction=0, keepdim=True)
        inverse = torch.rsqrt(variance + epsilon)
        result = ((wide - mean) * inverse).to(x.dtype) * scale
        return (result if bias is None else result + bias), mean, inverse
    return F.layer_norm(x, shape, scale, bias, epsilon)


def _group_norm(call: Call) -> torch.Tensor:
    x, scale, bias = call.tensor(0), call.tensor(1), call.tensor(2)
    groups = call.attribute("num_groups")
    if call.version < 21:
        # Before version 21, scale and bias have one number per group, not per channel.
        scale, bias = (each.repeat_interleave(x.shape[1] // groups) for each in (scale, bias))
    return F.group_norm(x, groups, scale, bias, call.attribute("epsilon", 1e-5))


def _lrn(call: Call) -> torch.Tensor:
    x, size = call.tensor(), call.attribute("size")
    alpha, beta, bias = (call.attribute(n, d) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    call.spend(size)
    low = (size - 1) // 2
    squares = F.pad(x * x, [*[0, 0] * (x.dim() - 2), low, size - 1 - low])
    total = torch.stack([squares.narrow(1, i, x.shape[1]) for i in range(size)], -1).sum(-1)
    return x / (bias + alpha / size * total) ** beta


_ACTIVATIONS: dict[str, Callable[[torch.Tensor, float | None, float | None], torch.Tensor]] = {
    "Affine": lambda x, a, b: (1.0 if a is None else a) * x + (0.0 if b is None else b),
    "Elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "HardSigmoid": lambda x, a, b: torch.clamp((0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1),
    "LeakyRelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "Relu": lambda x, a, b: torch.relu(x),
    "ScaledTanh": lambda x, a, b: (1.0 if a is None else a) * torch.tanh((1.0 if b is None else b) * x),
    "Sigmoid": lambda x, a, b: torch.sigmoid(x),
    "Softplus": lambda x, a, b: F.softplus(x),
    "Softsign": lambda x, a, b: F.softsign(x),
    "Tanh": lambda x, a, b: torch.tanh(x),
    "ThresholdedRelu": lambda x, a, b: torch.where(x > (1.0 if a is None else a), x, torch.zeros_like(x)),
}
_TAKE_ALPHA = {"Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu"}
_TAKE_BETA = {"Affine", "HardSigmoid", "ScaledTanh"}


def _activated(name: str, alpha: Any, beta: Any, clip: Any, x: torch.Tensor) -> torch.Tensor:
    return _ACTIVATIONS[name](x if clip is None else torch.clamp(x, -clip, clip), alpha, beta)


def _activations(call: Call, default: list[str], directions: int) -> list[list[Callable[[torch.Tensor], torch.Tensor]]]:
    names = call.attribute("activations", default * directions)
    alphas, betas = iter(call.attribute("activation_alpha", [])), iter(call.attribute("activation_beta", []))
    clip = call.attribute("clip")
    found: list[Callable[[torch.Tensor], torch.Tensor]] = []
    for name in names:
        known = {each.lower(): each for each in _ACTIVATIONS}
        if name.lower() not in known:
            raise OnnxError(f"activation {name!r} is not supported")
        name = known[name.lower()]
        alpha = next(alphas, None) if name in _TAKE_ALPHA else None
        beta = next(betas, None) if name in _TAKE_BETA else None

        found.append(functools.partial(_activated, name, alpha, beta, clip))
    count = len(default)
    return [found[i * count : (i + 1) * count] for i in range(directions)]


_Cell = Callable[..., list[torch.Tensor]]


def _recurrent(cell: _Cell, default: list[str], gates: int) -> Operator:
    """Returns an operator that runs `cell` over sequences; inputs are X, W, R, B, lengths and initial states."""

    def run(call: Call) -> Any:
        x, w, r = call.tensor(0), call.tensor(1), call.tensor(2)
        batch_first = call.attribute("layout", 0)
        x = x.transpose(0, 1) if batch_first else x
        steps, batch = x.shape[:2]
        hidden = r.shape[-1]
        direction = call.choice("direction", "forward", "forward", "reverse", "bidirectional")
        directions = 2 if direction == "bidirectional" else 1
        bias = call.optional(3)
        bias = torch.zeros(directions, 2 * gates * hidden, dtype=x.dtype) if bias is None else bias
        lengths = call.optional(4)
        functions = _activations(call, default, directions)
        call.spend(steps * directions)
        of_cell = 2 if cell is _lstm_cell else 1
        initial = []
        for i in range(of_cell):
            given = call.optional(5 + i)
            if given is not None and batch_first:
                given = given.transpose(0, 1)
            initial.append(torch.zeros(directions, batch, hidden, dtype=x.dtype) if given is None else given)
        outputs, finals = [], []
        for d in range(directions):
            is_reverse = direction == "reverse" or d == 1
            states = [each[d] for each in initial]
            rows: list[torch.Tensor] = []
            for step in reversed(range(steps)) if is_reverse else range(steps):
                new = cell(call, x[step], states, w[d], r[d], bias[d], functions[d], d)
                if lengths is not None:
                    goes_on = (lengths > step).unsqueeze(1)
                    rows.append(torch.where(goes_on, new[0], torch.zeros_like(new[0])))
                    states = [torch.where(goes_on, now, old) for now, old in zip(new, states, strict=True)]
                else:
                    rows.append(new[0])
                    states = new
            outputs.append(torch.stack(rows[::-1] if is_reverse else rows))
            finals.append(states)
        y = torch.stack(outputs, 1)
        last = [torch.stack([states[i] for states in finals]) for i in range(of_cell)]
        if batch_first:
            return y.permute(2, 0, 1, 3), *(each.transpose(0, 1) for each in last)
        return y, *last

    return run


def _rnn_cell(call: Call, x: Any, states: Any, w: Any, r: Any, bias: Any, functions: Any, d: int) -> list[torch.Tensor]:
    hidden = r.shape[-1]
    return [functions[0](x @ w.T + states[0] @ r.T + bias[:hidden] + bias[hidden:])]


def _gru_cell(call: Call, x: Any, states: Any, w: Any, r: Any, bias: Any, functions: Any, d: int) -> list[torch.Tensor]:
    size = r.shape[-1]
    state = states[0]
    wx, (wb, rb) = x @ w.T, bias.split(3 * size)
    zr = functions[0](wx[:, : 2 * size] + state @ r[: 2 * size].T + wb[: 2 * size] + rb[: 2 * size])
    z, reset = zr.split(size, 1)
    if call.attribute("linear_before_reset", 0):
        recurrent = reset * (state @ r[2 * size :].T + rb[2 * size :])
    else:
        recurrent = (reset * state) @ r[2 * size :].T + rb[2 * size :]
    h = functions[1](wx[:, 2 * size :] + recurrent + wb[2 * size :])
    return [(1 - z) * h + z * state]


def _lstm_cell(
    call: Call, x: Any, states: Any, w: Any, r: Any, bias: Any, functions: Any, d: int
) -> list[torch.Tensor]:
    size = r.shape[-1]
    hidden, cell = states
    peepholes = call.optional(7)
    p = None if peepholes is None else peepholes[d].split(size)
    gates = x @ w.T + hidden @ r.T + bias[: 4 * size] + bias[4 * size :]
    i, o, f, c = gates.split(size, 1)
    i = functions[0](i if p is None else i + p[0] * cell)
    f = 1 - i if call.attribute("input_forget", 0) else functions[0](f if p is None else f + p[2] * cell)
    new = f * cell + i * functions[1](c)
    o = functions[0](o if p is None else o + p[1] * new)
    return [o * functions[2](new), new]


NORMALIZATION: dict[str, Operator] = {
    "BatchNormalization": _batch_norm,
    "GRU": _recurrent(_gru_cell, ["Sigmoid", "Tanh"], 3),
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "LSTM": _recurrent(_lstm_cell, ["Sigmoid", "Tanh", "Tanh"], 4),
    "LayerNormalization": _layer_norm,
    "RNN": _recurrent(_rnn_cell, ["Tanh"], 1),
}
