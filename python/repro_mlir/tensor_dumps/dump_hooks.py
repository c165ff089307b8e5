# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes the tensors that a model computes in eager mode to files, for `repro diff --dumps`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import make_empty_folder
from repro_mlir.base.files.tensor_file import write_tensors
from repro_mlir.base.tensors.torch_tensors import kind_of, share
from repro_mlir.tensor_dumps.listing import MANIFEST

_COMPILED = "_orig_mod."
"""The part of a module's name that torch.compile adds."""


@contextlib.contextmanager
def dump_hooks(
    model: torch.nn.Module, folder: str | Path, every: int = 1, modules: Callable[[str], bool] = lambda name: True
) -> Iterator[None]:
    """A context manager that writes the outputs of a model's modules, and the gradients of these outputs and of the
    parameters, to files, in the order in which they are computed.

    A step begins with each call of the model; steps are numbered from 1. The names of tensors are those of modules and
    parameters with "/output", "/output.0" or "/output.logits" if a module returns several tensors (in tuples, lists,
    mappings and dataclasses), "/output/grad" or "/grad". From the second call of a module within a step on, the number
    of the call follows, as in "relu/output#2" and "relu/output#2/grad"; the same holds for the second gradient of a
    tensor. The bits are those of the tensor, for all element types of (V1) and complex numbers, of which the parts are
    the last dimension. The hooks copy tensors to the CPU and change neither outputs nor gradients.

    `torch.compile` ends a graph at each hook. To leave a compiled model whole, choose the model itself by
    `modules=lambda name: name == ""`; gradients of parameters do not need hooks in the graph.

    Args:
      model: the model; its modules have names as in `named_modules`, without the "_orig_mod" of torch.compile.
      folder: an empty or missing folder. It receives a file per tensor and `manifest.jsonl`.
      every: the steps 1, 1 + every, 1 + 2 * every, ... are written.
      modules: whether the outputs of the module with this name are written; the name of the model is "".
    Raises:
      ReproError: the folder is not empty, or `every` is not an integer of at least 1; or a tensor is not dense, or has
        an element type that (V1) lacks; or a container contains itself, or a name has surrogates.
    """
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise ReproError(f"expected every to be an integer of at least 1, got {every!r}")
    target = make_empty_folder(folder)
    with open(target / MANIFEST, "w", encoding="utf-8") as manifest, contextlib.ExitStack() as stack:
        dump = _Dump(target, manifest, every)
        stack.callback(model.register_forward_pre_hook(dump.begin_step, prepend=True).remove)
        hooked = set()
        for name, module in model.named_modules():
            name = f"{name}.".replace(_COMPILED, "")[:-1]
            # A compiled module and the module that it contains have the same name; the compiled one comes first.
            if name not in hooked and modules(name):
                _check_name(name)
                hooked.add(name)
                stack.callback(module.register_forward_hook(dump.output_hook(name)).remove)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                hook = dump.parameter_hook(name.replace(_COMPILED, ""))
                stack.callback(parameter.register_hook(hook).remove)
        yield


class _Dump:
    """Writes tensors and the manifest."""

    def __init__(self, folder: Path, manifest: TextIO, every: int) -> None:
        self._folder = folder
        self._manifest = manifest
        self._every = every
        self._step = 0
        self._written = 0
        self._names: Counter[str] = Counter()

    @torch.compiler.disable
    def begin_step(self, *_: Any) -> None:
        self._step += 1
        self._names.clear()

    def output_hook(self, module: str) -> Callable[..., None]:
        @torch.compiler.disable
        def hook(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            # All tensors are found before the first is written: an output that is refused leaves no files.
            for place, tensor in [*_tensors(output, f"{module}/output".removeprefix("/"))]:
                name = self._numbered(place)
                self._write(self._step, module, name, tensor)
                if tensor.requires_grad:
                    tensor.register_hook(self._gradient_hook(module, name))

        return hook

    def _gradient_hook(self, module: str, name: str) -> Callable[[torch.Tensor | None], None]:
        # The gradient of an output belongs to the step of the output, also if a later step has begun.
        step, calls = self._step, 0

        @torch.compiler.disable
        def hook(gradient: torch.Tensor | None) -> None:
            nonlocal calls
            # PyTorch gives None for a tensor that the loss does not use, if the same function computed used tensors.
            if gradient is None:
                return
            calls += 1
            self._write(step, module, _with_number(f"{name}/grad", calls), gradient)

        return hook

    def parameter_hook(self, name: str) -> Callable[[torch.Tensor], None]:
        module = name.rpartition(".")[0]

        @torch.compiler.disable
        def hook(gradient: torch.Tensor) -> None:
            self._write(self._step, module, self._numbered(f"{name}/grad"), gradient)

        return hook

    def _numbered(self, name: str) -> str:
        """Returns a name that is new in this step."""
        self._names[name] += 1
        return _with_number(name, self._names[name])

    def _write(self, step: int, module: str, name: str, tensor: torch.Tensor) -> None:
        if (step - 1) % self._every:
            return
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta:
            form = "nested" if tensor.is_nested else "meta" if tensor.is_meta else tensor.layout
            raise ReproError(f"step {step}: {name}: expected a dense tensor with values, got one that is {form}")
        self._written += 1
        held = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
        kind = kind_of("value", held)
        file = self._folder / f"step{step}" / f"{self._written:06}.safetensors"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(write_tensors([kind], [share(held, kind, name)]))
        entry = {"step": step, "name": name, "module": module, "file": f"step{step}/{file.name}", "tensor": "value"}
        self._manifest.write(json.dumps(entry) + "\n")
        self._manifest.flush()


def _with_number(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"


def _check_name(name: str) -> None:
    """Raises ReproError for a name that a manifest in UTF-8 cannot contain."""
    try:
        name.encode()
    except UnicodeEncodeError:
        message = f"{name!r}: expected the name of a tensor without surrogates: rename the module or key"
        raise ReproError(message) from None


def _tensors(value: Any, name: str, outer: frozenset[int] = frozenset()) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors in nested containers with their names. Warns if an object of another class may have some.

    Args:
      outer: the identities of the containers around the value.
    Raises:
      ReproError: a container contains itself, or a name has surrogates.
    """
    if id(value) in outer:
        raise ReproError(f"{name}: expected a tensor, got a {type(value).__name__} that contains itself: return a copy")
    outer |= {id(value)}
    if isinstance(value, torch.Tensor):
        _check_name(name)
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, f"{name}.{key}", outer)
    elif isinstance(value, tuple | list):
        for key, item in zip(getattr(value, "_fields", range(len(value))), value, strict=True):
            yield from _tensors(item, f"{name}.{key}", outer)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name), f"{name}.{field.name}", outer)
    elif not isinstance(value, bool | int | float | complex | str | None):
        warnings.warn(
            f"{name}: a {type(value).__name__} is not written: expected tensors in tuples, lists, mappings and "
            "dataclasses",
            stacklevel=2,
        )
