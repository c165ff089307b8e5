# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Each module of frontends/torch has a test file with its name, is imported by a test, or is listed here with its
test."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
TORCH = TESTS.parents[1] / "python" / "repro_mlir" / "frontends" / "torch"

TESTED_BY = {
    "frontends/test_any_optimizer.py": "expressions number_calls state_slots traced_numbers traced_optimizers",
    "frontends/test_complex.py": "complex_pairs",
    "frontends/test_composed_operators.py": "bit_patterns householder resampling special_coefficients",
    "frontends/test_control_flow.py": "branches interpreters known_values value_checks",
    "frontends/test_exported.py": "open_sizes",
    "frontends/test_indices.py": "written_indices",
    "frontends/test_messages.py": "user_objects value_requests",
    "frontends/test_operators.py": "counting decompositions fused linear_algebra opmath",
    "frontends/test_pool_positions.py": "fractional_pooling pool_indices",
    "frontends/test_random.py": "traced_steps",
    "frontends/test_scalars.py": "rank_zero",
    "frontends/test_selections.py": "selected_rows selection_rules size_decisions",
    "frontends/test_sizes.py": "known_shapes symbolic_extents symbolic_reshapes",
    "frontends/test_training.py": "model_modes optimizers rule_updates",
    "frontends/test_traps.py": "compositions foreach pooling",
    "frontends/test_tried_versions.py": "torch_mlir_names",
    "frontends/test_unsigned.py": "wide_integers",
    "frontends/test_upsampling.py": "constant_indices",
    "compile_model/test_compiled_models.py": "exported_files",
    "precision/test_delayed_scaling.py": "trainer_state",
    "torch_compile/test_backend.py": "aot",
    "torch_compile/test_compiled_loops.py": "device_tensors",
    "train/test_batches.py": "batch_leaves flat_batch",
    "train/test_changes_between_steps.py": "captured_program hashable_values module_calls watch",
    "train/test_compiled_optimizer.py": "given_gradients",
    "train/test_early_errors.py": "subject",
    "train/test_evaluate.py": "evaluation",
    "train/test_microbatches.py": "microbatch_reduction",
    "train/test_returns.py": "kept_tensors step_results steps_with_loss",
    "train/test_writes_of_steps.py": "code_names object_kinds read_values written_tensors",
}


def test_each_module_has_a_test() -> None:
    modules = {path.stem: path for path in TORCH.rglob("*.py") if path.name != "__init__.py"}
    texts = [path.read_text() for path in TESTS.parent.rglob("*.py")]
    named = {path.stem.removeprefix("test_") for path in TESTS.rglob("test_*.py")}

    def is_imported(path: Path) -> bool:
        package = re.escape(".".join(("repro_mlir.frontends.torch", *path.parent.relative_to(TORCH).parts)))
        pattern = re.compile(rf"{package}\.{path.stem}\b|from {package} import .*\b{path.stem}\b")
        return any(pattern.search(text) for text in texts)

    listed = {name for names in TESTED_BY.values() for name in names.split()}
    untested = {name for name, path in modules.items() if name not in named and not is_imported(path)}
    assert untested == listed


@pytest.mark.parametrize("test", TESTED_BY)
def test_the_test_exists(test: str) -> None:
    assert (TESTS / test).is_file()
