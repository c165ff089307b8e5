//===- Cores.cpp - C API for machines of many cores -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Cores.h"

#include "Codegen/CPU/Execution/LoadedCorePlan.h"
#include "Pipelines/Cores.h"
#include "Runtime/FloatEnvironment.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace mlir::repro;

static repro_simulator::Simulator &unwrap(ReproLoadedCorePlan loaded) {
  return static_cast<LoadedCorePlan *>(loaded.ptr)->getSimulator();
}

static MlirStringRef toStringRef(StringRef text) {
  return mlirStringRefCreate(text.data(), text.size());
}

/// Passes the result of `make` to `callback`.
template <typename Make>
static MlirLogicalResult makeText(MlirStringCallback callback, void *userData,
                                  Make make) {
  // (V2) The compiler evaluates constants with the CPU's float instructions, so
  // it needs the float environment of programs.
  ::repro_runtime::FloatEnvironment environment;
  FailureOr<std::string> made = make();
  if (succeeded(made))
    callback(toStringRef(*made), userData);
  return wrap(success(succeeded(made)));
}

MlirLogicalResult reproCoresCompile(MlirModule module,
                                    MlirStringRef machineName,
                                    MlirStringRef levelName, unsigned jobs,
                                    bool timing, MlirStringCallback callback,
                                    void *userData) {
  ModuleOp op = unwrap(module);
  std::string error;
  FailureOr<Level> level = getLevel(unwrap(levelName), error);
  if (failed(level))
    return wrap(op.emitError(error));
  return makeText(callback, userData, [&] {
    return compileForCores(op, unwrap(machineName), *level, jobs, timing);
  });
}

MlirLogicalResult reproCoresDescribe(MlirModule module,
                                     MlirStringRef machineName,
                                     MlirStringCallback callback,
                                     void *userData) {
  return makeText(callback, userData, [&] {
    return describeForCores(unwrap(module), unwrap(machineName));
  });
}

ReproLoadedCorePlan reproLoadedCorePlanCreate(MlirStringRef plan,
                                              MlirStringCallback error,
                                              void *userData) {
  std::string message;
  std::unique_ptr<LoadedCorePlan> loaded =
      LoadedCorePlan::create(unwrap(plan), message);
  if (!loaded)
    error(toStringRef(message), userData);
  return {loaded.release()};
}

void reproLoadedCorePlanDestroy(ReproLoadedCorePlan loaded) {
  delete static_cast<LoadedCorePlan *>(loaded.ptr);
}

static const std::vector<::repro_runtime::Tensor> &
getTensors(ReproLoadedCorePlan loaded, ReproTensorKind kind) {
  const repro_simulator::CorePlan &plan = unwrap(loaded).getPlan();
  return kind == ReproTensorState   ? plan.states
         : kind == ReproTensorInput ? plan.inputs
                                    : plan.outputs;
}

intptr_t reproLoadedCorePlanGetNumTensors(ReproLoadedCorePlan loaded,
                                          ReproTensorKind kind) {
  return getTensors(loaded, kind).size();
}

void reproLoadedCorePlanGetTensor(ReproLoadedCorePlan loaded,
                                  ReproTensorKind kind, intptr_t index,
                                  MlirStringRef *name, MlirStringRef *element,
                                  const uint64_t **shape, intptr_t *rank) {
  const ::repro_runtime::Tensor &tensor = getTensors(loaded, kind)[index];
  *name = toStringRef(tensor.name);
  *element = toStringRef(tensor.element);
  *shape = tensor.shape.data();
  *rank = tensor.shape.size();
}

ReproSimulationOutcome
reproLoadedCorePlanRun(ReproLoadedCorePlan loaded, void *const *buffers,
                       bool timeline, bool (*isInterrupted)(void),
                       MlirStringCallback report, MlirStringCallback error,
                       void *userData) {
  repro_simulator::Simulator &simulator = unwrap(loaded);
  repro_simulator::Report measured;
  measured.hasTimeline = timeline;
  std::string message;
  repro_simulator::Outcome outcome =
      simulator.run(reinterpret_cast<char *const *>(buffers), isInterrupted,
                    measured, message);
  if (outcome != repro_simulator::Outcome::Success) {
    error(toStringRef(message), userData);
    return outcome == repro_simulator::Outcome::CheckFailed
               ? ReproSimulationCheckFailed
           : outcome == repro_simulator::Outcome::WrongPlan
               ? ReproSimulationWrongPlan
               : ReproSimulationInterrupted;
  }
  report(
      toStringRef(repro_simulator::writeReport(
          measured, simulator.getPlan(), simulator.getMachine().callSeconds)),
      userData);
  return ReproSimulationSuccess;
}
