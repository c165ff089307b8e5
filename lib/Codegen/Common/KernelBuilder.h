//===- KernelBuilder.h - Loops over the work items of a kernel --*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_COMMON_KERNELBUILDER_H
#define REPRO_CODEGEN_COMMON_KERNELBUILDER_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::repro::kernels {

/// How a structured operation reads or writes one operand: the element at
/// iteration point d is `buffer[expression(d)]`, buffer being rank 1.
struct Access {
  /// The operand's memory as memref<n x T>, T being its storage type; null for
  /// a scalar operand.
  Value buffer;
  Value scalar;
  Type element;
  AffineExpr expression;
  /// expression = sum of coefficients[i] * d[i] + constant, if `linear`.
  bool linear = true;
  SmallVector<int64_t> coefficients;
  int64_t constant = 0;

  bool isMemory() const { return buffer != nullptr; }
};

/// The lanes of a vector that take part: `mask` (null: all) has its first
/// `count` lanes set.
struct LaneMask {
  Value mask;
  Value count;
  explicit operator bool() const { return mask != nullptr; }
};

/// Builds the body of a kernel function in place of its structured operation,
/// for any target: what threads there are, and where they have their memory, is
/// the business of the builder that derives from this one.
class KernelBuilder : public ImplicitLocOpBuilder {
public:
  KernelBuilder(FunctionOpInterface kernel, Operation *op);
  virtual ~KernelBuilder() = default;

  /// Runs through the work items that are this thread's.
  virtual void forEachItem(function_ref<void(Value item)> body) = 0;
  /// The kernel has `items` independent work items, of which shares of fewer
  /// than `grain` are not worth a thread.
  virtual void setWork(int64_t items, int64_t grain) = 0;
  /// f32 lanes of a vector register; 0: scalars alone.
  virtual int64_t getLanes() const = 0;

  /// `count` elements of per-thread scratch memory, 64-byte aligned.
  Value getScratch(Type element, int64_t count);

  /// Records a failed check: `condition` (i1) is false.
  void check(Value condition, Operation *origin);

  // Index arithmetic, folded where possible.
  Value index(int64_t value);
  Value add(Value a, Value b);
  Value add(Value a, int64_t b) { return add(a, index(b)); }
  Value sub(Value a, Value b);
  Value mul(Value a, int64_t b);
  Value mul(Value a, Value b);
  Value div(Value a, int64_t b);
  Value rem(Value a, int64_t b);
  Value min(Value a, Value b);
  Value max(Value a, Value b);
  Value less(Value a, Value b);
  Value equal(Value a, Value b);
  Value select(Value condition, Value a, Value b);
  /// The coordinates of row-major `linear` in a space of `sizes`.
  virtual SmallVector<Value> delinearize(Value linear, ArrayRef<int64_t> sizes);

  // Control flow.
  void loop(Value lower, Value upper, int64_t step,
            function_ref<void(Value)> body);
  SmallVector<Value>
  loop(Value lower, Value upper, int64_t step, ValueRange inits,
       function_ref<SmallVector<Value>(Value, ValueRange)> body);
  void when(Value condition, function_ref<void()> then,
            function_ref<void()> otherwise = {});
  SmallVector<Value> choose(Value condition,
                            function_ref<SmallVector<Value>()> then,
                            function_ref<SmallVector<Value>()> otherwise);

  // Memory.
  /// The memory of a memref of static shape and strides, as rank 1 with
  /// elements of the storage type.
  Value flatten(Value memref);
  Access getAccess(Value operand, AffineMap map);
  /// Position of the element at `coordinates`, one per dimension.
  Value getOffset(const Access &access, ValueRange coordinates);
  /// The element (type `element`) at `offset` of a flattened buffer.
  Value load(Value flat, Type element, Value offset);
  void store(Value value, Value flat, Value offset);
  /// `lanes` elements from `offset` on, `stride` apart.
  Value loadVector(Value flat, Type element, Value offset, int64_t stride,
                   int64_t lanes, LaneMask mask = {});
  /// A vector of the elements at `offsets`, taken together as they are stored:
  /// LLVM would round a bf16 again that becomes an element of a vector.
  Value gather(Value flat, Type element, ValueRange offsets);
  void storeVector(Value vector, Value flat, Value offset, int64_t stride,
                   LaneMask mask = {});
  /// The lanes [first, end) of a vector whose elements are 1 or 2 apart; lane 0
  /// is at `offset`.
  void storeLanes(Value vector, Value flat, Value offset, int64_t stride,
                  Value first, Value end);
  /// The first `count` of `lanes` lanes.
  LaneMask getMask(Value count, int64_t lanes);

  // Values.
  Value constant(TypedAttr value);
  /// The constant `value` of a float or integer type or a vector of it.
  Value zero(Type type);
  Value broadcast(Value scalar, int64_t lanes);
  /// (V4) NaNs become the canonical one; scalars and vectors.
  Value canonicalizeNaN(Value value);
  /// (S2) maximum or minimum of f32 or f64, scalars or vectors: NaN wins,
  /// -0 < +0. Written out, as arith-expand does not tell zeros apart.
  Value createExtremum(bool maximum, Value a, Value b);
  /// (F7), (V1) between a storage type and the type of an accumulator.
  Value convertFloat(Value value, Type element);

protected:
  /// Memory form of a value, scalar or vector, and back.
  Value toStorage(Value value);
  Value fromStorage(Value value, Type element);
  /// `type` at byte `offset` of the thread's scratch memory.
  virtual Value createScratch(MemRefType type, int64_t offset) = 0;
  /// Message number `message` has failed.
  virtual void recordFailure(int64_t message) = 0;

  FunctionOpInterface kernel;
  int64_t scratchBytes = 0; ///< per thread, in use
  /// Flattened buffers and scratch views are created before this operation.
  Operation *prologueEnd;

private:
  Value loadDescending(Value flat, VectorType type, Value offset,
                       LaneMask mask);
  /// With vectors of what lies between, too, of which nothing is used.
  Value loadEverySecond(Value flat, VectorType type, Value offset,
                        LaneMask mask);
  /// Memory for a vector of which single lanes are taken.
  Value getLaneSlot(VectorType type);

  llvm::DenseMap<Value, Value> flattened;
  llvm::DenseMap<Type, Value> laneSlots;
};

/// The type that holds an element in memory. An i1 is a byte there, but a
/// vector of i1 would be loaded as bits; the floats of less than 32 bits are
/// integers, as not all targets move vectors of them.
Type getStorageType(Type element);

/// Bytes that `count` elements take in memory, up to the next line of a cache.
int64_t getScratchBytes(Type element, int64_t count);

/// `type` or, for lanes > 0, a vector of it.
Type getLaneType(Type type, int64_t lanes);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_KERNELBUILDER_H
