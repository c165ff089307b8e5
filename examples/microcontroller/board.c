/* Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The start of a Cortex-M4 without an operating system, and text output by semihosting, which QEMU and debuggers
 * provide.
 */
#include "board.h"

extern uint32_t stack_top, data_start, data_end, data_in_flash, bss_start, bss_end;

static uint32_t semihost(uint32_t operation, const void *argument) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void print(const char *text) { semihost(4, text); }

void print_hex(const uint8_t *bytes, uint32_t size) {
  char digits[3] = {0};
  for (uint32_t i = 0; i < size; ++i) {
    digits[0] = "0123456789abcdef"[bytes[i] >> 4];
    digits[1] = "0123456789abcdef"[bytes[i] & 15];
    print(digits);
  }
}

void stop(int status) {
  uint32_t reason[2] = {0x20026, (uint32_t)status}; /* an exit of the application */
  semihost(0x20, reason);
  for (;;) {
  }
}

void reset(void) {
  *(volatile uint32_t *)0xe000ed88 |= 0xf << 20; /* turns on the FPU */
  __asm__ volatile("dsb\n isb" ::: "memory");
  for (uint32_t *to = &data_start, *from = &data_in_flash; to < &data_end;)
    *to++ = *from++;
  for (uint32_t *to = &bss_start; to < &bss_end;)
    *to++ = 0;
  stop(main());
}

static void fault(void) {
  print("fault\n");
  stop(1);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};

/* Compilers call these functions, and there is no C library. */
void *memcpy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; ++i)
    ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
  return to;
}

void *memset(void *to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i)
    ((volatile uint8_t *)to)[i] = (uint8_t)value;
  return to;
}
