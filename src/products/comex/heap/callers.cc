#include "products/comex/heap/callers.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <iterator>

namespace tanada::comex::heap {
namespace {

// How their files' names begin.
constexpr std::string_view names[] = {
    "libmpi",     "libopen-", "libompi",    "libprrte",   "mca_",  // MPI's
    "libucp",     "libuct",   "libucs",     "libucm",     "libfabric", "libpsm",
    "libxpmem",  // networks'
    "libpmi",     "libhwloc", "libevent",   "libibverbs", "librdmacm", "libmlx",
    "libefa",     "libnuma",  "libmunge",   "libcuda",    "libnvidia", "libnccl",
    "libnvshmem", "libcomex", "libarmci",   "libtanada",  "libo2g",    "libc.so",
    "libc-",      "ld-linux", "libpthread", "libdl",
};

}  // namespace

bool is_name_of_system(std::string_view file) noexcept {
  if (auto const slash = file.rfind('/'); slash != file.npos)
    file.remove_prefix(slash + 1);
  return std::any_of(std::begin(names), std::end(names),
                     [&](std::string_view each) { return file.starts_with(each); });
}

bool is_code_of_system(const void *code) noexcept {
  dl_find_object found{};
  if (_dl_find_object(const_cast<void *>(code), &found) != 0 || found.dlfo_link_map == nullptr)
    return false;
  char const *const name = found.dlfo_link_map->l_name;
  return name != nullptr && is_name_of_system(name);
}

}  // namespace tanada::comex::heap
