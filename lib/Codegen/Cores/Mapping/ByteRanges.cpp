//===- ByteRanges.cpp - The bytes of parts of buffers ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ByteRanges.h"

#include "Codegen/Schedule/Buffers/Kernel.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

Place Place::get(Value buffer) {
  Place place{buffer, 0, cast<MemRefType>(buffer.getType())};
  while (auto view = place.root.getDefiningOp<launch::ViewOp>()) {
    place.offset += int64_t(view.getOffset());
    place.root = view.getSource();
  }
  return place;
}

/// Returns the strides of a buffer of the plan, which are static.
static SmallVector<int64_t> getStrides(MemRefType type) {
  int64_t offset;
  return *getStaticStrides(type, offset);
}

MemRefType cores::getStridedType(ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> strides, Type element) {
  auto plain = MemRefType::get(shape, element);
  int64_t unused;
  if (*getStaticStrides(plain, unused) == strides)
    return plain;
  return MemRefType::get(
      shape, element,
      StridedLayoutAttr::get(element.getContext(), /*offset=*/0, strides));
}

int64_t cores::getBoxOffset(MemRefType type, ArrayRef<Interval> box) {
  int64_t elements = 0;
  for (auto [range, stride] : llvm::zip_equal(box, getStrides(type)))
    elements += range.begin * stride;
  return elements * launch::getElementBytes(type.getElementType());
}

SmallVector<ByteRange> cores::getByteRanges(const Place &place,
                                            ArrayRef<Interval> box) {
  SmallVector<ByteRange> ranges;
  if (getNumElements(box) == 0)
    return ranges;
  SmallVector<int64_t> strides = getStrides(place.type);
  int64_t bytes = launch::getElementBytes(place.type.getElementType());
  // Merges the last dimensions to rows without gaps.
  int64_t row = bytes;
  int64_t outer = box.size();
  while (outer > 0 &&
         (box[outer - 1].size == 1 || strides[outer - 1] * bytes == row)) {
    row *= box[outer - 1].size;
    --outer;
  }
  SmallVector<int64_t> position(outer, 0);
  int64_t at = place.offset + getBoxOffset(place.type, box);
  while (true) {
    if (!ranges.empty() && ranges.back().end == at)
      ranges.back().end += row;
    else
      ranges.push_back({at, at + row});
    int64_t dim = outer - 1;
    for (; dim >= 0; --dim) {
      at += strides[dim] * bytes;
      if (++position[dim] < box[dim].size)
        break;
      at -= strides[dim] * bytes * box[dim].size;
      position[dim] = 0;
    }
    if (dim < 0)
      break;
  }
  // The strides of a transposed buffer do not descend.
  auto isBefore = [](const ByteRange &a, const ByteRange &b) {
    return a.begin < b.begin;
  };
  if (!llvm::is_sorted(ranges, isBefore))
    llvm::sort(ranges, isBefore);
  return ranges;
}

static bool overlaps(ArrayRef<Interval> a, ArrayRef<Interval> b) {
  return llvm::all_of(llvm::zip_equal(a, b), [](auto pair) {
    auto [x, y] = pair;
    return x.size > 0 && y.size > 0 && x.begin < y.begin + y.size &&
           y.begin < x.begin + x.size;
  });
}

void cores::forEachOverlap(const Place &placeA, ArrayRef<Box> a,
                           const Place &placeB, ArrayRef<Box> b,
                           function_ref<void(unsigned, unsigned)> found) {
  if (placeA.root != placeB.root)
    return;
  if (placeA == placeB) {
    for (auto [i, x] : llvm::enumerate(a))
      for (auto [j, y] : llvm::enumerate(b))
        if (overlaps(x, y))
          found(i, j);
    return;
  }
  struct Item {
    ByteRange range;
    unsigned index;
  };
  auto list = [](const Place &place, ArrayRef<Box> boxes) {
    std::vector<Item> items;
    for (auto [i, box] : llvm::enumerate(boxes))
      for (ByteRange range : getByteRanges(place, box))
        items.push_back({range, unsigned(i)});
    llvm::stable_sort(items, [](const Item &x, const Item &y) {
      return x.range.begin < y.range.begin;
    });
    return items;
  };
  std::vector<Item> itemsA = list(placeA, a), itemsB = list(placeB, b);
  // Sweeps over the bytes. The ranges that have begun are open until their end
  // is reached.
  SmallVector<Item> openA, openB;
  auto begin = [&](const Item &item, SmallVector<Item> &others,
                   SmallVector<Item> &own, bool isA) {
    llvm::erase_if(others, [&](const Item &other) {
      return other.range.end <= item.range.begin;
    });
    for (const Item &other : others)
      isA ? found(item.index, other.index) : found(other.index, item.index);
    llvm::erase_if(own, [&](const Item &other) {
      return other.range.end <= item.range.begin;
    });
    own.push_back(item);
  };
  auto *nextA = itemsA.data(), *endA = nextA + itemsA.size();
  auto *nextB = itemsB.data(), *endB = nextB + itemsB.size();
  while (nextA != endA || nextB != endB) {
    if (nextB == endB ||
        (nextA != endA && nextA->range.begin <= nextB->range.begin))
      begin(*nextA++, openB, openA, true);
    else
      begin(*nextB++, openA, openB, false);
  }
}
