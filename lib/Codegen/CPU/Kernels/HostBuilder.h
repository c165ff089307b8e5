//===- HostBuilder.h - Builds the body of a CPU kernel ----------*- C++ -*-===//
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

/// Builds the body of a CPU kernel, in which each thread runs a share [begin,
/// end) of the work items with vectors of the target.
class HostBuilder : public KernelBuilder {
public:
  HostBuilder(FunctionOpInterface kernel, Operation *op, const Level &level)
      : KernelBuilder(kernel, op), level(level) {}

  FunctionOpInterface getKernel() const { return kernel; }
  const Level &getLevel() const { return level; }
  int64_t getLanes() const override { return level.getLanes(); }
  /// Returns the number of elements of type `element` that fit into a vector of
  /// `getLanes()` f32.
  int64_t getNativeLanes(Type element) const;
  /// Returns the number of elements of type `element` in a cache line.
  int64_t getLineElements(Type element) const;

  void forEachItem(function_ref<void(Value item)> body) override;
  /// Whether threads share the work items, so that several items are useful.
  virtual bool isShared() const { return true; }
  virtual Value getBegin();
  virtual Value getEnd();
  void setWork(int64_t items, int64_t grain) override;

  /// Reserves at least `bytes` of scratch memory.
  void reserveScratch(int64_t bytes) {
    scratchBytes = std::max(scratchBytes, bytes);
  }

  /// Emits a hint that the cache line of the element will soon be read or
  /// written; an address beyond the buffer is ignored.
  void prefetch(Value flat, Value offset, bool isWrite);
  /// Whether one instruction converts `lanes` f32 to i32, and another one
  /// converts `lanes` i32 to f32.
  bool canConvertTogether(int64_t lanes) const;
  /// Converts a vector of f32 to i32 toward zero; values that i32 cannot
  /// represent become an unspecified integer.
  Value truncate(Value vector);
  /// Converts a vector of i32 to f32 toward zero.
  Value convertTowardZero(Value vector);
  /// Transposes a square of vectors, or joins vectors of one lane into one
  /// vector.
  SmallVector<Value> transpose(SmallVector<Value> rows);
  /// Calls `body` for `lanes` elements at a time and then for single elements.
  void forVectors(Value from, Value to, int64_t lanes,
                  function_ref<void(Value at, int64_t count)> body);

  /// Sets the attributes of the kernel contract and erases the structured
  /// operation.
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
