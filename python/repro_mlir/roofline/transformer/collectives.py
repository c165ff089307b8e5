# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Predicts the time of communication among devices from latencies and bandwidths. The times of collectives follow
Thakur et al. (2005).

The gradient sums of compiled programs (B2) transfer the same number of bytes, in p-1 messages among p ranks, if each
rank has one node of the summation tree (docs/guides/distributed.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.roofline.machines import Accelerator


@dataclass(frozen=True)
class Group:
    """Devices that communicate with each other.

    Attributes:
      machine: the type of the devices.
      size: the number of devices.
      stride: the distance between neighbours in the order of all devices; in this order, every `node_devices`
        consecutive devices form a node.
    """

    machine: Accelerator
    size: int
    stride: int = 1

    @property
    def node_members(self) -> int:
        """The number of members within a node."""
        return max(1, min(self.size, self.machine.node_devices // self.stride))

    @property
    def nodes(self) -> int:
        """The number of nodes that the group spans."""
        return -(-self.size // self.node_members)

    @property
    def bandwidth(self) -> float:
        """The bytes per second of the slowest link of a ring; between nodes, the members of a node use their network
        ports in parallel."""
        if self.nodes == 1:
            return self._rate("node_bandwidth")
        network = self._rate("network_bandwidth") * self.node_members
        return min(self._rate("node_bandwidth"), network) if self.node_members > 1 else network

    @property
    def hop_seconds(self) -> float:
        """The maximum latency of an empty message between two devices of the group."""
        return self.machine.network_seconds if self.nodes > 1 else self.machine.node_seconds

    def gather_seconds(self, bytes: float) -> float:
        """Returns the time of an all-gather or reduce-scatter of `bytes` in total.

        With p devices, n bytes and bandwidth B, the time is (p-1)/p n/B plus the latencies of a ring or of recursive
        halving, whichever is shorter. In a ring, a part crosses all links but one; the omitted link is within a node if
        there are such links.
        """
        if self.size == 1:
            return 0.0
        between = min(self.nodes, self.size - 1) if self.nodes > 1 else 0
        ring = (self.size - 1 - between) * self.machine.node_seconds + between * self.machine.network_seconds
        halving = (self.size - 1).bit_length() * self.hop_seconds
        return (self.size - 1) / self.size * bytes / self.bandwidth + min(ring, halving)

    def all_reduce_seconds(self, bytes: float) -> float:
        """Returns the time of an all-reduce of `bytes`, as a reduce-scatter and an all-gather (`gather_seconds`)."""
        return 2 * self.gather_seconds(bytes)

    def all_to_all_seconds(self, bytes: float) -> float:
        """Returns the time in which each device sends `bytes`, in equal parts, to all devices.

        All parts are in transit at the same time, so only one latency counts, not p-1 of them as in a pairwise exchange
        among p devices: DeepEP's low-latency dispatch takes 163 us among 8 H800 and 194 us among 256 (its README, first
        release).
        """
        if self.size == 1:
            return 0.0
        members = self.node_members
        within = (members - 1) / self.size * bytes / self._rate("node_bandwidth") if members > 1 else 0.0
        beyond = (self.size - members) / self.size * bytes / self._rate("network_bandwidth") if self.nodes > 1 else 0.0
        return max(within, beyond) + self.hop_seconds

    def send_seconds(self, bytes: float) -> float:
        """Returns the time of a message to the neighbouring device, over the network if the group spans several
        nodes."""
        if self.size == 1:
            return 0.0
        rate = self._rate("network_bandwidth" if self.nodes > 1 else "node_bandwidth")
        return bytes / rate + self.hop_seconds

    def _rate(self, name: str) -> float:
        """Returns the bytes per second that a device sends over one type of link.

        Raises:
          ReproError: the device has no such link.
        """
        rate = float(getattr(self.machine, name))
        if not rate:
            raise ReproError(f"{self.machine.name}: expected {name} above 0 where devices exchange bytes")
        return rate * self.machine.link_efficiency
