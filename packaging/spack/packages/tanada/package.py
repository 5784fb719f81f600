# ruff: noqa: F403, F405 (recipes of Spack import all of its words)
"""Recipe of Spack. `spack repo add packaging/spack`, then `spack install tanada`."""

import pathlib

from spack.package import *


class Tanada(CMakePackage, CudaPackage):
    """One-sided data for GPU clusters: files, memory pools and other nodes' memory for kernels and
    host code.
    """

    # The clone that has this recipe.
    git = pathlib.Path(__file__).resolve().parents[4].as_uri()

    license("Apache-2.0")
    version("main", branch="main")

    variant("fabric", default=True, description="Networks of libfabric, and the provider o2g")
    variant("pmix", default=True, description="Jobs of several processes of OpenSHMEM")
    variant("armci", default=False, description="ARMCI and ComEx for Global Arrays")
    variant("pmem", default=False, description="Pools in persistent memory")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.10:", type="build")
    depends_on("boost")
    depends_on("cli11")
    depends_on("cpp-httplib")
    depends_on("fmt")
    depends_on("isa-l")
    depends_on("libgd")
    depends_on("libsodium")
    depends_on("liburing@2.3:")
    depends_on("nlohmann-json")
    depends_on("openssl")
    depends_on("spdlog+fmt_external")
    depends_on("tomlplusplus")
    depends_on("xxhash")
    depends_on("libfabric", when="+fabric")
    depends_on("pmix", when="+pmix")
    depends_on("mpi", when="+armci")
    depends_on("pmdk", when="+pmem")
    depends_on("cuda@12.8:", when="+cuda")

    conflicts("%gcc@:11")
    conflicts("platform=darwin", msg="Tanada needs Linux")

    generator("ninja")

    def cmake_args(self):
        cuda = "ON" if self.spec.satisfies("+cuda") else "OFF"
        options = [
            self.define("TANADA_CUDA", cuda),
            self.define("TANADA_TESTS", False),
            self.define("TANADA_EXAMPLES", False),
            self.define("TANADA_BENCH", "OFF"),
            self.define("TANADA_WARNINGS_ARE_ERRORS", False),
        ]
        if self.spec.satisfies("+cuda"):
            architectures = self.spec.variants["cuda_arch"].value
            if architectures != ("none",):
                options.append(self.define("CMAKE_CUDA_ARCHITECTURES", architectures))
        return options

    def setup_run_environment(self, env):
        if self.spec.satisfies("+fabric"):
            env.prepend_path("FI_PROVIDER_PATH", join_path(self.prefix.lib, "tanada"))
