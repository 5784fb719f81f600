// products/gfile/host/mapper.hpp: who lets kernels read the pages of files where they are.
#pragma once

#include <cstdint>
#include <string>

#include "seams/store/store.hpp"
#include <tanada/device/detail/simt/config.hpp>

namespace tanada::gfile {

struct map_request {
  u32 file;        // number of the record
  u32 key;         // the view of the file that the mapping is for
  int descriptor;  // the mapper's, who closes it; -1: the store has mapped the file
  bool in_memory;  // its pages are memory, and nowhere else; false: the system caches it
  bool sealed;     // the file cannot be cut
  u64 size;        // bytes
  port::store_memory
      memory;  // the store's mapping; the mapper keeps it as long as kernels may read it
};

struct map_outcome {
  u32 slot = 0;        // from 1; 0: the file could not be mapped
  std::string reason;  // why, one line, or what is peculiar about the mapping
};

class mapper {
 public:
  // Begin; core::on_mapped() is told when it is done, from another thread. False: as many bytes or
  // files are mapped as may be; nothing was begun and the descriptor stays the caller's.
  virtual bool post_map(const map_request &asked) = 0;

  // No new kernel finds the mapping. It goes once those that run now have ended.
  virtual void retire(u32 slot) = 0;

 protected:
  ~mapper() = default;
};

}  // namespace tanada::gfile
