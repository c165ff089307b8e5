# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""repro train: trains the model that a script describes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from repro_mlir.base.command_line import positive
from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.storage import check_can_write, write_file
from repro_mlir.base.numerics.tensors import canonical_of
from repro_mlir.base.printing import count_of, tell
from repro_mlir.cli.file_kinds import SCRIPT, expect
from repro_mlir.cli.options import Commands, add_command, add_numerics, add_script, numerics_of, told_next
from repro_mlir.cli.ranks import add_ranks, ranks_of, target_of
from repro_mlir.cli.target import add_target
from repro_mlir.verification.receipts.options import NONFINITE_LOSS, ReceiptOptions

_NOTES = """examples:
  repro train examples/digits_cnn.py --steps 300
  repro train examples/digits_cnn.py --steps 300 --receipt digits.receipt --checkpoint-every 50
  repro train examples/digits_cnn.py --steps 600 --receipt digits.receipt --resume
  repro train examples/digits_cnn.py --steps 100 --target ptx-emulator
"""


def register(commands: Commands) -> None:
    """Adds the parser of `repro train`."""
    command = add_command(commands, "train", _train, "train the model of a script")
    command.epilog = _NOTES
    add_script(command)
    command.add_argument("--steps", type=positive, required=True, metavar="N", help="training steps")
    command.add_argument(
        "--nonfinite-loss",
        choices=NONFINITE_LOSS,
        help="what to do after a loss that is NaN or infinite (the script's choice, or warn)",
    )
    command.add_argument("--save", metavar="FILE", help="write the final state (safetensors)")
    command.add_argument("--receipt", metavar="DIR", help="record the run, for repro verify")
    command.add_argument("--resume", action="store_true", help="continue the receipt if it exists")
    command.add_argument(
        "--checkpoint-every",
        type=positive,
        metavar="N",
        help="steps between the states that the receipt keeps (100, or those of a resumed receipt)",
    )
    command.add_argument(
        "--leave-batches",
        action="store_true",
        help="do not store the batches in the receipt: its verification then needs the script",
    )
    command.add_argument(
        "--microbatches-every",
        type=positive,
        metavar="N",
        help="steps between those that commit to each of their microbatches, for repro verify --microbatches (never)",
    )
    command.add_argument("--sign", metavar="KEY", help="sign the receipt with this ed25519 private key (PEM)")
    add_target(command)
    add_numerics(command)
    add_ranks(command)


def _train(options: argparse.Namespace) -> int:
    from repro_mlir.base.files.tensor_file import write_tensors
    from repro_mlir.execute.executable import check_runs
    from repro_mlir.frontends.torch.scripts import load_training
    from repro_mlir.train.options import TrainKeywords
    from repro_mlir.train.trainer import Trainer
    from repro_mlir.verification.receipts.signing import PrivateKey

    expect(options.script, SCRIPT)
    ranks = ranks_of(options)
    target = target_of(options, ranks)
    check_runs(target)
    receipt = _receipt(options)
    if receipt is not None and (ranks is None or ranks.rank == 0):
        receipt.check_begins()
        if options.sign is not None:
            PrivateKey(options.sign)
    if options.save:
        check_can_write(options.save, ".safetensors")
    given = load_training(options.script, **numerics_of(options))
    if given.steps not in (None, options.steps) and (ranks is None or ranks.rank == 0):
        tell(
            f"repro: training() has steps={given.steps}, its default, and does not get --steps {options.steps}: "
            "a schedule over `steps` keeps its length",
            stream=sys.stderr,
        )
    chosen: TrainKeywords = {
        **given.options,
        **{"target": target, "threads": options.threads, "ranks": ranks, "receipt": receipt},
    }
    if options.nonfinite_loss is not None:
        chosen["nonfinite_loss"] = options.nonfinite_loss
    start = time.perf_counter()
    try:
        with Trainer(given.model, given.loss_fn, given.optimizer, **chosen) as trainer:
            losses = trainer.fit(given.batches, options.steps)
            # Must be inside the `with` block: the ranks exchange state, so all of them must still be running.
            trainer.bring_back()
    except KeyboardInterrupt:
        if receipt is not None and (ranks is None or ranks.rank == 0):
            words = sys.argv[1:] if options.resume else [*sys.argv[1:], "--resume"]
            tell(told_next("repro", *words), stream=sys.stderr)
        raise
    seconds = time.perf_counter() - start
    if ranks is not None and ranks.rank > 0:
        # All ranks have the same state, so only rank 0 saves and reports it.
        return 0
    if options.save:
        kinds = trainer.program.state
        # The script may have written NaNs whose bits are not those of the canonical NaN.
        arrays = [canonical_of(trainer.state[kind.name], kind.element) for kind in kinds]
        write_file(options.save, write_tensors(kinds, arrays))
    report = {
        "program": trainer.program.hash,
        "target": target,
        "threads": trainer.executable.threads,
        "steps": trainer.steps,
        "losses": losses,
        "loss": losses[-1] if losses else None,
        "seconds": round(seconds, 3),
        "state_hash": trainer.state_hash(),
        "receipt": options.receipt,
    }
    if options.json:
        tell(json.dumps(report))
    else:
        tell(f"loss     {_told_losses(losses, trainer.steps, options.receipt)}")
        tell(f"state    {report['state_hash']}")
        tell(f"program  {report['program']}")
        tell(f"time     {seconds:.1f} s on {target}, threads: {report['threads']}")
        if options.save:
            tell(f"file     {options.save}")
        if options.receipt:
            tell(f"receipt  {options.receipt}")
            tell(told_next("repro", "verify", options.receipt, "--steps", "sample:2"))
    return 0


def _told_losses(losses: Sequence[float], steps: int, receipt: str | None) -> str:
    """Describes the losses of the steps that this command ran, the last ones of `steps` steps. If it ran none, the
    receipt has the last loss."""
    told = f"after {count_of(steps, 'step')}"
    if losses:
        first = steps - len(losses) + 1
        return f"{losses[-1]:.6f} {told} ({'first' if first == 1 else f'step {first}:'} {losses[0]:.6f})"
    assert receipt is not None
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.step_log import loss_of

    found = Receipt(receipt)
    loss = loss_of(found.log[found.log.record_of(steps)], found.header)
    return f"{'unknown' if loss is None else f'{loss:.6f}'} {told}, all of which the receipt had"


def _receipt(options: argparse.Namespace) -> ReceiptOptions | None:
    if options.receipt is None:
        given = ("resume", "checkpoint_every", "leave_batches", "microbatches_every", "sign")
        wrong = [f"--{name.replace('_', '-')}" for name in given if getattr(options, name)]
        if wrong:
            raise ReproError(f"expected --receipt DIR with {', '.join(wrong)}")
        return None
    return ReceiptOptions(
        options.receipt,
        checkpoint_every=options.checkpoint_every,
        store_batches=not options.leave_batches,
        resume=options.resume,
        script=options.script,
        sign=options.sign,
        microbatches_every=options.microbatches_every,
    )
