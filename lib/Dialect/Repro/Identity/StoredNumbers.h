//===- StoredNumbers.h - Numbers of enumerations in programs ----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_STOREDNUMBERS_H
#define REPRO_IDENTITY_STOREDNUMBERS_H

#include "Dialect/Repro/Identity/CanonicalOps.h"
#include "dialects/Repro/IR/Repro.h"

namespace mlir::repro {

/// (H2) Returns the number of an enumeration's value; std::nullopt if the
/// attribute is not of the enumeration that `form` names.
/// docs/verification/identity.md defines these numbers, independently of MLIR's
/// numbers.
std::optional<uint64_t> getStoredNumber(AttributeForm form, Attribute value);
std::optional<uint64_t> getStoredNumber(Totals totals);
std::optional<uint64_t> getStoredNumber(SumRounding rounding);
std::optional<uint64_t> getStoredNumber(SumStart start);

/// Returns the value with this number; null or std::nullopt if there is no such
/// value.
Attribute getStoredValue(AttributeForm form, uint64_t number,
                         MLIRContext *context);
std::optional<Totals> getStoredTotals(uint64_t number);
std::optional<SumRounding> getStoredSumRounding(uint64_t number);
std::optional<SumStart> getStoredSumStart(uint64_t number);

} // namespace mlir::repro

#endif // REPRO_IDENTITY_STOREDNUMBERS_H
