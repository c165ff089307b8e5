# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Imports torchvision and timm, even if torchvision's compiled operators cannot be loaded."""

import importlib
import re
from typing import Any

import torch

_library = torch.library.Library("torchvision", "FRAGMENT")


def _import(name: str) -> Any:
    # PyPI's torchvision needs CUDA's libraries. Without them, its import fails because operators are missing, such as
    # those for detection. This loop defines the missing operators without an implementation: classification models do
    # not call them.
    while True:
        try:
            return importlib.import_module(name)
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            _library.define(f"{missing[1]}() -> Tensor")


torchvision = _import("torchvision")
timm = _import("timm")
