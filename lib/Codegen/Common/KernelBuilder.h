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

/// How a structured operation accesses an operand: the iteration with indices d
/// reads or writes element `buffer[expression(d)]` of a rank-1 buffer.
struct Access {
  /// The operand's memory as a memref<n x T> of the storage type T; null if the
  /// operand is a scalar.
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

/// The active lanes of a vector: the first `count` lanes, which are set in
/// `mask`. If `mask` is null, all lanes are active.
struct LaneMask {
  Value mask;
  Value count;
  explicit operator bool() const { return mask != nullptr; }
};

/// Builds the body of a kernel function, which replaces the structured
/// operation in it. A derived class for each target implements threads and
/// memory.
class KernelBuilder : public ImplicitLocOpBuilder {
public:
  KernelBuilder(FunctionOpInterface kernel, Operation *op);
  virtual ~KernelBuilder() = default;

  /// Builds a loop over the work items of this thread.
  virtual void forEachItem(function_ref<void(Value item)> body) = 0;
  /// Declares that the kernel has `items` independent work items. Another
  /// thread is not worthwhile for fewer than `grain` items.
  virtual void setWork(int64_t items, int64_t grain) = 0;
  /// Returns the number of f32 lanes of a vector register; 0 if the target has
  /// no vectors.
  virtual int64_t getLanes() const = 0;

  /// Returns a buffer of `count` elements in this thread's scratch memory,
  /// aligned to 64 bytes.
  Value getScratch(Type element, int64_t count);

  /// Emits the check (E1) of `origin`, which fails if `condition` (i1) is
  /// false.
  void check(Value condition, Operation *origin);

  // Arithmetic on indices. Operations on constants are folded.
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
  /// Returns the coordinates of the element with row-major index `linear` in a
  /// space of extents `sizes`.
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
  /// Returns a memref with static shape and strides as a rank-1 memref. The
  /// elements of the result have their type in memory (getStorageType).
  Value flatten(Value memref);
  Access getAccess(Value operand, AffineMap map);
  /// Returns the offset in the buffer of the element at `coordinates`, which
  /// has one coordinate for each dimension.
  Value getOffset(const Access &access, ValueRange coordinates);
  /// Loads the element at `offset` of a buffer that `flatten` returned, as type
  /// `element`.
  Value load(Value flat, Type element, Value offset);
  void store(Value value, Value flat, Value offset);
  /// Loads `lanes` elements that are `stride` elements apart, from `offset` on.
  Value loadVector(Value flat, Type element, Value offset, int64_t stride,
                   int64_t lanes, LaneMask mask = {});
  /// Loads the elements at `offsets` as a vector, which is assembled from
  /// integers: LLVM would round a bf16 again when inserting it into a vector.
  Value gather(Value flat, Type element, ValueRange offsets);
  void storeVector(Value vector, Value flat, Value offset, int64_t stride,
                   LaneMask mask = {});
  /// Stores lanes [first, end) of a vector, `stride` (1 or 2) elements apart.
  /// Lane 0 belongs at `offset`.
  void storeLanes(Value vector, Value flat, Value offset, int64_t stride,
                  Value first, Value end);
  /// Returns a mask with the first `count` of `lanes` lanes active.
  LaneMask getMask(Value count, int64_t lanes);

  // Values.
  Value constant(TypedAttr value);
  /// Returns the constant 0 of a scalar or vector type.
  Value zero(Type type);
  Value broadcast(Value scalar, int64_t lanes);
  /// (V4) Returns the scalar or vector `value` with every NaN replaced by the
  /// canonical NaN.
  Value canonicalizeNaN(Value value);
  /// (S2) Returns the maximum or minimum of f32 or f64 scalars or vectors: NaN
  /// wins, and -0 < +0. (MLIR's arith-expand does not order zeros.)
  Value createExtremum(bool maximum, Value a, Value b);
  /// (F7), (V1) Converts a float to `element`: from a storage type to an
  /// accumulator type, or back.
  Value convertFloat(Value value, Type element);

protected:
  /// Convert a scalar or vector to the type it has in memory (getStorageType),
  /// and back.
  Value toStorage(Value value);
  Value fromStorage(Value value, Type element);
  /// Returns a buffer of `type` at byte `offset` of this thread's scratch
  /// memory.
  virtual Value createScratch(MemRefType type, int64_t offset) = 0;
  /// Emits code that records the failure of the check with number `message`.
  virtual void recordFailure(int64_t message) = 0;

  FunctionOpInterface kernel;
  int64_t scratchBytes = 0; ///< bytes in use per thread
  /// Flattened buffers and scratch views are created before this operation.
  Operation *prologueEnd;

private:
  Value loadDescending(Value flat, VectorType type, Value offset,
                       LaneMask mask);
  /// Returns every second element. Loads the elements in between too, but
  /// discards them.
  Value loadEverySecond(Value flat, VectorType type, Value offset,
                        LaneMask mask);
  /// Returns scratch memory for one vector, to access its lanes by a run-time
  /// index.
  Value getLaneSlot(VectorType type);

  llvm::DenseMap<Value, Value> flattened;
  llvm::DenseMap<Type, Value> laneSlots;
};

/// Returns the type that an element has in memory. An i1 takes a byte, because
/// LLVM loads the elements of a vector of i1 as single bits. Floats of less
/// than 32 bits are integers, because not all targets move vectors of them.
Type getStorageType(Type element);

/// Returns the size of `count` elements in bytes, rounded up to 64.
int64_t getScratchBytes(Type element, int64_t count);

/// Returns a vector of `lanes` elements of `type`, or `type` if `lanes` is 0.
Type getLaneType(Type type, int64_t lanes);

} // namespace mlir::repro::kernels

#endif // REPRO_CODEGEN_COMMON_KERNELBUILDER_H
