# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that only torch_internals.py uses private names of PyTorch and torch-mlir, and that these names exist."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir.frontends.torch.base import torch_internals
from repro_mlir.frontends.torch.base.hooks import MODULE_HOOKS

PACKAGE = Path(repro_mlir.__file__).parent
INTERNALS = "repro_mlir.frontends.torch.base.torch_internals"
MODULES = sorted(
    path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "_mlir_libs" not in path.parts
)

MODULE = torch.nn.Linear(1, 1)
PARAMETER = MODULE.weight
GRADIENT = (PARAMETER * 2).grad_fn
GRAPH = torch.fx.symbolic_trace(MODULE).graph
OPTIMIZER = torch.optim.SGD([PARAMETER])
SCHEDULED = torch.optim.SGD([PARAMETER])
torch.optim.lr_scheduler.ConstantLR(SCHEDULED)
SCHEDULED.step()
ATTRIBUTES = {
    "_is_view": [torch.Tensor],
    "_backward_hooks": (MODULE, PARAMETER),
    "_backward_pre_hooks": (MODULE,),
    "_buffers": (MODULE,),
    "_cdata": (PARAMETER.untyped_storage(),),
    "_forward_hooks": (MODULE,),
    "_forward_pre_hooks": (MODULE,),
    "_get_growth_tracker": (torch.amp.GradScaler,),
    "_growth_tracker": (torch.amp.GradScaler("cpu"),),
    "_has_symbolic_sizes_strides": (PARAMETER,),
    "_lazy_init_scale_growth_tracker": (torch.amp.GradScaler,),
    "_modules": (MODULE,),
    "_opt_called": (SCHEDULED,),
    "_optimizer_step_post_hooks": (OPTIMIZER,),
    "_optimizer_step_pre_hooks": (OPTIMIZER,),
    "_overloadname": (torch.ops.aten.add.Tensor,),
    "_parameters": (MODULE,),
    "_post_accumulate_grad_hooks": (PARAMETER,),
    "_rand": (np.random.mtrand,),
    "_rename": (torch.fx.Node,),
    "_root": (GRAPH,),
    "_scale": (torch.amp.GradScaler("cpu"),),
    "_schema": (torch.ops.aten.add.Tensor,),
    "_sequence_nr": (GRADIENT,),
    "_version": (PARAMETER,),
    "_wrapped_by_lr_sched": (SCHEDULED.step,),
}
"""Private attributes of objects of PyTorch and NumPy that the frontend reads, each with objects that have it."""


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text())


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def is_foreign(name: str) -> bool:
    return name.split(".")[0] in ("torch", "torch_mlir")


def bound_names(tree: ast.Module) -> dict[str, str]:
    """Returns, for each name that a module's imports bind, the full name of the imported object."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name.split(".")[0]: each.name if each.asname else each.name.split(".")[0]
                      for each in node.names}  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and node.module:
            home = "torch" if node.module == INTERNALS else node.module
            found |= {each.asname or each.name: f"{home}.{each.name}" for each in node.names}
    return found


def chains(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yields the first name and the attributes of each chain such as `a.b.c`. The name is empty if the chain starts
    with another expression, such as a call."""
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node not in inner:
            attributes: list[str] = []
            value: ast.expr = node
            while isinstance(value, ast.Attribute):
                inner.add(value)
                attributes.insert(0, value.attr)
                value = value.value
            yield value.id if isinstance(value, ast.Name) else "", attributes


def private_names(module: str) -> list[str]:
    """Returns the private names of PyTorch and torch-mlir that a module imports, or reads from imported objects."""
    tree = tree_of(module)
    bound = bound_names(tree)
    imported = [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    read = [".".join([bound[name], *attributes]) for name, attributes in chains(tree) if name in bound]
    names = {*imported, *bound.values(), *read}
    # Skips operators: the name of an operator is part of its schema, even if the name begins with an underscore.
    return sorted(n for n in names if is_foreign(n) and is_private(n) and not n.startswith("torch.ops."))


def test_only_torch_internals_uses_private_names() -> None:
    found = {module: names for module in MODULES if (names := private_names(module))}
    assert [*found] == ["frontends/torch/base/torch_internals.py"], found


def test_private_names_are_found() -> None:
    names = private_names("frontends/torch/base/torch_internals.py")
    assert {"torch._C._autograd._saved_tensors_hooks_is_enabled", "torch.utils._pytree"} <= {*names}
    assert "torch._guards.tracing" in names


def test_each_name_exists() -> None:
    for name in torch_internals._LATE:
        assert getattr(torch_internals, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        _ = torch_internals.absent
    config = torch_internals.dynamo_config()
    for name in ("recompile_limit", "fail_on_recompile_limit_hit", "error_on_nested_fx_trace"):
        assert isinstance(getattr(config, name), bool | int)
    assert torch_internals.active_data_parallel_module() is None


def test_replaced_functions_are_restored() -> None:
    modules = (torch, torch._higher_order_ops.utils, torch.fx.experimental.proxy_tensor)
    before = [{**vars(module)} for module in modules]
    seen = []

    def make(former: object) -> object:
        seen.append(former)
        return None

    with (
        torch_internals.replace_check_with(make),
        torch_internals.replace_compile_and_call(make),
        torch_internals.replace_proxy_call(make, 7),
    ):
        assert torch.fx.experimental.proxy_tensor.CONSTANT_NUMEL_LIMIT == 7
        assert [vars(module) == former for module, former in zip(modules, before, strict=True)] == [False] * 3
    assert len(seen) == 3 and all(map(callable, seen))
    assert [{**vars(module)} for module in modules] == before


def private_attributes(module: str) -> set[str]:
    """Returns the private attributes that a module reads from objects, except those that the module or its imports
    define."""
    tree = tree_of(module)
    bound = bound_names(tree)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    fields = [node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
    own |= {field.id for field in fields if isinstance(field, ast.Name)}
    own |= {attributes[0] for name, attributes in chains(tree) if name in ("self", "cls")}
    read = {each for name, attributes in chains(tree) if name not in bound and name != "aten" for each in attributes}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > 1]
    named = [call.args[1] for call in calls if isinstance(call.func, ast.Name) and call.func.id.endswith("attr")]
    read |= {each.value for each in named if isinstance(each, ast.Constant)}
    # `_fields` is the documented attribute of named tuples.
    return {*filter(is_private, read)} - own - {"_fields"}


def test_private_attributes_are_listed() -> None:
    modules = [each for each in MODULES if each.startswith("frontends/torch/") and "torch_internals" not in each]
    assert set().union(*map(private_attributes, modules)) | {*MODULE_HOOKS} == {*ATTRIBUTES}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_each_attribute_exists(name: str) -> None:
    assert all(hasattr(each, name) for each in ATTRIBUTES[name])
