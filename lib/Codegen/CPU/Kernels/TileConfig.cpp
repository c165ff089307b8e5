//===- TileConfig.cpp - Tile sizes of a contraction -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/TileConfig.h"

#include "llvm/Support/raw_ostream.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;
using namespace mlir::repro::kernels;

/// The maximum number of columns of a strip. Rows are packed once per strip.
/// The limit is lower if totals are kept from chunk to chunk.
static constexpr int64_t kStripColumns = 2048, kChunkedStripColumns = 1024;
/// If one K-block contains the whole chunk, panels with up to this number of
/// vectors in total are packed together, so that their elements for one k are
/// contiguous in memory.
static constexpr int64_t kGroupVectors = 8;
/// The maximum number of rows of a tile, and the maximum number of vectors of a
/// tile with few rows.
static constexpr int64_t kMostTileRows = 12, kMostTileVectors = 8;
/// A multiple of all numbers of tile rows that occur with vectors of at least
/// 256 bits.
static constexpr int64_t kTileMultiple = 24;
/// In a rating, the share of lanes in use is multiplied by this factor if
/// results are contiguous along the lanes.
static constexpr double kContiguous = 1.1;
/// The maximum number of tile rows if each row needs its own address register.
/// With more, the compiler moves loads so early that vectors are spilled.
static constexpr int64_t kMostAddresses = 6;
/// The cost of packing an element, relative to that of a vector multiply-add.
static constexpr double kPackingCost = 0.75;
/// The cost of packing an element on its own, relative to its cost as part of a
/// vector.
static constexpr double kOneByOne = 3;
/// The factor by which the speed is multiplied if the lanes of a vector map to
/// few sets of the L1 cache, so that a tile's lines are evicted.
static constexpr double kFewSets = 0.8;
/// The cost of a row that needs its own address, relative to the cost of the
/// row's multiply-adds with one vector. This cost is hidden if the tile has the
/// maximum number of vectors.
static constexpr double kOwnAddresses = 2;
/// The minimum number of unused elements after packed panels, tiles and rows of
/// whole chunks. Without them, the distances between panels, tiles or rows
/// could be powers of two, which map to few sets of a cache.
static constexpr int64_t kSlack = 16;
/// A factor that is read several times is packed if the first and the last
/// element of a chunk are more than this number of bytes apart.
static constexpr int64_t kColumnReach = 65536, kRowReach = 131072;
/// If columns are used only once, a K-block has this number of elements of K.
/// The columns' values for one element of K are read as one stream, and
/// hardware prefetchers follow about this number of streams.
static constexpr int64_t kStreams = 8;
/// The number of sums that stay in the L1 cache although columns that are used
/// only once pass through the cache.
static constexpr int64_t kStreamedSums = 4096;
/// Rows are packed if there are more vectors along N than kPackingVectors, or
/// than kReachingVectors if the elements of the rows are far apart in memory.
/// Columns are packed if there are more rows than kPackingRows.
static constexpr int64_t kPackingVectors = 6, kReachingVectors = 4,
                         kPackingRows = 24;
/// Packing transposes columns only if at most this number of operations compute
/// an element of the factor.
static constexpr int64_t kTransposedOperations = 3;
/// The number of loads that take as long as one vector multiply-add, and the
/// number of independent multiply-adds that hide the latency of one.
static constexpr double kLoadsPerMultiplyAdd = 4, kMultiplyAddsInFlight = 8;
/// Items with more than kDividedWork multiply-adds are divided until there are
/// kSharedItems, which a few threads can share. A block keeps at least
/// kLeastBlockTiles tiles.
static constexpr int64_t kSharedItems = 8, kDividedWork = 1 << 21,
                         kLeastBlockTiles = 8;
/// The minimum number of multiply-adds for which another thread is worthwhile.
static constexpr int64_t kGrainWork = 1 << 18;
/// A K-block of a panel takes 1/kL1Parts of the L1 cache. The K-block then
/// stays cached while all rows of the block are processed, even if another
/// thread of the core uses half of the cache.
static constexpr int64_t kL1Parts = 3;

/// The numbers of vectors and of rows of a tile with a matrix unit's
/// accumulator: one vector holds the 16-bit exponents of kAccumulatedVectors
/// vectors. kAccumulatedRows is the minimum number of rows packed together.
static constexpr int64_t kAccumulatedVectors = 2, kAccumulatedTileRows = 4,
                         kAccumulatedRows = 96;

bool repro::cpu::isInRuns(ArrayRef<CollapsedDim> loops) {
  return loops.empty() ||
         llvm::all_of(loops.back().coefficients,
                      [](int64_t c) { return std::abs(c) <= 1; });
}

/// Whether the elements are contiguous in ascending order (see isInRuns).
static bool isAscending(ArrayRef<CollapsedDim> loops) {
  return loops.empty() ||
         llvm::all_of(loops.back().coefficients,
                      [](int64_t c) { return c == 0 || c == 1; });
}

namespace {
/// Chooses the TileConfig of a contraction.
class Chooser {
public:
  Chooser(ContractionShape shape, const Level &level, bool isShared);
  std::optional<TileConfig> choose();

private:
  using Factor = ContractionShape::Factor;

  /// Rates the choice of factor `vectors` for the columns, along which vectors
  /// lie, and of factor `other` for the rows. A higher rating is better.
  double rateVectors(const Factor &vectors, const Factor &other) const;
  /// Returns the maximum number of vectors of a tile that has the maximum
  /// number of rows.
  int64_t getMostVectors() const;
  int64_t getAccumulators() const;
  /// Returns the maximum number of rows of a work item: the packed rows of a
  /// chunk of 512 f32 elements fill half of the L2 cache.
  int64_t getMostBlockRows() const;
  /// Whether a factor that has the rows is read fastest without packing.
  bool canStayInPlace(const Factor &factor) const;
  /// Whether the rows are read in place and each needs its own address, because
  /// they have no common stride.
  bool hasOwnAddresses(const Factor &factor) const {
    return canStayInPlace(factor) && factor.loops.size() > 1;
  }
  /// Returns the number of bytes in memory that one chunk of K spans. This
  /// number decides whether the factor's pages and lines stay cached.
  int64_t getReach(const Factor &factor) const;
  void chooseTile();
  void choosePacking();
  void chooseKBlockSize();
  void chooseItems();

  ContractionShape shape;
  Factor &rows = shape.rows, &columns = shape.columns;
  const Level &level;
  bool isShared;
  TileConfig c;
};
} // namespace

Chooser::Chooser(ContractionShape shape, const Level &level, bool isShared)
    : shape(std::move(shape)), level(level), isShared(isShared) {
  c.lanes =
      std::max<int64_t>(level.vectorWidth / (8 * this->shape.elementBytes), 1);
  c.span = std::min(this->shape.chunk, this->shape.n);
}

std::optional<TileConfig> Chooser::choose() {
  // Swapping the factors keeps the bits, because fma(x, y, acc) = fma(y, x,
  // acc).
  c.swapsFactors = rateVectors(rows, columns) > rateVectors(columns, rows);
  if (c.swapsFactors)
    std::swap(rows, columns);
  if (columns.loops.empty())
    return std::nullopt;
  chooseTile();
  choosePacking();
  chooseKBlockSize();
  chooseItems();
  return c;
}

double Chooser::rateVectors(const Factor &vectors, const Factor &other) const {
  if (vectors.loops.empty())
    return 0;
  const CollapsedDim &inner = vectors.loops.back();
  // The share of the lanes that compute results.
  double rate = double(inner.size) / llvm::alignTo(inner.size, c.lanes);
  int64_t apart = inner.coefficients.back() * shape.elementBytes;
  int64_t way = level.getL1WayBytes();
  if (inner.coefficients.back() == 1)
    rate *= kContiguous;
  else if (std::gcd(apart, way) >= way / 4)
    rate *= kFewSets;
  double packing = 1.0 / other.size;
  if (!canStayInPlace(other)) {
    bool oneByOne = other.loops.size() > 1 && !isInRuns(other.reduction);
    packing += (oneByOne ? kOneByOne : 1) / vectors.size;
  } else if (hasOwnAddresses(other)) {
    int64_t most = getMostVectors();
    int64_t count =
        std::min<int64_t>(most, llvm::divideCeil(vectors.size, c.lanes));
    rate /= 1 + kOwnAddresses * (1.0 / count - 1.0 / most);
  }
  return rate / (1 + kPackingCost * c.lanes * packing);
}

int64_t Chooser::getMostVectors() const {
  return level.vectorRegisters >= 32 && level.vectorWidth != 128 ? 4 : 2;
}

int64_t Chooser::getAccumulators() const {
  // The remaining registers hold columns and one row element. For 128-bit
  // vectors, 8 was chosen by measurements without fma, where each multiply-add
  // needs extra registers.
  if (level.isMicrocontroller)
    return level.vectorRegisters / 2;
  return level.vectorWidth < 256 ? 8 : level.vectorRegisters * 3 / 4;
}

int64_t Chooser::getMostBlockRows() const {
  constexpr int64_t chunkBytes = 512 * sizeof(float);
  // With a matrix unit's accumulator, exponents take memory too and K-blocks
  // are longer, so fewer rows are packed together.
  if (shape.block)
    return llvm::alignTo(
        std::max<int64_t>(level.l2Bytes / (4 * c.span * sizeof(float)),
                          kAccumulatedRows),
        kTileMultiple);
  return llvm::alignTo(level.l2Bytes / 2 / chunkBytes, kTileMultiple);
}

void Chooser::chooseTile() {
  int64_t inner = columns.loops.back().size;
  c.rowVectors = llvm::divideCeil(inner, c.lanes);
  c.vectorCount = columns.size / inner * c.rowVectors;
  int64_t accumulators = getAccumulators();
  if (shape.block) {
    c.tileVectors = std::min(kAccumulatedVectors, c.vectorCount);
    c.tileRows = std::min(rows.size, kAccumulatedTileRows);
    c.panels = llvm::divideCeil(c.vectorCount, c.tileVectors);
    c.masked = inner % c.lanes != 0 || c.vectorCount % c.tileVectors != 0;
    return;
  }
  int64_t mostRows = hasOwnAddresses(rows) ? kMostAddresses : kMostTileRows;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t vectors = std::min(getMostVectors(), c.vectorCount);
       vectors >= 1; --vectors) {
    int64_t most = std::min<int64_t>(accumulators / vectors, mostRows);
    // Returns the estimated cost of one row of a tile of `count` vectors, in
    // vector multiply-adds.
    auto getCost = [&](int64_t count) {
      double sums = most * count;
      double loads = (most + count) / sums;
      return count * (1 + loads / kLoadsPerMultiplyAdd) *
             std::max(1.0, kMultiplyAddsInFlight / sums);
    };
    int64_t rest = c.vectorCount % vectors;
    double cost =
        c.vectorCount / vectors * getCost(vectors) + (rest ? getCost(rest) : 0);
    if (cost >= least)
      continue;
    least = cost;
    c.tileVectors = vectors;
    c.tileRows = most;
  }
  if (rows.size < c.tileRows) {
    c.tileRows = rows.size;
    c.tileVectors =
        std::min<int64_t>(accumulators / c.tileRows, kMostTileVectors);
  }
  c.tileVectors = std::min(c.tileVectors, c.vectorCount);
  c.panels = llvm::divideCeil(c.vectorCount, c.tileVectors);
  c.masked = inner % c.lanes != 0 || c.vectorCount % c.tileVectors != 0;
}

bool Chooser::canStayInPlace(const Factor &factor) const {
  if (!factor.isPlain || factor.loops.empty())
    return false;
  int64_t step = std::abs(factor.loops.back().coefficients[0]);
  // Rows of an image overlap in memory: neighbouring pixels share lines.
  if (factor.reduction.size() > 1 && step < c.lanes &&
      std::abs(factor.reduction.back().coefficients[0]) < c.lanes)
    return true;
  // Rows are read in place unless the distance between them is a multiple of a
  // large power of two: such rows map to few sets of the cache.
  int64_t bytes = step * shape.elementBytes, way = level.getL1WayBytes();
  return isAscending(factor.reduction) && factor.loops.size() == 1 &&
         std::gcd(bytes, way) <= way / 8;
}

int64_t Chooser::getReach(const Factor &factor) const {
  if (factor.reduction.empty())
    return 0;
  const CollapsedDim &inner = factor.reduction.back();
  return std::abs(inner.coefficients[0]) * shape.elementBytes *
         std::min(c.span, inner.size);
}

void Chooser::choosePacking() {
  c.rowsAlongRows = !isInRuns(rows.reduction) && rows.loops.size() == 1;
  bool staysInPlace = !shape.block && canStayInPlace(rows);
  c.rowsInPlace = staysInPlace && rows.loops.size() == 1;
  c.rowsPacked =
      !staysInPlace &&
      (shape.block || !rows.isPlain || c.vectorCount > kPackingVectors ||
       (!isAscending(rows.reduction) && c.vectorCount > kReachingVectors &&
        getReach(rows) > kRowReach));
  const CollapsedDim &inner = columns.loops.back();
  bool contiguous =
      columns.isPlain && (inner.coefficients[0] == 1 || c.lanes == 1);
  c.columnsPacked =
      shape.block || !contiguous || (c.masked && level.vectorWidth < 256) ||
      (rows.size > kPackingRows && columns.reduction.size() <= 1 &&
       getReach(columns) > kColumnReach);
  c.transposed =
      c.columnsPacked && !contiguous &&
      columns.operations <= kTransposedOperations &&
      isInRuns(columns.reduction) && !columns.reduction.empty() &&
      columns.reduction.back().size >= c.lanes / 2 &&
      llvm::any_of(ArrayRef(inner.coefficients).take_front(columns.inputs),
                   [](int64_t step) { return step != 0 && step != 1; });
}

void Chooser::chooseKBlockSize() {
  c.kBlockSize = c.span;
  if (shape.block) {
    int64_t bytes = c.tileVectors * c.lanes * (sizeof(float) + sizeof(int16_t));
    int64_t step = std::lcm(shape.block, std::max(c.lanes, kPackedTogether));
    int64_t size = llvm::alignDown(level.l1Bytes / 2 / bytes, step);
    c.kBlockSize = std::min(c.span, std::max(size, step));
  }
  c.kBlocksOutside = !c.columnsPacked && rows.size <= c.tileRows &&
                     columns.reduction.size() == 1 && c.span > kStreams &&
                     getReach(columns) > kColumnReach;
  if (c.kBlocksOutside)
    c.kBlockSize = kStreams;
  if (!shape.block && c.columnsPacked && rows.size > c.tileRows) {
    // A K-block consists of whole cache lines and vectors, because these are
    // loaded and transposed together.
    int64_t bytes = c.tileVectors * c.lanes * shape.elementBytes;
    int64_t step = std::max(
        {level.lineBytes / shape.elementBytes, c.lanes, kPackedTogether});
    int64_t size = llvm::alignDown(level.l1Bytes / kL1Parts / bytes, step);
    c.kBlockSize = std::min(c.span, std::max(size, step));
  }
  // Transposing stores whole vectors along K, so a panel needs room for another
  // vector of elements.
  c.panelStride =
      c.tileVectors * c.lanes * (c.kBlockSize + (c.transposed ? c.lanes : 0)) +
      kSlack;
}

void Chooser::chooseItems() {
  int64_t panelWidth = c.tileVectors * c.lanes;
  c.groupPanels =
      c.hasKBlocks()
          ? 1
          : std::clamp<int64_t>(kGroupVectors / c.tileVectors, 1, c.panels);
  c.groups = llvm::divideCeil(c.panels, c.groupPanels);
  int64_t tiles = llvm::divideCeil(rows.size, c.tileRows);
  auto divideRows = [&](int64_t count) {
    c.blockTiles = llvm::divideCeil(tiles, count);
    c.rowBlocks = llvm::divideCeil(tiles, c.blockTiles);
  };
  auto countItems = [&] { return shape.batchSize * c.rowBlocks * c.groups; };
  auto getWork = [&] {
    return c.blockTiles * c.tileRows * c.groupPanels * panelWidth * shape.n;
  };
  int64_t mostBlockRows = getMostBlockRows();
  divideRows(llvm::divideCeil(rows.size, mostBlockRows));
  // Divides large items until there are enough items for a few threads.
  while (isShared && countItems() < kSharedItems && getWork() > kDividedWork &&
         c.blockTiles > kLeastBlockTiles)
    divideRows(2 * c.rowBlocks);
  c.blockRows = c.blockTiles * c.tileRows;
  int64_t most = shape.n > shape.chunk ? kChunkedStripColumns : kStripColumns;
  if (c.kBlocksOutside)
    most = kStreamedSums / rows.size;
  c.stripGroups =
      std::clamp<int64_t>(most / (c.groupPanels * panelWidth), 1, c.groups);
  // A strip may instead consist of several row blocks. These blocks share
  // columns, which are then packed once.
  int64_t mostRows = (c.rowsPacked ? 1 : 2) * mostBlockRows;
  c.stripBlocks =
      c.groups == 1 && shape.batchSize == 1 && c.columnsPacked
          ? std::clamp<int64_t>(mostRows / c.blockRows, 1, c.rowBlocks)
          : 1;
  c.stripTiles = c.stripBlocks * c.blockTiles;
  c.stripRows = c.stripBlocks * c.blockRows;
  // The rows of a tile are contiguous in a K-block, followed by those of the
  // next tile. Packing stores whole vectors: elements after the end of a row go
  // to unused memory or to the next row, which is packed later.
  int64_t slack = std::max(c.lanes, kSlack);
  c.rowStride = (c.rowsAlongRows ? c.tileRows : 1) * c.kBlockSize +
                (c.rowsAlongRows || !c.hasKBlocks() ? slack : 0);
  c.rowKBlockStride =
      (c.rowsAlongRows ? c.stripTiles : c.stripRows) * c.rowStride + slack;
  c.items = countItems();
  c.grain = kGrainWork / std::max<int64_t>(getWork(), 1);
}

std::optional<TileConfig>
repro::cpu::chooseTileConfig(const ContractionShape &shape, const Level &level,
                             bool isShared) {
  return Chooser(shape, level, isShared).choose();
}

std::string TileConfig::describe() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "tile " << tileRows << " x " << tileVectors << " vectors of "
         << lanes << (masked ? " (masked)" : "")
         << (swapsFactors ? ", factors swapped" : "") << ", rows "
         << (!rowsPacked     ? "in place"
             : rowsAlongRows ? "packed along M"
                             : "packed")
         << ", columns "
         << (!columnsPacked ? "in place"
             : transposed   ? "packed, transposed"
                            : "packed")
         << ", K-blocks of " << kBlockSize << " of " << span << ", blocks of "
         << blockRows << " rows, "
         << (kBlocksOutside ? "panels within K-blocks, " : "") << "groups of "
         << groupPanels << " panels, strips of " << stripBlocks
         << " blocks and " << stripGroups << " groups, " << items << " items";
  return text;
}
