include "dialects/Repro/IR/ReproOps.td"
