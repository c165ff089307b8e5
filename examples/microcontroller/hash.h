/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The hash of a state (H3) in docs/reference/numerics.md, which `repro train`
 * prints on a PC. The hash is BLAKE3.
 */
#ifndef HASH_H
#define HASH_H

#include "board.h"

enum { BLOCK = 64, CHUNK = 1024, DIGEST = 32, MOST_LEVELS = 20 };
enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

static const uint32_t iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

typedef struct {
  uint32_t value[8];      /* of the current chunk */
  uint8_t block[BLOCK];   /* its last bytes, not compressed yet */
  uint32_t bytes, blocks; /* in `block`; compressed blocks of the chunk */
  uint64_t chunks;        /* complete chunks */
  uint32_t stack[MOST_LEVELS][8]; /* values of complete subtrees */
  uint32_t depth;
} Hash;

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void mix(uint32_t *s, int a, int b, int c, int d, uint32_t x,
                uint32_t y) {
  s[a] += s[b] + x;
  s[d] = rotate(s[d] ^ s[a], 16);
  s[c] += s[d];
  s[b] = rotate(s[b] ^ s[c], 12);
  s[a] += s[b] + y;
  s[d] = rotate(s[d] ^ s[a], 8);
  s[c] += s[d];
  s[b] = rotate(s[b] ^ s[c], 7);
}

static void compress(uint32_t value[8], const uint32_t words[16],
                     uint64_t number, uint32_t bytes, uint32_t flags) {
  static const uint8_t order[16] = {2, 6,  3,  10, 7, 0,  4,  13,
                                    1, 11, 12, 5,  9, 14, 15, 8};
  uint32_t m[16], s[16] = {value[0],
                           value[1],
                           value[2],
                           value[3],
                           value[4],
                           value[5],
                           value[6],
                           value[7],
                           iv[0],
                           iv[1],
                           iv[2],
                           iv[3],
                           (uint32_t)number,
                           (uint32_t)(number >> 32),
                           bytes,
                           flags};
  memcpy(m, words, sizeof m);
  for (int round = 0; round < 7; ++round) {
    for (int i = 0; i < 4; ++i)
      mix(s, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1]);
    for (int i = 0; i < 4; ++i)
      mix(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4,
          m[8 + 2 * i], m[9 + 2 * i]);
    uint32_t next[16];
    for (int i = 0; i < 16; ++i)
      next[i] = m[order[i]];
    memcpy(m, next, sizeof m);
  }
  for (int i = 0; i < 8; ++i)
    value[i] = s[i] ^ s[8 + i];
}

static void begin_chunk(Hash *hash) {
  memcpy(hash->value, iv, sizeof iv);
  hash->bytes = hash->blocks = 0;
}

static void hash_begin(Hash *hash) {
  begin_chunk(hash);
  hash->chunks = hash->depth = 0;
}

static void compress_block(Hash *hash, uint32_t flags) {
  uint32_t words[16];
  memset(hash->block + hash->bytes, 0, BLOCK - hash->bytes);
  memcpy(words, hash->block, BLOCK); /* little-endian, as Arm is */
  compress(hash->value, words, hash->chunks, hash->bytes,
           flags | (hash->blocks ? 0 : CHUNK_START));
  ++hash->blocks;
  hash->bytes = 0;
}

/* Replaces two subtrees by their parent. */
static void join(const uint32_t *left, const uint32_t *right, uint32_t flags,
                 uint32_t *parent) {
  uint32_t words[16];
  memcpy(words, left, DIGEST);
  memcpy(words + 8, right, DIGEST);
  memcpy(parent, iv, sizeof iv);
  compress(parent, words, 0, BLOCK, PARENT | flags);
}

static void hash_add(Hash *hash, const void *data, uint32_t size) {
  const uint8_t *next = data;
  while (size) {
    if (hash->bytes == BLOCK) {
      if (hash->blocks == CHUNK / BLOCK - 1) {
        compress_block(hash, CHUNK_END);
        ++hash->chunks;
        /* Each trailing 0 bit of the number of chunks completes a subtree. */
        for (uint64_t rest = hash->chunks; !(rest & 1); rest >>= 1)
          join(hash->stack[--hash->depth], hash->value, 0, hash->value);
        memcpy(hash->stack[hash->depth++], hash->value, DIGEST);
        begin_chunk(hash);
      } else {
        compress_block(hash, 0);
      }
    }
    uint32_t part = BLOCK - hash->bytes < size ? BLOCK - hash->bytes : size;
    memcpy(hash->block + hash->bytes, next, part);
    hash->bytes += part;
    next += part;
    size -= part;
  }
}

static void hash_end(Hash *hash, uint8_t digest[DIGEST]) {
  compress_block(hash, CHUNK_END | (hash->depth ? 0 : ROOT));
  while (hash->depth) {
    --hash->depth;
    join(hash->stack[hash->depth], hash->value, hash->depth ? 0 : ROOT,
         hash->value);
  }
  memcpy(digest, hash->value, DIGEST);
}

/* The hash of a tensor (H1). `element` is MLIR's name of the element type. */
static void hash_tensor(const char *element, uint32_t rank,
                        const uint64_t *shape, const void *data, uint32_t size,
                        uint8_t digest[DIGEST]) {
  static Hash hash;
  char name[16] = {0};
  for (int i = 0; element[i]; ++i)
    name[i] = element[i];
  hash_begin(&hash);
  hash_add(&hash, "repro-tensor-v1", 16);
  hash_add(&hash, name, sizeof name);
  hash_add(&hash, &rank, sizeof rank);
  hash_add(&hash, shape, rank * sizeof *shape);
  hash_add(&hash, data, size);
  hash_end(&hash, digest);
}

#endif /* HASH_H */
