//===- EmitCores.cpp - Emits plans of many cores as bytes -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Lowering/EmitCores.h"

#include "CodeSections.h"
#include "Codegen/CPU/Lowering/EmitObject.h"
#include "Codegen/Schedule/Buffers/PlanReader.h"
#include "KernelChecks.h"
#include "Simulator/CorePlan.h"
#include "Target/ManyCore.h"
#include "dialects/Cores/IR/Cores.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

namespace sim = ::repro_simulator;

namespace {
/// Translates one plan.
class PlanTranslator {
public:
  PlanTranslator(PlanOp op, const ManyCore &machine)
      : op(op), machine(machine), symbols(op->getParentOp()), reader(op) {}

  LogicalResult translate();
  /// Sets the code, and the bytes of the code of each kernel and program.
  LogicalResult translateCode(const Level &level, unsigned jobs);

  sim::CorePlan plan;

private:
  FailureOr<uint32_t> getKernel(RunOp run);
  FailureOr<sim::TileKernel> describe(RunOp run);
  FailureOr<sim::Place> locate(Value buffer);
  LogicalResult translate(ProgramOp program);
  FailureOr<sim::CoreOp> translate(CopyOp copy);
  FailureOr<sim::CoreOp> translate(RunOp run);
  LogicalResult verifyCodeMemory(const sim::CoreProgram &program,
                                 ArrayRef<uint32_t> kernels);

  PlanOp op;
  const ManyCore &machine;
  SymbolTable symbols;
  PlanReader reader;
  std::map<std::array<int64_t, 2>, uint32_t> programs; ///< by core
  llvm::StringMap<uint32_t> kernels;
  SmallVector<RunOp> firstRuns; ///< of each kernel
};
} // namespace

static std::vector<sim::Core> toCores(ArrayRef<std::array<int64_t, 2>> points) {
  std::vector<sim::Core> cores;
  for (auto [x, y] : points)
    cores.push_back({uint32_t(x), uint32_t(y)});
  return cores;
}

/// Returns the offset of a buffer in the data memory of its core.
static uint64_t getLocalOffset(Value buffer) {
  auto view = buffer.getDefiningOp<launch::ViewOp>();
  return view ? view.getOffset() : 0;
}

/// Removes loops of one iteration, and merges loops that are one loop on both
/// sides.
static void simplify(sim::Copy &copy) {
  std::vector<uint64_t> extents, from, to;
  for (size_t i = 0; i < copy.extents.size(); ++i) {
    uint64_t extent = copy.extents[i];
    if (extent == 1)
      continue;
    if (!extents.empty() && from.back() == copy.fromStrides[i] * extent &&
        to.back() == copy.toStrides[i] * extent) {
      extents.back() *= extent;
      from.back() = copy.fromStrides[i];
      to.back() = copy.toStrides[i];
      continue;
    }
    extents.push_back(extent);
    from.push_back(copy.fromStrides[i]);
    to.push_back(copy.toStrides[i]);
  }
  copy.extents = std::move(extents);
  copy.fromStrides = std::move(from);
  copy.toStrides = std::move(to);
}

FailureOr<sim::TileKernel> PlanTranslator::describe(RunOp run) {
  auto function = symbols.lookup<FunctionOpInterface>(run.getKernel());
  launch::WorkAttr work =
      launch::LaunchDialect::WorkAttrHelper(op.getContext()).getAttr(function);
  if (!work)
    return function->emitError("expected a kernel that repro-expand-kernels "
                               "expanded, with its work and scratch set");
  sim::TileKernel kernel;
  kernel.name = run.getKernel().str();
  kernel.items = work.getItems();
  kernel.scratchBytes = work.getScratchBytes();
  if (auto cycles =
          CoresDialect::CyclesAttrHelper(op.getContext()).getAttr(function))
    kernel.cycles = cycles.getInt();
  kernel.hasChecks = hasChecks(function);
  for (auto [buffer, access] :
       llvm::zip_equal(run.getBuffers(), run.getAccesses()))
    kernel.buffers.push_back(
        {uint64_t(launch::getBufferBytes(cast<MemRefType>(buffer.getType()))),
         uint32_t(access)});
  return kernel;
}

FailureOr<uint32_t> PlanTranslator::getKernel(RunOp run) {
  auto [place, isNew] = kernels.try_emplace(run.getKernel(), firstRuns.size());
  if (!isNew) {
    RunOp first = firstRuns[place->second];
    if (first.getBuffers().getTypes() != run.getBuffers().getTypes() ||
        first.getAccesses() != run.getAccesses())
      return run.emitOpError("has buffers of other types or accesses than an "
                             "earlier run of '")
             << run.getKernel() << "'";
    return place->second;
  }
  FailureOr<sim::TileKernel> kernel = describe(run);
  if (failed(kernel))
    return failure();
  plan.kernels.push_back(std::move(*kernel));
  firstRuns.push_back(run);
  return place->second;
}

FailureOr<sim::Place> PlanTranslator::locate(Value buffer) {
  if (isLocal(cast<MemRefType>(buffer.getType())))
    return sim::Place{sim::Memory::Local, 0, getLocalOffset(buffer)};
  auto view = buffer.getDefiningOp<launch::ViewOp>();
  Value source = view ? view.getSource() : buffer;
  if (auto remote = source.getDefiningOp<RemoteOp>()) {
    auto found = programs.find({remote.getCore()[0], remote.getCore()[1]});
    if (found == programs.end())
      return remote.emitOpError("expected a core that has a program");
    return sim::Place{sim::Memory::Remote, found->second,
                      view ? view.getOffset() : 0};
  }
  FailureOr<::repro_runtime::BufferRef> place = reader.locate(buffer);
  if (failed(place))
    return failure();
  return sim::Place{sim::Memory(uint32_t(place->space)), place->index,
                    place->offset};
}

FailureOr<sim::CoreOp> PlanTranslator::translate(CopyOp op) {
  FailureOr<sim::Place> from = locate(op.getSource()),
                        to = locate(op.getTarget());
  if (failed(from) || failed(to))
    return failure();
  auto type = cast<MemRefType>(op.getSource().getType());
  int64_t bytes = launch::getElementBytes(type.getElementType());
  sim::Copy copy{*from, *to, uint32_t(bytes), {}, {}, {}};
  copy.extents.assign(type.getShape().begin(), type.getShape().end());
  auto addStrides = [&](Value buffer, std::vector<uint64_t> &result) {
    auto [strides, offset] =
        cast<MemRefType>(buffer.getType()).getStridesAndOffset();
    for (int64_t stride : strides)
      result.push_back(stride * bytes);
  };
  addStrides(op.getSource(), copy.fromStrides);
  addStrides(op.getTarget(), copy.toStrides);
  simplify(copy);
  return sim::CoreOp(std::move(copy));
}

FailureOr<sim::CoreOp> PlanTranslator::translate(RunOp op) {
  FailureOr<uint32_t> kernel = getKernel(op);
  if (failed(kernel))
    return failure();
  sim::Run run{*kernel, {}};
  for (Value buffer : op.getBuffers())
    run.offsets.push_back(getLocalOffset(buffer));
  return sim::CoreOp(std::move(run));
}

LogicalResult PlanTranslator::translate(ProgramOp op) {
  sim::CoreProgram program;
  program.core = {uint32_t(op.getX()), uint32_t(op.getY())};
  program.localBytes = op.getLocalBytes();
  program.scratchOffset = op.getScratchOffset();
  program.scratchBytes = op.getScratchBytes();
  program.errorOffset = op.getError();
  llvm::DenseMap<Value, uint32_t> transfers;
  using Result = FailureOr<sim::CoreOp>;
  for (Operation &inner : op.getBody().front()) {
    if (isa<launch::ViewOp>(inner))
      continue;
    if (isa<CopyOp, SendOp>(inner))
      transfers.try_emplace(inner.getResult(0), transfers.size());
    Result result =
        llvm::TypeSwitch<Operation *, Result>(&inner)
            .Case([&](CopyOp copy) { return translate(copy); })
            .Case([&](RunOp run) { return translate(run); })
            .Case([&](WaitOp wait) {
              return sim::CoreOp(
                  sim::Wait{transfers.lookup(wait.getTransfer())});
            })
            .Case([&](SendOp send) {
              int64_t bytes = launch::getBufferBytes(
                  cast<MemRefType>(send.getSource().getType()));
              return sim::CoreOp(
                  sim::Send{getLocalOffset(send.getSource()), uint64_t(bytes),
                            toCores(send.listCores()), send.getOffset(),
                            uint32_t(send.getCounter())});
            })
            .Case([&](ReleaseOp release) {
              return sim::CoreOp(sim::Release{toCores(release.listCores()),
                                              uint32_t(release.getCounter())});
            })
            .Case([&](AcquireOp acquire) {
              return sim::CoreOp(sim::Acquire{uint32_t(acquire.getCounter()),
                                              uint32_t(acquire.getCount())});
            })
            .Case([&](CheckOp check) {
              auto words = cast<MemRefType>(check.getWords().getType());
              return sim::CoreOp(sim::Check{getLocalOffset(check.getWords()),
                                            uint64_t(words.getNumElements())});
            })
            .Default([](Operation *op) -> Result {
              return op->emitError("expected an operation of a core");
            });
    if (failed(result))
      return failure();
    program.ops.push_back(std::move(*result));
  }
  plan.programs.push_back(std::move(program));
  return success();
}

LogicalResult PlanTranslator::translate() {
  plan.machine = machine.text;
  ::repro_runtime::Plan tensors;
  translateTensors(op, tensors);
  plan.states = std::move(tensors.states);
  plan.inputs = std::move(tensors.inputs);
  plan.outputs = std::move(tensors.outputs);
  plan.arenaBytes = tensors.arenaBytes;
  plan.messages = std::move(tensors.messages);
  for (auto program : op.getBody().getOps<ProgramOp>())
    programs.try_emplace({program.getX(), program.getY()}, programs.size());
  for (auto program : op.getBody().getOps<ProgramOp>())
    if (failed(translate(program)))
      return failure();
  plan.constants = reader.takeConstants();
  return success();
}

LogicalResult PlanTranslator::translateCode(const Level &level, unsigned jobs) {
  plan.level = level.name;
  std::vector<std::string> names;
  for (const sim::TileKernel &kernel : plan.kernels)
    names.push_back(kernel.name);
  FailureOr<SmallVector<std::string>> objects =
      emitObjects(cast<ModuleOp>(op->getParentOp()), names, level, jobs,
                  /*separate=*/level.isMicrocontroller);
  if (failed(objects))
    return failure();
  plan.objects.assign(objects->begin(), objects->end());
  // Code for the host does not count against the code memory of a core.
  if (!level.isMicrocontroller)
    return success();
  CodeSections sections;
  for (const std::string &object : *objects)
    if (llvm::Error error = sections.add(object))
      return op.emitOpError("has code that cannot be read: ")
             << llvm::toString(std::move(error));
  for (sim::TileKernel &kernel : plan.kernels)
    kernel.codeBytes = sections.getBytes({kernel.name});
  for (sim::CoreProgram &program : plan.programs) {
    llvm::SetVector<uint32_t> used;
    for (const sim::CoreOp &inner : program.ops)
      if (auto *run = std::get_if<sim::Run>(&inner))
        used.insert(run->kernel);
    SmallVector<StringRef> usedNames;
    for (uint32_t kernel : used)
      usedNames.push_back(plan.kernels[kernel].name);
    program.codeBytes = sections.getBytes(usedNames);
    if (failed(verifyCodeMemory(program, used.getArrayRef())))
      return failure();
  }
  return success();
}

/// Checks that the code of a program fits into the core.
LogicalResult PlanTranslator::verifyCodeMemory(const sim::CoreProgram &program,
                                               ArrayRef<uint32_t> kernels) {
  if (program.codeBytes <= uint64_t(machine.codeBytes))
    return success();
  SmallVector<const sim::TileKernel *> largest;
  for (uint32_t kernel : kernels)
    largest.push_back(&plan.kernels[kernel]);
  llvm::stable_sort(
      largest, [](auto *a, auto *b) { return a->codeBytes > b->codeBytes; });
  constexpr size_t mostNamed = 5;
  largest.resize(std::min(largest.size(), mostNamed));
  InFlightDiagnostic diagnostic =
      op.emitOpError("expected code that fits into the ")
      << machine.codeBytes << " code bytes of a core of '" << machine.name
      << "': the " << kernels.size() << " kernels of core (" << program.core.x
      << ", " << program.core.y << ") need " << program.codeBytes
      << " bytes for " << plan.level << ", and the largest are ";
  llvm::interleaveComma(largest, diagnostic, [&](auto *kernel) {
    diagnostic << "'" << kernel->name << "' with " << kernel->codeBytes;
  });
  return diagnostic << "; use a machine of at least " << program.codeBytes
                    << " code bytes a core";
}

FailureOr<std::string> mlir::repro::translateToCorePlan(ModuleOp module,
                                                        const Level &level,
                                                        unsigned jobs) {
  auto plans = module.getOps<PlanOp>();
  if (!llvm::hasSingleElement(plans))
    return module.emitError("expected one 'cores.plan', which "
                            "repro-map-schedule makes of a launch plan");
  PlanOp op = *plans.begin();
  std::string error;
  FailureOr<ManyCore> machine = getManyCore(op.getMachine(), error);
  if (failed(machine))
    return op.emitOpError() << error;
  PlanTranslator translator(op, *machine);
  if (failed(translator.translate()) ||
      failed(translator.translateCode(level, jobs)))
    return failure();
  std::string bytes = sim::writeCorePlan(translator.plan);
  // Reads the plan as the simulator does, which refuses what repro-verify-cores
  // refuses if that pass did not run.
  sim::CorePlan read;
  if (sim::Error reason = sim::readCorePlan({bytes.data(), bytes.size()}, read);
      !reason.empty())
    return op.emitOpError("cannot be translated: ") << reason;
  return bytes;
}
