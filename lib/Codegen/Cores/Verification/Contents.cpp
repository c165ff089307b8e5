//===- Contents.cpp - What the bytes of a memory hold ---------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Contents.h"

#include "dialects/Launch/IR/Launch.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

Layout Layout::get(MemRefType type) {
  Layout layout;
  layout.width = launch::getElementBytes(type.getElementType());
  if (type.getNumElements() == 0) {
    layout.width = 0;
    return layout;
  }
  int64_t bytes = layout.width;
  auto [strides, offset] = type.getStridesAndOffset();
  for (auto [count, stride] :
       llvm::reverse(llvm::zip_equal(type.getShape(), strides))) {
    if (count == 1)
      continue;
    Loop loop{count, stride * bytes};
    if (layout.loops.empty() && loop.stride == layout.width)
      layout.width *= count;
    else if (!layout.loops.empty() &&
             loop.stride ==
                 layout.loops.back().stride * layout.loops.back().count)
      layout.loops.back().count *= count;
    else
      layout.loops.push_back(loop);
  }
  std::reverse(layout.loops.begin(), layout.loops.end());
  return layout;
}

int64_t Layout::countBytes() const {
  int64_t bytes = width;
  for (Loop loop : loops)
    bytes *= loop.count;
  return bytes;
}

int64_t Layout::getExtent() const {
  int64_t extent = width;
  for (Loop loop : loops)
    extent += (loop.count - 1) * loop.stride;
  return extent;
}

std::pair<int64_t, int64_t> Layout::locate(int64_t byte) const {
  int64_t row = byte / width;
  int64_t offset = byte % width;
  int64_t run = width - offset;
  for (Loop loop : llvm::reverse(loops)) {
    offset += row % loop.count * loop.stride;
    row /= loop.count;
  }
  return {offset, run};
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

std::pair<int64_t, int64_t> Contents::Part::locate(int64_t byte) const {
  if (!origin.layout)
    return {origin.base + byte - start, end - byte};
  auto [offset, run] = origin.layout->locate(byte - start);
  return {origin.base + offset, std::min(run, end - byte)};
}

void Contents::clear(int64_t begin, int64_t end) {
  if (begin >= end)
    return;
  auto next = parts.lower_bound(begin);
  if (next != parts.begin() && std::prev(next)->second.end > begin) {
    Part &before = std::prev(next)->second;
    if (before.end > end) {
      Part rest = before;
      rest.begin = end;
      parts.emplace(end, rest);
    }
    before.end = begin;
  }
  while (next != parts.end() && next->first < end) {
    Part part = next->second;
    next = parts.erase(next);
    if (part.end > end) {
      part.begin = end;
      parts.emplace(end, part);
      break;
    }
  }
}

/// Whether `b`, which follows `a`, holds the bytes of the root that follow.
static bool continues(const Contents::Part &a, const Contents::Part &b) {
  return a.end == b.begin && !a.origin.layout && !b.origin.layout &&
         a.origin.root == b.origin.root &&
         a.origin.version == b.origin.version &&
         a.origin.base - a.start == b.origin.base - b.start;
}

void Contents::write(const Part &part) {
  if (part.begin >= part.end)
    return;
  clear(part.begin, part.end);
  auto next = parts.upper_bound(part.begin);
  Part merged = part;
  if (next != parts.end() && continues(merged, next->second)) {
    merged.end = next->second.end;
    next = parts.erase(next);
  }
  if (next != parts.begin() && continues(std::prev(next)->second, merged)) {
    std::prev(next)->second.end = merged.end;
    return;
  }
  parts.emplace_hint(next, merged.begin, merged);
}

SmallVector<Contents::Part, 2> Contents::read(int64_t begin,
                                              int64_t end) const {
  SmallVector<Part, 2> result;
  auto next = parts.upper_bound(begin);
  if (next != parts.begin() && std::prev(next)->second.end > begin)
    --next;
  for (; next != parts.end() && next->first < end; ++next) {
    Part part = next->second;
    part.begin = std::max(part.begin, begin);
    part.end = std::min(part.end, end);
    if (part.begin < part.end)
      result.push_back(part);
  }
  return result;
}

void cores::copyContents(const Contents &from, int64_t fromOffset,
                         const Layout &fromLayout, Contents &to,
                         int64_t toOffset, const Layout &toLayout) {
  int64_t bytes = fromLayout.countBytes();
  if (toLayout.isContiguous()) {
    int64_t end = fromOffset + fromLayout.getExtent();
    SmallVector<Contents::Part, 2> parts = from.read(fromOffset, end);
    if (parts.size() == 1 && parts[0].size() == end - fromOffset &&
        (fromLayout.isContiguous() || !parts[0].origin.layout)) {
      Contents::Part part = parts[0];
      part.start += toOffset - fromOffset;
      if (!part.origin.layout) {
        part.origin.base = part.locate(toOffset).first;
        part.start = toOffset;
      }
      if (!fromLayout.isContiguous())
        part.origin.layout = &fromLayout;
      part.begin = toOffset;
      part.end = toOffset + bytes;
      return to.write(part);
    }
  }
  for (int64_t at = 0; at < bytes;) {
    auto [source, sourceRun] = fromLayout.locate(at);
    auto [target, targetRun] = toLayout.locate(at);
    int64_t run = std::min(sourceRun, targetRun);
    source += fromOffset;
    target += toOffset;
    SmallVector<Contents::Part, 2> parts = from.read(source, source + run);
    to.clear(target, target + run);
    for (const Contents::Part &part : parts)
      for (int64_t byte = part.begin; byte < part.end;) {
        auto [root, count] = part.locate(byte);
        int64_t begin = target + byte - source;
        to.write(begin, begin + count,
                 {part.origin.root, root, part.origin.version, nullptr});
        byte += count;
      }
    at += run;
  }
}
