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
  let summary = "expand kernel functions to device kernels";
  let description = [{
    Replaces each kernel function by one or several `gpu.func`s in the module
    `@device`, which contain the code of one thread of a grid. Each launch of the
    function in the plan becomes one `launch.dispatch` per `gpu.func`, with grid,
    block and shared memory. The pass extends the arena by the memory that
    threads need in addition to their buffers. The last argument of each device
    kernel is the error word (E1).
  }];
  let options = [
    Option<"arch", "arch", "std::string", /*default=*/"\"sm_75\"",
           "sm_90, sm_90+tensor-cores (M4) or a machine file; affects tiles and instructions, never bits">
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
  let summary = "expand remainders of floats to loops on integers";
  let description = [{
    (S4) Replaces `arith.remf` by a loop that subtracts shifted multiples of the
    divisor's significand from the dividend's significand, which is exact.
    Devices have no library function to call.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect"];
}

def ReproConvertMathToDevice : Pass<"repro-convert-math-to-device", "::mlir::gpu::GPUModuleOp"> {
  let summary = "convert math operations to intrinsics of single instructions";
  let description = [{
    Converts each `math` operation to the intrinsic of an exact instruction; an
    operation without an exact instruction is an error. Upstream's conversion is
    not used, because it calls libdevice for most operations, and the square root
    of libdevice is an approximation.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect"];
}

def ReproEmitPTX : Pass<"repro-emit-ptx", "::mlir::ModuleOp"> {
  let summary = "translate device kernels to PTX text";
  let description = [{
    Replaces each `gpu.module` of `llvm.func`s by a `gpu.binary` of the same name
    that contains PTX. Contraction, approximation and flushing of subnormals are
    off.
  }];
  let options = [
    Option<"arch", "arch", "std::string", /*default=*/"\"sm_75\"",
           "the architecture, such as sm_90">
  ];
  let dependentDialects = ["::mlir::gpu::GPUDialect",
                           "::mlir::NVVM::NVVMDialect"];
}

def ReproVerifyPTX : Pass<"repro-verify-ptx", "::mlir::ModuleOp"> {
  let summary = "verify that every bit of PTX instructions is defined";
  let description = [{
    (V3) Reports an error for each instruction of a `gpu.binary` that is not on
    the list of allowed ones; the message has the kernel, the line, the
    instruction and the reason. A store of fewer bits than its register has is
    also an error if an instruction on floats computes the register, because
    ptxas stores the number as an integer.
  }];
  let options = [
    Option<"tensorCores", "tensor-cores", "bool", /*default=*/"false",
           "accept the instructions whose sums a certificate of the device (M3) describes">
  ];
}

#endif // REPRO_CODEGEN_GPU_PASSES_TD
