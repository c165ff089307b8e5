//===- VerifyPTX.cpp - Only instructions whose bits are defined -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Codegen/GPU/Passes.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROVERIFYPTX
#include "dialects/Codegen/GPU/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct VerifyPTX : public repro::impl::ReproVerifyPTXBase<VerifyPTX> {
  void runOnOperation() override {}
};
} // namespace
