//===- Pieces.cpp - The pieces of launches on their cores -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pieces.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

FailureOr<ArrayRef<int64_t>> cores::getTileSizes(const MappedLaunch &launch) {
  FailureOr<ArrayRef<int64_t>> sizes =
      getNumbers(launch.dispatch, CoresDialect::TileAttrHelper::getNameStr(),
                 launch.tiles.getAxes().size(), "repro-map-tile");
  if (succeeded(sizes) && llvm::is_contained(*sizes, 0))
    return launch.dispatch.emitOpError("expected tiles along each axis");
  return sizes;
}

FailureOr<PlacedPieces> cores::placePieces(ArrayRef<MappedLaunch> launches,
                                           const ManyCore &machine) {
  PlacedPieces result;
  DenseMap<int64_t, unsigned> numbers; // of cores that are used
  int64_t columns = machine.getColumns();
  for (const MappedLaunch &launch : launches) {
    std::vector<PlacedPiece> &list = result.ofLaunch.emplace_back();
    FailureOr<ArrayRef<int64_t>> partition = getNumbers(
        launch.dispatch, CoresDialect::PartitionAttrHelper::getNameStr(),
        launch.tiles.getAxes().size(), "repro-map-partition");
    if (failed(partition))
      return failure();
    if (llvm::is_contained(*partition, 0))
      return launch.dispatch.emitOpError("expected pieces along each axis");
    SmallVector<SmallVector<Interval>> ranges;
    if (!launch.isEmpty())
      ranges = launch.listPieces(*partition);
    FailureOr<ArrayRef<int64_t>> place =
        getNumbers(launch.dispatch, CoresDialect::PlaceAttrHelper::getNameStr(),
                   ranges.size(), "repro-map-place");
    if (failed(place))
      return failure();
    llvm::SmallDenseSet<unsigned> used;
    for (auto [range, core] : llvm::zip_equal(ranges, *place)) {
      ManyCore::Point point = {core % columns, core / columns};
      if (!machine.hasCore(point))
        return launch.dispatch.emitOpError("expected cores of '")
               << machine.name << "', got number " << core;
      auto [found, isNew] = numbers.try_emplace(core, result.cores.size());
      if (isNew)
        result.cores.push_back(point);
      if (!used.insert(found->second).second)
        return launch.dispatch.emitOpError(
            "expected pieces on different cores");
      PlacedPiece &piece = list.emplace_back();
      piece.core = found->second;
      piece.range = range;
      for (unsigned i = 0; i < launch.tiles.getAccesses().size(); ++i)
        piece.boxes.push_back(launch.tiles.getBox(i, range));
    }
  }
  return result;
}
