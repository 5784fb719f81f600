// backends/pmem/pmem_missing.cc: persistent memory for a build without libpmem.
#include <sys/stat.h>

#include "backends/pmem/pmem_memory.hpp"
#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

class missing_memory final : public seams::persistent_memory {
 public:
  bool is_device(int descriptor) const override {
    struct stat file_status{};
    return fstat(descriptor, &file_status) == 0 && S_ISCHR(file_status.st_mode);
  }
  result<std::unique_ptr<seams::persistent_mapping>> map(int) override {
    set_last_message("this build has no libpmem");
    return status::not_supported;
  }
};

}  // namespace

seams::persistent_memory &pmem_memory() {
  static missing_memory instance;
  return instance;
}

}  // namespace tanada::backends
