//===- StridedBytes.cpp - The bytes of a strided buffer -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedBytes.h"

#include "dialects/Launch/IR/Launch.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

StridedBytes StridedBytes::get(int64_t offset, MemRefType type) {
  StridedBytes bytes;
  bytes.begin = bytes.end = offset;
  bytes.width = launch::getElementBytes(type.getElementType());
  if (llvm::is_contained(type.getShape(), 0))
    return bytes;
  SmallVector<int64_t> strides;
  int64_t start = 0;
  bool isStrided = succeeded(type.getStridesAndOffset(strides, start));
  assert(isStrided && start == 0 && "verified by the view");
  (void)isStrided;
  SmallVector<Loop, 4> loops;
  for (auto [size, stride] : llvm::zip_equal(type.getShape(), strides)) {
    bytes.hasRepeats |= size > 1 && stride == 0;
    if (size > 1 && stride != 0)
      loops.push_back({stride * bytes.width, size});
  }
  llvm::stable_sort(
      loops, [](const Loop &a, const Loop &b) { return a.stride < b.stride; });
  // Merges loops whose bytes follow each other without gaps.
  int64_t extent = bytes.width;
  for (Loop loop : loops) {
    bytes.hasRepeats |= loop.stride < extent;
    extent += loop.stride * (loop.count - 1);
    if (bytes.loops.empty() && loop.stride == bytes.width)
      bytes.width *= loop.count;
    else if (!bytes.loops.empty() &&
             loop.stride ==
                 bytes.loops.back().stride * bytes.loops.back().count)
      bytes.loops.back().count *= loop.count;
    else
      bytes.loops.push_back(loop);
  }
  std::reverse(bytes.loops.begin(), bytes.loops.end());
  bytes.end = bytes.begin + extent;
  return bytes;
}

StridedBytes StridedBytes::getRange(int64_t offset, int64_t size) {
  StridedBytes bytes;
  bytes.begin = offset;
  bytes.end = offset + size;
  bytes.width = size;
  return bytes;
}

bool StridedBytes::operator==(const StridedBytes &other) const {
  return begin == other.begin && end == other.end && width == other.width &&
         llvm::equal(loops, other.loops, [](const Loop &a, const Loop &b) {
           return a.stride == b.stride && a.count == b.count;
         });
}

namespace {
/// The sizes of the digits of an address, from the largest one, in a mixed
/// radix in which each of two sets of bytes may be a box.
using Radix = SmallVector<int64_t, 6>;

struct Interval {
  int64_t begin, size;
};
} // namespace

/// Returns the strides of both sets, from the largest one; an empty list unless
/// each is a multiple of the next.
static Radix getRadix(const StridedBytes &a, const StridedBytes &b) {
  Radix radix;
  for (const StridedBytes *bytes : {&a, &b})
    for (const StridedBytes::Loop &loop : bytes->loops)
      radix.push_back(loop.stride);
  llvm::sort(radix, std::greater<int64_t>());
  radix.erase(llvm::unique(radix), radix.end());
  for (size_t i = 0; i + 1 < radix.size(); ++i)
    if (radix[i] % radix[i + 1])
      return {};
  return radix;
}

/// Sets `box` to an interval for each digit, and one for the bytes below the
/// smallest digit. Returns false if the set is not the product of intervals.
static bool getBox(const StridedBytes &bytes, const Radix &radix,
                   SmallVectorImpl<Interval> &box) {
  int64_t rest = bytes.begin;
  for (int64_t size : radix) {
    box.push_back({rest / size, 1});
    rest %= size;
  }
  box.push_back({rest, bytes.width});
  for (const StridedBytes::Loop &loop : bytes.loops) {
    int64_t &size = box[llvm::find(radix, loop.stride) - radix.begin()].size;
    if (size != 1)
      return false; // two loops have the same stride
    size = loop.count;
  }
  // The part beyond a digit must be whole units of the next one.
  for (size_t i = radix.size(); i > 0; --i) {
    int64_t most = radix[i - 1] / (i < radix.size() ? radix[i] : 1);
    if (box[i].begin + box[i].size <= most)
      continue;
    if (box[i].begin != 0 || box[i].size % most != 0 || box[i - 1].size != 1)
      return false;
    box[i - 1].size = box[i].size / most;
    box[i].size = most;
  }
  return true;
}

/// Whether a set that begins at byte `base` with loop `level` has a byte in
/// [begin, end).
static bool intersects(const StridedBytes &bytes, size_t level, int64_t base,
                       int64_t begin, int64_t end) {
  if (level == bytes.loops.size())
    return base < end && base + bytes.width > begin;
  StridedBytes::Loop loop = bytes.loops[level];
  int64_t extent = bytes.width; // of one iteration
  for (const StridedBytes::Loop &inner :
       ArrayRef(bytes.loops).drop_front(level + 1))
    extent += inner.stride * (inner.count - 1);
  int64_t first = std::max<int64_t>(
      llvm::divideFloorSigned(begin - base - extent, loop.stride) + 1, 0);
  int64_t last = std::min<int64_t>(
      llvm::divideCeilSigned(end - base, loop.stride) - 1, loop.count - 1);
  for (int64_t i = first; i <= last; ++i)
    if (intersects(bytes, level + 1, base + i * loop.stride, begin, end))
      return true;
  return false;
}

/// Whether one of the rows of `rows`, from loop `level` on, has a byte of
/// `bytes`.
static bool intersectsRows(const StridedBytes &rows, size_t level, int64_t base,
                           const StridedBytes &bytes) {
  if (level == rows.loops.size())
    return intersects(bytes, 0, bytes.begin, base, base + rows.width);
  for (int64_t i = 0; i < rows.loops[level].count; ++i)
    if (intersectsRows(rows, level + 1, base + i * rows.loops[level].stride,
                       bytes))
      return true;
  return false;
}

static int64_t countRows(const StridedBytes &bytes) {
  int64_t rows = 1;
  for (const StridedBytes::Loop &loop : bytes.loops)
    rows *= loop.count;
  return rows;
}

bool cores::overlap(const StridedBytes &a, const StridedBytes &b) {
  if (a.isEmpty() || b.isEmpty() || a.end <= b.begin || b.end <= a.begin)
    return false;
  if (a.loops.empty() && b.loops.empty())
    return true;
  SmallVector<Interval, 7> boxA, boxB;
  if (Radix radix = getRadix(a, b);
      !radix.empty() && getBox(a, radix, boxA) && getBox(b, radix, boxB))
    return llvm::all_of(llvm::zip_equal(boxA, boxB), [](auto pair) {
      auto [x, y] = pair;
      return x.begin < y.begin + y.size && y.begin < x.begin + x.size;
    });
  return countRows(a) < countRows(b) ? intersectsRows(a, 0, a.begin, b)
                                     : intersectsRows(b, 0, b.begin, a);
}

bool cores::contains(const StridedBytes &outer, const StridedBytes &inner) {
  if (inner.isEmpty())
    return true;
  if (inner.begin < outer.begin || inner.end > outer.end)
    return false;
  if (outer.loops.empty())
    return true;
  SmallVector<Interval, 7> boxOuter, boxInner;
  Radix radix = getRadix(outer, inner);
  return !radix.empty() && getBox(outer, radix, boxOuter) &&
         getBox(inner, radix, boxInner) &&
         llvm::all_of(llvm::zip_equal(boxOuter, boxInner), [](auto pair) {
           auto [x, y] = pair;
           return x.begin <= y.begin && x.begin + x.size >= y.begin + y.size;
         });
}
