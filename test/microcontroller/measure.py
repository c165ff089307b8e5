# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Measures the steps of small networks on a Cortex-M4 in Unicorn, for docs/guides/microcontroller.md.

python test/microcontroller/measure.py [--emlearn | --kernels]

Prints bytes and instructions as rows of a table. With --emlearn, compiles the C code that the package emlearn generates
for the same networks instead, by arm-none-eabi-gcc if it is installed, else by ziglang. With --kernels, runs a step of
digits_cnn on four cores instead, and compares the cycles that the compiler predicts for each tile with instructions.
"""

import argparse
import dataclasses
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import repro_mlir
import torch
from core_plan import Run
from repro_mlir.bundle.writer import capture_steps
from repro_mlir.compilation import cores, microcontroller
from repro_mlir.frontends.torch.capture.inference import capture_inference
from repro_mlir.frontends.torch.scripts import Training, load_training
from repro_mlir.program import Program
from repro_mlir.program.program import program_of
from thumb import Function, Thumb, sections
from thumb_cores import ThumbMachine, instructions
from torch import nn

EXAMPLES = Path(__file__).parents[2] / "examples"
GCC = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-specs=nosys.specs"]
ZIG = [sys.executable, "-m", "ziglang", "cc", "-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp"]
STUBS = {
    "math.h": "#define INFINITY __builtin_inff()\n"
    "float expf(float), logf(float), tanhf(float), sqrtf(float), fabsf(float);",
    "string.h": "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);",
    "stdlib.h": "#include <stddef.h>\n",
    "stdio.h": "",
    "assert.h": "#define assert(x) ((void)0)\n",
}
"""Headers that zig lacks without an operating system."""


def networks() -> dict[str, nn.Module]:
    layers = {
        # The network of TensorFlow Lite Micro's example hello_world.
        "sine 1-16-16-1": [nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)],
        "digits 64-16-10": [nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)],
        "digits 64-16-10, softmax": [nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10), nn.Softmax(-1)],
    }
    return {name: repro_mlir.initialize(nn.Sequential(*modules), seed=0) for name, modules in layers.items()}


def row(name: str, program: Program, inputs: list[np.ndarray], trains: bool) -> str:
    """Runs one step, and returns its row of the table."""
    library = microcontroller.compile(program, "step")
    with tempfile.TemporaryDirectory() as folder:
        thumb = Thumb(library, program, Path(folder), counts=True)
        thumb.write(1, inputs)
        if trains:
            thumb.write(0, program.initial)
        assert thumb.step(initial=not trains) == 0
    tensors = (*program.inputs, *program.outputs, *(program.state if trains else ()))
    ram = library.memory + thumb.stack + microcontroller.struct_layout(tensors)[1]
    numbers = (library.code, library.constants, library.memory, thumb.stack, ram, thumb.instructions)
    return f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def with_batch(training: Training, size: int) -> Training:
    batches = (tuple(tensor[:size] for tensor in batch) for batch in training.batches)
    return dataclasses.replace(training, batches=batches)


def rows() -> Iterator[str]:
    for name, model in networks().items():
        x = torch.randn(1, model[0].in_features)
        yield row(name, program_of(capture_inference(model, x)), [x.numpy()], trains=False)
    digits = load_training(str(EXAMPLES / "digits_cnn.py"))
    digits.model.eval()
    x = next(iter(digits.batches))[0][:1]
    yield row("digits_cnn, one image", program_of(capture_inference(digits.model, x)), [x.numpy()], trains=False)
    model = networks()["digits 64-16-10"]
    network = load_training(str(EXAMPLES / "microcontroller" / "network.py"))
    small = dataclasses.replace(
        network, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    )
    digits = load_training(str(EXAMPLES / "digits_cnn.py"))
    for name, training in (
        ("training of 64-16-10 on 16 images", small),
        ("training of digits_cnn on 4 images", with_batch(digits, 4)),
    ):
        program, (inputs,) = capture_steps(training, 1)
        yield row(name, program, inputs, trains=True)


def emlearn_rows() -> Iterator[str]:
    """Measures functions that return the class of an input, or the sine. The inline form of emlearn 0.23.2 cannot be
    generated: it expects numbers in place of the names of activation functions."""
    package = importlib.import_module("emlearn.net")
    headers = Path(package.__file__).parent
    for name, model in networks().items():
        linear = [layer for layer in model if isinstance(layer, nn.Linear)]
        last = "softmax" if isinstance(model[-1], nn.Softmax) else "identity"
        activations = ["relu"] * (len(linear) - 1) + [last]
        weights = [layer.weight.detach().numpy().T for layer in linear]
        code = package.c_generate_net_loadable(activations, weights, [x.bias.detach().numpy() for x in linear], "net")
        count = linear[0].in_features
        call = f"int run(const float *x) {{ return net_predict(x, {count}); }}"
        if linear[-1].out_features == 1:
            call = f"float run(const float *x) {{ return net_regress1(x, {count}); }}"
        code += f"\n{call}\n"
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            source, image = folder / "net.c", folder / "net.elf"
            source.write_text(code)
            command = GCC
            if not shutil.which(GCC[0]):
                command = [*ZIG, "-I", folder]
                for header, text in STUBS.items():
                    (folder / header).write_text(f"#pragma once\n{text}\n")
            options = [
                "-O2",
                "-I",
                headers,
                "-nostartfiles",
                "-ffunction-sections",
                "-fdata-sections",
                "-Wl,--gc-sections",
            ]
            script = folder / "flash.ld"
            script.write_text(Function.SCRIPT)
            subprocess.run([*command, *options, "-T", script, "-Wl,-e,run", source, "-lm", "-o", image], check=True)
            elf = image.read_bytes()
            function = Function(elf, "run")
            function.call(torch.randn(count).numpy())
            sizes = {kind: len(data) for kind, _, _, data, _ in sections(elf)}
            parameters = 4 * sum(parameter.numel() for parameter in model.parameters())
            flash = sizes[".flash"]
            numbers = (flash - parameters, parameters, sizes[".ram"], function.stack, function.instructions)
            yield f"| emlearn, {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def kernel_rows() -> Iterator[str]:
    """Measures the kernels of a step on machines with the cycles of a Cortex-M4F."""
    training = with_batch(load_training(str(EXAMPLES / "digits_cnn.py")), 8)
    program, (inputs,) = capture_steps(training, 1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "machine.json"
        description = json.loads(cores.read_machine("tiny-2x2").text)
        description["cycles"] = json.loads(cores.read_machine("cortex-m4f").text)["cycles"]
        for name, size in (("data_bytes", 94208), ("code_bytes", 131072)):
            description["core"][name] = {"value": size, "source": "assumption: for a measurement"}
        file.write_text(json.dumps(description))
        machine = ThumbMachine(
            cores.compile(program.data, cores.read_machine(str(file)), "thumbv7em"), Path(folder), counts=True
        )
    machine.states = [value.copy() for value in program.initial]
    machine.outputs = [kind.empty() for kind in program.outputs]
    machine.step(inputs, seed=0)
    runs = Counter(each.kernel for core in machine.plan.programs for each in core.operations if isinstance(each, Run))
    counted = instructions(machine)
    predicted = sum(kernel.cycles * runs[number] for number, (kernel, _) in enumerate(counted))
    total = sum(count * runs[number] for number, (_, count) in enumerate(counted))
    for number, (kernel, count) in sorted(enumerate(counted), key=lambda each: -each[1][1] * runs[each[0]]):
        buffers = " ".join(f"{size}{'-rwx'[access]}" for size, access in kernel.buffers)
        numbers = f"{runs[number]:,} | {kernel.code:,} | {kernel.cycles:,} | {count:,}"
        yield f"| {kernel.name}: {buffers} | {numbers} | {kernel.cycles / count:.2f} |"
    yield f"| all | {sum(runs.values()):,} | | {predicted:,} | {total:,} | {predicted / total:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emlearn", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    for line in emlearn_rows() if options.emlearn else kernel_rows() if options.kernels else rows():
        print(line, flush=True)


if __name__ == "__main__":
    main()
