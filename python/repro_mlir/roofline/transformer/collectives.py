# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How long devices take to exchange bytes: latencies and bandwidths, of collectives by the formulas of Thakur et al.
(2005).

The compiler's own sums of gradients (B2) send as many bytes wherever each rank has one node of the tree, and p-1
messages (docs/distributed.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.base.errors import ReproError
from repro_mlir.roofline.machines import Accelerator


@dataclass(frozen=True)
class Group:
    """Devices that exchange bytes.

    Attributes:
      machine: what they are.
      size: how many.
      stride: the distance of neighbours in the order of all devices, of which nodes hold `node_devices` one after the
        other.
    """

    machine: Accelerator
    size: int
    stride: int = 1

    @property
    def node_members(self) -> int:
        """How many of them are in a node."""
        return max(1, min(self.size, self.machine.node_devices // self.stride))

    @property
    def nodes(self) -> int:
        """Over how many nodes they are."""
        return -(-self.size // self.node_members)

    @property
    def bandwidth(self) -> float:
        """Bytes per second of a ring: the members of a node use their network ports side by side."""
        if self.nodes == 1:
            return self._rate("node_bandwidth")
        network = self._rate("network_bandwidth") * self.node_members
        return min(self._rate("node_bandwidth"), network) if self.node_members > 1 else network

    @property
    def hop_seconds(self) -> float:
        """The longest of a message without bytes."""
        return self.machine.network_seconds if self.nodes > 1 else self.machine.node_seconds

    def gather_seconds(self, bytes: float) -> float:
        """All-gather or reduce-scatter, of so many bytes in all: (p-1)/p n/B, and hops of a ring or of halving.

        A part goes over all links of a ring but one, which is a link within a node where there are any.
        """
        if self.size == 1:
            return 0.0
        between = min(self.nodes, self.size - 1) if self.nodes > 1 else 0
        ring = (self.size - 1 - between) * self.machine.node_seconds + between * self.machine.network_seconds
        halving = (self.size - 1).bit_length() * self.hop_seconds
        return (self.size - 1) / self.size * bytes / self.bandwidth + min(ring, halving)

    def all_reduce_seconds(self, bytes: float) -> float:
        """A reduce-scatter and an all-gather: 2 (p-1)/p n/B."""
        return 2 * self.gather_seconds(bytes)

    def all_to_all_seconds(self, bytes: float) -> float:
        """Each device sends so many bytes in equal parts to all.

        All parts are on their way at once, so that one latency counts, not the p-1 of a pairwise exchange: DeepEP's
        low-latency dispatch takes 163 us among 8 H800 and 194 us among 256 (its README, first release).
        """
        if self.size == 1:
            return 0.0
        members = self.node_members
        within = (members - 1) / self.size * bytes / self._rate("node_bandwidth") if members > 1 else 0.0
        beyond = (self.size - members) / self.size * bytes / self._rate("network_bandwidth") if self.nodes > 1 else 0.0
        return max(within, beyond) + self.hop_seconds

    def send_seconds(self, bytes: float) -> float:
        """From a device to its neighbour, whose node is another one where not all are in one."""
        if self.size == 1:
            return 0.0
        rate = self._rate("network_bandwidth" if self.nodes > 1 else "node_bandwidth")
        return bytes / rate + self.hop_seconds

    def _rate(self, name: str) -> float:
        """Bytes per second that a device sends over its links of a kind. ReproError: it has none."""
        rate = float(getattr(self.machine, name))
        if not rate:
            raise ReproError(f"{self.machine.name}: expected {name} above 0 where devices exchange bytes")
        return rate * self.machine.link_efficiency
