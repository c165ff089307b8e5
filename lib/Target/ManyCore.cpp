//===- ManyCore.cpp - Machines of many cores ------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/ManyCore.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace mlir;
using namespace mlir::repro;

int64_t ManyCore::getCores() const {
  return (columns * rows - int64_t(absent.size())) * getChips();
}

bool ManyCore::hasCore(Point point) const {
  auto [x, y] = point;
  return x >= 0 && y >= 0 && x < getColumns() && y < getRows() &&
         !std::binary_search(absent.begin(), absent.end(),
                             Point{x % columns, y % rows});
}

std::vector<ManyCore::Point> ManyCore::listCores() const {
  std::vector<Point> cores;
  cores.reserve(getCores());
  for (int64_t y = 0; y < getRows(); ++y)
    for (int64_t x = 0; x < getColumns(); ++x)
      if (hasCore({x, y}))
        cores.push_back({x, y});
  return cores;
}

ManyCore::Point ManyCore::getRouter(Point core) const {
  return {core[0] / routerColumns, core[1] / routerRows};
}

int64_t ManyCore::countHops(Point from, Point to) const {
  Point a = getRouter(from), b = getRouter(to);
  return std::abs(a[0] - b[0]) + std::abs(a[1] - b[1]);
}

double ManyCore::getMatrixCycles(int64_t depth) const {
  double steps =
      std::ceil(double(depth) / double(matrixDepth)) * double(matrixPasses);
  // The operands of the last row and column enter after those of the first
  // ones, and the accumulators leave row by row. The measured efficiency
  // contains both for long sums.
  double skew = double(matrixRows + matrixColumns - 2);
  return std::max(steps / matrixEfficiency, steps + skew + double(matrixRows));
}

int64_t ManyCore::getMostMatrixProducts() const {
  if (hasFloatMatrices || matrixOperandBits == 0 ||
      2 * matrixOperandBits - 2 >= getMatrixSumBits())
    return 0;
  // The largest magnitude of a product is that of -2^(b-1) times itself.
  int64_t largest = int64_t((uint64_t(1) << (getMatrixSumBits() - 1)) - 1);
  return largest >> (2 * matrixOperandBits - 2);
}

int64_t ManyCore::countChipHops(Point from, Point to) const {
  Point a = getChip(from), b = getChip(to);
  int64_t x = b[0] - a[0], y = b[1] - a[1];
  if (hasHexagonalLinks && (x < 0) == (y < 0))
    return std::max(std::abs(x), std::abs(y));
  return std::abs(x) + std::abs(y);
}
