# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro roofline transformer: predicts one step of a transformer on devices described by their data sheets."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.printing import tell
from repro_mlir.cli.options import Commands, add_command
from repro_mlir.cli.parsers import set_names
from repro_mlir.cli.roofline_lists import accelerator_names
from repro_mlir.cli.roofline_options import add_change, add_set


def register(parts: Commands) -> None:
    """Adds the parser of `repro roofline transformer`."""
    command = add_command(
        parts, "transformer", _transformer, "predict a step of a transformer from its sizes, without compiling it"
    )
    name = command.add_argument(
        "transformer",
        metavar="NAME",
        help="a .json file with the sizes of a transformer, or the name of a published one",
    )
    set_names(name, _presets, or_path=True)
    machine = command.add_argument(
        "--machine", required=True, metavar="M", help="a .json file that describes an accelerator, or a name"
    )
    set_names(machine, accelerator_names, or_path=True)
    add_set(command, "NAME=V", "machine")
    command.add_argument(
        "--batch", type=positive, metavar="N", help="sequences of a step on all devices (one microbatch per device)"
    )
    command.add_argument(
        "--microbatch", type=positive, default=1, metavar="N", help="sequences that a device processes at once (1)"
    )
    command.add_argument(
        "--sequence", type=positive, metavar="N", help="tokens of a sequence (those of the transformer)"
    )
    precision = command.add_argument(
        "--precision", default="bf16", metavar="P", help="the format that projections read (bf16)"
    )
    set_names(precision, _number_formats)
    recompute = command.add_argument(
        "--recompute", default="none", metavar="R", help="what backward computes again (none)"
    )
    set_names(recompute, _recomputations)
    for degree, text in _DEGREES.items():
        command.add_argument(degree, type=positive, default=1, metavar="N", help=f"{text} (1)")
    sharding = command.add_argument("--sharding", default="none", metavar="S", help="what --data shares (none)")
    set_names(sharding, _shardings)
    command.add_argument(
        "--sequence-parallel", action="store_true", help="--tensor also divides the tokens of norms and sums"
    )
    command.add_argument("--overlap-tensor", action="store_true", help="exchanges of --tensor overlap with products")
    command.add_argument(
        "--gather-operands",
        action="store_true",
        help="with --decode and --tensor: gather operands instead of adding partial sums (T2)",
    )
    command.add_argument("--unfused", action="store_true", help="each element-wise operation is a kernel of its own")
    command.add_argument(
        "--decode",
        action="store_true",
        help="predict the decoding of one token of each sequence instead of a training step",
    )


def _presets() -> Iterable[str]:
    from repro_mlir.roofline.transformer import PRESETS

    return PRESETS


def _number_formats() -> Iterable[str]:
    from repro_mlir.roofline.transformer.number_formats import NUMBER_FORMATS

    return NUMBER_FORMATS


def _recomputations() -> Iterable[str]:
    from repro_mlir.roofline.transformer import RECOMPUTATIONS

    return RECOMPUTATIONS


def _shardings() -> Iterable[str]:
    from repro_mlir.roofline.transformer import SHARDINGS

    return SHARDINGS


_DEGREES = {
    "--tensor": "devices that share each layer",
    "--pipeline": "stages of layers",
    "--virtual-stages": "interleaved parts of a stage",
    "--context": "devices that share a sequence",
    "--data": "devices with different sequences",
    "--expert": "devices of --data that share experts",
}


_OF_TRAINING = {
    "microbatch": 1, "recompute": "none", "virtual_stages": 1, "context": 1, "data": 1, "expert": 1, "sharding": "none",
    "sequence_parallel": False, "overlap_tensor": False, "unfused": False,
}  # fmt: skip
"""Options that only apply to training, with their defaults."""


def _check_decoding(options: argparse.Namespace) -> None:
    """Raises ReproError if --decode is combined with an option that only applies to training."""
    given = [name for name, default in _OF_TRAINING.items() if getattr(options, name) != default]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ReproError(f"expected a training step with {names}, got --decode")


def _transformer(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from repro_mlir.roofline import Accelerator, read_machine
    from repro_mlir.roofline.transformer import (
        Parallelism,
        Training,
        predict_decoding,
        predict_training,
        read_transformer,
        report,
    )

    config = read_transformer(options.transformer)
    machine, changes = read_machine(options.machine), dict[str, str]()
    for name, value in options.set:
        add_change(changes, machine, name, value)
    machine = machine.with_changes(changes)
    if not isinstance(machine, Accelerator):
        raise ReproError(f"{options.machine}: expected an accelerator, got a CPU")
    if options.sequence is not None:
        config = replace(config, sequence=options.sequence)
    if options.gather_operands and not options.decode:
        raise ReproError("expected --decode with --gather-operands")
    if options.decode:
        _check_decoding(options)
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
