//===- FuseElementwise.cpp -----------------------------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Codegen/CPU/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROFUSEELEMENTWISE
#include "dialects/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct FuseElementwise : public repro::impl::ReproFuseElementwiseBase<FuseElementwise> {
  void runOnOperation() override {}
};
} // namespace
