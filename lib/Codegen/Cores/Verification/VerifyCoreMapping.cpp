//===- VerifyCoreMapping.cpp - Compares programs with launches ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-verify-core-mapping (Passes.td): shows that a plan of many cores
// computes the launch plan from which it was made.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Verification/Passes.h"

#include "Codegen/Cores/Lowering/KernelChecks.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"
#include "Contents.h"
#include "TileRuns.h"

#include <set>
#include <unordered_map>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROVERIFYCOREMAPPING
#include "lib/Codegen/Cores/Verification/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

static constexpr int64_t kWordBytes = 8; ///< of an error word or an index

namespace {
/// A buffer that an origin may name: a buffer of the launch plan, a constant of
/// the programs, or the error word of a core.
struct Root {
  std::string name;
  DenseIntElementsAttr begins; ///< if it is a constant of integers
};

struct Program {
  ProgramOp op;
  ManyCore::Point core;
  Block::iterator next;
  Contents local;
  DenseMap<int64_t, int64_t> counters;
  unsigned wordRoot = 0;   ///< of the core's error word
  int numChecks = 0;       ///< tiles with checks that the core has run
  bool hasChecked = false; ///< (E1) whether it has checked all words
};

/// A buffer of the programs.
struct Buffer {
  Contents *contents;
  int64_t offset;
  const Layout *layout;
  bool isState;
};

class MappingVerifier {
public:
  MappingVerifier(launch::PlanOp launchPlan, PlanOp plan)
      : launchPlan(launchPlan), plan(plan), symbols(plan->getParentOp()) {}

  LogicalResult verify();
  /// The kernels of the launches.
  llvm::SetVector<Operation *> kernels;

private:
  LogicalResult verifyInterface();
  void addRoots();
  void addVersions();
  LogicalResult run();
  LogicalResult runProgram(Program &program, bool &hasMoved);
  LogicalResult runTile(Program &program, RunOp op);
  LogicalResult checkWords(Program &program, CheckOp op);
  LogicalResult checkWord(Program &program, Operation *op);
  LogicalResult verifyCores();
  LogicalResult checkState(Program &program, Operation *op,
                           const Buffer &target);
  LogicalResult verifyEnd();

  unsigned addRoot(const Twine &name, DenseIntElementsAttr begins = {});
  const Layout *getLayout(MemRefType type);
  Buffer locate(Program &program, Value buffer);
  LogicalResult checkOperand(Program &program, RunOp op, unsigned number,
                             const TileRuns::Run &run);
  LogicalResult checkBegins(Program &program, RunOp op, unsigned number,
                            ArrayRef<unsigned> loops, const TileRuns::Run &run);
  std::string describe(unsigned root, int64_t begin, int64_t end, int version);
  std::string describe(const TileRuns::Run &run);

  launch::PlanOp launchPlan;
  PlanOp plan;
  SymbolTable symbols;
  std::vector<MappedLaunch> launches;
  std::optional<TileRuns> runs;
  std::vector<Program> programs;
  std::map<ManyCore::Point, unsigned> indices; ///< of the programs
  std::optional<unsigned> firstChecked;        ///< (E1) the launch
  std::set<ManyCore::Point> checkedCores; ///< whose last words were checked

  std::vector<Root> roots;
  DenseMap<Value, unsigned> rootOf;  ///< of both plans
  std::map<unsigned, Contents> dram; ///< by root of the programs' buffers
  /// The values that each access finds before its launch, by launch.
  std::vector<SmallVector<SmallVector<Contents::Part, 1>>> versions;
  std::map<unsigned, Contents> finalVersions;       ///< by root
  std::unordered_map<const void *, Layout> layouts; ///< by type
};

struct VerifyCoreMapping
    : public repro::impl::ReproVerifyCoreMappingBase<VerifyCoreMapping> {
  void runOnOperation() override {
    FailureOr<launch::PlanOp> launchPlan = findPlan(getOperation());
    auto plans = getOperation().getOps<PlanOp>();
    if (failed(launchPlan))
      return signalPassFailure();
    if (!llvm::hasSingleElement(plans)) {
      getOperation().emitError(
          "expected one 'cores.plan', which repro-map-schedule makes");
      return signalPassFailure();
    }
    MappingVerifier verifier(*launchPlan, *plans.begin());
    if (failed(verifier.verify()))
      return signalPassFailure();
    launchPlan->erase();
    for (Operation *kernel : verifier.kernels)
      kernel->erase();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

unsigned MappingVerifier::addRoot(const Twine &name,
                                  DenseIntElementsAttr begins) {
  roots.push_back({name.str(), begins});
  return roots.size() - 1;
}

const Layout *MappingVerifier::getLayout(MemRefType type) {
  // The memory space does not matter.
  const void *key = getDramType(type).getAsOpaquePointer();
  auto [found, isNew] = layouts.try_emplace(key);
  if (isNew)
    found->second = Layout::get(type);
  return &found->second;
}

/// The plans have the same arguments, apart from a longer arena.
LogicalResult MappingVerifier::verifyInterface() {
  if (plan.getNumStates() != launchPlan.getNumStates() ||
      plan.getNumInputs() != launchPlan.getNumInputs() ||
      plan.getNumOutputs() != launchPlan.getNumOutputs() ||
      plan.getNames() != launchPlan.getNames() ||
      plan.getMessages() != launchPlan.getMessages())
    return plan.emitOpError("expected the states, inputs, outputs and messages "
                            "of the launch plan");
  for (auto [argument, original] :
       llvm::zip_equal(plan.getBody().getArguments().drop_back(),
                       launchPlan.getBody().getArguments().drop_back()))
    if (argument.getType() != original.getType())
      return plan.emitOpError("expected argument ")
             << argument.getArgNumber() << " of type " << original.getType()
             << " as in the launch plan, got " << argument.getType();
  auto getBytes = [](Value arena) {
    return launch::getBufferBytes(cast<MemRefType>(arena.getType()));
  };
  int64_t expected = getBytes(launchPlan.getArena());
  if (getBytes(plan.getArena()) < expected)
    return plan.emitOpError("expected an arena of at least ")
           << expected << " bytes, got " << getBytes(plan.getArena());
  return success();
}

/// Numbers the buffers of both plans. Those that are the same buffer have the
/// same number, and so have constants with the same elements.
void MappingVerifier::addRoots() {
  for (auto [argument, original] :
       llvm::zip_equal(plan.getBody().getArguments(),
                       launchPlan.getBody().getArguments())) {
    unsigned number = argument.getArgNumber();
    std::string name = "the arena";
    if (argument != plan.getArena())
      name = ("argument " + Twine(number) + " '" +
              cast<StringAttr>(plan.getNames()[number]).getValue() + "'")
                 .str();
    rootOf[argument] = rootOf[original] = addRoot(name);
  }
  std::map<std::pair<const void *, const void *>, unsigned> constants;
  for (Region *region : {&launchPlan.getBody(), &plan.getBody()})
    for (auto constant : region->getOps<launch::ConstantOp>()) {
      auto [found, isNew] =
          constants.try_emplace({constant.getValue().getAsOpaquePointer(),
                                 constant.getType().getAsOpaquePointer()});
      if (isNew)
        found->second =
            addRoot("constant " + Twine(constants.size() - 1),
                    dyn_cast<DenseIntElementsAttr>(constant.getValue()));
      rootOf[constant] = found->second;
    }
  for (auto [buffer, root] : rootOf) {
    bool isOwn = buffer.getParentRegion() == &launchPlan.getBody();
    int64_t bytes = launch::getBufferBytes(cast<MemRefType>(buffer.getType()));
    // The bytes after the launch plan's arena begin undefined.
    if (isOwn || !isa<BlockArgument>(buffer))
      dram[root].write(0, bytes, {root, 0, kInitial, nullptr});
    if (isOwn)
      finalVersions[root].write(0, bytes, {root, 0, kInitial, nullptr});
  }
}

/// Computes the values that each launch finds, by running the launch plan.
void MappingVerifier::addVersions() {
  for (auto [number, launch] : llvm::enumerate(launches)) {
    ArrayRef<KernelAccess> accesses = launch.tiles.getAccesses();
    auto &found = versions.emplace_back(accesses.size());
    if (launch.isEmpty())
      continue;
    SmallVector<Interval> whole = launch.tiles.getWhole();
    SmallVector<SmallVector<ByteRange>> bytes;
    for (auto [i, access] : llvm::enumerate(accesses)) {
      bytes.push_back(
          getByteRanges(launch.places[i], launch.tiles.getBox(i, whole)));
      if (access.reads && !bytes[i].empty())
        found[i] = finalVersions[rootOf.lookup(launch.places[i].root)].read(
            bytes[i].front().begin, bytes[i].back().end);
    }
    for (auto [i, access] : llvm::enumerate(accesses)) {
      unsigned root = rootOf.lookup(launch.places[i].root);
      for (ByteRange range : bytes[i])
        if (access.writes)
          finalVersions[root].write(range.begin, range.end,
                                    {root, range.begin, int(number), nullptr});
    }
  }
}

Buffer MappingVerifier::locate(Program &program, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  int64_t offset = 0;
  while (auto view = buffer.getDefiningOp<launch::ViewOp>()) {
    offset += int64_t(view.getOffset());
    buffer = view.getSource();
  }
  if (isLocal(type))
    return {&program.local, offset, getLayout(type), false};
  if (auto remote = buffer.getDefiningOp<RemoteOp>())
    return {
        &programs[indices.at({remote.getCore()[0], remote.getCore()[1]})].local,
        offset, getLayout(type), false};
  unsigned root = rootOf.lookup(buffer);
  return {&dram[root], offset, getLayout(type), root < plan.getNumStates()};
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

LogicalResult MappingVerifier::verify() {
  std::string error;
  FailureOr<ManyCore> machine = getManyCore(plan.getMachine(), error);
  if (failed(machine))
    return plan.emitOpError() << error;
  FailureOr<std::vector<MappedLaunch>> list = listLaunches(launchPlan);
  if (failed(list) || failed(verifyInterface()))
    return failure();
  launches = std::move(*list);
  for (auto [number, launch] : llvm::enumerate(launches)) {
    kernels.insert(launch.tiles.getKernel());
    if (launch.dispatch.getChecked())
      firstChecked = number;
  }
  FailureOr<TileRuns> tiles = TileRuns::get(launches, machine->getColumns());
  if (failed(tiles))
    return failure();
  runs.emplace(std::move(*tiles));
  addRoots();
  addVersions();
  return run();
}

LogicalResult MappingVerifier::run() {
  for (auto op : plan.getBody().getOps<ProgramOp>()) {
    ManyCore::Point core = {op.getX(), op.getY()};
    indices[core] = programs.size();
    Program &program = programs.emplace_back();
    program.op = op;
    program.core = core;
    program.next = op.getBody().front().begin();
    program.wordRoot = addRoot("the error word of core (" + Twine(core[0]) +
                               ", " + Twine(core[1]) + ")");
    program.local.write(op.getError(), op.getError() + kWordBytes,
                        {program.wordRoot, 0, 0, nullptr});
  }
  if (failed(verifyCores()))
    return failure();
  bool hasMoved = true;
  while (hasMoved) {
    hasMoved = false;
    for (Program &program : programs)
      if (failed(runProgram(program, hasMoved)))
        return failure();
  }
  return verifyEnd();
}

/// Each core has at most one program, and operations name cores with one.
LogicalResult MappingVerifier::verifyCores() {
  if (indices.size() != programs.size())
    return plan.emitOpError("expected at most one program for each core");
  auto verifyCore = [&](Operation *op, ManyCore::Point core) -> LogicalResult {
    if (indices.count(core))
      return success();
    return op->emitOpError("expected a core with a program, got (")
           << core[0] << ", " << core[1] << ")";
  };
  for (auto remote : plan.getBody().getOps<RemoteOp>())
    if (failed(verifyCore(remote, {remote.getCore()[0], remote.getCore()[1]})))
      return failure();
  for (Program &program : programs)
    for (Operation &op : program.op.getBody().front()) {
      std::vector<ManyCore::Point> cores;
      if (auto release = dyn_cast<ReleaseOp>(op))
        llvm::append_range(cores, release.listCores());
      else if (auto send = dyn_cast<SendOp>(op))
        llvm::append_range(cores, send.listCores());
      for (ManyCore::Point core : cores)
        if (failed(verifyCore(&op, core)))
          return failure();
    }
  return success();
}

/// Runs a program until it ends or waits for a counter.
LogicalResult MappingVerifier::runProgram(Program &program, bool &hasMoved) {
  Block &body = program.op.getBody().front();
  auto add = [&](int64_t counter, ArrayRef<ManyCore::Point> cores) {
    for (ManyCore::Point core : cores)
      ++programs[indices.at(core)].counters[counter];
  };
  for (; program.next != body.end(); ++program.next, hasMoved = true) {
    Operation *op = &*program.next;
    // Since the plan has no race, a transfer may be complete at its start.
    if (auto acquire = dyn_cast<AcquireOp>(op)) {
      if (program.counters[acquire.getCounter()] < int64_t(acquire.getCount()))
        return success();
    } else if (auto release = dyn_cast<ReleaseOp>(op)) {
      add(release.getCounter(), release.listCores());
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      Buffer source = locate(program, copy.getSource());
      Buffer target = locate(program, copy.getTarget());
      if (failed(checkState(program, op, target)))
        return failure();
      copyContents(*source.contents, source.offset, *source.layout,
                   *target.contents, target.offset, *target.layout);
    } else if (auto send = dyn_cast<SendOp>(op)) {
      Buffer source = locate(program, send.getSource());
      for (ManyCore::Point core : send.listCores())
        copyContents(*source.contents, source.offset, *source.layout,
                     programs[indices.at(core)].local, send.getOffset(),
                     *source.layout);
      add(send.getCounter(), send.listCores());
    } else if (auto run = dyn_cast<RunOp>(op)) {
      if (failed(runTile(program, run)))
        return failure();
    } else if (auto check = dyn_cast<CheckOp>(op)) {
      if (failed(checkWords(program, check)))
        return failure();
    }
  }
  return success();
}

std::string MappingVerifier::describe(const TileRuns::Run &run) {
  std::string text = "tile [";
  for (auto [i, loop] : llvm::enumerate(launches[run.launch].tiles.getAxes())) {
    const Interval &range = run.tile[loop];
    text += (i ? ", " : "") + std::to_string(range.begin) + " to " +
            std::to_string(range.begin + range.size);
  }
  return text + "] of launch " + std::to_string(run.launch) + " (" +
         launches[run.launch].tiles.getKernel().getSymName().str() + ")";
}

std::string MappingVerifier::describe(unsigned root, int64_t begin, int64_t end,
                                      int version) {
  std::string text = "bytes " + std::to_string(begin) + " to " +
                     std::to_string(end) + " of " + roots[root].name;
  if (version == kInitial)
    return text + " from before the step";
  return text + " from launch " + std::to_string(version);
}

/// Returns the type of a part of a buffer.
static MemRefType getBoxType(MemRefType type, ArrayRef<Interval> box) {
  SmallVector<int64_t> shape;
  for (const Interval &range : box)
    shape.push_back(range.size);
  auto [strides, offset] = type.getStridesAndOffset();
  return MemRefType::get(
      shape, type.getElementType(),
      StridedLayoutAttr::get(type.getContext(), /*offset=*/0, strides));
}

/// An operand of a tile must hold the tile's box of the buffer, with the values
/// before the launch.
LogicalResult MappingVerifier::checkOperand(Program &program, RunOp op,
                                            unsigned number,
                                            const TileRuns::Run &run) {
  const MappedLaunch &launch = launches[run.launch];
  const Place &place = launch.places[number];
  Box box = launch.tiles.getBox(number, run.tile);
  if (getNumElements(box) == 0)
    return success();
  unsigned root = rootOf.lookup(place.root);
  int64_t base = place.offset + getBoxOffset(place.type, box);
  const Layout *layout = getLayout(getBoxType(place.type, box));
  ArrayRef<Contents::Part> expected = versions[run.launch][number];
  Buffer memory = locate(program, op.getBuffers()[number]);
  int64_t bytes = layout->countBytes();
  auto held = memory.contents->read(memory.offset, memory.offset + bytes);
  // The usual case: one transfer or one tile wrote the whole buffer.
  if (held.size() == 1 && held[0].size() == bytes &&
      held[0].origin.root == root && expected.size() == 1 &&
      held[0].origin.version == expected[0].origin.version) {
    const Layout *own = held[0].origin.layout;
    if (!own && layout->isContiguous() &&
        held[0].locate(memory.offset).first == base)
      return success();
    if (own && *own == *layout && held[0].start == memory.offset &&
        held[0].origin.base == base)
      return success();
  }
  auto fail = [&](int64_t byte, int version, const Contents::Part *part,
                  int64_t actual) {
    InFlightDiagnostic diagnostic = op.emitOpError("expected operand ");
    diagnostic << number << " of " << describe(run) << " to hold "
               << describe(root, byte, byte + 1, version) << ", got ";
    if (part)
      diagnostic << describe(part->origin.root, actual, actual + 1,
                             part->origin.version);
    else
      diagnostic << "an undefined byte";
    return diagnostic;
  };
  const auto *part = held.begin();
  const auto *version = expected.begin();
  for (int64_t at = 0; at < bytes;) {
    auto [offset, length] = layout->locate(at);
    int64_t byte = base + offset, local = memory.offset + at;
    while (part != held.end() && part->end <= local)
      ++part;
    if (version == expected.end() || version->begin > byte)
      version = expected.begin();
    while (version->end <= byte)
      ++version;
    int wanted = version->origin.version;
    length = std::min(length, version->end - byte);
    if (part == held.end() || part->begin > local)
      return fail(byte, wanted, nullptr, 0);
    auto [actual, count] = part->locate(local);
    if (part->origin.root != root || actual != byte ||
        part->origin.version != wanted)
      return fail(byte, wanted, part, actual);
    at += std::min(length, count);
  }
  return success();
}

/// The last operand of a tile whose kernel reads indices holds the begins of
/// its loops.
LogicalResult MappingVerifier::checkBegins(Program &program, RunOp op,
                                           unsigned number,
                                           ArrayRef<unsigned> loops,
                                           const TileRuns::Run &run) {
  Buffer memory = locate(program, op.getBuffers()[number]);
  int64_t bytes = kWordBytes * int64_t(loops.size());
  auto held = memory.contents->read(memory.offset, memory.offset + bytes);
  if (held.size() == 1 && held[0].size() == bytes && !held[0].origin.layout &&
      held[0].locate(memory.offset).first == 0 &&
      roots[held[0].origin.root].begins) {
    DenseIntElementsAttr begins = roots[held[0].origin.root].begins;
    if (begins.getNumElements() == int64_t(loops.size()) &&
        llvm::all_of(llvm::zip_equal(begins.getValues<APInt>(), loops),
                     [&](auto pair) {
                       auto [begin, loop] = pair;
                       return begin.getSExtValue() == run.tile[loop].begin;
                     }))
      return success();
  }
  return op.emitOpError("expected operand ")
         << number << " to hold the begins of " << describe(run);
}

LogicalResult MappingVerifier::runTile(Program &program, RunOp op) {
  std::optional<TileRuns::Run> run = runs->takeNext(program.core);
  if (!run)
    return op.emitOpError("is not expected: the core has run all its tiles");
  auto function = symbols.lookup<func::FuncOp>(op.getKernel());
  if (!function || !runs->isFunctionOf(function, *run))
    return op.emitOpError("expected the function of ") << describe(*run);
  const MappedLaunch &launch = launches[run->launch];
  ArrayRef<KernelAccess> accesses = launch.tiles.getAccesses();
  for (unsigned i = 0; i < accesses.size(); ++i)
    if (accesses[i].reads && failed(checkOperand(program, op, i, *run)))
      return failure();
  if (SmallVector<unsigned> loops = launch.tiles.getShiftedLoops(run->tile);
      !loops.empty() &&
      failed(checkBegins(program, op, accesses.size(), loops, *run)))
    return failure();
  // (E1)
  if (firstChecked && run->launch >= *firstChecked && !program.hasChecked &&
      !runs->getChecks().empty())
    return op.emitOpError("expected a check of the error words of all cores "
                          "before ")
           << describe(*run);
  if (hasChecks(launch.tiles.getKernel())) {
    int64_t word = program.op.getError();
    if (failed(checkWord(program, op)))
      return failure();
    program.local.write(word, word + kWordBytes,
                        {program.wordRoot, 0, ++program.numChecks, nullptr});
  }
  int64_t scratch = program.op.getScratchOffset();
  program.local.clear(scratch, scratch + program.op.getScratchBytes());
  for (auto [i, access] : llvm::enumerate(accesses)) {
    if (!access.writes)
      continue;
    const Place &place = launch.places[i];
    Box box = launch.tiles.getBox(i, run->tile);
    Buffer target = locate(program, op.getBuffers()[i]);
    const Layout *layout = getLayout(getBoxType(place.type, box));
    target.contents->write(target.offset, target.offset + layout->countBytes(),
                           {rootOf.lookup(place.root),
                            place.offset + getBoxOffset(place.type, box),
                            int(run->launch),
                            layout->isContiguous() ? nullptr : layout});
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Checks (E1)
//===----------------------------------------------------------------------===//

LogicalResult MappingVerifier::checkState(Program &program, Operation *op,
                                          const Buffer &target) {
  if (!target.isState || !firstChecked || program.hasChecked ||
      runs->getChecks().empty())
    return success();
  return op->emitOpError("changes a state before the core has checked the "
                         "error words of all cores");
}

/// The error word of a core holds what the last tile with checks left.
LogicalResult MappingVerifier::checkWord(Program &program, Operation *op) {
  int64_t word = program.op.getError();
  auto held = program.local.read(word, word + kWordBytes);
  if (held.size() == 1 && held[0].size() == kWordBytes &&
      held[0].origin.root == program.wordRoot &&
      held[0].locate(word).first == 0 &&
      held[0].origin.version == program.numChecks)
    return success();
  return op->emitOpError("expected the error word of core (")
         << program.core[0] << ", " << program.core[1] << ") at byte " << word
         << " of its memory, which other operations have overwritten";
}

LogicalResult MappingVerifier::checkWords(Program &program, CheckOp op) {
  Buffer memory = locate(program, op.getWords());
  int64_t end = memory.offset + memory.layout->countBytes();
  std::set<ManyCore::Point> checked;
  for (int64_t word = memory.offset; word < end; word += kWordBytes) {
    auto held = memory.contents->read(word, word + kWordBytes);
    // The error words of the programs have successive numbers.
    unsigned first = programs.front().wordRoot;
    const Program *owner = nullptr;
    if (held.size() == 1 && held[0].size() == kWordBytes &&
        held[0].origin.root >= first && held[0].locate(word).first == 0)
      owner = &programs[held[0].origin.root - first];
    if (!owner)
      return op.emitOpError("expected error words, got other bytes in word ")
             << (word - memory.offset) / kWordBytes;
    auto checks = runs->getChecks().find(owner->core);
    if (checks != runs->getChecks().end() &&
        held[0].origin.version == int(checks->second))
      checked.insert(owner->core);
  }
  program.hasChecked |= checked.size() == runs->getChecks().size();
  checkedCores.insert(checked.begin(), checked.end());
  return success();
}

//===----------------------------------------------------------------------===//
// The end
//===----------------------------------------------------------------------===//

LogicalResult MappingVerifier::verifyEnd() {
  for (Program &program : programs)
    if (program.next != program.op.getBody().front().end())
      return program.next->emitOpError(
          "waits forever, which repro-verify-cores refuses");
  for (Program &program : programs)
    if (failed(checkWord(program, program.op)))
      return failure();
  if (std::optional<ManyCore::Point> core = runs->findUnfinished())
    return plan.emitOpError("expected more tiles on core (")
           << (*core)[0] << ", " << (*core)[1] << ")";
  for (const auto &[core, count] : runs->getChecks())
    if (!checkedCores.count(core))
      return plan.emitOpError("expected a check of the last error word of "
                              "core (")
             << core[0] << ", " << core[1] << ")";
  auto verifyFinal = [&](BlockArgument argument) -> LogicalResult {
    unsigned root = rootOf.lookup(argument);
    int64_t bytes =
        launch::getBufferBytes(cast<MemRefType>(argument.getType()));
    for (const Contents::Part &wanted : finalVersions[root].read(0, bytes)) {
      int64_t next = wanted.begin;
      for (const Contents::Part &held :
           dram[root].read(wanted.begin, wanted.end)) {
        auto [byte, count] = held.locate(held.begin);
        if (held.begin != next || held.origin.root != root ||
            byte != held.begin || count < held.size() ||
            held.origin.version != wanted.origin.version)
          break;
        next = held.end;
      }
      if (next != wanted.end)
        return plan.emitOpError("expected ")
               << describe(root, next, next + 1, wanted.origin.version)
               << " to be there at the end";
    }
    return success();
  };
  for (ArrayRef<BlockArgument> arguments :
       {plan.getStates(), plan.getOutputs()})
    for (BlockArgument argument : arguments)
      if (failed(verifyFinal(argument)))
        return failure();
  return success();
}
