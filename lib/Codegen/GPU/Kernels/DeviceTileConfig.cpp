//===- DeviceTileConfig.cpp - How a contraction is tiled ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Kernels/DeviceTileConfig.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

/// Fewest rows and columns of a product in large tiles, and most of one in few.
static constexpr int64_t kLargeTileResults = 96, kFlatTileRows = 8,
                         kSmallTileResults = 32;

static bool isContiguous(const kernels::ContractionShape::Factor &factor) {
  return !factor.loops.empty() && factor.loops.back().coefficients.back() == 1;
}

DeviceTileConfig
device::chooseDeviceTileConfig(const kernels::ContractionShape &shape,
                               const Architecture &architecture) {
  DeviceTileConfig config;
  int64_t m = shape.rows.size, n = shape.columns.size;
  bool swap = isContiguous(shape.rows) != isContiguous(shape.columns)
                  ? isContiguous(shape.rows)
                  : m > n;
  if (swap)
    std::swap(m, n);
  auto setTile = [&](int64_t bm, int64_t bn, int64_t bk, int64_t tm,
                     int64_t tn) {
    config.bm = bm;
    config.bn = bn;
    config.bk = bk;
    config.tm = tm;
    config.tn = tn;
    config.rowTiles = llvm::divideCeil(m, bm);
    config.columnTiles = llvm::divideCeil(n, bn);
    return shape.batchSize * config.rowTiles * config.columnTiles;
  };
  int64_t chunks = llvm::divideCeil(shape.n, shape.chunk);
  bool isDouble = shape.elementBytes == 8;
  auto setLarge = [&] {
    return isDouble ? setTile(64, 64, 8, 4, 4) : setTile(128, 128, 8, 8, 16);
  };
  // Fewer blocks than multiprocessors leave some of them idle. Of f64, whose
  // accumulators take two registers, the middle tile is the largest one.
  int64_t blocks;
  if (m <= kFlatTileRows)
    blocks = setTile(8, 128, 16, 2, 4);
  else if (m <= kSmallTileResults || n <= kSmallTileResults)
    blocks = setTile(32, 32, isDouble ? 8 : 16, 4, 4);
  else if (blocks = setLarge();
           !isDouble && (m < kLargeTileResults || n < kLargeTileResults ||
                         blocks * chunks < architecture.multiprocessors / 2))
    blocks = setTile(64, 64, 16, 8, 4);
  if (chunks > 1 && blocks < architecture.multiprocessors)
    config.splits = chunks;
  if (!isDouble && architecture.hasPackedFma)
    config.sumLanes = kVector;
  // Two blocks of the largest tile hide each other's latency.
  if (config.tm * config.tn >= 64)
    config.blocksPerProcessor = 2;
  config.swapsFactors = swap;
  return config;
}

std::string DeviceTileConfig::describe() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "blocks of " << bm << " x " << bn << " results and " << bk
         << " of K, threads of " << tm << " x " << tn
         << (swapsFactors ? ", factors swapped" : "") << ", " << rowTiles
         << " x " << columnTiles << " blocks";
  if (splits > 1)
    stream << " for each of " << splits << " chunks";
  if (sumLanes > 1)
    stream << ", fmas of " << sumLanes << " lanes";
  return text;
}
