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

std::pair<AccessChecker::Segments::iterator, AccessChecker::Segments::iterator>
AccessChecker::split(ByteRange range) {
  auto begin = segments.lower_bound(range.begin);
  if (begin == segments.end() || begin->first != range.begin)
    begin = segments.emplace_hint(begin, range.begin, std::prev(begin)->second);
  // Most ranges are short parts of rows, so they have few segments.
  auto end = std::next(begin);
  while (end != segments.end() && end->first < range.end)
    ++end;
  if (end == segments.end() || end->first != range.end)
    end = segments.emplace_hint(end, range.end, std::prev(end)->second);
  return {begin, end};
}

AccessChecker::Conflict AccessChecker::read(ByteRange range, const Access &by,
                                            const VectorClock &clock) {
  if (range.begin == range.end)
    return {};
  auto [begin, end] = split(range);
  for (auto at = begin; at != end; ++at) {
    Segment &segment = at->second;
    if (segment.isWritten && !isKnown(segment.writer, clock))
      return {Conflict::Race, at->first, true, segment.writer};
    if (!segment.isDefined)
      return {Conflict::Undefined, at->first, false, {}};
    // A write that follows this read also follows the earlier reads of the
    // same program that this read follows.
    std::vector<Access> &readers = segment.readers;
    auto isEarlier = [&](const Access &reader) {
      return reader.program == by.program && isKnown(reader, clock);
    };
    auto earlier = std::find_if(readers.begin(), readers.end(), isEarlier);
    if (earlier != readers.end())
      *earlier = by;
    else
      readers.push_back(by);
  }
  return {};
}

AccessChecker::Conflict AccessChecker::write(ByteRange range, const Access &by,
                                             const VectorClock &clock,
                                             bool defines) {
  if (range.begin == range.end)
    return {};
  auto [begin, end] = split(range);
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
