//===- ChipTraffic.cpp - Bytes between chips ------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChipTraffic.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

void ChipTraffic::add(const DramTensor &tensor, int64_t chip, double moved,
                      bool reads) {
  if (tensor.bytes == 0)
    return;
  int64_t perChip = machine.dramBytes;
  int64_t end = tensor.address + tensor.bytes;
  for (int64_t at = tensor.address; at < end;) {
    int64_t home = at / perChip, next = std::min(end, (home + 1) * perChip);
    double part = moved * double(next - at) / double(tensor.bytes);
    dram[home] += part;
    if (home != chip)
      bytes[reads ? std::pair(home, chip) : std::pair(chip, home)] += part;
    at = next;
  }
}

void ChipTraffic::add(const ChipTraffic &other) {
  for (auto [pair, moved] : other.bytes)
    bytes[pair] += moved;
  for (auto [chip, moved] : other.dram)
    dram[chip] += moved;
}

double ChipTraffic::getBytes() const {
  double sum = 0;
  for (auto [chip, moved] : dram)
    sum += moved;
  return sum;
}

double ChipTraffic::getDramSeconds() const {
  double rate = 0, most = 0;
  for (const ManyCore::Channel &channel : machine.channels)
    rate += channel.bytesPerSecond * machine.dramEfficiency;
  for (auto [chip, moved] : dram)
    most = std::max(most, moved);
  return most == 0 ? 0 : most / rate;
}

double ChipTraffic::getLinkSeconds() const {
  if (bytes.empty())
    return 0;
  std::array<int64_t, 2> extents = {machine.chipColumns, machine.chipRows};
  auto getPoint = [&](int64_t chip) {
    return std::array<int64_t, 2>{chip % extents[0], chip / extents[0]};
  };
  double rate = machine.chipBytesPerSecond, most = 0;

  // The links of each chip, in each direction.
  llvm::DenseMap<int64_t, double> out, in;
  for (auto [pair, moved] : bytes) {
    out[pair.first] += moved;
    in[pair.second] += moved;
  }
  for (const auto *sums : {&out, &in})
    for (auto [chip, moved] : *sums) {
      auto [x, y] = getPoint(chip);
      bool left = x > 0, right = x + 1 < extents[0], up = y > 0,
           down = y + 1 < extents[1];
      int links = left + right + up + down;
      if (machine.hasHexagonalLinks)
        links += (left && up) + (right && down);
      most = std::max(most, moved / (links * rate));
    }

  // The cuts across each axis: the bytes that begin or stop to cross.
  for (int axis : {0, 1}) {
    int64_t links = extents[1 - axis];
    if (machine.hasHexagonalLinks)
      links += links - 1;
    for (bool ascends : {true, false}) {
      std::vector<double> change(extents[axis] + 1, 0);
      for (auto [pair, moved] : bytes) {
        int64_t from = getPoint(pair.first)[axis],
                to = getPoint(pair.second)[axis];
        if (from == to || (from < to) != ascends)
          continue;
        change[std::min(from, to)] += moved;
        change[std::max(from, to)] -= moved;
      }
      double crossing = 0;
      for (double each : change) {
        crossing += each;
        most = std::max(most, crossing / (double(links) * rate));
      }
    }
  }
  return most;
}
