//===- ReadPlan.cpp - Reads the launch plan of a CPU ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/ReadPlan.h"

using namespace mlir;
using namespace mlir::repro;

FailureOr<TranslatedPlan> mlir::repro::readPlan(ModuleOp module) {
  SymbolTable symbols(module);
  auto describe = [&](launch::DispatchOp dispatch,
                      ::repro_runtime::Kernel &kernel) -> LogicalResult {
    Operation *function =
        symbols.lookup(dispatch.getKernel().getRootReference());
    launch::WorkAttr work =
        launch::LaunchDialect::WorkAttrHelper(module.getContext())
            .getAttr(function);
    if (!work)
      return function->emitError("expected a kernel that repro-expand-kernels "
                                 "expanded, with its work and scratch set");
    kernel.items = work.getItems();
    kernel.grain = work.getGrain();
    kernel.scratchBytes = work.getScratchBytes();
    return success();
  };
  return translatePlan(module, ::repro_runtime::Processor::CPU, describe);
}
