//===- IndexSum.h - Index expressions as sums -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IDENTITY_INDEXSUM_H
#define REPRO_IDENTITY_INDEXSUM_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Diagnostics.h"

#include <map>
#include <string>

namespace mlir::repro {

/// (H2) An index expression as a sum of a constant and multiples of dimensions
/// and divisions. The encoding does not depend on the order or the parentheses
/// that MLIR chooses.
class IndexSum {
public:
  /// The maximum number of terms of a sum. The limit bounds MLIR's recursion,
  /// which is one level deep for each term.
  static constexpr size_t kMaxTerms = 64;
  /// The maximum nesting of divisions.
  static constexpr unsigned kMaxDepth = 64;

  /// A dimension or a division, and its factor.
  using Term = std::pair<AffineExpr, uint64_t>;
  using Emitter = function_ref<InFlightDiagnostic()>;

  /// Converts `expr` to a sum. MLIR simplifies an expression when it is built,
  /// and the result depends on the order of the terms. The expression that
  /// `build` returns for a sum nevertheless converts to that sum.
  static FailureOr<IndexSum> get(Emitter emitError, AffineExpr expr);

  /// Builds an expression as a reader of stored programs does: from terms that
  /// are sorted by their encodings.
  static AffineExpr build(ArrayRef<Term> terms, uint64_t constant,
                          MLIRContext *context);
  AffineExpr build(MLIRContext *context) const;

  /// Returns the encoding of the sum (docs/verification/identity.md).
  std::string getBytes() const;

private:
  LogicalResult add(Emitter emitError, AffineExpr expr, uint64_t factor,
                    unsigned depth);
  static FailureOr<IndexSum> split(Emitter emitError, AffineExpr expr,
                                   unsigned depth);

  uint64_t constant = 0;
  /// Maps the encoding of each term, which starts with the code of the term's
  /// type, to the term.
  std::map<std::string, Term> terms;
};

} // namespace mlir::repro

#endif // REPRO_IDENTITY_INDEXSUM_H
