//===- GPU.cpp - C API for NVIDIA devices ---------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/GPU.h"

#include "Pipelines/GPU.h"
#include "Runtime/FloatEnvironment.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace mlir::repro;

static MlirStringRef toStringRef(StringRef text) {
  return mlirStringRefCreate(text.data(), text.size());
}

void reproGPUArchitectures(MlirStringCallback callback, void *userData) {
  std::string names = listArchitectures();
  callback(toStringRef(names), userData);
}

MlirLogicalResult reproGPUCompile(MlirModule module, MlirStringRef name,
                                  bool timing, MlirStringCallback callback,
                                  void *userData) {
  ModuleOp op = unwrap(module);
  std::string error;
  FailureOr<Architecture> architecture = getArchitecture(unwrap(name), error);
  if (failed(architecture)) {
    op.emitError(error);
    return wrap(failure());
  }
  // (V2) The compiler evaluates constants with the CPU's float instructions, so
  // it needs the float environment of programs.
  ::repro_runtime::FloatEnvironment environment;
  FailureOr<DeviceCode> code = compileForGPU(op, *architecture, timing);
  if (failed(code))
    return wrap(failure());
  for (const std::string &part : {code->ptx, code->plan, code->constants})
    callback(toStringRef(part), userData);
  return wrap(success());
}
