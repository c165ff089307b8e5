"""Run by the MLIR bindings on import: a fresh Context knows every dialect and pass of the compiler."""

from . import _repro

_repro.register_passes()


def register_dialects(registry) -> None:
    """Called with the registry that every new Context gets."""
    _repro.register_dialects(registry)
