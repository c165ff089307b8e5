# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro_mlir.compile`, which compiles a program or a model of PyTorch, ONNX or TensorFlow for execution."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, overload

from repro_mlir.base.compiler import install_extra
from repro_mlir.base.errors import ReproError
from repro_mlir.distributed import Ranks
from repro_mlir.execute.executable import Executable, check_runs
from repro_mlir.execute.executable import compile as compile_program
from repro_mlir.execute.partitioned import PartitionedExecutable
from repro_mlir.execute.symbolic import SymbolicExecutable
from repro_mlir.program import Program, SymbolicProgram


@overload
def compile(model: Program, target: str = "cpu", threads: int | None = None) -> Executable: ...


@overload
def compile(
    model: Program,
    target: str = "cpu",
    threads: int | None = None,
    *,
    ranks: Ranks,
    cut: Mapping[str, int] | None = None,
) -> PartitionedExecutable: ...


@overload
def compile(model: SymbolicProgram, target: str = "cpu", threads: int | None = None) -> SymbolicExecutable: ...


@overload
def compile(
    model: Any,
    target: str = "cpu",
    threads: int | None = None,
    *,
    inputs: Any = None,
    dynamic_shapes: Any = None,
    sizes: Mapping[str, int] | None = None,
    ranks: Ranks | None = None,
    cut: Mapping[str, int] | None = None,
) -> Any: ...


def compile(
    model: Any,
    target: str = "cpu",
    threads: int | None = None,
    *,
    inputs: Any = None,
    dynamic_shapes: Any = None,
    sizes: Mapping[str, int] | None = None,
    ranks: Ranks | None = None,
    cut: Mapping[str, int] | None = None,
) -> Executable | SymbolicExecutable | PartitionedExecutable:
    """Compiles a program or a model; its results have the same bits on every target and with any number of threads.

    Compiled code is cached on disk; the environment variable `REPRO_MLIR_CACHE` names the folder of the cache.
    `executable.program.initial_state()` returns the parameters and buffers of a captured model.

    Without the compiler, `interpret` runs a step of a program with the reference interpreter.

    Args:
      model: a Program or a SymbolicProgram. For inference also a torch.nn.Module, a torch.export.ExportedProgram, the
        path of a file that torch.export.save wrote (.pt2), the path of an ONNX model (.onnx), or the folder of a
        TensorFlow SavedModel. A .pt2 file or a SavedModel can execute code while it is loaded: pass only trusted files.
      target: "cpu" (the highest CPU level of this machine), "cpu:<level>", "cuda" (the GPU of this machine),
        "cuda:<sm_XX>", "ptx-emulator" (the emulator, running code for sm_90), "ptx-emulator:<sm_XX>",
        "cores:<machine>" (a simulated machine of many cores, docs/guides/many-cores.md; a name or the path of a
        .json file), or "reference" (the slow reference interpreter, which defines the bits). Code for aarch64 runs in
        qemu if qemu and a cross compiler are installed. The suffix "+tensor-cores" after "cuda" or an architecture uses
        tensor cores for accumulators (M4) on GPUs with a certificate (docs/guides/gpu.md).
      threads: the number of threads that run a step, by default one per available processor. A machine of many cores is
        simulated by one thread.
      inputs: example inputs of a model, as for `capture`. An exported model has its own inputs and dynamic shapes.
      dynamic_shapes: the sizes of a model that stay dynamic, as for `capture`.
      sizes: for an ONNX model, the size of each named dimension, as for `frontends.onnx.load`; `inputs` are then
        example inputs by name. For a SavedModel, as for `frontends.tensorflow.load`.
      ranks: the ranks (processes), each of which computes a part and keeps a part of the large weights; see
        docs/guides/distributed.md.
      cut: with `ranks`, maps the names of partitioned state tensors and inputs to the partitioned dimension; by default
        the compiler chooses.
    Returns:
      An Executable. With dynamic shapes a SymbolicExecutable, which compiles each size on first use. With `ranks` a
      PartitionedExecutable.
    Raises:
      ReproError: the target is unknown or cannot run on this machine, the program cannot be compiled, `threads` is
        below 1, the model cannot be captured or has no example inputs, or a file is missing or damaged.
    """
    check_runs(target)
    if isinstance(model, Program | SymbolicProgram):
        if inputs is not None or dynamic_shapes is not None or sizes is not None:
            raise ReproError("inputs, dynamic_shapes and sizes are for models only: a program has its own sizes")
        return _compile(model, target, threads, ranks, cut)
    if is_onnx(model):
        from repro_mlir.frontends.onnx.programs import load as load_onnx

        if dynamic_shapes is not None:
            raise ReproError("dynamic_shapes is for PyTorch models only: pass sizes for an ONNX model")
        return _compile(load_onnx(model, sizes=sizes, inputs=inputs), target, threads, ranks, cut)
    if is_saved_model(model):
        from repro_mlir.frontends.tensorflow.programs import load as load_saved_model

        if dynamic_shapes is not None or inputs is not None:
            raise ReproError("inputs and dynamic_shapes are not for a SavedModel: pass sizes")
        return _compile(load_saved_model(model, sizes=sizes), target, threads, ranks, cut)
    if sizes is not None:
        raise ReproError("sizes is for ONNX models and SavedModels only")
    if isinstance(model, str | os.PathLike):
        try:
            from repro_mlir.frontends.torch.capture.exported_files import load
        except ImportError as error:
            raise ReproError(f"a .pt2 file requires PyTorch: {install_extra('torch')} ({error})") from None
        model = load(model)
    from repro_mlir.frontends.torch.capture.programs import capture, is_exported

    if inputs is None and not is_exported(model):
        raise ReproError(
            "expected a program, or a model with inputs=... (examples of its inputs), got a "
            f"{type(model).__qualname__} without inputs"
        )
    program = capture(model, *([] if inputs is None else [inputs]), dynamic_shapes=dynamic_shapes)
    return _compile(program, target, threads, ranks, cut)


def is_onnx(model: object) -> bool:
    """Returns whether `model` is the path of an ONNX model."""
    return isinstance(model, str | os.PathLike) and os.fspath(model).endswith(".onnx")


def is_saved_model(model: object) -> bool:
    """Returns whether `model` is the folder of a SavedModel."""
    return isinstance(model, str | os.PathLike) and os.path.isfile(os.path.join(os.fspath(model), "saved_model.pb"))


def _compile(
    program: Program | SymbolicProgram,
    target: str,
    threads: int | None,
    ranks: Ranks | None,
    cut: Mapping[str, int] | None,
) -> Executable | SymbolicExecutable | PartitionedExecutable:
    if ranks is None and cut is not None:
        raise ReproError("cut selects what is divided among ranks: pass ranks too")
    if isinstance(program, SymbolicProgram):
        if ranks is not None:
            raise ReproError("expected a program with static shapes for ranks, got one with dynamic sizes")
        return SymbolicExecutable(program, target, threads)
    if ranks is not None:
        return PartitionedExecutable(program, target, threads, ranks, cut)
    return compile_program(program, target, threads)
