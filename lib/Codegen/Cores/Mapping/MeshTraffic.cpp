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
    for (auto *sums : {&channels, &read, &written})
      (*sums)[axis].assign(last[axis] + 1, 0);
  for (const ManyCore::Channel &channel : machine.channels)
    for (int axis : {0, 1})
      channels[axis][machine.getRouter(channel.at)[axis]] +=
          1 / double(machine.channels.size());
}

void MeshTraffic::add(ManyCore::Point core, double readBytes,
                      double writtenBytes) {
  ManyCore::Point router = machine.getRouter(core);
  for (int axis : {0, 1}) {
    read[axis][router[axis]] += readBytes;
    written[axis][router[axis]] += writtenBytes;
  }
}

void MeshTraffic::add(const MeshTraffic &other) {
  for (int axis : {0, 1})
    for (size_t i = 0; i < read[axis].size(); ++i) {
      read[axis][i] += other.read[axis][i];
      written[axis][i] += other.written[axis][i];
    }
}

double MeshTraffic::getSeconds() const {
  double rate = machine.linkBytesPerCycle * machine.clockHz, most = 0;
  for (int axis : {0, 1}) {
    double links = double(read[1 - axis].size());
    double allRead = 0, allWritten = 0;
    for (size_t i = 0; i < read[axis].size(); ++i) {
      allRead += read[axis][i];
      allWritten += written[axis][i];
    }
    double channelsBefore = 0, readBefore = 0, writtenBefore = 0;
    for (size_t i = 0; i + 1 < read[axis].size(); ++i) {
      channelsBefore += channels[axis][i];
      readBefore += read[axis][i];
      writtenBefore += written[axis][i];
      double ascending = (allRead - readBefore) * channelsBefore +
                         writtenBefore * (1 - channelsBefore);
      double descending = readBefore * (1 - channelsBefore) +
                          (allWritten - writtenBefore) * channelsBefore;
      most = std::max(
          {most, ascending / (links * rate), descending / (links * rate)});
    }
  }
  return most;
}
