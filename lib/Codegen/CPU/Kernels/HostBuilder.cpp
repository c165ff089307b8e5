//===- HostBuilder.cpp - The body of a kernel of a CPU --------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Kernels/HostBuilder.h"

#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Launch/IR/Launch.h"

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
