//===- MemoryAccess.cpp - Loads and stores with their checks --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/BlockRunner.h"

#include <algorithm>
#include <cstring>

using namespace repro_emulator;

const Region *BlockRunner::findRegion(uint64_t address, uint32_t detailIndex) {
  const std::vector<Region> &regions = context.regions;
  uint32_t &hint = regionHints[detailIndex];
  if (hint < regions.size() && address >= regions[hint].begin &&
      address < regions[hint].end)
    return &regions[hint];
  auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                [](uint64_t value, const Region &region) {
                                  return value < region.begin;
                                });
  if (after == regions.begin() || address >= std::prev(after)->end)
    return nullptr;
  hint = uint32_t(std::prev(after) - regions.begin());
  return &regions[hint];
}

static std::string toHex(uint64_t value) {
  std::string digits;
  do
    digits.insert(digits.begin(), "0123456789abcdef"[value & 15]);
  while (value >>= 4);
  return "0x" + digits;
}

/// Returns a text for messages: the address, and its position relative to the
/// nearest buffer.
std::string BlockRunner::describeAddress(uint64_t address,
                                         unsigned bytes) const {
  const Region *nearest = nullptr;
  uint64_t least = ~uint64_t(0);
  for (const Region &region : context.regions) {
    uint64_t distance = address < region.begin  ? region.begin - address
                        : address >= region.end ? address - region.end
                                                : 0;
    if (distance < least) {
      least = distance;
      nearest = &region;
    }
  }
  std::string text = std::to_string(bytes) + " bytes at " + toHex(address);
  if (!nearest)
    return text + ", but there is no buffer";
  std::string name = "buffer '" + nearest->name + "' of " +
                     std::to_string(nearest->end - nearest->begin) + " bytes";
  if (address < nearest->begin)
    return text + ", " + std::to_string(nearest->begin - address) + " before " +
           name;
  return text + ", at byte " + std::to_string(address - nearest->begin) +
         " of " + name;
}

bool BlockRunner::checkGlobal(Warp &warp, const Instruction &instruction,
                              const Detail &detail, unsigned lane,
                              unsigned bytes, bool writes, uint64_t address) {
  const Region *region = findRegion(address, instruction.index);
  if (!region || address + bytes > region->end)
    return fail(Status::OutOfBounds, warp, instruction.line, lane,
                "'" + detail.opcode + "' of " +
                    describeAddress(address, bytes));
  if (writes && !region->writable)
    return fail(Status::OutOfBounds, warp, instruction.line, lane,
                "'" + detail.opcode + "' writes " +
                    describeAddress(address, bytes) + ", which is read-only");
  return true;
}

bool BlockRunner::checkRace(Warp &warp, int line, const std::string &opcode,
                            unsigned lane, Space space, uint64_t address,
                            unsigned bytes, bool reads, bool writes,
                            bool strong) {
  if (!context.options.checked)
    return true;
  bool isShared = space == Space::Shared;
  RaceDetector &detector = isShared ? sharedAccesses : *context.globalAccesses;
  Accessor by{blockNumber, warp.index * warpSize + lane, epoch, warp.epoch,
              strong};
  RaceDetector::Conflict conflict;
  if (reads)
    conflict = detector.read(address, bytes, by, isShared);
  if (writes && conflict.kind == RaceDetector::Conflict::None)
    conflict = detector.write(address, bytes, by);
  if (conflict.kind == RaceDetector::Conflict::None)
    return true;
  std::string what =
      "'" + opcode + "' of " +
      (isShared ? std::to_string(bytes) + " bytes of shared memory at byte " +
                      std::to_string(address)
                : describeAddress(address, bytes));
  if (conflict.kind == RaceDetector::Conflict::Uninitialized)
    return fail(Status::Uninitialized, warp, line, lane,
                what + ", which the block has not written");
  const Accessor &other = conflict.other;
  std::string who = other.thread == Accessor::many
                        ? "several threads"
                        : describeThread(other.thread);
  if (other.block != blockNumber)
    who = other.block == Accessor::many
              ? "other blocks"
              : who + " of block number " + std::to_string(other.block);
  return fail(Status::Race, warp, line, lane,
              "data race: " + what + ", which " + who +
                  (conflict.otherWrote ? " wrote" : " read") +
                  " with no barrier between");
}

/// Checks the access of one lane, and sets `host` to its host address. Returns
/// false after a fault.
bool BlockRunner::resolveLane(Warp &warp, const Instruction &instruction,
                              const Detail &detail, unsigned lane,
                              unsigned bytes, bool writes, Space space,
                              uint64_t address, uint64_t &host) {
  if (space == Space::Generic) {
    space = address >= localWindow    ? Space::Local
            : address >= sharedWindow ? Space::Shared
                                      : Space::Global;
    address -= space == Space::Local    ? localWindow
               : space == Space::Shared ? sharedWindow
                                        : 0;
  }
  if (address & (bytes - 1))
    return fail(Status::Misaligned, warp, instruction.line, lane,
                "'" + detail.opcode + "' of " + std::to_string(bytes) +
                    " bytes at address " + toHex(address));
  if (space == Space::Shared || space == Space::Local) {
    uint64_t size = space == Space::Shared ? sharedBytes : kernel.localBytes;
    if (address > size || bytes > size - address)
      return fail(Status::OutOfBounds, warp, instruction.line, lane,
                  "'" + detail.opcode + "' of " + std::to_string(bytes) +
                      " bytes at byte " + std::to_string(int64_t(address)) +
                      " of " + std::to_string(size) + " bytes of " +
                      (space == Space::Shared ? "shared" : "local") +
                      " memory");
  }
  if (space == Space::Local) {
    uint64_t localBytes = (kernel.localBytes + 15) / 16 * 16;
    host = reinterpret_cast<uint64_t>(warp.local) + lane * localBytes + address;
    return true;
  }
  bool isAtomic = instruction.kind == Kind::Atomic;
  if (space == Space::Shared)
    host = reinterpret_cast<uint64_t>(shared) + address;
  else if (checkGlobal(warp, instruction, detail, lane, bytes, writes, address))
    host = address;
  else
    return false;
  return checkRace(warp, instruction.line, detail.opcode, lane, space, address,
                   bytes, !writes || isAtomic, writes, detail.strong);
}

/// Checks an access of the lanes in `mask`, and sets `access` to its host
/// addresses. Returns false after a fault.
bool BlockRunner::resolve(Warp &warp, const Instruction &instruction,
                          const Detail &detail, uint32_t mask, unsigned bytes,
                          bool writes, Access &access) {
  uint32_t source = detail.sources[0];
  alignas(64) uint64_t bases[warpSize];
  const uint64_t *lanes = bases;
  if (source == Instruction::none)
    std::fill_n(bases, warpSize, 0);
  else if (detail.addressBytes == 8)
    lanes = getLanes<uint64_t>(warp, source);
  else
    std::copy_n(getLanes<uint32_t>(warp, source), warpSize, bases);
  AddressSummary summary = context.operations.summarize(
      lanes, detail.offset, bytes, access.addresses);
  access.equal = access.consecutive = false;

  // The common case: all lanes are active and their addresses are in one space,
  // so that checking the least and the greatest address suffices.
  bool isWhole =
      mask == ~0u && !context.options.checked && !(summary.bits & (bytes - 1));
  if (isWhole && detail.space == Space::Shared &&
      summary.greatest <= sharedBytes &&
      bytes <= sharedBytes - summary.greatest) {
    access.equal = summary.equal;
    access.consecutive = summary.consecutive;
    for (uint64_t &address : access.addresses)
      address += reinterpret_cast<uint64_t>(shared);
    return true;
  }
  if (isWhole &&
      (detail.space == Space::Global || detail.space == Space::Constant ||
       (detail.space == Space::Generic && summary.greatest < sharedWindow))) {
    const Region *region = findRegion(summary.least, instruction.index);
    if (region && summary.greatest < region->end &&
        bytes <= region->end - summary.greatest &&
        (!writes || region->writable)) {
      access.equal = summary.equal;
      access.consecutive = summary.consecutive;
      return true;
    }
  }
  for (uint32_t left = mask; left; left &= left - 1) {
    unsigned lane = unsigned(__builtin_ctz(left));
    if (!resolveLane(warp, instruction, detail, lane, bytes, writes,
                     detail.space, access.addresses[lane],
                     access.addresses[lane]))
      return false;
  }
  return true;
}

namespace {

template <typename T>
T get(uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void *>(address), sizeof(T));
  return value;
}

template <typename T>
void put(uint64_t address, T value) {
  std::memcpy(reinterpret_cast<void *>(address), &value, sizeof(T));
}

/// Loads one element for each lane of `mask`. M is the type of the element in
/// memory, and R that of its register.
template <typename M, typename R>
void loadElement(const uint64_t *addresses, unsigned element, unsigned count,
                 uint32_t mask, bool equal, bool consecutive, R *result) {
  uint64_t offset = element * sizeof(M);
  if (equal) {
    R value = R(get<M>(addresses[0] + offset));
    std::fill_n(result, warpSize, value);
  } else if (consecutive) {
    uint64_t start = addresses[0] + offset, step = count * sizeof(M);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      result[lane] = R(get<M>(start + lane * step));
  } else if (mask == ~0u) {
    for (unsigned lane = 0; lane < warpSize; ++lane)
      result[lane] = R(get<M>(addresses[lane] + offset));
  } else {
    for (; mask; mask &= mask - 1) {
      unsigned lane = unsigned(__builtin_ctz(mask));
      result[lane] = R(get<M>(addresses[lane] + offset));
    }
  }
}

template <typename M, typename R>
void storeElement(const uint64_t *addresses, unsigned element, unsigned count,
                  uint32_t mask, bool consecutive, const R *source) {
  uint64_t offset = element * sizeof(M);
  if (consecutive) {
    uint64_t start = addresses[0] + offset, step = count * sizeof(M);
    for (unsigned lane = 0; lane < warpSize; ++lane)
      put<M>(start + lane * step, M(source[lane]));
    return;
  }
  for (; mask; mask &= mask - 1) {
    unsigned lane = unsigned(__builtin_ctz(mask));
    put<M>(addresses[lane] + offset, M(source[lane]));
  }
}

/// Calls `f` with two zeros, whose types are those of an element in memory and
/// of its register.
template <typename F>
void withTypes(const Detail &detail, F f) {
  auto withRegister = [&](auto element) {
    switch (detail.registerBytes) {
    case 2:
      f(element, uint16_t());
      break;
    case 4:
      f(element, uint32_t());
      break;
    default:
      f(element, uint64_t());
    }
  };
  switch (detail.bytes) {
  case 1:
    detail.isSigned ? withRegister(int8_t()) : withRegister(uint8_t());
    break;
  case 2:
    detail.isSigned ? withRegister(int16_t()) : withRegister(uint16_t());
    break;
  case 4:
    detail.isSigned ? withRegister(int32_t()) : withRegister(uint32_t());
    break;
  default:
    withRegister(uint64_t());
  }
}

} // namespace

bool BlockRunner::load(Warp &warp, const Instruction &instruction,
                       uint32_t mask) {
  const Detail &detail = kernel.details[instruction.index];
  Access access;
  if (!resolve(warp, instruction, detail, mask,
               unsigned(detail.bytes) * detail.count, false, access))
    return false;
  withTypes(detail, [&](auto element, auto value) {
    using R = decltype(value);
    for (unsigned i = 0; i < detail.count; ++i)
      if (detail.results[i] != Instruction::none)
        loadElement<decltype(element), R>(
            access.addresses, i, detail.count, mask, access.equal,
            access.consecutive, getLanes<R>(warp, detail.results[i]));
  });
  return true;
}

bool BlockRunner::store(Warp &warp, const Instruction &instruction,
                        uint32_t mask) {
  const Detail &detail = kernel.details[instruction.index];
  Access access;
  if (!resolve(warp, instruction, detail, mask,
               unsigned(detail.bytes) * detail.count, true, access))
    return false;
  withTypes(detail, [&](auto element, auto value) {
    using R = decltype(value);
    for (unsigned i = 0; i < detail.count; ++i)
      storeElement<decltype(element), R>(
          access.addresses, i, detail.count, mask, access.consecutive,
          getLanes<R>(warp, detail.sources[1 + i]));
  });
  return true;
}

template <typename T, typename S>
static T applyAtomic(AtomicOperation operation, T old, T b, T c) {
  switch (operation) {
  case AtomicOperation::Add:
    return old + b;
  case AtomicOperation::Minimum:
    return T(std::min(S(old), S(b)));
  case AtomicOperation::Maximum:
    return T(std::max(S(old), S(b)));
  case AtomicOperation::And:
    return old & b;
  case AtomicOperation::Or:
    return old | b;
  case AtomicOperation::Xor:
    return old ^ b;
  case AtomicOperation::Exchange:
    return b;
  case AtomicOperation::CompareAndSwap:
    return old == b ? c : old;
  }
  return old;
}

bool BlockRunner::atomic(Warp &warp, const Instruction &instruction,
                         uint32_t mask) {
  const Detail &detail = kernel.details[instruction.index];
  Access access;
  if (!resolve(warp, instruction, detail, mask, detail.bytes, true, access))
    return false;
  auto run = [&](auto zero, auto signedZero) {
    using T = decltype(zero);
    using S = decltype(signedZero);
    const T *b = getLanes<T>(warp, detail.sources[1]);
    const T *c = detail.sources.size() > 2
                     ? getLanes<T>(warp, detail.sources[2])
                     : nullptr;
    T *result =
        detail.results.empty() ? nullptr : getLanes<T>(warp, detail.results[0]);
    for (; mask; mask &= mask - 1) {
      unsigned lane = unsigned(__builtin_ctz(mask));
      T *place = reinterpret_cast<T *>(access.addresses[lane]);
      T old = __atomic_load_n(place, __ATOMIC_RELAXED), next;
      do
        next =
            applyAtomic<T, S>(detail.atomic, old, b[lane], c ? c[lane] : T(0));
      while (!__atomic_compare_exchange_n(place, &old, next, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
      if (result)
        result[lane] = old;
    }
  };
  if (detail.bytes == 4)
    detail.isSigned ? run(uint32_t(), int32_t()) : run(uint32_t(), uint32_t());
  else
    detail.isSigned ? run(uint64_t(), int64_t()) : run(uint64_t(), uint64_t());
  return true;
}

/// Checks a cp.async and records its copies, which are executed as late as PTX
/// permits. A program that does not wait for the copies thus reads old values.
/// Returns false after a fault.
bool BlockRunner::startCopies(Warp &warp, const Instruction &instruction,
                              uint32_t mask) {
  const Detail &detail = kernel.details[instruction.index];
  for (; mask; mask &= mask - 1) {
    unsigned lane = unsigned(__builtin_ctz(mask));
    Copy copy;
    copy.lane = lane;
    copy.bytes = detail.bytes;
    copy.used = std::min<uint32_t>(
        getLanes<uint32_t>(warp, detail.sources[2])[lane], detail.bytes);
    copy.group = warp.committed[lane];
    copy.line = instruction.line;
    copy.target = getLanes<uint64_t>(warp, detail.sources[0])[lane];
    copy.source = getLanes<uint64_t>(warp, detail.sources[1])[lane];
    uint64_t host;
    if (!resolveLane(warp, instruction, detail, lane, copy.bytes, true,
                     Space::Shared, copy.target, host))
      return false;
    if (copy.used && !resolveLane(warp, instruction, detail, lane, copy.bytes,
                                  false, Space::Global, copy.source, host))
      return false;
    warp.copies.push_back(copy);
  }
  return true;
}

/// Executes recorded copies of the lanes in `mask`: those of all groups but the
/// last `left`, or all copies if `all`. Returns false after a fault.
bool BlockRunner::finishCopies(Warp &warp, uint32_t mask, uint32_t left,
                               bool all) {
  auto arrives = [&](const Copy &copy) {
    return (mask >> copy.lane & 1) &&
           (all || copy.group + left < warp.committed[copy.lane]);
  };
  for (const Copy &copy : warp.copies) {
    if (!arrives(copy))
      continue;
    if (!checkRace(warp, copy.line, "cp.async", copy.lane, Space::Shared,
                   copy.target, copy.bytes, false, true, false))
      return false;
    char *to = shared + copy.target;
    if (copy.used)
      std::memcpy(to, reinterpret_cast<const void *>(copy.source), copy.used);
    std::memset(to + copy.used, 0, copy.bytes - copy.used);
  }
  warp.copies.erase(
      std::remove_if(warp.copies.begin(), warp.copies.end(), arrives),
      warp.copies.end());
  return true;
}

/// Executes ldmatrix. Lane 8 m + r has the address of row r of matrix m. Lane l
/// receives elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 or, if the
/// matrices are transposed, of column l / 4. Returns false after a fault.
bool BlockRunner::loadMatrix(Warp &warp, const Instruction &instruction) {
  const Detail &detail = kernel.details[instruction.index];
  uint32_t rows = detail.count == 4 ? ~0u : (1u << (8 * detail.count)) - 1;
  Access access;
  if (!resolve(warp, instruction, detail, rows, 16, false, access))
    return false;
  for (unsigned matrix = 0; matrix < detail.count; ++matrix) {
    uint32_t *result = getLanes<uint32_t>(warp, detail.results[matrix]);
    for (unsigned lane = 0; lane < warpSize; ++lane) {
      uint32_t value = 0;
      for (unsigned i = 0; i < 2; ++i) {
        unsigned row = lane / 4, column = lane % 4 * 2 + i;
        if (detail.flag)
          std::swap(row, column);
        uint64_t from = access.addresses[8 * matrix + row] + 2 * column;
        value |= uint32_t(get<uint16_t>(from)) << (16 * i);
      }
      result[lane] = value;
    }
  }
  return true;
}
