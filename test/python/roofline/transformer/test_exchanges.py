# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the predicted times of exchanges between devices: formulas, times that are never negative, and shares of a
step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.base.errors import ReproError
from repro_mlir.roofline import Accelerator, read_machine
from repro_mlir.roofline.transformer import PRESETS, Parallelism, Training, predict_decoding, predict_training
from repro_mlir.roofline.transformer.collectives import Group

A100 = read_machine("a100")
assert isinstance(A100, Accelerator)
LLAMA = PRESETS["llama3-8b"]


def test_collectives_are_their_formulas() -> None:
    rate = A100.node_bandwidth * A100.link_efficiency
    for size in (2, 4, 8):
        group = Group(A100, size)
        expected = 2 * (size - 1) / size * 1e9 / rate
        assert group.nodes == 1
        assert group.all_reduce_seconds(1e9) == pytest.approx(expected, rel=0.01)
    assert Group(A100, 1).all_reduce_seconds(1e9) == 0
    # 16 devices, two per node: each node sends through the ports of two devices.
    group = Group(A100, 16, stride=4)
    assert (group.node_members, group.nodes) == (2, 8)
    assert group.bandwidth == pytest.approx(2 * A100.network_bandwidth * A100.link_efficiency)
    # Without bytes, only the latency of hops counts: a tree, with 6 hops here, has fewer than a ring.
    assert Group(A100, 64, stride=8).gather_seconds(0) == pytest.approx(6 * A100.network_seconds)


@pytest.mark.parametrize("stride", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 16, 64])
def test_latencies_add_time(size: int, stride: int) -> None:
    """Covers groups of which one, some or all members are in a node. Times are never negative, and each latency
    increases them."""
    free = Group(replace(A100, node_seconds=0.0, network_seconds=0.0), size, stride)
    near, far = (
        replace(group.machine, **change)
        for group, change in ((free, {"node_seconds": 1e-6}), (free, {"network_seconds": 1e-6}))
    )
    both = Group(replace(near, network_seconds=1e-6), size, stride)
    for name in ("gather_seconds", "all_reduce_seconds", "all_to_all_seconds", "send_seconds"):
        for bytes in (0.0, 1e6):
            least = getattr(free, name)(bytes)
            assert least >= 0
            one, other = (getattr(Group(machine, size, stride), name)(bytes) for machine in (near, far))
            assert least <= min(one, other) and max(one, other) <= getattr(both, name)(bytes)
            assert (getattr(both, name)(bytes) > least) == (size > 1)


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_links_that_a_device_has_not(size: int) -> None:
    """A machine without the bandwidth of a link is refused only if an exchange sends bytes over this link."""
    for name, strides in (("node_bandwidth", (8,)), ("network_bandwidth", (1,) if size < 9 else ())):
        machine = replace(A100, **{name: 0.0})
        for stride in (1, 8):
            group = Group(machine, size, stride)
            for exchange in (group.gather_seconds, group.all_to_all_seconds):
                if size == 1 or stride in strides:
                    assert exchange(1e9) == getattr(Group(A100, size, stride), exchange.__name__)(1e9)
                else:
                    with pytest.raises(ReproError, match=f"a100: expected {name} above 0 where devices"):
                        exchange(1e9)


def test_hops_of_a_ring_are_one_fewer_than_devices() -> None:
    """The prediction assumes that as many hops of a ring as possible are between nodes."""
    for size, stride, within, between in ((8, 1, 7, 0), (2, 8, 0, 1), (3, 8, 0, 2), (3, 4, 0, 2), (4, 4, 1, 2)):
        machine = replace(A100, node_seconds=1.0, network_seconds=1.0)
        ring = size - 1
        assert within + between == ring
        slow = replace(A100, node_seconds=1.0, network_seconds=100.0)
        halving = (size - 1).bit_length()
        found = Group(machine, size, stride).gather_seconds(0)
        assert found == min(ring, halving)
        found = Group(slow, size, stride).gather_seconds(0)
        assert found == min(within + 100 * between, halving * (100 if between else 1))


def test_all_parts_of_an_exchange_among_all_are_on_their_way_at_once() -> None:
    assert Group(A100, 64).all_to_all_seconds(0) == A100.network_seconds
    assert Group(A100, 8).all_to_all_seconds(0) == A100.node_seconds


def causes(parallelism: Parallelism, **changes: int | str) -> dict[str, float]:
    """Returns the predicted causes of a training step with one microbatch of one sequence, in seconds by name."""
    config = replace(LLAMA, **changes)
    return predict_training(config, A100, Training(parallelism.data, parallelism=parallelism)).causes


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_exchanges_of_tensors_are_those_of_layers_and_of_both_ends(sequence_parallel: bool) -> None:
    """In addition to the layers, the embedding exchanges rows of its table, and the head exchanges the gradient of its
    input and three numbers per token for the loss."""
    group, tokens = Group(A100, 8), LLAMA.sequence
    activations = group.all_reduce_seconds(2 * tokens * LLAMA.hidden)
    expected = (4 * LLAMA.layers + 2) * activations + 3 * group.all_reduce_seconds(4 * tokens)
    found = causes(Parallelism(tensor=8, sequence_parallel=sequence_parallel))
    assert found["tensor"] == pytest.approx(expected)


def test_decoding_gathers_scores() -> None:
    group = Group(A100, 8)
    rows = group.all_reduce_seconds(2 * 256 * LLAMA.hidden)
    scores = group.gather_seconds(2 * 256 * LLAMA.vocabulary)
    found = predict_decoding(LLAMA, A100, 256, 4096, tensor=8)
    assert found.causes["tensor"] == pytest.approx((2 * LLAMA.layers + 1) * rows + scores)
    # (T2) does not divide the token table among devices.
    operands = predict_decoding(LLAMA, A100, 256, 4096, tensor=8, gathers_operands=True)
    widths = (LLAMA.query_size, LLAMA.hidden, LLAMA.ffn, LLAMA.hidden)
    gathered = sum(group.gather_seconds(2 * 256 * width) for width in widths)
    assert operands.causes["tensor"] == pytest.approx(LLAMA.layers * gathered + scores)
    assert operands.weights - found.weights == pytest.approx(2 * LLAMA.embedding_parameters * 7 / 8)


@pytest.mark.parametrize("sequence", [256, 8192])
@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_overlap_never_takes_longer(tensor: int, sequence: int) -> None:
    found, beside = (
        causes(Parallelism(tensor=tensor, overlaps_tensor=overlaps), sequence=sequence)["tensor"]
        for overlaps in (False, True)
    )
    assert beside <= found and (found > 0) == (beside > 0) == (tensor > 1)


def test_data_without_overlap_is_exchanged_once() -> None:
    """Layers gather their weights twice, for the forward and the backward pass; the embedding and the head do so only
    once. All gradients are exchanged once."""
    group = Group(A100, 8)
    ends = LLAMA.embedding_parameters + LLAMA.head_parameters
    layers = LLAMA.parameters - ends
    expected = 2 * group.gather_seconds(2 * layers) + group.gather_seconds(4 * layers)
    expected += group.gather_seconds(2 * ends) + group.gather_seconds(4 * ends)
    found = causes(Parallelism(data=8, sharding="full", overlaps_data=False))
    assert found["data"] == pytest.approx(expected)
    for sharding, bytes in (("none", 8), ("optimizer", 6)):
        found = causes(Parallelism(data=8, sharding=sharding, overlaps_data=False))
        assert found["data"] == pytest.approx(group.gather_seconds(bytes * LLAMA.parameters), rel=0.01)
