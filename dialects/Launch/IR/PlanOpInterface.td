//===- PlanOpInterface.td - Plans of one step --------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_PLANOPINTERFACE_TD
#define REPRO_LAUNCH_PLANOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def PlanOpInterface : OpInterface<"PlanOpInterface"> {
  let cppNamespace = "::mlir::repro::launch";
  let description = [{
    A plan of one step of a program. The arguments of its body are the states,
    inputs and outputs of the program and the arena.
  }];
  let methods = [
    InterfaceMethod<"", "uint64_t", "getNumStates">,
    InterfaceMethod<"", "uint64_t", "getNumInputs">,
    InterfaceMethod<"", "uint64_t", "getNumOutputs">,
    InterfaceMethod<"the names of the states, inputs and outputs",
                    "::mlir::ArrayAttr", "getNames">,
    InterfaceMethod<"the messages of the checks (E1)", "::mlir::ArrayAttr",
                    "getMessages">,
    InterfaceMethod<"", "::mlir::Region &", "getBody">,
  ];
  let extraSharedClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::BlockArgument> getStates() {
      return $_op.getBody().getArguments().take_front($_op.getNumStates());
    }
    ::llvm::ArrayRef<::mlir::BlockArgument> getInputs() {
      return $_op.getBody().getArguments().slice($_op.getNumStates(),
                                                 $_op.getNumInputs());
    }
    ::llvm::ArrayRef<::mlir::BlockArgument> getOutputs() {
      return $_op.getBody().getArguments().slice(
          $_op.getNumStates() + $_op.getNumInputs(), $_op.getNumOutputs());
    }
    ::mlir::BlockArgument getArena() {
      return $_op.getBody().getArguments().back();
    }
  }];
}

#endif // REPRO_LAUNCH_PLANOPINTERFACE_TD
