# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Exchanges of devices: formulas, and what is never negative."""

from __future__ import annotations

from dataclasses import replace

import pytest
from repro_mlir.roofline import Accelerator, read_machine
from repro_mlir.roofline.transformer.collectives import Group

A100 = read_machine("a100")
assert isinstance(A100, Accelerator)


def test_collectives_are_their_formulas() -> None:
    rate = A100.node_bandwidth * A100.link_efficiency
    for size in (2, 4, 8):
        group = Group(A100, size)
        expected = 2 * (size - 1) / size * 1e9 / rate
        assert group.nodes == 1
        assert group.all_reduce_seconds(1e9) == pytest.approx(expected, rel=0.01)
    assert Group(A100, 1).all_reduce_seconds(1e9) == 0
    # 16 devices of which two are in a node: each node sends through the ports of two devices.
    group = Group(A100, 16, stride=4)
    assert (group.node_members, group.nodes) == (2, 8)
    assert group.bandwidth == pytest.approx(2 * A100.network_bandwidth * A100.link_efficiency)
    # Without bytes, hops of a tree: fewer than those of a ring.
    assert Group(A100, 64, stride=8).gather_seconds(0) == pytest.approx(6 * A100.network_seconds)


@pytest.mark.parametrize("stride", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 16, 64])
def test_latencies_add_time(size: int, stride: int) -> None:
    """Of one member in a node, of some and of all: never less than nothing, and more with each latency."""
    free = Group(replace(A100, node_seconds=0.0, network_seconds=0.0), size, stride)
    near, far = (replace(group.machine, **change) for group, change in
                 ((free, {"node_seconds": 1e-6}), (free, {"network_seconds": 1e-6})))
    both = Group(replace(near, network_seconds=1e-6), size, stride)
    for name in ("gather_seconds", "all_reduce_seconds", "all_to_all_seconds", "send_seconds"):
        for bytes in (0.0, 1e6):
            least = getattr(free, name)(bytes)
            assert least >= 0
            one, other = (getattr(Group(machine, size, stride), name)(bytes) for machine in (near, far))
            assert least <= min(one, other) and max(one, other) <= getattr(both, name)(bytes)
            assert (getattr(both, name)(bytes) > least) == (size > 1)


def test_hops_of_a_ring_are_one_fewer_than_devices() -> None:
    """Of which as many as possible go between nodes."""
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
