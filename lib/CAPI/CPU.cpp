//===- CPU.cpp - C API of compiling for and running on CPUs ---------------===//
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

static Executable &unwrap(ReproExecutable executable) {
  return *static_cast<Executable *>(executable.ptr);
}

static const ::repro_runtime::Plan &getPlan(ReproExecutable executable) {
  return unwrap(executable).getExecutor().getPlan();
}

static const std::vector<::repro_runtime::Tensor> &
getTensors(ReproExecutable executable, ReproTensorKind kind) {
  const ::repro_runtime::Plan &plan = getPlan(executable);
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
  const Level &host = getHostLevel();
  std::string names;
  for (const Level &level : getLevels())
    if (level.machine == host.machine && level.vectorWidth <= host.vectorWidth)
      names += (names.empty() ? "" : ", ") + level.name;
  callback(toStringRef(names), userData);
}

MlirLogicalResult reproCPUCompile(MlirModule module, MlirStringRef levelName,
                                  unsigned jobs, bool timing,
                                  MlirStringCallback callback, void *userData) {
  ModuleOp op = unwrap(module);
  std::string error;
  FailureOr<Level> level = getLevel(unwrap(levelName), error);
  if (failed(level)) {
    op.emitError(error);
    return wrap(failure());
  }
  ::repro_runtime::FloatEnvironment environment; // Constants are computed.
  FailureOr<std::string> artifact = compileForCPU(op, *level, jobs, timing);
  if (succeeded(artifact))
    callback(toStringRef(*artifact), userData);
  return wrap(success(succeeded(artifact)));
}

ReproExecutable reproExecutableCreate(MlirStringRef artifact, unsigned threads,
                                      MlirStringCallback error,
                                      void *userData) {
  std::string message;
  std::unique_ptr<Executable> executable =
      Executable::create(unwrap(artifact), threads ? threads : 1, message);
  if (!executable)
    error(toStringRef(message), userData);
  return {executable.release()};
}

void reproExecutableDestroy(ReproExecutable executable) {
  delete static_cast<Executable *>(executable.ptr);
}

intptr_t reproExecutableGetNumTensors(ReproExecutable executable,
                                      ReproTensorKind kind) {
  return getTensors(executable, kind).size();
}

void reproExecutableGetTensor(ReproExecutable executable, ReproTensorKind kind,
                              intptr_t index, MlirStringRef *name,
                              MlirStringRef *element, uint64_t *bytes,
                              const uint64_t **shape, intptr_t *rank) {
  const ::repro_runtime::Tensor &tensor = getTensors(executable, kind)[index];
  *name = toStringRef(tensor.name);
  *element = toStringRef(tensor.element);
  *bytes = tensor.bytes;
  *shape = tensor.shape.data();
  *rank = tensor.shape.size();
}

uint64_t reproExecutableGetArenaBytes(ReproExecutable executable) {
  return getPlan(executable).arenaBytes;
}

unsigned reproExecutableGetThreads(ReproExecutable executable) {
  return unwrap(executable).getExecutor().getThreads();
}

intptr_t reproExecutableGetNumLaunches(ReproExecutable executable) {
  return getPlan(executable).launches.size();
}

MlirStringRef reproExecutableGetLaunchKernel(ReproExecutable executable,
                                             intptr_t index) {
  const ::repro_runtime::Plan &plan = getPlan(executable);
  return toStringRef(plan.kernels[plan.launches[index].kernel].name);
}

MlirLogicalResult reproExecutableRun(ReproExecutable executable,
                                     void *const *buffers,
                                     uint64_t *nanoseconds,
                                     MlirStringCallback error, void *userData) {
  ::repro_runtime::Executor &executor = unwrap(executable).getExecutor();
  auto *pointers = reinterpret_cast<char *const *>(buffers);
  ::repro_runtime::Error message;
  if (nanoseconds) {
    std::vector<uint64_t> times;
    message = executor.profile(pointers, times);
    llvm::copy(times, nanoseconds);
  } else {
    message = executor.run(pointers);
  }
  if (message.empty())
    return wrap(success());
  error(toStringRef(message), userData);
  return wrap(failure());
}
