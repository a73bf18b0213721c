"""Make this process take its machine for an aarch64 one, on any machine."""

import platform

import llvmlite.binding as llvm

TRIPLE = "aarch64-unknown-linux-gnu"


def pretend(cpu: str = "generic", features: str = "+fp-armv8,+neon") -> None:
    """Have llvmlite and Python say so. Call it before our modules and numba's are imported.

    Everything else is what happens on such a machine: numba compiles for it, our branches for it are taken, and LLVM
    emits its machine code.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    known = llvm.targets.FeatureMap({f[1:]: f[0] == "+" for f in features.split(",")})
    llvm.get_process_triple = llvm.get_default_triple = lambda: TRIPLE
    llvm.Target.from_default_triple = classmethod(lambda cls: cls.from_triple(TRIPLE))
    llvm.get_host_cpu_name = lambda: cpu
    llvm.get_host_cpu_features = lambda: known
    platform.machine = lambda: "aarch64"
