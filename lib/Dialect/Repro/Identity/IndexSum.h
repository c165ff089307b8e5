//===- IndexSum.h - Index expressions as sums -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_INDEXSUM_H
#define REPRO_IDENTITY_INDEXSUM_H

#include "mlir/IR/AffineExpr.h"

#include <map>
#include <string>

namespace mlir::repro {

/// (H2) An index expression as a constant and multiples of dimensions and
/// divisions: its bytes depend on no order or brackets that MLIR chooses.
class IndexSum {
public:
  /// MLIR walks a sum by recursion, once for each term.
  static constexpr size_t kMaxTerms = 64;

  /// Failure where a factor or divisor of the expression is not constant, or
  /// where a sum has more terms.
  static FailureOr<IndexSum> get(AffineExpr expr);

  /// The bytes of docs/identity.md.
  std::string getBytes() const;

private:
  LogicalResult add(AffineExpr expr, uint64_t factor);

  uint64_t constant = 0;
  /// The factor of a term by the bytes of the term from its kind on.
  std::map<std::string, uint64_t> factors;
};

} // namespace mlir::repro

#endif // REPRO_IDENTITY_INDEXSUM_H
