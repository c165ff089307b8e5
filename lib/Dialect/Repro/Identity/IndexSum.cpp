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

/// The kinds of terms beside a dimension, which is 0.
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

FailureOr<IndexSum> IndexSum::get(AffineExpr expr) {
  IndexSum sum;
  if (failed(sum.add(expr, 1)) || sum.factors.size() > kMaxTerms)
    return failure();
  return sum;
}

LogicalResult IndexSum::add(AffineExpr expr, uint64_t factor) {
  if (auto number = dyn_cast<AffineConstantExpr>(expr)) {
    constant += factor * uint64_t(number.getValue());
    return success();
  }
  std::string term;
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    term.push_back(0);
    append(term, dim.getPosition());
    factors[term] += factor;
    return success();
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return failure();
  if (expr.getKind() == AffineExprKind::Add)
    return success(succeeded(add(binary.getLHS(), factor)) &&
                   succeeded(add(binary.getRHS(), factor)));
  auto right = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (!right)
    return failure();
  if (expr.getKind() == AffineExprKind::Mul)
    return add(binary.getLHS(), factor * uint64_t(right.getValue()));
  FailureOr<IndexSum> inner = get(binary.getLHS());
  if (failed(inner))
    return failure();
  term.push_back(getKind(expr.getKind()));
  term += inner->getBytes();
  append(term, right.getValue());
  factors[term] += factor;
  return success();
}

std::string IndexSum::getBytes() const {
  std::string bytes;
  append(bytes, constant);
  append(bytes, llvm::count_if(factors, [](const auto &entry) {
           return entry.second != 0;
         }));
  for (const auto &[term, factor] : factors) {
    if (!factor)
      continue;
    append(bytes, factor);
    bytes += term;
  }
  return bytes;
}
