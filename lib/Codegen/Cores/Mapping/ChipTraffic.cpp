//===- ChipTraffic.cpp - Bytes between chips ------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChipTraffic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

ChipTraffic::ChipTraffic(const ManyCore &machine)
    : machine(machine), extents{machine.chipColumns, machine.chipRows},
      dram(machine.getChips(), 0), out(dram), in(dram) {
  for (int axis : {0, 1})
    for (std::vector<double> &loads : cuts[axis])
      loads.assign(extents[axis] - 1, 0);
}

std::array<int64_t, 2> ChipTraffic::getPoint(int64_t chip) const {
  return {chip % extents[0], chip / extents[0]};
}

void ChipTraffic::add(const DramTensor &tensor, int64_t chip, double moved,
                      bool reads) {
  if (tensor.bytes == 0)
    return;
  int64_t interleave = machine.interleaveBytes,
          perChip = machine.channels.size(),
          channels = perChip * machine.getChips();
  int64_t first = tensor.address / interleave,
          end = llvm::divideCeil(tensor.address + tensor.bytes, interleave);
  // The channels of all chips take turns.
  if (end - first >= channels)
    return addAll(chip, moved, reads);
  for (int64_t unit = first; unit < end;) {
    int64_t next = std::min(end, (unit / perChip + 1) * perChip);
    addPart(unit % channels / perChip, chip,
            moved * double(next - unit) / double(end - first), reads);
    unit = next;
  }
}

/// Adds bytes that all chips have in equal parts.
void ChipTraffic::addAll(int64_t chip, double moved, bool reads) {
  double part = moved / double(dram.size());
  dramOfAll += part;
  (reads ? in : out)[chip] += moved - part;
  (reads ? out : in)[chip] -= part;
  (reads ? outOfAll : inOfAll) += part;
  std::array<int64_t, 2> point = getPoint(chip);
  for (int axis : {0, 1})
    for (int64_t cut = 0; cut + 1 < extents[axis]; ++cut) {
      // The part of the chips on the other side of the cut.
      bool isAfter = point[axis] > cut;
      int64_t others = isAfter ? cut + 1 : extents[axis] - cut - 1;
      cuts[axis][isAfter == reads ? 0 : 1][cut] +=
          moved * double(others) / double(extents[axis]);
    }
}

/// Adds bytes that one chip has.
void ChipTraffic::addPart(int64_t home, int64_t chip, double moved,
                          bool reads) {
  dram[home] += moved;
  if (home == chip)
    return;
  int64_t source = reads ? home : chip, target = reads ? chip : home;
  out[source] += moved;
  in[target] += moved;
  std::array<int64_t, 2> from = getPoint(source), to = getPoint(target);
  for (int axis : {0, 1}) {
    auto [begin, end] = std::minmax(from[axis], to[axis]);
    for (int64_t cut = begin; cut < end; ++cut)
      cuts[axis][from[axis] < to[axis] ? 0 : 1][cut] += moved;
  }
}

static void addEach(std::vector<double> &sums,
                    const std::vector<double> &others) {
  for (auto [sum, other] : llvm::zip_equal(sums, others))
    sum += other;
}

void ChipTraffic::add(const ChipTraffic &other) {
  addEach(dram, other.dram);
  addEach(out, other.out);
  addEach(in, other.in);
  dramOfAll += other.dramOfAll;
  outOfAll += other.outOfAll;
  inOfAll += other.inOfAll;
  for (int axis : {0, 1})
    for (int direction : {0, 1})
      addEach(cuts[axis][direction], other.cuts[axis][direction]);
}

double ChipTraffic::getBytes() const {
  double sum = dramOfAll * double(dram.size());
  for (double moved : dram)
    sum += moved;
  return sum;
}

double ChipTraffic::getDramSeconds() const {
  double rate = 0;
  for (const ManyCore::Channel &channel : machine.channels)
    rate += channel.bytesPerSecond * machine.dramEfficiency;
  double most = dramOfAll + *llvm::max_element(dram);
  return most == 0 ? 0 : most / rate;
}

double ChipTraffic::getLinkSeconds() const {
  double rate = machine.chipBytesPerSecond, most = 0;
  if (dram.size() == 1)
    return 0;
  for (int64_t chip = 0; chip < int64_t(dram.size()); ++chip) {
    auto [x, y] = getPoint(chip);
    bool left = x > 0, right = x + 1 < extents[0], up = y > 0,
         down = y + 1 < extents[1];
    int links = left + right + up + down;
    if (machine.hasHexagonalLinks)
      links += (left && up) + (right && down);
    most = std::max({most, (outOfAll + out[chip]) / (links * rate),
                     (inOfAll + in[chip]) / (links * rate)});
  }
  for (int axis : {0, 1}) {
    int64_t links = extents[1 - axis];
    if (machine.hasHexagonalLinks)
      links += links - 1;
    for (const std::vector<double> &loads : cuts[axis])
      for (double load : loads)
        most = std::max(most, load / (double(links) * rate));
  }
  return most;
}
