//===- MapSchedule.cpp - A program for each core --------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-schedule (Passes.td): turns a launch plan, whose launches are
// cut into pieces and tiles that have a core, into a plan of one straight
// program for each core.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Lowering/KernelChecks.h"
#include "Codegen/Cores/Mapping/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "Dependencies.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <map>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPSCHEDULE
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

static constexpr int64_t kWordBytes = 8; ///< of an error word or an index

namespace {

/// The function of a tile.
struct TileFunction {
  SmallVector<Interval> tile; ///< the first one that needs it
  func::FuncOp function;
  int64_t scratch = 0;
};

/// The program of a core while it is made.
struct Program {
  ManyCore::Point core;
  ProgramOp op;
  OpBuilder builder;
  /// Views of the data memory.
  DenseMap<std::pair<int64_t, Type>, Value> views;
  int64_t scratch = 0;
  bool makesChecks = false, hasChecked = false;
};

struct MapSchedule : public repro::impl::ReproMapScheduleBase<MapSchedule> {
  using ReproMapScheduleBase::ReproMapScheduleBase;
  void runOnOperation() override;
};

class Scheduler {
public:
  Scheduler(ModuleOp module, StringRef machine, StringRef level)
      : module(module), context(module.getContext()), machine(machine),
        level(level) {}
  LogicalResult run();

private:
  LogicalResult placePieces();
  LogicalResult createFunctions();
  TileFunction &getFunction(const MappedLaunch &launch,
                            ArrayRef<Interval> tile);
  void createPlan();
  LogicalResult emitPiece(unsigned launch, const PlacedPiece &piece);
  void emitCheck(Program &program);
  void emitErrorWord(Program &program);

  Value getDramView(const Place &place, ArrayRef<Interval> box);
  Value getBegins(const MappedLaunch &launch, ArrayRef<Interval> tile);
  Value getLocalView(Program &program, int64_t offset, MemRefType type);
  SmallVector<ManyCore::Point> getPoints(ArrayRef<unsigned> cores);

  ModuleOp module;
  MLIRContext *context;
  StringRef machine, level;
  ManyCore description;
  launch::PlanOp plan;
  PlanOp newPlan;
  std::vector<MappedLaunch> launches;
  std::vector<std::vector<PlacedPiece>> pieces; ///< of each launch
  std::vector<Program> programs;
  DenseMap<Operation *, std::vector<TileFunction>> functions; ///< by kernel
  SmallVector<OwningOpRef<func::FuncOp>> created;
  IRMapping roots; ///< from buffers of the old plan to those of the new one
  std::map<std::tuple<void *, int64_t, void *>, Value> dramViews;
  std::map<std::vector<int64_t>, Value> begins;
  std::optional<OpBuilder> dram; ///< inserts before all programs
  int64_t usable = 0;            ///< bytes of buffers and scratch memory
  int64_t scratch = 0;           ///< of all tiles

  // (E1)
  std::optional<unsigned> firstChecked; ///< the launch that is `checked`
  int64_t wordsOffset = 0;              ///< of the error words in the arena
  unsigned numWords = 0;
  DenseMap<unsigned, unsigned> lastCheck; ///< by core: the last launch
};
} // namespace

//===----------------------------------------------------------------------===//
// Pieces and functions
//===----------------------------------------------------------------------===//

LogicalResult Scheduler::placePieces() {
  DenseMap<int64_t, unsigned> numbers; // of cores that are used
  int64_t columns = description.getColumns();
  for (auto [number, launch] : llvm::enumerate(launches)) {
    size_t numAxes = launch.tiles.getAxes().size();
    std::vector<PlacedPiece> &list = pieces.emplace_back();
    FailureOr<ArrayRef<int64_t>> partition = getNumbers(
        launch.dispatch, CoresDialect::PartitionAttrHelper::getNameStr(),
        numAxes, "repro-map-partition");
    FailureOr<ArrayRef<int64_t>> sizes =
        getNumbers(launch.dispatch, CoresDialect::TileAttrHelper::getNameStr(),
                   numAxes, "repro-map-tile");
    if (failed(partition) || failed(sizes))
      return failure();
    if (llvm::is_contained(*partition, 0) || llvm::is_contained(*sizes, 0))
      return launch.dispatch.emitOpError(
          "expected pieces and tiles along each axis");
    SmallVector<SmallVector<Interval>> ranges;
    if (!launch.isEmpty())
      ranges = launch.listPieces(*partition);
    FailureOr<ArrayRef<int64_t>> place =
        getNumbers(launch.dispatch, CoresDialect::PlaceAttrHelper::getNameStr(),
                   ranges.size(), "repro-map-place");
    if (failed(place))
      return failure();
    if (launch.dispatch.getChecked())
      firstChecked = number;
    for (auto [range, core] : llvm::zip_equal(ranges, *place)) {
      ManyCore::Point point = {core % columns, core / columns};
      if (!description.hasCore(point))
        return launch.dispatch.emitOpError("expected cores of '")
               << description.name << "', got number " << core;
      auto [found, isNew] = numbers.try_emplace(core, programs.size());
      if (isNew)
        programs.push_back({point, {}, OpBuilder(context), {}});
      PlacedPiece piece;
      piece.core = found->second;
      if (llvm::any_of(list, [&](const PlacedPiece &other) {
            return other.core == piece.core;
          }))
        return launch.dispatch.emitOpError(
            "expected pieces on different cores");
      piece.range = range;
      for (unsigned i = 0; i < launch.tiles.getAccesses().size(); ++i)
        piece.boxes.push_back(launch.tiles.getBox(i, range));
      list.push_back(std::move(piece));
    }
    if (hasChecks(launch.tiles.getKernel()))
      for (const PlacedPiece &piece : list) {
        lastCheck[piece.core] = number;
        programs[piece.core].makesChecks = true;
      }
  }
  return success();
}

TileFunction &Scheduler::getFunction(const MappedLaunch &launch,
                                     ArrayRef<Interval> tile) {
  std::vector<TileFunction> &list =
      functions[launch.tiles.getKernel().getOperation()];
  for (TileFunction &known : list)
    if (launch.tiles.haveSameFunction(known.tile, tile))
      return known;
  std::string name = ("tile_" + Twine(created.size())).str();
  func::FuncOp function = launch.tiles.createTile(tile, name);
  created.push_back(function);
  CoresDialect::CyclesAttrHelper(context).setAttr(
      function, Builder(context).getI64IntegerAttr(int64_t(std::ceil(
                    KernelCost(launch.tiles, description).getCycles(tile)))));
  list.push_back({SmallVector<Interval>(tile), function});
  return list.back();
}

static ArrayRef<int64_t> getTileSizes(const MappedLaunch &launch) {
  return launch.dispatch
      ->getAttrOfType<DenseI64ArrayAttr>(
          CoresDialect::TileAttrHelper::getNameStr())
      .asArrayRef();
}

LogicalResult Scheduler::createFunctions() {
  for (auto [launch, list] : llvm::zip_equal(launches, pieces))
    for (const PlacedPiece &piece : list)
      for (ArrayRef<Interval> tile :
           launch.listTiles(piece.range, getTileSizes(launch)))
        getFunction(launch, tile);
  SmallVector<func::FuncOp> all;
  for (OwningOpRef<func::FuncOp> &function : created)
    all.push_back(*function);
  FailureOr<SmallVector<int64_t>> bytes = getScratchBytes(all, level, context);
  if (failed(bytes))
    return failure();
  DenseMap<Operation *, int64_t> scratchOf;
  for (auto [function, count] : llvm::zip_equal(all, *bytes)) {
    scratchOf[function] = llvm::alignTo(count, 64);
    scratch = std::max(scratch, scratchOf[function]);
  }
  for (auto &[kernel, list] : functions)
    for (TileFunction &function : list)
      function.scratch = scratchOf[function.function];
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value Scheduler::getDramView(const Place &place, ArrayRef<Interval> box) {
  SmallVector<int64_t> shape, strides;
  for (const Interval &range : box)
    shape.push_back(range.size);
  int64_t unused;
  strides = *getStaticStrides(place.type, unused);
  Type element = place.type.getElementType();
  auto plain = MemRefType::get(shape, element);
  MemRefType type = plain;
  if (*getStaticStrides(plain, unused) != strides)
    type = MemRefType::get(
        shape, element, StridedLayoutAttr::get(context, /*offset=*/0, strides));
  int64_t offset = place.offset + getBoxOffset(place.type, box);
  Value root = roots.lookup(place.root);
  if (offset == 0 && root.getType() == type)
    return root;
  Value &view = dramViews[{root.getAsOpaquePointer(), offset,
                           const_cast<void *>(type.getAsOpaquePointer())}];
  if (!view)
    view = launch::ViewOp::create(*dram, plan.getLoc(), type, root, offset);
  return view;
}

/// Returns the constant with the begins of the loops whose index the tile
/// reads.
Value Scheduler::getBegins(const MappedLaunch &launch,
                           ArrayRef<Interval> tile) {
  std::vector<int64_t> numbers;
  for (unsigned loop : launch.tiles.getShiftedLoops(tile))
    numbers.push_back(tile[loop].begin);
  Value &constant = begins[numbers];
  if (!constant) {
    auto type =
        RankedTensorType::get({int64_t(numbers.size())}, dram->getI64Type());
    constant = launch::ConstantOp::create(
        *dram, plan.getLoc(),
        MemRefType::get(type.getShape(), type.getElementType()),
        DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  }
  return constant;
}

Value Scheduler::getLocalView(Program &program, int64_t offset,
                              MemRefType type) {
  type = getLocalType(type);
  Value &view = program.views[{offset, type}];
  if (!view)
    view = launch::ViewOp::create(program.builder, plan.getLoc(), type,
                                  program.op.getLocal(), offset);
  return view;
}

SmallVector<ManyCore::Point> Scheduler::getPoints(ArrayRef<unsigned> cores) {
  return llvm::map_to_vector(
      cores, [&](unsigned core) { return programs[core].core; });
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void Scheduler::createPlan() {
  OpBuilder builder(plan);
  newPlan =
      PlanOp::create(builder, plan.getLoc(), plan.getSymNameAttr(),
                     builder.getStringAttr(machine), plan.getNumStatesAttr(),
                     plan.getNumInputsAttr(), plan.getNumOutputsAttr(),
                     plan.getNamesAttr(), plan.getMessagesAttr());
  Block *block = &newPlan.getBody().emplaceBlock();
  // (E1) The arena ends with the error words of the cores that make checks.
  int64_t arenaBytes =
      cast<MemRefType>(plan.getArena().getType()).getDimSize(0);
  if (firstChecked)
    numWords = lastCheck.size();
  if (numWords > 0) {
    wordsOffset = llvm::alignTo(arenaBytes, 64);
    arenaBytes = wordsOffset + kWordBytes * numWords;
  }
  for (BlockArgument argument : plan.getBody().getArguments()) {
    Type type = argument.getType();
    if (argument == plan.getArena())
      type = MemRefType::get({arenaBytes}, builder.getI8Type());
    roots.map(argument, block->addArgument(type, argument.getLoc()));
  }
  builder.setInsertionPointToEnd(block);
  for (auto constant : plan.getBody().getOps<launch::ConstantOp>())
    builder.clone(*constant, roots);
  auto local = getLocalType(
      MemRefType::get({description.dataBytes}, builder.getI8Type()));
  for (Program &program : programs) {
    program.op = ProgramOp::create(
        builder, plan.getLoc(),
        builder.getDenseI64ArrayAttr({program.core[0], program.core[1]}),
        builder.getDenseI64ArrayAttr({0, 0}),
        builder.getI64IntegerAttr(usable));
    Block *body = &program.op.getBody().emplaceBlock();
    body->addArgument(local, plan.getLoc());
    program.builder.setInsertionPointToEnd(body);
  }
  dram.emplace(context);
  if (programs.empty())
    dram->setInsertionPointToEnd(block);
  else
    dram->setInsertionPoint(programs.front().op);
}

namespace {
/// The places of an access in the core's memory, and what they contain.
struct Stream {
  SmallVector<Value> sources; ///< in the DRAM, of each tile
  bool reads = false, writes = false;
  int64_t bytes = 0; ///< of the largest box
  bool moves = false;
  int64_t offsets[2] = {0, 0};
  unsigned slot = 0;           ///< of the last tile that was loaded
  Value loaded;                ///< the source that is in `slot`
  Value load;                  ///< a transfer to `slot`
  Value stores[2];             ///< transfers from the slots
  SmallVector<unsigned> slots; ///< of each tile
};
} // namespace

LogicalResult Scheduler::emitPiece(unsigned number, const PlacedPiece &piece) {
  const MappedLaunch &launch = launches[number];
  Program &program = programs[piece.core];
  OpBuilder &builder = program.builder;
  Location loc = launch.dispatch.getLoc();
  SmallVector<SmallVector<Interval>> tiles =
      launch.listTiles(piece.range, getTileSizes(launch));
  SmallVector<TileFunction *> tileFunctions;
  for (ArrayRef<Interval> tile : tiles)
    tileFunctions.push_back(&getFunction(launch, tile));

  // The streams of all accesses, and of the begins.
  SmallVector<Stream> streams;
  for (auto [i, access] : llvm::enumerate(launch.tiles.getAccesses())) {
    Stream &stream = streams.emplace_back();
    stream.reads = access.reads;
    stream.writes = access.writes;
    for (ArrayRef<Interval> tile : tiles) {
      Box box = launch.tiles.getBox(i, tile);
      stream.bytes = std::max(stream.bytes, getBoxBytes(launch.tiles, i, tile));
      stream.sources.push_back(access.reads || access.writes
                                   ? getDramView(launch.places[i], box)
                                   : Value());
    }
  }
  if (launch.tiles.getShiftedLoops(tiles.front()).size() > 0 ||
      launch.tiles.getShiftedLoops(tiles.back()).size() > 0) {
    Stream &stream = streams.emplace_back();
    stream.reads = true;
    for (ArrayRef<Interval> tile : tiles) {
      SmallVector<unsigned> loops = launch.tiles.getShiftedLoops(tile);
      stream.bytes = std::max(stream.bytes, kWordBytes * int64_t(loops.size()));
      stream.sources.push_back(loops.empty() ? Value()
                                             : getBegins(launch, tile));
    }
  }

  // The places of the streams.
  int64_t alignment = getLocalAlignment(description);
  bool isDouble = true;
  auto place = [&]() {
    int64_t offset = 0;
    for (Stream &stream : streams) {
      stream.moves = llvm::any_of(stream.sources, [&](Value source) {
        return source != stream.sources.front();
      });
      for (int64_t &at : stream.offsets) {
        if (&at != stream.offsets && !(isDouble && stream.moves)) {
          at = stream.offsets[0];
          continue;
        }
        at = offset;
        offset += llvm::alignTo(stream.bytes, alignment);
      }
    }
    return offset;
  };
  int64_t needed = place();
  if (needed > usable - scratch) {
    isDouble = false;
    needed = place();
  }
  if (needed > usable - scratch)
    return launch.dispatch.emitOpError("expected tiles that fit into the ")
           << usable - scratch << " bytes of a core's buffers, got tiles of "
           << needed << " bytes; repro-map-tile chooses tiles that fit";

  if (firstChecked && number >= *firstChecked && !program.hasChecked)
    emitCheck(program);
  for (auto [other, count] : piece.acquires)
    AcquireOp::create(builder, loc, other, count);

  auto wait = [&](Value &transfer) {
    if (transfer)
      WaitOp::create(builder, loc, transfer);
    transfer = {};
  };
  auto getView = [&](const Stream &stream, unsigned tile, unsigned i) {
    auto type = cast<MemRefType>(
        tileFunctions[tile]->function.getArgument(i).getType());
    return getLocalView(program, stream.offsets[stream.slots[tile]], type);
  };
  auto isEmpty = [](Value buffer) {
    return cast<MemRefType>(buffer.getType()).getNumElements() == 0;
  };
  auto load = [&](unsigned tile) {
    for (auto [i, stream] : llvm::enumerate(streams)) {
      Value source = stream.sources[tile];
      bool isNew = stream.reads && source && source != stream.loaded;
      bool changes = isNew || (stream.writes && !stream.reads);
      if (changes && tile > 0 && isDouble && stream.moves)
        stream.slot ^= 1;
      stream.slots.push_back(stream.slot);
      if (!isNew)
        continue;
      wait(stream.stores[stream.slot]);
      stream.loaded = source;
      if (!isEmpty(source))
        stream.load =
            CopyOp::create(builder, loc, source, getView(stream, tile, i));
    }
  };
  SmallVector<SmallVector<Value>> loads(tiles.size());
  auto startLoads = [&](unsigned tile) {
    load(tile);
    for (Stream &stream : streams)
      if (Value transfer = std::exchange(stream.load, Value()))
        loads[tile].push_back(transfer);
  };
  startLoads(0);
  for (unsigned tile = 0; tile < tiles.size(); ++tile) {
    bool hasNext = tile + 1 < tiles.size();
    if (isDouble && hasNext)
      startLoads(tile + 1);
    for (Value &transfer : loads[tile])
      wait(transfer);
    SmallVector<Value> buffers;
    func::FuncOp function = tileFunctions[tile]->function;
    for (auto [i, stream] : llvm::enumerate(streams)) {
      if (!stream.sources[tile] && i >= launch.tiles.getAccesses().size())
        continue;
      if (stream.writes)
        wait(stream.stores[stream.slots[tile]]);
      buffers.push_back(getView(stream, tile, i));
    }
    RunOp::create(builder, loc, cast<FunctionOpInterface>(*function), buffers);
    program.scratch = std::max(program.scratch, tileFunctions[tile]->scratch);
    for (auto [i, stream] : llvm::enumerate(streams))
      if (stream.writes && !isEmpty(stream.sources[tile]))
        stream.stores[stream.slots[tile]] =
            CopyOp::create(builder, loc, buffers[i], stream.sources[tile]);
    if (!isDouble && hasNext)
      startLoads(tile + 1);
  }
  for (Stream &stream : streams)
    for (Value &transfer : stream.stores)
      wait(transfer);
  if (!piece.releases.empty())
    ReleaseOp::create(builder, loc, int64_t(number), getPoints(piece.releases));
  if (firstChecked && program.makesChecks &&
      lastCheck.lookup(piece.core) == number)
    emitErrorWord(program);
  return success();
}

/// (E1) Copies the core's error word to the arena after its last check, and
/// tells the cores that read it.
void Scheduler::emitErrorWord(Program &program) {
  unsigned own = &program - programs.data();
  SmallVector<unsigned> readers;
  for (unsigned launch = *firstChecked; launch < launches.size(); ++launch)
    for (const PlacedPiece &piece : pieces[launch])
      if (piece.core != own)
        readers.push_back(piece.core);
  llvm::sort(readers);
  readers.erase(llvm::unique(readers), readers.end());
  SmallVector<unsigned> makers(lastCheck.keys());
  llvm::sort(makers);
  int64_t index = llvm::find(makers, own) - makers.begin();
  auto type = MemRefType::get({1}, program.builder.getI64Type());
  Place place{plan.getArena(), wordsOffset + kWordBytes * index, type};
  Location loc = plan.getLoc();
  Value transfer =
      CopyOp::create(program.builder, loc, getLocalView(program, usable, type),
                     getDramView(place, {{0, 1}}));
  WaitOp::create(program.builder, loc, transfer);
  if (!readers.empty())
    ReleaseOp::create(program.builder, loc, int64_t(launches.size()),
                      getPoints(readers));
}

/// (E1) Waits for all checks, and ends the step if one has failed.
void Scheduler::emitCheck(Program &program) {
  program.hasChecked = true;
  if (numWords == 0)
    return;
  Location loc = plan.getLoc();
  int64_t others = numWords - (program.makesChecks ? 1 : 0);
  if (others > 0)
    AcquireOp::create(program.builder, loc, int64_t(launches.size()), others);
  auto type =
      MemRefType::get({int64_t(numWords)}, program.builder.getI64Type());
  Place place{plan.getArena(), wordsOffset, type};
  Value words = getLocalView(program, 0, type);
  Value transfer = CopyOp::create(program.builder, loc,
                                  getDramView(place, {{0, numWords}}), words);
  WaitOp::create(program.builder, loc, transfer);
  CheckOp::create(program.builder, loc, words);
}

LogicalResult Scheduler::run() {
  std::string error;
  FailureOr<ManyCore> found = getManyCore(machine, error);
  if (failed(found))
    return module.emitError(error);
  description = *found;
  usable = getUsableBytes(description);
  plan = findPlan(module);
  if (!plan)
    return failure();
  FailureOr<std::vector<MappedLaunch>> list = listLaunches(plan);
  if (failed(list))
    return failure();
  launches = std::move(*list);
  if (failed(placePieces()) || failed(createFunctions()))
    return failure();
  findDependencies(launches, pieces, programs.size());
  createPlan();
  for (auto [number, placed] : llvm::enumerate(pieces))
    for (const PlacedPiece &piece : placed)
      if (failed(emitPiece(number, piece)))
        return failure();
  for (Program &program : programs) {
    // Without a state, the step still fails if a check does.
    if (program.makesChecks && !firstChecked)
      CheckOp::create(
          program.builder, plan.getLoc(),
          getLocalView(program, usable,
                       MemRefType::get({1}, program.builder.getI64Type())));
    program.op.setScratch({usable - program.scratch, program.scratch});
  }
  // The plan launched each of these kernels, and nothing else does.
  llvm::SetVector<Operation *> kernels;
  for (const MappedLaunch &launch : launches)
    kernels.insert(launch.tiles.getKernel());
  OpBuilder builder(newPlan);
  for (OwningOpRef<func::FuncOp> &function : created)
    builder.insert(function.release());
  plan.erase();
  for (Operation *kernel : kernels)
    kernel->erase();
  return success();
}

void MapSchedule::runOnOperation() {
  if (failed(Scheduler(getOperation(), machine, level).run()))
    signalPassFailure();
}
