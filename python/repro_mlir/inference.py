# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""`repro_mlir.compile`: a program, or a model of PyTorch in whichever form it comes, ready to run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, overload

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
    """Makes a program ready to run; the result has the same bits on every target and with any number of threads.

    Compiled code is kept on disk and found there the next time (see base/files/cache.py). The state that a model had,
    its parameters and buffers, is `executable.program.initial_state()`.

    Args:
      model: a Program, a SymbolicProgram, or for inference a torch.nn.Module, a torch.export.ExportedProgram, or the
        path of one that torch.export.save wrote (.pt2). PyTorch reads such a file, and can be made to run code by it:
        give none that you do not trust. Also the path of an ONNX model (.onnx), or the folder of a
        SavedModel of TensorFlow, for which the same holds.
      target: "cpu" (the best level of this machine), "cpu:<level>", "cuda" (the GPU of this machine), "cuda:<sm_XX>",
        "ptx-emulator" (what a GPU of sm_90 would run, on the emulator), "ptx-emulator:<sm_XX>" or "reference" (the
        interpreter that defines the bits, slow). Code for aarch64 runs in qemu where that and a cross compiler are
        installed. "+tensor-cores" behind "cuda" or an architecture takes tensor cores for accumulators (M4), on GPUs
        with a certificate (docs/gpu.md).
      threads: how many threads run a step, by default one per available processor.
      inputs: of a model, example inputs as for `capture`; an exported one has its own, and its own dynamic shapes.
      dynamic_shapes: of a model, the sizes that stay open, as for `capture`.
      sizes: of an ONNX model, the size of each dimension that has a name, as for `frontends.onnx.load`; `inputs` are
        then examples by name. Of a SavedModel, as for `frontends.tensorflow.load`.
      ranks: of which each computes a part and holds a part of the large weights, see docs/distributed.md.
      cut: with `ranks`, the names of the state tensors and inputs that are cut, each with the dimension along which it
        is; by default the compiler chooses.
    Returns:
      an Executable, or with dynamic shapes a SymbolicExecutable, which compiles each size at its first use, or with
      `ranks` a PartitionedExecutable.
    Raises:
      ReproError: an unknown target, one that this machine cannot run, a program that cannot be compiled, a number of
        threads below 1; a model that cannot be captured, or that has no example inputs; a file that is missing or
        damaged.
    """
    check_runs(target)
    if isinstance(model, Program | SymbolicProgram):
        if inputs is not None or dynamic_shapes is not None or sizes is not None:
            raise ReproError("inputs are examples for a model; a program has its own sizes")
        return _compile(model, target, threads, ranks, cut)
    if is_onnx(model):
        from repro_mlir.frontends.onnx.programs import load as load_onnx

        if dynamic_shapes is not None:
            raise ReproError("dynamic_shapes belongs to models of PyTorch: of an ONNX model, expected sizes")
        return _compile(load_onnx(model, sizes=sizes, inputs=inputs), target, threads, ranks, cut)
    if is_saved_model(model):
        from repro_mlir.frontends.tensorflow.programs import load as load_saved_model

        if dynamic_shapes is not None or inputs is not None:
            raise ReproError("inputs and dynamic_shapes belong to other models: of a SavedModel, expected sizes")
        return _compile(load_saved_model(model, sizes=sizes), target, threads, ranks, cut)
    if sizes is not None:
        raise ReproError("sizes belongs to ONNX models and SavedModels")
    if isinstance(model, str | os.PathLike):
        try:
            from repro_mlir.frontends.torch.capture.exported_files import load
        except ImportError as error:
            raise ReproError(f"a .pt2 file needs PyTorch: pip install 'repro-mlir[torch]' ({error})") from None
        model = load(model)
    from repro_mlir.frontends.torch.capture.programs import capture, is_exported

    if inputs is None and not is_exported(model):
        raise ReproError(
            f"expected a program, or a model with inputs=..., examples of its inputs, got a {type(model).__qualname__}"
        )
    program = capture(model, *([] if inputs is None else [inputs]), dynamic_shapes=dynamic_shapes)
    return _compile(program, target, threads, ranks, cut)


def is_onnx(model: object) -> bool:
    """Whether this is the path of an ONNX model."""
    return isinstance(model, str | os.PathLike) and os.fspath(model).endswith(".onnx")


def is_saved_model(model: object) -> bool:
    """Whether this is the folder of a SavedModel."""
    return isinstance(model, str | os.PathLike) and os.path.isfile(os.path.join(os.fspath(model), "saved_model.pb"))


def _compile(
    program: Program | SymbolicProgram,
    target: str,
    threads: int | None,
    ranks: Ranks | None,
    cut: Mapping[str, int] | None,
) -> Executable | SymbolicExecutable | PartitionedExecutable:
    if ranks is None and cut is not None:
        raise ReproError("cut says what ranks have parts of: expected ranks")
    if isinstance(program, SymbolicProgram):
        if ranks is not None:
            raise ReproError("ranks compute parts of static shapes: expected a program without open sizes")
        return SymbolicExecutable(program, target, threads)
    if ranks is not None:
        return PartitionedExecutable(program, target, threads, ranks, cut)
    return compile_program(program, target, threads)
