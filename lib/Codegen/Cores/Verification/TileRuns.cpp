//===- TileRuns.cpp - The tiles that each core runs -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileRuns.h"

#include "Codegen/Cores/Lowering/KernelChecks.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

static ArrayRef<int64_t> getTileSizes(const MappedLaunch &launch) {
  return launch.dispatch
      ->getAttrOfType<DenseI64ArrayAttr>(
          CoresDialect::TileAttrHelper::getNameStr())
      .asArrayRef();
}

SmallVector<SmallVector<Interval>>
TileRuns::listTiles(const Piece &piece) const {
  const MappedLaunch &launch = launches[piece.launch];
  return launch.listTiles(piece.range, getTileSizes(launch));
}

FailureOr<TileRuns> TileRuns::get(ArrayRef<MappedLaunch> launches,
                                  int64_t columns) {
  TileRuns runs(launches);
  for (auto [number, launch] : llvm::enumerate(launches)) {
    size_t numAxes = launch.tiles.getAxes().size();
    FailureOr<ArrayRef<int64_t>> partition = getNumbers(
        launch.dispatch, CoresDialect::PartitionAttrHelper::getNameStr(),
        numAxes, "repro-map-partition");
    FailureOr<ArrayRef<int64_t>> sizes =
        getNumbers(launch.dispatch, CoresDialect::TileAttrHelper::getNameStr(),
                   numAxes, "repro-map-tile");
    if (failed(partition) || failed(sizes))
      return failure();
    if (llvm::is_contained(*partition, 0) || llvm::is_contained(*sizes, 0))
      return launch.dispatch.emitOpError(
          "expected pieces and tiles along each axis");
    SmallVector<SmallVector<Interval>> ranges;
    if (!launch.isEmpty())
      ranges = launch.listPieces(*partition);
    FailureOr<ArrayRef<int64_t>> place =
        getNumbers(launch.dispatch, CoresDialect::PlaceAttrHelper::getNameStr(),
                   ranges.size(), "repro-map-place");
    if (failed(place))
      return failure();
    bool checks = hasChecks(launch.tiles.getKernel());
    for (auto [range, core] : llvm::zip_equal(ranges, *place)) {
      ManyCore::Point point = {core % columns, core / columns};
      Piece piece{unsigned(number), range};
      if (checks)
        runs.checks[point] += runs.listTiles(piece).size();
      runs.cores[point].pieces.push_back(std::move(piece));
    }
  }
  return runs;
}

std::optional<TileRuns::Run> TileRuns::takeNext(ManyCore::Point point) {
  Core &core = cores[point];
  while (core.nextTile == core.tiles.size()) {
    if (core.nextPiece == core.pieces.size())
      return std::nullopt;
    core.tiles = listTiles(core.pieces[core.nextPiece++]);
    core.nextTile = 0;
  }
  return Run{core.pieces[core.nextPiece - 1].launch,
             core.tiles[core.nextTile++]};
}

std::optional<ManyCore::Point> TileRuns::findUnfinished() const {
  for (const auto &[point, core] : cores)
    if (core.nextTile < core.tiles.size() ||
        core.nextPiece < core.pieces.size())
      return point;
  return std::nullopt;
}

bool TileRuns::isFunctionOf(func::FuncOp function, const Run &run) {
  const KernelTiles &tiles = launches[run.launch].tiles;
  std::vector<Run> &list = known[function];
  for (const Run &other : list)
    if (launches[other.launch].tiles.getKernel() == tiles.getKernel() &&
        tiles.haveSameFunction(other.tile, run.tile))
      return true;
  OwningOpRef<func::FuncOp> expected =
      tiles.createTile(run.tile, function.getSymName());
  // The predicted cycles and the size of the scratch memory change no result.
  for (StringRef name : {CoresDialect::CyclesAttrHelper::getNameStr(),
                         CoresDialect::ScratchAttrHelper::getNameStr()})
    if (Attribute attr = function->getAttr(name))
      expected.get()->setAttr(name, attr);
  if (!OperationEquivalence::isEquivalentTo(
          function, *expected, OperationEquivalence::IgnoreLocations))
    return false;
  list.push_back(run);
  return true;
}
