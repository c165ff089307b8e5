//===- VerifyLowered.cpp - Rejects operations with undefined bits ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-verify-lowered (Passes.td), run by lib/Pipelines/CPU.cpp: rejects
// each operation for which `findFault` returns a reason, so that the bits of
// all code that LLVM emits are defined (V3).
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Passes.h"

#include "dialects/Cores/IR/Cores.h"
#include "dialects/Launch/IR/Launch.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROVERIFYLOWERED
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct VerifyLowered
    : public repro::impl::ReproVerifyLoweredBase<VerifyLowered> {
  void runOnOperation() override;
};
} // namespace

/// Returns the reason why the bits of `op` are not defined; empty if they are.
static std::string findFault(Operation *op) {
  // Operations of plans are allowed because they compute nothing.
  if (!isa<LLVM::LLVMDialect, launch::LaunchDialect, cores::CoresDialect>(
          op->getDialect()) &&
      !isa<ModuleOp>(op))
    return "is not of the LLVM dialect";
  if (auto fast = dyn_cast<LLVM::FastmathFlagsInterface>(op))
    if (auto flags = fast.getFastmathAttr();
        flags && flags.getValue() != LLVM::FastmathFlags::none)
      return "has the fast-math flags '" +
             LLVM::stringifyFastmathFlags(flags.getValue()) + "'";
  if (isa<LLVM::FMulAddOp>(op))
    return "may or may not fuse";
  if (isa<LLVM::MaxNumOp, LLVM::MinNumOp>(op))
    return "leaves signalling NaNs and the sign of zero open";
  if (isa<LLVM::FPToSIOp, LLVM::FPToUIOp>(op))
    return "is undefined out of range (S3)";
  if (isa<LLVM::FRemOp>(op))
    return "calls a library";
  if (isa<LLVM::vector_reduce_fmax, LLVM::vector_reduce_fmin>(op))
    return "leaves NaNs and the sign of zero open";
  // LLVM may lower these intrinsics to calls to functions of the C library.
  StringRef name = op->getName().stripDialect();
  static constexpr StringRef libraryIntrinsics[] = {
      "intr.acos", "intr.asin",   "intr.atan",  "intr.atan2", "intr.cos",
      "intr.cosh", "intr.exp",    "intr.exp10", "intr.exp2",  "intr.ldexp",
      "intr.log",  "intr.log10",  "intr.log2",  "intr.pow",   "intr.powi",
      "intr.sin",  "intr.sincos", "intr.sinh",  "intr.tan",   "intr.tanh"};
  if (llvm::is_contained(libraryIntrinsics, name))
    return "calls a library (S5)";
  if (auto call = dyn_cast<LLVM::CallOp>(op)) {
    auto callee = call.getCallee();
    if (!callee)
      return "calls an unknown function";
    auto function = SymbolTable::lookupNearestSymbolFrom<LLVM::LLVMFuncOp>(
        op, StringAttr::get(op->getContext(), *callee));
    if (!function || (function.isExternal() && !callee->starts_with("repro_")))
      return "calls '" + callee->str() +
             "', which is not an exact routine of the runtime";
  }
  // (V1) bf16, f16 and f8 are storage types: LLVM's arithmetic on them differs
  // between targets.
  auto isStorage = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isBF16() || element.isF16();
  };
  if (isa<LLVM::FAddOp, LLVM::FCmpOp, LLVM::FDivOp, LLVM::FMAOp, LLVM::FMulOp,
          LLVM::FSubOp, LLVM::SqrtOp>(op) &&
      isStorage(op->getOperand(0).getType()))
    return "computes on a storage type (V1)";
  return {};
}

void VerifyLowered::runOnOperation() {
  bool failed = false;
  getOperation().walk([&](Operation *op) {
    if (std::string fault = findFault(op); !fault.empty()) {
      op->emitOpError("(V3) ") << fault;
      failed = true;
    }
  });
  if (failed)
    signalPassFailure();
}
