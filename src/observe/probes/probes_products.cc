// Probes for MPI programs over o2g, OpenSHMEM programs and Global Arrays.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/assert.hpp"
#include "core/base/message.hpp"
#include "observe/probes/probes.hpp"
#include "seams/os/o2g_device.hpp"
#include "seams/os/plugin_paths.hpp"

namespace tanada::observe {
namespace {

// The words of a list such as PATH.
std::vector<std::string> words_of(const char *list, char separator) {
  std::vector<std::string> words;
  if (list == nullptr)
    return words;
  std::string_view rest{list};
  while (!rest.empty()) {
    size_t const end = rest.find(separator);
    if (end != 0)
      words.emplace_back(rest.substr(0, end));
    if (end == rest.npos)
      break;
    rest.remove_prefix(end + 1);
  }
  return words;
}

// Loads the library and writes the reason why it is not usable; ends the calling process.
[[noreturn]] void load_in_child(const std::string &library, const char *symbol, int output) {
  void *const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  bool const is_usable =
      handle != nullptr && (symbol == nullptr || dlsym(handle, symbol) != nullptr);
  const char *const reason = is_usable ? "" : dlerror();
  (void)!write(output, reason, std::strlen(reason));
  _exit(is_usable ? 0 : 1);
}

std::string read_all(int input) {
  std::string text;
  std::array<char, 512> chunk{};
  ssize_t size = read(input, chunk.data(), chunk.size());
  while (size > 0) {
    TND_ASSERT(size_t(size) <= chunk.size());
    text.append(chunk.data(), size_t(size));
    size = read(input, chunk.data(), chunk.size());
  }
  return text;
}

// Why the library does not load or lacks the symbol; "" if it is usable. It is loaded in a child
// process, because libraries have constructors and some replace malloc.
std::string load_error(const std::string &library, const char *symbol) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return std::string("pipe: ") + std::strerror(errno);
  pid_t const child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return std::string("fork: ") + std::strerror(errno);
  }
  if (child == 0)
    load_in_child(library, symbol, ends[1]);
  close(ends[1]);
  std::string const reason = read_all(ends[0]);
  close(ends[0]);
  int outcome = 0;
  waitpid(child, &outcome, 0);
  if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0)
    return {};
  return reason.empty() ? library + ": loading it ends the process" : reason;
}

}  // namespace

optional_part cuda_part() {
  return {"CUDA plugin",
          "libtanada_cuda.so",
          TND_BUILDS_CUDA != 0,
          "nvcc",
          "make install CUDA=1",
          "libtanada-cuda"};
}

optional_part gfarm_part() {
  return {"gfarm",
          "libtanada_store_gfarm.so",
          TND_BUILDS_GFARM != 0,
          "libgfarm-dev",
          "apt-get install libgfarm-dev, then make install",
          "libtanada-gfarm"};
}

optional_part gluster_part() {
  return {"gluster",
          "libtanada_store_gluster.so",
          TND_BUILDS_GLUSTER != 0,
          "libglusterfs-dev and uuid-dev",
          "apt-get install libglusterfs-dev uuid-dev, then make install",
          "libtanada-gluster"};
}

optional_part provider_part() {
  return {"o2g",
          "libo2g-fi.so",
          TND_BUILDS_PROVIDER != 0,
          "libfabric-dev (1.17 or newer)",
          "apt-get install libfabric-dev, then make install",
          "libtanada-o2g"};
}

optional_part pmix_part() {
  return {"PMIx",
          "libtanada_bootstrap_pmix.so",
          TND_BUILDS_PMIX != 0,
          "libpmix-dev (3.1 or newer)",
          "apt-get install libpmix-dev, then make install",
          "libtanada-pmix"};
}

optional_part global_arrays_part() {
  return {"Global Arrays",
          "libarmci.so.0",
          TND_BUILDS_ARMCI != 0,
          "an MPI",
          "apt-get install libopenmpi-dev, then make install",
          "libtanada-armci0"};
}

// Whether this library came by a package of the distribution, which has no source tree.
bool is_packaged() {
  for (const std::string &path : seams::plugin_paths("libtanada.so.0")) {
    std::error_code error;
    if (path.find('/') != std::string::npos && std::filesystem::exists(path, error))
      return std::filesystem::weakly_canonical(path, error).string().starts_with("/usr/lib/");
  }
  return false;
}

finding describe_missing(const optional_part &part,
                         finding_state state,
                         const std::string &effect) {
  std::string const file = part.file;
  if (is_packaged())
    return {part.topic,
            state,
            file + " is not installed: " + effect,
            std::string{"apt-get install "} + part.package};
  if (!part.is_configured) {
    return {part.topic,
            state,
            file + " is not part of this build, which was configured without " + part.requirement +
                ": " + effect,
            part.remedy};
  }
  return {part.topic,
          state,
          file + " is not installed, but this build is configured with it: " + effect,
          "make install builds and installs it; TND_PLUGIN_PATH names the folder of a built one"};
}

finding probe_provider(const std::string &path, const char *provider_path) {
  optional_part const part = provider_part();
  if (path.empty())
    return describe_missing(part, finding_state::lacking, "MPI cannot use o2g");
  if (std::string const load_failure = load_error(path, "fi_prov_ini"); !load_failure.empty()) {
    return {"o2g", finding_state::broken, load_failure, "build and install again"};
  }
  if (!load_error("libfabric.so.1", "fi_getinfo").empty()) {
    return {"o2g",
            finding_state::lacking,
            "libfabric.so.1 does not load; an MPI with a bundled libfabric does not need it",
            "apt-get install libfabric1"};
  }
  std::string const folder = std::filesystem::path{path}.parent_path();
  if (provider_path == nullptr || *provider_path == '\0') {
    return {"o2g",
            finding_state::lacking,
            "FI_PROVIDER_PATH is not set: libfabric does not search " + folder,
            "export FI_PROVIDER_PATH='" + folder + "'"};
  }
  std::error_code error;
  for (const std::string &searched_folder : words_of(provider_path, ':')) {
    if (!std::filesystem::exists(searched_folder + "/" + part.file, error))
      continue;
    return {"o2g", finding_state::good, "libfabric finds the provider in " + searched_folder, {}};
  }
  return {"o2g",
          finding_state::broken,
          std::string{"no folder of FI_PROVIDER_PATH has "} + part.file + ": " + provider_path,
          "export FI_PROVIDER_PATH='" + folder + "'"};
}

finding probe_pmix(const std::string &path) {
  if (path.empty()) {
    return describe_missing(
        pmix_part(), finding_state::lacking, "OpenSHMEM programs run with one PE");
  }
  std::string const load_failure = load_error(path, nullptr);
  if (load_failure.empty())
    return {"PMIx", finding_state::good, "the plugin loads", {}};
  return {"PMIx", finding_state::lacking, load_failure, "apt-get install libpmix2"};
}

finding probe_launcher(const char *search_path) {
  for (const char *const name : {"mpirun", "prterun", "mpiexec", "srun"}) {
    for (const std::string &folder : words_of(search_path, ':')) {
      std::string const path = folder + "/" + name;
      if (access(path.c_str(), X_OK) == 0)
        return {"launcher", finding_state::good, path, {}};
    }
  }
  return {"launcher",
          finding_state::lacking,
          "PATH has no mpirun, prterun, mpiexec or srun: jobs have one process",
          "apt-get install openmpi-bin"};
}

finding probe_global_arrays(const std::string &path) {
  if (path.empty()) {
    return describe_missing(global_arrays_part(),
                            finding_state::lacking,
                            "Global Arrays cannot use the ARMCI of Tanada");
  }
  std::string const load_failure = load_error(path, "ARMCI_Init");
  if (load_failure.empty())
    return {"Global Arrays", finding_state::good, path, {}};
  return {"Global Arrays",
          finding_state::broken,
          load_failure,
          "install the MPI that it was built with"};
}

finding probe_mpi() {
  struct known_library {
    const char *file, *text;
  };
  static constexpr known_library libraries[] = {
      {"libmpi.so.40", "Open MPI (libmpi.so.40): o2g needs --mca pml cm --mca mtl ofi"},
      {"libmpi.so.12", "MPICH (libmpi.so.12)"},
      {"libmpich.so.12", "MPICH (libmpich.so.12)"}};
  for (known_library const &library : libraries)
    if (load_error(library.file, "MPI_Init").empty())
      return {"MPI", finding_state::good, library.text, {}};
  return {"MPI",
          finding_state::lacking,
          "the loader finds no libmpi: no MPI over o2g, and no Global Arrays",
          "apt-get install libopenmpi3, or load the module of your MPI"};
}

finding probe_userfaultfd() {
  constexpr int user_mode_only = 1;  // UFFD_USER_MODE_ONLY of Linux 5.11
  int const device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device >= 0)
    close(device);
  auto const works = [](int flags) {
    int const descriptor = int(syscall(SYS_userfaultfd, O_CLOEXEC | flags));
    if (descriptor >= 0)
      close(descriptor);
    return descriptor >= 0;
  };
  if (device >= 0 || works(0))
    return {"userfaultfd", finding_state::good, "works", {}};
  constexpr const char *remedy =
      "sysctl -w vm.unprivileged_userfaultfd=1, or allow /dev/userfaultfd to this user";
  if (works(user_mode_only)) {
    return {
        "userfaultfd",
        finding_state::lacking,
        "only for faults of user code: Global Arrays larger than memory swap in whole processes",
        remedy};
  }
  return {"userfaultfd",
          finding_state::lacking,
          std::string("refused: ") + std::strerror(errno) +
              "; Global Arrays larger than memory swap in whole processes",
          remedy};
}

finding probe_o2g_driver(const system_root &root, const char *setting) {
  constexpr const char *topic = "o2g driver";
  constexpr const char *remedy = "build and load the module: docs/o2g_driver.md";
  std::string_view const choice = setting == nullptr || *setting == '\0' ? "auto" : setting;
  message_deferral deferral;
  uint32_t driver_abi = 0;
  auto const device = seams::o2g_device::open(root.path("/dev/o2g").c_str(), 1, 0, driver_abi);
  std::string const state = device.ok() ? "/dev/o2g has ABI " + std::to_string(driver_abi)
                                        : deferral.take(device.error());
  if (choice == "off") {
    return {topic,
            finding_state::good,
            state + "; TND_O2G_DRIVER=off: o2g receives in the process",
            {}};
  }
  if (device.ok())
    return {topic, finding_state::good, state + ", and o2g uses it", {}};
  if (choice == "required")
    return {topic,
            finding_state::broken,
            state + "; TND_O2G_DRIVER=required: o2g_init() and fi_enable() fail",
            remedy};
  return {topic, finding_state::lacking, state + "; o2g receives in the process", remedy};
}

std::vector<finding> probe_products() {
  return {probe_provider(seams::plugin_path(provider_part().file), std::getenv("FI_PROVIDER_PATH")),
          probe_pmix(seams::plugin_path(pmix_part().file)),
          probe_launcher(std::getenv("PATH")),
          probe_mpi(),
          probe_global_arrays(seams::plugin_path(global_arrays_part().file)),
          probe_userfaultfd(),
          probe_o2g_driver({}, std::getenv("TND_O2G_DRIVER"))};
}

}  // namespace tanada::observe
