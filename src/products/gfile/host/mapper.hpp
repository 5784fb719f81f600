// products/gfile/host/mapper.hpp: the interface that makes the pages of files readable for kernels
// in place.
#pragma once

#include <cstdint>
#include <string>

#include "seams/store/store.hpp"
#include <tanada/device/detail/simt/config.hpp>

namespace tanada::gfile {

struct map_request {
  u32 file;        // number of the record
  u32 key;         // of the view that the mapping is for
  int descriptor;  // the mapper closes it; -1: the store has mapped the file
  bool in_memory;  // true: its pages exist only in memory; false: the system caches it
  bool sealed;     // the file cannot be truncated
  u64 size;        // bytes
  seams::store_memory
      memory;  // the store's mapping; the mapper keeps it as long as kernels may read it
};

struct map_outcome {
  u32 slot = 0;        // from 1; 0: the file could not be mapped
  std::string reason;  // one line: why not, or a peculiarity of the mapping
};

class mapper {
 public:
  // Start mapping a file. When it has ended, the mapper calls core::on_mapped() from another
  // thread. Returns false, without effect, if the limit of mapped bytes or files is reached; the
  // caller keeps the descriptor.
  virtual bool post_map(const map_request &request) = 0;

  // Hide the mapping from new kernels. It is removed once the kernels that now run have ended.
  virtual void retire(u32 slot) = 0;

 protected:
  ~mapper() = default;
};

}  // namespace tanada::gfile
