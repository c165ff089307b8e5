# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Names of jaxlib that are not public; a new version of jaxlib may rename or remove each of them."""

from repro_mlir.frontends.base.tried_versions import private_names

with private_names("jaxlib"):
    from jaxlib import _jax as jax_extension
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext as mlir_extension
