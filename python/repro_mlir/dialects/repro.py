"""The repro dialect: classes of its operations and enumerations."""

from ._repro_enum_gen import *  # noqa: F403
from ._repro_ops_gen import *  # noqa: F403
