// products/comex/heap/callers.cc: classifies code by the library that it belongs to.
#include "products/comex/heap/callers.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <iterator>

namespace tanada::comex::heap {
namespace {

// Prefixes of their file names.
constexpr std::string_view prefixes[] = {
    "libmpi",     "libopen-", "libompi",    "libprrte",   "mca_",  // MPI
    "libucp",     "libuct",   "libucs",     "libucm",     "libfabric", "libpsm",
    "libxpmem",  // networks
    "libpmi",     "libhwloc", "libevent",   "libibverbs", "librdmacm", "libmlx",
    "libefa",     "libnuma",  "libmunge",   "libcuda",    "libnvidia", "libnccl",
    "libnvshmem", "libcomex", "libarmci",   "libtanada",  "libo2g",    "libc.so",
    "libc-",      "ld-linux", "libpthread", "libdl",
};

}  // namespace

bool is_system_library(std::string_view file) noexcept {
  if (auto const slash = file.rfind('/'); slash != file.npos)
    file.remove_prefix(slash + 1);
  return std::any_of(std::begin(prefixes), std::end(prefixes), [&](std::string_view prefix) {
    return file.starts_with(prefix);
  });
}

bool is_system_code(const void *code) noexcept {
  dl_find_object object{};
  if (_dl_find_object(const_cast<void *>(code), &object) != 0 || object.dlfo_link_map == nullptr)
    return false;
  char const *const name = object.dlfo_link_map->l_name;
  return name != nullptr && is_system_library(name);
}

}  // namespace tanada::comex::heap
