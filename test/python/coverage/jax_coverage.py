# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far each of JAX's primitive harnesses gets: captured, imported, close to JAX, bit-equal on CPUs.

As a script: runs every float32 harness through all stages, and writes one JSON line per harness and a table of counts.

    python test/python/coverage/jax_coverage.py [--jobs N] [--out FILE] [--accept] [NAME ...]

With --accept, the outcomes become the expected ones (expected_jax.json), and docs/coverage/jax.md is rewritten.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from processes import run_in_processes
from stages import LEVELS, STAGES, Run
from suite import Outcome, Suite, run_script


@functools.cache
def harnesses() -> dict[str, Any]:
    """Returns JAX's float32 harnesses by name. If several have the same name, "#" and a number make their names
    unique."""
    import numpy as np
    from jax._src.internal_test_util import test_harnesses

    found: dict[str, Any] = {}
    for harness in test_harnesses.all_harnesses:
        if harness.dtype == np.float32:
            name = re.sub(r"__+", "_", harness.fullname).strip("_")
            count = sum(known == name or known.startswith(f"{name}#") for known in found)
            found[f"{name}#{count}" if count else name] = harness
    return found


def entries() -> list[str]:
    """Returns the names of all harnesses."""
    return list(harnesses())


def run_entry(name: str) -> Outcome:
    """Runs a harness through the stages in this process. Returns the stage that it reached; never raises an
    exception."""
    import jax
    import numpy as np
    from repro_mlir.frontends.jax import import_function

    harness = harnesses()[name]
    run = Run(name)
    try:
        arguments = harness.dyn_args_maker(np.random.RandomState(0))
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(harness.dyn_fun)(*arguments))]
        run.stage = "capture"
        imported = import_function(harness.dyn_fun, *arguments)
        run.load(imported.text)
        results = run.interpret(*imported.read_inputs(arguments))
        for number, (got, want) in enumerate(zip(results, expected, strict=True)):
            got = got.view(want.dtype) if want.dtype.kind == "u" else got.astype(want.dtype)
            np.testing.assert_allclose(got, want, 1e-3, 1e-4, err_msg=f"result {number}", verbose=False)
        run.compare_levels()
    except (Exception, SystemExit) as error:
        return run.failed(error)
    return run.ok()


def run_all(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Runs the named harnesses in `jobs` processes and yields the outcomes as they finish."""
    yield from run_in_processes(run_entry, names, jobs, limit=60.0)


def _about() -> list[str]:
    import jax
    import jaxlib

    return [
        "The entries are JAX's own tests of primitives (the harnesses of float32 among its internal test utilities) as",
        f"programs: jax {jax.__version__}, jaxlib {jaxlib.__version__}, {datetime.date.today()}. `ok` means: captured,",
        "imported, run by the reference interpreter with results close to those of JAX (rtol 1e-3, atol 1e-4), and",
        f"bit-equal to it at {' and '.join(LEVELS)} with one thread and at the level of the machine with three.",
    ]


SUITE = Suite("jax_coverage.py", "jax", "Coverage of JAX's primitives", STAGES, _about, what="harnesses")


if __name__ == "__main__":
    run_script(__doc__, SUITE, entries, run_all)
