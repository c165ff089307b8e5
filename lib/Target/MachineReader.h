//===- MachineReader.h - Reads descriptions of machines ---------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads descriptions in the format of docs/schemas/machine.schema.json. A
// description that `extends` a level or an architecture changes only sizes, so
// it never changes which machines can run the code.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_MACHINEREADER_H
#define REPRO_TARGET_MACHINEREADER_H

#include "Target/Architecture.h"
#include "Target/Level.h"
#include "Target/ManyCore.h"

namespace mlir::repro {

/// Reads the description of a machine that is built into the compiler. The
/// caller has set the names of `machine`. On failure, sets `error` to one
/// reason.
LogicalResult readMachine(StringRef text, Level &machine, std::string &error);
LogicalResult readMachine(StringRef text, Architecture &machine,
                          std::string &error);

/// Returns the member `kind` of a machine's description; an empty string if the
/// description has none or is not valid.
std::string readMachineKind(StringRef text);

/// Reads the user's file at `path`, which describes a machine by its
/// differences from one of `machines`. The description of a machine of many
/// cores may also be complete. On failure, sets `error` to one reason.
FailureOr<Level> readMachineFile(StringRef path, ArrayRef<Level> machines,
                                 std::string &error);
FailureOr<Architecture> readMachineFile(StringRef path,
                                        ArrayRef<Architecture> machines,
                                        std::string &error);
FailureOr<ManyCore> readMachineFile(StringRef path, ArrayRef<ManyCore> machines,
                                    std::string &error);

/// Reads the description of a machine of many cores, which is complete or
/// extends one of `machines`. On failure, sets `error` to one reason.
FailureOr<ManyCore> readManyCore(StringRef text, ArrayRef<ManyCore> machines,
                                 std::string &error);

} // namespace mlir::repro

#endif // REPRO_TARGET_MACHINEREADER_H
