# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares the tensor cores of the GPU with the accumulation rule of their class. Compares the results of matrix
products, computed with and without tensor cores, with those of the CPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from machine import torch_on_gpu
from repro_mlir.base.numerics.hashing import tensor_hash
from repro_mlir.runner import Device, Session
from repro_mlir.runner.certificates import TENSOR_CORES, path_of, unit_of, withdraw_certificate, write_certificate
from repro_mlir.runner.execution import choose_architecture
from repro_mlir.runner.tensor_cores import compare_tensor_cores
from results import Results
from run_programs import facts_of
from run_speed import interleaved, timed
from tensor_cores import load_cases, products


def run_tensor_cores(directory: Path, device: Device, results: Results, deadline: float) -> None:
    """Tests the tensor cores and writes the certificate of the device. Then adds two rows for each matrix product: with
    code that uses tensor cores, and with code that multiplies integers."""
    folder = directory / "tensor_cores"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if not names:
        return
    results.attempt("tensor cores", "certificate", lambda: _certify(folder, names, device, results))
    for facts in facts_of(directory, "product"):
        if time.perf_counter() > deadline:
            results.note("tensor cores", f"no time left for {facts['name']} and what follows it")
            return
        for native in (True, False):
            what = f"{facts['name']}, {'mma.sync' if native else 'integers'}"
            results.attempt(
                "tensor cores",
                what,
                lambda facts=facts, native=native: _product(directory, facts, device, results, native),
            )


def _certify(folder: Path, names: list[str], device: Device, results: Results) -> None:
    architecture = choose_architecture(names, device.capability, "the preparation")
    start = time.perf_counter()
    # An earlier certificate is invalid from now on, whatever this run finds.
    withdraw_certificate(device)
    certificate, differing = compare_tensor_cores(device, unit_of(architecture), load_cases(folder, architecture))
    if certificate.instructions:
        write_certificate(certificate, path_of(device))
    for line in differing:
        results.note("tensor cores", line)
    for instruction in certificate.instructions:
        results.add(
            "tensor cores",
            name=instruction.opcode,
            code=" and ".join(instruction.images),
            bits=f"equal ({instruction.results:,} results of {certificate.unit.name})",
        )
    results.facts["seconds of the certificate"] = round(time.perf_counter() - start, 1)


def _product(directory: Path, facts: dict[str, Any], device: Device, results: Results, native: bool) -> None:
    (case,) = [each for each in products(facts["tiny"]) if each.name == facts["name"]]
    torch = torch_on_gpu()
    path = directory / "bundles" / facts["file"]
    names = [name for name in facts["architectures"] if name.endswith(TENSOR_CORES) == native]
    architecture = choose_architecture(names, device.capability, case.name)
    with Session(path, device, architecture=architecture) as session:
        (output,) = session.step(*case.operands()).values()
        equal = tensor_hash(output, session.bundle.outputs[0].element) == facts["output"]
        theirs = None
        kinds = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32"}
        # PyTorch has no counterpart for other products: it multiplies f8 only with scales, and sums only in f32.
        if torch is not None and native and case.element in kinds and case.sums == "f32":
            torch.backends.cuda.matmul.allow_tf32 = case.element == "tf32"
            kind = getattr(torch, kinds[case.element])
            left, right = (torch.randn(shape, device="cuda").to(kind) for shape in case.shapes)
            left = left.t() if case.layout[0] == "T" else left
            right = right.t() if case.layout[1] == "T" else right
            theirs = timed(torch, lambda: torch.mm(left, right))
        ours, other = interleaved(session.replay, theirs)
        if torch is not None:
            torch.backends.cuda.matmul.allow_tf32 = False
    row: dict[str, Any] = {"name": case.name, "code": f"{'mma.sync' if native else 'integers'}, {session.image}"}
    row |= {"bits": "equal" if equal else "DIFFERENT: the product", "ours_ms": 1e3 * ours}
    row |= {"TFLOP/s": case.flops / ours * 1e-12}
    if other:
        row |= {"torch_ms": 1e3 * other, "torch/ours": other / ours}
    results.add("tensor cores", **row)
