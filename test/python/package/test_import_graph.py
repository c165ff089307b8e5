# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests which rooms (folders) and modules of the package import each other, and which import PyTorch.

Every import counts, including imports inside functions or for types only.
"""

import ast
import functools
import itertools
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import repro_mlir
from repro_mlir.program.canonical import to_bytes
from repro_mlir.runner.packing import runner_members

PACKAGE = Path(__file__).resolve().parents[3] / "python" / "repro_mlir"
# Folders and modules that nanobind and the build of MLIR generate.
FOREIGN = ("_mlir_libs", "dialects", "ir", "passmanager")

GROUND = {"base"}
"""Modules that every room may import; they import only each other."""

ALLOWED = {
    "base.numerics": set(),
    "base.files": {"base.numerics"},
    "base.tensors": {"base.numerics"},
    "pages": set(),
    "tensor_dumps": {"base.files", "base.numerics", "base.tensors", "pages"},
    "sandbox": set(),
    "distributed": {"base.numerics"},
    "reference": {"base.numerics"},
    "conformance": {"base.files", "base.numerics", "reference"},
    "random": {"base.numerics", "base.tensors", "reference"},
    "runner": {"base.files", "base.numerics", "base.tensors"},
    "program": {"base.files", "base.numerics", "base.tensors", "reference", "runner", "sandbox"},
    "verification": {
        "base.files", "base.numerics", "base.tensors", "distributed", "pages", "program", "reference", "sandbox",
    },
    "precision": {"base.files", "base.numerics", "program"},
    "gradient_compression": {"base.files", "base.numerics", "precision", "program"},
    "compilation": {"base.files", "base.numerics", "program", "runner", "sandbox"},
    "execute": {"base.numerics", "base.tensors", "compilation", "distributed", "program", "reference", "runner"},
    "frontends": set(),
    "frontends.base": set(),
    "frontends.torch.base": {
        "base.numerics", "base.tensors", "frontends.base", "gradient_compression", "precision", "program",
    },
    "frontends.torch.operators": {"frontends.torch.base", "precision"},
    "frontends.torch.lower": {"frontends.base", "frontends.torch.base"},
    "frontends.torch.trace": {"frontends.torch.base", "frontends.torch.operators", "random"},
    "frontends.torch.optimizers": {"base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.trace"},
    "frontends.torch.objects": {
        "base.files", "base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.lower",
        "frontends.torch.optimizers", "frontends.torch.trace", "gradient_compression", "precision",
        "reference",
    },
    "frontends.torch.capture": {
        "base.files", "base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.lower",
        "frontends.torch.objects", "frontends.torch.optimizers", "frontends.torch.trace",
        "gradient_compression", "precision", "program", "random",
    },
    "frontends.torch.compile_backend": {
        "base.files", "base.numerics", "base.tensors", "frontends.torch.base", "frontends.torch.capture",
        "frontends.torch.lower", "frontends.torch.objects", "frontends.torch.trace", "program",
    },
    "frontends.torch.eager_operators": {"frontends.torch.base", "frontends.torch.capture", "frontends.torch.trace"},
    "frontends.torch.generation": {
        "frontends.torch.base", "frontends.torch.capture", "frontends.torch.compile_backend",
        "frontends.torch.operators", "frontends.torch.trace", "precision", "program",
    },
    "frontends.torch": {
        "base.tensors", "frontends.torch.base", "frontends.torch.capture", "frontends.torch.objects",
        "frontends.torch.optimizers", "program",
    },
    "frontends.onnx": {
        "base.files", "base.numerics", "frontends.base", "frontends.torch.base", "frontends.torch.capture",
        "frontends.torch.objects", "program",
    },
    "frontends.stablehlo": {"base.numerics", "frontends.base", "program"},
    "frontends.jax": {"base.numerics", "frontends.base", "frontends.stablehlo", "program"},
    "frontends.tensorflow": {"base.numerics", "frontends.stablehlo", "program"},
    "frontends.keras": {
        "base.numerics", "base.tensors", "frontends.base", "frontends.jax", "frontends.torch.base",
        "frontends.torch.capture", "program",
    },
    "torch_compile": {"base.numerics", "execute", "frontends.torch.compile_backend", "program"},
    "compile_model": {
        "distributed", "execute", "frontends.onnx", "frontends.tensorflow", "frontends.torch.capture",
        "program",
    },
    "program_training": {"base.numerics", "base.tensors", "execute", "program", "verification"},
    "train": {
        "base.numerics", "base.tensors", "distributed", "execute", "frontends.torch", "frontends.torch.base",
        "frontends.torch.capture", "frontends.torch.optimizers", "precision", "program", "random", "verification",
    },
    "script_runs": {
        "base.numerics", "execute", "frontends.torch", "frontends.torch.base",
        "frontends.torch.compile_backend", "program", "verification",
    },
    "resume_check": set(),
    "sandbox_worker": {"base.files", "compilation", "frontends.stablehlo", "program", "reference", "sandbox"},
    "bundle": {
        "base.files", "base.numerics", "base.tensors", "execute", "frontends.torch", "program", "runner",
        "verification",
    },
    "certification": {"base.numerics", "compilation", "reference", "runner"},
    "generation": {"base.files", "base.numerics", "execute", "frontends.torch.generation", "precision", "program"},
    "serving": {"base.files", "base.numerics", "generation"},
    "precision_report": {
        "base.files", "base.numerics", "base.tensors", "execute", "frontends.torch", "pages", "precision",
        "program", "reference", "train",
    },
    "determinism_report": {
        "frontends.torch", "frontends.torch.base", "frontends.torch.capture", "frontends.torch.eager_operators",
        "pages", "program",
    },
    "roofline": {"base.files", "base.numerics", "compilation", "execute", "pages", "program", "runner"},
    "integrations": {
        "base.files", "distributed", "frontends.base", "frontends.keras", "frontends.torch.base",
        "frontends.torch.objects", "precision", "program", "program_training", "train", "verification",
    },
    "cli": {
        "base.files", "base.numerics", "bundle", "certification", "compilation", "conformance", "determinism_report",
        "distributed", "execute", "frontends.base", "frontends.onnx", "frontends.tensorflow", "frontends.torch",
        "frontends.torch.base", "generation", "integrations", "precision", "precision_report", "program",
        "resume_check", "roofline", "runner", "script_runs", "serving", "tensor_dumps", "train", "verification",
    },
}  # fmt: skip
"""The imports that each room may have from other rooms, lowest room first. If other rooms may import only a part of a
room, the part is listed like a room."""

USERS_OF_TENSORS = (
    "base.tensors.torch_tensors", "conformance.libraries.of_torchao", "random.devices", "resume_check.recorder",
    "tensor_dumps.dump_hooks",
)  # fmt: skip
"""Modules outside of the frontends and integrations that import PyTorch. `random` draws tensors, the recorder runs in
the process of the user's script, torchao takes PyTorch's tensors, and hooks dump the tensors of PyTorch's modules."""

USERS_OF_MODELS = {
    *("train.captured_step", "train.changes", "train.compiled_optimizer", "train.evaluation", "train.result"),
    *("train.options", "train.trainer"),
    *("generation.generator", "generation.identity", "generation.sampling"),
    "determinism_report.analysis",
}
"""The modules for trainers, generators, identities and reports, which accept PyTorch's models."""


class Import(NamedTuple):
    """An import statement's module and importer.

    Attributes:
      importer: the module with the statement, as a name within the package; "" for the package itself.
      module: the imported module, as a name within the package, or the full name of another module.
      own: whether the imported module is in this package.
      kind: "module" if the statement runs when the importer is imported, "function" if it runs later, "types" if it is
        only for type checkers.
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
    """Returns the file of each module of the package, by the module's name."""
    found = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: path for name, path in found.items() if name.split(".")[0] not in FOREIGN}


def find(importer: str, node: ast.AST, kind: str = "module") -> Iterator[Import]:
    """Yields the imports in a syntax tree of the module `importer`."""
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
    """Yields the full names of the modules that a statement imports."""
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
    """Returns all imports of the package."""
    return tuple(each for name, path in sources().items() for each in find(name, ast.parse(path.read_text())))


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def part_of(module: str) -> str:
    """Returns the room to which a module belongs, or the name of a module that belongs to none."""
    return next((room for room in ALLOWED if "." in room and within(module, room)), module.split(".")[0])


def test_imports_are_found() -> None:
    """Checks that imports of each kind are found: if none were found, the other tests would pass without testing
    anything."""
    found = set(imports())
    assert Import("train.trainer", "torch", False, "types") in found
    assert Import("train.trainer", "frontends.torch", True, "module") in found
    assert Import("script_runs.difference", "frontends.torch.compile_backend.eager", True, "function") in found
    assert Import("frontends.torch.base.torch_mlir_names", "torch_mlir", False, "module") in found
    assert Import("base.tensors.arrays", "base.tensors.frameworks", True, "module") in found
    assert Import("reference.stored", "base.errors", True, "module") in found


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_have_the_imports_of_the_table(room: str) -> None:
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


def test_no_folder_stands_on_two_floors() -> None:
    """The rooms of one folder must be consecutive in the table ALLOWED."""
    folders = [folder for folder, _ in itertools.groupby(room.split(".")[0] for room in ALLOWED)]
    assert len({*folders}) == len(folders)


def test_the_table_has_every_room() -> None:
    modules = {part_of(name) for name in sources() if name and not name.startswith("_")}
    assert modules == set(ALLOWED) | GROUND


def test_the_ground_imports_no_room() -> None:
    found = {part_of(each.module) for each in imports() if part_of(each.importer) in GROUND and each.own}
    assert found <= GROUND


def test_only_the_frontend_imports_torch() -> None:
    """Exceptions are integrations, whose trainers need PyTorch, the module that reads the user's tensors, and the
    module that calls torchao, whose functions take PyTorch's tensors."""
    for each in imports():
        if within(each.importer, "integrations") or each.importer in USERS_OF_TENSORS:
            continue
        if not each.own and each.module.split(".")[0] in ("torch", "torch_mlir", "functorch"):
            is_type = each.importer in USERS_OF_MODELS and each.kind == "types"
            # The ONNX frontend evaluates constants with PyTorch, and Keras can have PyTorch as its backend.
            owners = "frontends.torch", "frontends.onnx", "frontends.keras.on_torch"
            assert any(within(each.importer, owner) for owner in owners) or is_type, each


def test_only_its_frontend_imports_onnx() -> None:
    for each in imports():
        if not each.own and each.module.split(".")[0] in ("onnx", "google"):
            assert within(each.importer, "frontends.onnx"), each


def test_only_its_frontend_imports_keras() -> None:
    for each in imports():
        if not each.own and each.module.split(".")[0] == "keras":
            assert within(each.importer, "frontends.keras") or each.importer == "integrations.keras", each


def test_importers_of_the_frontend_of_torch() -> None:
    """Outside of the frontend, only modules that accept PyTorch's models, run scripts that return such models or
    compare with PyTorch may import the frontend."""
    found = {each.importer for each in imports() if each.own and within(each.module, "frontends.torch")}
    known = [name for name in found if not within(name, "frontends.torch") and not within(name, "frontends.onnx")]
    known.remove("frontends.keras.on_torch")
    assert {*known} == {
        "", "bundle.writer", "cli.compile", "cli.determinism", "cli.inputs", "cli.options", "cli.roofline_options",
        "cli.train", "compile_model", "integrations.model_folder", "integrations.transformers",
        "precision_report.compare", "script_runs.batches", "script_runs.difference", "script_runs.eager_side",
        "torch_compile", *USERS_OF_MODELS - {"train.result"},
    }  # fmt: skip


def test_no_other_module_names_torch() -> None:
    """Outside of the frontend, the code contains no name or string key of PyTorch. Documentation and messages may
    mention it."""
    allowed = {
        # a table of public names and the modules that define them
        ("", "frontends.torch.capture.initialization"),
        ("", "frontends.torch.capture.programs"),
        ("", "torch_compile"),
        # the choice of a module by the type of a tensor
        ("base.tensors.frameworks", "torch"),
        ("base.tensors.frameworks", ".torch_tensors"),
        # the name of a library with which conformance vectors are compared
        ("conformance.libraries.choose", "torchao"),
        # the question whether functions may be traced
        ("base.tensors.frameworks", "torch._dynamo"),
        # Keras' name for its PyTorch backend
        ("frontends.keras.backends", "torch"),
        # the distributions whose versions a command prints
        ("cli.versions", "torch"),
        ("cli.versions", "torch-mlir"),
        # the extra of the package that messages name
        ("compile_model", "torch"),
        ("cli.installation", "torch"),
        ("cli.options", "torch"),
        ("cli.installation", "PyTorch"),
        # libraries whose symbols must not be resolved to those of TensorFlow's LLVM
        ("base.shared_libraries", "torch_mlir._mlir_libs"),
        ("base.shared_libraries", "libTorchMLIRAggregateCAPI.so"),
        ("runner.packing", "base/tensors/torch_tensors.py"),
        # the module whose import by the user's script starts the recorder
        ("resume_check.import_hook", "torch"),
    }
    for name, path in sources().items():
        if within(name, "frontends.torch") or within(name, "integrations") or name in USERS_OF_MODELS:
            continue
        if within(name, "frontends.onnx") or name in ("frontends.keras.on_torch", *USERS_OF_TENSORS):
            continue
        # This module reads files of torch.save without PyTorch, so that it knows the names in their pickles.
        if name == "tensor_dumps.pickle_machine":
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


def test_the_common_part_of_frontends_is_small() -> None:
    found = {each.module for each in imports() if each.importer == "program.imported" and not each.own}
    assert found == {"__future__", "collections.abc", "dataclasses", "numpy", "typing"}


def test_the_reference_knows_nothing_else() -> None:
    """The reference interpreter imports no compiler, no MLIR, and from the package only exceptions and numerics.
    Modules may import it to run or read programs, to run single operators, to compare devices and libraries with it, or
    to evaluate its functions (G5)."""
    for each in imports():
        if within(each.importer, "reference"):
            root = each.module.split(".")[0]
            foreign = root in sys.stdlib_module_names or root in ("numpy", "gmpy2")
            known = any(within(each.module, room) for room in ("base.errors", "base.numerics", "reference"))
            assert known if each.own else foreign, each
    users = {each.importer for each in imports() if each.own and within(each.module, "reference")}
    assert {name for name in users if not within(name, "reference")} == {
        "certification.certify", "conformance.block_operands", "conformance.catalogue",
        "conformance.dot_operands", "conformance.function_operands", "conformance.operations",
        "conformance.rounding_operands", "conformance.score", "execute.executable",
        "frontends.torch.objects.defined_construction", "precision_report.statistics", "program.canonical",
        "program.inspection", "random.devices", "random.distributions", "sandbox_worker.work",
        "verification.executors", "verification.operators.building", "verification.operators.extraction",
        "verification.operators.graph", "verification.operators.tracing", "verification.operators.unrolling",
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


def test_the_runner_imports_only_packed_modules() -> None:
    packed = {name_of(PACKAGE / member[len("repro_mlir/") :]) for member in runner_members() if "/" in member}
    assert "runner.session" in packed and "base.numerics.tensors" in packed
    for each in imports():
        # Ignores the imports of the package's __init__, which is empty in a runner.
        if each.importer in packed - {""} and each.kind != "types":
            known = each.module in packed if each.own else each.module.split(".")[0] in sys.stdlib_module_names
            # These modules work without the package that they import, or are not imported if that package is missing.
            optional = (
                ("base.numerics.digest", "blake3"),
                ("base.tensors.torch_tensors", "torch"),
                ("base.tensors.typed_arrays", "ml_dtypes"),
            )
            assert known or each.module == "numpy" or (each.importer, each.module) in optional, each


def test_no_module_needs_itself() -> None:
    """No module imports itself indirectly, even by imports in functions."""
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
    """Runs code in a process in which importing one of the named modules fails; the code must succeed."""
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
        and name not in USERS_OF_TENSORS
        # An integration imports the package with which it integrates, and of_NAME the package NAME.
        and not name.startswith(("integrations.", "conformance.libraries.of_"))
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
    assert "install the extra torch of repro-mlir" in str(error), error
else:
    raise AssertionError
try:
    repro_mlir.frontends.jax.capture(None)
except repro_mlir.ReproError as error:
    assert "install the extra jax of repro-mlir" in str(error), error
else:
    raise AssertionError
try:
    repro_mlir.frontends.tensorflow.capture(None)
except repro_mlir.ReproError as error:
    assert "install the extra jax of repro-mlir" in str(error), error
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
    """Importing a submodule assigns its name in the package. If a lazy public name equalled the name of a submodule, a
    user would get one or the other, depending on the order of imports."""
    found = []
    for path in PACKAGE.rglob("__init__.py"):
        homes = re.search(r"\n_HOMES[^=]* = (\{.*?\})\n", path.read_text(), re.DOTALL)
        if homes:
            names = set(ast.literal_eval(homes[1]))
            assert names
            found.append(names & {each.stem for each in path.parent.iterdir()})
    assert len(found) >= 4 and not any(found)
