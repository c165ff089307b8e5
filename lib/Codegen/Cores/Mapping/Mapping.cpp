//===- Mapping.cpp - Launches as pieces and tiles -------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mapping.h"

#include "Codegen/CPU/Passes.h"
#include "Codegen/Cores/Lowering/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"

#include "mlir/Pass/PassManager.h"

#include "llvm/Support/MathExtras.h"
#include <set>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

FailureOr<MappingInput> cores::readMappingInput(ModuleOp module,
                                                StringRef machine) {
  MappingInput input;
  std::string error;
  FailureOr<ManyCore> description = getManyCore(machine, error);
  if (failed(description))
    return module.emitError(error);
  input.machine = std::move(*description);
  FailureOr<launch::PlanOp> plan = findPlan(module);
  if (failed(plan))
    return failure();
  input.plan = *plan;
  if (input.machine.channels.empty())
    return input.plan.emitError("expected a machine with DRAM, got '")
           << input.machine.name << "'";
  FailureOr<std::vector<MappedLaunch>> launches = listLaunches(input.plan);
  if (failed(launches))
    return failure();
  input.launches = std::move(*launches);
  return input;
}

bool MappedLaunch::isEmpty() const {
  return llvm::any_of(tiles.getAxes(), [&](unsigned loop) {
    return tiles.getExtents()[loop] == 0;
  });
}

/// Calls `add` for each combination of parts, of `sizes` along the axes, of a
/// range of all loops.
static SmallVector<SmallVector<Interval>> cut(ArrayRef<Interval> whole,
                                              ArrayRef<unsigned> axes,
                                              ArrayRef<int64_t> sizes) {
  SmallVector<SmallVector<Interval>> parts = {SmallVector<Interval>(whole)};
  for (auto [loop, size] : llvm::zip_equal(axes, sizes)) {
    SmallVector<SmallVector<Interval>> next;
    Interval range = whole[loop];
    for (const SmallVector<Interval> &part : parts)
      for (int64_t at = 0; at < range.size; at += size) {
        next.push_back(part);
        next.back()[loop] = {range.begin + at, std::min(size, range.size - at)};
      }
    parts = std::move(next);
  }
  return parts;
}

/// Returns the extent of the largest piece along each axis.
static SmallVector<int64_t> getPieceSizes(const KernelTiles &tiles,
                                          ArrayRef<int64_t> partition) {
  SmallVector<int64_t> sizes;
  for (auto [loop, count] : llvm::zip_equal(tiles.getAxes(), partition))
    sizes.push_back(std::max<int64_t>(
        llvm::divideCeil(tiles.getExtents()[loop], count), 1));
  return sizes;
}

SmallVector<SmallVector<Interval>>
MappedLaunch::listPieces(ArrayRef<int64_t> partition) const {
  return cut(tiles.getWhole(), tiles.getAxes(),
             getPieceSizes(tiles, partition));
}

int64_t MappedLaunch::countPieces(ArrayRef<int64_t> partition) const {
  int64_t pieces = 1;
  for (auto [loop, size] :
       llvm::zip_equal(tiles.getAxes(), getPieceSizes(tiles, partition)))
    pieces *= llvm::divideCeil(tiles.getExtents()[loop], size);
  return pieces;
}

PieceGrid MappedLaunch::getGrid(ArrayRef<int64_t> partition,
                                const ManyCore &machine) const {
  PieceGrid grid{countPieces(partition), {}};
  SmallVector<int64_t> sizes = getPieceSizes(tiles, partition);
  // A chip has only some of the pieces.
  bool canShare = machine.hasMulticast && machine.getChips() == 1;
  for (const KernelAccess &access : tiles.getAccesses()) {
    int64_t &sharers = grid.sharers.emplace_back(1);
    if (!canShare || !access.reads || access.writes)
      continue;
    for (auto [loop, size] : llvm::zip_equal(tiles.getAxes(), sizes))
      if (!access.dependsOn(loop))
        sharers *= llvm::divideCeil(tiles.getExtents()[loop], size);
  }
  return grid;
}

SmallVector<SmallVector<Interval>>
MappedLaunch::listTiles(ArrayRef<Interval> piece,
                        ArrayRef<int64_t> sizes) const {
  return cut(piece, tiles.getAxes(), sizes);
}

SmallVector<SmallVector<Interval>>
MappedLaunch::listTileShapes(ArrayRef<int64_t> partition,
                             ArrayRef<int64_t> sizes) const {
  SmallVector<SmallVector<Interval>> shapes = {tiles.getWhole()};
  for (auto [loop, piece, size] : llvm::zip_equal(
           tiles.getAxes(), getPieceSizes(tiles, partition), sizes)) {
    int64_t extent = tiles.getExtents()[loop];
    SmallVector<Interval> ranges;
    auto add = [&](int64_t begin, int64_t end) {
      Interval range = {begin, std::min(size, end - begin)};
      if (range.size > 0 && llvm::none_of(ranges, [&](const Interval &known) {
            return known.size == range.size;
          }))
        ranges.push_back(range);
    };
    // The first and the last tile of a piece, and those of the last piece.
    int64_t last = extent % piece;
    add(0, piece);
    add(piece - piece % size, piece);
    add(extent - last, extent);
    add(extent - last % size, extent);
    SmallVector<SmallVector<Interval>> longer;
    for (ArrayRef<Interval> shape : shapes)
      for (const Interval &range : ranges) {
        longer.emplace_back(shape);
        longer.back()[loop] = range;
      }
    shapes = std::move(longer);
  }
  return shapes;
}

SmallVector<Interval>
MappedLaunch::getLargestPiece(ArrayRef<int64_t> partition) const {
  SmallVector<Interval> piece = tiles.getWhole();
  for (auto [loop, size] :
       llvm::zip_equal(tiles.getAxes(), getPieceSizes(tiles, partition)))
    piece[loop] = {0, size};
  return piece;
}

/// Returns the distance in bytes between the elements that an access reaches in
/// successive iterations of each loop, and the place of the first element.
/// std::nullopt if the distances are not constant.
static std::optional<std::pair<SmallVector<int64_t>, int64_t>>
getByteSteps(const KernelAccess &access, const Place &place) {
  if (!access.isLinear())
    return std::nullopt;
  int64_t unused;
  SmallVector<int64_t> strides = *getStaticStrides(place.type, unused);
  int64_t bytes = launch::getElementBytes(place.type.getElementType());
  SmallVector<int64_t> steps(access.map.getNumDims(), 0);
  int64_t offset = place.offset;
  for (auto [linear, stride] : llvm::zip_equal(access.linear, strides)) {
    offset += linear->constant * stride * bytes;
    for (auto [step, coefficient] :
         llvm::zip_equal(steps, linear->coefficients))
      step += coefficient * stride * bytes;
  }
  return std::pair(steps, offset);
}

/// Whether an iteration may read or write an element that another iteration
/// writes.
static bool hasConflict(const MappedLaunch &launch) {
  ArrayRef<KernelAccess> accesses = launch.tiles.getAccesses();
  for (auto [i, written] : llvm::enumerate(accesses)) {
    if (!written.writes)
      continue;
    for (auto [j, other] : llvm::enumerate(accesses)) {
      const Place &a = launch.places[i], &b = launch.places[j];
      if (i == j || a.root != b.root || (!other.reads && !other.writes))
        continue;
      auto stepsA = getByteSteps(written, a), stepsB = getByteSteps(other, b);
      bool isSame = stepsA && stepsB && stepsA->second == stepsB->second;
      for (auto [loop, extent] : llvm::enumerate(launch.tiles.getExtents()))
        isSame = isSame &&
                 (extent == 1 || stepsA->first[loop] == stepsB->first[loop]);
      if (isSame)
        continue;
      SmallVector<Interval> whole = launch.tiles.getWhole();
      bool overlaps = false;
      forEachOverlap(a, {launch.tiles.getBox(i, whole)}, b,
                     {launch.tiles.getBox(j, whole)},
                     [&](unsigned, unsigned) { overlaps = true; });
      if (overlaps)
        return true;
    }
  }
  return false;
}

FailureOr<std::vector<MappedLaunch>> cores::listLaunches(launch::PlanOp plan) {
  SymbolTable symbols(plan->getParentOfType<ModuleOp>());
  DenseMap<Operation *, FailureOr<KernelTiles>> known;
  std::vector<MappedLaunch> launches;
  for (auto dispatch : plan.getBody().getOps<launch::DispatchOp>()) {
    auto kernel =
        symbols.lookup<func::FuncOp>(dispatch.getKernel().getRootReference());
    if (!kernel || kernel.isExternal())
      return dispatch.emitOpError("expected a kernel function of the pipeline "
                                  "'schedule'");
    auto found = known.find(kernel);
    if (found == known.end())
      found = known.insert({kernel, KernelTiles::get(kernel)}).first;
    if (failed(found->second))
      return failure();
    MappedLaunch launch{dispatch, *found->second, {}};
    for (const KernelAccess &access : launch.tiles.getAccesses())
      launch.places.push_back(Place::get(dispatch.getBuffers()[access.buffer]));
    if (hasConflict(launch))
      launch.tiles.forbidCuts();
    launches.push_back(std::move(launch));
  }
  return launches;
}

FailureOr<ArrayRef<int64_t>> cores::getNumbers(launch::DispatchOp dispatch,
                                               StringRef name, size_t size,
                                               StringRef pass) {
  auto numbers = dispatch->getAttrOfType<DenseI64ArrayAttr>(name);
  if (!numbers || numbers.size() != int64_t(size) ||
      llvm::any_of(numbers.asArrayRef(), [](int64_t n) { return n < 0; }))
    return dispatch.emitOpError("expected ")
           << size << " numbers in the attribute '" << name << "', which the "
           << "pass " << pass << " sets";
  return numbers.asArrayRef();
}

FailureOr<ArrayRef<int64_t>> cores::getMulticasts(const MappedLaunch &launch) {
  StringRef name = CoresDialect::MulticastAttrHelper::getNameStr();
  ArrayRef<KernelAccess> accesses = launch.tiles.getAccesses();
  auto numbers = launch.dispatch->getAttrOfType<DenseI64ArrayAttr>(name);
  if (!numbers && !launch.dispatch->hasAttr(name))
    return ArrayRef<int64_t>();
  if (!numbers || llvm::any_of(numbers.asArrayRef(), [&](int64_t access) {
        return access < 0 || access >= int64_t(accesses.size()) ||
               !accesses[access].reads || accesses[access].writes;
      }))
    return launch.dispatch.emitOpError(
               "expected numbers of accesses that only read in the attribute '")
           << name << "', which the pass repro-map-tile sets";
  return numbers.asArrayRef();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

int64_t cores::getLocalAlignment(const ManyCore &machine) {
  return std::max<int64_t>(machine.dmaAlignment, 16);
}

int64_t cores::getUsableBytes(const ManyCore &machine) {
  return std::max<int64_t>(machine.dataBytes - kErrorBytes, 0) / 64 * 64;
}

double cores::getDramBytesPerSecond(const ManyCore &machine) {
  double sum = 0;
  for (const ManyCore::Channel &channel : machine.channels)
    sum += channel.bytesPerSecond;
  return sum * double(machine.getChips()) * machine.dramEfficiency;
}

double cores::getTransferBytes(const MappedLaunch &launch, unsigned access,
                               ArrayRef<Interval> tile,
                               const ManyCore &machine) {
  Box box = launch.tiles.getBox(access, tile);
  MemRefType type = launch.places[access].type;
  int64_t unused;
  SmallVector<int64_t> strides = *getStaticStrides(type, unused);
  int64_t row = 1;
  double rows = 1;
  for (int64_t dim = box.size() - 1; dim >= 0; --dim) {
    if (rows == 1 && (box[dim].size == 1 || strides[dim] == row))
      row *= box[dim].size;
    else
      rows *= double(box[dim].size);
  }
  row *= launch::getElementBytes(type.getElementType());
  double bytes =
      rows *
      double(llvm::alignTo(row, std::max<int64_t>(machine.dmaAlignment, 1)));
  auto flit = double(std::max<int64_t>(machine.payloadBytes, 1));
  return std::ceil(bytes / flit) * flit;
}

/// Returns the number of tiles of a piece along each axis.
static SmallVector<int64_t> getTileCounts(const MappedLaunch &launch,
                                          ArrayRef<Interval> piece,
                                          ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> counts;
  for (auto [loop, size] : llvm::zip_equal(launch.tiles.getAxes(), sizes))
    counts.push_back(llvm::divideCeil(piece[loop].size, size));
  return counts;
}

/// Returns the first tile of a piece.
static SmallVector<Interval> getFirstTile(const MappedLaunch &launch,
                                          ArrayRef<Interval> piece,
                                          ArrayRef<int64_t> sizes) {
  SmallVector<Interval> tile(piece);
  for (auto [loop, size] : llvm::zip_equal(launch.tiles.getAxes(), sizes))
    tile[loop].size = std::min(size, piece[loop].size);
  return tile;
}

/// Returns how often the box of an access changes, the first box included, if
/// tiles run in row-major order.
static int64_t countBoxes(const MappedLaunch &launch, unsigned access,
                          ArrayRef<int64_t> counts) {
  int64_t boxes = 1, product = 1;
  for (auto [loop, count] : llvm::zip_equal(launch.tiles.getAxes(), counts)) {
    product *= count;
    if (count > 1 && launch.tiles.getAccesses()[access].dependsOn(loop))
      boxes = product;
  }
  return boxes;
}

double cores::getPieceBytes(const MappedLaunch &launch, unsigned access,
                            ArrayRef<Interval> piece, ArrayRef<int64_t> sizes,
                            const ManyCore &machine) {
  SmallVector<int64_t> counts = getTileCounts(launch, piece, sizes);
  return getTransferBytes(launch, access, getFirstTile(launch, piece, sizes),
                          machine) *
         double(countBoxes(launch, access, counts));
}

/// Returns the bytes that the box of a tile takes at most, for any begin.
static int64_t getMaxBoxBytes(const MappedLaunch &launch, unsigned access,
                              ArrayRef<Interval> tile) {
  Box box = launch.tiles.getBox(access, tile);
  MemRefType type = launch.tiles.getType(access);
  const KernelAccess &info = launch.tiles.getAccesses()[access];
  int64_t bytes = launch::getElementBytes(type.getElementType());
  for (auto [range, linear, extent] :
       llvm::zip_equal(box, info.linear, type.getShape()))
    bytes *= linear ? range.size : extent;
  return bytes;
}

int64_t cores::getBufferBytes(const MappedLaunch &launch,
                              ArrayRef<Interval> piece, ArrayRef<int64_t> sizes,
                              bool isDouble, const ManyCore &machine) {
  SmallVector<Interval> tile = getFirstTile(launch, piece, sizes);
  SmallVector<int64_t> counts = getTileCounts(launch, piece, sizes);
  int64_t alignment = getLocalAlignment(machine);
  int64_t sum = 0;
  auto add = [&](int64_t bytes, bool moves) {
    sum += llvm::alignTo(bytes, alignment) * (moves && isDouble ? 2 : 1);
  };
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses()))
    add(getMaxBoxBytes(launch, i, tile), countBoxes(launch, i, counts) > 1);
  if (int64_t shifted = launch.tiles.getShiftedLoops(tile).size())
    add(8 * shifted, /*moves=*/true);
  return sum;
}

namespace {
/// Predicts the seconds of a piece: while a tile runs, the inputs of the next
/// one and the outputs of the former one are copied.
class PieceTime {
public:
  PieceTime(const MappedLaunch &launch, const KernelCost &cost,
            ArrayRef<Interval> piece, ArrayRef<int64_t> sizes,
            const PieceGrid &grid, bool isDouble, const ManyCore &machine);

  /// Returns the seconds if the boxes of these accesses are multicast.
  double getSeconds(ArrayRef<int64_t> multicasts) const;

private:
  /// Returns the seconds in which the core moves bytes, of which the channels
  /// of the DRAM move `dram` bytes.
  double getTransfer(double bytes, double dram) const {
    return std::max(bytes / link, dram / share);
  }

  ArrayRef<KernelAccess> accesses;
  ArrayRef<int64_t> sharers;
  SmallVector<double> bytes, boxes; ///< of each access
  double numTiles = 1, compute, link, share, latency, setup, sync;
  bool isDouble;
};
} // namespace

PieceTime::PieceTime(const MappedLaunch &launch, const KernelCost &cost,
                     ArrayRef<Interval> piece, ArrayRef<int64_t> sizes,
                     const PieceGrid &grid, bool isDouble,
                     const ManyCore &machine)
    : accesses(launch.tiles.getAccesses()), sharers(grid.sharers),
      isDouble(isDouble) {
  SmallVector<Interval> tile = getFirstTile(launch, piece, sizes);
  SmallVector<int64_t> counts = getTileCounts(launch, piece, sizes);
  for (int64_t count : counts)
    numTiles *= double(count);
  for (unsigned i = 0; i < accesses.size(); ++i) {
    bytes.push_back(getTransferBytes(launch, i, tile, machine));
    boxes.push_back(double(countBoxes(launch, i, counts)));
  }
  compute =
      numTiles * (cost.getCycles(tile) + machine.runCycles) / machine.clockHz;
  link = machine.linkBytesPerCycle * machine.clockHz;
  share = getDramBytesPerSecond(machine) / double(grid.numPieces);
  latency =
      machine.channels.empty() ? 0 : machine.channels.front().latencySeconds;
  setup = machine.dmaSetupCycles / machine.clockHz;
  sync = (machine.releaseCycles + machine.acquireCycles) / machine.clockHz;
}

double PieceTime::getSeconds(ArrayRef<int64_t> multicasts) const {
  double in = 0, inDram = 0; // bytes of the first tile's inputs
  double all = 0, allDram = 0, copies = 0, waiting = 0, sending = 0;
  for (auto [i, access] : llvm::enumerate(accesses)) {
    bool isShared = llvm::is_contained(multicasts, int64_t(i));
    double cores = isShared ? double(sharers[i]) : 1;
    if (access.reads) {
      in += bytes[i];
      inDram += bytes[i] / cores;
    }
    for (bool moved : {access.reads, access.writes}) {
      if (!moved)
        continue;
      all += bytes[i] * boxes[i];
      allDram += bytes[i] * boxes[i] / cores;
      copies += boxes[i] * (isShared ? 2 / cores : 1);
    }
    if (!isShared)
      continue;
    // The cores of the group take turns: one waits for the DRAM and for the
    // others, and sends.
    double read = latency + setup + getTransfer(bytes[i], bytes[i] / cores);
    waiting += boxes[i] * (sync + (sync + read) / cores);
    sending += setup + bytes[i] / link;
  }
  double transfer =
      getTransfer(all, allDram) + copies * setup + numTiles * latency;
  if (!isDouble || numTiles == 1)
    return compute + waiting + sending * numTiles + transfer + latency;
  // The first inputs and the last outputs are copied while no tile runs.
  double first = getTransfer(in, inDram);
  double out = getTransfer(all / numTiles, allDram / numTiles) - first;
  return latency + first + sending + std::max(0.0, out) +
         std::max(compute + waiting, transfer);
}

/// A plan with twice as many tiles is twice as long, so it has to save some
/// time.
static constexpr double kLeastGain = 0.97;

Tiling cores::getTiling(const MappedLaunch &launch, const KernelCost &cost,
                        ArrayRef<Interval> piece, ArrayRef<int64_t> sizes,
                        const PieceGrid &grid, int64_t budget,
                        const ManyCore &machine) {
  Tiling tiling;
  bool isDouble = true;
  tiling.bytes = getBufferBytes(launch, piece, sizes, true, machine);
  if (tiling.bytes > budget) {
    isDouble = false;
    tiling.bytes = getBufferBytes(launch, piece, sizes, false, machine);
  }
  tiling.sizes.assign(sizes.begin(), sizes.end());
  PieceTime time(launch, cost, piece, sizes, grid, isDouble, machine);
  tiling.seconds = time.getSeconds({});
  for (auto [access, sharers] : llvm::enumerate(grid.sharers)) {
    if (sharers == 1)
      continue;
    tiling.multicasts.push_back(access);
    double seconds = time.getSeconds(tiling.multicasts);
    if (seconds < tiling.seconds)
      tiling.seconds = seconds;
    else
      tiling.multicasts.pop_back();
  }
  return tiling;
}

/// The number of tilings of each depth whose halves are considered.
static constexpr size_t kMostKept = 8;

/// The number of depths without a gain after which the search ends.
static constexpr int kMostIdle = 2;

Tiling cores::chooseTiling(const MappedLaunch &launch, ArrayRef<Interval> piece,
                           const PieceGrid &grid, int64_t budget,
                           const ManyCore &machine) {
  KernelCost cost(launch.tiles, machine);
  auto evaluate = [&](ArrayRef<int64_t> sizes) {
    return getTiling(launch, cost, piece, sizes, grid, budget, machine);
  };
  // Tilings that fit come first, the fastest of them first. Tilings that do not
  // fit are ordered by the product of their bytes and their time.
  auto isBetter = [&](const Tiling &a, const Tiling &b) {
    bool fitsA = a.bytes <= budget, fitsB = b.bytes <= budget;
    if (fitsA != fitsB)
      return fitsA;
    if (!fitsA && a.bytes != b.bytes)
      return double(a.bytes) * a.seconds < double(b.bytes) * b.seconds;
    return a.seconds < b.seconds;
  };
  SmallVector<int64_t> sizes;
  for (unsigned loop : launch.tiles.getAxes())
    sizes.push_back(std::max<int64_t>(piece[loop].size, 1));
  // A beam search: the next depth halves one more axis of the best tilings.
  std::vector<Tiling> kept = {evaluate(sizes)};
  Tiling best = kept.front();
  for (int idle = 0; idle < kMostIdle;) {
    std::set<SmallVector<int64_t>> next;
    for (const Tiling &tiling : kept)
      for (auto [axis, size] : llvm::enumerate(tiling.sizes)) {
        if (size == 1)
          continue;
        SmallVector<int64_t> smaller = tiling.sizes;
        smaller[axis] = llvm::divideCeil(size, 2);
        next.insert(smaller);
      }
    if (next.empty())
      break;
    kept.clear();
    for (ArrayRef<int64_t> smaller : next)
      kept.push_back(evaluate(smaller));
    llvm::stable_sort(kept, isBetter);
    kept.resize(std::min(kept.size(), kMostKept));
    if (best.bytes > budget ||
        kept.front().seconds < best.seconds * kLeastGain) {
      best = kept.front();
      idle = 0;
    } else {
      ++idle;
    }
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Scratch memory
//===----------------------------------------------------------------------===//

/// The level of the code that runs on a core. The simulator may run other code,
/// whose scratch memory is outside of the cores.
static constexpr char kCoreLevel[] = "thumbv7em";

FailureOr<SmallVector<int64_t>>
cores::getScratchBytes(ArrayRef<func::FuncOp> functions, MLIRContext *context) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  SmallVector<func::FuncOp> clones;
  for (auto [i, function] : llvm::enumerate(functions)) {
    func::FuncOp original = function;
    func::FuncOp clone = original.clone();
    clone.setSymName(("tile_" + Twine(i)).str());
    module->push_back(clone);
    clones.push_back(clone);
  }
  PassManager manager(context, ModuleOp::getOperationName());
  manager.enableVerifier(false);
  ReproExpandMatricesOptions matrices;
  matrices.level = kCoreLevel;
  manager.addPass(createReproExpandMatrices(matrices));
  ReproExpandKernelsOptions options;
  options.level = kCoreLevel;
  manager.addPass(createReproExpandKernels(options));
  if (failed(manager.run(*module)))
    return failure();
  SmallVector<int64_t> bytes;
  for (func::FuncOp clone : clones) {
    launch::WorkAttr work =
        launch::LaunchDialect::WorkAttrHelper(context).getAttr(clone);
    bytes.push_back(work ? work.getScratchBytes() : 0);
  }
  return bytes;
}
