/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

int main(void);
void reset(void);

void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);

void print(const char *text);
void print_hex(const uint8_t *bytes, uint32_t size);
/* Ends the emulation; 0 is success. */
void stop(int status);

#endif /* BOARD_H */
