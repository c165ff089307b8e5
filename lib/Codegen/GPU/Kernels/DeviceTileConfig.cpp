//===- DeviceTileConfig.cpp - Tile sizes of contractions ------------------===//
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

namespace {
/// A thread block computes bm x bn results, from slices of bk elements of K. A
/// thread computes tm x tn of these results.
struct Tile {
  int64_t bm, bn, bk, tm, tn;
};
} // namespace

/// Large tiles read each element least often, but need many registers per
/// thread, twice as many for f64. For products of few rows or columns, smaller
/// tiles give more blocks and fewer idle threads.
static constexpr Tile kLargeTile{128, 128, 8, 8, 16},
    kLargeF64{64, 64, 8, 4, 4}, kMiddleTile{64, 64, 16, 8, 4},
    kSmallTile{32, 32, 16, 4, 4}, kSmallF64{32, 32, 8, 4, 4},
    kFlatTile{8, 128, 16, 2, 4};

/// Large tiles require at least kLargeTileResults rows and columns. Flat tiles
/// are used for at most kFlatTileRows rows, small tiles for at most
/// kSmallTileResults rows or columns.
static constexpr int64_t kLargeTileResults = 96, kFlatTileRows = 8,
                         kSmallTileResults = 32;

/// With this number of results per thread or more, one block alone has too few
/// warps to hide the latency of its loads.
static constexpr int64_t kLatencyResults = 64;

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
  auto setTile = [&](const Tile &tile) {
    config.bm = tile.bm;
    config.bn = tile.bn;
    config.bk = tile.bk;
    config.tm = tile.tm;
    config.tn = tile.tn;
    config.rowTiles = llvm::divideCeil(m, tile.bm);
    config.columnTiles = llvm::divideCeil(n, tile.bn);
    return shape.batchSize * config.rowTiles * config.columnTiles;
  };
  int64_t chunks = llvm::divideCeil(shape.n, shape.chunk);
  bool isDouble = shape.elementBytes == 8;
  // Products with few blocks get smaller tiles, because some multiprocessors
  // would be idle. There is no middle tile for f64: an f64 accumulator takes
  // two registers, so the large tile of f64 is already as small as the middle
  // tile.
  int64_t blocks;
  if (m <= kFlatTileRows)
    blocks = setTile(kFlatTile);
  else if (m <= kSmallTileResults || n <= kSmallTileResults)
    blocks = setTile(isDouble ? kSmallF64 : kSmallTile);
  else if (blocks = setTile(isDouble ? kLargeF64 : kLargeTile);
           !isDouble && (m < kLargeTileResults || n < kLargeTileResults ||
                         blocks * chunks < architecture.multiprocessors / 2))
    blocks = setTile(kMiddleTile);
  if (chunks > 1 && blocks < architecture.multiprocessors)
    config.splits = chunks;
  if (!isDouble && architecture.hasPackedFma)
    config.sumLanes = kVector;
  // With two blocks per multiprocessor, one block can compute while the other
  // waits for its loads.
  if (config.tm * config.tn >= kLatencyResults)
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
