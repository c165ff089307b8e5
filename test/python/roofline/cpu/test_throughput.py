# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the predicted cycles of instructions, also where LLVM's processor models are wrong or incomplete."""

from __future__ import annotations

import pytest
from repro_mlir.roofline import CpuMachine, read_machine
from repro_mlir.roofline.cpu.throughput import cycles_of

REGISTERS = [f"%r{number}" for number in (8, 9, 10, 11, 12, 13)]


def zen4() -> CpuMachine:
    return cpu("epyc-zen4")


def cpu(name: str) -> CpuMachine:
    machine = read_machine(name)
    assert isinstance(machine, CpuMachine)
    return machine


def issue(*instructions: str) -> float:
    """Returns the number of micro-operations into which Zen 4 splits the instructions. Zen 4 starts six of them per
    cycle."""
    (found,) = cycles_of([instructions], zen4())
    return round(6 * found.issue)


@pytest.mark.parametrize("test", ["cmpq %rax, %rbx", "testl %ecx, %ecx"])
def test_a_jump_is_fused_with_its_test(test: str) -> None:
    assert issue(test, "jl .L") == 1
    assert issue(test, "incq %rdx", "jl .L") == 3
    assert issue(test, "jmp .L") == 2
    assert issue(f"{test.split()[0]} $1, (%rax)", "jl .L") == 2


@pytest.mark.parametrize("address", ["(%rax,%rbx,4)", "8(%rax,%rbx,8)", "(,%rbx,2)"])
def test_a_scaled_address_of_zen_4_is_one_operation(address: str) -> None:
    assert issue(*(f"leaq {address}, {register}" for register in REGISTERS)) == len(REGISTERS)


def test_a_repeated_element_of_zen_4_is_a_load() -> None:
    loads = [f"vbroadcastss {4 * number}(%rax), %ymm{number}" for number in range(8)]
    (repeated,), (loaded,) = (
        cycles_of([each], zen4()) for each in (loads, [load.replace("vbroadcastss", "vmovups") for load in loads])
    )
    assert repeated == loaded


@pytest.mark.parametrize("source", ["%zmm31", "(%rax){1to16}", "64(%rax,%rbx,4)"])
@pytest.mark.parametrize("operation", ["vfmadd231ps", "vfnmadd213ps", "vmulps", "vmaxps", "vminps"])
def test_servers_have_two_units_of_512_bits(operation: str, source: str) -> None:
    """Xeons have two units for 512-bit vectors, although they have three for 256-bit vectors."""
    machine = cpu("xeon-sapphire-rapids")
    products = [f"{operation} {source}, %zmm30, %zmm{number}" for number in range(8)]
    sums = [f"vpaddd %zmm31, %zmm30, %zmm{number}" for number in range(8, 16)]
    alone, mixed = cycles_of([products, [*products, *sums]], machine)
    assert (alone.ports, mixed.ports) == (4, 8)


def test_latencies_of_servers_depend_on_the_written_operand() -> None:
    machine = cpu("xeon-sapphire-rapids")
    chains = ["vfmadd231ps %zmm1, %zmm2, %zmm3", "vmulps %zmm1, %zmm3, %zmm3", "vmulps %zmm1, %zmm2, %zmm3"]
    found = cycles_of([[each] for each in chains], machine)
    assert [each.latency for each in found] == [4, 4, 0.5]
    (masked,) = cycles_of([["vmulps %zmm1, %zmm2, %zmm3 {%k2}"]], machine)
    assert masked.latency == 4
