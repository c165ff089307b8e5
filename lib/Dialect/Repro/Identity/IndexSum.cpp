//===- IndexSum.cpp - Index expressions as sums ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/IndexSum.h"

#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace mlir::repro;

static void append(std::string &bytes, uint64_t number) {
  char buffer[8];
  llvm::support::endian::write64le(buffer, number);
  bytes.append(buffer, 8);
}

/// Returns the code of the type of a term in the encoding; the code of a
/// dimension is 0.
static char getKind(AffineExprKind kind) {
  switch (kind) {
  case AffineExprKind::Mod:
    return 1;
  case AffineExprKind::FloorDiv:
    return 2;
  default:
    return 3;
  }
}

/// The maximum number of rounds of simplification. A round reduces the number
/// of terms, of divisions, or of terms within divisions; random expressions
/// need at most 4 rounds.
static constexpr unsigned kMaxRounds = 64;

FailureOr<IndexSum> IndexSum::get(Emitter emitError, AffineExpr expr) {
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    FailureOr<IndexSum> sum = split(emitError, expr, 0);
    if (failed(sum))
      return failure();
    AffineExpr built = sum->build(expr.getContext());
    if (built == expr)
      return sum;
    expr = built;
  }
  return emitError() << "expected an index expression whose "
                        "simplification ends";
}

/// Splits `expr`, which is nested in `depth` divisions, into the terms of a
/// sum.
FailureOr<IndexSum> IndexSum::split(Emitter emitError, AffineExpr expr,
                                    unsigned depth) {
  IndexSum sum;
  if (failed(sum.add(emitError, expr, 1, depth)))
    return failure();
  if (sum.terms.size() > kMaxTerms)
    return emitError() << "expected index expressions of at most " << kMaxTerms
                       << " terms";
  return sum;
}

LogicalResult IndexSum::add(Emitter emitError, AffineExpr expr, uint64_t factor,
                            unsigned depth) {
  auto addTerm = [&](const std::string &bytes, AffineExpr term) {
    terms.try_emplace(bytes, term, 0).first->second.second += factor;
    return success();
  };
  if (auto number = dyn_cast<AffineConstantExpr>(expr)) {
    constant += factor * uint64_t(number.getValue());
    return success();
  }
  std::string term;
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    term.push_back(0);
    append(term, dim.getPosition());
    return addTerm(term, dim);
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  if (expr.getKind() == AffineExprKind::Add)
    return failure(failed(add(emitError, binary.getLHS(), factor, depth)) ||
                   failed(add(emitError, binary.getRHS(), factor, depth)));
  bool isProduct = expr.getKind() == AffineExprKind::Mul;
  auto right = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (!right || (!isProduct && right.getValue() <= 0))
    return emitError() << "expected index expressions with constant factors "
                          "and positive constant divisors";
  if (isProduct)
    return add(emitError, binary.getLHS(), factor * uint64_t(right.getValue()),
               depth);
  if (depth == kMaxDepth)
    return emitError() << "expected divisions at most " << kMaxDepth << " deep";
  FailureOr<IndexSum> inner = split(emitError, binary.getLHS(), depth + 1);
  if (failed(inner))
    return failure();
  term.push_back(getKind(expr.getKind()));
  term += inner->getBytes();
  append(term, right.getValue());
  return addTerm(term,
                 getAffineBinaryOpExpr(expr.getKind(),
                                       inner->build(expr.getContext()), right));
}

AffineExpr IndexSum::build(ArrayRef<Term> terms, uint64_t constant,
                           MLIRContext *context) {
  AffineExpr sum;
  for (auto [term, factor] : terms) {
    AffineExpr product = term * int64_t(factor);
    sum = sum ? sum + product : product;
  }
  return sum ? sum + int64_t(constant)
             : getAffineConstantExpr(int64_t(constant), context);
}

AffineExpr IndexSum::build(MLIRContext *context) const {
  SmallVector<Term> used;
  for (const auto &[bytes, term] : terms)
    if (term.second)
      used.push_back(term);
  return build(used, constant, context);
}

std::string IndexSum::getBytes() const {
  std::string bytes;
  append(bytes, constant);
  append(bytes, llvm::count_if(terms, [](const auto &entry) {
           return entry.second.second != 0;
         }));
  for (const auto &[written, term] : terms) {
    if (!term.second)
      continue;
    append(bytes, term.second);
    bytes += written;
  }
  return bytes;
}
