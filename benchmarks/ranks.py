# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares three ways to run steps of a GPT: two ranks, one process with two threads, and PyTorch's DDP on two ranks.

    python benchmarks/ranks.py [--model GPT ...] [--counts 2 8] [--rounds 40]

torchrun starts the ranks with gloo and one thread each; a second measurement uses a sharded optimizer. All contestants
take turns in the same two processes: while one process works with two threads, the other one waits. Prints rows for
docs/performance: milliseconds of a step (median, best in brackets) in wall-clock time, the processor time of both
processes together, and the ratios of the times.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import loops
import repro_mlir
import torch
import torch.distributed as dist
from repro_mlir.integrations.torch_distributed import connect
from timing import Figure
from torch.nn.parallel import DistributedDataParallel
from training_models import GPT

SIZE = 2
RANKS, SHARDED, PROCESS, DDP = "ranks", "sharded ranks", "one process", "DDP"
# The last model is that of the GPT step in goals.py, but without blockwise attention.
MODELS = {**loops.MODELS, "large GPT": ((6, 6, 384, 256, 8192), 8)}
_ALL = RANKS, SHARDED, PROCESS, DDP
_PAIRS = [(key, other) for key in (RANKS, SHARDED) for other in (PROCESS, DDP)]
# A turn begins with one call that is not timed. The timed calls, at least one, take about this many seconds together.
_TURN_SECONDS = 0.3
_SETTLE_SECONDS = 0.05


def _contestants(name: str, count: int) -> dict[str, tuple[Callable[[], float], Sequence[int]]]:
    """Returns, for each contestant, the function that runs a step on this rank, and the ranks that take part in a
    step."""
    sizes, rows = MODELS[name]
    *_, length, vocabulary = sizes
    letters = torch.randint(vocabulary, (rows, length + 1), generator=torch.Generator().manual_seed(0))
    batch = letters[:, :-1].contiguous(), letters[:, 1:].contiguous()

    def make() -> tuple[GPT, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = GPT(*sizes)
        return model, torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    steps: dict[str, tuple[Callable[[], float], Sequence[int]]] = {}
    for key in (RANKS, SHARDED):
        ranks = connect(shard_optimizer=key == SHARDED)
        ours = repro_mlir.Trainer(*_arguments(make()), threads=1, microbatches=count, ranks=ranks)
        steps[key] = (lambda ours=ours: ours.step(*batch), range(SIZE))
    if ranks.rank == 0:
        alone = repro_mlir.Trainer(*_arguments(make()), threads=SIZE, microbatches=count)
        steps[PROCESS] = (lambda: alone.step(*batch), (0,))
    else:
        steps[PROCESS] = (lambda: 0.0, (0,))
    model, optimizer = make()
    replica = DistributedDataParallel(model)
    share = [each.chunk(SIZE)[ranks.rank] for each in batch]
    pieces = [*zip(*(each.chunk(count // SIZE) for each in share), strict=True)]

    def step() -> float:
        optimizer.zero_grad()
        total = 0.0
        with replica.no_sync():
            for piece in pieces[:-1]:
                total += _backward(replica, piece, len(pieces))
        total += _backward(replica, pieces[-1], len(pieces))
        optimizer.step()
        return total

    steps[DDP] = (step, range(SIZE))
    return steps


def _arguments(made: tuple[GPT, torch.optim.Optimizer]) -> tuple[GPT, None, torch.optim.Optimizer]:
    model, optimizer = made
    return model, None, optimizer


def _backward(replica: torch.nn.Module, piece: Sequence[torch.Tensor], count: int) -> float:
    loss = replica(*piece) / count
    loss.backward()
    return loss.item()


def _turn(function: Callable[[], object], taking_part: bool, calls: int) -> tuple[float, float]:
    """Runs the calls of a contestant's turn. Returns, per call, the wall-clock seconds, and the processor seconds of
    both ranks together."""
    dist.barrier()
    if taking_part:
        function()
    dist.barrier()
    time.sleep(_SETTLE_SECONDS)
    dist.barrier()
    start, used = time.perf_counter(), time.process_time()
    if taking_part:
        for _ in range(calls):
            function()
    seconds = (time.perf_counter() - start) / calls
    processor = torch.tensor([(time.process_time() - used) / calls])
    dist.all_reduce(processor)
    return seconds, processor.item()


def _calls(function: Callable[[], object], taking_part: bool) -> int:
    """Returns the number of calls in a turn. All ranks use the number that rank 0 determines."""
    start = time.perf_counter()
    if taking_part:
        function()
    seconds = torch.tensor([time.perf_counter() - start])
    dist.broadcast(seconds, 0)
    return max(1, round(_TURN_SECONDS / seconds.item()))


def _measure(name: str, count: int, rounds: int) -> dict[str, tuple[Figure, Figure]]:
    contestants, rank = _contestants(name, count), dist.get_rank()
    for function, taking in contestants.values():
        if rank in taking:
            function()
    calls = {key: _calls(function, rank in taking) for key, (function, taking) in contestants.items()}
    samples: dict[str, list[tuple[float, float]]] = {key: [] for key in contestants}
    names = [*contestants]
    for number in range(rounds):
        for key in names[number % len(names) :] + names[: number % len(names)]:
            function, taking = contestants[key]
            samples[key].append(_turn(function, rank in taking, calls[key]))
    return {
        key: (Figure.of([each for each, _ in values]), Figure.of([each for _, each in values]))
        for key, values in samples.items()
    }


def _shown(figure: Figure) -> str:
    return f"{figure.median * 1e3:.1f} ({figure.best * 1e3:.1f})"


def _rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    first = dist.get_rank() == 0
    for name in options.model:
        for count in options.counts:
            found = _measure(name, count, options.rounds)
            if not first:
                continue
            cells = [name, str(count), *(_shown(each) for key in _ALL for each in found[key])]
            for key, other in _PAIRS:
                by_clock, of_processor = ((found[other][i], found[key][i]) for i in range(2))
                cells += [f"{a.median / b.median:.2f} ({a.best / b.best:.2f})" for a, b in (by_clock, of_processor)]
            print(f"| {' | '.join(cells)} |", flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--counts", nargs="+", type=int, default=[2, 8], help="microbatches")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    if "RANK" in os.environ:
        _rank(options)
        return
    date = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    print(f"{platform.machine()}; PyTorch {torch.__version__}; {date}; load {os.getloadavg()[0]:.1f}")
    heads = [f"{key}, {what}" for key in _ALL for what in ("ms", "processor ms")]
    heads += [f"{other} over {key}, {what}" for key, other in _PAIRS for what in ("clock", "processor")]
    print(f"| model | microbatches | {' | '.join(heads)} |")
    print("| --- " * (len(heads) + 2) + "|", flush=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(SIZE)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    raise SystemExit(subprocess.run([*launcher, __file__, *sys.argv[1:]], env=environment).returncode)


if __name__ == "__main__":
    main()
