# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A training loop that resumes exactly, unless --omit names state that it does not restore.

With --break, the script cannot be checked, for a reason other than its checkpoint.
"""

import argparse
import random
import sys
import time

import numpy as np
import torch
from torch import nn


class Noise(nn.Module):
    """Adds noise of NumPy's and Python's generators; a buffer that no state_dict contains counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()), persistent=False)
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.scale *= 0.99
        return x + self.scale * float(np.random.rand()) + random.random() + 0.01 * self.calls


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--save", required=True)
    parser.add_argument("--resume")
    parser.add_argument("--save-every", type=int)
    parser.add_argument("--omit", default="")
    parser.add_argument("--break", dest="broken", default="")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    omitted = options.omit.split(",")
    if options.broken == "crash":
        raise ValueError("no such data set")
    if options.broken == "hang":
        time.sleep(600)
    seed = time.time_ns() if options.broken == "seed" else 0
    torch.manual_seed(seed)
    np.random.seed(seed % 1000)
    random.seed(seed)

    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), Noise(), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if options.broken == "schedule":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    else:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=4)
    data = torch.utils.data.TensorDataset(torch.randn(48, 4), torch.randint(2, (48,)))
    order = torch.Generator().manual_seed(1)
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True, generator=order)
    criterion = nn.CrossEntropyLoss()
    step = 0
    saved = None
    if options.resume:
        saved = torch.load(options.resume, weights_only=False)
        if "buffers" in omitted:
            parameters = {name: value for name, value in saved["model"].items() if "running" not in name}
            model.load_state_dict(parameters, strict=False)
        elif "model" not in omitted:
            model.load_state_dict(saved["model"])
        for name, value in {
            "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "average": average,
        }.items():  # fmt: skip
            if name not in omitted:
                value.load_state_dict(saved[name])
        step = saved["step"]
        if "order" not in omitted:
            order.set_state(saved["order"])
        if "calls" not in omitted:
            model[2].calls.fill_(saved["calls"])
            average.module[2].calls.fill_(saved["calls"])
        if "scale" not in omitted:
            model[2].scale = saved["scale"]
    if options.broken == "steps":
        options.steps = 3
    skipped = step % len(loader) if saved and "order" not in omitted else 0
    while step < options.steps:
        begin_of_order = order.get_state()
        for number, (x, y) in enumerate(loader):
            if number < skipped:
                continue
            if step == options.steps:
                break
            if saved:
                if "torch" not in omitted:
                    torch.set_rng_state(saved["torch"])
                if "numpy" not in omitted:
                    np.random.set_state(saved["numpy"])
                if "python" not in omitted:
                    random.setstate(saved["python"])
                saved = None
            optimizer.zero_grad()
            scaler.scale(criterion(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            average.update_parameters(model)
            step += 1
            if step == options.steps or (options.save_every and step % options.save_every == 0):
                state = {
                    "model": model.state_dict(), "optimizer": optimizer.state_dict(), "average": average.state_dict(),
                    "scheduler": scheduler.state_dict(), "scaler": scaler.state_dict(), "step": step,
                    "order": begin_of_order, "calls": float(model[2].calls), "scale": model[2].scale,
                    "torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate(),
                }  # fmt: skip
                if options.broken != "save":
                    torch.save(state, options.save)
        skipped = 0


if __name__ == "__main__":
    main()
    sys.exit(0)
