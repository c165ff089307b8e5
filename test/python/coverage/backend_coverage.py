# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the OpInfo and ModuleInfo entries of PyTorch that torch.compile compiles with our backend.

As a script: for every float32 entry, in a process of its own, compiles, as one graph, the first sample that has a
result, forward and backward, and compares values and gradients with eager mode. Prints one JSON line per entry.

    python test/python/coverage/backend_coverage.py [--jobs N] [--accept] [NAME ...]

With --accept, the outcomes become the expected ones (expected_torch_compile.json), and docs/coverage/torch-compile.md
is rewritten. Names of module entries start with "module ".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import operator_coverage
from suite import Outcome, Suite, first_line, run_script

STAGES = ("no-sample", "dynamo", "capture", "accuracy", "crash", "timeout", "ok")
"""Stages at which an entry can end. `dynamo`: torch.compile itself does not make one graph of the entry."""

_MODULE = "module "


def entries() -> list[str]:
    """Returns the names of all entries."""
    import opinfo_capture
    from torch.testing._internal.common_modules import module_db

    modules = {f"{_MODULE}{info.name}" for info in module_db}
    return [*opinfo_capture.entries(), *sorted(modules)]


def _module_case(name: str) -> tuple[Callable[..., Any], list[Any]]:
    import torch
    from opinfo_capture import NoSampleError
    from torch.testing._internal.common_modules import module_db

    info = next(info for info in module_db if info.name == name)
    torch.manual_seed(0)
    inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True)
    chosen = next((given for given in inputs if given.forward_input is not None), None)
    if chosen is None:
        raise NoSampleError(name)
    made, called = chosen.constructor_input, chosen.forward_input
    # Some samples pass options of any float type as float64, which eager PyTorch does not accept together with float32.
    options = {k: v.float() if getattr(v, "dtype", None) is torch.float64 else v for k, v in made.kwargs.items()}
    module = info.module_cls(*made.args, **options).eval()
    return lambda *args: module(*args, **called.kwargs), [*called.args]


def run_entry(name: str) -> Outcome:
    """Compiles and compares an entry in this process. Returns the stage that it reached; never raises an exception."""
    import opinfo_capture
    import repro_mlir
    import torch
    from torch.testing._internal import common_methods_invocations

    stage = "capture"
    try:
        if name.startswith(_MODULE):
            function, arguments = _module_case(name.removeprefix(_MODULE))
        else:
            function, arguments = opinfo_capture.choose(opinfo_capture.entries()[name])
        # PyTorch wraps some functions to set the seed. Dynamo cannot trace the wrapper, and `_run` sets the seed
        # itself.
        common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)
        backend = repro_mlir.backend(threads=1)
        with torch._dynamo.config.patch(allow_rnn=True):
            found = _run(torch.compile(function, backend=backend, fullgraph=True), arguments)
        stage = "accuracy"
        expected = _run(function, arguments)
        is_random = "empty" in name or any("repro.random" in program.text for program in backend.programs)
        if is_random:
            found, expected = ([each.shape for each in values] for values in (found, expected))
        else:
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True)
        assert len(found) == len(expected)
    except opinfo_capture.NoSampleError:
        return Outcome(name, "no-sample", "no sample")
    except torch._dynamo.exc.BackendCompilerFailed as error:
        return Outcome(name, "capture", first_line(error.inner_exception))
    except torch._dynamo.exc.TorchDynamoException as error:
        return Outcome(name, "dynamo", first_line(error))
    except (Exception, SystemExit) as error:
        return Outcome(name, stage, f"{type(error).__name__}: {first_line(error)}")
    return Outcome(name, "ok")


def run_all(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Runs each entry in a process of its own, `jobs` at a time, and yields the outcomes as the processes end."""
    import torch

    # Running an entry here loads the modules once for all child processes. Loading takes longer than most entries. The
    # reset makes Dynamo forget the sizes that it has seen.
    run_entry("abs")
    torch._dynamo.reset()
    return operator_coverage.run_all(names, jobs, run_entry)


def _run(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    """Returns the results of a function, followed by the gradients of its arguments."""
    import torch
    import torch.utils._pytree as pytree

    torch.manual_seed(1)
    leaves, spec = pytree.tree_flatten(copy.deepcopy([_plain(each) for each in arguments]))
    tensors = [
        leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]
    results = [
        each for each in pytree.tree_leaves(function(*pytree.tree_unflatten(tensors, spec)))
        if isinstance(each, torch.Tensor)
    ]  # fmt: skip
    sources = [each for each in tensors if isinstance(each, torch.Tensor) and each.requires_grad]
    differentiable = [each for each in results if each.requires_grad]
    gradients: list[Any] = []
    if sources and differentiable:
        cotangents = [torch.linspace(-1, 1, each.numel()).reshape(each.shape).to(each.dtype) for each in differentiable]
        found = torch.autograd.grad(differentiable, sources, cotangents, allow_unused=True)
        gradients = [torch.zeros_like(s) if g is None else g for s, g in zip(sources, found, strict=True)]
    return [each.detach() for each in (*results, *gradients)]


def _plain(value: Any) -> Any:
    import torch

    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def _about() -> list[str]:
    return [
        "The entries are PyTorch's operator tests (OpInfo, float32) and module tests (ModuleInfo), each as one graph",
        "of `torch.compile` with the backend of this package. `ok` means: values and gradients are close to those of",
        "eager PyTorch (rtol 1e-3, atol 1e-4); for random numbers only shapes are compared. `dynamo` means that",
        "`torch.compile` itself does not make one graph of it, as of CTCLoss and GaussianNLLLoss, which `Trainer`",
        "trains.",
    ]


SUITE = Suite(
    "backend_coverage.py",
    "torch-compile",
    "Coverage of torch.compile",
    STAGES,
    _about,
    columns={"of modules": lambda outcome: outcome.name.startswith(_MODULE)},
)


if __name__ == "__main__":
    run_script(__doc__, SUITE, entries, run_all)
