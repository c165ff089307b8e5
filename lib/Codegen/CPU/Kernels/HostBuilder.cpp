//===- HostBuilder.cpp - Builds the body of a CPU kernel ------------------===//
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
             ? std::max<int64_t>(getLanes() / 2, 1)
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

Value HostBuilder::callIntrinsic(StringRef name, Type type,
                                 ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(*this, type, getStringAttr(name),
                                       operands)
      .getResults();
}

Value HostBuilder::truncate(Value vector) {
  int64_t lanes = cast<VectorType>(vector.getType()).getDimSize(0);
  Type integers = VectorType::get({lanes}, getI32Type());
  if (level.machine == ::repro_runtime::Machine::AArch64)
    return callIntrinsic("llvm.aarch64.neon.fcvtzs.v4i32.v4f32", integers,
                         vector);
  if (lanes == 4)
    return callIntrinsic("llvm.x86.sse2.cvttps2dq", integers, vector);
  if (lanes == 8)
    return callIntrinsic("llvm.x86.avx.cvtt.ps2dq.256", integers, vector);
  // Mask -1 converts all lanes. 4 stands for the current rounding mode, which a
  // truncating conversion ignores.
  return callIntrinsic("llvm.x86.avx512.mask.cvttps2dq.512", integers,
                       {vector, zero(integers),
                        constant(getIntegerAttr(getIntegerType(16), -1)),
                        constant(getI32IntegerAttr(4))});
}

Value HostBuilder::convertTowardZero(Value vector) {
  int64_t lanes = cast<VectorType>(vector.getType()).getDimSize(0);
  Type floats = VectorType::get({lanes}, getF32Type());
  Type integers = vector.getType();
  // 3 selects rounding toward zero, and 8 suppresses exceptions.
  if (lanes == 16)
    return callIntrinsic("llvm.x86.avx512.sitofp.round.v16f32.v16i32", floats,
                         {vector, constant(getI32IntegerAttr(3 | 8))});
  auto splat = [&](int32_t value) {
    return constant(DenseElementsAttr::get(cast<VectorType>(integers), value));
  };
  auto toIntegers = [&](Value value) -> Value {
    return arith::BitcastOp::create(*this, integers, value);
  };
  // `value` is rounded to nearest. If that increased the magnitude,
  // `difference` is negative, and 1 is subtracted from the bits of `value`,
  // which gives the next float toward zero.
  auto takeExcess = [&](Value value, Value difference) -> Value {
    return arith::AddIOp::create(
        *this, toIntegers(value),
        arith::ShRSIOp::create(*this, difference, splat(31)));
  };
  if (level.machine != ::repro_runtime::Machine::AArch64) {
    Value value = arith::SIToFPOp::create(*this, floats, vector);
    // If `value` is 2^31, truncating it gives -2^31; the subtraction wraps and
    // still gives the right sign.
    Value lost = arith::SubIOp::create(*this, vector, truncate(value));
    Value ofMagnitude = callIntrinsic(lanes == 4 ? "llvm.x86.ssse3.psign.d.128"
                                                 : "llvm.x86.avx2.psign.d",
                                      integers, {lost, vector});
    return arith::BitcastOp::create(*this, floats,
                                    takeExcess(value, ofMagnitude));
  }
  // INT32_MAX is rounded to 2^31, which truncation saturates to INT32_MAX, so
  // the difference would be 0. Rounding INT32_MAX - 1 toward zero gives the
  // same float as rounding INT32_MAX.
  Value magnitude = arith::MinSIOp::create(
      *this, math::AbsIOp::create(*this, vector), splat(INT32_MAX - 1));
  Value value = arith::SIToFPOp::create(*this, floats, magnitude);
  Value bits = takeExcess(
      value, arith::SubIOp::create(*this, magnitude, truncate(value)));
  Value sign = arith::AndIOp::create(*this, vector, splat(INT32_MIN));
  return arith::BitcastOp::create(*this, floats,
                                  arith::OrIOp::create(*this, bits, sign));
}

void HostBuilder::forVectors(Value from, Value to, int64_t lanes,
                             function_ref<void(Value at, int64_t count)> body) {
  Value full = sub(to, rem(sub(to, from), lanes));
  loop(from, full, lanes, [&](Value at) { body(at, lanes); });
  loop(full, to, 1, [&](Value at) { body(at, 1); });
}

SmallVector<Value> HostBuilder::transpose(SmallVector<Value> rows) {
  int64_t size = rows.size();
  auto rowType = cast<VectorType>(rows[0].getType());
  if (rowType.getNumElements() == 1 && size > 1) {
    for (Value &row : rows)
      row = vector::ExtractOp::create(*this, row, 0);
    auto type = VectorType::get({size}, rowType.getElementType());
    return {vector::FromElementsOp::create(*this, type, rows)};
  }
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
