# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Maps a training step of a large transformer onto boards of SpiNNaker2 chips, and measures what this takes.

python benchmarks/map_transformer.py [--layers 26] [--width 1792] [--boards 8]

The model is a GPT with AdamW. Nothing is executed: the weights are memory that no one touches, so that the program has
their shapes but this machine needs no memory for them. The script prints the seconds and the peak memory of the capture
and of the mapping, and the mapping as `repro map` prints it.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import torch
from repro_mlir.base.printing import tell
from repro_mlir.frontends.torch.scripts import Training
from repro_mlir.roofline.cores import lines_of, map_step
from training_models import GPT


def main() -> None:
    """Captures and maps the step, and prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (
        ("layers", 26), ("width", 1792), ("heads", 14), ("context", 512), ("batch", 1), ("tokens", 256),
        ("boards", 8), ("rows", 20),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value, help=f"({value})")
    options = parser.parse_args()
    with torch.device("meta"):
        model = GPT(options.layers, options.heads, options.width, options.context, options.tokens)
    model.to_empty(device="cpu")
    model.head.weight = model.letters.weight
    parameters = sum(each.numel() for each in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    batch = (torch.zeros(options.batch, options.context, dtype=torch.int64),) * 2
    begin = _report(f"{parameters:,} parameters", time.perf_counter())
    program, _ = Training(model, None, optimizer, [batch], {}, None).capture(batch)
    begin = _report(f"captured: {len(program.data):,} bytes of program", begin)
    # The chips of a board are a rectangle of 8 x 6, and the boards lie in two columns.
    columns = 2 if options.boards > 1 and options.boards % 2 == 0 else 1
    chips = {"columns": 8 * columns, "rows": 6 * options.boards // columns}
    machine = {
        "kind": "cores", "extends": "spinnaker2-board",
        "chips": {name: {"value": value, "source": f"{options.boards} boards"} for name, value in chips.items()},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "boards.json"
        file.write_text(json.dumps(machine))
        mapping = map_step(program, str(file))
    _report("mapped", begin)
    tell(*lines_of(mapping, options.rows))


def _report(what: str, begin: float) -> float:
    """Prints the seconds since `begin` and the peak memory. Returns the time now."""
    now = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tell(f"{what}, {now - begin:.1f} s, peak of {peak:.2f} GiB")
    return now


if __name__ == "__main__":
    main()
