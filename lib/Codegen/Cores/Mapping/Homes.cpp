//===- Homes.cpp - Tensors in the memories of cores -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Homes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

int64_t PartCopy::getRowBytes(int64_t elementBytes) const {
  int64_t row = 1;
  for (auto [extent, from, to] :
       llvm::reverse(llvm::zip_equal(extents, sourceStrides, targetStrides))) {
    if (from != row || to != row)
      break;
    row *= extent;
  }
  return row * elementBytes;
}

int64_t PartCopy::getBytes(int64_t elementBytes) const {
  int64_t count = elementBytes;
  for (int64_t extent : extents)
    count *= extent;
  return count;
}

int64_t cores::getLeastHome(size_t numCores) {
  constexpr int64_t wordBytes = 8;
  return llvm::alignTo(wordBytes * int64_t(numCores), 64);
}

Homes::Homes(ArrayRef<MappedLaunch> launches,
             ArrayRef<std::vector<PlacedPiece>> pieces, Value arena,
             const ManyCore &machine)
    : launches(launches), pieces(pieces), tensors(launches, arena) {
  for (const Tensor &tensor : tensors.tensors) {
    SmallVector<HomeRegion> &list = regions.emplace_back();
    for (auto [launch, access] : tensor.writers) {
      HomeRegion &region = list.emplace_back();
      region.first = launch;
      region.last = tensor.getLast();
      int64_t elementBytes = launch::getElementBytes(
          launches[launch].places[access].type.getElementType());
      for (const PlacedPiece &piece : pieces[launch])
        region.bytes = std::max(
            region.bytes, elementBytes * getNumElements(piece.boxes[access]));
      region.bytes = llvm::alignTo(region.bytes, getLocalAlignment(machine));
    }
  }
}

std::optional<unsigned> Homes::getResidentRead(TensorUse use) const {
  std::optional<unsigned> tensor = tensors.getRead(use);
  return tensor && regions[*tensor].front().isResident() ? tensor
                                                         : std::nullopt;
}

std::optional<unsigned> Homes::getResidentWritten(TensorUse use) const {
  std::optional<unsigned> tensor = tensors.getWritten(use);
  return tensor && regions[*tensor].front().isResident() ? tensor
                                                         : std::nullopt;
}

const HomeRegion *Homes::getWrittenRegion(TensorUse use) const {
  std::optional<unsigned> tensor = getResidentWritten(use);
  if (!tensor)
    return nullptr;
  for (auto [writer, region] :
       llvm::zip_equal(tensors.tensors[*tensor].writers, regions[*tensor]))
    if (writer.launch == use.launch && writer.access == use.access)
      return &region;
  return nullptr;
}

int64_t Homes::getLowest(unsigned launch, int64_t most) const {
  for (ArrayRef<HomeRegion> list : regions)
    for (const HomeRegion &region : list)
      if (region.isResident() && region.first <= launch &&
          launch <= region.last)
        most = std::min(most, region.address);
  return most;
}

LogicalResult Homes::readAttributes(int64_t least, int64_t most) {
  StringRef name = CoresDialect::HomeAttrHelper::getNameStr();
  SmallVector<HomeRegion *> resident;
  for (auto [tensor, list] : llvm::zip_equal(tensors.tensors, regions)) {
    for (auto [writer, region] : llvm::zip_equal(tensor.writers, list)) {
      const MappedLaunch &launch = launches[writer.launch];
      if (!launch.dispatch->hasAttr(name))
        continue;
      auto homes = launch.dispatch->getAttrOfType<DenseI64ArrayAttr>(name);
      if (!homes || homes.size() != int64_t(launch.places.size()))
        return launch.dispatch.emitOpError("expected ")
               << launch.places.size() << " numbers in the attribute '" << name
               << "', which the pass repro-map-place sets";
      region.address = homes[writer.access];
      if (!region.isResident())
        continue;
      if (!tensor.digits || region.address < least ||
          region.address > most - region.bytes || region.address % 16)
        return launch.dispatch.emitOpError("expected a home of ")
               << region.bytes << " bytes between byte " << least << " and "
               << most << " of the memories of cores, got byte "
               << region.address;
      for (const HomeRegion *other : resident)
        if (region.coexists(*other) &&
            region.address < other->address + other->bytes &&
            other->address < region.address + region.bytes)
          return launch.dispatch.emitOpError("expected homes that do not "
                                             "overlap at byte ")
                 << region.address << " of the memories of cores";
      resident.push_back(&region);
    }
    for (const HomeRegion &region : list)
      if (region.isResident() != list.front().isResident())
        return launches[region.first].dispatch.emitOpError(
            "expected that all launches that write a tensor give it a home in "
            "the memories of cores, or none");
  }
  return success();
}

void cores::appendParts(const Tensor &tensor, const Place &place,
                        ArrayRef<Interval> box, unsigned core,
                        std::vector<HomePart> &parts) {
  DigitView view = *DigitView::get(*tensor.digits, place);
  for (Box &digits : view.split(box))
    parts.push_back({core, std::move(digits), view.getLayout(box)});
}

ArrayRef<HomePart> Homes::getParts(unsigned number, unsigned writer) const {
  auto [found, isNew] = parts.try_emplace({number, writer});
  if (isNew) {
    const Tensor &tensor = tensors.tensors[number];
    auto [launch, access] = tensor.writers[writer];
    for (const PlacedPiece &piece : pieces[launch])
      appendParts(tensor, launches[launch].places[access], piece.boxes[access],
                  piece.core, found->second);
  }
  return found->second;
}

/// Returns the common part of two boxes; std::nullopt if it is empty.
static std::optional<Box> intersect(ArrayRef<Interval> a,
                                    ArrayRef<Interval> b) {
  Box common;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    int64_t begin = std::max(x.begin, y.begin);
    int64_t end = std::min(x.begin + x.size, y.begin + y.size);
    if (begin >= end)
      return std::nullopt;
    common.push_back({begin, end - begin});
  }
  return common;
}

/// Appends the boxes that contain what `box` has and `part`, which lies in it,
/// does not have.
static void subtract(Box box, ArrayRef<Interval> part,
                     SmallVectorImpl<Box> &rest) {
  for (unsigned i = 0; i < box.size(); ++i) {
    int64_t begin = box[i].begin, end = begin + box[i].size;
    int64_t partEnd = part[i].begin + part[i].size;
    auto add = [&](int64_t from, int64_t to) {
      if (from >= to)
        return;
      Box side = box;
      side[i] = {from, to - from};
      rest.push_back(std::move(side));
    };
    add(begin, part[i].begin);
    add(partEnd, end);
    box[i] = part[i];
  }
}

SmallVector<PartCopy>
cores::listPartCopies(const Tensor &tensor, unsigned launch, const Place &place,
                      ArrayRef<Interval> box, ArrayRef<HomeRegion> regions,
                      function_ref<ArrayRef<HomePart>(unsigned)> getParts) {
  DigitView view = *DigitView::get(*tensor.digits, place);
  int64_t bytes = tensor.digits->elementBytes;
  DigitView::Layout target = view.getLayout(box);
  SmallVector<Box> open = view.split(box);
  SmallVector<PartCopy> copies;
  // The last launch that has written an element has its value.
  for (int64_t writer = tensor.writers.size() - 1; writer >= 0 && !open.empty();
       --writer) {
    if (tensor.writers[writer].launch >= launch)
      continue;
    int64_t address = regions[writer].address;
    for (const HomePart &part : getParts(writer)) {
      SmallVector<Box> next;
      for (Box &each : open) {
        std::optional<Box> common = intersect(each, part.digits);
        if (!common) {
          next.push_back(std::move(each));
          continue;
        }
        PartCopy &copy = copies.emplace_back();
        copy.core = part.core;
        copy.region = {address, address + regions[writer].bytes};
        copy.source = address + bytes * part.layout.getPlace(*common);
        copy.target = bytes * target.getPlace(*common);
        for (auto [range, from, to] :
             llvm::zip_equal(*common, part.layout.strides, target.strides)) {
          if (range.size == 1)
            continue;
          if (!copy.extents.empty() &&
              copy.sourceStrides.back() == from * range.size &&
              copy.targetStrides.back() == to * range.size) {
            copy.extents.back() *= range.size;
            copy.sourceStrides.back() = from;
            copy.targetStrides.back() = to;
            continue;
          }
          copy.extents.push_back(range.size);
          copy.sourceStrides.push_back(from);
          copy.targetStrides.push_back(to);
        }
        subtract(std::move(each), *common, next);
      }
      open = std::move(next);
      if (open.empty())
        break;
    }
  }
  assert(open.empty() && "the first writer has written all elements");
  return copies;
}

SmallVector<PartCopy> Homes::listParts(TensorUse use,
                                       ArrayRef<Interval> box) const {
  unsigned number = *tensors.getRead(use);
  return listPartCopies(
      tensors.tensors[number], use.launch,
      launches[use.launch].places[use.access], box, regions[number],
      [&](unsigned writer) { return getParts(number, writer); });
}
