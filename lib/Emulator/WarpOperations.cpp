//===- WarpOperations.cpp - Warp-synchronous instructions -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/BlockRunner.h"

#include <algorithm>

using namespace repro_emulator;

/// Handles a group that arrives at an instruction of several threads. Parks the
/// group until all threads that the instruction names have arrived, then
/// executes the instruction. Returns false after a fault.
bool BlockRunner::meet(Warp &warp, const Instruction &instruction,
                       Group &group) {
  const Detail &detail = kernel.details[instruction.index];
  for (size_t i = 0; i < warp.parked.size(); ++i)
    if (warp.parked[i].place == group.place) {
      group.mask |= warp.parked[i].mask;
      warp.parked.erase(warp.parked.begin() + std::ptrdiff_t(i));
      break;
    }
  bool isMatrix = instruction.kind == Kind::MatrixMultiply ||
                  instruction.kind == Kind::LoadMatrix;
  uint32_t done = 0, left = group.mask;
  while (left) {
    unsigned lane = unsigned(__builtin_ctz(left));
    uint32_t members = ~0u, same = left;
    if (!isMatrix) {
      const uint32_t *masks = getLanes<uint32_t>(warp, detail.sources[0]);
      members = masks[lane];
      same = 0;
      for (uint32_t rest = left; rest; rest &= rest - 1) {
        unsigned other = unsigned(__builtin_ctz(rest));
        if (masks[other] == members)
          same |= 1u << other;
      }
    }
    left &= ~same;
    if (same & ~members)
      return fail(Status::Divergence, warp, instruction.line,
                  unsigned(__builtin_ctz(same & ~members)),
                  "executes '" + detail.opcode +
                      "' with a member mask that lacks it");
    uint32_t needed = isMatrix ? members : members & warp.all;
    if (uint32_t gone = needed & ~warp.live)
      return fail(Status::Divergence, warp, instruction.line, lane,
                  "waits at '" + detail.opcode + "' for lane " +
                      std::to_string(__builtin_ctz(gone)) +
                      ", which is not or no longer in the kernel");
    if (needed & ~same) {
      warp.parked.push_back({group.place, same});
      continue;
    }
    if (!runTogether(warp, instruction, same))
      return false;
    done |= same;
  }
  group.mask = done;
  if (done && isSerial()) {
    addReady(warp, group.place + 1, done);
    group.mask = 0;
  }
  return true;
}

static uint32_t combine(AtomicOperation operation, bool isSigned, uint32_t a,
                        uint32_t b) {
  bool less = isSigned ? int32_t(a) < int32_t(b) : a < b;
  switch (operation) {
  case AtomicOperation::Add:
    return a + b;
  case AtomicOperation::Minimum:
    return less ? a : b;
  case AtomicOperation::Maximum:
    return less ? b : a;
  case AtomicOperation::And:
    return a & b;
  case AtomicOperation::Or:
    return a | b;
  default:
    return a ^ b;
  }
}

bool BlockRunner::runTogether(Warp &warp, const Instruction &instruction,
                              uint32_t members) {
  const Detail &detail = kernel.details[instruction.index];
  auto forMembers = [&](auto f) {
    for (uint32_t left = members; left; left &= left - 1)
      f(unsigned(__builtin_ctz(left)));
  };
  auto getResult = [&](size_t index) {
    return index < detail.results.size()
               ? getLanes<uint32_t>(warp, detail.results[index])
               : nullptr;
  };
  switch (instruction.kind) {
  case Kind::WarpBarrier:
    ++warp.epoch;
    return true;
  case Kind::Shuffle: {
    bool ok = true;
    shuffle(warp, instruction, members, ok);
    return ok;
  }
  case Kind::Vote: {
    uint32_t votes =
        context.operations.toMask(getLanes<uint32_t>(warp, detail.sources[1])) &
        members;
    uint32_t result = detail.vote == VoteMode::All   ? votes == members
                      : detail.vote == VoteMode::Any ? votes != 0
                      : detail.vote == VoteMode::Uniform
                          ? votes == 0 || votes == members
                          : votes;
    forMembers([&](unsigned lane) { getResult(0)[lane] = result; });
    return true;
  }
  case Kind::Match: {
    auto get = [&](unsigned lane) -> uint64_t {
      return detail.registerBytes == 8
                 ? getLanes<uint64_t>(warp, detail.sources[1])[lane]
                 : getLanes<uint32_t>(warp, detail.sources[1])[lane];
    };
    uint32_t equal[warpSize] = {}; // read all before writing
    forMembers([&](unsigned lane) {
      forMembers([&](unsigned other) {
        equal[lane] |= uint32_t(get(lane) == get(other)) << other;
      });
    });
    forMembers([&](unsigned lane) {
      bool all = equal[lane] == members;
      getResult(0)[lane] = detail.flag && !all ? 0 : equal[lane];
      if (uint32_t *predicate = getResult(1))
        predicate[lane] = all;
    });
    return true;
  }
  case Kind::Reduce: {
    const uint32_t *values = getLanes<uint32_t>(warp, detail.sources[1]);
    uint32_t result = 0;
    bool isFirst = true;
    forMembers([&](unsigned lane) {
      result = isFirst ? values[lane]
                       : combine(detail.atomic, detail.isSigned, result,
                                 values[lane]);
      isFirst = false;
    });
    forMembers([&](unsigned lane) { getResult(0)[lane] = result; });
    return true;
  }
  case Kind::MatrixMultiply:
    multiplyMatrices(warp, detail);
    return true;
  default:
    return loadMatrix(warp, instruction);
  }
}

void BlockRunner::shuffle(Warp &warp, const Instruction &instruction,
                          uint32_t members, bool &ok) {
  const Detail &detail = kernel.details[instruction.index];
  const uint32_t *values = getLanes<uint32_t>(warp, detail.sources[1]);
  const uint32_t *distances = getLanes<uint32_t>(warp, detail.sources[2]);
  const uint32_t *clamps = getLanes<uint32_t>(warp, detail.sources[3]);
  uint32_t results[warpSize], inRange = 0;
  for (uint32_t left = members; left; left &= left - 1) {
    int lane = __builtin_ctz(left);
    int distance = int(distances[lane] & 31), clamp = int(clamps[lane] & 31);
    int segment = int(clamps[lane] >> 8 & 31);
    int least = lane & segment;
    int most = least | (clamp & ~segment);
    int from = lane;
    bool valid = false;
    switch (detail.shuffle) {
    case ShuffleMode::Up:
      from = lane - distance;
      valid = from >= most;
      break;
    case ShuffleMode::Down:
      from = lane + distance;
      valid = from <= most;
      break;
    case ShuffleMode::Butterfly:
      from = lane ^ distance;
      valid = from <= most;
      break;
    case ShuffleMode::Index:
      from = least | (distance & ~segment);
      valid = from <= most;
      break;
    }
    if (!valid)
      from = lane;
    if (!(members >> from & 1)) {
      ok = fail(Status::Divergence, warp, instruction.line, unsigned(lane),
                "'" + detail.opcode + "' reads lane " + std::to_string(from) +
                    ", which takes no part");
      return;
    }
    results[lane] = values[from];
    inRange |= uint32_t(valid) << lane;
  }
  uint32_t *result = getLanes<uint32_t>(warp, detail.results[0]);
  uint32_t *predicate = detail.results.size() > 1
                            ? getLanes<uint32_t>(warp, detail.results[1])
                            : nullptr;
  for (uint32_t left = members; left; left &= left - 1) {
    unsigned lane = unsigned(__builtin_ctz(left));
    result[lane] = results[lane];
    if (predicate)
      predicate[lane] = inRange >> lane & 1;
  }
}

/// Executes mma.sync. Registers of thread 4 g + t, with p elements each (PTX
/// ISA 9, section 9.7.14.5):
/// A: elements p t ... p t + p - 1 of row g, the same of row g + 8 if there are
///    16 rows, then both again for the next 4 p columns.
/// B: like A, with columns instead of rows.
/// C, D: elements 2 t and 2 t + 1 of row g, then of row g + 8; two f16 share a
///    register.
void BlockRunner::multiplyMatrices(Warp &warp, const Detail &detail) {
  unsigned bits = detail.elementA ? getBits(*detail.elementA) : 8;
  unsigned packed = 32 / bits, tall = detail.rows / 8u;
  unsigned deep = detail.depth / (4 * packed);
  const uint32_t *sources = detail.sources.data();
  /// Returns the register's bits starting with element k of a row or column.
  auto read = [&](unsigned source, unsigned line, unsigned k) {
    unsigned lane = line % 8 * 4 + k % (4 * packed) / packed;
    return getLanes<uint32_t>(warp, sources[source])[lane] >>
           (bits * (k % packed));
  };
  auto readA = [&](unsigned row, unsigned k) {
    return read(row / 8 + tall * (k / (4 * packed)), row, k);
  };
  auto readB = [&](unsigned column, unsigned k) {
    return read(tall * deep + k / (4 * packed), column, k);
  };
  const uint32_t *addends = sources + tall * deep + deep;
  unsigned halves = detail.toF16 ? 2 : 1;
  uint32_t results[4][warpSize] = {};
  auto forResults = [&](auto compute) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      for (unsigned i = 0; i < 2 * tall; ++i) {
        unsigned shift = 16 * (i % halves);
        results[i / halves][lane] |=
            compute(lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2,
                    getLanes<uint32_t>(warp, addends[i / halves])[lane] >>
                        shift)
            << shift;
      }
  };
  if (detail.elementA) {
    MatrixRule rule =
        *context.matrixUnit->getRule(*detail.elementA, detail.toF16);
    Significand a[16][32], b[8][32];
    for (unsigned k = 0; k < detail.depth; ++k) {
      for (unsigned row = 0; row < 16; ++row)
        a[row][k] = readElement(readA(row, k), *detail.elementA, rule.late);
      for (unsigned column = 0; column < 8; ++column)
        b[column][k] =
            readElement(readB(column, k), *detail.elementB, rule.late);
    }
    forResults([&](unsigned row, unsigned column, uint32_t c) {
      return addProducts(a[row], b[column], detail.depth, c, rule);
    });
  } else {
    auto extend = [](uint32_t byte, bool isSigned) -> int32_t {
      return isSigned ? int8_t(byte) : uint8_t(byte);
    };
    int32_t a[16][32], b[8][32];
    for (unsigned k = 0; k < detail.depth; ++k) {
      for (unsigned row = 0; row < detail.rows; ++row)
        a[row][k] = extend(readA(row, k), detail.signedA);
      for (unsigned column = 0; column < 8; ++column)
        b[column][k] = extend(readB(column, k), detail.signedB);
    }
    forResults([&](unsigned row, unsigned column, uint32_t c) {
      int64_t sum = int32_t(c);
      for (unsigned k = 0; k < detail.depth; ++k)
        sum += int64_t(a[row][k]) * b[column][k];
      if (detail.flag) // .satfinite
        sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      return uint32_t(sum);
    });
  }
  for (unsigned i = 0; i < 2 * tall / halves; ++i)
    std::copy_n(results[i], warpSize,
                getLanes<uint32_t>(warp, detail.results[i]));
}
