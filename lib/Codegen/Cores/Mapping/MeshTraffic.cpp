//===- MeshTraffic.cpp - Bytes across the mesh of a chip ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MeshTraffic.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

MeshTraffic::MeshTraffic(const ManyCore &machine) : machine(machine) {
  ManyCore::Point last =
      machine.getRouter({machine.columns - 1, machine.rows - 1});
  for (int axis : {0, 1})
    for (auto *sums : {&channels, &readFirst, &readLast, &written})
      (*sums)[axis].assign(last[axis] + 1, 0);
  for (const ManyCore::Channel &channel : machine.channels)
    for (int axis : {0, 1})
      channels[axis][machine.getRouter(channel.at)[axis]] +=
          1 / double(machine.channels.size());
}

void MeshTraffic::add(ManyCore::Point core, double readBytes,
                      double writtenBytes) {
  addRead(core, core, readBytes);
  ManyCore::Point router = machine.getRouter(core);
  for (int axis : {0, 1})
    written[axis][router[axis]] += writtenBytes;
}

void MeshTraffic::addRead(ManyCore::Point first, ManyCore::Point last,
                          double bytes) {
  ManyCore::Point firstRouter = machine.getRouter(first);
  ManyCore::Point lastRouter = machine.getRouter(last);
  for (int axis : {0, 1}) {
    readFirst[axis][firstRouter[axis]] += bytes;
    readLast[axis][lastRouter[axis]] += bytes;
  }
}

void MeshTraffic::add(const MeshTraffic &other) {
  for (int axis : {0, 1})
    for (size_t i = 0; i < written[axis].size(); ++i) {
      readFirst[axis][i] += other.readFirst[axis][i];
      readLast[axis][i] += other.readLast[axis][i];
      written[axis][i] += other.written[axis][i];
    }
}

double MeshTraffic::getSeconds() const {
  double rate = machine.linkBytesPerCycle * machine.clockHz, most = 0;
  for (int axis : {0, 1}) {
    double links = double(written[1 - axis].size());
    double allRead = 0, allWritten = 0;
    for (size_t i = 0; i < written[axis].size(); ++i) {
      allRead += readLast[axis][i];
      allWritten += written[axis][i];
    }
    // Bytes that several cores read at once cross a cut between these cores in
    // both directions, each from the channels on one side.
    double channelsBefore = 0, firstBefore = 0, lastBefore = 0,
           writtenBefore = 0;
    for (size_t i = 0; i + 1 < written[axis].size(); ++i) {
      channelsBefore += channels[axis][i];
      firstBefore += readFirst[axis][i];
      lastBefore += readLast[axis][i];
      writtenBefore += written[axis][i];
      double ascending = (allRead - lastBefore) * channelsBefore +
                         writtenBefore * (1 - channelsBefore);
      double descending = firstBefore * (1 - channelsBefore) +
                          (allWritten - writtenBefore) * channelsBefore;
      most = std::max(
          {most, ascending / (links * rate), descending / (links * rate)});
    }
  }
  return most;
}
