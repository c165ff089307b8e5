# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Maps steps onto machines of many cores, and predicts where their time goes (docs/guides/many-cores.md)."""

from repro_mlir.roofline.cores.mapping import Mapping, Phase, map_step, simulate
from repro_mlir.roofline.cores.page import mapping_page
from repro_mlir.roofline.cores.text import lines_of

__all__ = ["Mapping", "Phase", "lines_of", "map_step", "mapping_page", "simulate"]
