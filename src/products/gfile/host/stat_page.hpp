// products/gfile/host/stat_page.hpp: the layout of the page that an instance publishes for `tanada
// gfile stat`.
//
// A header, followed by `file_count` entries, in a page of the kind stat_page_kind
// (seams/os/page_folder.hpp). Writer and reader run on one machine as one user. They may be of
// different versions, and the page may be malicious, so parse_stat_page() treats it as untrusted
// input.
#pragma once

#include <tanada/gfile.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::gfile {

inline constexpr std::string_view stat_page_kind = "gfile";
inline constexpr uint64_t stat_page_magic = 0x544154535f444e54;  // "TND_STAT"
inline constexpr uint32_t stat_page_version =
    2;  // of this layout, including the two structs of gfile.h
inline constexpr uint32_t stat_page_file_count_max = 256;

struct stat_page_header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_size;                       // bytes
  uint32_t process;                           // its PID
  uint32_t page_size;                         // bytes
  uint64_t device_tier_size, host_tier_size;  // bytes
  uint64_t created_ns, now_ns;                // CLOCK_MONOTONIC
  uint32_t service_threads;
  uint32_t file_total;  // number of all files
  uint32_t file_count;  // entries after the header; fewer than file_total if there are too many
                        // files
  uint32_t file_size;   // bytes of an entry
  char program[64];
  tnd_gfile_statistics statistics;
};
static_assert(sizeof(tnd_gfile_statistics) == 8 + 16 * 8 + TND_GFILE_LATENCY_BUCKETS * 8);
static_assert(sizeof(tnd_gfile_file) == 4 * 4 + 8 * 8 + 1024 + 256);
static_assert(offsetof(stat_page_header, statistics) == 136 &&
              sizeof(stat_page_header) == 136 + sizeof(tnd_gfile_statistics));
inline constexpr size_t stat_page_size_max =
    sizeof(stat_page_header) + stat_page_file_count_max * sizeof(tnd_gfile_file);

struct stat_page {
  stat_page_header header;
  std::vector<tnd_gfile_file> files;
};

// Make the bytes of a page. At most stat_page_file_count_max of `files` are included.
std::vector<std::byte> make_stat_page(stat_page_header header,
                                      std::span<const tnd_gfile_file> files);

// protocol: another version. corrupt: not a page, or a damaged one. Texts in `page` are
// zero-terminated.
status parse_stat_page(std::span<const std::byte> bytes, stat_page &page);

}  // namespace tanada::gfile
