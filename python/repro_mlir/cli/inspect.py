# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro inspect: shows the contents of a program file, a model, an MLIR module, a bundle or a receipt."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from repro_mlir.base.command_line import Status
from repro_mlir.base.compiler import require_compiler
from repro_mlir.base.errors import ReceiptWrong, ReproError
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.limits import limits
from repro_mlir.base.printing import count_of, tell
from repro_mlir.cli.file_kinds import (
    BUNDLE,
    MODULE,
    ONNX,
    PROGRAM,
    RECEIPT,
    SAVED_MODEL,
    STORED,
    STORED_STEP,
    FileKind,
    expect,
)
from repro_mlir.cli.options import (
    Commands,
    add_command,
    add_public_key,
    add_sizes,
    needs_compiler,
    read_program,
    refuse_sizes,
)
from repro_mlir.cli.wrong_receipt import tell_wrong

if TYPE_CHECKING:
    from repro_mlir.program.microbatches import StepProgram

_NOTES = """exit status:
  0  the file was shown; no step is run, and a receipt is not verified: see repro verify
  1  the receipt is wrong: its signature is not valid, or its seal contradicts its records or the names of its files
  2  the file cannot be shown, or this program failed
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro inspect`."""
    command = add_command(
        commands,
        "inspect",
        _inspect,
        "show what a program, a bundle or a receipt contains",
        "Shows the contents of a program file, an ONNX model, a SavedModel, an MLIR module, a bundle or a receipt.",
    )
    command.epilog = _NOTES
    command.add_argument(
        "program",
        metavar="FILE",
        help="written by repro compile, Program.save or train --receipt (also the programs in a receipt), or ONNX, "
        "SavedModel or MLIR" + needs_compiler(of="ONNX, SavedModel and MLIR"),
    )
    add_sizes(command)
    command.add_argument(
        "--text",
        action="store_true",
        help="print the canonical module (of a receipt: of its first program)" + needs_compiler(),
    )
    add_public_key(command)


def _inspect(options: argparse.Namespace) -> int:
    if options.text:
        require_compiler("--text")
    from repro_mlir.program import Program
    from repro_mlir.program.inspection import count_operations

    found = expect(options.program, PROGRAM, BUNDLE, RECEIPT, STORED, STORED_STEP, MODULE, ONNX, SAVED_MODEL)
    if found is RECEIPT or (found is None and Path(options.program).is_dir()):
        return _inspect_receipt(options)
    if found is BUNDLE:
        return _inspect_bundle(options)
    if options.key:
        raise ReproError(f"{options.program}: expected a bundle or a receipt with --key: a program has no signature")
    program = _read(options, found)
    if options.text:
        tell(*program.text.splitlines())
        return 0
    parts = [program] if isinstance(program, Program) else [program.part, program.finish]
    operations = sum((Counter(count_operations(each.data)) for each in parts), Counter[str]())
    elements = sum(int(np.prod(kind.shape, dtype=np.int64)) for kind in program.state)
    size = sum(kind.nbytes for kind in program.state)
    if options.json:
        report = {
            "program": program.hash,
            "state": [str(kind) for kind in program.state],
            "inputs": [str(kind) for kind in program.inputs],
            "outputs": [str(kind) for kind in program.outputs],
            "state_elements": elements,
            "state_bytes": size,
            "operations": operations,
        }
        tell(json.dumps(report))
        return 0
    tell(f"program  {program.hash}")
    if not isinstance(program, Program):
        microbatches = count_of(program.microbatches.count, "microbatch", "microbatches")
        tell(f"step     in {microbatches}; ops are those of one microbatch and of the end of the step")
    tell(f"state    {count_of(len(program.state), 'tensor')}, {count_of(elements, 'element')}, {size:,} bytes")
    for title, kinds in (("inputs", program.inputs), ("outputs", program.outputs)):
        for i, kind in enumerate(kinds):
            tell(f"{title if i == 0 else '':8} {kind}")
    for i, (name, count) in enumerate(sorted(operations.items(), key=lambda item: (-item[1], item[0]))):
        tell(f"{'ops' if i == 0 else '':8} {count:6} {name}")
    return 0


def _read(options: argparse.Namespace, found: FileKind | None) -> StepProgram:
    """Returns the program in a file of the kind `found`; that of a receipt has no initial state."""
    from repro_mlir.program.microbatches import MicrobatchError, programs_of, read_microbatches
    from repro_mlir.program.program import read_signature, read_untrusted

    path = options.program
    if found not in (STORED, STORED_STEP):
        return read_program(path, options.size)
    refuse_sizes(path, options.size)
    data = read_regular(path, limits().text_bytes, follow=True)
    if found is STORED:
        return read_signature(read_untrusted(data, path), untrusted=True)
    try:
        for part in programs_of(data):
            read_untrusted(part, path)
        return read_microbatches(data)
    except MicrobatchError as error:
        raise ReproError(f"{path}: {error}") from None


def _inspect_receipt(options: argparse.Namespace) -> int:
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.signing import read_public_key
    from repro_mlir.verification.receipts.summary import summarize

    key = read_public_key(options.key) if options.key else None
    try:
        receipt = Receipt(options.program)
        if options.text:
            tell(*receipt.program.text.splitlines())
            return 0
        summary = summarize(receipt, key)
    except ReceiptWrong as wrong:
        return tell_wrong({"receipt": options.program}, wrong, options.json)
    status = Status.WRONG if summary.conflicts else Status.RIGHT
    if options.json:
        tell(json.dumps(dataclasses.asdict(summary)))
        return status
    tell(*summary.lines())
    tell("         as the receipt states, not verified: run repro verify")
    return status


def _inspect_bundle(options: argparse.Namespace) -> int:
    from repro_mlir.cli.bundle_signature import check_signature
    from repro_mlir.program import read_untrusted
    from repro_mlir.program.canonical import examine_admitted, from_bytes
    from repro_mlir.runner.bundle import Bundle
    from repro_mlir.verification.receipts.signing import read_public_key

    key = read_public_key(options.key) if options.key else None
    bundle = Bundle(options.program)
    signed_by = check_signature(bundle, key)
    data = read_untrusted(bundle.module(), bundle.path)
    if options.text:
        tell(*from_bytes(data).splitlines())
        return 0
    examined = examine_admitted(data)
    if examined.identity != bundle.program:
        raise ReproError(f"{options.program}: expected program {bundle.program} (manifest), got {examined.identity}")
    sizes = bundle.member_sizes()
    codes = [bundle.code(architecture) for architecture in bundle.architectures]
    report = {
        "program": bundle.program,
        "compiler": bundle.compiler,
        "state": [str(kind) for kind in bundle.state],
        "inputs": [str(kind) for kind in bundle.inputs],
        "outputs": [str(kind) for kind in bundle.outputs],
        "state_bytes": sum(kind.nbytes for kind in bundle.state),
        "initial_state": bundle.initial_state_hash,
        "targets": {
            code.architecture: {
                "kernels": len(code.plan.kernels),
                "launches": len(code.plan.launches),
                "arena_bytes": code.plan.arena_size,
                "ptx_bytes": len(code.ptx),
                "cubin_bytes": len(code.cubin or b""),
            }
            for code in codes
        },
        "steps": bundle.steps,
        "expected": bundle.expected.state if bundle.expected else {},
        "members": sizes,
        "signed_by": signed_by,
    }
    if options.json:
        tell(json.dumps(report))
        return 0
    tell(f"program  {bundle.program}")
    tell(f"compiler {bundle.compiler}")
    tensors = count_of(len(bundle.state), "tensor")
    tell(f"state    {tensors}, {report['state_bytes']:,} bytes, {bundle.initial_state_hash}")
    for title, kinds in (("inputs", bundle.inputs), ("outputs", bundle.outputs)):
        for i, kind in enumerate(kinds):
            tell(f"{title if i == 0 else '':8} {kind}")
    for i, code in enumerate(codes):
        plan = code.plan
        cubin = f", cubin {len(code.cubin):,}" if code.cubin else ""
        tell(
            f"{'targets' if i == 0 else '':8} {code.architecture}: {len(plan.kernels)} kernels, {len(plan.launches)} "
            f"launches, arena {plan.arena_size:,} bytes, PTX {len(code.ptx):,} bytes{cubin}"
        )
    tell(f"steps    {bundle.steps} recorded")
    for step, state in (bundle.expected.state if bundle.expected else {}).items():
        tell(f"expected {state} after {count_of(step, 'step')}")
    tell(f"signed   {'by ' + signed_by if signed_by else 'no'}")
    return 0
