# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Names of PyTorch and torch-mlir that are not public; a new version of PyTorch may rename or remove each of them.

All modules of this package import such names from here, so that this file lists what to check for a new version.
Attributes of objects, such as `OpOverload._schema`, are listed in test/python/frontends/test_torch_internals.py.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.swa_utils import AveragedModel

from repro_mlir.frontends.base.tried_versions import private_names, warn_if_untried

if TYPE_CHECKING:
    from torch._dynamo.source import ConstantSource
    from torch._functorch import config as functorch_config
    from torch._functorch._aot_autograd.schemas import MemoryFormatMeta
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
    from torch.utils._sympy.value_ranges import ValueRanges

with private_names("torch"):
    import torch._higher_order_ops.utils
    import torch.fx.experimental.proxy_tensor
    import torch.utils._pytree as pytree
    from torch._C._dynamo import guards
    from torch._decomp import decomposition_table as torch_decompositions
    from torch._decomp.decompositions import _compute_scale as compute_scale
    from torch._decomp.decompositions import _compute_source_index as compute_source_index
    from torch._decomp.decompositions import _grid_sampler_2d as grid_sampler_2d
    from torch._decomp.decompositions import smooth_l1_loss_backward, upsample_compute_output_size
    from torch._dispatch.python import enable_python_dispatcher
    from torch._guards import detect_fake_mode
    from torch._guards import tracing as tracing_context
    from torch._higher_order_ops.associative_scan import generic_associative_scan
    from torch._ops import HigherOrderOperator, OpOverload
    from torch._prims_common import suggest_memory_format
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
    from torch._subclasses.functional_tensor import FunctionalTensor
    from torch.fx._lazy_graph_module import _use_lazy_graph_module as use_lazy_graph_module
    from torch.fx.experimental import _config as symbols_config
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, track_tensor
    from torch.nn.modules import module as modules
    from torch.nn.modules.batchnorm import _NormBase as BatchNormBase
    from torch.nn.utils.stateless import _reparametrize_module as reparametrize_module
    from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
    from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
    from torch.utils._python_dispatch import _disable_current_modes as disable_current_modes
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as current_dispatch_modes

    DisableTorchFunction = torch._C.DisableTorchFunction
    DisableTorchFunctionSubclass = torch._C.DisableTorchFunctionSubclass
    TensorBase = torch._C.TensorBase
    TensorGuards: Any = guards.TensorGuards
    active_data_parallel_module = torch.nn.parallel.DistributedDataParallel._get_active_ddp_module
    assert_async = torch._assert_async
    check = torch._check
    conj_view = torch._conj
    current_autograd_node = torch._C._current_autograd_node
    current_graph_task_id = torch._C._current_graph_task_id
    disable_dynamo = torch._disable_dynamo
    dispatch_operator_names = torch._C._dispatch_get_all_op_names
    empty_strided_cpu: Any = guards._empty_strided_cpu  # type: ignore[attr-defined]  # the stubs lack it
    foreach_lerp_ = torch._foreach_lerp_
    from_functional_tensor = torch._from_functional_tensor
    get_blas_preferred_backend: Any = torch._C._get_blas_preferred_backend
    get_fp32_precision: Any = torch._C._get_fp32_precision_getter
    get_mkldnn_enabled = torch._C._get_mkldnn_enabled
    get_sequence_number = torch.autograd._get_sequence_nr
    grouped_mm = torch._grouped_mm
    torch_is_all_true = torch._is_all_true
    neg_view = torch._neg_view
    nn_functions: Any = torch._C._nn
    pack_padded_sequence: Any = torch._pack_padded_sequence
    pad_packed_sequence: Any = torch._pad_packed_sequence
    parse_schema = torch._C.parse_schema
    saved_tensors_hooks_are_enabled: Any = torch._C._autograd._saved_tensors_hooks_is_enabled  # type: ignore[attr-defined]
    set_mkldnn_enabled = torch._C._set_mkldnn_enabled
    set_saved_tensors_hooks_tracing: Any = torch._C._autograd._saved_tensors_hooks_set_tracing

    GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
        modules._global_forward_pre_hooks,
        modules._global_forward_hooks,
        modules._global_backward_pre_hooks,
        modules._global_backward_hooks,
    )
    """The hooks that apply to all modules."""

    GLOBAL_STEP_HOOKS: tuple[dict[int, Any], ...] = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)
    """The step hooks that apply to all optimizers."""

    # The functions and the constant that are replaced within traces (below).
    _ = (
        torch._check_with,
        torch.autograd._engine_run_backward,
        torch._higher_order_ops.utils._hop_compile_and_call,
        torch.fx.experimental.proxy_tensor.CONSTANT_NUMEL_LIMIT,
        torch.fx.experimental.proxy_tensor.proxy_call,
    )

warn_if_untried("torch", "torch-mlir")

_LATE = {
    "ConstantSource": "torch._dynamo.source",
    "MemoryFormatMeta": "torch._functorch._aot_autograd.schemas",
    "ValueRanges": "torch.utils._sympy.value_ranges",
    "aot_module_simplified": "torch._functorch.aot_autograd",
    "default_partition": "torch._functorch.partitioners",
    "functorch_config": "torch._functorch.config",
    "min_cut_rematerialization_partition": "torch._functorch.partitioners",
}
"""Names that are imported on first use: `import torch` does not import their modules, and some imports take long."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with private_names("torch"):
        module = importlib.import_module(_LATE[name])
        return module if name == "functorch_config" else getattr(module, name)


def dynamo_config() -> Any:
    """Returns the settings of torch.compile; imports TorchDynamo, which takes a second."""
    return torch._dynamo.config


def load_dynamo_tables() -> None:
    """Makes TorchDynamo create its tables of Python functions now instead of at its first use."""
    torch._dynamo.trace_rules.is_builtin_callable(len)
    importlib.import_module("torch._dynamo.convert_frame")


def entering_compiled_functions() -> contextlib.AbstractContextManager[Any]:
    """Within the block, lets a trace enter functions that torch.compile has wrapped, as if they were not compiled."""
    # If TorchDynamo has not been imported, no function has been compiled.
    is_imported = "torch._dynamo" in sys.modules
    return dynamo_config().patch(error_on_nested_fx_trace=False) if is_imported else contextlib.nullcontext()


# --- Functions of PyTorch that a trace replaces ---


@contextlib.contextmanager
def replaced(owner: Any, **makers: Callable[[Any], Any]) -> Iterator[None]:
    """Replaces attributes of a module, class or object within the block; `makers` maps the name of an attribute to a
    function from the former value to the new one.
    """
    former = {name: vars(owner)[name] for name in makers}
    for name, make in makers.items():
        setattr(owner, name, make(former[name]))
    try:
        yield
    finally:
        for name, value in former.items():
            setattr(owner, name, value)


def replace_proxy_call(make: Callable[[Any], Any], most_known: int) -> contextlib.AbstractContextManager[None]:
    """Replaces, within the block, the function that records an operator. Traces keep the values of constants with at
    most `most_known` elements."""
    module = torch.fx.experimental.proxy_tensor
    return replaced(module, CONSTANT_NUMEL_LIMIT=lambda _: most_known, proxy_call=make)


def replace_check_with(make: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces, within the block, the function that `torch._check` calls."""
    return replaced(torch, _check_with=make)


def replace_run_backward(make: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces, within the block, the function with which `backward` and `grad` call the autograd engine."""
    return replaced(torch.autograd, _engine_run_backward=make)


def replace_compile_and_call(make: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces, within the block, the function with which operators such as `torch.cond` compile and call the functions
    passed to them."""
    return replaced(torch._higher_order_ops.utils, _hop_compile_and_call=make)


# --- Functions of PyTorch that change gradients ---


def precede_updates(check_average: Callable[[AveragedModel], None], check_scaler: Callable[[], None]) -> None:
    """Makes `AveragedModel.update_parameters` call `check_average(average)` first, and `GradScaler.update` call
    `check_scaler()` first if no gradient has been unscaled, which is an error in PyTorch."""
    update_average, update_scaler = AveragedModel.update_parameters, torch.amp.GradScaler.update

    @functools.wraps(update_average)
    def update_parameters(average: AveragedModel, model: torch.nn.Module) -> None:
        check_average(average)
        update_average(average, model)

    @functools.wraps(update_scaler)
    def update(scaler: torch.amp.GradScaler, new_scale: float | torch.Tensor | None = None) -> None:
        if scaler.is_enabled() and new_scale is None:
            states = scaler._per_optimizer_states.values()
            if not any(each["found_inf_per_device"] for each in states):
                check_scaler()
        update_scaler(scaler, new_scale)

    AveragedModel.update_parameters = update_parameters  # type: ignore[assignment, method-assign]
    torch.amp.GradScaler.update = update  # type: ignore[assignment, method-assign]


def precede_gradient_functions(check: Callable[[str, list[torch.Tensor]], None]) -> None:
    """Makes the functions that change gradients call `check(name, parameters)` first, also those that the user has
    imported under another name. `clip_grad_norm_` and `GradScaler.step` call others of these functions, but are
    checked first, under the names that the user wrote."""
    clipping = torch.nn.utils
    for wrapper in (clipping.clip_grad_norm_, clipping.clip_grads_with_norm_, clipping.clip_grad_value_):
        with private_names("torch"):
            (cell,) = wrapper.__closure__ or ()
        cell.cell_contents = _preceded_clipping(cell.cell_contents, wrapper.__name__.removeprefix("_"), check)
    unscale, step_ = torch.amp.GradScaler.unscale_, torch.amp.GradScaler.step

    @functools.wraps(unscale)
    def unscale_(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        check("GradScaler.unscale_", _parameters(optimizer))
        unscale(scaler, optimizer)

    @functools.wraps(step_)
    def step(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, *arguments: Any, **keywords: Any) -> Any:
        # A scaler that is not enabled calls `optimizer.step`, which has its own check.
        if scaler.is_enabled():
            check("GradScaler.step", _parameters(optimizer))
        return step_(scaler, optimizer, *arguments, **keywords)

    torch.amp.GradScaler.unscale_ = unscale_  # type: ignore[assignment, method-assign]
    torch.amp.GradScaler.step = step  # type: ignore[assignment, method-assign]


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _preceded_clipping(clip: Any, name: str, check: Callable[[str, list[torch.Tensor]], None]) -> Any:
    @functools.wraps(clip)
    def preceded(parameters: Any, *arguments: Any, **keywords: Any) -> Any:
        # TorchDynamo cannot trace the check.
        if not torch.compiler.is_compiling():
            parameters = [parameters] if isinstance(parameters, torch.Tensor) else [*parameters]
            check(name, parameters)
        return clip(parameters, *arguments, **keywords)

    return preceded


# --- torch-mlir ---


def replace_context_cache(importer: Any, make: Callable[..., Any], context: Any) -> None:
    """Replaces the object that converts types and locations for an FxImporter."""
    importer._cc = make(context, py_attr_tracker=importer._py_attr_tracker)


def context_cache(importer: Any) -> Any:
    """Returns the object that converts types and locations for a GraphNodeImporter."""
    return importer._cc
