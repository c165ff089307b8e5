# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The cache key of a recorded graph: graphs with equal contents are lowered to the same program."""

import functools
import hashlib
import importlib.metadata
import struct
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.fx

from repro_mlir.frontends.torch.base.torch_internals import FakeTensor, OpOverload

_IMPORTED = time.time()


class _UnknownError(Exception):
    """The graph contains a value whose influence on the program is not known."""


def contents_of(module: torch.fx.GraphModule) -> bytes | None:
    """Hashes the operators of a graph, their arguments, types and locations, and the constants.

    Returns:
      the SHA-256 digest; None for a graph with symbolic sizes, complex constants, or custom operators of the user,
      whose names do not determine what they do.
    """
    numbers: dict[torch.fx.Node, int] = {}
    state = hashlib.sha256()
    try:
        for number, node in enumerate(module.graph.nodes):
            numbers[node] = number
            parts = [node.op, _target(module, node), _text((node.args, node.kwargs), numbers)]
            custom = [*node.meta.get("custom", {}).items()]
            parts += [_kind(node.meta.get("val")), str(node.meta.get("stack_trace")), _text(custom, numbers)]
            state.update("\0".join(parts).encode() + b"\n")
    except _UnknownError:
        return None
    return state.digest()


def _target(module: torch.fx.GraphModule, node: torch.fx.Node) -> str:
    target = node.target
    if node.op == "get_attr":
        return _constant(getattr(module, str(target)))
    if isinstance(target, OpOverload):
        if target.namespace not in ("aten", "prims", "prim", "repro"):
            raise _UnknownError
        return str(target)
    if node.op != "call_function":
        return str(target)
    if getattr(target, "__module__", None) not in ("_operator", "math"):
        raise _UnknownError
    return f"{target.__module__}.{target.__name__}"  # type: ignore[union-attr]  # a function


def _constant(value: Any) -> str:
    is_plain = isinstance(value, torch.Tensor) and value.layout is torch.strided and value.device.type == "cpu"
    if not is_plain or isinstance(value, FakeTensor) or value.is_complex():
        raise _UnknownError
    elements = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{_kind(value)} {hashlib.sha256(elements).hexdigest()}"


def _kind(value: Any) -> str:
    """Describes the type of a traced value, without its elements."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_kind, value))})"
    if not isinstance(value, torch.Tensor):
        return _text(value, {})
    if value.layout is not torch.strided:
        raise _UnknownError
    extents = [*value.shape, *value.stride(), value.storage_offset()]
    return f"{value.dtype} {value.device} {value.dim()} {_text(extents, {})}"


def _text(value: Any, numbers: dict[torch.fx.Node, int]) -> str:
    """Formats an argument of an operator."""
    if isinstance(value, torch.fx.Node):
        return f"%{numbers[value]}"
    if isinstance(value, tuple | list):
        return f"({', '.join([_text(each, numbers) for each in value])})"
    if isinstance(value, dict):
        return f"{{{', '.join([f'{name!r}: {_text(each, numbers)}' for name, each in value.items()])}}}"
    if type(value) is float:
        # The bits distinguish signed zeros and NaNs.
        return struct.pack("<d", value).hex()
    if value is None or type(value) in (bool, int, str):
        return repr(value)
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value)
    raise _UnknownError


@functools.cache
def frontend_identity() -> bytes | None:
    """Identifies the code that lowers a graph: this package's frontends and their imports, PyTorch, torch-mlir, Python.

    Returns:
      a digest and versions; None if a source file changed after this process imported it, because the file's hash then
      does not describe the loaded code.
    """
    state = hashlib.sha256()
    package = Path(__file__).parents[3]
    for path in sorted(path for room in ("base", "frontends", "program") for path in package.glob(f"{room}/**/*.py")):
        state.update(path.read_bytes())
        if path.stat().st_ctime > _IMPORTED:
            return None
    versions = torch.__version__, torch.version.git_version, importlib.metadata.version("torch-mlir"), sys.version
    return state.digest() + "\n".join(map(str, versions)).encode()
