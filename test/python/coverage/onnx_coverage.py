# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far each of ONNX's backend tests gets: a program, close to the expected outputs, bit-equal on CPUs.

As a script: runs every test of the onnx package (single operators and whole networks) through all stages, in separate
processes, and prints one JSON line per test and a table of counts.

    python test/python/coverage/onnx_coverage.py [--jobs N] [--accept] [NAME ...]

With --accept, the outcomes become the expected ones (expected_onnx.json), and docs/coverage/onnx.md is rewritten.
"""

from __future__ import annotations

import datetime
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import operator_coverage
from suite import Outcome, Suite, first_line, run_script

STAGES = ("capture", "interpret", "accuracy", "compile", "bits", "crash", "timeout", "ok")

TARGETS = ("cpu", "cpu:x86-64-v2")

_KINDS = ("node", "real", "simple", "pytorch-converted", "pytorch-operator")


@functools.cache
def entries() -> dict[str, Any]:
    """Returns the test cases of the onnx package by name. The name consists of the case's kind and of its name in the
    package."""
    with warnings.catch_warnings():
        # Loading computes expected outputs, some of which overflow and cause warnings.
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return {f"{kind}/{case.name}": case for kind in _KINDS for case in load_model_tests(kind=kind)}


def _array(value: Any) -> Any:
    """Converts a value of a test case to an array. Sequences and optional values are returned unchanged."""
    import onnx

    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path: Path) -> Any:
    import onnx

    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(tensor)


def _loaded(name: str) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """Returns the model of a test, or its path, and the data sets of the test: pairs of inputs and expected outputs."""
    import numpy as np
    import onnx

    case = entries()[name]
    if case.model is not None:
        return case.model, [tuple([_array(each) for each in group] for group in pair) for pair in case.data_sets]
    if case.url:
        # Tests of whole networks have no stored inputs; ONNX's own test runner makes them in this way.
        path = Path(onnx.__file__).parents[1] / case.url
        graph = onnx.load(path).graph
        initialized = {each.name for each in graph.initializer}
        inputs = []
        for each in graph.input:
            if each.name not in initialized:
                shape = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in each.type.tensor_type.shape.dim]
                count = int(np.prod(shape))
                inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
        return path, [(inputs, [_read(path.with_name(f"{path.stem}_output_0.pb"))])]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    kinds = [each.type.WhichOneof("value") for each in (*model.graph.input, *model.graph.output)]
    if any(kind != "tensor_type" for kind in kinds):
        return folder / "model.onnx", [([], [])]
    pairs = []
    for data in sorted(folder.glob("test_data_set*")):
        groups = [
            [_read(data / f"{what}_{i}.pb") for i in range(len([*data.glob(f"{what}_*.pb")]))]
            for what in ("input", "output")
        ]
        pairs.append((groups[0], groups[1]))
    return folder / "model.onnx", pairs


def run_entry(name: str) -> Outcome:
    """Runs a test through the stages in this process. Returns the stage that it reached; never raises an exception."""
    import numpy as np
    import onnx
    import repro_mlir
    from repro_mlir.frontends.onnx import load
    from repro_mlir.frontends.onnx.shaping import names_in_shapes

    stage = "capture"
    try:
        case = entries()[name]
        model, pairs = _loaded(name)
        proto = onnx.load(model) if isinstance(model, Path) else model
        initialized = {each.name for each in proto.graph.initializer}
        names = [each.name for each in proto.graph.input if each.name not in initialized]
        for inputs, expected in pairs:
            stage = "capture"
            # Inputs are in the order of the graph's inputs. A test may have fewer inputs than the graph, so `strict` is
            # False.
            given = dict(zip(names, inputs, strict=False))
            # Some inputs are shapes. A program has fixed shapes, so these inputs become constants.
            fixed = {name: value for name, value in given.items() if name in names_in_shapes(proto.graph)}
            varying = {name: value for name, value in given.items() if name not in fixed}
            program = load(model, inputs=varying, constants=fixed)
            arguments = [
                np.ascontiguousarray(array).view(kind.dtype).reshape(np.shape(array))
                for kind, array in zip(program.inputs, varying.values(), strict=True)
            ]
            stage = "interpret"
            _, want = repro_mlir.compile(program, "reference")(program.initial_state(), *arguments)
            stage = "accuracy"
            for kind, array in zip(program.outputs, expected, strict=True):
                _compare(want[kind.name], np.asarray(array), kind, case)
            for target in TARGETS:
                stage = "compile"
                executable = repro_mlir.compile(program, target, threads=1)
                stage = "bits"
                _, got = executable(program.initial_state(), *arguments)
                for kind in program.outputs:
                    if got[kind.name].tobytes() != want[kind.name].tobytes():
                        raise AssertionError(f"output {kind.name} has other bits on {target}")
    except (Exception, SystemExit) as error:
        reason = first_line(error)
        if stage == "accuracy":
            reason = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
            reason = re.sub(r"; ACTUAL.*", "", reason)[:200]
        return Outcome(name, stage, f"{type(error).__name__}: {reason}")
    return Outcome(name, "ok")


def _compare(got: Any, want: Any, kind: Any, case: Any) -> None:
    """Raises AssertionError if an output differs from the expected one by more than ONNX's own test runner allows."""
    import ml_dtypes
    import numpy as np
    from repro_mlir.base.numerics.elements import ELEMENTS

    element = ELEMENTS[kind.element]
    if element.is_bits:
        got = got.view(getattr(ml_dtypes, element.library))
    np.testing.assert_array_equal(got.shape, want.shape, "shape")
    np.testing.assert_equal(got.dtype, want.dtype)
    tolerance = case.rtol
    if element.is_bits:
        # For bf16, ONNX's own test runner allows two units in the last place.
        tolerance = max(tolerance, 2**-6) if kind.element == "bf16" else tolerance
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=case.atol)


def run_all(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Runs each test in a process of its own, `jobs` at a time, and yields the outcomes as the processes end."""
    # Running a test here loads the modules once for all child processes.
    run_entry("node/test_abs")
    # The largest networks take minutes on a busy machine, hence the limit of 15 minutes.
    return operator_coverage.run_all(names, jobs, run_entry, limit=900.0)


def _without_node(outcome: Outcome) -> Outcome:
    """Removes the node's name from the reason, and the kind of test from the entry's name, so that equal causes have
    equal texts."""
    reason = re.sub(r"node \S+ \(([\w.]+)\): ", "", outcome.reason)
    reason = re.sub(r"(in|out)put '\w+': ", "", reason)
    return Outcome(outcome.name.partition("/")[2].removeprefix("test_"), outcome.stage, reason)


def _about() -> list[str]:
    import onnx
    import repro_mlir
    import torch

    return [
        f"The entries are the tests of onnx {onnx.__version__} (their names begin with test), on",
        f"{datetime.date.today()} with repro-mlir {repro_mlir.__version__} and PyTorch",
        f"{torch.__version__.partition('+')[0]}: models of one operator (node, pytorch-operator), of layers",
        "(pytorch-converted, simple) and whole networks (real). `ok` means: a program, whose outputs in the reference",
        "interpreter are as close to the expected ones as the suite's own runner asks for (rtol 1e-3, atol 1e-7), and",
        f"have the same bits on {' and '.join(TARGETS)}. Inputs from which shapes are computed are constants of the",
        "program.",
    ]


def _is_of(kind: str) -> Callable[[Outcome], bool]:
    return lambda outcome: outcome.name.startswith(f"{kind}/")


SUITE = Suite(
    "onnx_coverage.py",
    "onnx",
    "Coverage of ONNX's backend tests",
    STAGES,
    _about,
    what="all",
    columns={kind: _is_of(kind) for kind in _KINDS},
    notes=[
        "The following are refused: strings, sequences and optional values as inputs or outputs, element types that",
        "no program has (V1), operators of ai.onnx.ml and of training, random numbers, and shapes that depend on",
        "tensor values.",
    ],
    shown=_without_node,
)


if __name__ == "__main__":
    run_script(__doc__, SUITE, entries, run_all)
