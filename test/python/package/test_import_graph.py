# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Which part of the package knows which other one, and who knows PyTorch.

Every import counts, also one inside of a function or for types only.
"""

import ast
import functools
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import repro_mlir
from repro_mlir.bundle.runner.packing import runner_members
from repro_mlir.program.canonical import to_bytes

PACKAGE = Path(__file__).resolve().parents[3] / "python" / "repro_mlir"
# Made by nanobind and MLIR's build.
FOREIGN = ("_mlir_libs", "dialects", "ir", "passmanager")

GROUND = {"base"}
"""Modules that every room may import; they import nothing but each other."""

ALLOWED = {
    "base.numerics": set(),
    "pages": set(),
    "base.files": {"base.numerics"},
    "base.tensors": {"base.numerics"},
    "sandbox": set(),
    "reference": {"base.numerics"},
    "bundle.runner": {"base.files", "base.numerics", "base.tensors"},
    "program": {"base.files", "base.numerics", "base.tensors", "bundle.runner", "sandbox"},
    "precision": {"base.files", "base.numerics", "program"},
    "programs.writer": {"base.numerics"},
    "gradient_compression": {"base.files", "base.numerics", "precision", "program", "programs.writer"},
    "compilation": {"base.files", "bundle.runner", "program", "sandbox"},
    "distributed": {"base.numerics"},
    "execute": {"base.numerics", "base.tensors", "bundle.runner", "compilation", "distributed", "program", "reference"},
    "frontends": set(),
    "frontends.torch.base": {"base.tensors", "frontends", "program"},
    "frontends.torch.operators": {"frontends.torch.base", "precision"},
    "frontends.torch.lower": {"frontends", "frontends.torch.base"},
    "frontends.torch.trace": {"frontends.torch.base", "frontends.torch.operators"},
    "frontends.torch.optimizers": {"base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.trace"},
    "frontends.torch.objects": {
        "base.files", "base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.lower",
        "frontends.torch.optimizers", "frontends.torch.trace", "gradient_compression", "precision", "program",
        "reference",
    },
    "frontends.torch.capture": {
        "base.files", "base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.lower",
        "frontends.torch.objects", "frontends.torch.optimizers", "frontends.torch.trace",
        "gradient_compression", "precision", "program",
    },
    "frontends.torch.compile_backend": {
        "base.files", "base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.capture",
        "frontends.torch.lower", "frontends.torch.objects", "frontends.torch.trace", "program",
    },
    "frontends.torch.generation": {
        "frontends.torch.base", "frontends.torch.capture", "frontends.torch.compile_backend",
        "frontends.torch.operators", "frontends.torch.trace", "precision", "program",
    },
    "frontends.torch": {
        "base.tensors", "frontends.torch.base", "frontends.torch.capture", "frontends.torch.objects",
        "frontends.torch.optimizers", "program",
    },
    "frontends.onnx": {
        "base.files", "base.numerics", "frontends.torch.base", "frontends.torch.capture",
        "frontends.torch.objects", "precision", "program",
    },
    "frontends.stablehlo": {"base.numerics", "frontends", "program"},
    "frontends.jax": {"base.numerics", "frontends.stablehlo", "program"},
    "frontends.tensorflow": {"base.numerics", "frontends.stablehlo", "program"},
    "frontends.keras": {"base.numerics", "base.tensors", "frontends.jax", "frontends.torch.capture", "program"},
    "sandbox_worker": {"base.files", "compilation", "execute", "frontends.stablehlo", "program", "sandbox"},
    "audit": {"base.numerics"},
    "audit.operators": {"audit", "base.numerics", "distributed", "execute", "program", "reference"},
    "audit.receipts": {
        "audit", "base.files", "base.numerics", "compilation", "distributed", "execute", "frontends.torch",
        "program", "sandbox",
    },
    "audit.dispute": {
        "audit", "audit.operators", "audit.receipts", "base.files", "base.numerics", "execute", "program",
        "sandbox",
    },
    "audit.difference": {
        "audit", "audit.dispute", "audit.operators", "audit.receipts", "base.numerics", "execute",
        "frontends.torch", "frontends.torch.compile_backend", "program",
    },
    "bundle": {
        "audit.receipts", "base.files", "base.numerics", "base.tensors", "bundle.runner", "execute",
        "frontends.torch", "program",
    },
    "certification": {"base.numerics", "bundle.runner", "compilation", "reference"},
    "inference": {
        "distributed", "execute", "frontends.onnx", "frontends.tensorflow", "frontends.torch.capture",
        "program",
    },
    "generation": {"base.files", "base.numerics", "execute", "frontends.torch.generation", "precision", "program"},
    "serving": {"base.files", "base.numerics", "generation"},
    "torch_compile": {"base.numerics", "execute", "frontends.torch.compile_backend", "program"},
    "programs": {"audit.receipts", "base.numerics", "base.tensors", "execute", "program", "programs.writer"},
    "train": {
        "audit.receipts", "base.numerics", "base.tensors", "distributed", "execute", "frontends.torch",
        "frontends.torch.base", "frontends.torch.capture", "frontends.torch.optimizers",
        "gradient_compression", "precision", "program",
    },
    "precision.report": {
        "base.files", "base.numerics", "base.tensors", "execute", "frontends.torch", "pages", "precision",
        "program", "reference", "train",
    },
    "precision.stored_codes": {"base.numerics", "execute", "program"},
    "roofline": {"base.files", "bundle.runner", "compilation", "execute", "pages", "program"},
    "integrations": {
        "audit.receipts", "base.files", "distributed", "frontends.keras", "frontends.torch.objects",
        "precision", "program", "programs", "train",
    },
    "cli": {
        "audit.difference", "audit.dispute", "audit.receipts", "base.files", "base.numerics", "bundle",
        "bundle.runner", "certification", "compilation", "distributed", "execute", "frontends.onnx",
        "frontends.tensorflow", "frontends.torch", "generation", "integrations", "precision",
        "precision.report", "precision.stored_codes", "program", "roofline", "serving", "train",
    },
}  # fmt: skip
"""What the rooms import of each other, lowest first. A part of a room that others import alone is a room of its own."""

USERS_OF_MODELS = {
    *("train.captured_step", "train.changes", "train.compiled_optimizer", "train.evaluation", "train.result"),
    "train.trainer",
    *("generation.generator", "generation.identity", "generation.sampling"),
}
"""The trainer, the generator and the identity, which take PyTorch's models."""


class Import(NamedTuple):
    """One import.

    Attributes:
      importer: a module of this package; empty for the package itself.
      module: what it imports, from the root of the package; a foreign module has its whole name.
      own: whether that is of this package.
      kind: "module" for what is imported with the importer, "function" for what is later, "types" for what never is.
    """

    importer: str
    module: str
    own: bool
    kind: str


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def sources() -> dict[str, Path]:
    """The files of the package by module."""
    found = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: path for name, path in found.items() if name.split(".")[0] not in FOREIGN}


def find(importer: str, node: ast.AST, kind: str = "module") -> Iterator[Import]:
    """The imports in a syntax tree."""
    for child in ast.iter_child_nodes(node):
        inner = kind
        if kind == "module" and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner = "function"
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            inner = "types"
        if isinstance(child, ast.Import | ast.ImportFrom):
            for module in modules_of(importer, child):
                root, _, rest = module.partition(".")
                own = root == "repro_mlir"
                yield Import(importer, rest if own else module, own, inner)
        yield from find(importer, child, inner)


def modules_of(importer: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The whole names of what a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        parts = ["repro_mlir", *filter(None, importer.split("."))]
        here = parts[: len(parts) - node.level + (sources()[importer].name == "__init__.py")]
        base = ".".join([*here, *filter(None, [node.module])])
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        known = inner.removeprefix("repro_mlir.")
        yield inner if known in sources() or known in FOREIGN else base


@functools.cache
def imports() -> tuple[Import, ...]:
    """All imports of the package."""
    return tuple(each for name, path in sources().items() for each in find(name, ast.parse(path.read_text())))


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def part_of(module: str) -> str:
    """The room or the single module to which a module belongs."""
    return next((room for room in ALLOWED if "." in room and within(module, room)), module.split(".")[0])


def test_imports_are_found() -> None:
    """Of each kind, so that the other tests see what they are about."""
    found = set(imports())
    assert Import("train.trainer", "torch", False, "types") in found
    assert Import("train.trainer", "frontends.torch", True, "module") in found
    assert Import("audit.difference.find", "frontends.torch.compile_backend.eager", True, "function") in found
    assert Import("frontends.torch.lower.lowering", "torch_mlir", False, "module") in found
    assert Import("base.tensors.arrays", "base.tensors.frameworks", True, "module") in found
    assert Import("reference.stored", "base.errors", True, "module") in found


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_what_the_table_says(room: str) -> None:
    found = {
        part_of(each.module)
        for each in imports()
        if part_of(each.importer) == room and each.own and each.module and part_of(each.module) not in FOREIGN
    }
    assert found - {room} - GROUND == ALLOWED[room]


def test_rooms_import_none_above_them() -> None:
    order = list(ALLOWED)
    against = {
        (each.importer, each.module)
        for each in imports()
        if each.own
        and {part_of(each.importer), part_of(each.module)} <= set(order)
        and order.index(part_of(each.importer)) < order.index(part_of(each.module))
    }
    assert not against


def test_the_table_has_every_room() -> None:
    modules = {part_of(name) for name in sources() if name and not name.startswith("_")}
    assert modules == set(ALLOWED) | GROUND


def test_the_ground_imports_no_room() -> None:
    found = {part_of(each.module) for each in imports() if part_of(each.importer) in GROUND and each.own}
    assert found <= GROUND


def test_only_the_frontend_imports_torch() -> None:
    """Exceptions: trainers of packages that need it themselves, and the module that reads the user's tensors."""
    for each in imports():
        if within(each.importer, "integrations") or each.importer == "base.tensors.torch_tensors":
            continue
        if not each.own and each.module.split(".")[0] in ("torch", "torch_mlir", "functorch"):
            is_type = each.importer in USERS_OF_MODELS and each.kind == "types"
            # ONNX models are evaluated on PyTorch's tensors; Keras runs on PyTorch.
            owners = "frontends.torch", "frontends.onnx", "frontends.keras.on_torch"
            assert any(within(each.importer, owner) for owner in owners) or is_type, each


def test_only_its_frontend_imports_onnx() -> None:
    for each in imports():
        if not each.own and each.module.split(".")[0] in ("onnx", "google"):
            assert within(each.importer, "frontends.onnx"), each


def test_only_its_frontend_imports_keras() -> None:
    """Beside the integration of its trainer."""
    for each in imports():
        if not each.own and each.module.split(".")[0] == "keras":
            assert within(each.importer, "frontends.keras") or each.importer == "integrations.keras", each


def test_who_imports_the_frontend_of_torch() -> None:
    """Those that take PyTorch's models, users of scripts (which give such models), PyTorch as a side of `diff`."""
    found = {each.importer for each in imports() if each.own and within(each.module, "frontends.torch")}
    known = [name for name in found if not within(name, "frontends.torch") and not within(name, "frontends.onnx")]
    known.remove("frontends.keras.on_torch")
    assert {*known} == {
        "", "audit.difference.eager_side", "audit.difference.find", "audit.receipts.script_inputs", "bundle.writer",
        "cli.compile", "cli.dispute", "cli.inputs", "cli.roofline_options", "cli.train", "cli.verify", "inference",
        "precision.report.compare", "torch_compile", "integrations.model_folder", "integrations.transformers",
        *USERS_OF_MODELS - {"train.result"},
    }  # fmt: skip


def test_nobody_else_names_torch() -> None:
    """No name or key of the code; documentation and messages may."""
    allowed = {
        # Public names by their module.
        ("", "frontends.torch.capture.initialization"),
        ("", "frontends.torch.capture.programs"),
        ("", "torch_compile"),
        # By which the module for a tensor is found.
        ("base.tensors.frameworks", "torch"),
        ("base.tensors.frameworks", ".torch_tensors"),
        # Keras' name of its backend.
        ("frontends.keras.backends", "torch"),
        # Distributions whose versions the command prints.
        ("cli.versions", "torch"),
        ("cli.versions", "torch-mlir"),
        # Libraries that are kept from TensorFlow's LLVM.
        ("base.shared_libraries", "torch_mlir._mlir_libs"),
        ("base.shared_libraries", "libTorchMLIRAggregateCAPI.so"),
        ("bundle.runner.packing", "base/tensors/torch_tensors.py"),
    }
    for name, path in sources().items():
        if within(name, "frontends.torch") or within(name, "integrations") or name in USERS_OF_MODELS:
            continue
        if within(name, "frontends.onnx") or name in ("frontends.keras.on_torch", "base.tensors.torch_tensors"):
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            words = [value for value in vars(node).values() if isinstance(value, str)]
            if isinstance(node, ast.ImportFrom | ast.alias):
                continue
            for word in words:
                known = " " in word or (name, word) in allowed
                assert known or "torch" not in word.lower(), f"{path}:{node.lineno}: {word}"


def test_the_program_knows_no_frontend() -> None:
    assert not any(within(each.importer, "program") and within(each.module, "frontends") for each in imports())
    assert not any(each.module == "program.exact" for each in imports() if each.importer == "program.program")


def test_what_frontends_have_in_common_is_small() -> None:
    found = {each.module for each in imports() if each.importer == "program.imported" and not each.own}
    assert found == {"__future__", "collections.abc", "dataclasses", "numpy", "typing"}


def test_the_reference_knows_nothing_else() -> None:
    """No compiler, no MLIR, nothing of the package but exceptions and numerics; a backend runs programs with it, the
    audit reads and runs their operators, devices are compared with it, and (G5) takes its functions."""
    for each in imports():
        if within(each.importer, "reference"):
            root = each.module.split(".")[0]
            foreign = root in sys.stdlib_module_names or root in ("numpy", "gmpy2")
            known = any(within(each.module, room) for room in ("base.errors", "base.numerics", "reference"))
            assert known if each.own else foreign, each
    users = {each.importer for each in imports() if each.own and within(each.module, "reference")}
    assert {name for name in users if not within(name, "reference")} == {
        "audit.operators.graph", "audit.operators.tracing", "certification.certify", "execute.reference",
        "frontends.torch.objects.defined_construction", "precision.report.statistics",
    }  # fmt: skip
    code = """
import sys
import repro_mlir
package = set(sys.modules)
from repro_mlir.reference.interpreter import Interpreter
Interpreter(sys.stdin.buffer.read()).run()
own = {name for name in set(sys.modules) - package if name.startswith("repro_mlir.")}
known = tuple(f"repro_mlir.{each}" for each in ("base.errors", "base.numerics", "base.printing", "reference"))
assert all(name == "repro_mlir.base" or name.startswith(known) for name in own), own
"""
    data = to_bytes("func.func @main() attributes {repro.num_state = 0 : i64} { return }")
    run_without(("torch", "blake3"), code, data)


def test_the_runner_imports_what_it_is_packed_with() -> None:
    packed = {name_of(PACKAGE / member[len("repro_mlir/") :]) for member in runner_members() if "/" in member}
    assert "bundle.runner.session" in packed and "base.numerics.tensors" in packed
    for each in imports():
        # The __init__ of the package is an empty one there.
        if each.importer in packed - {""} and each.kind != "types":
            known = each.module in packed if each.own else each.module.split(".")[0] in sys.stdlib_module_names
            # They do without, or nobody imports them where there is none.
            optional = (
                ("base.numerics.digest", "blake3"),
                ("base.tensors.torch_tensors", "torch"),
                ("base.tensors.typed_arrays", "ml_dtypes"),
            )
            assert known or each.module == "numpy" or (each.importer, each.module) in optional, each


def test_no_module_needs_itself() -> None:
    """No circle among imports, those in functions included."""
    needs: dict[str, set[str]] = {name: set() for name in sources()}
    for each in imports():
        if each.own and each.kind != "types" and each.module in needs:
            needs[each.importer].add(each.module)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for other in sorted(needs[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in sorted(needs):
        visit(name, ())


BLOCKED = """
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ImportError(f"no {{name}} here")

sys.meta_path.insert(0, Blocked())
"""


def run_without(names: tuple[str, ...], code: str, data: bytes = b"") -> None:
    """Runs code in a process that cannot import some modules."""
    done = subprocess.run([sys.executable, "-c", BLOCKED.format(names=names) + code], input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_only_their_frontends_import_jax_its_mlir_and_tensorflow() -> None:
    for each in imports():
        root = each.module.split(".")[0]
        owners = {"jax": "jax", "jaxlib": "stablehlo", "tensorflow": "tensorflow"}
        if not each.own and root in owners:
            # Keras runs on JAX.
            is_owner = within(each.importer, f"frontends.{owners[root]}")
            assert is_owner or (root, each.importer) == ("jax", "frontends.keras.on_jax"), each


FRAMEWORKS = "jax", "keras", "onnx", "stablehlo", "tensorflow", "torch"


def test_everything_else_can_be_imported_without_frameworks() -> None:
    modules = [
        f"repro_mlir.{name}"
        for name in sources()
        if name
        and not name.endswith("__main__")
        and not any(within(name, f"frontends.{framework}") for framework in FRAMEWORKS)
        and name != "base.tensors.torch_tensors"
        # Each needs its package.
        and not name.startswith("integrations.")
    ]
    modules += [f"repro_mlir.frontends.torch{name}" for name in ("", ".capture.programs", ".scripts")]
    modules += [f"repro_mlir.frontends.onnx{name}" for name in ("", ".programs")]
    modules += [f"repro_mlir.frontends.{each}{name}" for each in ("jax", "tensorflow") for name in ("", ".programs")]
    modules.append("repro_mlir.frontends.keras")
    run_without(
        ("jax", "jaxlib", "keras", "tensorflow", "torch", "torch_mlir"),
        f"""
for name in {modules}:
    importlib.import_module(name)
import repro_mlir
try:
    repro_mlir.capture(None, None)
except repro_mlir.ReproError as error:
    assert "pip install 'repro-mlir[torch]'" in str(error), error
else:
    raise AssertionError
try:
    repro_mlir.frontends.jax.capture(None)
except repro_mlir.ReproError as error:
    assert "pip install 'repro-mlir[jax]'" in str(error), error
else:
    raise AssertionError
try:
    repro_mlir.frontends.tensorflow.capture(None)
except repro_mlir.ReproError as error:
    assert "pip install tensorflow-cpu 'repro-mlir[jax]'" in str(error), error
else:
    raise AssertionError
""",
    )


def test_a_pickled_hook_needs_no_torch_mlir() -> None:
    pytest.importorskip("torch")
    from repro_mlir.frontends.torch import Refresh

    class Owner:
        def bring_back(self) -> None:
            raise AssertionError

    owner = Owner()
    code = "import pickle; pickle.loads(sys.stdin.buffer.read())(None); assert 'torch' in sys.modules"
    run_without(("torch_mlir",), code, pickle.dumps(Refresh(owner)))


def test_the_public_names_are_those_of_their_modules() -> None:
    assert repro_mlir.capture.__module__ == "repro_mlir.frontends.torch.capture.programs"
    assert repro_mlir.initialize.__module__ == "repro_mlir.frontends.torch.capture.initialization"


def test_no_name_that_is_loaded_on_first_use_is_that_of_a_module() -> None:
    """To import the module would set the name: which of the two a user gets would depend on what was used first."""
    found = []
    for path in PACKAGE.rglob("__init__.py"):
        homes = re.search(r"\n_HOMES[^=]* = (\{.*?\})\n", path.read_text(), re.DOTALL)
        if homes:
            names = set(ast.literal_eval(homes[1]))
            assert names
            found.append(names & {each.stem for each in path.parent.iterdir()})
    assert len(found) >= 4 and not any(found)
