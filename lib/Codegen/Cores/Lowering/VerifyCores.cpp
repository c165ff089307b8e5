//===- VerifyCores.cpp - Verifies plans of many cores ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a plan once without its data. A vector clock per program contains how
// many operations of each other program are ordered before the program's next
// operation. The order in which this file runs the operations is one that the
// order of the plan allows, so each access has only to be compared with those
// before it.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Lowering/Passes.h"

#include "KernelChecks.h"
#include "MemoryAccesses.h"
#include "Target/ManyCore.h"
#include "dialects/Cores/IR/Cores.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <memory>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROVERIFYCORES
#include "lib/Codegen/Cores/Lowering/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

namespace {
using Point = std::array<int64_t, 2>;
using Clock = std::vector<unsigned>;

std::string toText(Point core) {
  return "(" + std::to_string(core[0]) + ", " + std::to_string(core[1]) + ")";
}

/// An addition to a counter.
struct Addition {
  unsigned program;
  unsigned start; ///< the release or the send
  unsigned end;   ///< the release, or the wait for the send
  Operation *op;
  /// The clock of the program at `start`, from then until an acquire counts
  /// the addition.
  std::shared_ptr<const Clock> clock;
};

/// The additions to one counter, by program and start.
struct Counter {
  std::vector<Addition> additions;
  bool hasOneProgram = true;
  unsigned value = 0; ///< in the run

  /// Returns the index of the addition that an operation of a program makes.
  size_t find(unsigned program, unsigned start) const {
    auto key = std::pair(program, start);
    auto found = llvm::lower_bound(
        additions, key, [](const Addition &addition, const auto &key) {
          return std::pair(addition.program, addition.start) < key;
        });
    return found - additions.begin();
  }
};

struct Program {
  ProgramOp op;
  std::vector<Operation *> ops; ///< all operations but the views
  std::map<int64_t, Counter> counters;
  /// The operations that wait for a counter, in the order of the program.
  std::map<int64_t, std::vector<unsigned>> acquires;
  // The state of the run.
  unsigned next = 0;
  std::shared_ptr<const Clock> clock;
  bool isBlocked = false;
};

class PlanVerifier {
public:
  explicit PlanVerifier(PlanOp plan)
      : plan(plan), symbols(plan->getParentOp()) {}

  LogicalResult verify() {
    return success(succeeded(readPrograms()) && succeeded(readTransfers()) &&
                   succeeded(readCounters()) && succeeded(verifyAcquires()) &&
                   succeeded(run()));
  }

private:
  LogicalResult readPrograms();
  LogicalResult verifyMatrices(const ManyCore &machine);
  LogicalResult readTransfers();
  LogicalResult readCounters();
  LogicalResult verifyAcquires();

  LogicalResult run();
  LogicalResult runProgram(unsigned index);
  /// Whether the next operation of the program, an acquire, continues.
  bool acquire(Program &program, AcquireOp op);
  LogicalResult emitDeadlock();

  LogicalResult accessRemote(RemoteOp memory, StridedBytes bytes,
                             unsigned program, unsigned end);
  LogicalResult access(Value buffer, bool isWrite, unsigned program,
                       unsigned end);
  LogicalResult accessLocal(unsigned memory, StridedBytes bytes, bool isWrite,
                            unsigned program, unsigned end);
  LogicalResult accessRun(RunOp op, unsigned program);
  LogicalResult accessSend(SendOp op, unsigned program);
  LogicalResult add(MemoryAccesses &memory, const Access &access);

  /// Returns the operation that completes the transfer that `op` starts.
  unsigned getEnd(Operation *op) const { return ends.lookup(op); }

  PlanOp plan;
  SymbolTable symbols;
  std::vector<Program> programs;
  std::map<Point, unsigned> indices; ///< of the programs, by core
  llvm::DenseMap<Operation *, unsigned> ends;
  std::vector<MemoryAccesses> locals;
  llvm::DenseMap<Value, std::unique_ptr<MemoryAccesses>> dram;
  std::vector<unsigned> ready;
};

struct VerifyCores : public repro::impl::ReproVerifyCoresBase<VerifyCores> {
  void runOnOperation() override {
    for (auto plan : getOperation().getOps<PlanOp>())
      if (failed(PlanVerifier(plan).verify()))
        return signalPassFailure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Checks before the run
//===----------------------------------------------------------------------===//

LogicalResult PlanVerifier::readPrograms() {
  std::string error;
  FailureOr<ManyCore> machine = getManyCore(plan.getMachine(), error);
  if (failed(machine))
    return plan.emitOpError() << error;
  for (auto op : plan.getBody().getOps<ProgramOp>()) {
    Point core{op.getX(), op.getY()};
    if (!machine->hasCore(core))
      return op.emitOpError("is for core ")
             << toText(core) << ", which machine '" << machine->name
             << "' does not have";
    auto [place, isNew] = indices.try_emplace(core, programs.size());
    if (!isNew) {
      InFlightDiagnostic diagnostic = op.emitOpError("is for core ");
      diagnostic << toText(core) << ", which has another program";
      diagnostic.attachNote(programs[place->second].op.getLoc())
          << "the other program";
      return diagnostic;
    }
    if (op.getLocalBytes() > machine->dataBytes)
      return op.emitOpError("has a data memory of ")
             << op.getLocalBytes() << " bytes, but a core of machine '"
             << machine->name << "' has " << machine->dataBytes;
    Program &program = programs.emplace_back();
    program.op = op;
    for (Operation &inner : op.getBody().front())
      if (!isa<launch::ViewOp>(inner))
        program.ops.push_back(&inner);
  }
  return verifyMatrices(*machine);
}

/// (K4) No accumulator of a matrix array overflows, whatever the bytes are.
LogicalResult PlanVerifier::verifyMatrices(const ManyCore &machine) {
  int64_t most = machine.getMostMatrixProducts();
  WalkResult result = plan->getParentOp()->walk([&](Operation *op) {
    MatrixAttr matrix =
        CoresDialect::MatrixAttrHelper(op->getContext()).getAttr(op);
    if (!matrix)
      return WalkResult::advance();
    if (machine.matrixRows != matrix.getRows() ||
        machine.matrixColumns != matrix.getColumns() ||
        machine.matrixOperandBits != 8 || most == 0) {
      op->emitOpError("expected an array of ")
          << matrix.getRows() << " x " << matrix.getColumns()
          << " multipliers of bytes in a core of machine '" << machine.name
          << "', which has " << machine.matrixRows << " x "
          << machine.matrixColumns << " multipliers of "
          << machine.matrixOperandBits << " bits";
      return WalkResult::interrupt();
    }
    if (matrix.getSlice() > most) {
      op->emitOpError("expected slices of at most ")
          << most << " products of bytes, whose sum fits into the "
          << machine.matrixAccumulatorBits << " bits of an accumulator of "
          << "machine '" << machine.name << "' (K4), got " << matrix.getSlice();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult PlanVerifier::readTransfers() {
  for (Program &program : programs) {
    llvm::DenseMap<Operation *, unsigned> waits;
    for (auto [index, op] : llvm::enumerate(program.ops))
      if (isa<WaitOp>(op))
        waits[op] = index;
    for (Operation *op : program.ops) {
      if (!isa<CopyOp, SendOp>(op))
        continue;
      size_t count = llvm::range_size(op->getUsers());
      if (count != 1)
        return op->emitOpError(
                   "expected one 'cores.wait' of the transfer, got ")
               << count;
      ends[op] = waits.lookup(*op->user_begin());
      if (auto copy = dyn_cast<CopyOp>(op))
        if (StridedBytes::get(0, cast<MemRefType>(copy.getTarget().getType()))
                .hasRepeats)
          return op->emitOpError("writes bytes twice, since elements of ")
                 << copy.getTarget().getType() << " share bytes";
    }
  }
  return success();
}

LogicalResult PlanVerifier::readCounters() {
  for (auto [number, program] : llvm::enumerate(programs)) {
    for (auto [index, op] : llvm::enumerate(program.ops)) {
      SmallVector<Point> cores;
      int64_t counter = 0;
      Addition addition{unsigned(number), unsigned(index), unsigned(index), op,
                        nullptr};
      if (auto acquire = dyn_cast<AcquireOp>(op)) {
        program.acquires[acquire.getCounter()].push_back(index);
      } else if (auto release = dyn_cast<ReleaseOp>(op)) {
        cores = release.listCores();
        counter = release.getCounter();
      } else if (auto send = dyn_cast<SendOp>(op)) {
        cores = send.listCores();
        counter = send.getCounter();
        addition.end = getEnd(op);
      }
      for (Point core : cores) {
        auto found = indices.find(core);
        if (found == indices.end())
          return op->emitOpError("is for core ")
                 << toText(core) << ", which has no program";
        Program &target = programs[found->second];
        if (auto send = dyn_cast<SendOp>(op)) {
          int64_t bytes = launch::getBufferBytes(
              cast<MemRefType>(send.getSource().getType()));
          if (int64_t available = target.op.getLocalBytes();
              int64_t(send.getOffset()) > available - bytes)
            return op->emitOpError("sends ")
                   << bytes << " bytes to byte " << send.getOffset()
                   << " of the data memory of core " << toText(core)
                   << ", which has " << available << " bytes";
        }
        Counter &additions = target.counters[counter];
        if (!additions.additions.empty())
          additions.hasOneProgram &=
              additions.additions.front().program == number;
        additions.additions.push_back(addition);
      }
    }
  }
  return success();
}

LogicalResult PlanVerifier::verifyAcquires() {
  for (Program &program : programs)
    for (auto &[number, acquires] : program.acquires) {
      const Counter &counter = program.counters[number];
      const std::vector<Addition> &additions = counter.additions;
      // The last end of the first additions.
      std::vector<unsigned> lastEnds(additions.size() + 1, 0);
      for (size_t i = 0; i < additions.size(); ++i)
        lastEnds[i + 1] = std::max(lastEnds[i], additions[i].end);
      for (unsigned index : acquires) {
        auto op = cast<AcquireOp>(program.ops[index]);
        size_t count = op.getCount();
        // The run reports an acquire that waits for too many releases.
        if (count >= additions.size())
          continue;
        if (!counter.hasOneProgram)
          return op.emitOpError("counts ")
                 << count << " of the " << additions.size()
                 << " releases of counter " << number
                 << ", which several programs make, so which ones it counts "
                    "depends on time";
        const Addition &later = additions[count];
        if (lastEnds[count] < later.start)
          continue;
        InFlightDiagnostic diagnostic = op.emitOpError("counts ");
        diagnostic << count << " of the " << additions.size()
                   << " releases of counter " << number
                   << ", but one that it does not count starts before they are "
                      "complete";
        diagnostic.attachNote(later.op->getLoc()) << "the release that starts";
        return diagnostic;
      }
    }
  return success();
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

LogicalResult PlanVerifier::run() {
  auto zero = std::make_shared<const Clock>(programs.size(), 0);
  for (Program &program : programs) {
    program.clock = zero;
    locals.emplace_back(program.op.getLocalBytes());
  }
  for (unsigned i = 0; i < programs.size(); ++i)
    ready.push_back(programs.size() - 1 - i);
  while (!ready.empty()) {
    unsigned index = ready.back();
    ready.pop_back();
    if (failed(runProgram(index)))
      return failure();
  }
  return emitDeadlock();
}

LogicalResult PlanVerifier::runProgram(unsigned index) {
  Program &program = programs[index];
  // Makes the additions of a release or a send to the counters of the cores.
  auto add = [&](int64_t number, ArrayRef<Point> cores) {
    for (Point core : cores) {
      unsigned target = indices.at(core);
      Counter &counter = programs[target].counters[number];
      ++counter.value;
      counter.additions[counter.find(index, program.next)].clock =
          program.clock;
      if (programs[target].isBlocked) {
        programs[target].isBlocked = false;
        ready.push_back(target);
      }
    }
  };
  for (; program.next < program.ops.size(); ++program.next) {
    Operation *op = program.ops[program.next];
    if (auto acquire = dyn_cast<AcquireOp>(op)) {
      if (!this->acquire(program, acquire)) {
        program.isBlocked = true;
        return success();
      }
    } else if (auto release = dyn_cast<ReleaseOp>(op)) {
      add(release.getCounter(), release.listCores());
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      if (failed(access(copy.getSource(), false, index, getEnd(op))) ||
          failed(access(copy.getTarget(), true, index, getEnd(op))))
        return failure();
    } else if (auto send = dyn_cast<SendOp>(op)) {
      if (failed(accessSend(send, index)))
        return failure();
      add(send.getCounter(), send.listCores());
    } else if (auto run = dyn_cast<RunOp>(op)) {
      if (failed(accessRun(run, index)))
        return failure();
    } else if (auto check = dyn_cast<CheckOp>(op)) {
      if (failed(access(check.getWords(), false, index, program.next)))
        return failure();
    }
  }
  return success();
}

bool PlanVerifier::acquire(Program &program, AcquireOp op) {
  Counter &counter = program.counters[op.getCounter()];
  if (counter.value < op.getCount())
    return false;
  auto clock = std::make_shared<Clock>(*program.clock);
  // Adds the operations that are ordered before an addition. If an earlier
  // acquire counted the addition, the clock contains them already.
  auto join = [&](const Addition &addition) {
    if (!addition.clock)
      return;
    for (auto [value, other] : llvm::zip_equal(*clock, *addition.clock))
      value = std::max(value, other);
    unsigned &own = (*clock)[addition.program];
    own = std::max(own, addition.start + 1);
  };
  // If one program makes all, those before the last one are ordered before it.
  if (counter.hasOneProgram)
    join(counter.additions[op.getCount() - 1]);
  else
    llvm::for_each(counter.additions, join);
  for (Addition &addition :
       MutableArrayRef(counter.additions).take_front(op.getCount()))
    addition.clock.reset();
  program.clock = std::move(clock);
  return true;
}

LogicalResult PlanVerifier::emitDeadlock() {
  constexpr unsigned mostNotes = 16;
  std::optional<InFlightDiagnostic> diagnostic;
  unsigned notes = 0;
  for (Program &program : programs) {
    if (program.next == program.ops.size())
      continue;
    auto op = cast<AcquireOp>(program.ops[program.next]);
    const Counter &counter = program.counters[op.getCounter()];
    std::string text =
        "core " + toText({program.op.getX(), program.op.getY()}) +
        " waits forever: counter " + std::to_string(op.getCounter()) + " has " +
        std::to_string(counter.value) + " of " + std::to_string(op.getCount()) +
        " releases, and the plan makes " +
        std::to_string(counter.additions.size());
    if (!diagnostic)
      diagnostic.emplace(op.emitOpError("is a deadlock: ") << text);
    else if (notes++ < mostNotes)
      diagnostic->attachNote(op.getLoc()) << text;
  }
  return success(!diagnostic);
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

LogicalResult PlanVerifier::access(Value buffer, bool isWrite, unsigned program,
                                   unsigned end) {
  auto type = cast<MemRefType>(buffer.getType());
  int64_t offset = 0;
  if (auto view = buffer.getDefiningOp<launch::ViewOp>()) {
    offset = view.getOffset();
    buffer = view.getSource();
  }
  StridedBytes bytes = StridedBytes::get(offset, type);
  if (isLocal(type))
    return accessLocal(program, std::move(bytes), isWrite, program, end);
  if (auto remote = buffer.getDefiningOp<RemoteOp>())
    return accessRemote(remote, std::move(bytes), program, end);
  // Nothing conflicts with reads of what no program writes.
  if (launch::isReadOnly(buffer))
    return success();
  std::unique_ptr<MemoryAccesses> &memory = dram[buffer];
  if (!memory)
    memory = std::make_unique<MemoryAccesses>(
        launch::getBufferBytes(cast<MemRefType>(buffer.getType())));
  const Program &own = programs[program];
  return add(*memory, {std::move(bytes), isWrite, program, own.next, end,
                       std::nullopt, own.ops[own.next]});
}

LogicalResult PlanVerifier::accessRemote(RemoteOp memory, StridedBytes bytes,
                                         unsigned program, unsigned end) {
  const Program &own = programs[program];
  Point core{memory.getCore()[0], memory.getCore()[1]};
  auto found = indices.find(core);
  if (found == indices.end())
    return own.ops[own.next]->emitOpError("reads the memory of core ")
           << toText(core) << ", which has no program";
  if (found->second == program)
    return own.ops[own.next]->emitOpError(
        "reads the memory of its own core as that of another core");
  ProgramOp other = programs[found->second].op;
  if (auto type = cast<MemRefType>(memory.getMemory().getType());
      type.getDimSize(0) != other.getLocalBytes())
    return memory.emitOpError("expected the ")
           << other.getLocalBytes() << " bytes of the data memory of core "
           << toText(core) << ", got " << type;
  return accessLocal(found->second, std::move(bytes), /*isWrite=*/false,
                     program, end);
}

LogicalResult PlanVerifier::accessLocal(unsigned memory, StridedBytes bytes,
                                        bool isWrite, unsigned program,
                                        unsigned end) {
  const Program &own = programs[program];
  return add(locals[memory], {std::move(bytes), isWrite, program, own.next, end,
                              std::nullopt, own.ops[own.next]});
}

LogicalResult PlanVerifier::accessRun(RunOp op, unsigned program) {
  unsigned now = programs[program].next;
  auto kernel = symbols.lookup<FunctionOpInterface>(op.getKernel());
  // A kernel may take one buffer for several arguments, unless it declares that
  // it does not.
  struct Use {
    bool isWrite = false, isUnshared = false;
    unsigned count = 0;
  };
  llvm::SmallMapVector<std::pair<int64_t, Type>, Use, 8> uses;
  for (auto [index, buffer] : llvm::enumerate(op.getBuffers())) {
    if (cast<MemRefType>(buffer.getType()).getNumElements() == 0)
      continue; // shares no byte with another buffer
    auto view = buffer.getDefiningOp<launch::ViewOp>();
    Use &use = uses[{view ? int64_t(view.getOffset()) : 0, buffer.getType()}];
    use.isWrite |= op.writes(index);
    use.isUnshared |= bool(kernel.getArgAttr(index, "llvm.noalias"));
    ++use.count;
  }
  for (auto [place, use] : uses) {
    if (use.count > 1 && use.isWrite && use.isUnshared)
      return op.emitOpError(
                 "has one buffer for several arguments, one of which "
                 "'")
             << op.getKernel() << "' declares as llvm.noalias";
    if (failed(accessLocal(
            program,
            StridedBytes::get(place.first, cast<MemRefType>(place.second)),
            use.isWrite, program, now)))
      return failure();
  }
  ProgramOp owner = programs[program].op;
  auto scratch =
      CoresDialect::ScratchAttrHelper(op.getContext()).getAttr(kernel);
  if (scratch && scratch.getInt() > owner.getScratchBytes())
    return op.emitOpError("runs '")
           << op.getKernel() << "' with " << scratch.getInt()
           << " bytes of scratch memory, but the program has "
           << owner.getScratchBytes();
  if (failed(accessLocal(program,
                         StridedBytes::getRange(owner.getScratchOffset(),
                                                owner.getScratchBytes()),
                         /*isWrite=*/true, program, now)))
    return failure();
  if (!hasChecks(kernel))
    return success();
  return accessLocal(program, StridedBytes::getRange(owner.getError(), 8),
                     /*isWrite=*/true, program, now);
}

LogicalResult PlanVerifier::accessSend(SendOp op, unsigned program) {
  const Program &own = programs[program];
  if (failed(access(op.getSource(), false, program, getEnd(op))))
    return failure();
  int64_t bytes =
      launch::getBufferBytes(cast<MemRefType>(op.getSource().getType()));
  for (Point core : op.listCores()) {
    unsigned index = indices.at(core);
    Program &target = programs[index];
    Access access{StridedBytes::getRange(op.getOffset(), bytes),
                  /*isWrite=*/true,
                  program,
                  own.next,
                  getEnd(op),
                  std::nullopt,
                  op};
    // The first acquire that counts the arrival.
    const Counter &counter = target.counters[op.getCounter()];
    size_t number = counter.additions.size();
    if (counter.hasOneProgram)
      number = counter.find(program, own.next) + 1;
    for (unsigned acquire : target.acquires[op.getCounter()])
      if (cast<AcquireOp>(target.ops[acquire]).getCount() >= number) {
        access.acquired = {index, acquire};
        break;
      }
    if (failed(add(locals[index], access)))
      return failure();
  }
  return success();
}

LogicalResult PlanVerifier::add(MemoryAccesses &memory, const Access &access) {
  const Program &program = programs[access.program];
  auto isOrdered = [&](unsigned other, unsigned index) {
    return other == access.program ? index < access.start
                                   : index < (*program.clock)[other];
  };
  std::optional<Access> conflict =
      memory.add(access, [&](const Access &earlier) {
        return isOrdered(earlier.program, earlier.end) ||
               (earlier.acquired &&
                isOrdered(earlier.acquired->first, earlier.acquired->second));
      });
  if (!conflict)
    return success();
  auto describe = [&](const Access &access) {
    ProgramOp op = programs[access.program].op;
    return std::string(access.isWrite ? "writes" : "reads") +
           " bytes within [" + std::to_string(access.bytes.begin) + ", " +
           std::to_string(access.bytes.end) + ") at core " +
           toText({op.getX(), op.getY()});
  };
  if (conflict->op == access.op)
    return access.op->emitOpError(
               "accesses bytes twice, and once writes them: ")
           << describe(*conflict) << ", and " << describe(access);
  InFlightDiagnostic diagnostic = access.op->emitOpError("is in a race: ");
  diagnostic << describe(access);
  diagnostic.attachNote(conflict->op->getLoc())
      << "this operation, which is not ordered before, " << describe(*conflict);
  return diagnostic;
}
