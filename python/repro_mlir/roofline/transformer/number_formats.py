# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""What products read: bytes of an element, rates of a device, and what it takes to make the operands."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.roofline.machines import Accelerator

_WIDER = ("f16_matrix_flops", "tf32_matrix_flops", "f32_flops")


@dataclass(frozen=True)
class NumberFormat:
    """The format of the operands of products.

    Attributes:
      rates: attributes of `Accelerator`; the first that is not 0 counts, as a device without the format computes in a
        wider one.
      operand_bytes: of an element of an operand, with its share of a scale.
      stored_bytes: of an element of an activation that no product reads.
      quantize_bytes: read and written to make an element of an operand; 0 where it is one already.
    """

    rates: tuple[str, ...]
    operand_bytes: float
    stored_bytes: int
    quantize_bytes: float = 0.0

    def peak(self, machine: Accelerator) -> float:
        """Operations per second, a multiply-add being two."""
        return float(getattr(machine, self._rate(machine)))

    def has_matrix_units(self, machine: Accelerator) -> bool:
        """Whether matrix units compute products, which have whole tiles; else vector units do."""
        return self._rate(machine) != "f32_flops"

    def _rate(self, machine: Accelerator) -> str:
        """The attribute that counts."""
        return next(name for name in self.rates if getattr(machine, name))


NUMBER_FORMATS = {
    "f32": NumberFormat(("f32_flops",), 4, 4),
    "tf32": NumberFormat(("tf32_matrix_flops", "f32_flops"), 4, 4),
    "bf16": NumberFormat(_WIDER, 2, 2),
    # Scales of whole tensors: a pass for the maximum, one that writes the operand and its transpose.
    "fp8": NumberFormat(("f8_matrix_flops", *_WIDER), 1, 2, 2 + 2 + 2 * 1),
    "int8": NumberFormat(("int8_matrix_ops", *_WIDER), 1, 2, 2 + 2 + 2 * 1),
    # A scale of 8 bits for each 32 elements, in one pass.
    "mxfp8": NumberFormat(("f8_matrix_flops", *_WIDER), 1 + 1 / 32, 2, 2 + 2 * (1 + 1 / 32)),
    # A scale of 8 bits for each 16 elements, below one of the tensor.
    "nvfp4": NumberFormat(
        ("f4_matrix_flops", "f8_matrix_flops", *_WIDER), 1 / 2 + 1 / 16, 2, 2 + 2 + 2 * (1 / 2 + 1 / 16)
    ),
}
"""By the name of a precision."""
