// RUN: %repro-opt %s -split-input-file -repro-verify-ptx -verify-diagnostics

// Every instruction is on the list.
gpu.binary @device [#gpu.object<#nvvm.target<chip = "sm_75">, assembly = ".version 6.3\0A.target sm_75\0A.address_size 64\0A// add.f32 in a comment\0A.visible .entry k(\0A\09.param .u64 .ptr .align 1 k_param_0\0A)\0A.maxntid 32, 1, 1\0A{\0A\09.reg .b32 %r<4>;\0A\09fma.rn.f32 %r1, %r2, %r3, %r1;\0A$L0:\0A\09@!%p1 bra $L0;\0A\09ld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\0A\09ret;\0A}\0A">]

// -----

// expected-error @below {{(V3) kernel 'k', line 3: 'add.f32 %r1, %r2, %r3' may be contracted, as it does not name its rounding}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = ".visible .entry k()\0A{\0A\09add.f32 %r1, %r2, %r3;\0A\09ret;\0A}\0A">]

// -----

// expected-error @below {{'add.rn.ftz.f32 %r1, %r2, %r3' flushes subnormal numbers}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "add.rn.ftz.f32 %r1, %r2, %r3;">]

// -----

// expected-error @below {{'@%p1 sqrt.approx.f32 %r1, %r2' approximates}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "@%p1 sqrt.approx.f32 %r1, %r2;">]

// -----

// expected-error @below {{'ex2.f32 %r1, %r2' approximates}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "ex2.f32 %r1, %r2;">]

// -----

// expected-error @below {{'div.full.f32 %r1, %r2, %r3' approximates}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "div.full.f32 %r1, %r2, %r3;">]

// -----

// expected-error @below {{'fma.rz.f32 %r1, %r2, %r3, %r4' rounds otherwise than to nearest even}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "fma.rz.f32 %r1, %r2, %r3, %r4;">]

// -----

// expected-error @below {{'add.rn.sat.f32 %r1, %r2, %r3' saturates}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "add.rn.sat.f32 %r1, %r2, %r3;">]

// -----

// expected-error @below {{'fma.rn.bf16 %rs1, %rs2, %rs3, %rs4' computes on a storage type (V1)}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "fma.rn.bf16 %rs1, %rs2, %rs3, %rs4;">]

// -----

// expected-error @below {{'atom.global.add.f32 %r1, [%rd1], %r2' adds floats in an order that is not specified}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "atom.global.add.f32 %r1, [%rd1], %r2;">]

// -----

// expected-error @below {{'red.global.add.u32 [%rd1], %r2' races with other threads}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "red.global.add.u32 [%rd1], %r2;">]

// -----

// expected-error @below {{' accumulates in an order that is not specified}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};">]

// -----

// expected-error @below {{'call.uni (retval0), __nv_expf, (param0)' calls a function}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "call.uni (retval0), __nv_expf, (param0);">]

// -----

// expected-error @below {{'.extern .func (.param .b32 r) __nv_expf' calls a function}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = ".extern .func (.param .b32 r) __nv_expf">]

// -----

// expected-error @below {{'ld.volatile.global.b32 %r1, [%rd1]' accesses memory in a way that is not on the list}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "ld.volatile.global.b32 %r1, [%rd1];">]

// -----

// expected-error @below {{'vote.sync.any.pred %p1, %p2, -1' is not on the list}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "vote.sync.any.pred %p1, %p2, -1;">]

// -----

// An instruction after a declaration on the same line.
// expected-error @below {{'sin.f32 tmp, %r1' approximates}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "{ .reg .b32 tmp; sin.f32 tmp, %r1; }">]

// -----

// expected-error @below {{'ret' is not followed by ';'}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "ret">]

// -----

// Operands on separate lines.
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32\0A\09{%r1, %r2, %r3, %r4},\0A\09{%r5, %r6, %r7, %r8},\0A\09{%r9, %r10},\0A\09{%r11, %r12, %r13, %r14};\0Aret;\0A">]

// -----

gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r9}, {%r11, %r12, %r13, %r14};">]

// -----

// expected-error @below {{mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32\0A\09{%r1, %r2, %r3, %r4},\0A\09{%r5, %r6, %r7, %r8},\0A\09{%r9, %r10},\0A\09{%r11, %r12, %r13, %r14};\0A">]

// -----

// The line number after a multi-line instruction is right.
// expected-error @below {{line 4: 'sin.f32 %r1, %r2' approximates}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32\0A\09{%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8},\0A\09{%r9, %r10}, {%r11, %r12, %r13, %r14};\0A\09sin.f32 %r1, %r2;\0A">]

// -----

// expected-error @below {{'mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32' is not followed by ';'}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32">]

// -----

// A float result is stored in full, or by a mov.
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "add.rn.f32 %r1, %r2, %r2;\0Amov.b32 %r3, %r1;\0Ast.global.b8 [%rd1], %r3;\0Ast.global.b32 [%rd1+4], %r1;\0Ast.global.v2.b16 [%rd1+8], {%rs1, %rs2};\0Ashfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;\0Ast.global.b8 [%rd1], %r5;">]

// -----

// In a loop, the instruction that computes the register may follow the store.
// expected-error @below {{kernel 'k', line 2: 'st.global.b8 [%rd1], %r1' stores a float in fewer bits, which ptxas converts to an integer}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = ".visible .entry k()\0Ast.global.b8 [%rd1], %r1;\0Afma.rn.f32 %r1, %r2, %r3, %r4;\0A.visible .entry l()\0Ast.global.b8 [%rd1], %r1;">]

// -----

// expected-error @below {{'st.shared.v2.b16 [%rd1+2], {%r4, %r1}' stores a float in fewer bits}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "cvt.rn.f32.s32 %r1, %r2;\0Ast.shared.v2.b16 [%rd1+2], {%r4, %r1};">]

// -----

// expected-error @below {{'st.global.b32 [%rd1], %rd2' stores a float in fewer bits}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "@%p1 st.global.b32 [%rd1], %rd2;\0A@%p2 selp.f64 %rd2, %rd3, %rd4, %p1;">]

// -----

// A vector load computes several registers.
// expected-error @below {{'st.global.b8 [%rd1], %r1' stores a float in fewer bits}}
// expected-error @below {{'st.global.b16 [%rd1+2], %r2' stores a float in fewer bits}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "ld.global.v2.f32 \09{%r1, %r2}, [%rd1+8];\0Ast.global.b8 [%rd1], %r1;\0Ast.global.b16 [%rd1+2], %r2;">]

// -----

// Operands after the braces are not results.
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "fma.rn.f32x2 %rd1, %rd2, %rd3, %rd3;\0Acvt.rn.f32.s32 %r1, %r2;\0Ast.global.b8 [%rd1], %r2;\0Ast.global.b32 [%rd1], %rd3;">]

// -----

// expected-error @below {{'st.global.b32 [%rd2], %rd1' stores a float in fewer bits}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "fma.rn.f32x2 %rd1, %rd2, %rd3, %rd3;\0Ast.global.b32 [%rd2], %rd1;">]

// -----

// A mov of floats is an instruction on floats.
// expected-error @below {{'st.global.b8 [%rd1], %r1' stores a float in fewer bits}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mov.f32 %r1, %r2;\0Ast.global.b8 [%rd1], %r1;">]
