# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Trains with each method of gradient compression on different numbers of ranks, and compares bytes, loss and hash.

    python benchmarks/gradient_compression.py [--script examples/names_gpt.py] [--steps 300] [--ranks 1 2 4]

--script names a script for `repro train`. torchrun starts the ranks as processes with gloo and one thread. Prints rows
for docs/guides/gradient-compression.md: the bytes of the compressed gradients of a microbatch (for power_sgd, of the
mean gradients), their share of the bytes of f32 gradients, the mean loss of the last ten steps, and the beginning of
the state's hash, printed once if it is equal for all numbers of ranks.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import repro_mlir
from repro_mlir.distributed import Ranks
from repro_mlir.frontends.torch.scripts import load_training
from repro_mlir.gradient_compression import (
    QSGD,
    Blocks,
    GradientCompression,
    OneBit,
    PowerSGD,
    TopK,
    compression_to_json,
)

METHODS: dict[str, GradientCompression | None] = {
    "none": None,
    "top_k 0.1": TopK(0.1),
    "top_k 0.01": TopK(0.01),
    "one_bit": OneBit(),
    "qsgd 4": QSGD(4),
    "qsgd 64": QSGD(64),
    "power_sgd 1": PowerSGD(1),
    "power_sgd 4": PowerSGD(4),
    "blocks mxfp8": Blocks.named("mxfp8"),
    "blocks mxfp4": Blocks.named("mxfp4"),
    "blocks nvfp4": Blocks.named("nvfp4"),
}
_AVERAGED = 10
_MARK = "result "


def _train(script: str, steps: int, microbatches: int, method: str, ranks: Ranks | None) -> None:
    """Trains once with a compression method, and prints the results."""
    given, compression = load_training(script), METHODS[method]
    options = given.options | {
        "microbatches": microbatches,
        "gradient_compression": None if compression is None else compression_to_json(compression),
    }
    trainer = repro_mlir.Trainer(given.model, given.loss_fn, given.optimizer, threads=1, ranks=ranks, **options)
    losses = trainer.fit(given.batches, steps)
    shapes = [tuple(value.shape) for value in given.model.parameters() if value.requires_grad]
    full = sum(4 * math.prod(shape) for shape in shapes)
    size = full if compression is None else sum(map(compression.bytes_of, shapes))
    last = losses[-_AVERAGED:]
    found = {"method": method, "bytes": size, "of": full, "loss": sum(last) / len(last), "hash": trainer.state_hash()}
    if ranks is None or ranks.rank == 0:
        print(_MARK + json.dumps(found), flush=True)


def _run(options: argparse.Namespace, size: int) -> dict[str, dict[str, object]]:
    """Returns the results for each method on `size` ranks."""
    arguments = [__file__, "--script", options.script, "--steps", str(options.steps), "--worker", str(size)]
    arguments += ["--microbatches", str(options.microbatches), "--methods", *options.methods]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)] if size > 1 else []
    done = subprocess.run([sys.executable, *launcher, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    return {found["method"]: found for found in map(json.loads, lines)}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--script", default=str(Path(__file__).parents[1] / "examples" / "names_gpt.py"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS], default=[*METHODS])
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        from repro_mlir.integrations.torch_distributed import connect

        for method in options.methods:
            ranks = connect() if options.worker > 1 else None
            _train(options.script, options.steps, options.microbatches, method, ranks)
        return
    found = [_run(options, size) for size in options.ranks]
    print(f"| method | bytes | of f32 | loss after {options.steps} steps | hash on {options.ranks} ranks |")
    print("| --- | ---: | ---: | ---: | --- |")
    for method in options.methods:
        first, *_ = rows = [each[method] for each in found]
        share = f"{first['bytes'] / first['of']:.1%}"  # type: ignore[operator]
        hashes = dict.fromkeys(str(row["hash"])[:12] for row in rows)
        print(f"| {method} | {first['bytes']:,} | {share} | {first['loss']:.4f} | {', '.join(hashes)} |", flush=True)


if __name__ == "__main__":
    main()
