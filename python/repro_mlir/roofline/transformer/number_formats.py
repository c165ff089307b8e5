# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The formats of product operands: bytes per element, rates of a device, and the cost of quantization."""

from __future__ import annotations

from dataclasses import dataclass

from repro_mlir.roofline.machines import Accelerator

_WIDER = ("f16_matrix_flops", "tf32_matrix_flops", "f32_flops")


@dataclass(frozen=True)
class NumberFormat:
    """The format of the operands of products.

    Attributes:
      rates: attributes of `Accelerator`; the first nonzero one applies, because a device without the format computes in
        a wider one.
      operand_bytes: the bytes of an element of an operand, including its share of a scale.
      stored_bytes: the bytes of an element of an activation that no product reads.
      quantize_bytes: the bytes read and written to quantize an element; 0 if the stored format is that of the operand.
    """

    rates: tuple[str, ...]
    operand_bytes: float
    stored_bytes: int
    quantize_bytes: float = 0.0

    def peak(self, machine: Accelerator) -> float:
        """Returns the peak operations per second; a multiply-add counts as two."""
        return float(getattr(machine, self._rate(machine)))

    def has_matrix_units(self, machine: Accelerator) -> bool:
        """Returns whether matrix units, which compute whole tiles, compute the products; otherwise vector units do."""
        return self._rate(machine) != "f32_flops"

    def _rate(self, machine: Accelerator) -> str:
        """Returns the entry of `rates` that applies."""
        return next(name for name in self.rates if getattr(machine, name))


NUMBER_FORMATS = {
    "f32": NumberFormat(("f32_flops",), 4, 4),
    "tf32": NumberFormat(("tf32_matrix_flops", "f32_flops"), 4, 4),
    "bf16": NumberFormat(_WIDER, 2, 2),
    # Tensor-wide scales: one pass finds the maximum, and another writes the operand and its transpose.
    "fp8": NumberFormat(("f8_matrix_flops", *_WIDER), 1, 2, 2 + 2 + 2 * 1),
    "int8": NumberFormat(("int8_matrix_ops", *_WIDER), 1, 2, 2 + 2 + 2 * 1),
    # An 8-bit scale per 32 elements, in one pass.
    "mxfp8": NumberFormat(("f8_matrix_flops", *_WIDER), 1 + 1 / 32, 2, 2 + 2 * (1 + 1 / 32)),
    # An 8-bit scale per 16 elements, in addition to a tensor-wide one.
    "nvfp4": NumberFormat(
        ("f4_matrix_flops", "f8_matrix_flops", *_WIDER), 1 / 2 + 1 / 16, 2, 2 + 2 + 2 * (1 / 2 + 1 / 16)
    ),
}
"""Number formats by name; `Training.precision` is one of these names."""
