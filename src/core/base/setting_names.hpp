// core/base/setting_names.hpp: the list of all environment variables that begin with TND_.
// tests/house compares it with the sources and the documentation.
#pragma once

#include <span>
#include <string_view>

namespace tanada {

// Settings for users. docs/ describes each of them.
inline constexpr std::string_view setting_names[] = {
    "TND_BOOTSTRAP",
    "TND_COMEX_DEVICE_HEAP",
    "TND_COMEX_HEAP",
    "TND_COMEX_MEMORY",
    "TND_COMEX_REPORT",
    "TND_COMEX_RESERVE",
    "TND_COMEX_SLOTS",
    "TND_COMEX_SWAP",
    "TND_COMEX_SWAP_THRESHOLD",
    "TND_COMEX_TRACE",
    "TND_COMEX_WHOLE",
    "TND_CUDA_PLUGIN",
    "TND_FILE_DIRECT",
    "TND_GFILE_DEVICE",
    "TND_GFILE_DEVICE_INDEX",
    "TND_GFILE_DEVICE_TIER_SIZE",
    "TND_GFILE_DIRECT",
    "TND_GFILE_DIRECT_WINDOW_SIZE",
    "TND_GFILE_FILE_COUNT_MAX",
    "TND_GFILE_HOST_TIER_SIZE",
    "TND_GFILE_MAPPING",
    "TND_GFILE_MAPPING_SIZE_MAX",
    "TND_GFILE_PAGE_SIZE",
    "TND_GFILE_PINNING",
    "TND_GFILE_PUBLISH",
    "TND_GFILE_REPLACEMENT",
    "TND_GFILE_SERVICE_THREADS",
    "TND_GFILE_TIMEOUT",
    "TND_GFILE_TRACE",
    "TND_GFILE_WAIT_TIMEOUT",
    "TND_HOST_DEVICE",
    "TND_IO_URING",
    "TND_LOG",
    "TND_MEM_STORE_SIZE_MAX",
    "TND_O2G_CONNECT_TIMEOUT",
    "TND_O2G_COOKIE",
    "TND_O2G_DRIVER",
    "TND_O2G_DUMP_HARD",
    "TND_O2G_DUMP_SOFT",
    "TND_O2G_INTERFACE",
    "TND_O2G_LOST_AFTER",
    "TND_O2G_RECEIVE",
    "TND_O2G_SEND_QUEUE",
    "TND_O2G_SLEEP_MAX",
    "TND_O2G_TICK",
    "TND_PGAS_DEVICE",
    "TND_PGAS_FABRIC",
    "TND_PGAS_INTERFACE",
    "TND_PGAS_LANES",
    "TND_PGAS_NODE",
    "TND_PGAS_STAGING",
    "TND_PGAS_TIMEOUT",
    "TND_PLUGIN_PATH",
    "TND_POOLD_BACKING",
    "TND_POOLD_CLIENTS",
    "TND_POOLD_DRAIN",
    "TND_POOLD_FABRIC",
    "TND_POOLD_FABRIC_NODE",
    "TND_POOLD_KEY_FILE",
    "TND_POOLD_LISTEN",
    "TND_POOLD_LOG_SIZE",
    "TND_POOLD_LOST_AFTER",
    "TND_POOLD_OPEN",
    "TND_POOLD_PORT",
    "TND_POOLD_PORT_FILE",
    "TND_POOLD_PREFAULT",
    "TND_POOLD_SEGMENT_SIZE",
    "TND_POOLD_SIZE",
    "TND_POOLD_WEB",
    "TND_POOLD_WEB_PORT",
    "TND_POOLD_WORKERS",
    "TND_POOLD_WRITE_BEHIND",
    "TND_POOL_DEVICE_INDEX",
    "TND_POOL_FABRIC",
    "TND_POOL_KEY_FILE",
    "TND_POOL_SHARED_MEMORY",
    "TND_POOL_TIMEOUT",
    "TND_SHMEM_DEVICE_DIRECT",
    "TND_SHMEM_DEVICE_STRICT",
    "TND_SHMEM_DEVICE_TIMEOUT",
    "TND_SIMT_PREEMPT_PERMILLE",
    "TND_SIMT_RESIDENT_BLOCKS",
    "TND_SIMT_SEED",
    "TND_STREAM_ENGINE",
};

// Settings of the tests, benchmarks and tools of this project. The library accepts these names,
// because programs that it starts inherit them.
inline constexpr std::string_view development_names[] = {
    "TND_BUILD_DIR",
    "TND_COMEX_ALL",
    "TND_COMEX_INCLUDE",
    "TND_COMEX_LIB",
    "TND_CRASH_ROUNDS",
    "TND_CRASH_SEED",
    "TND_FABTESTS",
    "TND_FABTESTS_LIBRARIES",
    "TND_GA4PY",
    "TND_GA_CONFIGURE",
    "TND_GA_SOURCE",
    "TND_MPI_RUN",
    "TND_MPI_SETUPS",
    "TND_O2G_PROVIDER",
    "TND_SHMEMG_ALL",
    "TND_SHMEMG_PROGRAMS",
    "TND_SHMEM_ALL",
    "TND_SHMEM_BIN",
    "TND_SHMEM_SOS",
    "TND_SHMEM_SOS_PES",
    "TND_SIM_COUNT",
    "TND_SIM_FIRST",
    "TND_SIM_SEED",
    "TND_SIM_TELL",
    "TND_TEST_ALL",
    "TND_TEST_CLOCK_FILE",
    "TND_TEST_FABRIC_NODE",
    "TND_TEST_FABRIC_PROVIDER",
    "TND_TEST_GFARM",
    "TND_TEST_GFMD",
    "TND_TEST_GFMD_PID",
    "TND_TEST_GFSD_PIDS",
    "TND_TEST_GLUSTER",
    "TND_TEST_GLUSTER_BRICKS",
    "TND_TEST_O2G_COUNT",
    "TND_TEST_SHARED_BLOCK",
    "TND_TEST_SIZE_MAX_MIB",
    "TND_TEST_URL",
};

// Settings whose values are checked together with the names, because the code that reads them
// cannot report an error.
inline constexpr std::string_view log_level_names[] = {"off", "error", "warning", "info", "debug"};
inline constexpr std::string_view host_device_names[] = {"guarded"};
inline constexpr std::string_view o2g_driver_names[] = {"auto", "off", "required"};
inline constexpr std::string_view o2g_receive_names[] = {"arrival", "select"};

struct choice_setting {
  std::string_view name;
  std::span<const std::string_view> values;
};
inline constexpr choice_setting choice_settings[] = {{"TND_LOG", log_level_names},
                                                     {"TND_HOST_DEVICE", host_device_names},
                                                     {"TND_O2G_DRIVER", o2g_driver_names},
                                                     {"TND_O2G_RECEIVE", o2g_receive_names}};

}  // namespace tanada
