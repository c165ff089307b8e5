//===- KernelCost.cpp - Predicted time of tiles ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCost.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The numbers of f64 operations of a correctly rounded function, and of an
/// inverse square root.
static constexpr double kFunctionOperations = 80, kRootOperations = 30;

/// The extent of a tile of results that a contraction keeps in registers. An
/// element of an operand is loaded once for all results of the tile.
static constexpr int64_t kRegisterTile = 4;

/// Returns the cycles of an addition, comparison or similar operation of
/// integers or floats.
static double getSimpleCycles(Type type, double floatCycles,
                              const ManyCore &machine) {
  if (type.isF64())
    return machine.doubleCycles;
  if (isa<FloatType>(type))
    return floatCycles;
  return type.isInteger(64) ? machine.longIntegerCycles : machine.integerCycles;
}

static double getOperationCycles(Operation *op, const ManyCore &machine) {
  Type type = op->getNumOperands() ? op->getOperand(0).getType() : Type();
  if (!type || isa<repro::YieldOp, linalg::YieldOp>(op) ||
      op->hasTrait<OpTrait::ConstantLike>())
    return 0;
  auto simple = [&](double floatCycles) {
    return getSimpleCycles(type, floatCycles, machine);
  };
  return TypeSwitch<Operation *, double>(op)
      .Case<math::FmaOp>([&](auto) { return simple(machine.fmaCycles); })
      .Case<arith::AddFOp, arith::SubFOp, arith::MulFOp>(
          [&](auto) { return simple(machine.addCycles); })
      .Case<arith::DivFOp>([&](auto) { return simple(machine.divideCycles); })
      .Case<math::SqrtOp>(
          [&](auto) { return simple(machine.squareRootCycles); })
      .Case<arith::CmpFOp, arith::MaximumFOp, arith::MinimumFOp, arith::NegFOp,
            arith::CmpIOp, cf::AssertOp>(
          [&](auto) { return simple(machine.compareCycles); })
      .Case<arith::SelectOp>([&](auto) { return machine.compareCycles; })
      .Case<memref::LoadOp>(
          [&](auto) { return machine.loadCycles + machine.integerCycles; })
      .Case<arith::BitcastOp>([&](auto) { return machine.convertCycles; })
      .Case<CastOpInterface>([&](auto) {
        bool isDouble = type.isF64() || op->getResult(0).getType().isF64();
        return isDouble ? machine.doubleCycles : machine.convertCycles;
      })
      .Default([&](Operation *) {
        if (isa<RsqrtOp>(op))
          return kRootOperations * machine.doubleCycles;
        if (isa<ReproDialect>(op->getDialect()))
          return kFunctionOperations * machine.doubleCycles;
        return simple(machine.addCycles);
      });
}

/// Returns the number of words of 32 bits that an element takes.
static double getWords(MemRefType type) {
  return double(
      llvm::divideCeil(launch::getElementBytes(type.getElementType()), 4));
}

/// The stores to the registers of a matrix array that start it: addresses,
/// strides and extents.
static constexpr double kArrayRegisters = 10;

void KernelCost::addMatrix(FoldOp fold, const ManyCore &machine) {
  matrix = CoresDialect::MatrixAttrHelper(fold.getContext()).getAttr(fold);
  if (!matrix)
    return;
  products = *ByteProducts::get(fold);
  double terms = double(products.terms.size());
  cyclesPerCall = terms * (machine.getMatrixCycles(matrix.getSlice()) +
                           kArrayRegisters * machine.storeCycles);
  // The core adds the shifted results of all terms to a sum of 64 bits.
  cyclesPerSum = terms * (machine.loadCycles + 2 * machine.longIntegerCycles) +
                 2 * (machine.loadCycles + machine.storeCycles) +
                 machine.loopCycles;
}

double KernelCost::getMatrixCycles(ArrayRef<Interval> tile) const {
  auto getSize = [&](std::optional<unsigned> loop) {
    return loop ? tile[*loop].size : 1;
  };
  double others = 1;
  for (auto [loop, range] :
       llvm::enumerate(tile.take_front(tiles.getNumLoops())))
    if (products.rowLoop != loop && products.columnLoop != loop &&
        products.depthLoop != loop)
      others *= double(range.size);
  int64_t rows = getSize(products.rowLoop),
          columns = getSize(products.columnLoop),
          slices = llvm::divideCeil(tile[products.depthLoop].size,
                                    matrix.getSlice());
  double calls = double(llvm::divideCeil(rows, matrix.getRows())) *
                 double(llvm::divideCeil(columns, matrix.getColumns())) *
                 double(slices) * others;
  return calls * cyclesPerCall + double(rows) * double(columns) *
                                     double(slices) * others * cyclesPerSum;
}

KernelCost::KernelCost(const KernelTiles &tiles, const ManyCore &machine)
    : tiles(tiles) {
  ArrayRef<KernelAccess> accesses = tiles.getAccesses();
  if (auto fold = dyn_cast<FoldOp>(tiles.getBody()))
    addMatrix(fold, machine);
  if (tiles.getBody()->getNumRegions() == 0) {
    double words = getWords(tiles.getType(0));
    cyclesPerElement =
        words * (machine.loadCycles + machine.storeCycles) + machine.loopCycles;
    // A comparison or an addition per element, and as many steps as a sort of
    // all elements needs.
    if (isa<SortOp>(tiles.getBody()))
      cyclesPerElement *= llvm::Log2_64_Ceil(
          std::max<int64_t>(tiles.getType(0).getNumElements(), 2));
    else if (!isa<memref::CopyOp>(tiles.getBody()))
      cyclesPerElement += machine.addCycles;
    return;
  }
  for (Operation &op : tiles.getBody()->getRegion(0).front())
    cyclesPerIteration += getOperationCycles(&op, machine);
  loopCycles = machine.loopCycles;
  loadCycles = machine.loadCycles;
  for (auto [i, access] : llvm::enumerate(accesses)) {
    double words = getWords(tiles.getType(i));
    if (access.writes)
      cyclesPerResult += words * (machine.storeCycles +
                                  (access.reads ? machine.loadCycles : 0));
  }
}

double KernelCost::getCycles(ArrayRef<Interval> tile) const {
  double elements = 0, results = 0;
  for (auto [i, access] : llvm::enumerate(tiles.getAccesses())) {
    double count = double(getNumElements(tiles.getBox(i, tile)));
    elements = std::max(elements, count);
    if (access.writes)
      results = std::max(results, count);
  }
  if (matrix)
    return getMatrixCycles(tile) + results * cyclesPerResult;
  // Each loop over results that an operand does not depend on uses the loaded
  // elements again, and has its own part of the register tile.
  double cycles = cyclesPerIteration, tileSize = 1;
  bool isFold = isa<FoldOp>(tiles.getBody());
  for (auto [i, access] : llvm::enumerate(tiles.getAccesses())) {
    if (!access.reads || access.writes)
      continue;
    int64_t uses = 1;
    for (unsigned loop : tiles.getAxes())
      if (isFold && loop < tiles.getNumLoops() && !access.dependsOn(loop))
        uses *= std::min(tile[loop].size, kRegisterTile);
    uses = std::min(uses, kRegisterTile);
    tileSize *= double(uses);
    cycles += getWords(tiles.getType(i)) * loadCycles / double(uses);
  }
  cycles += loopCycles / tileSize;
  double iterations = 1;
  for (const Interval &range : tile.take_front(tiles.getNumLoops()))
    iterations *= double(range.size);
  return iterations * cycles + results * cyclesPerResult +
         elements * cyclesPerElement;
}

int64_t cores::getBoxBytes(const KernelTiles &tiles, unsigned access,
                           ArrayRef<Interval> tile) {
  return getNumElements(tiles.getBox(access, tile)) *
         launch::getElementBytes(tiles.getType(access).getElementType());
}
