/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Trains the network of network.py and prints the loss of each 20th step, as the bits of an f32, and the hash of the
 * last state.
 */
#include "batches.h"
#include "hash.h"
#include "network.h"

#ifndef STEPS
#define STEPS 200
#endif

static network_state state;
static network_inputs inputs = {.lr = 0.1f, .momentum = 0.9f};
static network_outputs outputs;
static network_memory memory;

static void load_batch(int number) {
  for (int i = 0; i < BATCH; ++i) {
    inputs.batch_1[i] = classes[number][i];
    for (int pixel = 0; pixel < 64; ++pixel)
      inputs.batch_0[i][pixel] = images[number][i][pixel] / 16.0f;
  }
}

static void print_loss(int step) {
  uint32_t bits;
  uint8_t bytes[6];
  memcpy(&bits, &outputs.loss, sizeof bits);
  for (int i = 0; i < 2; ++i)
    bytes[i] = (uint8_t)(step >> (8 - 8 * i));
  for (int i = 0; i < 4; ++i)
    bytes[2 + i] = (uint8_t)(bits >> (24 - 8 * i));
  print("step ");
  print_hex(bytes, 2);
  print("  loss ");
  print_hex(bytes + 2, 4);
  print("\n");
}

/* Adds the hash of a tensor of f32 to that of the state. */
#define ADD(TENSOR, RANK, ...)                                                                      \
  do {                                                                                              \
    const uint64_t shape[] = {__VA_ARGS__};                                                         \
    uint8_t digest[DIGEST];                                                                         \
    hash_tensor("f32", RANK, shape, state.TENSOR, sizeof state.TENSOR, digest);                     \
    hash_add(&of_state, digest, DIGEST);                                                            \
  } while (0)

static void print_state(void) {
  static Hash of_state;
  uint32_t tensors = 8;
  uint8_t digest[DIGEST];
  hash_begin(&of_state);
  hash_add(&of_state, "repro-state-v1\0", 16);
  hash_add(&of_state, &tensors, sizeof tensors);
  ADD(_0_weight, 2, 32, 64);
  ADD(_0_bias, 1, 32);
  ADD(_2_weight, 2, 10, 32);
  ADD(_2_bias, 1, 10);
  ADD(optimizer_0_weight_momentum_buffer, 2, 32, 64);
  ADD(optimizer_0_bias_momentum_buffer, 1, 32);
  ADD(optimizer_2_weight_momentum_buffer, 2, 10, 32);
  ADD(optimizer_2_bias_momentum_buffer, 1, 10);
  hash_end(&of_state, digest);
  print("state ");
  print_hex(digest, DIGEST);
  print("\n");
}

int main(void) {
  memcpy(&state, &network_initial, sizeof state);
  for (int step = 0; step < STEPS; ++step) {
    load_batch(step % BATCHES);
    int failed = network_step(&state, &inputs, &outputs, &memory);
    if (failed) {
      print("a check failed\n");
      return failed;
    }
    if (step % 20 == 0)
      print_loss(step);
  }
  print_state();
  return 0;
}
