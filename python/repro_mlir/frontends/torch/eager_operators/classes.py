# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Assigns to each ATen operator the cause for which its results may differ.

Sources: PyTorch's page of `torch.use_deterministic_algorithms` lists what adds or writes in no fixed order (ATOMICS,
RACES); calls of `alertNotDeterministic` in its kernels name the operators. The other classes follow from the kernels:
a kernel that adds has an order, and a kernel that calls a function of a library has that library's bits.
docs/guides/determinism.md describes what was measured. An operator that is in no table is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from repro_mlir.frontends.torch.base.torch_internals import OpOverload, pytree
from repro_mlir.frontends.torch.eager_operators.causes import (
    ATOMICS,
    ATOMICS_ON_CPU,
    CHOICE,
    CHOICE_ON_CUDA,
    EXACT,
    FUNCTION,
    ORDER,
    RACES,
    RANDOM,
    ROUNDING,
    UNKNOWN,
    Cause,
)

_ALLOCATIONS = frozenset(
    """empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize resize_as set""".split()
)
"""Operators that return memory whose contents nothing has defined."""

_MOVES = frozenset(
    """_assert_async _assert_scalar _assert_tensor_metadata _conj_physical _copy_from _linalg_check_errors
    _local_scalar_dense _pack_padded_sequence _pad_packed_sequence _reshape_copy _to_copy _unsafe_index
    _unsafe_masked_index _unsafe_view _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d alias_copy argwhere as_strided_scatter block_diag bucketize cat
    channel_shuffle clone combinations complex conj_physical constant_pad_nd contiguous copy detach_copy diag
    diag_embed diagonal_backward diagonal_scatter embedding expand_copy eye fill flip full full_like gather
    hstack index index_fill index_select int_repr is_same_size item lift lift_fresh lift_fresh_copy masked_fill
    masked_scatter masked_scatter_backward masked_select meshgrid narrow_copy new_full new_ones new_zeros nonzero
    nonzero_static one_hot ones ones_like permute_copy pixel_shuffle pixel_unshuffle reflection_pad1d
    reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d
    replication_pad3d roll rot90 scalar_tensor searchsorted select_backward select_scatter slice_backward
    slice_scatter split_copy split_with_sizes_copy stack take tril tril_indices triu triu_indices unfold_copy
    unsafe_split unsafe_split_with_sizes upsample_nearest1d upsample_nearest2d upsample_nearest3d where zero
    zeros zeros_like""".split()
)
"""Operators that only move, compare or choose elements; they have no arithmetic."""

_EXACT = frozenset(
    """_amp_foreach_non_finite_check_and_unscale _amp_update_scale _is_all_true _is_any_true _masked_scale _prelu_kernel
    _unique _unique2 abs adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add all amax amin
    aminmax and any argmax argmin bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor ceil clamp clamp_max clamp_min copysign count_nonzero div eq equal
    fake_quantize_per_tensor_affine_cachemask_backward floor fmax fmin frac fractional_max_pool2d
    fractional_max_pool3d frexp gcd ge ger gt hardshrink hardshrink_backward hardtanh hardtanh_backward heaviside
    isfinite isin isinf isnan isneginf isposinf lcm le leaky_relu leaky_relu_backward logical_and logical_not
    logical_or logical_xor lt max max_pool2d_with_indices max_pool3d_with_indices maximum min minimum mul
    multiply nan_to_num native_dropout_backward ne neg nextafter or outer positive reciprocal relu relu6 round
    rsub sgn sign signbit softshrink softshrink_backward sqrt square sub subtract threshold threshold_backward
    true_divide trunc unique_consecutive unique_dim unique_dim_consecutive xor""".split()
)
"""Operators that round each element at most once, as IEEE 754 says, or whose result does not depend on an order."""

_ROUNDING = frozenset(
    """_batch_norm_with_update_functional _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fused_sgd addcdiv
    addcmul addr allclose arange cross deg2rad dequantize fake_quantize_per_tensor_affine_cachemask floor_divide fmod
    hardsigmoid hardsigmoid_backward hardswish hardswish_backward huber_loss_backward isclose lerp linalg_cross
    linspace mse_loss_backward nll_loss2d_backward nll_loss_backward prelu quantize_per_channel quantize_per_tensor
    rad2deg range remainder rrelu_with_noise_backward sigmoid_backward smooth_l1_loss_backward
    soft_margin_loss_backward tanh_backward""".split()
)

_FUNCTION = frozenset(
    """_fused_adagrad _fused_adam _fused_adamw _standard_gamma_grad _thnn_fused_gru_cell _thnn_fused_lstm_cell acos
    acosh angle asin asinh atan atan2 atanh bartlett_window binary_cross_entropy_backward blackman_window celu
    cos cosh digamma elu elu_backward erf erfc erfinv exp exp2 expm1 float_power gelu gelu_backward glu
    glu_backward hamming_window hann_window hypot i0 igamma igammac kaiser_window ldexp lgamma log log10 log1p
    log2 log_sigmoid_backward log_sigmoid_forward logaddexp logaddexp2 logit logit_backward logspace mish
    mish_backward mvlgamma polar polygamma pow rsqrt selu sigmoid silu silu_backward sin sinc sinh softplus
    softplus_backward special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
    special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
    special_chebyshev_polynomial_w special_entr special_erfcx special_hermite_polynomial_h
    special_hermite_polynomial_he special_i0e special_i1 special_i1e special_laguerre_polynomial_l
    special_legendre_polynomial_p special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1
    special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
    special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_xlog1py special_zeta tan tanh
    xlogy""".split()
)

_ORDER = frozenset(
    """_adaptive_avg_pool2d _adaptive_avg_pool3d _addmm_activation _batch_norm_with_update _cdist_backward
    _cdist_forward _chunk_cat _ctc_loss _dirichlet_grad _embedding_bag _embedding_bag_forward_only
    _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _foreach_norm _fused_rms_norm _fused_rms_norm_backward _grouped_mm
    _int_mm _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _log_softmax
    _log_softmax_backward_data _masked_softmax _masked_softmax_backward _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _native_multi_head_attention
    _pdist_backward _pdist_forward _prelu_kernel_backward _safe_softmax _scaled_dot_product_attention_math
    _scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_for_cpu _scaled_grouped_mm _scaled_mm _softmax _softmax_backward_data
    _sparse_mm _sparse_semi_structured_linear _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell_backward_impl
    _transformer_encoder_layer_fwd _trilinear _upsample_bicubic2d_aa _upsample_bilinear2d_aa
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    _weight_int4pack_mm _weight_int8pack_mm _weight_norm_interface _weight_norm_interface_backward
    adaptive_avg_pool1d addbmm addmm addmv affine_grid_generator avg_pool2d avg_pool2d_backward avg_pool3d
    baddbmm batch_norm_backward batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
    batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
    binary_cross_entropy binary_cross_entropy_with_logits bmm cholesky cholesky_inverse cholesky_solve col2im
    conv_tbc cosine_embedding_loss cov cudnn_batch_norm cudnn_batch_norm_backward dist dot
    embedding_dense_backward embedding_renorm geqrf grid_sampler_2d grid_sampler_3d hinge_embedding_loss
    huber_loss im2col inner kl_div l1_loss linalg__powsum linalg_cholesky_ex linalg_eig linalg_eigh
    linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu
    linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular
    linalg_vector_norm linear linear_backward logsumexp lu_unpack margin_ranking_loss matmul matmul_backward
    max_pool2d_backward max_pool2d_with_indices_backward mean mkldnn_linear mm mse_loss multi_margin_loss
    multi_margin_loss_backward multilabel_margin_loss_backward multilabel_margin_loss_forward mv nanmean nansum
    native_batch_norm native_batch_norm_backward native_group_norm native_group_norm_backward native_layer_norm
    native_layer_norm_backward nll_loss_forward norm nuclear_norm ormqr prod renorm smooth_l1_loss
    soft_margin_loss std std_mean sum trace triangular_solve unfold_backward upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d_backward upsample_nearest2d_backward
    upsample_nearest3d_backward upsample_trilinear3d value_selecting_reduction_backward var var_mean vdot""".split()
)

_CHOICE = frozenset("""argsort cummax cummin kthvalue mode msort sort topk""".split())

_ATOMICS = frozenset(
    """_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward _conv_depthwise2d _convolution _ctc_loss_backward
    _cudnn_ctc_loss _cudnn_rnn _cudnn_rnn_backward _efficient_attention_backward _embedding_bag_backward
    _embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward _flash_attention_backward
    _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward
    _segment_reduce_backward _slow_conv2d_backward _slow_conv2d_forward _upsample_bicubic2d_aa_backward
    _upsample_bilinear2d_aa_backward adaptive_avg_pool3d_backward adaptive_max_pool2d_backward
    adaptive_max_pool3d_backward avg_pool3d_backward bincount conv_depthwise3d convolution convolution_backward
    convolution_backward_overrideable convolution_overrideable cudnn_convolution cudnn_convolution_add_relu
    cudnn_convolution_relu cudnn_convolution_transpose cumprod cumsum fractional_max_pool2d_backward
    fractional_max_pool3d_backward grid_sampler_2d_backward grid_sampler_3d_backward histc index_add index_reduce
    logcumsumexp max_pool3d_with_indices_backward miopen_rnn mkldnn_convolution mkldnn_rnn_layer
    mkldnn_rnn_layer_backward nll_loss2d_forward reflection_pad1d_backward reflection_pad2d_backward
    reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
    scatter_add scatter_reduce segment_reduce slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d
    slow_conv_transpose2d slow_conv_transpose3d upsample_bicubic2d_backward upsample_bilinear2d_backward
    upsample_linear1d_backward upsample_trilinear3d_backward""".split()
)

_CHOICE_ON_CUDA = frozenset("""max_unpool2d max_unpool3d median nanmedian scatter""".split())

_RACES = frozenset("""_index_put_impl _unsafe_index_put index_copy index_put put""".split())

CLASSES: dict[str, Cause] = {
    name: cause
    for cause, names in (
        (EXACT, _MOVES | _EXACT),
        (ROUNDING, _ROUNDING),
        (FUNCTION, _FUNCTION),
        (ORDER, _ORDER),
        (CHOICE, _CHOICE),
        (ATOMICS, _ATOMICS),
        (CHOICE_ON_CUDA, _CHOICE_ON_CUDA),
        (RACES, _RACES),
    )
    for name in names
}
"""The cause of each operator, by its name without the underscore of the variant that writes to its operand."""

_OF_SUMS = ROUNDING, ORDER, ATOMICS
"""Causes that do not affect integers, whose additions give the same bits in every order."""

_QUOTIENTS = ("div", "true_divide")
_SUMS = ("add", "sub", "rsub", "subtract")
_PRODUCTS_OF_COMPLEX = ("abs", "mul", "multiply", "square", "reciprocal", "sqrt", "sgn", "outer", "ger", *_QUOTIENTS)
_WRITES_OF_INDICES = ("index_put", "_index_put_impl", "_unsafe_index_put")


def name_of(operator: OpOverload) -> str:
    """Returns the name of an operator in `CLASSES`: without namespace, overload, and marks of lists and of writes."""
    name = operator._schema.name.partition("::")[2].removeprefix("_foreach_")
    return name.strip("_") if name.startswith("__") else name.rstrip("_")


def allocates(operator: OpOverload) -> bool:
    """Whether an operator returns memory whose contents nothing has defined."""
    return name_of(operator) in _ALLOCATIONS


def is_only_view(operator: OpOverload) -> bool:
    """Whether an operator returns another view of its operand, and so computes nothing."""
    return operator.is_view or torch.Tag.inplace_view in operator.tags


def moves(operator: OpOverload) -> bool:
    """Whether an operator only moves, compares or chooses elements, without arithmetic."""
    return name_of(operator) in _MOVES or torch.Tag.view_copy in operator.tags


def cause_of(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Cause:
    """Returns the cause for which the results of a call may differ."""
    if operator.namespace != "aten":
        return UNKNOWN
    call = _Call(operator, args, kwargs)
    if torch.Tag.nondeterministic_seeded in operator.tags and not call.has_no_dropout():
        return RANDOM
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
    is_integer = all(map(_is_integer, tensors))
    name = name_of(operator)
    cause = EXACT if moves(operator) else CLASSES.get(name, UNKNOWN)
    if cause is UNKNOWN:
        return UNKNOWN
    if name in _WRITES_OF_INDICES:
        return _cause_of_index_put(call, is_integer)
    if (is_integer and cause in _OF_SUMS) or call.is_exact():
        return EXACT
    if any(tensor.is_complex() for tensor in tensors) and name in _PRODUCTS_OF_COMPLEX:
        return ROUNDING
    if cause is EXACT and not is_integer and call.rounds_differently():
        return ROUNDING
    return cause


class _Call:
    """A call of an operator, whose arguments may decide the cause."""

    def __init__(self, operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.name = name_of(operator)
        self.args = args
        self._names = [each.name for each in operator._schema.arguments]
        self._kwargs = kwargs

    def argument(self, name: str, default: Any = None) -> Any:
        """Returns an argument by its name, whether it was passed by position or by name."""
        position = self._names.index(name) if name in self._names else len(self.args)
        return self.args[position] if position < len(self.args) else self._kwargs.get(name, default)

    def has_no_dropout(self) -> bool:
        """Whether the operator draws random numbers only for dropout, as attention may, and the call has no dropout."""
        names = [name for name in ("dropout_p", "dropout") if name in self._names]
        return bool(names) and not self.argument(names[0])

    def is_exact(self) -> bool:
        """Whether the arguments make a call exact that is not exact in general."""
        if self.name == "pow":
            # The kernels compute the square and the root without calling a function.
            base, exponent = self.args[:2]
            is_real = isinstance(base, torch.Tensor) and not base.is_complex()
            return is_real and isinstance(exponent, int | float) and exponent in (0, 0.5, 1, 2)
        if self.name in ("scatter_reduce", "index_reduce"):
            return self.argument("reduce") in ("amax", "amin")
        # A number gives the same element in whatever order it is written.
        return self.name == "scatter" and "value" in self._names and self.argument("reduce") is None

    def rounds_differently(self) -> bool:
        """Whether kernels differ in the number of roundings, for an operator that rounds once in general."""
        if self.name in _SUMS:
            alpha = self.argument("alpha", 1)
            return isinstance(alpha, torch.Tensor) or alpha not in (1, -1)
        if self.name in _QUOTIENTS:
            return self.argument("rounding_mode") is not None or not _divides_exactly(self.args[1])
        return self.name == "round" and bool(self.argument("decimals", 0))


def _cause_of_index_put(call: _Call, is_integer: bool) -> Cause:
    """Returns the cause for `x[indices] = values` and for `accumulate=True`."""
    indices = [each for each in call.argument("indices") if each is not None]
    if all(each.dtype in (torch.bool, torch.uint8) for each in indices):
        # A mask selects no element twice.
        return EXACT
    if call.argument("accumulate", False):
        return EXACT if is_integer else ATOMICS_ON_CPU
    return EXACT if call.argument("values").numel() == 1 else RACES


def _is_integer(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()


def _divides_exactly(divisor: Any) -> bool:
    """Whether the kernels agree on a quotient: on CUDA they multiply by the reciprocal of a number, which gives the
    same quotient only for powers of two."""
    if isinstance(divisor, torch.Tensor):
        return divisor.dim() > 0
    if isinstance(divisor, list | tuple):
        return all(map(_divides_exactly, divisor))
    return isinstance(divisor, int | float) and divisor != 0 and abs(math.frexp(divisor)[0]) == 0.5
