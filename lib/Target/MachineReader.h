//===- MachineReader.h - Descriptions of machines ---------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The form of a description is that of docs/machine.schema.json. One that
// `extends` another changes sizes alone, hence never what its code can run on.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_MACHINEREADER_H
#define REPRO_TARGET_MACHINEREADER_H

#include "Target/Architecture.h"
#include "Target/Level.h"

namespace mlir::repro {

/// Reads the description of a machine that comes with the compiler into
/// `machine`, which has its names; one reason on failure.
LogicalResult readMachine(StringRef text, Level &machine, std::string &error);
LogicalResult readMachine(StringRef text, Architecture &machine,
                          std::string &error);

/// The kind of machine of such a description, empty where there is none.
std::string readMachineKind(StringRef text);

/// Reads the user's file at `path`, which extends one of `machines`; one reason
/// on failure.
FailureOr<Level> readMachineFile(StringRef path, ArrayRef<Level> machines,
                                 std::string &error);
FailureOr<Architecture> readMachineFile(StringRef path,
                                        ArrayRef<Architecture> machines,
                                        std::string &error);

} // namespace mlir::repro

#endif // REPRO_TARGET_MACHINEREADER_H
