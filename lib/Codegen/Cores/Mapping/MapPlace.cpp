//===- MapPlace.cpp - Assign pieces to cores ------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-place (Passes.td): assigns the pieces of each launch to cores.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Mapping/Passes.h"
#include "DramLayout.h"
#include "Homes.h"

#include "llvm/Support/MathExtras.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPPLACE
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

namespace {
struct MapPlace : public repro::impl::ReproMapPlaceBase<MapPlace> {
  using ReproMapPlaceBase::ReproMapPlaceBase;
  void runOnOperation() override;
};
} // namespace

/// Returns the numbers of the cores along a snake through the rows.
static SmallVector<int64_t> listSnake(const ManyCore &machine) {
  std::vector<ManyCore::Point> cores = machine.listCores();
  llvm::stable_sort(cores, [](ManyCore::Point a, ManyCore::Point b) {
    if (a[1] != b[1])
      return a[1] < b[1];
    return a[1] % 2 == 0 ? a[0] < b[0] : a[0] > b[0];
  });
  SmallVector<int64_t> numbers;
  for (ManyCore::Point core : cores)
    numbers.push_back(core[1] * machine.getColumns() + core[0]);
  return numbers;
}

/// Predicts the seconds that the transfers of a tensor take.
namespace {
class TransferCost {
public:
  TransferCost(ArrayRef<MappedLaunch> launches, const PlacedPieces &placed,
               const Homes &homes, const ManyCore &machine)
      : launches(launches), placed(placed), homes(homes), machine(machine) {}

  /// Returns the time that the memories of cores save, and the number of copies
  /// between cores. The writers store their pieces without a transfer.
  std::pair<double, double> getGain(unsigned number) const {
    const Tensor &tensor = homes.getTensors().tensors[number];
    double seconds = 0, copies = 0;
    for (TensorUse use : tensor.writers)
      seconds += getDramSeconds(use);
    for (TensorUse use : tensor.readers)
      seconds += getDramSeconds(use) - getCoreSeconds(use, copies);
    return {seconds, copies};
  }

private:
  /// The pieces of a launch whose transfers from cores are predicted.
  static constexpr unsigned kMostPieces = 4;

  double getLink() const { return machine.linkBytesPerCycle * machine.clockHz; }
  ArrayRef<int64_t> getSizes(TensorUse use) const {
    return *getTileSizes(launches[use.launch]);
  }

  double getDramSeconds(TensorUse use) const {
    const std::vector<PlacedPiece> &pieces = placed.ofLaunch[use.launch];
    if (pieces.empty())
      return 0;
    double bytes = getPieceBytes(launches[use.launch], use.access,
                                 pieces.front().range, getSizes(use), machine);
    double count = countChanges(use, pieces.front());
    double all = bytes * double(pieces.size()) / getSharers(use);
    return std::max(all / getDramBytesPerSecond(machine), bytes / getLink()) +
           count * (machine.channels.front().latencySeconds + getSetup());
  }

  /// Returns the number of pieces to which each box is sent at once.
  double getSharers(TensorUse use) const {
    const MappedLaunch &launch = launches[use.launch];
    if (!llvm::is_contained(*getMulticasts(launch), int64_t(use.access)))
      return 1;
    auto partition = launch.dispatch->getAttrOfType<DenseI64ArrayAttr>(
        CoresDialect::PartitionAttrHelper::getNameStr());
    return double(launch.getGrid(partition, machine).sharers[use.access]);
  }

  double getSetup() const { return machine.dmaSetupCycles / machine.clockHz; }

  /// Returns how often the box of an access changes in a piece.
  double countChanges(TensorUse use, const PlacedPiece &piece) const {
    double count = 0;
    forEachBox(use, piece, [&](ArrayRef<Interval>) { ++count; });
    return count;
  }

  void forEachBox(TensorUse use, const PlacedPiece &piece,
                  function_ref<void(ArrayRef<Interval>)> visit) const {
    const MappedLaunch &launch = launches[use.launch];
    Box last;
    for (ArrayRef<Interval> tile :
         launch.listTiles(piece.range, getSizes(use))) {
      Box box = launch.tiles.getBox(use.access, tile);
      if (box == last)
        continue;
      visit(box);
      last = std::move(box);
    }
  }

  /// Returns the time of the copies from cores, and adds their number.
  double getCoreSeconds(TensorUse use, double &copies) const {
    const std::vector<PlacedPiece> &pieces = placed.ofLaunch[use.launch];
    int64_t elementBytes = launch::getElementBytes(
        launches[use.launch].places[use.access].type.getElementType());
    double most = 0, sharers = getSharers(use);
    size_t step = std::max<size_t>(pieces.size() / kMostPieces, 1);
    DenseMap<unsigned, double> sent; // bytes by core
    for (size_t p = 0; p < pieces.size(); p += step) {
      double seconds = 0;
      forEachBox(use, pieces[p], [&](ArrayRef<Interval> box) {
        for (const PartCopy &part : homes.listParts(use, box)) {
          int64_t row = part.getRowBytes(elementBytes);
          double bytes = double(part.getBytes(elementBytes)) /
                         double(std::max<int64_t>(row, 1)) *
                         double(llvm::alignTo(
                             row, std::max<int64_t>(machine.dmaAlignment, 1)));
          if (part.core == pieces[p].core &&
              row == part.getBytes(elementBytes) &&
              row == elementBytes * getNumElements(box))
            continue;
          copies += double(step);
          ManyCore::Point from = placed.cores[part.core];
          ManyCore::Point to = placed.cores[pieces[p].core];
          double hops = double(machine.countHops(from, to));
          seconds += getSetup() + bytes / getLink() +
                     2 * hops * machine.hopCycles / machine.clockHz +
                     double(2 * machine.countChipHops(from, to)) *
                         (machine.chipLatencySeconds);
          sent[part.core] += bytes * double(step) / sharers;
        }
      });
      most = std::max(most, seconds);
    }
    for (auto [core, bytes] : sent)
      most = std::max(most, bytes / getLink());
    return most;
  }

  ArrayRef<MappedLaunch> launches;
  const PlacedPieces &placed;
  const Homes &homes;
  const ManyCore &machine;
};

/// A tensor that saves time in the memories of cores.
struct HomeCandidate {
  unsigned tensor;
  double value;  ///< seconds for each byte and launch
  double copies; ///< between cores
};
} // namespace

/// Returns the bytes of a core's memory that the buffers of a launch's tiles
/// take, if two of each that changes fit.
static int64_t getTileBytes(const MappedLaunch &launch, int64_t most,
                            const ManyCore &machine) {
  if (launch.isEmpty())
    return 0;
  auto partition = launch.dispatch->getAttrOfType<DenseI64ArrayAttr>(
      CoresDialect::PartitionAttrHelper::getNameStr());
  SmallVector<Interval> piece = launch.getLargestPiece(partition);
  ArrayRef<int64_t> sizes = *getTileSizes(launch);
  int64_t bytes = getBufferBytes(launch, piece, sizes, true, machine);
  if (bytes > most)
    bytes = getBufferBytes(launch, piece, sizes, false, machine);
  return bytes;
}

namespace {
/// The memory of each core that has homes.
class HomeAllocator {
public:
  HomeAllocator(SmallVector<int64_t> tileBytes, int64_t least, int64_t most)
      : tileBytes(std::move(tileBytes)), least(least), most(most) {}

  /// Sets the addresses of the regions, as high as possible. Returns false if
  /// they do not fit.
  bool allocate(MutableArrayRef<HomeRegion> regions) {
    size_t known = used.size();
    for (HomeRegion &region : regions) {
      region.address = find(region);
      if (region.isResident()) {
        used.push_back(region);
        continue;
      }
      used.resize(known);
      for (HomeRegion &each : regions)
        each.address = -1;
      return false;
    }
    return true;
  }

private:
  int64_t find(const HomeRegion &region) const {
    SmallVector<const HomeRegion *> others;
    for (const HomeRegion &other : used)
      if (region.coexists(other))
        others.push_back(&other);
    llvm::sort(others, [](const HomeRegion *a, const HomeRegion *b) {
      return a->address + a->bytes > b->address + b->bytes;
    });
    int64_t end = most;
    for (const HomeRegion *other : others) {
      if (end - region.bytes >= other->address + other->bytes)
        break;
      end = std::min(end, other->address);
    }
    int64_t lowest = least;
    for (unsigned i = region.first; i <= region.last; ++i)
      lowest = std::max(lowest, tileBytes[i]);
    return end - region.bytes >= lowest ? end - region.bytes : -1;
  }

  SmallVector<int64_t> tileBytes; ///< of each launch
  int64_t least, most;
  SmallVector<HomeRegion> used;
};
} // namespace

/// The number of pieces of a plan above which all tensors lie in the DRAM, so
/// that the memory of the compiler is bounded.
static constexpr int64_t kMostPlaced = 1'000'000;

/// The number of copies between cores, each of which makes the plan longer.
static constexpr double kMostCopies = 500'000;

/// Chooses the tensors that lie in the memories of cores, and their addresses.
static LogicalResult chooseHomes(launch::PlanOp plan,
                                 ArrayRef<MappedLaunch> launches,
                                 const ManyCore &machine) {
  // The choice needs the boxes of all pieces.
  int64_t numPieces = 0;
  for (const MappedLaunch &launch : launches)
    numPieces += launch.countPieces(
        launch.dispatch
            ->getAttrOfType<DenseI64ArrayAttr>(
                CoresDialect::PartitionAttrHelper::getNameStr())
            .asArrayRef());
  if (numPieces > kMostPlaced)
    return success();
  FailureOr<PlacedPieces> placed = placePieces(launches, machine);
  if (failed(placed))
    return failure();
  auto scratch =
      CoresDialect::ScratchAttrHelper(plan.getContext()).getAttr(plan);
  if (!scratch)
    return plan.emitOpError("expected the attribute 'cores.scratch', which the "
                            "pass repro-map-tile sets");
  int64_t most = getUsableBytes(machine) - scratch.getInt();
  SmallVector<int64_t> tileBytes;
  for (const MappedLaunch &launch : launches) {
    if (failed(getTileSizes(launch)) || failed(getMulticasts(launch)))
      return failure();
    tileBytes.push_back(getTileBytes(launch, most, machine));
  }
  Homes homes(launches, placed->ofLaunch, plan.getArena(), machine);
  TransferCost cost(launches, *placed, homes, machine);
  int64_t least = getLeastHome(placed->cores.size());
  SmallVector<HomeCandidate> candidates;
  for (auto [number, tensor] : llvm::enumerate(homes.getTensors().tensors)) {
    if (!tensor.digits)
      continue;
    MutableArrayRef<HomeRegion> regions = homes.getRegions(number);
    if (llvm::any_of(regions, [&](const HomeRegion &region) {
          return region.bytes > most - least;
        }))
      continue;
    auto [gain, copies] = cost.getGain(number);
    double taken = 0;
    for (const HomeRegion &region : regions)
      taken += double(region.bytes) * double(region.last - region.first + 1);
    if (gain > 0 && taken > 0)
      candidates.push_back({unsigned(number), gain / taken, copies});
  }
  llvm::stable_sort(candidates,
                    [](const HomeCandidate &a, const HomeCandidate &b) {
                      return a.value > b.value;
                    });
  HomeAllocator allocator(tileBytes, least, most);
  Builder builder(plan.getContext());
  std::vector<SmallVector<int64_t>> attributes;
  for (const MappedLaunch &launch : launches)
    attributes.emplace_back(launch.places.size(), -1);
  double numCopies = 0;
  for (const HomeCandidate &candidate : candidates) {
    MutableArrayRef<HomeRegion> regions = homes.getRegions(candidate.tensor);
    if (numCopies + candidate.copies > kMostCopies ||
        !allocator.allocate(regions))
      continue;
    numCopies += candidate.copies;
    const Tensor &tensor = homes.getTensors().tensors[candidate.tensor];
    for (auto [writer, region] : llvm::zip_equal(tensor.writers, regions))
      attributes[writer.launch][writer.access] = region.address;
  }
  for (auto [launch, numbers] : llvm::zip_equal(launches, attributes))
    if (llvm::any_of(numbers, [](int64_t address) { return address >= 0; }))
      launch.dispatch->setAttr(CoresDialect::HomeAttrHelper::getNameStr(),
                               builder.getDenseI64ArrayAttr(numbers));
  return success();
}

void MapPlace::runOnOperation() {
  FailureOr<MappingInput> input = readMappingInput(getOperation(), machine);
  if (failed(input))
    return signalPassFailure();
  auto &[description, plan, launches] = *input;
  if (failed(verifyDram(plan, description)))
    return signalPassFailure();
  SmallVector<int64_t> snake = listSnake(description);
  Builder builder(&getContext());
  for (const MappedLaunch &launch : launches) {
    FailureOr<ArrayRef<int64_t>> partition = getNumbers(
        launch.dispatch, CoresDialect::PartitionAttrHelper::getNameStr(),
        launch.tiles.getAxes().size(), "repro-map-partition");
    if (failed(partition))
      return signalPassFailure();
    if (llvm::is_contained(*partition, 0)) {
      launch.dispatch.emitOpError("expected pieces along each axis");
      return signalPassFailure();
    }
    launch.dispatch->removeAttr(CoresDialect::HomeAttrHelper::getNameStr());
    int64_t pieces = launch.countPieces(*partition);
    if (pieces > int64_t(snake.size())) {
      launch.dispatch.emitOpError("expected at most ")
          << snake.size() << " pieces, one for each core of '"
          << description.name << "', got " << pieces;
      return signalPassFailure();
    }
    launch.dispatch->setAttr(
        CoresDialect::PlaceAttrHelper::getNameStr(),
        builder.getDenseI64ArrayAttr(ArrayRef(snake).take_front(pieces)));
  }
  if (homes != "cores" && homes != "dram") {
    plan.emitError("expected homes=cores or homes=dram, got homes=") << homes;
    return signalPassFailure();
  }
  if (homes == "cores" && failed(chooseHomes(plan, launches, description)))
    return signalPassFailure();
}
