//===- AccessChecker.cpp - Finds races between cores ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AccessChecker.h"

#include <algorithm>
#include <iterator>

using namespace repro_simulator;

void repro_simulator::join(VectorClock &clock, const VectorClock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

static bool isKnown(const Access &access, const VectorClock &clock) {
  return access.moment <= clock[access.actor];
}

AccessChecker::AccessChecker(uint64_t bytes, bool defined) : bytes(bytes) {
  segments[0].isDefined = defined;
}

AccessChecker::Segments::iterator AccessChecker::split(uint64_t at) {
  auto next = segments.lower_bound(at);
  if (next != segments.end() && next->first == at)
    return next;
  return segments.emplace_hint(next, at, std::prev(next)->second);
}

AccessChecker::Conflict AccessChecker::read(ByteRange range, const Access &by,
                                            const VectorClock &clock) {
  if (range.begin == range.end)
    return {};
  auto at = split(range.begin), end = split(range.end);
  for (; at != end; ++at) {
    Segment &segment = at->second;
    if (segment.isWritten && !isKnown(segment.writer, clock))
      return {Conflict::Race, at->first, true, segment.writer};
    if (!segment.isDefined)
      return {Conflict::Undefined, at->first, false, {}};
    // A write that this read is known to precede is also known to follow the
    // reads that this read follows.
    std::vector<Access> &readers = segment.readers;
    readers.erase(std::remove_if(readers.begin(), readers.end(),
                                 [&](const Access &reader) {
                                   return isKnown(reader, clock);
                                 }),
                  readers.end());
    readers.push_back(by);
  }
  return {};
}

AccessChecker::Conflict AccessChecker::write(ByteRange range, const Access &by,
                                             const VectorClock &clock,
                                             bool defines) {
  if (range.begin == range.end)
    return {};
  auto begin = split(range.begin), end = split(range.end);
  for (auto at = begin; at != end; ++at) {
    Segment &segment = at->second;
    if (segment.isWritten && !isKnown(segment.writer, clock))
      return {Conflict::Race, at->first, true, segment.writer};
    for (const Access &reader : segment.readers)
      if (!isKnown(reader, clock))
        return {Conflict::Race, at->first, false, reader};
  }
  begin->second = {defines, true, by, {}};
  segments.erase(std::next(begin), end);
  return {};
}

uint64_t AccessChecker::findUndefined() const {
  for (const auto &[at, segment] : segments)
    if (!segment.isDefined && at < bytes)
      return at;
  return bytes;
}
