// onesided/swap/viewer.hpp: what `tanada comex top` sees of a node's processes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tanada::comex::swap {

class board;

// A line of JSON: the budget, counters, and each rank's state; times in seconds, sizes in bytes.
std::string describe(const board &of);

// Of the page that tells it (seams/os/page_folder.hpp), and what is read of one at most: 4,096
// ranks have less.
inline constexpr std::string_view viewer_page_kind = "comex";
inline constexpr size_t viewer_page_size_max = size_t{4} << 20;  // bytes

}  // namespace tanada::comex::swap
