//===- HostBuilder.cpp - The body of a kernel of a CPU --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostBuilder.h"

#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Launch/IR/Launch.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cpu;

int64_t HostBuilder::getNativeLanes(Type element) const {
  return element.isF64() || element.isInteger(64) || element.isIndex()
             ? getLanes() / 2
             : getLanes();
}

int64_t HostBuilder::getLineElements(Type element) const {
  return level.lineBytes / launch::getElementBytes(element);
}

void HostBuilder::forEachItem(function_ref<void(Value)> body) {
  loop(getBegin(), getEnd(), 1, body);
}

Value HostBuilder::getBegin() {
  return launch::KernelSignature(kernel).getBegin();
}

Value HostBuilder::getEnd() { return launch::KernelSignature(kernel).getEnd(); }

void HostBuilder::setWork(int64_t items, int64_t grain) {
  numItems = items;
  this->grain = std::max<int64_t>(grain, 1);
}

void HostBuilder::prefetch(Value flat, Value offset, bool isWrite) {
  memref::PrefetchOp::create(*this, flat, offset, isWrite,
                             /*localityHint=*/3, /*isDataCache=*/true);
}

bool HostBuilder::canConvertTogether(int64_t lanes) const {
  if (level.machine == ::repro_runtime::Machine::AArch64)
    return lanes == 4;
  return lanes == getLanes() && (lanes == 4 || lanes == 8 || lanes == 16);
}

Value HostBuilder::truncate(Value vector) {
  int64_t lanes = cast<VectorType>(vector.getType()).getDimSize(0);
  Type integers = VectorType::get({lanes}, getI32Type());
  auto call = [&](StringRef name, ValueRange operands) -> Value {
    return LLVM::CallIntrinsicOp::create(*this, integers, getStringAttr(name),
                                         operands)
        .getResults();
  };
  if (level.machine == ::repro_runtime::Machine::AArch64)
    return call("llvm.aarch64.neon.fcvtzs.v4i32.v4f32", vector);
  if (lanes == 4)
    return call("llvm.x86.sse2.cvttps2dq", vector);
  if (lanes == 8)
    return call("llvm.x86.avx.cvtt.ps2dq.256", vector);
  // All lanes, in the mode of the control register, which does not matter.
  return call("llvm.x86.avx512.mask.cvttps2dq.512",
              {vector, zero(integers), constant(getIntegerAttr(getIntegerType(16), -1)),
               constant(getI32IntegerAttr(4))});
}

Value HostBuilder::convertTowardZero(Value vector) {
  int64_t lanes = cast<VectorType>(vector.getType()).getDimSize(0);
  Type floats = VectorType::get({lanes}, getF32Type());
  Type integers = vector.getType();
  if (lanes == 16) {
    // The mode is in the instruction, without exceptions.
    Value mode = constant(getI32IntegerAttr(3 | 8));
    return LLVM::CallIntrinsicOp::create(
               *this, floats,
               getStringAttr("llvm.x86.avx512.sitofp.round.v16f32.v16i32"),
               ValueRange{vector, mode})
        .getResults();
  }
  auto splat = [&](int32_t value) {
    return constant(DenseElementsAttr::get(cast<VectorType>(integers), value));
  };
  // What was rounded up is more than the magnitude. Of 2^31 - 1 no machine's
  // conversion back says so that saturates; 2^31 - 2 has the same result.
  Value magnitude = math::AbsIOp::create(*this, vector);
  if (level.machine == ::repro_runtime::Machine::AArch64)
    magnitude =
        arith::MinSIOp::create(*this, magnitude, splat(INT32_MAX - 1));
  Value value = arith::SIToFPOp::create(*this, floats, magnitude);
  Value excess = arith::ShRSIOp::create(
      *this, arith::SubIOp::create(*this, magnitude, truncate(value)),
      splat(31));
  Value bits = arith::AddIOp::create(
      *this, arith::BitcastOp::create(*this, integers, value), excess);
  Value sign = arith::AndIOp::create(*this, vector, splat(INT32_MIN));
  return arith::BitcastOp::create(*this, floats,
                                  arith::OrIOp::create(*this, bits, sign));
}

SmallVector<Value> HostBuilder::transpose(SmallVector<Value> rows) {
  int64_t size = rows.size();
  for (int64_t step = 1; step < size; step *= 2) {
    SmallVector<int64_t> lower, upper;
    for (int64_t lane = 0; lane < size; ++lane) {
      bool second = lane & step;
      lower.push_back(second ? size + lane - step : lane);
      upper.push_back(second ? size + lane : lane + step);
    }
    for (int64_t row = 0; row < size; ++row) {
      if (row & step)
        continue;
      Value a = rows[row], c = rows[row + step];
      rows[row] = vector::ShuffleOp::create(*this, a, c, lower);
      rows[row + step] = vector::ShuffleOp::create(*this, a, c, upper);
    }
  }
  return rows;
}

void HostBuilder::finish() {
  launch::LaunchDialect::WorkAttrHelper(getContext())
      .setAttr(kernel, launch::WorkAttr::get(getContext(), numItems, grain,
                                             scratchBytes));
  prologueEnd->erase();
}

Value HostBuilder::createScratch(MemRefType type, int64_t offset) {
  Value scratch = launch::KernelSignature(kernel).getScratch();
  return memref::ViewOp::create(*this, type, scratch, index(offset),
                                ValueRange());
}

void HostBuilder::recordFailure(int64_t message) {
  Value error = launch::KernelSignature(kernel).getError();
  memref::StoreOp::create(*this, constant(getI64IntegerAttr(message + 1)),
                          error, index(0));
}
