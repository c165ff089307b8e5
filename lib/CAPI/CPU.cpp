//===- CPU.cpp - C API for CPU targets ------------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/CPU.h"

#include "Codegen/CPU/Execution/HostLoader.h"
#include "Pipelines/CPU.h"
#include "Runtime/FloatEnvironment.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace mlir::repro;

static LoadedArtifact &unwrap(ReproLoadedArtifact loaded) {
  return *static_cast<LoadedArtifact *>(loaded.ptr);
}

static const ::repro_runtime::Plan &getPlan(ReproLoadedArtifact loaded) {
  return unwrap(loaded).getExecutor().getPlan();
}

static const std::vector<::repro_runtime::Tensor> &
getTensors(ReproLoadedArtifact loaded, ReproTensorKind kind) {
  const ::repro_runtime::Plan &plan = getPlan(loaded);
  return kind == ReproTensorState   ? plan.states
         : kind == ReproTensorInput ? plan.inputs
                                    : plan.outputs;
}

static MlirStringRef toStringRef(StringRef text) {
  return mlirStringRefCreate(text.data(), text.size());
}

void reproCPULevels(MlirStringCallback callback, void *userData) {
  std::string levels = listLevels();
  callback(toStringRef(levels), userData);
}

void reproCPUHostLevel(MlirStringCallback callback, void *userData) {
  callback(toStringRef(getHostLevel().name), userData);
}

void reproCPURunnableLevels(MlirStringCallback callback, void *userData) {
  std::string names;
  for (const Level &level : getLevels())
    if (runsOnHost(level))
      names += (names.empty() ? "" : ", ") + level.name;
  callback(toStringRef(names), userData);
}

/// Returns the result of `make` for the CPU level named `levelName`. Fails with
/// an error if there is no such level.
template <typename Made>
static FailureOr<Made>
makeFor(ModuleOp op, MlirStringRef levelName,
        llvm::function_ref<FailureOr<Made>(const Level &)> make) {
  std::string error;
  FailureOr<Level> level = getLevel(unwrap(levelName), error);
  if (failed(level))
    return op.emitError(error);
  // (V2) The compiler evaluates constants with the CPU's float instructions, so
  // it needs the float environment of programs.
  ::repro_runtime::FloatEnvironment environment;
  return make(*level);
}

MlirLogicalResult reproCPUCompile(MlirModule module, MlirStringRef levelName,
                                  unsigned jobs, bool timing,
                                  MlirStringCallback callback, void *userData) {
  ModuleOp op = unwrap(module);
  FailureOr<std::string> artifact =
      makeFor<std::string>(op, levelName, [&](const Level &level) {
        return compileForCPU(op, level, jobs, timing);
      });
  if (succeeded(artifact))
    callback(toStringRef(*artifact), userData);
  return wrap(success(succeeded(artifact)));
}

MlirLogicalResult
reproMicrocontrollerCompile(MlirModule module, MlirStringRef levelName,
                            MlirStringRef name, const MlirStringRef *initial,
                            intptr_t numInitial, bool timing, uint64_t sizes[3],
                            MlirStringCallback callback, void *userData) {
  ModuleOp op = unwrap(module);
  SmallVector<StringRef> states;
  for (intptr_t i = 0; i < numInitial; ++i)
    states.push_back(unwrap(initial[i]));
  FailureOr<StepProgram> program =
      makeFor<StepProgram>(op, levelName, [&](const Level &level) {
        return compileForMicrocontroller(op, level, unwrap(name), states,
                                         timing);
      });
  if (failed(program))
    return wrap(failure());
  callback(toStringRef(program->step.object), userData);
  callback(toStringRef(program->plan), userData);
  sizes[0] = program->step.codeBytes;
  sizes[1] = program->step.constBytes;
  sizes[2] = program->step.memoryBytes;
  return wrap(success());
}

MlirLogicalResult reproCPUAnalyze(MlirModule module, MlirStringRef levelName,
                                  unsigned jobs, MlirStringCallback callback,
                                  void *userData) {
  ModuleOp op = unwrap(module);
  FailureOr<CPUAnalysis> analysis =
      makeFor<CPUAnalysis>(op, levelName, [&](const Level &level) {
        return analyzeForCPU(op, level, jobs);
      });
  if (failed(analysis))
    return wrap(failure());
  for (const std::string *text :
       {&analysis->plan, &analysis->kernels, &analysis->assembly})
    callback(toStringRef(*text), userData);
  return wrap(success());
}

ReproLoadedArtifact reproLoadedArtifactCreate(MlirStringRef artifact,
                                              unsigned threads,
                                              MlirStringCallback error,
                                              void *userData) {
  std::string message;
  std::unique_ptr<LoadedArtifact> loaded =
      LoadedArtifact::create(unwrap(artifact), threads ? threads : 1, message);
  if (!loaded)
    error(toStringRef(message), userData);
  return {loaded.release()};
}

void reproLoadedArtifactDestroy(ReproLoadedArtifact loaded) {
  delete static_cast<LoadedArtifact *>(loaded.ptr);
}

intptr_t reproLoadedArtifactGetNumTensors(ReproLoadedArtifact loaded,
                                          ReproTensorKind kind) {
  return getTensors(loaded, kind).size();
}

void reproLoadedArtifactGetTensor(ReproLoadedArtifact loaded,
                                  ReproTensorKind kind, intptr_t index,
                                  MlirStringRef *name, MlirStringRef *element,
                                  uint64_t *bytes, const uint64_t **shape,
                                  intptr_t *rank) {
  const ::repro_runtime::Tensor &tensor = getTensors(loaded, kind)[index];
  *name = toStringRef(tensor.name);
  *element = toStringRef(tensor.element);
  *bytes = tensor.getBytes();
  *shape = tensor.shape.data();
  *rank = tensor.shape.size();
}

uint64_t reproLoadedArtifactGetArenaBytes(ReproLoadedArtifact loaded) {
  return getPlan(loaded).arenaBytes;
}

unsigned reproLoadedArtifactGetThreads(ReproLoadedArtifact loaded) {
  return unwrap(loaded).getExecutor().getThreads();
}

intptr_t reproLoadedArtifactGetNumLaunches(ReproLoadedArtifact loaded) {
  return getPlan(loaded).launches.size();
}

MlirStringRef reproLoadedArtifactGetLaunchKernel(ReproLoadedArtifact loaded,
                                                 intptr_t index) {
  const ::repro_runtime::Plan &plan = getPlan(loaded);
  return toStringRef(plan.kernels[plan.launches[index].kernel].name);
}

static MlirLogicalResult report(const ::repro_runtime::Error &message,
                                MlirStringCallback error, void *userData) {
  if (message.empty())
    return wrap(success());
  error(toStringRef(message), userData);
  return wrap(failure());
}

MlirLogicalResult reproLoadedArtifactRun(ReproLoadedArtifact loaded,
                                         void *const *buffers,
                                         MlirStringCallback error,
                                         void *userData) {
  return report(unwrap(loaded).getExecutor().run(
                    reinterpret_cast<char *const *>(buffers)),
                error, userData);
}

MlirLogicalResult
reproLoadedArtifactProfile(ReproLoadedArtifact loaded, void *const *buffers,
                           const int *counters, intptr_t numCounters,
                           uint64_t *nanoseconds, uint64_t *counts,
                           MlirStringCallback error, void *userData) {
  ::repro_runtime::Profile profile{{counters, counters + numCounters}, {}, {}};
  ::repro_runtime::Error message = unwrap(loaded).getExecutor().profile(
      reinterpret_cast<char *const *>(buffers), profile);
  llvm::copy(profile.nanoseconds, nanoseconds);
  llvm::copy(profile.counts, counts);
  return report(message, error, userData);
}
