# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Libraries of other projects that conformance vectors can be compared with: a module for each that this project knows,
the loading of a function that a user names, and results that a program wrote to files."""

from repro_mlir.conformance.libraries.choose import KNOWN, load_library
from repro_mlir.conformance.libraries.results import results_in

__all__ = ["KNOWN", "load_library", "results_in"]
