# The front door: everything is CMake underneath (CMakePresets.json). See `make help`.
CUDA ?= auto
PREFIX ?= /usr/local
DESTDIR ?=
BENCH ?= all
FUZZ_SECONDS ?= 30
STRESS_SECONDS ?= 600
SEEDS ?= 10000
KILLS ?= 100
MINUTES ?= 600
export CUDA PREFIX DESTDIR BENCH FUZZ_SECONDS STRESS_SECONDS SEEDS KILLS MINUTES

.DEFAULT_GOAL := help
.PHONY: help demo docs figures test test-all bench test-tsan test-asan test-mpi test-shmem \
  test-suites test-ga test-python-all test-fuzz test-stress test-sim test-cluster test-gpu \
  test-rdma test-driver test-driver-smp bench-driver kernel kernel-install kernel-uninstall \
  install uninstall packages test-packages lint format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18
	@echo
	@echo 'CUDA=auto uses nvcc where it is found; CUDA=1 fetches it as Python wheels where it is not; CUDA=0 leaves it out.'
	@echo 'demo, bench and install share build/release: with the same CUDA each builds only what the others have not built.'

demo: ## build, run the FDTD demo with its snapshots in a pool, and name the pictures it drew
	tools/demo.sh

docs: ## build the documentation site in build/docs/html
	tools/docs.sh

figures: ## draw the figures of the papers from docs/measurements, and write docs/figures.md
	python=$$(tools/venv.sh docs) && "$$python" tools/figures.py

test: ## build and run the tests this machine can run, without the slow ones, which only add breadth
	tools/test.sh dev

test-all: ## build and run every test this machine can run
	TND_TEST_ALL=1 tools/test.sh dev

test-asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	tools/test.sh asan

test-tsan: ## the tests under ThreadSanitizer
	tools/test.sh tsan

test-sim: ## every simulation with SEEDS seeds of each of its parts (hours)
	tools/simulate.sh

test-cluster: ## real clusters under all faults, as root: KILLS of each server, MINUTES=n ends it
	tools/cluster.sh

test-gpu: ## the tests on the GPU; an error on a machine without one
	tools/test.sh cuda

test-rdma: ## the fabric, the pool and OpenSHMEM over RDMA verbs, in virtual machines with a software device (twenty minutes)
	tools/rdma/test.sh

test-driver: ## the driver o2g.ko in a kernel with KASAN, lockdep and failing memory, which it builds (ten minutes, the first time more)
	tools/driver/test.sh

test-driver-smp: ## the driver in a virtual machine with several processors: random operations, kills, loads (half an hour)
	tools/driver/guest.sh

bench-driver: ## MPI over the driver beside other transports, in a guest: NPB=FOLDER is the source of the NAS benchmarks (an hour)
	tools/driver/bench.sh $(if $(NPB),-n "$(NPB)")

test-mpi: ## unmodified MPI programs over o2g under Open MPI 4 and 5 and MPICH 5, which it installs
	tools/mpi/install.sh
	python=$$(tools/venv.sh) && TND_TEST_ALL=1 "$$python" -m pytest -q -rs -p no:cacheprovider tests/conformance/o2g

test-shmem: ## OpenSHMEM programs and shmem4py with up to 64 PEs, by shared memory and by fabrics (some minutes)
	tools/build.sh dev test
	python=$$(tools/venv.sh) && TND_TEST_ALL=1 TND_SHMEM_ALL=1 TANADA_BUILD="$(CURDIR)/build/dev" "$$python" -m pytest -q -rs -p no:cacheprovider tests/conformance/shmem tests/e2e/python/test_shmem.py

test-suites: ## suites of OpenSHMEM that variables name (docs/testing.md), with a table (hours)
	tools/build.sh dev test
	python=$$(tools/venv.sh) && TND_TEST_ALL=1 TANADA_BUILD="$(CURDIR)/build/dev" \
	  "$$python" -m pytest -q -rs -p no:cacheprovider tests/conformance/shmem/test_shmem_suites.py

test-ga: ## Global Arrays, unmodified, on our ARMCI: builds it and runs its own test programs (half an hour)
	tools/setup.sh ga
	tools/build.sh dev test
	python=$$(tools/venv.sh) && TND_TEST_ALL=1 TND_COMEX_ALL=1 TANADA_BUILD="$(CURDIR)/build/dev" "$$python" -m pytest -q -rs -s -p no:cacheprovider tests/conformance/comex

test-python-all: ## the Python tests with PyTorch and PyArrow, too: 6 GB of packages in .venv-all
	tools/test_python.sh

test-fuzz: ## fuzz every decoder for FUZZ_SECONDS seconds each
	tools/fuzz.sh

test-stress: ## random operations of many blocks for STRESS_SECONDS seconds, plain and under ThreadSanitizer
	tools/stress.sh

bench: ## benchmarks (BENCH=name for one), saved under docs/measurements/
	tools/bench.sh

install: ## build what is installed, no examples nor benchmarks, and install it under PREFIX, /usr/local unless given; DESTDIR is respected
	tools/install.sh

uninstall: ## remove what install put under PREFIX
	tools/uninstall.sh

packages: ## build Debian packages and a wheel, and check them with lintian and auditwheel
	tools/packages.sh

test-packages: ## as root: install each package in a bare system of its own, and use it
	tools/test_packages.sh

kernel: ## build kernel/o2g/o2g.ko for the running kernel, or the one of KDIR=/lib/modules/RELEASE/build
	tools/driver/build_module.sh $(KDIR)

kernel-install: ## as root: install the driver by DKMS, for the running kernel and later ones; DESTDIR is respected
	tools/driver/install_module.sh

kernel-uninstall: ## as root: remove what kernel-install has installed
	tools/driver/install_module.sh remove

lint: ## the checks of the tree, a build with clang, and clang-tidy
	tools/lint.sh

format: ## lay all sources out as .clang-format, ruff and shfmt do
	python=$$(tools/venv.sh) && "$$python" tools/check_format.py --fix

clean: ## remove what was built; the Python environments stay
	rm -rf build
	cd kernel/o2g && rm -f *.o *.ko *.mod *.mod.c .*.cmd Module.symvers modules.order
