// seams/store/store_listing.hpp: the names in a folder of any store, with the sizes of files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "seams/clock/clock.hpp"
#include "seams/store/store.hpp"

namespace tanada::seams {

inline constexpr uint64_t store_size_unknown = ~uint64_t{0};

struct store_entry {
  std::string url;  // of a folder: ends with '/'
  bool is_folder;
  uint64_t size = store_size_unknown;  // bytes; unknown for folders and for files that cannot be
                                       // opened for reading
};

struct store_list_limits {
  uint64_t deadline_ns;  // absolute
  uint32_t entry_count_max;
  bool has_sizes;  // each file is opened for its size
};

// The files and folders whose URL is `folder`, which ends with '/', and one more name; sorted. A
// folder that does not exist has none. overflow: there are more than entry_count_max. timed_out,
// and statuses of the store.
result<std::vector<store_entry>> store_list(store &source,
                                            clock &time,
                                            const std::string &folder,
                                            const store_list_limits &limits);

}  // namespace tanada::seams
