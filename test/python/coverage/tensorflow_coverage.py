# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far each operation of TensorFlow gets: captured, imported, close to TensorFlow, bit-equal on CPUs.

As a script, in an environment with TensorFlow (`make coverage-tensorflow`): runs the operations of a table through all
stages, and writes one JSON line per operation and a table of counts.

    python test/python/coverage/tensorflow_coverage.py [--jobs N] [--out FILE] [--accept | --expect] [NAME ...]

With --accept, the outcomes become the expected ones (expected_tensorflow.json), and docs/coverage/tensorflow.md is
rewritten. With --expect, outcomes that differ from the expected ones are an error.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from processes import run_in_processes
from stages import LEVELS, STAGES, Run
from suite import Outcome, Suite, run_script

# Functions of one tensor: functions of any float, of floats between -1 and 1 (_UNIT), and of floats above 0
# (_POSITIVE).
_ANY = """
abs atan math.ceil cos cosh math.erf math.erfc exp math.expm1 floor negative math.rint round sigmoid sign sin sinh
math.softplus math.softsign square tan tanh
nn.elu nn.gelu nn.leaky_relu nn.relu nn.relu6 nn.selu nn.silu nn.softmax nn.log_softmax math.is_finite
math.is_nan math.is_inf asinh math.bessel_i0e math.bessel_i1e math.digamma math.log_sigmoid zeros_like
ones_like identity stop_gradient size shape math.cumsum sort argsort reduce_sum reduce_mean reduce_max
reduce_min reduce_prod math.reduce_std math.reduce_variance math.reduce_logsumexp math.reduce_euclidean_norm
math.l2_normalize math.zero_fraction math.cumprod math.cumulative_logsumexp math.argmax math.argmin
"""
_UNIT = "acos asin atanh math.erfinv math.ndtri"
_POSITIVE = "acosh math.log math.log1p math.lgamma math.reciprocal math.rsqrt sqrt"
_PAIRS = """
add subtract multiply divide maximum minimum math.atan2 math.floormod math.floordiv math.divide_no_nan
math.multiply_no_nan math.squared_difference math.xlogy math.xlog1py math.xdivy math.nextafter math.igamma math.igammac
math.zeta math.polygamma math.pow greater greater_equal less less_equal equal not_equal truncatediv truncatemod
"""

# Calls of operations, separated by "|". Their tensors are f32: x is 2x3x4, m 4x4, i 1x6x6x3 and k 3x3x3x2.
_CALLS = """
math.betainc(x*0+2., x*0+3., sigmoid(x)) | math.bincount(n, minlength=7) | math.confusion_matrix(n, n, 7) |
math.in_top_k([1, 2], x[0, :2], 2) | math.top_k(x, 2) | math.segment_sum(x, [0, 1]) |
math.unsorted_segment_sum(m, n[:4], 7) | math.unsorted_segment_max(m, n[:4], 7) |
math.unsorted_segment_mean(m, n[:4], 7) | math.accumulate_n([x, x]) | math.add_n([x, x]) | math.polyval([x, x], x) |
cast(x, bfloat16) | cast(x, float16) | cast(x*10, int32) | cast(abs(x)*10, uint8) | cast(x, float64) |
bitcast(x, int32) | saturate_cast(x*300, int8) | clip_by_value(x, -0.5, 0.5) | clip_by_norm(x, 1.0) |
clip_by_global_norm([x, x], 1.0) | linalg.global_norm([x, x]) | bitwise.bitwise_and(n, n+3) |
bitwise.left_shift(n, n) | bitwise.right_shift(n, n) | bitwise.invert(n) | logical_and(x>0, x>1) | logical_not(x>0) |
reduce_any(x>0, 1) | reduce_all(x>0, 1) | where(x>0, x, 2*x) | concat([x, x], 1) | stack([x, x], 1) |
unstack(x, axis=1) | split(x, 2, 2) | reshape(x, [6, -1]) | transpose(x, [2, 0, 1]) | squeeze(x[:1], 0) |
expand_dims(x, 1) | tile(x, [2, 1, 2]) | pad(x, [[1, 0], [2, 1], [0, 0]]) |
pad(x, [[1, 0], [2, 1], [0, 0]], "REFLECT") | pad(x, [[1, 0], [1, 1], [0, 0]], "SYMMETRIC") | reverse(x, [1]) |
roll(x, 2, 1) | repeat(x, 2, 1) | broadcast_to(x[:1], [5, 3, 4]) | slice(x, [0, 1, 1], [2, 2, 2]) |
strided_slice(x, [0, 0, 3], [2, 3, 0], [1, 2, -1]) | gather(x, [2, 0], axis=1) | gather(m, n%4) |
gather_nd(x, [[0, 1], [1, 2]]) | gather(x, [[0, 1], [2, 2]], axis=1, batch_dims=1) |
scatter_nd([[1], [3]], m[:2], [5, 4]) | tensor_scatter_nd_add(m, [[1], [1]], m[:2]) |
tensor_scatter_nd_update(m, [[1], [3]], m[:2]) | tensor_scatter_nd_max(m, [[1], [3]], m[:2]) | one_hot(n, 7) |
range(0, 5) | linspace(0., 1., 5) | eye(4) | fill([2, 3], 1.5) | meshgrid(m[0], m[1]) | boolean_mask(x, x>0) |
where(x>0) | unique(n) | dynamic_partition(m, [0, 1, 0, 1], 2) | dynamic_stitch([[0, 2], [1, 3]], [m[:2], m[2:]]) |
searchsorted([1., 2., 3.], m[0]) | sequence_mask([1, 3], 4) | histogram_fixed_width(x, [-2., 2.], 5) |
reverse_sequence(x, [2, 3], 1) | space_to_batch(i, [2, 2], [[0, 0], [0, 0]]) |
image.extract_patches(i, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID") | einsum("abc,dc->abd", x, m) |
matmul(m, m, transpose_b=True) | tensordot(x, m, 1) | linalg.matvec(m, m[0]) | linalg.trace(m) | linalg.diag(m) |
linalg.diag_part(m) | linalg.band_part(m, 1, 0) | linalg.set_diag(m, m[0]) | linalg.cholesky(s) | linalg.inv(s) |
linalg.det(s) | linalg.solve(s, m) | linalg.triangular_solve(s, m) | linalg.cholesky_solve(s, m) | linalg.lu(s) |
linalg.qr(m) | linalg.svd(m) | linalg.eigh(s) | linalg.expm(m) | linalg.norm(x) |
linalg.cross(x[:, :, :3], x[:, :, 1:]) | linalg.adjoint(m) | linalg.slogdet(s) | linalg.logdet(s) | linalg.pinv(m) |
linalg.lstsq(s, m) | linalg.tridiagonal_solve(m[:3], m[0], partial_pivoting=False) | nn.conv2d(i, k, 1, "SAME") |
nn.conv2d(i, k, 2, "VALID") | nn.conv2d(i, k, 1, "SAME", dilations=2) | nn.conv1d(i[0], k[0], 1, "SAME") |
nn.conv2d_transpose(i[:, :, :, :2], k, [1, 12, 12, 3], 2, "SAME") | nn.depthwise_conv2d(i, k, [1, 1, 1, 1], "SAME") |
nn.separable_conv2d(i, k, reshape(x, [1, 1, 6, 4]), [1, 1, 1, 1], "SAME") |
nn.conv3d(i[:, :, :, None], k[None], [1, 1, 1, 1, 1], "SAME") | nn.max_pool2d(i, 2, 2, "SAME") |
nn.avg_pool2d(i, 3, 2, "SAME") | nn.max_pool1d(i[0], 2, 1, "VALID") | nn.avg_pool3d(i[None], 2, 1, "SAME") |
nn.max_pool_with_argmax(i, 2, 2, "SAME") | nn.bias_add(i, [1., 2., 3.]) |
nn.batch_normalization(i, 0.5, 2., 1., 3., 1e-3) | nn.moments(i, [0, 1, 2]) | nn.local_response_normalization(i) |
nn.l2_loss(x) | nn.dropout(x, 0.5) | nn.experimental.stateless_dropout(x, 0.5, [1, 2]) | nn.embedding_lookup(m, n%4) |
nn.softmax_cross_entropy_with_logits(softmax(m), m) | nn.sparse_softmax_cross_entropy_with_logits(n[:4]%4, m) |
nn.sigmoid_cross_entropy_with_logits(m*0+.5, m) | nn.weighted_cross_entropy_with_logits(m*0+.5, m, 2.) |
nn.log_poisson_loss(m, m) | nn.ctc_loss([[1, 2]], reshape(x[:1], [3, 1, 4]), [2], [3], blank_index=0) |
nn.space_to_depth(i, 2) | nn.depth_to_space(tile(i, [1, 1, 1, 4]), 2) | nn.crelu(x) |
nn.erosion2d(i, k[:, :, :, 0], [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]) | nn.atrous_conv2d(i, k, 2, "SAME") |
image.resize(i, [9, 4]) | image.resize(i, [9, 4], "nearest") | image.resize(i, [9, 4], "bicubic") |
image.resize(i, [3, 4], antialias=True) | image.adjust_brightness(i, .1) | image.adjust_contrast(i, 2.) |
image.adjust_hue(sigmoid(i), .1) | image.adjust_saturation(sigmoid(i), 2.) | image.adjust_gamma(sigmoid(i), 2.) |
image.flip_left_right(i) | image.rot90(i) | image.rgb_to_grayscale(i) | image.rgb_to_hsv(sigmoid(i)) |
image.hsv_to_rgb(sigmoid(i)) | image.rgb_to_yuv(i) | image.central_crop(i, .5) |
image.crop_and_resize(i, [[0., 0., .5, .7]], [0], [3, 3]) | image.ssim(i[:, :, :, :1], i[:, ::-1, :, :1], 1., 3) |
image.psnr(i, i[:, ::-1], 1.) | image.total_variation(i) | image.sobel_edges(i) | image.image_gradients(i) |
image.per_image_standardization(i) | image.non_max_suppression(abs(m), m[0], 2) | signal.frame(x, 2, 1) |
signal.hann_window(8) | signal.hamming_window(8) | signal.kaiser_window(8) | signal.overlap_and_add(x, 2) |
signal.dct(x) | signal.rfft(x) | signal.stft(x, 4, 2) | signal.mfccs_from_log_mel_spectrograms(x) |
signal.linear_to_mel_weight_matrix(4, 9, 8000) | random.stateless_uniform([5], [1, 2]) |
random.stateless_normal([5], [1, 2]) | random.stateless_truncated_normal([5], [1, 2]) |
random.stateless_categorical(m, 3, [1, 2]) | random.stateless_poisson([5], [1, 2], 2.) |
random.stateless_binomial([5], [1, 2], 3., .5) | random.normal([3]) | random.shuffle(m) |
quantization.fake_quant_with_min_max_args(x) | debugging.check_numerics(x, 'bad') | ensure_shape(x, [2, 3, 4]) |
map_fn(tanh, x) | scan(add, x) | foldl(add, x) | vectorized_map(softmax, x) |
cond(x[0, 0, 0]>0, lambda: x, lambda: 2*x) | while_loop(lambda j, y: j<3, lambda j, y: (j+1, y*2), (0, x)) |
numpy_function(abs, [x], float32)
"""


def entries() -> list[str]:
    """Returns the names of all entries: a call of each operation in the tables above."""
    unary = [(names, call) for names, call in ((_ANY, "x"), (_UNIT, "tanh(x)"), (_POSITIVE, "abs(x)+.5"))]
    found = [f"{name}({call})" for names, call in unary for name in names.split()]
    found += [f"{name}(abs(x)+.5, x[0])" for name in _PAIRS.split()]
    return [*found, *(call.strip().replace("\n", " ") for call in _CALLS.split("|"))]


def _function(entry: str) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the call `entry` as a function of its tensors, and the tensors."""
    import numpy as np
    import tensorflow as tf

    draw = np.random.default_rng(0)
    square = draw.normal(size=(4, 4))
    given = {
        "x": draw.normal(size=(2, 3, 4)),
        "m": square,
        "s": square @ square.T + 4 * np.eye(4),
        "i": draw.normal(size=(1, 6, 6, 3)),
        "k": draw.normal(size=(3, 3, 3, 2)),
    }
    tensors = {name: value.astype(np.float32) for name, value in given.items()}
    tensors["n"] = np.array([3, 0, 6, 1, 3], np.int32)
    code = compile(entry, entry, "eval")
    used = [name for name in tensors if name in code.co_names]
    names = {name: getattr(tf, name) for name in code.co_names if hasattr(tf, name)} | {"softmax": tf.nn.softmax}
    inner = {name: getattr(tf, name) for name in ("tanh", "add", "abs", "float32")}
    return lambda *values: eval(code, {**inner, **names, **dict(zip(used, values, strict=True))}), [
        tensors[name] for name in used
    ]


def run_entry(entry: str) -> Outcome:
    """Runs an operation through the stages in this process. Returns the stage that it reached; never raises an
    exception."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import numpy as np
    import tensorflow as tf
    from repro_mlir.frontends.tensorflow import import_function

    run = Run(entry)
    try:
        function, arguments = _function(entry)
        is_random = entry.startswith("random") or "dropout" in entry
        expected = tf.function(function, jit_compile=is_random)(*map(tf.constant, arguments))
        run.stage = "capture"
        imported = import_function(function, *arguments)
        run.load(imported.text)
        results = run.interpret(*imported.initial, *imported.read_inputs(arguments))
        outputs = results[len(imported.state) :]
        for number, (got, want) in enumerate(zip(outputs, tf.nest.flatten(expected), strict=True)):
            wanted = tf.cast(want, tf.float64).numpy()
            got = got.view(imported.outputs[number].dtype) if imported.outputs[number].unsigned else got
            said = f"result {number}"
            np.testing.assert_allclose(got.astype(np.float64), wanted, 1e-3, 1e-4, err_msg=said, verbose=False)
        run.compare_levels()
    except (Exception, SystemExit) as error:
        outcome = run.failed(error)
        # Strips the source position and the node's name, so that entries that fail for the same reason have the same
        # text.
        reason = re.sub(r"^(\w+: (?:cannot import the program: )?).*:1(:0)?: (node \S+: )?", r"\1", outcome.reason)
        return replace(outcome, reason=reason)
    return run.ok()


def run_all(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Runs operations in `jobs` processes; yields the outcomes as they finish."""
    return run_in_processes(run_entry, names, jobs, limit=120.0)


def _about() -> list[str]:
    from importlib.metadata import version

    return [
        "The entries are functions of TensorFlow's public API on small tensors (the table is in the script) as",
        "programs:",
        f"tensorflow-cpu {version('tensorflow-cpu')}, {datetime.date.today()}. `ok` means: captured, imported, run by "
        "the reference interpreter with results close to those of TensorFlow (rtol 1e-3, atol 1e-4; for random",
        f"numbers those of `jit_compile=True`), and bit-equal to it at {' and '.join(LEVELS)} with one thread and at",
        "the level of the machine with three.",
    ]


SUITE = Suite("tensorflow_coverage.py", "tensorflow", "Coverage of TensorFlow", STAGES, _about, what="operations")


if __name__ == "__main__":
    run_script(__doc__, SUITE, entries, run_all)
