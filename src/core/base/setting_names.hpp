// core/base/setting_names.hpp: the list of all environment variables that begin with TND_.
// tests/house compares it with the sources and the documentation.
#pragma once

#include <span>
#include <string_view>

namespace tanada {

// Settings for users. docs/ describes each of them. The site's page of all settings is made of
// these comments, and of the flags of tanada-poold for TND_POOLD_FLAG.
inline constexpr std::string_view setting_names[] = {
    // how processes find one another: auto, alone (no launcher's job) or pmix; auto unless set
    "TND_BOOTSTRAP",
    // bytes of its GPU that each rank may allocate; 0 unless set: no GPU is opened
    "TND_COMEX_DEVICE_HEAP",
    // bytes that each rank may allocate; the machine's memory unless set
    "TND_COMEX_HEAP",
    // bytes of DRAM for all ranks of a node; no limit unless set
    "TND_COMEX_MEMORY",
    // a JSON file for the report of swapping
    "TND_COMEX_REPORT",
    // bytes of TND_COMEX_MEMORY for unswappable memory and buffers; measured unless set
    "TND_COMEX_RESERVE",
    // ranks of a node that run at a time; the number of processors unless set
    "TND_COMEX_SLOTS",
    // the swap store, file:///FOLDER or pool://HOST/NAMESPACE
    "TND_COMEX_SWAP",
    // bytes from which an allocation is swappable; 128K unless set
    "TND_COMEX_SWAP_THRESHOLD",
    // a Chrome trace of the ranks' states
    "TND_COMEX_TRACE",
    // 1: ranks never run while parts of them are swapped out; 0 unless set
    "TND_COMEX_WHOLE",
    // the file of the CUDA plugin
    "TND_CUDA_PLUGIN",
    // whether reads of files bypass the page cache: auto, on or off; auto unless set
    "TND_FILE_DIRECT",
    // where kernels run: auto, host or cuda; auto unless set
    "TND_GFILE_DEVICE",
    // the GPU; 0 unless set
    "TND_GFILE_DEVICE_INDEX",
    // bytes of the cache in device memory; 256MiB unless set
    "TND_GFILE_DEVICE_TIER_SIZE",
    // whether stores write to device memory: auto, on or off; auto unless set
    "TND_GFILE_DIRECT",
    // bytes of device memory where stores may place data; 64MiB unless set
    "TND_GFILE_DIRECT_WINDOW_SIZE",
    // files that are open or remembered at a time; 16384 unless set
    "TND_GFILE_FILE_COUNT_MAX",
    // bytes of the cache in host memory; 128MiB unless set
    "TND_GFILE_HOST_TIER_SIZE",
    // whether kernels read pages of files in memory in place: auto or off; auto unless set
    "TND_GFILE_MAPPING",
    // bytes of files that are mapped at a time; half of the memory unless set
    "TND_GFILE_MAPPING_SIZE_MAX",
    // bytes of a page, a power of two from 4KiB to 2MiB; 128KiB unless set
    "TND_GFILE_PAGE_SIZE",
    // whether threads and host tier are bound to the GPU's memory node: on or off; on unless set
    "TND_GFILE_PINNING",
    // off: no page for tanada gfile stat
    "TND_GFILE_PUBLISH",
    // which page leaves a full tier: fifo, lru or clock; lru unless set
    "TND_GFILE_REPLACEMENT",
    // threads that serve kernels, 1 to 64; chosen by the number of processors unless set
    "TND_GFILE_SERVICE_THREADS",
    // timeout of calls in kernels, or none; 30s unless set
    "TND_GFILE_TIMEOUT",
    // a Chrome trace of the service threads; %p is the number of the process
    "TND_GFILE_TRACE",
    // timeout of ghandle(), or none; 1h unless set
    "TND_GFILE_WAIT_TIMEOUT",
    // guarded: host code cannot load from the host executor's memory, for tests
    "TND_HOST_DEVICE",
    // off: files are read and written by threads instead of io_uring
    "TND_IO_URING",
    // the least severe level that is logged: off, error, warning, info or debug; warning unless set
    "TND_LOG",
    // bytes of all mem:// files of the process; 8GiB unless set
    "TND_MEM_STORE_SIZE_MAX",
    // after this time without an answer a peer has failed; 30s unless set
    "TND_O2G_CONNECT_TIMEOUT",
    // text of up to 128 bytes that identifies the job; empty unless set
    "TND_O2G_COOKIE",
    // whether o2g.ko matches tagged messages: auto, off or required; auto unless set
    "TND_O2G_DRIVER",
    // bytes that unexpected messages never exceed; 4G unless set
    "TND_O2G_DUMP_HARD",
    // bytes of messages that peers may send ahead of receives; 256M unless set
    "TND_O2G_DUMP_SOFT",
    // the network interface or address to use; every interface that is up unless set
    "TND_O2G_INTERFACE",
    // after this time without acknowledgements a peer has failed; 45s unless set
    "TND_O2G_LOST_AFTER",
    // arrival, or select for comparisons: receive only inside calls; arrival unless set
    "TND_O2G_RECEIVE",
    // bytes of the send queue of one peer; 64M unless set
    "TND_O2G_SEND_QUEUE",
    // the longest sleep inside a caller's poll; 0ns unless set: a poll never sleeps
    "TND_O2G_SLEEP_MAX",
    // after this time without a call the progress thread takes over; 1ms unless set
    "TND_O2G_TICK",
    // how the fabric reaches memory of devices: auto, direct or staged; auto unless set
    "TND_PGAS_DEVICE",
    // the provider of libfabric
    "TND_PGAS_FABRIC",
    // the address or name of the network interface
    "TND_PGAS_INTERFACE",
    // endpoints that start operations; 8 unless set
    "TND_PGAS_LANES",
    // PEs with the same word share memory; with none no PEs do; the machine unless set
    "TND_PGAS_NODE",
    // bytes of host memory for staged transfers and active messages
    "TND_PGAS_STAGING",
    // timeout of the start and of remote operations; 60s unless set
    "TND_PGAS_TIMEOUT",
    // folders that are searched for plugins before those of the library
    "TND_PLUGIN_PATH",
    "TND_POOLD_ADVERTISE",
    "TND_POOLD_BACKING",
    "TND_POOLD_CLIENTS",
    "TND_POOLD_CLUSTER",
    "TND_POOLD_COPIES",
    "TND_POOLD_DOMAIN",
    // how long outstanding replies may take after SIGTERM; 10s unless set
    "TND_POOLD_DRAIN",
    "TND_POOLD_ETCD_CA",
    "TND_POOLD_ETCD_CERTIFICATE",
    "TND_POOLD_ETCD_KEY",
    "TND_POOLD_ETCD_PASSWORD_FILE",
    "TND_POOLD_ETCD_USER",
    "TND_POOLD_FABRIC",
    "TND_POOLD_FABRIC_NODE",
    "TND_POOLD_JOURNAL",
    "TND_POOLD_KEY_FILE",
    "TND_POOLD_LEASE",
    "TND_POOLD_LISTEN",
    "TND_POOLD_LOG",
    "TND_POOLD_LOG_SIZE",
    "TND_POOLD_LOST_AFTER",
    "TND_POOLD_NEW_CLUSTER",
    "TND_POOLD_OPEN",
    "TND_POOLD_PORT",
    "TND_POOLD_PORT_FILE",
    "TND_POOLD_PREFAULT",
    "TND_POOLD_PROTOCOL",
    "TND_POOLD_REPAIR_BANDWIDTH",
    // how long rings are polled after a request, at most 1s; 50us unless set
    "TND_POOLD_RING_POLL",
    "TND_POOLD_SEGMENT_SIZE",
    "TND_POOLD_SIZE",
    "TND_POOLD_STRIPE",
    "TND_POOLD_WEB",
    "TND_POOLD_WEB_LISTEN",
    "TND_POOLD_WEB_PORT",
    "TND_POOLD_WEB_TOKEN_FILE",
    "TND_POOLD_WORKERS",
    // how long the daemon then writes commits in the background; 60s unless set
    "TND_POOLD_WRITE_BEHIND",
    // the GPU whose memory is read and written; 0 unless set
    "TND_POOL_DEVICE_INDEX",
    // provider of libfabric for RDMA, such as verbs;ofi_rxm; no fabric unless set
    "TND_POOL_FABRIC",
    // the key of this client, a file of mode 0600; no key unless set
    "TND_POOL_KEY_FILE",
    // an earlier version of the protocol, for servers that have no later one
    "TND_POOL_PROTOCOL",
    // whether requests on the daemon's node use a ring in shared memory: auto or off
    "TND_POOL_RING",
    // whether the pool's memory is mapped if it is on this node: on or off; on unless set
    "TND_POOL_SHARED_MEMORY",
    // timeout of calls; 30s unless set
    "TND_POOL_TIMEOUT",
    // off: kernels use the host for every other PE, for tests
    "TND_SHMEM_DEVICE_DIRECT",
    // on: calls of kernels to the own PE accept any memory of the device; off unless set
    "TND_SHMEM_DEVICE_PRIVATE",
    // on: the host refuses addresses outside heap and request, for tests
    "TND_SHMEM_DEVICE_STRICT",
    // timeout of waits in kernels; none unless set
    "TND_SHMEM_DEVICE_TIMEOUT",
    // how many of 1000 atomics of the host executor preempt their lane, for tests
    "TND_SIMT_PREEMPT_PERMILLE",
    // blocks that the host executor runs at a time, for tests
    "TND_SIMT_RESIDENT_BLOCKS",
    // seed of the random sequence of TND_SIMT_PREEMPT_PERMILLE, for tests
    "TND_SIMT_SEED",
    // what drives TCP connections: auto, epoll or io_uring; auto unless set
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
    "TND_NVSHMEM_CXX",
    "TND_NVSHMEM_ONLY",
    "TND_NVSHMEM_SOURCE",
    "TND_O2G_PROVIDER",
    "TND_SHMEMG_ALL",
    "TND_SHMEMG_PROGRAMS",
    "TND_SHMEM_ALL",
    "TND_SHMEM_BALE",
    "TND_SHMEM_BIN",
    "TND_SHMEM_ISX",
    "TND_SHMEM_OSU",
    "TND_SHMEM_PRK",
    "TND_SHMEM_SOS",
    "TND_SHMEM_SUITE_CARRIERS",
    "TND_SHMEM_SUITE_PES",
    "TND_SHMEM_UH",
    "TND_SHMEM_VERIFIER",
    "TND_SIM_COUNT",
    "TND_SIM_FIRST",
    "TND_SIM_SEED",
    "TND_SIM_TELL",
    "TND_TEST_ALL",
    "TND_TEST_CLOCK_FILE",
    "TND_TEST_ETCD",
    "TND_TEST_ETCD_FOLDER",
    "TND_TEST_ETCD_PASSWORD",
    "TND_TEST_ETCD_PIDS",
    "TND_TEST_FABRIC_NODE",
    "TND_TEST_FABRIC_PROVIDER",
    "TND_TEST_GFARM",
    "TND_TEST_GFMD",
    "TND_TEST_GFMD_PID",
    "TND_TEST_GFSD_PIDS",
    "TND_TEST_GLUSTER",
    "TND_TEST_GLUSTER_BRICKS",
    "TND_TEST_O2G_COUNT",
    "TND_TEST_PERSISTENT_FOLDER",
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
