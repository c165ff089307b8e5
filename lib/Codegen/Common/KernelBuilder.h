//===- KernelBuilder.h - Builder for kernel bodies --------------*- C++ -*-===//
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

/// The access of a structured operation to one operand: iteration point d
/// accesses element `buffer[expression(d)]` of a rank-1 buffer.
struct Access {
  /// The operand's memory as a memref<n x T>, where T is the storage type; null
  /// for a scalar operand.
  Value buffer;
  Value scalar;
  Type element;
  AffineExpr expression;
  /// If `linear`: expression = sum of coefficients[i] * d[i] + constant.
  bool linear = true;
  SmallVector<int64_t> coefficients;
  int64_t constant = 0;

  bool isMemory() const { return buffer != nullptr; }
};

/// The active lanes of a vector: the first `count` lanes of `mask` are set. A
/// null mask means all lanes.
struct LaneMask {
  Value mask;
  Value count;
  explicit operator bool() const { return mask != nullptr; }
};

/// Builds the body of a kernel function that replaces its structured operation,
/// for any target. Derived builders implement threads and memory.
class KernelBuilder : public ImplicitLocOpBuilder {
public:
  KernelBuilder(FunctionOpInterface kernel, Operation *op);
  virtual ~KernelBuilder() = default;

  /// Builds a loop over the work items of this thread.
  virtual void forEachItem(function_ref<void(Value item)> body) = 0;
  /// Declares that the kernel has `items` independent work items, and that
  /// fewer than `grain` of them are not worth a thread.
  virtual void setWork(int64_t items, int64_t grain) = 0;
  /// Returns the number of f32 lanes of a vector register; 0 for a target
  /// without vectors.
  virtual int64_t getLanes() const = 0;

  /// Returns `count` elements of per-thread scratch memory, aligned to 64
  /// bytes.
  Value getScratch(Type element, int64_t count);

  /// Records a failed check if `condition` (i1) is false.
  void check(Value condition, Operation *origin);

  // Index arithmetic, folded if possible.
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
  /// Returns the coordinates of row-major index `linear` in a space of extents
  /// `sizes`.
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
  /// Returns a memref of static shape and strides as rank 1 with elements of
  /// the storage type.
  Value flatten(Value memref);
  Access getAccess(Value operand, AffineMap map);
  /// Returns the position of the element at `coordinates`, one per dimension.
  Value getOffset(const Access &access, ValueRange coordinates);
  /// Loads the element (of type `element`) at `offset` of a flattened buffer.
  Value load(Value flat, Type element, Value offset);
  void store(Value value, Value flat, Value offset);
  /// Loads `lanes` elements at `offset`, `stride` apart.
  Value loadVector(Value flat, Type element, Value offset, int64_t stride,
                   int64_t lanes, LaneMask mask = {});
  /// Loads the elements at `offsets` as a vector in storage type: LLVM would
  /// round a bf16 again when inserting it into a vector.
  Value gather(Value flat, Type element, ValueRange offsets);
  void storeVector(Value vector, Value flat, Value offset, int64_t stride,
                   LaneMask mask = {});
  /// Stores the lanes [first, end) of a vector, `stride` (1 or 2) apart; lane 0
  /// is at `offset`.
  void storeLanes(Value vector, Value flat, Value offset, int64_t stride,
                  Value first, Value end);
  /// Returns a mask of the first `count` of `lanes` lanes.
  LaneMask getMask(Value count, int64_t lanes);

  // Values.
  Value constant(TypedAttr value);
  /// Returns zero of a scalar or vector type.
  Value zero(Type type);
  Value broadcast(Value scalar, int64_t lanes);
  /// (V4) Replaces NaNs in a scalar or vector by the canonical NaN.
  Value canonicalizeNaN(Value value);
  /// (S2) Returns the maximum or minimum of f32 or f64, scalars or vectors: NaN
  /// wins, -0 < +0. Expanded here because arith-expand does not order zeros.
  Value createExtremum(bool maximum, Value a, Value b);
  /// (F7), (V1) Converts between a storage type and an accumulator type.
  Value convertFloat(Value value, Type element);

protected:
  /// Converts a scalar or vector to its storage type, and back.
  Value toStorage(Value value);
  Value fromStorage(Value value, Type element);
  /// Returns `type` at byte `offset` of the thread's scratch memory.
  virtual Value createScratch(MemRefType type, int64_t offset) = 0;
  /// Records that the check with message number `message` has failed.
  virtual void recordFailure(int64_t message) = 0;

  FunctionOpInterface kernel;
  int64_t scratchBytes = 0; ///< bytes in use per thread
  /// Flattened buffers and scratch views are created before this operation.
  Operation *prologueEnd;

private:
  Value loadDescending(Value flat, VectorType type, Value offset,
                       LaneMask mask);
  /// Loads every second element: also loads the elements in between, and
  /// discards them.
  Value loadEverySecond(Value flat, VectorType type, Value offset,
                        LaneMask mask);
  /// Returns memory for a vector whose single lanes are accessed by index.
  Value getLaneSlot(VectorType type);

  llvm::DenseMap<Value, Value> flattened;
  llvm::DenseMap<Type, Value> laneSlots;
};

/// Returns the type of an element in memory: an i1 is a byte, since a vector of
/// i1 would be loaded as bits; floats of less than 32 bits are integers, since
/// not all targets move vectors of them.
Type getStorageType(Type element);

/// Returns the bytes of `count` elements, rounded up to a cache line.
int64_t getScratchBytes(Type element, int64_t count);

/// Returns `type`, or a vector of it if `lanes` > 0.
Type getLaneType(Type type, int64_t lanes);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_KERNELBUILDER_H
