// onesided/swap/viewer.hpp: the state of a node's processes, as `tanada comex top` shows it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tanada::onesided::swap {

class node_table;

// One line of JSON: the budget, counters, and each rank's state. Times are in seconds, sizes in
// bytes.
std::string describe(const node_table &table);

// The kind of the page that holds the line (seams/os/page_folder.hpp), and the largest size that is
// read of it. The line for 4,096 ranks is shorter.
inline constexpr std::string_view viewer_page_kind = "comex";
inline constexpr size_t viewer_page_size_max = size_t{4} << 20;  // bytes

}  // namespace tanada::onesided::swap
