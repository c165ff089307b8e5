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

/// Builds the body of a CPU kernel. Each thread runs work items [begin, end),
/// with vectors of the target's width.
class HostBuilder : public KernelBuilder {
public:
  HostBuilder(FunctionOpInterface kernel, Operation *op, const Level &level)
      : KernelBuilder(kernel, op), level(level) {}

  FunctionOpInterface getKernel() const { return kernel; }
  const Level &getLevel() const { return level; }
  int64_t getLanes() const override { return level.getLanes(); }
  /// Returns the number of lanes of a vector of `element`: half of `getLanes()`
  /// for types of 64 bits if there are several, otherwise `getLanes()`.
  int64_t getNativeLanes(Type element) const;
  /// Returns how many elements of type `element` fit into a cache line.
  int64_t getLineElements(Type element) const;

  void forEachItem(function_ref<void(Value item)> body) override;
  /// Whether several threads run the kernel, each with a part of the work
  /// items.
  virtual bool isShared() const { return true; }
  virtual Value getBegin();
  virtual Value getEnd();
  void setWork(int64_t items, int64_t grain) override;

  /// Makes the kernel's scratch memory at least `bytes` bytes.
  void reserveScratch(int64_t bytes) {
    scratchBytes = std::max(scratchBytes, bytes);
  }

  /// Prefetches the cache line of element `offset` of the buffer. Offsets
  /// beyond the buffer are allowed.
  void prefetch(Value flat, Value offset, bool isWrite);
  /// Whether the target converts `lanes` f32 elements to i32 with one
  /// instruction, and `lanes` i32 elements to f32 with one.
  bool canConvertTogether(int64_t lanes) const;
  /// Converts a vector of f32 to i32 toward zero. The result is unspecified for
  /// values that i32 cannot represent.
  Value truncate(Value vector);
  /// Converts a vector of i32 to f32, rounding toward zero.
  Value convertTowardZero(Value vector);
  /// Transposes n vectors of n lanes, or joins n vectors of one lane into one.
  SmallVector<Value> transpose(SmallVector<Value> rows);
  /// Calls `body` for `lanes` elements of [from, to) at a time, and then for
  /// each remaining element on its own.
  void forVectors(Value from, Value to, int64_t lanes,
                  function_ref<void(Value at, int64_t count)> body);

  /// Sets the function attributes of a kernel and erases the operation.
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
