"""A GPU that need not be present, for Triton to compile for."""

from __future__ import annotations

from triton.backends.compiler import GPUTarget


class AbsentGPU:
    """Its driver.

    Args:
        capability: compute capability, such as 90.
    """

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0
