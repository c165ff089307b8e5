# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far the layers of Keras' own tests get: captured with gradients, imported, close to Keras, bit-equal on CPUs.

As a script: runs the layers of all `run_layer_test` calls of each test file through all stages, on both backends, and
writes one JSON line per file and a table of counts.

    python test/python/coverage/keras_coverage.py [--jobs N] [--out FILE] [--accept] [NAME ...]

With --accept, the outcomes become the expected ones (expected_keras.json), and docs/coverage/keras.md is rewritten.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import importlib
import importlib.util
import os
import re
import sys
import types
import unittest
import unittest.mock
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from processes import run_in_processes
from stages import LEVELS, STAGES, Run
from suite import Outcome, Suite, first_line, run_script

BACKENDS = "torch", "jax"


def _folder() -> Path:
    found = importlib.util.find_spec("keras")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "src" / "layers"


def entries() -> list[str]:
    """Returns the entries: a backend and a file whose tests call `run_layer_test`, such as
    `torch:core/dense_test.py`."""
    folder = _folder()
    files = [path for path in sorted(folder.rglob("*_test.py")) if ".run_layer_test(" in path.read_text()]
    return [f"{backend}:{path.relative_to(folder)}" for backend in BACKENDS for path in files]


class _Stub(types.ModuleType):
    """A stub of a package that a test file imports but that its layers do not need."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return unittest.mock.MagicMock()


@contextlib.contextmanager
def _stubs() -> Iterator[None]:
    """Installs stubs of the packages for data pipelines and of Keras' conftest.py, so that test files can be imported
    without them."""
    conftest = types.ModuleType("conftest")
    conftest.__dict__["skip_if_backend"] = lambda name, why: unittest.skipIf(name == os.environ["KERAS_BACKEND"], why)
    stubs = {"conftest": conftest, "grain": _Stub("grain"), "tensorflow": _Stub("tensorflow")}
    with unittest.mock.patch.dict(sys.modules, stubs):
        yield


def _calling(path: Path) -> list[tuple[str, str]]:
    """Returns the methods of a file that call `run_layer_test`, as pairs (class name, method name)."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    return [
        (owner.name, method.name)
        for owner in classes
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
        and method.name.startswith("test")
        and ".run_layer_test(" in ast.unparse(method)
    ]


def run_entry(name: str) -> Outcome:
    """Runs the layers of a test file through the stages in this process. The Keras backend of this process must be the
    one in `name`. Returns the outcome of the file."""
    from keras.src import testing

    path = _folder() / name.partition(":")[2]
    calls: list[Outcome] = []

    def run_layer_test(test: Any, layer_cls: Any, init_kwargs: Any, *arguments: Any, **options: Any) -> None:
        calls.append(_run_call(f"{test.id()}#{len(calls)}", layer_cls, init_kwargs or {}, *arguments, **options))

    former, testing.TestCase.run_layer_test = testing.TestCase.run_layer_test, run_layer_test
    try:
        relative = path.relative_to(_folder()).with_suffix("")
        with _stubs():
            module = importlib.import_module(".".join(["keras.src.layers", *relative.parts]))
        for owner, method in _calling(path):
            cls = getattr(module, owner)
            for each in unittest.defaultTestLoader.getTestCaseNames(cls):
                # The loader names the cases of a parameterized test after its method, with a number or a name appended.
                if re.fullmatch(rf"{method}(\d+.*|_.*)?", each):
                    cls(each).run(unittest.TestResult())
    except Exception as error:
        return Outcome(name, "no-sample", f"{type(error).__name__}: {first_line(error)}")
    finally:
        testing.TestCase.run_layer_test = former
    ran = [call for call in calls if call.stage != "no-sample"]
    failed = sorted((call for call in ran if call.stage != "ok"), key=lambda call: STAGES.index(call.stage))
    counted = f"{len(ran) - len(failed)} of {len(ran)} calls"
    if not ran:
        return Outcome(name, "no-sample", calls[0].reason if calls else "no call")
    backward = any(call.backward for call in ran)
    if not failed:
        return Outcome(name, "ok", counted, backward)
    return Outcome(name, failed[0].stage, f"{counted}; {failed[0].reason}", backward)


def _run_call(
    name: str,
    layer_cls: Any,
    init_kwargs: dict[str, Any],
    input_shape: Any = None,
    input_dtype: Any = None,
    input_sparse: bool = False,
    input_ragged: bool = False,
    input_data: Any = None,
    call_kwargs: dict[str, Any] | None = None,
    **_: Any,
) -> Outcome:
    """Runs the layer of one call through the stages. Returns the stage that it reached; never raises an exception."""
    import keras
    import numpy as np
    from keras.src.testing.test_case import create_eager_tensors
    from repro_mlir.frontends.keras import Scope, derived_tensors, import_function

    run = Run(name)
    call = call_kwargs or {}
    try:
        if input_sparse or input_ragged:
            return Outcome(name, run.stage, "sparse or ragged tensors")
        if input_data is None and input_shape is None:
            return Outcome(name, run.stage, "no input")
        keras.utils.set_random_seed(0)
        if input_data is None:
            dtypes = input_dtype or keras.tree.map_shape_structure(lambda _: "float32", input_shape)
            input_data = create_eager_tensors(input_shape, dtypes, False, False)
        data = keras.tree.map_structure(keras.ops.convert_to_tensor, input_data)
        layer = layer_cls(**init_kwargs)

        def apply(x: Any) -> Any:
            return layer(**x, **call) if isinstance(x, dict) else layer(x, **call)

        apply(data)
        leaves = keras.tree.flatten(data)
        given = {
            number: keras.Variable(leaf, trainable=False, dtype=leaf.dtype, name=f"input{number}")
            for number, leaf in enumerate(leaves)
            if keras.backend.is_float_dtype(keras.backend.standardize_dtype(leaf.dtype))
        }
        variables = [*layer.trainable_variables, *layer.non_trainable_variables, *given.values()]
        differentiable = [*layer.trainable_variables, *given.values()]

        def forward(data: Any) -> tuple[Any, Any]:
            flat = [given[number].value if number in given else leaf for number, leaf in enumerate(data)]
            with derived_tensors(layer):
                results = apply(keras.tree.pack_sequence_as(input_data, flat))
            total = keras.ops.zeros(())
            for leaf in keras.tree.flatten(results):
                if keras.backend.is_float_dtype(keras.backend.standardize_dtype(leaf.dtype)):
                    weights = keras.ops.cos(keras.ops.arange(int(np.prod(leaf.shape)), dtype="float32"))
                    product = keras.ops.cast(leaf, "float32") * keras.ops.reshape(weights, leaf.shape)
                    total = total + keras.ops.sum(product)
            return total, results

        def without(scope: Any, data: Any) -> Any:
            return {"results": keras.tree.flatten(forward(data)[1])}

        def with_gradients(scope: Any, data: Any) -> Any:
            results, found = scope.gradients(lambda: forward(data), differentiable)
            gradients = {str(number): each for number, each in enumerate(found) if each is not None}
            return {"results": keras.tree.flatten(results), "gradients": gradients}

        def run_eagerly(function: Any) -> tuple[Any, list[Any]]:
            with Scope((variable, variable.value) for variable in variables) as scope:
                outputs = function(scope, leaves)
                return outputs, [scope.get_current_value(variable) for variable in variables]

        function, eager = without, run_eagerly(without)
        try:
            if differentiable:
                function, eager = with_gradients, run_eagerly(with_gradients)
                run.backward = True
        except Exception:
            # Keras cannot compute gradients of this layer on this backend, so only the forward pass is captured.
            function = without
        rest = [leaf for number, leaf in enumerate(leaves)]
        run.stage = "capture"
        imported = import_function(function, [(each, each.value) for each in variables], {"data": rest})
        run.load(imported.program.text)
        results = run.interpret(*imported.program.initial, *imported.read_inputs({"data": rest}))
        # Values are not compared if the program draws random numbers: with the PyTorch backend, these numbers differ
        # from Keras' own.
        if imported.program.random is None:
            tolerance = (1e-3, 1e-4) if layer.compute_dtype in ("float32", "int32") else (5e-2, 5e-2)
            kinds = [*imported.program.state, *imported.program.outputs]
            values = {kind.name: array for kind, array in zip(kinds, results, strict=True)}
            wanted = [*keras.tree.flatten(eager[0]), *eager[1]]
            found = [*keras.tree.flatten(imported.outputs_of(values)), *(values[each] for each in imported.names)]
            for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
                got, want = _comparable(got, keras.backend.standardize_dtype(want.dtype), want)
                np.testing.assert_allclose(got, want, *tolerance, err_msg=f"result {number}", verbose=False)
        run.compare_levels()
    except (Exception, SystemExit) as error:
        return run.failed(error)
    return run.ok()


def _comparable(got: Any, dtype: str, want: Any) -> tuple[Any, Any]:
    """Converts a program's result and Keras' result, in this order, to arrays that NumPy can compare."""
    import keras
    import ml_dtypes
    import numpy as np

    want = keras.ops.convert_to_numpy(want)
    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        got = got if got.dtype == np.float32 else got.view(getattr(ml_dtypes, dtype))
        return got.astype(np.float32), want.astype(np.float32)
    return got.view(want.dtype) if want.dtype.kind == "u" else got, want


_CALLS: Counter[str] = Counter()
"""The number of `ok` calls and of all calls in the files that were run, for each backend."""


def run_all(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Runs the named files in `jobs` processes and yields the outcomes as they finish."""
    for backend in BACKENDS:
        os.environ["KERAS_BACKEND"] = backend
        own = [name for name in names if name.startswith(f"{backend}:")]
        for outcome in run_in_processes(run_entry, own, jobs, limit=600.0):
            words = outcome.reason.split()
            if words[1:2] == ["of"]:
                _CALLS[f"{backend} ok"] += int(words[0])
                _CALLS[backend] += int(words[2])
            if outcome.stage == "ok":
                outcome.reason = ""
            yield outcome


def _about() -> list[str]:
    import importlib.metadata

    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("keras", "torch", "jax"))
    counted = " and ".join(f"{_CALLS[f'{each} ok']} of {_CALLS[each]} on {each}" for each in BACKENDS)
    return [
        f"The entries are Keras' own tests of layers, as the package has them, on two of its backends: {versions},",
        f"{datetime.date.today()}. Each layer that a file of tests gives to `run_layer_test`, with its inputs, becomes",
        "a program of its outputs, the new values of its variables and, where Keras has them, the gradients of its",
        "weights and inputs. A file is `ok` if each of its layers is: captured, imported, run by the reference",
        "interpreter with results close to those of Keras (rtol 1e-3, atol 1e-4; random numbers on PyTorch are not",
        f"compared), and bit-equal to it at {' and '.join(LEVELS)} with one thread and at the level of the machine",
        f"with three. Counted by layer, {counted} are ok. `no-sample` means that Keras runs no test of the file on the",
        "backend, or only tests of sparse or ragged tensors.",
    ]


SUITE = Suite(
    "keras_coverage.py",
    "keras",
    "Coverage of Keras' layers",
    STAGES,
    _about,
    what="files",
    columns={
        "torch": lambda outcome: outcome.name.startswith("torch:"),
        "jax": lambda outcome: outcome.name.startswith("jax:"),
        "with gradients": lambda outcome: outcome.backward,
    },
)


if __name__ == "__main__":
    run_script(__doc__, SUITE, entries, run_all)
