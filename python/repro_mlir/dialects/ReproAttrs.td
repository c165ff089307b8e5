include "dialects/Repro/IR/ReproAttrs.td"
