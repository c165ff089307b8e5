//===- Passes.td - Passes of the GPU path ------------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_GPU_PASSES_TD
#define REPRO_CODEGEN_GPU_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// On buffers
//===----------------------------------------------------------------------===//

def ReproExpandDeviceKernels : Pass<"repro-expand-device-kernels", "::mlir::ModuleOp"> {
  let summary = "kernel functions become device kernels";
  let description = [{
    Each kernel function becomes one or several `gpu.func`s in the module
    `@device`, written for one thread of a grid, and each of its launches in the
    plan one `launch.dispatch` for each of them, with grid, block and shared
    memory. Memory that threads need beyond their buffers is a part of the
    arena, which grows. The last argument of each device kernel is the error
    word (E1).
  }];
  let options = [
    Option<"arch", "arch", "std::string", /*default=*/"\"sm_75\"",
           "such as sm_90, sm_90+tensor-cores (M4) or a machine's file: tiles and instructions, never bits">
  ];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::gpu::GPUDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::ub::UBDialect",
                           "::mlir::vector::VectorDialect"];
}

//===----------------------------------------------------------------------===//
// On device kernels
//===----------------------------------------------------------------------===//

def ReproExpandRemainder : Pass<"repro-expand-remainder", "::mlir::gpu::GPUModuleOp"> {
  let summary = "remainders of floats become loops on integers";
  let description = [{
    (S4) `arith.remf` is exact: it subtracts shifted multiples of the divisor's
    significand from the dividend's. Devices have no routine to call.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}

def ReproConvertMathToDevice : Pass<"repro-convert-math-to-device", "::mlir::gpu::GPUModuleOp"> {
  let summary = "math operations become intrinsics that are one instruction";
  let description = [{
    Upstream's conversion calls libdevice for most of them, whose square root is
    an approximation. An operation that has no exact instruction is an error.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect"];
}

def ReproEmitPTX : Pass<"repro-emit-ptx", "::mlir::ModuleOp"> {
  let summary = "the device kernels as PTX text";
  let description = [{
    Replaces each `gpu.module` of `llvm.func`s by a `gpu.binary` of the same
    name that holds PTX. No contraction, no approximation and no flushing is
    asked for.
  }];
  let options = [
    Option<"arch", "arch", "std::string", /*default=*/"\"sm_75\"",
           "the architecture, such as sm_90">
  ];
  let dependentDialects = ["::mlir::gpu::GPUDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

def ReproVerifyPTX : Pass<"repro-verify-ptx", "::mlir::ModuleOp"> {
  let summary = "accept only PTX instructions whose every bit is defined";
  let description = [{
    (V3) An instruction of a `gpu.binary` that is not on the list is an error
    that names the kernel, the line, the instruction and the reason. So is a
    store of fewer bits than its register has, where an instruction on floats
    gives the register: ptxas stores the number as an integer.
  }];
  let options = [
    Option<"tensorCores", "tensor-cores", "bool", /*default=*/"false",
           "accept the instructions whose sums a certificate of the device (M3) tells">
  ];
}

#endif // REPRO_CODEGEN_GPU_PASSES_TD
