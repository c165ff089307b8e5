# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Options of commands that torchrun or mpirun starts as several processes (ranks)."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from repro_mlir.base.errors import ReproError

if TYPE_CHECKING:
    from repro_mlir.distributed import Ranks
    from repro_mlir.distributed.ranks import Shares


def add_ranks(command: argparse.ArgumentParser) -> None:
    """Adds the options of commands that torchrun or mpirun may start."""
    group = command.add_argument_group("options under torchrun or mpirun")
    group.add_argument("--shares", metavar="N:N...", help="each rank's share of the work, or `measured` (equal shares)")
    group.add_argument(
        "--check-share",
        type=float,
        metavar="P",
        help="the part of each rank's work that another rank repeats, from 0 to 1 (0)",
    )
    group.add_argument(
        "--shard-optimizer",
        action="store_true",
        default=None,
        help="each rank holds and updates only its own part of the optimizer's state",
    )
    help_text = "the target of rank R, in place of --target (repro targets lists the names)"
    group.add_argument("--target-of", metavar="R=T,...", help=help_text)


def ranks_of(options: argparse.Namespace) -> Ranks | None:
    """Returns the ranks that torchrun or mpirun has started, or None for a single process. Raises ReproError if an
    option is malformed, or applies only to several ranks and there are none."""
    from repro_mlir.integrations.launchers import is_launched, launched_ranks

    shares: Shares = None
    if options.shares == "measured":
        shares = "measured"
    elif options.shares is not None:
        if not re.fullmatch(r"\d{1,9}(:\d{1,9})*", options.shares):
            raise ReproError(f"expected --shares as numbers, such as 5:2:1, or measured, got {options.shares!r}")
        shares = [int(share) for share in options.shares.split(":")]
    ranks = launched_ranks(shares, options.check_share or 0.0, bool(options.shard_optimizer))
    if ranks is not None:
        return ranks
    # If a launcher has started only one rank, --check-share and --shard-optimizer are accepted but have no effect.
    names = ("shares", "target_of") if is_launched() else ("shares", "check_share", "shard_optimizer", "target_of")
    for name in names:
        if getattr(options, name) is not None:
            raise ReproError(f"--{name.replace('_', '-')} needs several processes: start it with torchrun or mpirun")
    return None


def target_of(options: argparse.Namespace, ranks: Ranks | None) -> str:
    """Returns the target of this rank: that in --target-of, or else that in --target. Raises ReproError if --target-of
    is malformed, or has an unknown target or a rank that does not exist."""
    from repro_mlir.execute.executable import check_target

    target: str = options.target
    if ranks is None or options.target_of is None:
        return target
    for entry in options.target_of.split(","):
        rank, _, name = entry.partition("=")
        if not rank.isascii() or not rank.isdigit() or not name or int(rank) >= ranks.size:
            raise ReproError(
                f"expected --target-of such as 0=cpu,1=ptx-emulator with ranks below {ranks.size}, got {entry!r}"
            )
        check_target(name)
        if int(rank) == ranks.rank:
            target = name
    return target
