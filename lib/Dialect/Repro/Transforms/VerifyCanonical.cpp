//===- VerifyCanonical.cpp - The contract of canonical programs -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-verify-canonical (Passes.td), run by
// lib/Pipelines/{ImportPipelines,Schedule}.cpp: reports violations of the
// contract "canonical program" of docs/contributors/architecture.md and changes
// nothing.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalProgram.h"
#include "Dialect/Repro/Transforms/Passes.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROVERIFYCANONICAL
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct VerifyCanonical
    : public repro::impl::ReproVerifyCanonicalBase<VerifyCanonical> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(verifyCanonicalProgram(getOperation())))
      signalPassFailure();
  }
};
} // namespace
