//===- HostBuilder.h - The body of a kernel of a CPU ------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_KERNELS_HOSTBUILDER_H
#define REPRO_CODEGEN_CPU_KERNELS_HOSTBUILDER_H

#include "Codegen/Common/KernelBuilder.h"
#include "Target/Level.h"

namespace mlir::repro::cpu {

using namespace kernels;

/// Builds the body of a kernel of a CPU, in which each thread runs through a
/// share [begin, end) of the work items, with vectors of the machine.
class HostBuilder : public KernelBuilder {
public:
  HostBuilder(FunctionOpInterface kernel, Operation *op, const Level &level)
      : KernelBuilder(kernel, op), level(level) {}

  FunctionOpInterface getKernel() const { return kernel; }
  const Level &getLevel() const { return level; }
  int64_t getLanes() const override { return level.getLanes(); }
  /// Lanes of a vector of `element` in as many bits as `getLanes()` f32.
  int64_t getNativeLanes(Type element) const;
  /// Elements (type `element`) of a cache line.
  int64_t getLineElements(Type element) const;

  void forEachItem(function_ref<void(Value item)> body) override;
  /// Whether threads share the items: having a few of them is worth something.
  virtual bool isShared() const { return true; }
  virtual Value getBegin();
  virtual Value getEnd();
  void setWork(int64_t items, int64_t grain) override;

  /// At least `bytes` of scratch memory are in use.
  void reserveScratch(int64_t bytes) {
    scratchBytes = std::max(scratchBytes, bytes);
  }

  /// A hint that the line of the element will soon be read or written; nothing
  /// happens where it lies beyond the buffer.
  void prefetch(Value flat, Value offset, bool isWrite);
  /// Whether vectors of f32 and i32 of so many lanes convert in one instruction
  /// each.
  bool canConvertTogether(int64_t lanes) const;
  /// A vector of f32 to i32, toward zero; what i32 has not becomes some
  /// integer.
  Value truncate(Value vector);
  /// A vector of i32 to f32, toward zero.
  Value convertTowardZero(Value vector);
  /// Exchanges rows and lanes of as many vectors as they have lanes, or of
  /// vectors of one lane, which become one vector.
  SmallVector<Value> transpose(SmallVector<Value> rows);
  /// From `from` on as many places as a vector has `lanes`, then one after the
  /// other.
  void forVectors(Value from, Value to, int64_t lanes,
                  function_ref<void(Value at, int64_t count)> body);

  /// Sets the attributes of the contract and erases the structured operation.
  virtual void finish();

protected:
  Value createScratch(MemRefType type, int64_t offset) override;
  void recordFailure(int64_t message) override;

private:
  Value callIntrinsic(StringRef name, Type type, ValueRange operands);

  const Level &level;
  int64_t numItems = 0, grain = 1;
};

} // namespace mlir::repro::cpu

#endif // REPRO_CODEGEN_CPU_KERNELS_HOSTBUILDER_H
