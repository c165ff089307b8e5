/*===- cpu.c - A program in C that compiles and runs steps ----------*- C -*-===
 *
 * Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===
 *
 * REQUIRES: native-tests
 * RUN: %native/capi-cpu | FileCheck %s
 *
 *===----------------------------------------------------------------------===*/

#include "CAPI/CPU.h"
#include "CAPI/Repro.h"

#include "mlir-c/Diagnostics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state counts up by the input of an index, which is checked (E1). */
static const char *program =
    "func.func @main(%n: tensor<i64> {repro.name = \"n\"},\n"
    "                %x: tensor<4xi64> {repro.name = \"x\"},\n"
    "                %i: tensor<i64> {repro.name = \"i\"})\n"
    "    -> (tensor<i64>, tensor<i64> {repro.name = \"y\"})\n"
    "    attributes {repro.num_state = 1 : i64} {\n"
    "  %i0 = tensor.extract %i[] : tensor<i64>\n"
    "  %at = arith.index_cast %i0 : i64 to index\n"
    "  %x0 = tensor.extract %x[%at] : tensor<4xi64>\n"
    "  %n0 = tensor.extract %n[] : tensor<i64>\n"
    "  %sum = arith.addi %n0, %x0 : i64\n"
    "  %new = tensor.from_elements %sum : tensor<i64>\n"
    "  %y = tensor.from_elements %x0 : tensor<i64>\n"
    "  return %new, %y : tensor<i64>, tensor<i64>\n"
    "}\n";

typedef struct {
  char *data;
  size_t size;
} Text;

/* Appends a part of a text. */
static void append(MlirStringRef part, void *userData) {
  Text *text = (Text *)userData;
  text->data = (char *)realloc(text->data, text->size + part.length + 1);
  if (!text->data)
    exit(1);
  memcpy(text->data + text->size, part.data, part.length);
  text->size += part.length;
  text->data[text->size] = 0;
}

static void clear(Text *text) {
  free(text->data);
  text->data = NULL;
  text->size = 0;
}

static MlirStringRef toRef(const Text *text) {
  return mlirStringRefCreate(text->data, text->size);
}

static MlirLogicalResult printError(MlirDiagnostic diagnostic, void *unused) {
  (void)unused;
  if (mlirDiagnosticGetSeverity(diagnostic) != MlirDiagnosticError)
    return mlirLogicalResultSuccess();
  Text text = {NULL, 0};
  mlirDiagnosticPrint(diagnostic, append, &text);
  printf("error: %s\n", text.data);
  clear(&text);
  return mlirLogicalResultSuccess();
}

static void printTensors(ReproLoadedArtifact loaded, ReproTensorKind kind,
                         const char *title) {
  for (intptr_t i = 0; i < reproLoadedArtifactGetNumTensors(loaded, kind);
       ++i) {
    MlirStringRef name, element;
    uint64_t bytes;
    const uint64_t *shape;
    intptr_t rank;
    reproLoadedArtifactGetTensor(loaded, kind, i, &name, &element, &bytes,
                                 &shape, &rank);
    printf("%s %.*s: %.*s, %llu bytes", title, (int)name.length, name.data,
           (int)element.length, element.data, (unsigned long long)bytes);
    for (intptr_t dim = 0; dim < rank; ++dim)
      printf(", %llu", (unsigned long long)shape[dim]);
    printf("\n");
  }
}

int main(void) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  reproRegisterDialects(registry);
  MlirContext context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextLoadAllAvailableDialects(context);
  mlirContextAttachDiagnosticHandler(context, printError, NULL, NULL);
  MlirModule module =
      mlirModuleCreateParse(context, mlirStringRefCreateFromCString(program));
  if (mlirModuleIsNull(module))
    return 1;

  Text level = {NULL, 0}, artifact = {NULL, 0}, message = {NULL, 0};
  // CHECK: error: unknown CPU level 'z80'
  MlirLogicalResult result =
      reproCPUCompile(module, mlirStringRefCreateFromCString("z80"), 1, false,
                      append, &artifact);
  if (mlirLogicalResultIsSuccess(result) || artifact.size)
    return 1;
  reproCPUHostLevel(append, &level);
  result = reproCPUCompile(module, toRef(&level), 2, false, append, &artifact);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  if (mlirLogicalResultIsFailure(result))
    return 1;

  /* What is loaded needs neither the module nor the context. */
  ReproLoadedArtifact loaded =
      reproLoadedArtifactCreate(toRef(&artifact), 2, append, &message);
  if (!loaded.ptr)
    return 1;
  // CHECK: 2 threads
  // CHECK: state n: i64, 8 bytes
  // CHECK-NEXT: input x: i64, 32 bytes, 4
  // CHECK-NEXT: input i: i64, 8 bytes
  // CHECK-NEXT: output y: i64, 8 bytes
  printf("%u threads\n", reproLoadedArtifactGetThreads(loaded));
  printTensors(loaded, ReproTensorState, "state");
  printTensors(loaded, ReproTensorInput, "input");
  printTensors(loaded, ReproTensorOutput, "output");

  intptr_t numLaunches = reproLoadedArtifactGetNumLaunches(loaded);
  // CHECK: launch of kernel_0
  for (intptr_t i = 0; i < numLaunches; ++i) {
    MlirStringRef name = reproLoadedArtifactGetLaunchKernel(loaded, i);
    printf("launch of %.*s\n", (int)name.length, name.data);
  }

  int64_t n = 100, x[4] = {1, 2, 3, 4}, i = 3, y = 0;
  void *buffers[] = {&n, x, &i, &y};
  uint64_t *times = (uint64_t *)calloc((size_t)numLaunches, sizeof *times);
  uint64_t *counts = (uint64_t *)calloc((size_t)numLaunches, sizeof *counts);
  const int noFile = -1;
  // CHECK: step: n = 104, y = 4
  // CHECK: step: n = 107, y = 3
  for (; i > 1; --i) {
    result = i == 3
                 ? reproLoadedArtifactRun(loaded, buffers, append, &message)
                 : reproLoadedArtifactProfile(loaded, buffers, &noFile, 1, times,
                                              counts, append, &message);
    if (mlirLogicalResultIsFailure(result))
      return 1;
    printf("step: n = %lld, y = %lld\n", (long long)n, (long long)y);
  }
  // CHECK: not counted: 1
  printf("not counted: %d\n", counts[0] == UINT64_MAX);
  free(times);
  free(counts);
  // CHECK: failed: {{.*}}index out of range for a tensor of shape [4], n = 107
  i = 4;
  result = reproLoadedArtifactRun(loaded, buffers, append, &message);
  if (mlirLogicalResultIsFailure(result))
    printf("failed: %s, n = %lld\n", message.data, (long long)n);
  reproLoadedArtifactDestroy(loaded);
  clear(&message);

  // CHECK: not loaded: damaged artifact: expected checksum
  artifact.data[artifact.size - 1] ^= 1;
  loaded = reproLoadedArtifactCreate(toRef(&artifact), 1, append, &message);
  if (!loaded.ptr)
    printf("not loaded: %s\n", message.data);
  clear(&message);
  clear(&artifact);
  clear(&level);
  return 0;
}
