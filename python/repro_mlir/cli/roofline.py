# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro roofline: predicts how long a step takes, and explains how long it took."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..command_line import positive
from ..errors import ReproError
from ..printing import tell
from .file_kinds import BUNDLE, MODULE, ONNX, PROGRAM, SAVED_MODEL, SCRIPT, expect
from .options import Commands, add_command, add_no_cache, add_numerics, add_sizes, read_program

_NOTES = """examples:
  repro roofline calibrate -o here.json
  repro roofline predict examples/digits_cnn.py --machine here.json --measure
  repro roofline predict digits.repro --machine here.json --threads 2 --set memory_bandwidth=2x
  repro roofline transformer llama3-70b --machine h100 --tensor 8 --pipeline 4 --data 2 --batch 64 --precision fp8
  repro roofline transformer llama3-8b --machine h100 --decode --batch 16 --sequence 4096
  repro roofline predict digits.rmb --machine h100
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro roofline`."""
    summary = "predict how long a step takes, and explain how long it took"
    group = commands.add_parser("roofline", help=summary, description=summary, epilog=_NOTES)
    group.formatter_class = argparse.RawDescriptionHelpFormatter
    parts = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    command = add_command(parts, "predict", _predict, "predict a step of a script, a program file or a model")
    kinds = "a script, a program file, a bundle, an ONNX model, a SavedModel or an MLIR module"
    command.add_argument("program", metavar="FILE", help=kinds)
    add_numerics(command)
    add_sizes(command)
    command.add_argument(
        "--machine", required=True, metavar="M", help="the name of a machine, or a .json file that describes one"
    )
    command.add_argument("--threads", type=positive, default=1, metavar="N", help="threads of a step (1)")
    _add_set(command)
    command.add_argument("--measure", action="store_true", help="run the step here, and show the gap")
    command.add_argument(
        "--measured", metavar="RESULTS", help="show the gap to the row of FILE in a file of benchmarks/gpu/run.py"
    )
    command.add_argument("--kernels", type=positive, default=20, metavar="N", help="kernels in the table (20)")
    add_no_cache(command)
    command = add_command(parts, "calibrate", _calibrate, "measure this machine, and write its file")
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write, NAME.json")
    command.add_argument("--level", metavar="L", help="the CPU level of the code (the best one)")
    _register_transformer(parts)


def _register_transformer(parts: Commands) -> None:
    command = add_command(parts, "transformer", _transformer, "predict a step of a transformer that nobody compiles")
    command.add_argument("transformer", metavar="NAME", help="a published one, or a .json file of its sizes")
    command.add_argument("--machine", required=True, metavar="M", help="an accelerator, or a .json file of one")
    _add_set(command)
    command.add_argument(
        "--batch", type=positive, metavar="N", help="sequences of all devices (one microbatch of each)"
    )
    command.add_argument(
        "--microbatch", type=positive, default=1, metavar="N", help="sequences of a device at once (1)"
    )
    command.add_argument(
        "--sequence", type=positive, metavar="N", help="tokens of a sequence (those of the transformer)"
    )
    command.add_argument("--precision", default="bf16", metavar="P", help="format that projections read (bf16)")
    command.add_argument("--recompute", default="none", metavar="R", help="what backward computes again (none)")
    for degree, text in _DEGREES.items():
        command.add_argument(degree, type=positive, default=1, metavar="N", help=f"{text} (1)")
    command.add_argument("--sharding", default="none", metavar="S", help="what --data shares (none)")
    command.add_argument(
        "--sequence-parallel", action="store_true", help="--tensor shares tokens of norms and sums too"
    )
    command.add_argument("--overlap-tensor", action="store_true", help="exchanges of --tensor go beside products")
    command.add_argument(
        "--gather-operands", action="store_true", help="--decode with --tensor, without added sums (T2)"
    )
    command.add_argument("--unfused", action="store_true", help="chains of element-wise operations are many kernels")
    command.add_argument("--decode", action="store_true", help="one more token of each sequence, without training")


_DEGREES = {
    "--tensor": "devices that share each layer",
    "--pipeline": "stages of layers",
    "--virtual-stages": "parts of a stage, which interleave",
    "--context": "devices that share a sequence",
    "--data": "devices with other sequences",
    "--expert": "devices of --data that share experts",
}


def _add_set(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], type=_change, metavar="NAME=V", help="another number of the machine, or "
        "a factor such as 2x; may be given again",
    )  # fmt: skip


def _change(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"expected NAME=V, got {text!r}")
    return name, value


def _predict(options: argparse.Namespace) -> int:
    from ..bundle.runner.bundle import Bundle
    from ..program import Program
    from ..roofline import (
        CpuMachine,
        GpuLedger,
        GpuStepPrediction,
        Ledger,
        measure,
        predict,
        read_code,
        read_machine,
        read_measured,
    )  # fmt: skip
    from ..roofline.report import as_json, lines_of

    kind = expect(options.program, SCRIPT, PROGRAM, BUNDLE, MODULE, ONNX, SAVED_MODEL)
    machine = read_machine(options.machine).with_changes(dict(options.set))
    is_cpu = isinstance(machine, CpuMachine)
    if options.measured if is_cpu else options.measure:
        wrong, right = ("--measured", "a GPU") if is_cpu else ("--measure", "a CPU")
        raise ReproError(f"{options.machine}: expected {right} with {wrong}")
    program: Program | Bundle
    inputs = None
    if kind is SCRIPT:
        from ..bundle.writer import capture_steps
        from ..frontends.torch.script import load_training

        if options.size:
            raise ReproError(f"{options.program}: expected an ONNX model or a SavedModel with --size")
        program, steps = capture_steps(load_training(options.program, options.exact_digits, options.precision), 1)
        inputs = steps[0]
    elif kind is BUNDLE:
        program = Bundle(options.program)
    else:
        if options.exact_digits is not None or options.precision is not None:
            raise ReproError(f"{options.program}: expected a script with --exact-digits and --precision")
        program = read_program(options.program, options.size)
    prediction = predict(read_code(program, machine), machine, options.threads)
    ledger: Ledger | GpuLedger | None = None
    if isinstance(prediction, GpuStepPrediction):
        if options.measured:
            ledger = read_measured(options.measured, Path(options.program).stem, prediction)
    elif options.measure and isinstance(program, Program):
        ledger = measure(program, prediction, inputs)
    if options.json:
        tell(json.dumps(as_json(prediction, ledger)))
    else:
        tell(*lines_of(prediction, ledger, options.kernels))
    return 0


def _transformer(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from ..roofline import Accelerator, read_machine
    from ..roofline.transformer import (
        Parallelism,
        Training,
        predict_decoding,
        predict_training,
        read_transformer,
        report,
    )

    config = read_transformer(options.transformer)
    machine = read_machine(options.machine).with_changes(dict(options.set))
    if not isinstance(machine, Accelerator):
        raise ReproError(f"{options.machine}: expected an accelerator")
    if options.sequence is not None:
        config = replace(config, sequence=options.sequence)
    if options.gather_operands and not options.decode:
        raise ReproError("expected --decode with --gather-operands")
    if options.decode:
        decoding = predict_decoding(
            config, machine, options.batch or 1, config.sequence, options.precision, options.tensor, options.pipeline,
            options.gather_operands,
        )  # fmt: skip
        if options.json:
            tell(json.dumps(report.decoding_json(decoding)))
        else:
            tell(*report.decoding_lines(options.transformer, decoding))
        return 0
    degrees = [degree.removeprefix("--").replace("-", "_") for degree in _DEGREES]
    parallelism = Parallelism(
        **{degree: getattr(options, degree) for degree in degrees},
        sequence_parallel=options.sequence_parallel,
        sharding=options.sharding,
        overlaps_tensor=options.overlap_tensor,
    )
    batch = options.batch or options.data * options.microbatch
    training = Training(
        batch, options.microbatch, options.precision, options.recompute, parallelism, not options.unfused
    )
    prediction = predict_training(config, machine, training)
    if options.json:
        tell(json.dumps(report.training_json(prediction)))
    else:
        tell(*report.training_lines(options.transformer, prediction))
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    import sys

    from ..roofline import calibrate, write_cpu_machine

    if not options.output.endswith(".json"):
        raise ReproError(f"{options.output}: expected a name that ends with .json, by which --machine knows a file")
    found = calibrate(Path(options.output).stem, options.level, lambda line: tell(line, stream=sys.stderr))
    write_cpu_machine(options.output, found.machine, found.sources)
    if options.json:
        tell(json.dumps({"file": options.output}))
    else:
        tell(f"file     {options.output}")
    return 0
