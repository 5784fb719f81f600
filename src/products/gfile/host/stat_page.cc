// products/gfile/host/stat_page.cc: writes and parses the published statistics page.
#include "products/gfile/host/stat_page.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"

namespace tanada::gfile {

std::vector<std::byte> make_stat_page(stat_page_header header,
                                      std::span<const tnd_gfile_file> files) {
  files = files.first(std::min<size_t>(files.size(), stat_page_file_count_max));
  auto const entries = std::as_bytes(files);
  header.magic = stat_page_magic;
  header.version = stat_page_version;
  header.header_size = sizeof header;
  header.file_count = uint32_t(files.size());
  header.file_size = sizeof(tnd_gfile_file);
  std::vector<std::byte> bytes(sizeof header + entries.size());
  TND_ASSERT(bytes.size() <= stat_page_size_max && header.file_count <= header.file_total);
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!entries.empty())
    std::memcpy(bytes.data() + sizeof header, entries.data(), entries.size());
  return bytes;
}

status parse_stat_page(std::span<const std::byte> bytes, stat_page &page) {
  stat_page_header header;
  if (bytes.size() < offsetof(stat_page_header, process))
    return status::corrupt;
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  if (header.magic != stat_page_magic)
    return status::corrupt;
  if (header.version != stat_page_version)
    return status::protocol;
  if (bytes.size() < sizeof header || header.header_size != sizeof header ||
      header.file_size != sizeof(tnd_gfile_file) || header.file_count > stat_page_file_count_max ||
      header.file_count > header.file_total)
    return status::corrupt;
  size_t const entries_size = header.file_count * sizeof(tnd_gfile_file);
  if (bytes.size() - sizeof header < entries_size)
    return status::corrupt;
  auto const entries = bytes.subspan(sizeof header, entries_size);
  page.header = header;
  page.header.program[sizeof page.header.program - 1] = 0;
  page.files.resize(header.file_count);
  if (entries_size > 0)
    std::memcpy(page.files.data(), entries.data(), entries_size);
  for (tnd_gfile_file &file : page.files) {
    file.url[sizeof file.url - 1] = 0;
    file.reason[sizeof file.reason - 1] = 0;
  }
  return status::ok;
}

}  // namespace tanada::gfile
