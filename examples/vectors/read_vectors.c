/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
   SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

   Reads conformance vectors, checks the hash of every array, and scores a
   conversion from float to bfloat16. Usage: read_vectors FOLDER */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* The constants of SHA-256 are fractions of roots of the first primes. */
static void sha256(const uint8_t *data, size_t size, char hex[65]) {
  uint32_t k[64], h[64];
  for (int i = 0, p = 2; i < 64; ++p) {
    int d = 2;
    while (p % d)
      ++d;
    h[i] = (uint32_t)((sqrt(p) - floor(sqrt(p))) * 4294967296.0);
    k[i] = (uint32_t)((cbrt(p) - floor(cbrt(p))) * 4294967296.0);
    i += d == p;
  }
  size_t total = (size + 9 + 63) / 64 * 64;
  for (size_t at = 0; at < total; at += 64) {
    uint32_t w[64] = {0}, s[8];
    for (size_t i = at; i < at + 64; ++i) {
      uint8_t byte = i < size ? data[i] : i == size ? 0x80 : 0;
      if (i >= total - 8)
        byte = (uint8_t)((uint64_t)size * 8 >> 8 * (total - 1 - i));
      w[(i - at) / 4] |= (uint32_t)byte << (24 - 8 * (i % 4));
    }
    for (int i = 16; i < 64; ++i) {
      uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
             (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; ++i) {
      uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
      uint32_t t = s[7] + e + (s[6] ^ (s[4] & (s[5] ^ s[6]))) + k[i] + w[i];
      uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
      uint32_t u = a + ((s[0] & s[1]) | (s[2] & (s[0] | s[1])));
      memmove(s + 1, s, 7 * sizeof *s);
      s[4] += t;
      s[0] = t + u;
    }
    for (int i = 0; i < 8; ++i)
      h[i] += s[i];
  }
  for (int i = 0; i < 8; ++i)
    sprintf(hex + 8 * i, "%08x", h[i]);
}

static uint16_t to_bfloat16(uint32_t x) {
  if ((x & 0x7fffffff) > 0x7f800000)
    return 0x7fc0;
  return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

int main(int argc, char **argv) {
  char line[8192] = "", path[4096], group[256] = "", name[64], file[256];
  char hash[65], found[65], *rest;
  size_t bytes, half = 0, groups = 0, right = 0, cases = 0;
  uint32_t *x = NULL;
  const char *form = "{\"form\": \"repro-vectors\", \"form_version\": 1, ";
  snprintf(path, sizeof path, "%s/vectors.json", argc > 1 ? argv[1] : ".");
  FILE *list = fopen(path, "r");
  if (!list || !fgets(line, sizeof line, list) || strstr(line, form) != line)
    return fprintf(stderr, "%s: expected form version 1\n", path), 1;
  while (fgets(line, sizeof line, list)) {
    if (!(rest = strstr(line, "\"file\": \""))) {
      groups += sscanf(line, "{\"name\": \"%255[^\"]\", \"op", group) == 1;
      continue;
    }
    if (sscanf(line, "{\"name\": \"%63[^\"]", name) != 1 ||
        sscanf(rest + 9, "%255[^\"/]\", \"bytes\": %zu, \"sha256\": \"%64s",
               file, &bytes, hash) != 3)
      return fprintf(stderr, "%s: an array is damaged\n", path), 1;
    snprintf(path, sizeof path, "%s/%s", argc > 1 ? argv[1] : ".", file);
    FILE *stream = fopen(path, "rb");
    uint8_t *data = malloc(bytes + 1);
    int whole = stream && data && fread(data, 1, bytes + 1, stream) == bytes;
    sha256(data, whole ? bytes : 0, found);
    if (!whole || strcmp(found, hash))
      return fprintf(stderr, "%s: the file is missing or damaged\n", path), 1;
    fclose(stream);
    if (strcmp(group, "round/bf16/rne/overflow"))
      free(data);
    else if (!strcmp(name, "x"))
      x = (uint32_t *)data, half = bytes / 2;
    else if (!strcmp(name, "codes"))
      for (; bytes == half && cases < bytes / 2; ++cases)
        right += to_bfloat16(x[cases]) == ((uint16_t *)data)[cases];
  }
  if (strcmp(line, "]}\n") || cases == 0)
    return fprintf(stderr, "expected bfloat16 codes, and an end\n"), 1;
  printf("%zu groups; bfloat16: %zu of %zu right\n", groups, right, cases);
}
