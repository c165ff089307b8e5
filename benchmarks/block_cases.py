# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Benchmarks of matrix products, linear layers and training steps with block formats (Q4) and accumulators of tensor
cores (M4), against our own float32 code. torchao is a peer if it is installed (pip install torchao==0.18.0): it
quantizes with PyTorch's operators and multiplies the dequantized operands.
"""

from collections.abc import Callable

import repro_mlir
import torch
from case import OURS, PLAIN, Case, Contestants, Setting
from programs import timed
from repro_mlir.precision import Format, Recipe, RolePrecision, blocks, by_blocks, named_recipe, nvfp4
from training_cases import make_trainer
from training_models import STEPS

SIZE = 1024
FORMATS = {
    "mxint8": blocks("mxint8", "mx", "floor"),
    "mxfp8": blocks("f8E4M3FN", "mx", "rceil"),
    "mxfp6": blocks("f6E3M2FN", "mx", "rceil"),
    "mxfp6 e2m3": blocks("f6E2M3FN", "mx", "rceil"),
    "mxfp4": blocks("f4E2M1FN", "mx", "rceil"),
    "nvfp4": blocks("f4E2M1FN", "nvfp4", "nvfp4"),
}
_THEIRS = {"mxfp8": torch.float8_e4m3fn, "mxfp4": torch.float4_e2m1fn_x2}


class _Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, y.T)


def _torchao(name: str, x: torch.Tensor, y: torch.Tensor) -> Callable[[], object] | None:
    """Returns a function that quantizes x and y and computes x y^T with torchao, or None if torchao is not installed or
    lacks the format."""
    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import MXTensor
        from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    except ImportError:
        return None

    def quantized(value: torch.Tensor) -> torch.Tensor:
        if name == "nvfp4":
            return NVFP4Tensor.to_nvfp4(value, per_tensor_scale=per_tensor_amax_to_scale(value.abs().max()))
        return MXTensor.to_mx(value, _THEIRS[name], 32, ScaleCalculationMode.RCEIL)

    if name != "nvfp4" and name not in _THEIRS:
        return None

    def multiply() -> object:
        # Multiplies the dequantized operands, as torchao's linear layers do if the processor has no instructions for
        # the format.
        left, right = (quantized(each).dequantize(torch.float32) for each in (x, y))
        return torch.mm(left, right.t())

    return multiply


def _product(name: str, setting: Setting) -> Contestants:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(SIZE, SIZE, generator=generator) for _ in range(2))
    plain = repro_mlir.capture(_Product(), (x, y))
    recipe = Recipe(name, {"product": RolePrecision({"left": FORMATS[name], "right": FORMATS[name]})})
    program = repro_mlir.apply_precision(plain, by_blocks(recipe))
    arrays = [x.numpy(), y.numpy()]
    found: Contestants = {OURS: timed(program, arrays, setting), PLAIN: timed(plain, arrays, setting)}
    theirs = _torchao(name, x, y)
    return found if theirs is None else {**found, "torchao": theirs}


def _loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output * target).sum()


def _linear(recipe: Recipe, setting: Setting) -> Contestants:
    """Returns contestants that run a training step of two linear layers: two matrix products forward, three
    backward."""
    found: Contestants = {}
    for name, precision in ((OURS, recipe), (PLAIN, None)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(SIZE, SIZE, bias=False) for _ in range(2)))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        trainer = repro_mlir.Trainer(
            model, _loss, optimizer, target=setting.target, threads=setting.threads, precision=precision
        )
        batch = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
        found[name] = lambda trainer=trainer, batch=batch: trainer.step(*batch)
    return found


def _units(of: str, element: str) -> Recipe:
    """Returns a recipe that computes all contractions with the accumulator class `of` and operands of type
    `element`."""
    format = Format(element)
    names = {
        "fprop": ("activation", "weight"),
        "dgrad": ("gradient", "weight"),
        "wgrad": ("activation", "gradient"),
        "product": ("left", "right"),
    }
    roles = {role: RolePrecision(dict.fromkeys(each, format), accumulator=of) for role, each in names.items()}
    return Recipe(of, roles)


def _step(recipe: Recipe, setting: Setting) -> Contestants:
    found: Contestants = {}
    for name, precision in ((OURS, recipe), (PLAIN, None)):
        trainer, batch = make_trainer(STEPS["GPT"], setting, precision)
        found[name] = lambda trainer=trainer, batch=batch: trainer.step(*batch)
    return found


def cases() -> list[Case]:
    """Returns the benchmarks: a matrix product per format, a step of two linear layers per recipe, and a step of a GPT
    with Hopper's accumulators."""
    shape = f"[{SIZE}, {SIZE}] x [{SIZE}, {SIZE}]"
    found = [
        Case(
            f"blocks {name} {SIZE}",
            f"blocks {name}",
            f"{shape}, both quantized",
            lambda setting, name=name: _product(name, setting),
            flops=2.0 * SIZE**3,
        )
        for name in FORMATS
    ]
    recipes = [by_blocks(nvfp4(skip_last=0)), *map(named_recipe, ("blocks_mxfp4", "blocks_mxfp6", "blocks_mxint8"))]
    found += [
        Case(
            f"linear {recipe.name} {SIZE}",
            f"linear {recipe.name}",
            f"{shape}, forward and backward of two layers",
            lambda setting, recipe=recipe: _linear(recipe, setting),
            flops=10.0 * SIZE**3,
        )
        for recipe in recipes
    ]
    return [
        *found,
        Case(
            "low precision GPT hopper",
            "low precision GPT hopper",
            STEPS["GPT"].shape,
            lambda setting: _step(_units("hopper", "bf16"), setting),
            flops=STEPS["GPT"].flops,
        ),
    ]
