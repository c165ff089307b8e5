# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Prepares a directory for run.py, on a machine with the compiler and without a GPU.

    python benchmarks/gpu/prepare.py DIR [--tiny] [--only TEXT ...] [--architectures sm_75,sm_90]

DIR then contains the runner, bundles with machine code, the hashes that the bundles' results have on the CPU, the
programs of the tests with their results, and the checksums of single operations. An existing bundle is kept, so that an
interrupted preparation can continue.
"""

import argparse
import json
import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catalogue
import conformance
import numpy as np
import rates
import repro_mlir
import tensor_cores
from cases import Call, Module, Training, calls, trainings
from inputs import arrays
from repro_mlir.base.errors import ReproError
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.bundle.writer import capture_steps, expect, write_bundle
from repro_mlir.certification import class_of, make_cases
from repro_mlir.compilation.assembler import assemble, find_assembler
from repro_mlir.compilation.device_code import compile_for
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.frontends.torch.capture.programs import training_program
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.precision import NAMED_RECIPES, Recipe, RolePrecision, by_blocks
from repro_mlir.program import Program
from repro_mlir.runner.certificates import TENSOR_CORES, matrix_instructions
from repro_mlir.runner.packing import write_runner
from tensor_cores import Product

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _torch(values: list[np.ndarray]) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_numpy(value) for value in values)


def call_program(call: Call) -> Program:
    """Captures the function of `call`, with contractions in blocks or exact contractions if `call` asks for them."""
    program = repro_mlir.capture(Module(call.function), _torch(arrays(call.arguments)))
    if call.blocks:
        from block_cases import FORMATS

        sides = RolePrecision({side: FORMATS[call.blocks] for side in ("left", "right")})
        return repro_mlir.apply_precision(program, by_blocks(Recipe(call.blocks, {"product": sides})))
    return repro_mlir.exact_contractions(program, call.digits) if call.digits else program


def prepare_call(call: Call, path: Path, architectures: list[str]) -> dict[str, Any]:
    """Writes the bundle of a function; returns the hashes of its expected results."""
    given = arrays(call.arguments)
    program = call_program(call)
    _, outputs = repro_mlir.compile(program)(program.initial_state(), *given)
    write_bundle(path, program, compile_for(program, architectures))
    return {"outputs": {kind.name: tensor_hash(outputs[kind.name], kind.element) for kind in program.outputs}}


def step_program(training: Training) -> tuple[Program, list[np.ndarray]]:
    """Returns the program of a training step, and the values of its hyper-parameters."""
    model = repro_mlir.initialize(training.model(), seed=0)
    batch = _torch(arrays(training.arguments))
    program, imported = training_program(model, None, training.optimizer(model), batch, CaptureOptions())
    return program, [np.asarray(value) for value in imported.bindings.hyper_parameters()]


def prepare_training(training: Training, path: Path, architectures: list[str]) -> dict[str, Any]:
    """Writes the bundle of a training step. If the step is to be checked, the bundle contains the expected results of
    two steps on the same batch. Returns the values of the hyper-parameters."""
    program, hyper = step_program(training)
    steps = [[*hyper, *arrays(training.arguments)]] * 2
    expected = expect(program, steps) if training.check else None
    write_bundle(path, program, compile_for(program, architectures), expected=expected)
    return {"hyper": [value.item() for value in hyper]}


def prepare_example(
    name: str, steps: int, path: Path, architectures: list[str], precision: str | None = None
) -> dict[str, Any]:
    """Writes a bundle with the inputs and expected results of the first steps of an example, optionally under a
    precision recipe. Returns the number of steps."""
    program, recorded = capture_steps(load_training(str(EXAMPLES / f"{name}.py"), precision=precision), steps)
    expected = expect(program, recorded)
    write_bundle(path, program, compile_for(program, architectures), steps=recorded, expected=expected)
    return {"steps": steps}


def product_program(product: Product, architecture: str) -> Program:
    """Returns a program that multiplies two matrices with the accumulator class of the architecture."""
    import torch

    kinds = {
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "tf32": torch.float32,
        "f8E4M3FN": torch.float8_e4m3fn,
        "f8E5M2": torch.float8_e5m2,
    }
    examples = tuple(torch.zeros(shape).to(kinds[product.element]) for shape in product.shapes)

    def multiply(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        left = left.t() if product.layout[0] == "T" else left
        right = right.t() if product.layout[1] == "T" else right
        # PyTorch cannot multiply f8 matrices without scales.
        return torch.mm(left.float(), right.float()) if left.itemsize == 1 else torch.mm(left, right)

    element = "f32" if product.element == "tf32" else product.element
    by = repro_mlir.Accumulator.named(class_of(architecture, element), element, product.sums, chunk=product.chunk)
    return repro_mlir.set_accumulators(repro_mlir.capture(Module(multiply), examples), by)


def prepare_product(product: Product, path: Path, architecture: str) -> dict[str, Any]:
    """Writes a bundle that contains the program twice: compiled without tensor cores and with them. Returns the
    architectures of both and the hash of the result."""
    given = product.operands()
    program = product_program(product, architecture)
    (output,) = repro_mlir.compile(program)(program.initial_state(), *given)[1].values()
    architectures = [architecture, architecture + TENSOR_CORES]
    codes = compile_for(program, architectures)
    assert matrix_instructions(codes[1].ptx), product.name
    write_bundle(path, program, codes)
    return {"architectures": architectures, "output": tensor_hash(output, program.outputs[0].element)}


def parts(options: argparse.Namespace, architectures: list[str]) -> dict[str, Callable[[Path], None]]:
    """Returns the functions that write the files and folders of the directory, keyed by the name of the file or
    folder."""
    assembler = assemble if find_assembler() else None
    sizes = (256, 4) if options.tiny else (1 << 18, 384)

    def save_tensor_cores(path: Path) -> None:
        for architecture in architectures:
            tensor_cores.save_cases(path, architecture, make_cases(architecture))

    found: dict[str, Callable[[Path], None]] = {
        "conformance": lambda path: conformance.prepare(path, *sizes, assembler),
        "rates": lambda path: rates.save_rates(path, architectures[-1], assembler),
        "catalogue.zip": lambda path: catalogue.save_catalogue(path, architectures[-1], options.tiny, options.jobs),
        "tensor_cores": save_tensor_cores,
    }
    if options.tiny:
        del found["rates"]  # the emulator lacks instructions of these kernels
    return found


def main() -> int:
    """Prepares the directory. Returns 1 if something could not be prepared, else 0; a failure does not stop the
    rest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the scripts without a GPU")
    parser.add_argument("--only", metavar="TEXT", nargs="+", default=[""], help="only what has a TEXT in its name")
    parser.add_argument("--architectures", metavar="LIST", default="sm_75,sm_90", help="GPUs (sm_75,sm_90)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes for the programs of the tests (2)")
    options = parser.parse_args()
    folder: Path = options.directory
    architectures = options.architectures.split(",")
    (folder / "bundles").mkdir(parents=True, exist_ok=True)
    write_runner(folder / "runner.pyz")

    def wanted(name: str) -> bool:
        return any(text in name for text in options.only)

    failed = 0
    for file, make in parts(options, architectures).items():
        path, partial = folder / file, folder / f"{file}.partial"
        if path.exists() or not wanted(path.stem.replace("_", " ")):
            continue
        shutil.rmtree(partial, ignore_errors=True)
        try:
            make(partial)
            partial.rename(path)
        except ReproError as error:
            print(f"{file}: {error}", file=sys.stderr, flush=True)
            failed += 1
    plan: list[tuple[str, str, Any]] = [("example", name, None) for name in ("digits_cnn", "names_gpt")]
    plan += [("example", f"names_gpt {recipe}", recipe) for recipe in NAMED_RECIPES]
    plan += [("training", training.name, training) for training in trainings(options.tiny)]
    plan += [("call", call.name, call) for call in calls(options.tiny)]
    plan += [("product", product.name, product) for product in tensor_cores.products(options.tiny)]
    missing: set[str] = set()
    for kind, name, case in plan:
        file = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
        path, facts = folder / "bundles" / f"{file}.rmb", folder / "bundles" / f"{file}.json"
        if facts.exists() or not wanted(name):
            continue
        start = time.perf_counter()
        try:
            if kind == "example":
                found = prepare_example(name.split()[0], 2 if options.tiny else 10, path, architectures, case)
            elif kind == "training":
                found = prepare_training(case, path, architectures)
            elif kind == "product":
                found = prepare_product(case, path, architectures[-1])
            else:
                found = prepare_call(case, path, architectures[-1:])
        except ReproError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            failed += 1
            continue
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.endswith(".ptx"):
                    missing |= conformance.uncovered(archive.read(member).decode())
        facts.write_text(json.dumps({"kind": kind, "name": name, "file": path.name, "tiny": options.tiny, **found}))
        print(f"{name}: {path.stat().st_size:,} bytes, {time.perf_counter() - start:.1f} s", flush=True)
    if missing:
        print(f"operations without a check of their own: {', '.join(sorted(missing))}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
