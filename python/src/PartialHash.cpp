//===- PartialHash.cpp - (H1) of bytes that processes share ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// BLAKE3 (https://github.com/BLAKE3-team/BLAKE3-specs) computes a tree of
// hashes, whose leaves are chunks of 1024 bytes. A process that has a stretch
// of the bytes sends the hashes of the largest subtrees whose chunks it has
// completely, and the bytes of chunks of which it has only a part. From all
// messages, any process computes the hash of the whole.
//
//===----------------------------------------------------------------------===//

#include "mlir/Bindings/Python/Nanobind.h"
#include <nanobind/ndarray.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

#include <array>
#include <map>

namespace nb = nanobind;

namespace {
/// The chaining value of a chunk or a node.
struct Value {
  uint32_t words[8];
};

enum Flags : uint32_t { ChunkStart = 1, ChunkEnd = 2, Parent = 4, Root = 8 };

constexpr uint64_t chunkBytes = 1024, blockBytes = 64;
constexpr unsigned numRounds = 7;
constexpr Value start = {{0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                          0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19}};

/// Returns, for each round of the compression, the order in which the round
/// reads the words of a block.
constexpr std::array<std::array<uint8_t, 16>, numRounds> getSchedule() {
  constexpr uint8_t permutation[] = {2, 6,  3,  10, 7, 0,  4,  13,
                                     1, 11, 12, 5,  9, 14, 15, 8};
  std::array<std::array<uint8_t, 16>, numRounds> schedule = {};
  for (uint8_t i = 0; i < 16; ++i)
    schedule[0][i] = i;
  for (unsigned round = 1; round < numRounds; ++round)
    for (unsigned i = 0; i < 16; ++i)
      schedule[round][i] = schedule[round - 1][permutation[i]];
  return schedule;
}

/// A vector with one word of each of several blocks, which are compressed in
/// parallel.
using Lanes = uint32_t __attribute__((vector_size(32)));
constexpr unsigned numLanes = sizeof(Lanes) / sizeof(uint32_t);

template <typename Word>
Word rotate(Word word, unsigned bits) {
  return word >> bits | word << (32 - bits);
}

template <typename Word>
void mix(Word &a, Word &b, Word &c, Word &d, const Word &x, const Word &y) {
  a += b + x;
  d = rotate(d ^ a, 16);
  c += d;
  b = rotate(b ^ c, 12);
  a += b + y;
  d = rotate(d ^ a, 8);
  c += d;
  b = rotate(b ^ c, 7);
}

/// Compresses a block of `size` bytes, or one such block in each lane.
template <typename Word>
void compress(Word (&values)[8], const Word (&block)[16], const Word &low,
              const Word &high, uint32_t size, uint32_t flags) {
  static constexpr auto schedule = getSchedule();
  Word zero = {};
  Word v[16];
  std::copy_n(values, 8, v);
  for (unsigned w = 0; w < 4; ++w)
    v[8 + w] = zero + start.words[w];
  v[12] = low;
  v[13] = high;
  v[14] = zero + size;
  v[15] = zero + flags;
  for (const std::array<uint8_t, 16> &s : schedule) {
    mix(v[0], v[4], v[8], v[12], block[s[0]], block[s[1]]);
    mix(v[1], v[5], v[9], v[13], block[s[2]], block[s[3]]);
    mix(v[2], v[6], v[10], v[14], block[s[4]], block[s[5]]);
    mix(v[3], v[7], v[11], v[15], block[s[6]], block[s[7]]);
    mix(v[0], v[5], v[10], v[15], block[s[8]], block[s[9]]);
    mix(v[1], v[6], v[11], v[12], block[s[10]], block[s[11]]);
    mix(v[2], v[7], v[8], v[13], block[s[12]], block[s[13]]);
    mix(v[3], v[4], v[9], v[14], block[s[14]], block[s[15]]);
  }
  for (unsigned w = 0; w < 8; ++w)
    values[w] = v[w] ^ v[w + 8];
}

/// Returns the chaining value of a chunk of `size` bytes.
Value getChunk(const uint8_t *bytes, uint64_t size, uint64_t chunk,
               uint32_t flagsOfLast) {
  Value value = start;
  uint64_t numBlocks =
      std::max<uint64_t>(llvm::divideCeil(size, blockBytes), 1);
  for (uint64_t block = 0; block < numBlocks; ++block) {
    uint64_t length = std::min(size - block * blockBytes, blockBytes);
    uint8_t raw[blockBytes] = {};
    std::copy_n(bytes + block * blockBytes, length, raw);
    uint32_t words[16];
    for (unsigned w = 0; w < 16; ++w)
      words[w] = llvm::support::endian::read32le(raw + 4 * w);
    uint32_t flags = block == 0 ? ChunkStart : 0;
    if (block + 1 == numBlocks)
      flags |= ChunkEnd | flagsOfLast;
    compress(value.words, words, static_cast<uint32_t>(chunk),
             static_cast<uint32_t>(chunk >> 32), static_cast<uint32_t>(length),
             flags);
  }
  return value;
}

/// Computes the chaining values of `numLanes` whole chunks.
void getChunks(const uint8_t *bytes, uint64_t chunk, Value *results) {
  Lanes values[8], words[16], low, high;
  for (unsigned lane = 0; lane < numLanes; ++lane) {
    low[lane] = static_cast<uint32_t>(chunk + lane);
    high[lane] = static_cast<uint32_t>((chunk + lane) >> 32);
    for (unsigned w = 0; w < 8; ++w)
      values[w][lane] = start.words[w];
  }
  constexpr uint64_t numBlocks = chunkBytes / blockBytes;
  for (uint64_t block = 0; block < numBlocks; ++block) {
    for (unsigned lane = 0; lane < numLanes; ++lane)
      for (unsigned w = 0; w < 16; ++w)
        words[w][lane] = llvm::support::endian::read32le(
            bytes + lane * chunkBytes + block * blockBytes + 4 * w);
    uint32_t flags = block == 0 ? ChunkStart : 0;
    if (block + 1 == numBlocks)
      flags |= ChunkEnd;
    compress(values, words, low, high, blockBytes, flags);
  }
  for (unsigned lane = 0; lane < numLanes; ++lane)
    for (unsigned w = 0; w < 8; ++w)
      results[lane].words[w] = values[w][lane];
}

Value getParent(const Value &left, const Value &right, uint32_t flags) {
  uint32_t words[16];
  std::copy_n(left.words, 8, words);
  std::copy_n(right.words, 8, words + 8);
  Value result = start;
  compress(result.words, words, uint32_t(0), uint32_t(0), blockBytes,
           Parent | flags);
  return result;
}

/// Returns the number of the first chunk of the right child of a node with two
/// or more chunks.
uint64_t getMiddle(uint64_t begin, uint64_t end) {
  return begin + llvm::bit_floor(end - begin - 1);
}

/// A stretch: the bytes [begin, end) of data of `total` bytes.
struct Stretch {
  Stretch(uint64_t begin, uint64_t end, uint64_t total)
      : begin(begin), end(end),
        numChunks(std::max<uint64_t>(llvm::divideCeil(total, chunkBytes), 1)) {
    if (begin > end || end > total)
      throw nb::value_error("expected bytes of the whole");
    first = llvm::divideCeil(begin, chunkBytes);
    last = end == total ? numChunks : end / chunkBytes;
    // Makes `first` equal to `last` for a stretch without whole chunks, whose
    // bytes are all sent. The only chunk of the data does not count as a whole
    // chunk, because it is the root of the tree.
    if (numChunks == 1 || first > last)
      first = last = end / chunkBytes;
  }

  /// Returns the number of bytes of the stretch before its whole chunks, or of
  /// all its bytes if it has no whole chunk. getTail returns the number of
  /// bytes after the whole chunks.
  uint64_t getHead() const {
    return first < last ? first * chunkBytes - begin : end - begin;
  }
  uint64_t getTail() const {
    return first < last && last * chunkBytes < end ? end - last * chunkBytes
                                                   : 0;
  }

  /// Calls `function`, in order, with the range of chunks of each node that is
  /// not the root, consists of whole chunks of the stretch, and is not part of
  /// a larger such node.
  template <typename Function>
  void forEachNode(Function function) const {
    forEachNode(0, numChunks, function);
  }

  uint64_t begin, end, numChunks;
  /// The numbers [first, last) of the chunks that are entirely in the stretch.
  uint64_t first, last;

private:
  template <typename Function>
  void forEachNode(uint64_t from, uint64_t to, Function function) const {
    if (to <= first || last <= from || first >= last)
      return;
    if (first <= from && to <= last && to - from < numChunks) {
      function(from, to);
      return;
    }
    uint64_t middle = getMiddle(from, to);
    forEachNode(from, middle, function);
    forEachNode(middle, to, function);
  }
};

/// Returns the chaining value of the node over all `chunks`.
Value getNode(llvm::ArrayRef<Value> chunks) {
  if (chunks.size() == 1)
    return chunks.front();
  uint64_t middle = getMiddle(0, chunks.size());
  return getParent(getNode(chunks.take_front(middle)),
                   getNode(chunks.drop_front(middle)), 0);
}

void append(std::string &message, const Value &value) {
  for (uint32_t word : value.words) {
    char bytes[4];
    llvm::support::endian::write32le(bytes, word);
    message.append(bytes, 4);
  }
}

/// Returns the message for a stretch: the bytes before its whole chunks, the
/// values of nodes, and the bytes after its whole chunks.
std::string getMessage(const Stretch &stretch, const uint8_t *bytes) {
  std::string message(reinterpret_cast<const char *>(bytes), stretch.getHead());
  if (stretch.first < stretch.last) {
    std::vector<Value> chunks(stretch.last - stretch.first);
    for (uint64_t i = 0; i < chunks.size();) {
      uint64_t offset = (stretch.first + i) * chunkBytes - stretch.begin;
      uint64_t left = stretch.end - stretch.begin - offset;
      const uint8_t *place = bytes + offset;
      uint64_t chunk = stretch.first + i;
      if (left >= numLanes * chunkBytes && i + numLanes <= chunks.size()) {
        getChunks(place, chunk, &chunks[i]);
        i += numLanes;
      } else {
        chunks[i++] = getChunk(place, std::min(left, chunkBytes), chunk, 0);
      }
    }
    stretch.forEachNode([&](uint64_t from, uint64_t to) {
      append(message, getNode(llvm::ArrayRef(chunks).slice(from - stretch.first,
                                                           to - from)));
    });
  }
  uint64_t tail = stretch.getTail();
  message.append(reinterpret_cast<const char *>(bytes) + stretch.end -
                     stretch.begin - tail,
                 tail);
  return message;
}

uint64_t getMessageSize(const Stretch &stretch) {
  uint64_t size = stretch.getHead() + stretch.getTail();
  stretch.forEachNode([&](uint64_t, uint64_t) { size += sizeof(Value); });
  return size;
}

/// The contents of all messages: values of nodes, and bytes.
struct Known {
  std::map<std::pair<uint64_t, uint64_t>, Value> nodes;
  /// For each chunk that several stretches share, the bytes that are known.
  std::map<uint64_t, std::string> chunks;
  uint64_t numChunks;

  void addBytes(uint64_t begin, llvm::StringRef bytes) {
    while (!bytes.empty()) {
      uint64_t chunk = begin / chunkBytes;
      llvm::StringRef part = bytes.take_front((chunk + 1) * chunkBytes - begin);
      chunks[chunk] += part;
      begin += part.size();
      bytes = bytes.drop_front(part.size());
    }
  }

  void add(const Stretch &stretch, llvm::StringRef message) {
    addBytes(stretch.begin, message.take_front(stretch.getHead()));
    message = message.drop_front(stretch.getHead());
    stretch.forEachNode([&](uint64_t from, uint64_t to) {
      Value &value = nodes[{from, to}];
      for (uint32_t &word : value.words) {
        word = llvm::support::endian::read32le(message.data());
        message = message.drop_front(4);
      }
    });
    addBytes(stretch.end - message.size(), message);
  }

  Value get(uint64_t from, uint64_t to) {
    if (auto it = nodes.find({from, to}); it != nodes.end())
      return it->second;
    uint32_t flags = to - from == numChunks ? Root : 0;
    if (to - from == 1) {
      const std::string &bytes = chunks[from];
      return getChunk(reinterpret_cast<const uint8_t *>(bytes.data()),
                      bytes.size(), from, flags);
    }
    uint64_t middle = getMiddle(from, to);
    Value left = get(from, middle);
    return getParent(left, get(middle, to), flags);
  }
};
} // namespace

void bindPartialHash(nb::module_ &m) {
  m.def(
      "hash_stretch",
      [](nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>
             bytes,
         uint64_t begin, uint64_t total) {
        Stretch stretch(begin, begin + bytes.size(), total);
        std::string message;
        {
          nb::gil_scoped_release release;
          message = getMessage(stretch, bytes.data());
        }
        return nb::bytes(message.data(), message.size());
      },
      nb::arg("bytes"), nb::arg("begin"), nb::arg("total"),
      "What `hash_of_stretches` needs of bytes, the first of which is number "
      "`begin` of `total`.");
  m.def(
      "hash_stretch_size",
      [](uint64_t begin, uint64_t end, uint64_t total) {
        return getMessageSize(Stretch(begin, end, total));
      },
      nb::arg("begin"), nb::arg("end"), nb::arg("total"),
      "How many bytes `hash_stretch` gives.");
  m.def(
      "hash_of_stretches",
      [](const std::vector<nb::bytes> &messages,
         const std::vector<uint64_t> &ends) {
        if (messages.size() != ends.size() || ends.empty())
          throw nb::value_error("expected the end of each stretch");
        uint64_t total = ends.back(), begin = 0;
        Known known;
        for (auto [message, end] : llvm::zip_equal(messages, ends)) {
          Stretch stretch(begin, end, total);
          if (message.size() != getMessageSize(stretch))
            throw nb::value_error("expected what hash_stretch gives");
          known.numChunks = stretch.numChunks;
          known.add(stretch, llvm::StringRef(message.c_str(), message.size()));
          begin = end;
        }
        std::string hash;
        append(hash, known.get(0, known.numChunks));
        return nb::bytes(hash.data(), hash.size());
      },
      nb::arg("messages"), nb::arg("ends"),
      "The BLAKE3 hash of stretches one behind the other, of what "
      "`hash_stretch` gives of each and where it ends.");
}
