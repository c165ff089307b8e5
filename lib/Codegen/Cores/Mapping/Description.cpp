//===- Description.cpp - Where a mapped plan spends its time --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pieces of a launch have at most two different sizes along each axis, and
// so have the tiles of a piece. So the work of a launch is a sum over these
// sizes, each times the number of tiles that have it.
//
//===----------------------------------------------------------------------===//

#include "Description.h"

#include "ChipTraffic.h"
#include "Codegen/CPU/Analysis/KernelDescriptions.h"
#include "Mapping.h"
#include "MeshTraffic.h"
#include "Tensors.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

namespace {
/// The work of one piece of a launch.
struct PieceWork {
  double cycles = 0, tiles = 0;
  /// By access.
  SmallVector<double> read, written;
};

/// The pieces of a launch, by their sizes along the axes.
struct LaunchWork {
  SmallVector<int64_t> counts;  ///< of pieces, along each axis
  SmallVector<int64_t> sharers; ///< of the boxes of each access
  std::vector<PieceWork> works; ///< by the set of axes whose last piece it is
  Tiling tiling;                ///< of the largest piece
  int64_t scratch = 0;
};

/// Bytes that several cores read at once.
struct SharedRead {
  ManyCore::Point first, last; ///< the smallest and largest column and row
  double bytes;                ///< that each of the cores reads at least

  SharedRead(ManyCore::Point core, double bytes)
      : first(core), last(core), bytes(bytes) {}
  void add(const SharedRead &other) {
    for (int axis : {0, 1}) {
      first[axis] = std::min(first[axis], other.first[axis]);
      last[axis] = std::max(last[axis], other.last[axis]);
    }
    bytes = std::min(bytes, other.bytes);
  }
};

class Describer {
public:
  Describer(launch::PlanOp plan, const ManyCore &machine)
      : plan(plan), machine(machine), usable(getUsableBytes(machine)),
        tensors(listTensors(plan, machine)), chips(machine), mesh(machine),
        coreCycles(machine.getColumns() * machine.getRows(), 0) {
    for (auto [i, tensor] : llvm::enumerate(tensors))
      numbers[tensor.buffer] = i;
  }

  FailureOr<std::string> describe();

private:
  void findResident();
  LogicalResult addWork(const MappedLaunch &launch);
  LogicalResult addScratch();
  PieceWork getPieceWork(const MappedLaunch &launch, const KernelCost &cost,
                         ArrayRef<Interval> piece, ArrayRef<int64_t> sizes);
  LogicalResult writeLaunch(llvm::json::OStream &json,
                            const MappedLaunch &launch, const LaunchWork &work);

  launch::PlanOp plan;
  const ManyCore &machine;
  int64_t usable;
  std::vector<DramTensor> tensors;
  DenseMap<Value, size_t> numbers; ///< of the tensors
  std::vector<MappedLaunch> launches;
  /// The accesses that read and that write tensors in the memories of cores, by
  /// launch.
  std::vector<llvm::SmallBitVector> residentReads, residentWrites;
  /// By kernel, partition, tile and multicasts.
  using Key = std::tuple<Operation *, std::vector<int64_t>,
                         std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Key, LaunchWork> known;
  std::vector<std::pair<const MappedLaunch *, LaunchWork *>> ofLaunch;
  // The sums of the whole step.
  ChipTraffic chips;
  MeshTraffic mesh;
  std::vector<double> coreCycles;
  double seconds = 0;
};
} // namespace

/// Finds the accesses whose tensors repro-map-place has put into the memories
/// of cores.
void Describer::findResident() {
  auto getHomes = [](const MappedLaunch &launch) {
    return launch.dispatch->getAttrOfType<DenseI64ArrayAttr>(
        CoresDialect::HomeAttrHelper::getNameStr());
  };
  for (const MappedLaunch &launch : launches) {
    residentReads.emplace_back(launch.places.size());
    residentWrites.emplace_back(launch.places.size());
  }
  if (llvm::none_of(launches, getHomes))
    return;
  for (const Tensor &tensor : TensorMap(launches, plan.getArena()).tensors) {
    auto isHome = [&](TensorUse use) {
      DenseI64ArrayAttr homes = getHomes(launches[use.launch]);
      return homes && homes[use.access] >= 0;
    };
    if (llvm::none_of(tensor.writers, isHome))
      continue;
    for (TensorUse use : tensor.readers)
      residentReads[use.launch].set(use.access);
    for (TensorUse use : tensor.writers)
      residentWrites[use.launch].set(use.access);
  }
}

PieceWork Describer::getPieceWork(const MappedLaunch &launch,
                                  const KernelCost &cost,
                                  ArrayRef<Interval> piece,
                                  ArrayRef<int64_t> sizes) {
  ArrayRef<unsigned> axes = launch.tiles.getAxes();
  ArrayRef<KernelAccess> accesses = launch.tiles.getAccesses();
  PieceWork work;
  work.read.assign(accesses.size(), 0);
  work.written.assign(accesses.size(), 0);
  // The last axis along which the box of an access changes. A tile later in
  // further axes does not move the box.
  SmallVector<int> lastAxes(accesses.size(), -1);
  for (auto [axis, loop] : llvm::enumerate(axes))
    for (auto [i, access] : llvm::enumerate(accesses))
      if (piece[loop].size > sizes[axis] && access.dependsOn(loop))
        lastAxes[i] = axis;

  SmallVector<Interval> tile(piece);
  // Visits the two sizes of tiles along each axis. `counts` has the number of
  // tiles along the axes so far.
  auto visit = [&](auto &&self, size_t axis, double count,
                   SmallVector<double> counts) -> void {
    if (axis == axes.size()) {
      work.tiles += count;
      work.cycles += count * (cost.getCycles(tile) + machine.runCycles);
      for (auto [i, access] : llvm::enumerate(accesses)) {
        double moves = lastAxes[i] < 0 ? 1 : counts[lastAxes[i]];
        bool isFirst = true;
        for (size_t next = lastAxes[i] + 1; next < axes.size(); ++next)
          isFirst =
              isFirst && tile[axes[next]].begin == piece[axes[next]].begin;
        if (!isFirst)
          continue;
        double bytes = moves * getTransferBytes(launch, i, tile, machine);
        work.read[i] += access.reads ? bytes : 0;
        work.written[i] += access.writes ? bytes : 0;
      }
      return;
    }
    Interval range = piece[axes[axis]];
    int64_t size = std::min(sizes[axis], range.size);
    int64_t full = range.size / size, rest = range.size % size;
    auto take = [&](Interval part, int64_t number) {
      tile[axes[axis]] = part;
      SmallVector<double> product(counts);
      product.push_back(count * double(number));
      self(self, axis + 1, count * double(number), std::move(product));
      tile[axes[axis]] = range;
    };
    take({range.begin, size}, full);
    if (rest)
      take({range.begin + full * size, rest}, 1);
  };
  visit(visit, 0, 1, {});
  return work;
}

LogicalResult Describer::addWork(const MappedLaunch &launch) {
  ArrayRef<unsigned> axes = launch.tiles.getAxes();
  FailureOr<ArrayRef<int64_t>> partition = getNumbers(
      launch.dispatch, CoresDialect::PartitionAttrHelper::getNameStr(),
      axes.size(), "repro-map-partition");
  FailureOr<ArrayRef<int64_t>> sizes =
      getNumbers(launch.dispatch, CoresDialect::TileAttrHelper::getNameStr(),
                 axes.size(), "repro-map-tile");
  FailureOr<ArrayRef<int64_t>> multicasts = getMulticasts(launch);
  if (failed(partition) || failed(sizes) || failed(multicasts))
    return failure();
  auto [found, isNew] =
      known.try_emplace({launch.tiles.getKernel(), partition->vec(),
                         sizes->vec(), multicasts->vec()});
  LaunchWork &work = found->second;
  ofLaunch.push_back({&launch, &work});
  if (!isNew || launch.isEmpty())
    return success();

  KernelCost cost(launch.tiles, machine);
  SmallVector<Interval> largest = launch.getLargestPiece(*partition);
  SmallVector<Interval> last(largest);
  int64_t numPieces = 1;
  for (unsigned loop : axes) {
    int64_t extent = launch.tiles.getExtents()[loop];
    int64_t count = llvm::divideCeil(extent, largest[loop].size);
    work.counts.push_back(count);
    numPieces *= count;
    last[loop].begin = (count - 1) * largest[loop].size;
    last[loop].size = extent - last[loop].begin;
  }
  for (unsigned set = 0; set < 1u << axes.size(); ++set) {
    SmallVector<Interval> piece(largest);
    for (auto [axis, loop] : llvm::enumerate(axes))
      if (set & 1u << axis)
        piece[loop] = last[loop];
    work.works.push_back(getPieceWork(launch, cost, piece, *sizes));
  }
  PieceGrid grid = launch.getGrid(*partition, machine);
  for (auto [i, sharers] : llvm::enumerate(grid.sharers))
    if (!llvm::is_contained(*multicasts, int64_t(i)))
      sharers = 1;
  work.tiling = getTiling(launch, cost, largest, *sizes, grid, usable, machine);
  work.sharers = std::move(grid.sharers);
  return success();
}

LogicalResult Describer::addScratch() {
  SmallVector<OwningOpRef<func::FuncOp>> owned;
  SmallVector<func::FuncOp> functions;
  std::vector<LaunchWork *> works;
  llvm::DenseSet<LaunchWork *> seen;
  for (auto [launch, work] : ofLaunch) {
    if (work->works.empty() || !seen.insert(work).second)
      continue;
    for (ArrayRef<Interval> tile :
         launch->listTileShapes(work->counts, work->tiling.sizes)) {
      owned.push_back(launch->tiles.createTile(tile, "tile"));
      functions.push_back(*owned.back());
      works.push_back(work);
    }
  }
  FailureOr<SmallVector<int64_t>> bytes =
      getScratchBytes(functions, plan.getContext());
  if (failed(bytes))
    return failure();
  for (auto [work, scratch] : llvm::zip_equal(works, *bytes))
    work->scratch =
        std::max(work->scratch, int64_t(llvm::alignTo(scratch, 64)));
  return success();
}

LogicalResult Describer::writeLaunch(llvm::json::OStream &json,
                                     const MappedLaunch &launch,
                                     const LaunchWork &work) {
  int64_t numPieces = work.works.empty() ? 0 : 1;
  for (int64_t count : work.counts)
    numPieces *= count;
  FailureOr<ArrayRef<int64_t>> place =
      getNumbers(launch.dispatch, CoresDialect::PlaceAttrHelper::getNameStr(),
                 numPieces, "repro-map-place");
  if (failed(place))
    return failure();

  size_t index = &launch - launches.data();
  auto getRead = [&](const PieceWork &piece, size_t access) {
    return residentReads[index][access] ? 0 : piece.read[access];
  };
  auto getWritten = [&](const PieceWork &piece, size_t access) {
    return residentWrites[index][access] ? 0 : piece.written[access];
  };
  size_t numAccesses = launch.tiles.getAccesses().size();
  double cycles = 0, tiles = 0;
  ChipTraffic ownChips(machine);
  MeshTraffic ownMesh(machine);
  // The pieces of each chip by their sizes.
  DenseMap<std::pair<int64_t, unsigned>, int64_t> ofChip;
  // The boxes that are sent to several pieces, by access and by the positions
  // of the pieces along the axes on which the box depends.
  std::map<std::vector<int64_t>, SharedRead> shared;
  for (auto [number, core] : llvm::enumerate(*place)) {
    unsigned set = 0;
    int64_t rest = number;
    SmallVector<int64_t> position(work.counts.size());
    for (size_t axis = work.counts.size(); axis-- > 0;) {
      position[axis] = rest % work.counts[axis];
      if (position[axis] == work.counts[axis] - 1)
        set |= 1u << axis;
      rest /= work.counts[axis];
    }
    const PieceWork &piece = work.works[set];
    ManyCore::Point point = {core % machine.getColumns(),
                             core / machine.getColumns()};
    ManyCore::Point chip = machine.getChip(point);
    ++ofChip[{chip[1] * machine.chipColumns + chip[0], set}];
    coreCycles[core] += piece.cycles;
    cycles += piece.cycles;
    tiles += piece.tiles;
    if (machine.getChips() == 1) {
      double readAlone = 0, written = 0;
      for (size_t i = 0; i < numAccesses; ++i) {
        written += getWritten(piece, i);
        if (work.sharers[i] == 1) {
          readAlone += getRead(piece, i);
          continue;
        }
        std::vector<int64_t> key = {int64_t(i)};
        for (auto [axis, loop] : llvm::enumerate(launch.tiles.getAxes()))
          if (launch.tiles.getAccesses()[i].dependsOn(loop))
            key.push_back(position[axis]);
        SharedRead read(point, getRead(piece, i));
        shared.try_emplace(key, read).first->second.add(read);
      }
      ownMesh.add(point, readAlone, written);
    }
  }
  // One channel may have all bytes of a small box.
  double unit =
      double(machine.interleaveBytes) * double(machine.channels.size());
  for (const auto &[key, box] : shared)
    if (machine.channels.size() == 1 || box.bytes >= unit)
      ownMesh.addRead(box.first, box.last, box.bytes);
  for (auto [key, count] : ofChip)
    for (size_t i = 0; i < numAccesses; ++i) {
      const DramTensor &tensor = tensors[numbers.lookup(launch.places[i].root)];
      const PieceWork &piece = work.works[key.second];
      if (double bytes = getRead(piece, i))
        ownChips.add(tensor, key.first,
                     bytes * double(count) / double(work.sharers[i]), true);
      if (double bytes = getWritten(piece, i))
        ownChips.add(tensor, key.first, bytes * double(count), false);
    }
  double most = 0;
  for (const PieceWork &piece : work.works)
    most = std::max(most, piece.cycles);
  double compute = most / machine.clockHz;
  double dram = ownChips.getDramSeconds();
  double bisection = std::max(ownChips.getLinkSeconds(), ownMesh.getSeconds());
  double predicted = std::max({compute, dram, bisection, work.tiling.seconds});
  chips.add(ownChips);
  mesh.add(ownMesh);
  seconds += predicted;

  json.object([&] {
    json.attribute("kernel",
                   launch.dispatch.getKernel().getRootReference().getValue());
    json.attribute("operation", describeOperations(launch.tiles.getKernel()));
    json.attribute("source", describePlaces(launch.dispatch.getLoc()));
    auto list = [&](StringRef name, ArrayRef<int64_t> values) {
      json.attributeArray(name, [&] {
        for (int64_t value : values)
          json.value(value);
      });
    };
    list("partition", work.counts);
    list("tile", work.tiling.sizes);
    json.attribute("cores", numPieces);
    json.attribute("tiles", tiles);
    json.attribute("memory", work.tiling.bytes + work.scratch +
                                 (numPieces ? kErrorBytes : 0));
    json.attribute("cycles", cycles);
    json.attribute("dram_bytes", ownChips.getBytes());
    json.attributeObject("bounds", [&] {
      json.attribute("compute", compute);
      json.attribute("dram", dram);
      json.attribute("bisection", bisection);
    });
    json.attribute("seconds", predicted);
  });
  return success();
}

FailureOr<std::string> Describer::describe() {
  FailureOr<std::vector<MappedLaunch>> listed = listLaunches(plan);
  if (failed(listed))
    return failure();
  launches = std::move(*listed);
  findResident();
  for (const MappedLaunch &launch : launches)
    if (failed(addWork(launch)))
      return failure();
  if (failed(addScratch()))
    return failure();

  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  LogicalResult result = success();
  json.object([&] {
    json.attribute("machine", machine.name);
    json.attributeArray("chips", [&] {
      json.value(machine.chipColumns);
      json.value(machine.chipRows);
    });
    json.attribute("cores_available", machine.getCores());
    json.attribute("data_bytes", machine.dataBytes);
    json.attribute("dram_bytes_available",
                   machine.dramBytes * machine.getChips());
    json.attributeArray("tensors", [&] {
      for (const DramTensor &tensor : tensors)
        json.object([&] {
          json.attribute("name", tensor.name);
          json.attribute("kind", tensor.kind);
          json.attribute("bytes", tensor.bytes);
          json.attribute("address", tensor.address);
        });
    });
    json.attributeArray("launches", [&] {
      for (auto [launch, work] : ofLaunch)
        if (succeeded(result))
          result = writeLaunch(json, *launch, *work);
    });
    double compute = 0;
    json.attributeArray("cores", [&] {
      for (ManyCore::Point core : machine.listCores()) {
        double busy = coreCycles[core[1] * machine.getColumns() + core[0]] /
                      machine.clockHz;
        compute = std::max(compute, busy);
        json.array([&] {
          json.value(core[0]);
          json.value(core[1]);
          json.value(busy);
        });
      }
    });
    double dram = chips.getDramSeconds();
    double bisection = std::max(chips.getLinkSeconds(), mesh.getSeconds());
    json.attributeObject("bounds", [&] {
      json.attribute("compute", compute);
      json.attribute("dram", dram);
      json.attribute("bisection", bisection);
    });
    json.attribute("call_seconds", machine.callSeconds);
    json.attribute("bound_seconds",
                   machine.callSeconds + std::max({compute, dram, bisection}));
    json.attribute("seconds", machine.callSeconds + seconds);
  });
  if (failed(result))
    return failure();
  return text;
}

FailureOr<std::string> cores::describeMapping(launch::PlanOp plan,
                                              const ManyCore &machine) {
  return Describer(plan, machine).describe();
}
