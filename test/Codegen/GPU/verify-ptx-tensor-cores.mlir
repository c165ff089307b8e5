// RUN: %repro-opt %s -split-input-file -repro-verify-ptx=tensor-cores=true -verify-diagnostics

// (M3) The sums of these instructions are certified for the device.
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4};\0Amma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};\0A">]

// -----

gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%r1}, {%r2}, {%r3}, {%r4};\0Amma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%r1}, {%r2}, {%r3}, {%r4};\0Amma.sync.aligned.m16n8k32.row.col.f16.e5m2.e5m2.f16 {%r1}, {%r2}, {%r3}, {%r4};\0Amma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1}, {%r2}, {%r3}, {%r4};\0A">]

// -----

// No certificate covers other shapes.
// expected-error @below {{accumulates in an order that is not specified}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32 {%r1}, {%r2}, {%r3}, {%r4};">]

// -----

// expected-error @below {{approximates}}
gpu.binary @device [#gpu.object<#nvvm.target, assembly = "ex2.f32 %r1, %r2;">]
