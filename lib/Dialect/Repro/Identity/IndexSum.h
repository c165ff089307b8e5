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

/// (H2) An index expression as a constant and multiples of dimensions and
/// divisions: its bytes depend on no order or brackets that MLIR chooses.
class IndexSum {
public:
  /// MLIR walks a sum by recursion, once for each term.
  static constexpr size_t kMaxTerms = 64;
  /// Of divisions in one another.
  static constexpr unsigned kMaxDepth = 64;

  /// A dimension or a division, and its factor.
  using Term = std::pair<AffineExpr, uint64_t>;
  using Emitter = function_ref<InFlightDiagnostic()>;

  /// The sum that `expr` is written as. MLIR simplifies what it builds, by the
  /// order in which it does: the expression of this sum has the same sum.
  static FailureOr<IndexSum> get(Emitter emitError, AffineExpr expr);

  /// The expression that a reader builds, from terms in the order of their
  /// bytes.
  static AffineExpr build(ArrayRef<Term> terms, uint64_t constant,
                          MLIRContext *context);
  AffineExpr build(MLIRContext *context) const;

  /// The bytes of docs/identity.md.
  std::string getBytes() const;

private:
  LogicalResult add(Emitter emitError, AffineExpr expr, uint64_t factor,
                    unsigned depth);
  static FailureOr<IndexSum> split(Emitter emitError, AffineExpr expr,
                                   unsigned depth);

  uint64_t constant = 0;
  /// By the bytes of the term from its kind on.
  std::map<std::string, Term> terms;
};

} // namespace mlir::repro

#endif // REPRO_IDENTITY_INDEXSUM_H
