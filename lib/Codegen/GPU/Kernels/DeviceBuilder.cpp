//===- DeviceBuilder.cpp - Builds the body of a device kernel -------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/GPU/Kernels/DeviceBuilder.h"

#include "dialects/Launch/IR/KernelSignature.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::device;

/// The maximum number of threads per launch. If there are more work items, each
/// thread processes several.
static constexpr int64_t kMaxThreads = int64_t(1) << 20;
/// The maximum size in bytes of the scratch memory of all threads together.
static constexpr int64_t kMaxScratch = int64_t(64) << 20;

DeviceBuilder::DeviceBuilder(gpu::GPUFuncOp kernel, Operation *op,
                             Workspace &workspace, int64_t failureWords,
                             const Architecture &architecture)
    : KernelBuilder(kernel, op), workspace(workspace),
      failureWords(failureWords), architecture(architecture) {}

Value DeviceBuilder::createPlaceholder() {
  return UnrealizedConversionCastOp::create(*this, TypeRange(getIndexType()),
                                            ValueRange())
      .getResult(0);
}

void DeviceBuilder::numberThreads() {
  if (thread)
    return;
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(prologueEnd);
  threads = createPlaceholder();
  items = createPlaceholder();
  thread = add(mul(getBlockId(), kBlock), getThreadId());
}

int64_t DeviceBuilder::getAlignment(Value operand) {
  auto argument = dyn_cast<BlockArgument>(operand);
  if (!argument || argument.getArgNumber() >= kernel.getNumArguments())
    return 1;
  auto attr = kernel.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                   "llvm.align");
  return attr ? attr.getInt() : 1;
}

Value DeviceBuilder::createTile(ArrayRef<int64_t> shape, Type element) {
  auto space = gpu::AddressSpaceAttr::get(
      getContext(), gpu::GPUDialect::getWorkgroupAddressSpace());
  auto type =
      MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space);
  auto function = cast<gpu::GPUFuncOp>(kernel.getOperation());
  BlockArgument tile = function.addWorkgroupAttribution(type, getLoc());
  function.setWorkgroupAttributionAttr(function.getNumWorkgroupAttributions() -
                                           1,
                                       "llvm.align", getI64IntegerAttr(16));
  return tile;
}

/// Returns the alignment of a vector access of `lanes` elements: its size, but
/// at most 16 bytes, the most that hardware moves at once.
static llvm::MaybeAlign getVectorAlignment(Type element, int64_t lanes) {
  int64_t bytes = element.getIntOrFloatBitWidth() / 8 * lanes;
  return llvm::Align(std::min<int64_t>(bytes, 16));
}

Value DeviceBuilder::loadAligned(Value memref, Type element, ValueRange indices,
                                 int64_t lanes) {
  Type storage = cast<MemRefType>(memref.getType()).getElementType();
  Value loaded = vector::LoadOp::create(
      *this, VectorType::get({lanes}, storage), memref, indices,
      /*nontemporal=*/false, getVectorAlignment(storage, lanes));
  return fromStorage(loaded, element);
}

void DeviceBuilder::storeAligned(Value vector, Value memref,
                                 ValueRange indices) {
  Value stored = toStorage(vector);
  auto type = cast<VectorType>(stored.getType());
  vector::StoreOp::create(
      *this, stored, memref, indices, /*nontemporal=*/false,
      getVectorAlignment(type.getElementType(), type.getDimSize(0)));
}

Value DeviceBuilder::getBlockId(gpu::Dimension dimension) {
  return gpu::BlockIdOp::create(*this, dimension);
}

Value DeviceBuilder::getThreadId(gpu::Dimension dimension) {
  return gpu::ThreadIdOp::create(*this, dimension);
}

void DeviceBuilder::barrier() { gpu::BarrierOp::create(*this); }

SmallVector<Value>
DeviceBuilder::chooseOrAny(Value condition,
                           function_ref<SmallVector<Value>()> then) {
  SmallVector<Value> values;
  return choose(
      condition, [&] { return values = then(); },
      [&] {
        return llvm::map_to_vector(values, [&](Value value) -> Value {
          return ub::PoisonOp::create(*this, value.getType());
        });
      });
}

void DeviceBuilder::forEachItem(function_ref<void(Value)> body) {
  numberThreads();
  auto loop = scf::ForOp::create(*this, thread, items, threads);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void DeviceBuilder::setWork(int64_t items, int64_t) {
  hasOwnItems = true;
  numItems = items;
}

Value DeviceBuilder::createScratch(MemRefType type, int64_t offset) {
  numberThreads();
  if (!scratch) {
    scratchBegin = createPlaceholder();
    scratchSize = createPlaceholder();
    scratch = add(scratchBegin, mul(thread, scratchSize));
  }
  Value memory = launch::DeviceKernelSignature(kernel).getWorkspace();
  return memref::ViewOp::create(*this, type, memory, add(scratch, offset),
                                ValueRange());
}

Value DeviceBuilder::getWorkspace(Type element, int64_t count, int64_t offset) {
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(prologueEnd);
  Value memory = launch::DeviceKernelSignature(kernel).getWorkspace();
  return memref::ViewOp::create(
      *this, MemRefType::get({count}, kernels::getStorageType(element)), memory,
      index(offset), ValueRange());
}

/// (E1) Earlier messages have greater numbers in the error word, so the maximum
/// over all threads belongs to the first message.
void DeviceBuilder::recordFailure(int64_t message) {
  Value error = launch::DeviceKernelSignature(kernel).getError();
  memref::AtomicRMWOp::create(
      *this, arith::AtomicRMWKind::maxu,
      constant(getI64IntegerAttr(failureWords - message)), error,
      ValueRange{index(0)});
}

SmallVector<Value> DeviceBuilder::delinearize(Value linear,
                                              ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= std::max<int64_t>(size, 1);
  if (sizes.size() < 2 || product > INT32_MAX)
    return KernelBuilder::delinearize(linear, sizes);
  // Divides in 32 bits, which is several times faster than in 64 bits.
  Type i32 = getI32Type();
  Value rest = arith::IndexCastUIOp::create(*this, i32, linear);
  SmallVector<Value> coordinates(sizes.size());
  size_t outermost = 0;
  while (outermost + 1 < sizes.size() && sizes[outermost] == 1)
    ++outermost;
  for (size_t i = sizes.size(); i-- > 0;) {
    Value at = rest;
    if (i < outermost || (sizes[i] <= 1 && i > outermost)) {
      coordinates[i] = index(0);
      continue;
    }
    if (i > outermost) {
      Value size = constant(getI32IntegerAttr(sizes[i]));
      at = createOrFold<arith::RemUIOp>(rest, size);
      rest = createOrFold<arith::DivUIOp>(rest, size);
    }
    coordinates[i] = arith::IndexCastUIOp::create(*this, getIndexType(), at);
  }
  return coordinates;
}

void DeviceBuilder::finish() {
  if (hasOwnItems) {
    empty = numItems == 0;
    int64_t count = std::min(std::max<int64_t>(numItems, 1), kMaxThreads);
    if (scratchBytes)
      count = std::min(count, std::max<int64_t>(kMaxScratch / scratchBytes, 1));
    launch.block[0] = std::min((count + 31) / 32 * 32, kBlock);
    launch.grid[0] = llvm::divideCeil(count, launch.block[0]);
  }
  int64_t numThreads = launch.grid[0] * launch.block[0];
  auto fill = [&](Value placeholder, int64_t value) {
    if (!placeholder)
      return;
    Operation *origin = placeholder.getDefiningOp();
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPoint(origin);
    placeholder.replaceAllUsesWith(index(value));
    origin->erase();
  };
  fill(threads, numThreads);
  fill(items, numItems);
  fill(scratchSize, scratchBytes);
  fill(scratchBegin,
       scratchBytes ? workspace.allocate(numThreads * scratchBytes) : 0);
  prologueEnd->erase();
}
