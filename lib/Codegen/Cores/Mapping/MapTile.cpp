//===- MapTile.cpp - Cut pieces into tiles --------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-map-tile (Passes.td): chooses for each launch the extents of its
// tiles, so that their buffers and scratch memory fit into a core.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cores/Mapping/Passes.h"
#include "Mapping.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/Support/MathExtras.h"

#include <map>

namespace mlir::repro {
#define GEN_PASS_DEF_REPROMAPTILE
#include "lib/Codegen/Cores/Mapping/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// Each round makes at least one tile smaller, or is the last one.
static constexpr int kMostRounds = 64;

namespace {
struct MapTile : public repro::impl::ReproMapTileBase<MapTile> {
  using ReproMapTileBase::ReproMapTileBase;
  void runOnOperation() override;
};

/// The choice for all launches of one kernel with one partition.
struct Choice {
  const MappedLaunch *launch;
  ArrayRef<int64_t> partition;
  SmallVector<Interval> piece;
  PieceGrid grid;
  Tiling tiling;
  std::optional<int64_t> scratch; ///< of all tiles of the chosen tiling
};
} // namespace

/// Names the tensor that a buffer of a launch belongs to.
static std::string describe(const Place &place, launch::PlanOp plan) {
  auto argument = dyn_cast<BlockArgument>(place.root);
  if (!argument)
    return "a constant";
  if (argument == plan.getArena())
    return "a temporary";
  auto name = cast<StringAttr>(plan.getNames()[argument.getArgNumber()]);
  return name.getValue().empty() ? "an argument"
                                 : ("'" + name.getValue() + "'").str();
}

static SmallVector<Interval> getFirstTile(const Choice &choice) {
  SmallVector<Interval> tile(choice.piece);
  for (auto [loop, size] :
       llvm::zip_equal(choice.launch->tiles.getAxes(), choice.tiling.sizes))
    tile[loop].size = size;
  return tile;
}

/// Sets the scratch memory of all choices that do not have it.
static LogicalResult addScratch(ArrayRef<Choice *> choices,
                                MLIRContext *context) {
  SmallVector<OwningOpRef<func::FuncOp>> owned;
  SmallVector<func::FuncOp> functions;
  SmallVector<Choice *> open;
  for (Choice *choice : choices) {
    if (choice->scratch)
      continue;
    // A tile at an end of a piece can need more than a larger tile, because
    // its rows are not whole vectors.
    for (ArrayRef<Interval> tile : choice->launch->listTileShapes(
             choice->partition, choice->tiling.sizes)) {
      owned.push_back(choice->launch->tiles.createTile(tile, "tile"));
      functions.push_back(*owned.back());
      open.push_back(choice);
    }
  }
  FailureOr<SmallVector<int64_t>> bytes = getScratchBytes(functions, context);
  if (failed(bytes))
    return failure();
  for (auto [choice, scratch] : llvm::zip_equal(open, *bytes))
    choice->scratch = std::max(choice->scratch.value_or(0),
                               int64_t(llvm::alignTo(scratch, 64)));
  return success();
}

/// Reports that not even the smallest tile fits next to the scratch memory.
static void reportOverflow(const Choice &choice, int64_t scratch,
                           launch::PlanOp plan, const ManyCore &machine) {
  const MappedLaunch &launch = *choice.launch;
  SmallVector<Interval> tile = getFirstTile(choice);
  unsigned largest = 0;
  for (unsigned i = 1; i < launch.tiles.getAccesses().size(); ++i)
    if (getBoxBytes(launch.tiles, i, tile) >
        getBoxBytes(launch.tiles, largest, tile))
      largest = i;
  int64_t bytes = getBoxBytes(launch.tiles, largest, tile);
  int64_t needed =
      llvm::alignTo(choice.tiling.bytes, 64) + scratch + kErrorBytes;
  std::string reason;
  llvm::raw_string_ostream(reason)
      << "expected an operation whose smallest tile fits into the "
      << machine.dataBytes << " data bytes of a core of '" << machine.name
      << "': the tile needs " << needed << " bytes, of which "
      << describe(launch.places[largest], plan) << " of type '"
      << launch.places[largest].type << "' takes " << bytes;
  Location loc = launch.tiles.getBody()->getLoc();
  std::string place;
  if (!isa<UnknownLoc>(loc))
    llvm::raw_string_ostream(place) << loc << ": ";
  CoresDialect::OverflowAttrHelper(plan.getContext())
      .setAttr(plan->getParentOp(),
               StringAttr::get(plan.getContext(), place + reason));
  emitError(loc) << reason << "; use a machine of at least " << needed
                 << " data bytes a core";
}

void MapTile::runOnOperation() {
  FailureOr<MappingInput> input = readMappingInput(getOperation(), machine);
  if (failed(input))
    return signalPassFailure();
  auto &[description, plan, launches] = *input;
  if (multicasts != "time" && multicasts != "all" && multicasts != "none") {
    plan.emitError("expected multicasts=time, multicasts=all or "
                   "multicasts=none, got multicasts=")
        << multicasts;
    return signalPassFailure();
  }

  std::map<std::pair<Operation *, std::vector<int64_t>>, Choice> known;
  SmallVector<Choice *> choices, ofLaunch;
  int64_t usable = getUsableBytes(description);
  for (const MappedLaunch &launch : launches) {
    FailureOr<ArrayRef<int64_t>> partition = getNumbers(
        launch.dispatch, CoresDialect::PartitionAttrHelper::getNameStr(),
        launch.tiles.getAxes().size(), "repro-map-partition");
    if (failed(partition))
      return signalPassFailure();
    if (llvm::is_contained(*partition, 0)) {
      launch.dispatch.emitOpError(
          "expected at least one piece along each axis");
      return signalPassFailure();
    }
    auto [found, isNew] = known.try_emplace(
        {launch.tiles.getKernel().getOperation(), partition->vec()});
    Choice &choice = found->second;
    ofLaunch.push_back(&choice);
    if (!isNew)
      continue;
    choice.launch = &launch;
    choice.partition = *partition;
    choice.piece = launch.getLargestPiece(*partition);
    choice.grid = launch.getGrid(*partition, description);
    if (multicasts == "none")
      llvm::fill(choice.grid.sharers, 1);
    if (launch.isEmpty()) {
      choice.tiling.sizes.assign(partition->size(), 1);
      continue;
    }
    choice.tiling =
        chooseTiling(launch, choice.piece, choice.grid, usable, description);
    choices.push_back(&choice);
  }

  // The scratch memory has one place in a core, which no tile's buffers take.
  // Smaller tiles need less of it.
  int64_t scratch = 0;
  int rounds = 0;
  auto shrink = [&](Choice &choice, int64_t budget) {
    Tiling smaller = chooseTiling(*choice.launch, choice.piece, choice.grid,
                                  budget, description);
    if (smaller.bytes >= choice.tiling.bytes)
      return false;
    if (smaller.sizes != choice.tiling.sizes)
      choice.scratch.reset();
    choice.tiling = std::move(smaller);
    return true;
  };
  for (bool changed = true; changed && rounds < kMostRounds; ++rounds) {
    changed = false;
    if (failed(addScratch(choices, &getContext())))
      return signalPassFailure();
    for (Choice *choice : choices)
      if (*choice->scratch > usable / 4)
        changed |=
            shrink(*choice, std::max(choice->tiling.bytes / 2, int64_t(1)));
    if (changed)
      continue;
    scratch = 0;
    for (Choice *choice : choices)
      scratch = std::max(scratch, *choice->scratch);
    for (Choice *choice : choices)
      if (choice->tiling.bytes > usable - scratch)
        changed |= shrink(*choice, usable - scratch);
  }
  Builder builder(&getContext());
  CoresDialect::ScratchAttrHelper(&getContext())
      .setAttr(plan, builder.getI64IntegerAttr(scratch));
  for (auto [launch, choice] : llvm::zip_equal(launches, ofLaunch)) {
    if (choice->tiling.bytes > usable - scratch) {
      reportOverflow(*choice, scratch, plan, description);
      return signalPassFailure();
    }
    launch.dispatch->setAttr(
        CoresDialect::TileAttrHelper::getNameStr(),
        builder.getDenseI64ArrayAttr(choice->tiling.sizes));
    SmallVector<int64_t> chosen = choice->tiling.multicasts;
    if (multicasts == "all") {
      chosen.clear();
      for (auto [access, sharers] : llvm::enumerate(choice->grid.sharers))
        if (sharers > 1)
          chosen.push_back(access);
    }
    StringRef name = CoresDialect::MulticastAttrHelper::getNameStr();
    launch.dispatch->removeAttr(name);
    if (!chosen.empty())
      launch.dispatch->setAttr(name, builder.getDenseI64ArrayAttr(chosen));
  }
}
