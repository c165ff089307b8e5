//===- Machines.cpp - C API for machines of many cores --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Machines.h"

#include "Target/ManyCore.h"

#include "mlir/CAPI/Support.h"

using namespace mlir;
using namespace mlir::repro;

static MlirStringRef toStringRef(StringRef text) {
  return mlirStringRefCreate(text.data(), text.size());
}

void reproManyCoreMachines(MlirStringCallback callback, void *userData) {
  std::string names = listManyCores();
  callback(toStringRef(names), userData);
}

MlirLogicalResult reproManyCoreText(MlirStringRef nameOrPath,
                                    MlirStringCallback callback,
                                    MlirStringCallback error, void *userData) {
  std::string reason;
  FailureOr<ManyCore> machine = getManyCore(unwrap(nameOrPath), reason);
  if (failed(machine)) {
    error(toStringRef(reason), userData);
    return wrap(failure());
  }
  callback(toStringRef(machine->text), userData);
  return wrap(success());
}

double reproManyCoreMatrixCycles(MlirStringRef nameOrPath, int64_t depth,
                                 MlirStringCallback error, void *userData) {
  std::string reason;
  FailureOr<ManyCore> machine = getManyCore(unwrap(nameOrPath), reason);
  if (succeeded(machine) && machine->matrixDepth > 0)
    return machine->getMatrixCycles(depth);
  if (succeeded(machine))
    reason = machine->name + " has no array of multipliers";
  error(toStringRef(reason), userData);
  return 0;
}
