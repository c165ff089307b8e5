//===- ProgramIdentity.cpp - The hash of a canonical program (H2) ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/ProgramIdentity.h"

#include "llvm/Support/BLAKE3.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// Hashes the bytes that are written to it.
class HashStream : public llvm::raw_ostream {
public:
  ~HashStream() override { flush(); }

  ProgramHash finish() {
    flush();
    return blake.final<32>();
  }

private:
  void write_impl(const char *bytes, size_t size) override {
    blake.update(StringRef(bytes, size));
    position += size;
  }
  uint64_t current_pos() const override { return position; }

  llvm::BLAKE3 blake;
  uint64_t position = 0;
};
} // namespace

FailureOr<ProgramHash> repro::hashProgram(ModuleOp module) {
  HashStream stream;
  if (failed(writeBody(module, stream)))
    return failure();
  return stream.finish();
}
