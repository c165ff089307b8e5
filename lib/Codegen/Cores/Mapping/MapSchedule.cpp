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
#include "Streams.h"

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

/// The order of each two programs takes four bytes.
static constexpr size_t kMostPrograms = 16384;

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
  Scheduler(ModuleOp module, StringRef machine)
      : module(module), context(module.getContext()), machine(machine) {}
  LogicalResult run();

private:
  LogicalResult placePieces();
  LogicalResult createFunctions();
  LogicalResult readHomes();
  TileFunction &getFunction(const MappedLaunch &launch,
                            ArrayRef<Interval> tile);
  void createPlan();
  LogicalResult emitLaunch(unsigned launch);
  void emitPiece(unsigned launch, const PlacedPiece &piece,
                 ArrayRef<Stream> streams, bool isDouble);
  std::vector<Stream> makeStreams(unsigned launch, const PlacedPiece &piece);
  void load(unsigned launch, Program &program, const Stream &stream,
            unsigned box, int64_t address, MemRefType type,
            SmallVectorImpl<Value> &transfers);
  Value getTarget(unsigned launch, Program &program, const Stream &stream,
                  unsigned box, MemRefType type);
  void emitCheck(Program &program);
  void emitErrorWord(Program &program);

  Value getDramView(const Place &place, ArrayRef<Interval> box);
  Value getPlanView(Value root, int64_t offset, MemRefType type);
  Value getBegins(ArrayRef<Interval> begins);
  Value getLocalView(Program &program, int64_t offset, MemRefType type);
  Value getRemoteView(unsigned core, int64_t offset, MemRefType type);
  SmallVector<ManyCore::Point> getPoints(ArrayRef<unsigned> cores);

  ModuleOp module;
  MLIRContext *context;
  StringRef machine;
  ManyCore description;
  launch::PlanOp plan;
  PlanOp newPlan;
  std::vector<MappedLaunch> launches;
  std::vector<std::vector<PlacedPiece>> pieces; ///< of each launch
  SmallVector<ArrayRef<int64_t>> tileSizes;     ///< of each launch
  std::optional<Homes> homes;
  /// The bytes that the buffers of each launch's tiles may take in a core, and
  /// those that they take at most.
  SmallVector<int64_t> limits, bufferBytes;
  std::vector<Program> programs;
  DenseMap<Operation *, std::vector<TileFunction>> functions; ///< by kernel
  SmallVector<OwningOpRef<func::FuncOp>> created;
  IRMapping roots; ///< from buffers of the old plan to those of the new one
  /// Views of the DRAM and of the memories of other cores.
  std::map<std::tuple<void *, int64_t, void *>, Value> dramViews;
  DenseMap<unsigned, Value> memories; ///< of cores, for the others
  std::map<std::vector<int64_t>, Value> begins;
  std::optional<OpBuilder> dram; ///< inserts before all programs
  int64_t usable = 0;            ///< bytes of buffers and scratch memory
  int64_t scratch = 0;           ///< of all tiles
  int64_t nextCounter = 0;       ///< that no core uses

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
  FailureOr<PlacedPieces> placed = cores::placePieces(launches, description);
  if (failed(placed))
    return failure();
  pieces = std::move(placed->ofLaunch);
  for (ManyCore::Point point : placed->cores)
    programs.push_back({point, {}, OpBuilder(context), {}});
  for (auto [number, launch] : llvm::enumerate(launches)) {
    FailureOr<ArrayRef<int64_t>> sizes = cores::getTileSizes(launch);
    if (failed(sizes))
      return failure();
    tileSizes.push_back(*sizes);
    if (launch.dispatch.getChecked())
      firstChecked = number;
    if (hasChecks(launch.tiles.getKernel()))
      for (const PlacedPiece &piece : pieces[number]) {
        lastCheck[piece.core] = number;
        programs[piece.core].makesChecks = true;
      }
  }
  return success();
}

/// Reads which tensors lie in the memories of cores.
LogicalResult Scheduler::readHomes() {
  homes.emplace(launches, pieces, plan.getArena(), description);
  // The homes leave room for the scratch memory of the largest tiles. Tiles at
  // the edges of a tensor may need more.
  auto planned = CoresDialect::ScratchAttrHelper(context).getAttr(plan);
  if (planned && scratch <= planned.getInt())
    if (failed(homes->readAttributes(getLeastHome(programs.size()),
                                     usable - scratch)))
      return failure();
  for (auto [number, launch] : llvm::enumerate(launches)) {
    int64_t limit = homes->getLowest(number, usable - scratch);
    limits.push_back(limit);
    int64_t bytes = 0;
    if (!pieces[number].empty())
      bytes = getBufferBytes(launch, pieces[number].front().range,
                             tileSizes[number], /*isDouble=*/true, description);
    bufferBytes.push_back(std::min(bytes, limit));
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

LogicalResult Scheduler::createFunctions() {
  for (auto [launch, list, sizes] :
       llvm::zip_equal(launches, pieces, tileSizes))
    for (const PlacedPiece &piece : list)
      for (ArrayRef<Interval> tile : launch.listTiles(piece.range, sizes))
        getFunction(launch, tile);
  SmallVector<func::FuncOp> all;
  for (OwningOpRef<func::FuncOp> &function : created)
    all.push_back(*function);
  FailureOr<SmallVector<int64_t>> bytes = getScratchBytes(all, context);
  if (failed(bytes))
    return failure();
  DenseMap<Operation *, int64_t> scratchOf;
  for (auto [function, count] : llvm::zip_equal(all, *bytes)) {
    scratchOf[function] = llvm::alignTo(count, 64);
    CoresDialect::ScratchAttrHelper(context).setAttr(
        function, Builder(context).getI64IntegerAttr(scratchOf[function]));
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
  SmallVector<int64_t> shape;
  for (const Interval &range : box)
    shape.push_back(range.size);
  int64_t unused;
  MemRefType type = getStridedType(shape, *getStaticStrides(place.type, unused),
                                   place.type.getElementType());
  int64_t offset = place.offset + getBoxOffset(place.type, box);
  return getPlanView(roots.lookup(place.root), offset, type);
}

Value Scheduler::getPlanView(Value root, int64_t offset, MemRefType type) {
  if (offset == 0 && root.getType() == type)
    return root;
  Value &view = dramViews[{root.getAsOpaquePointer(), offset,
                           const_cast<void *>(type.getAsOpaquePointer())}];
  if (!view)
    view = launch::ViewOp::create(*dram, plan.getLoc(), type, root, offset);
  return view;
}

Value Scheduler::getRemoteView(unsigned core, int64_t offset, MemRefType type) {
  Value &memory = memories[core];
  if (!memory) {
    auto bytes = cast<MemRefType>(programs[core].op.getLocal().getType());
    memory = RemoteOp::create(*dram, plan.getLoc(), getRemoteType(bytes),
                              dram->getDenseI64ArrayAttr(programs[core].core));
  }
  return getPlanView(memory, offset, getRemoteType(type));
}

/// Returns the constant with the begins of the loops whose index a tile reads.
Value Scheduler::getBegins(ArrayRef<Interval> ranges) {
  std::vector<int64_t> numbers;
  for (const Interval &range : ranges)
    numbers.push_back(range.begin);
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
/// The state of a stream while the tiles of a piece run.
struct Transfers {
  unsigned slot = 0;            ///< of the last tile that was loaded
  std::optional<unsigned> box;  ///< that the last load brings
  Value stores[2];              ///< from the slots, or sends
  SmallVector<unsigned> slotOf; ///< by tile
  // Only if the stream has a group:
  int64_t numLoads = 0;
  DenseMap<unsigned, int64_t> numSent; ///< by the position of the sender
};

/// A box that this core reads and sends to the others of a group.
struct Sending {
  Sending(unsigned stream, int64_t index) : stream(stream), index(index) {}

  unsigned stream;
  int64_t index; ///< among the boxes of the stream
  SmallVector<Value> copies;
};
} // namespace

std::vector<Stream> Scheduler::makeStreams(unsigned number,
                                           const PlacedPiece &piece) {
  const MappedLaunch &launch = launches[number];
  SmallVector<SmallVector<Interval>> tiles =
      launch.listTiles(piece.range, tileSizes[number]);
  std::vector<Stream> streams =
      listStreams(number, launch, piece, tiles, *homes, description);
  // A constant contains the begins of the loops whose index tiles read.
  if (launch.tiles.getShiftedLoops(tiles.front()).size() > 0 ||
      launch.tiles.getShiftedLoops(tiles.back()).size() > 0) {
    Stream &stream = streams.emplace_back();
    stream.access = streams.size() - 1;
    stream.reads = true;
    for (ArrayRef<Interval> tile : tiles) {
      Box begins;
      for (unsigned loop : launch.tiles.getShiftedLoops(tile))
        begins.push_back({tile[loop].begin, 1});
      stream.bytes =
          std::max(stream.bytes, kWordBytes * int64_t(begins.size()));
      auto *found = llvm::find(stream.boxes, begins);
      stream.boxOfTile.push_back(found - stream.boxes.begin());
      if (found == stream.boxes.end())
        stream.boxes.push_back(std::move(begins));
    }
  }
  return streams;
}

/// Appends the pieces of a launch to the programs, or emits an error if there
/// is no room for their buffers.
LogicalResult Scheduler::emitLaunch(unsigned number) {
  const MappedLaunch &launch = launches[number];
  std::vector<std::vector<Stream>> streams;
  for (const PlacedPiece &piece : pieces[number])
    streams.push_back(makeStreams(number, piece));
  // Whether tiles use two slots in turn.
  bool isDouble = true;
  int64_t needed = placeSlots(streams, isDouble, description);
  if (needed > limits[number]) {
    isDouble = false;
    needed = placeSlots(streams, isDouble, description);
  }
  if (needed > bufferBytes[number])
    return launch.dispatch.emitOpError("expected tiles that fit into the ")
           << bufferBytes[number] << " bytes of a core's buffers, got tiles of "
           << needed << " bytes; repro-map-tile chooses tiles that fit";
  FailureOr<std::deque<MulticastGroup>> groups =
      findGroups(launch, pieces[number], streams, nextCounter);
  if (failed(groups))
    return failure();
  for (auto [piece, own] : llvm::zip_equal(pieces[number], streams))
    emitPiece(number, piece, own, isDouble);
  return success();
}

/// Starts the transfers of a box of a stream to an address of the core.
void Scheduler::load(unsigned number, Program &program, const Stream &stream,
                     unsigned box, int64_t address, MemRefType type,
                     SmallVectorImpl<Value> &transfers) {
  const MappedLaunch &launch = launches[number];
  Location loc = launch.dispatch.getLoc();
  unsigned own = &program - programs.data();
  if (type.getNumElements() == 0)
    return;
  auto copy = [&](Value source, Value target) {
    transfers.push_back(CopyOp::create(program.builder, loc, source, target));
  };
  if (!stream.isRemote()) {
    Value target = getLocalView(program, address, type);
    bool isBegins = stream.access >= launch.tiles.getAccesses().size();
    return copy(
        isBegins ? getBegins(stream.boxes[box])
                 : getDramView(launch.places[stream.access], stream.boxes[box]),
        target);
  }
  for (const PartCopy &part : stream.parts[box]) {
    auto get = [&](ArrayRef<int64_t> strides) {
      return getStridedType(part.extents, strides, type.getElementType());
    };
    MemRefType sourceType = get(part.sourceStrides);
    copy(part.core == own ? getLocalView(program, part.source, sourceType)
                          : getRemoteView(part.core, part.source, sourceType),
         getLocalView(program, address + part.target, get(part.targetStrides)));
  }
}

/// Returns where a stream's box is stored after a tile has written it.
Value Scheduler::getTarget(unsigned number, Program &program,
                           const Stream &stream, unsigned box,
                           MemRefType type) {
  if (stream.homes.empty())
    return getDramView(launches[number].places[stream.access],
                       stream.boxes[box]);
  return getLocalView(program, stream.homes[box],
                      getStridedType(type.getShape(), stream.homeStrides,
                                     type.getElementType()));
}

/// Appends a piece to the program of its core. For each tile, the cores of a
/// group first say which slots are free, then read and send boxes, then wait
/// for boxes, so these waits have no cycle.
void Scheduler::emitPiece(unsigned number, const PlacedPiece &piece,
                          ArrayRef<Stream> streams, bool isDouble) {
  const MappedLaunch &launch = launches[number];
  Program &program = programs[piece.core];
  OpBuilder &builder = program.builder;
  Location loc = launch.dispatch.getLoc();
  SmallVector<SmallVector<Interval>> tiles =
      launch.listTiles(piece.range, tileSizes[number]);
  SmallVector<TileFunction *> tileFunctions;
  for (ArrayRef<Interval> tile : tiles)
    tileFunctions.push_back(&getFunction(launch, tile));
  SmallVector<Transfers> states(streams.size());

  if (firstChecked && number >= *firstChecked && !program.hasChecked)
    emitCheck(program);
  for (auto [other, count] : piece.acquires)
    AcquireOp::create(builder, loc, other, count);

  auto wait = [&](Value &transfer) {
    if (transfer)
      WaitOp::create(builder, loc, transfer);
    transfer = {};
  };
  auto getType = [&](unsigned tile, unsigned i) {
    return cast<MemRefType>(
        tileFunctions[tile]->function.getArgument(i).getType());
  };
  auto getAddress = [&](unsigned tile, unsigned i) {
    const Stream &stream = streams[i];
    return stream.isDirect() ? stream.addresses[stream.boxOfTile[tile]]
                             : stream.slots[states[i].slotOf[tile]];
  };
  // Whether a tile has the buffer of a stream: not all read begins.
  auto isUsed = [&](unsigned tile, unsigned i) {
    const Stream &stream = streams[i];
    return i < launch.tiles.getAccesses().size() ||
           !stream.boxes[stream.boxOfTile[tile]].empty();
  };
  SmallVector<SmallVector<Value>> loads(tiles.size());
  // By tile: the counters for which the tile waits, and their values.
  SmallVector<SmallVector<std::pair<int64_t, int64_t>>> arrivals(tiles.size());
  auto startLoads = [&](unsigned tile) {
    SmallVector<Sending> sendings;
    for (auto [i, stream, state] : llvm::enumerate(streams, states)) {
      unsigned box = stream.boxOfTile[tile];
      bool isNew = stream.reads && isUsed(tile, i) && state.box != box;
      bool changes = isNew || (stream.writes && !stream.reads);
      if (changes && tile > 0 && isDouble && stream.moves())
        state.slot ^= 1;
      state.slotOf.push_back(state.slot);
      if (!isNew)
        continue;
      wait(state.stores[state.slot]);
      state.box = box;
      auto startLoad = [&](SmallVectorImpl<Value> &transfers) {
        load(number, program, stream, box, getAddress(tile, i),
             getType(tile, i), transfers);
      };
      if (const MulticastGroup *group = stream.group) {
        int64_t index = state.numLoads++;
        unsigned position = group->getReader(index);
        unsigned reader = group->cores[position];
        if (reader == piece.core) {
          startLoad(sendings.emplace_back(unsigned(i), index).copies);
          continue;
        }
        ReleaseOp::create(builder, loc, group->freeCounter + index,
                          getPoints(reader));
        arrivals[tile].push_back(
            {group->sentCounter + position, ++state.numSent[position]});
        continue;
      }
      // A buffer that a tile only reads where it lies needs no transfer.
      if (!stream.isDirect() || stream.writes)
        startLoad(loads[tile]);
    }
    for (Sending &sending : sendings) {
      for (Value &copy : sending.copies)
        wait(copy);
      unsigned i = sending.stream;
      const MulticastGroup &group = *streams[i].group;
      SmallVector<unsigned> others = group.listOthers(piece.core);
      AcquireOp::create(builder, loc, group.freeCounter + sending.index,
                        others.size());
      int64_t address = getAddress(tile, i);
      unsigned position =
          llvm::find(group.cores, piece.core) - group.cores.begin();
      states[i].stores[states[i].slot] = SendOp::create(
          builder, loc, getLocalView(program, address, getType(tile, i)),
          getPoints(others), address, group.sentCounter + position);
    }
  };
  startLoads(0);
  for (unsigned tile = 0; tile < tiles.size(); ++tile) {
    bool hasNext = tile + 1 < tiles.size();
    if (isDouble && hasNext)
      startLoads(tile + 1);
    for (Value &transfer : loads[tile])
      wait(transfer);
    for (auto [counter, count] : arrivals[tile])
      AcquireOp::create(builder, loc, counter, count);
    SmallVector<Value> buffers;
    func::FuncOp function = tileFunctions[tile]->function;
    for (auto [i, stream, state] : llvm::enumerate(streams, states)) {
      if (!isUsed(tile, i))
        continue;
      if (stream.writes)
        wait(state.stores[state.slotOf[tile]]);
      buffers.push_back(
          getLocalView(program, getAddress(tile, i), getType(tile, i)));
    }
    RunOp::create(builder, loc, cast<FunctionOpInterface>(*function), buffers);
    program.scratch = std::max(program.scratch, tileFunctions[tile]->scratch);
    for (auto [i, stream, state] : llvm::enumerate(streams, states)) {
      if (!stream.writes || stream.isDirect() ||
          getType(tile, i).getNumElements() == 0)
        continue;
      state.stores[state.slotOf[tile]] =
          CopyOp::create(builder, loc, buffers[i],
                         getTarget(number, program, stream,
                                   stream.boxOfTile[tile], getType(tile, i)));
    }
    if (!isDouble && hasNext)
      startLoads(tile + 1);
  }
  for (Transfers &state : states)
    for (Value &transfer : state.stores)
      wait(transfer);
  if (!piece.releases.empty())
    ReleaseOp::create(builder, loc, int64_t(number), getPoints(piece.releases));
  if (firstChecked && program.makesChecks &&
      lastCheck.lookup(piece.core) == number)
    emitErrorWord(program);
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
  FailureOr<MappingInput> input = readMappingInput(module, machine);
  if (failed(input))
    return failure();
  description = std::move(input->machine);
  plan = input->plan;
  launches = std::move(input->launches);
  usable = getUsableBytes(description);
  if (failed(placePieces()) || failed(createFunctions()) || failed(readHomes()))
    return failure();
  if (programs.size() > kMostPrograms)
    return plan.emitError("expected at most ")
           << kMostPrograms << " cores that run kernels, got "
           << programs.size()
           << ": 'repro map' without --simulate also maps larger machines";
  if (kWordBytes * int64_t(lastCheck.size()) > usable)
    return plan.emitError("expected error words that fit into the ")
           << usable << " bytes of a core (E1), got those of "
           << lastCheck.size() << " cores";
  findDependencies(launches, pieces, programs.size(), *homes, bufferBytes);
  createPlan();
  // The counters of launches, and of error words.
  nextCounter = int64_t(launches.size()) + 1;
  for (unsigned number = 0; number < launches.size(); ++number)
    if (failed(emitLaunch(number)))
      return failure();
  // Without a launch after the checks, the step still fails if a check does.
  bool isChecked = llvm::any_of(
      programs, [](const Program &program) { return program.hasChecked; });
  for (Program &program : programs) {
    if (program.makesChecks && !isChecked)
      CheckOp::create(
          program.builder, plan.getLoc(),
          getLocalView(program, usable,
                       MemRefType::get({1}, program.builder.getI64Type())));
    program.op.setScratch({usable - program.scratch, program.scratch});
  }
  OpBuilder builder(newPlan);
  for (OwningOpRef<func::FuncOp> &function : created)
    builder.insert(function.release());
  // repro-verify-core-mapping compares the programs with the launches, and
  // erases these.
  plan.setSymName("launches");
  return success();
}

void MapSchedule::runOnOperation() {
  if (failed(Scheduler(getOperation(), machine).run()))
    signalPassFailure();
}
