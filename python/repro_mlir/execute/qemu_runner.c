/*===- Runner.c - One step of a program as a process ----------------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===
 *
 * Linked with the objects of one artifact, this is a program for the machine of
 * that artifact, which an emulator can run: runner <job> <data> <result>.
 * It is written in C, as cross compilers often come without a C++ library.
 *
 * The job file is the launch plan as repro_mlir.execute.qemu writes it. All
 * numbers are u64: steps, shares, arena bytes, scratch bytes, number of
 * buffers, number of launches; the size of each buffer; then per launch:
 * kernel, items, grain, check, number of operands, and per operand: buffer,
 * offset. Buffer 0 is the arena. The data file contains the other buffers one
 * after the other, and the result file receives them after the last step. The
 * exit status is 0, or 1 for an error with a message on standard error, or 2
 * for a failed check, whose number is printed.
 *
 *===----------------------------------------------------------------------===*/

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*KernelEntry)(char *const *buffers, char *scratch, int64_t *error,
                            int64_t begin, int64_t end);
extern const KernelEntry repro_kernels[];

/* The routines of lib/Runtime/Routines.h that machines with an fma instruction
 * need. */
double repro_fmod(double x, double y) { return fmod(x, y); }

static void fail(const char *message) {
  fprintf(stderr, "%s\n", message);
  exit(1);
}

static char *allocate(uint64_t bytes) {
  char *memory = aligned_alloc(64, (bytes / 64 + 2) * 64);
  if (!memory)
    fail("out of memory");
  return memory;
}

static uint64_t *readJob(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file)
    fail("cannot read the job");
  fseek(file, 0, SEEK_END);
  size_t bytes = (size_t)ftell(file);
  rewind(file);
  uint64_t *job = (uint64_t *)allocate(bytes);
  if (fread(job, 1, bytes, file) != bytes)
    fail("cannot read the job");
  fclose(file);
  return job;
}

static uint64_t minimum(uint64_t x, uint64_t y) { return x < y ? x : y; }

int main(int argc, char **argv) {
  if (argc != 4)
    fail("expected: runner <job> <data> <result>");
  const uint64_t *job = readJob(argv[1]);
  uint64_t steps = job[0], shares = job[1], arenaBytes = job[2];
  uint64_t scratchBytes = job[3], numBuffers = job[4], numLaunches = job[5];
  const uint64_t *sizes = job + 6, *launches = sizes + numBuffers;

  char **buffers = (char **)allocate((numBuffers + 1) * sizeof(char *));
  buffers[0] = allocate(arenaBytes);
  FILE *data = fopen(argv[2], "rb");
  if (!data)
    fail("cannot read the data");
  for (uint64_t i = 0; i < numBuffers; ++i) {
    buffers[i + 1] = allocate(sizes[i]);
    if (fread(buffers[i + 1], 1, sizes[i], data) != sizes[i])
      fail("the data ends early");
  }
  fclose(data);

  char *scratch = allocate(scratchBytes);
  int64_t error = 0;
  for (uint64_t step = 0; step < steps && !error; ++step) {
    const uint64_t *at = launches;
    for (uint64_t launch = 0; launch < numLaunches; ++launch) {
      uint64_t kernel = at[0], items = at[1], grain = at[2], check = at[3];
      uint64_t numOperands = at[4];
      at += 5;
      char *operands[256];
      if (numOperands > 256)
        fail("a launch has more than 256 operands");
      for (uint64_t i = 0; i < numOperands; ++i, at += 2)
        operands[i] = buffers[at[0]] + at[1];
      if (check && error)
        break;
      /* Runs the shares that threads would run, one after the other. */
      uint64_t grains = (items + grain - 1) / grain;
      uint64_t parts = minimum(grains, shares);
      for (uint64_t part = 0; part < parts; ++part)
        repro_kernels[kernel](
            operands, scratch, &error, (int64_t)(grains * part / parts * grain),
            (int64_t)minimum(grains * (part + 1) / parts * grain, items));
    }
  }
  if (error) {
    printf("%lld\n", (long long)error);
    return 2;
  }

  FILE *result = fopen(argv[3], "wb");
  if (!result)
    fail("cannot write the result");
  for (uint64_t i = 0; i < numBuffers; ++i)
    if (fwrite(buffers[i + 1], 1, sizes[i], result) != sizes[i])
      fail("cannot write the result");
  return fclose(result) ? 1 : 0;
}
