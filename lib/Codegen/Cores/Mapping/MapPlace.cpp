//===- MapPlace.cpp - Assign pieces to cores ------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-place (Passes.td): assigns the pieces of each launch to cores.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Mapping/Passes.h"
#include "Mapping.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPPLACE
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

namespace {
struct MapPlace : public repro::impl::ReproMapPlaceBase<MapPlace> {
  using ReproMapPlaceBase::ReproMapPlaceBase;
  void runOnOperation() override;
};
} // namespace

/// Returns the numbers of the cores along a snake through the rows.
static SmallVector<int64_t> listSnake(const ManyCore &machine) {
  std::vector<ManyCore::Point> cores = machine.listCores();
  llvm::stable_sort(cores, [](ManyCore::Point a, ManyCore::Point b) {
    if (a[1] != b[1])
      return a[1] < b[1];
    return a[1] % 2 == 0 ? a[0] < b[0] : a[0] > b[0];
  });
  SmallVector<int64_t> numbers;
  for (ManyCore::Point core : cores)
    numbers.push_back(core[1] * machine.getColumns() + core[0]);
  return numbers;
}

void MapPlace::runOnOperation() {
  std::string error;
  FailureOr<ManyCore> description = getManyCore(machine, error);
  if (failed(description)) {
    getOperation().emitError(error);
    return signalPassFailure();
  }
  launch::PlanOp plan = findPlan(getOperation());
  if (!plan)
    return signalPassFailure();
  FailureOr<std::vector<MappedLaunch>> launches = listLaunches(plan);
  if (failed(launches))
    return signalPassFailure();
  SmallVector<int64_t> snake = listSnake(*description);
  Builder builder(&getContext());
  for (const MappedLaunch &launch : *launches) {
    FailureOr<ArrayRef<int64_t>> partition = getNumbers(
        launch.dispatch, CoresDialect::PartitionAttrHelper::getNameStr(),
        launch.tiles.getAxes().size(), "repro-map-partition");
    if (failed(partition))
      return signalPassFailure();
    size_t pieces = launch.listPieces(*partition).size();
    if (pieces > snake.size()) {
      launch.dispatch.emitOpError("expected at most ")
          << snake.size() << " pieces, one for each core of '"
          << description->name << "', got " << pieces;
      return signalPassFailure();
    }
    launch.dispatch->setAttr(
        CoresDialect::PlaceAttrHelper::getNameStr(),
        builder.getDenseI64ArrayAttr(ArrayRef(snake).take_front(pieces)));
  }
}
