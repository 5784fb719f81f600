#include "gfile/host/stat_page.hpp"

#include <algorithm>
#include <cstring>

namespace tanada::gfile {
namespace {

// FNV-1a over words of 8 bytes; sizes here are multiples of that.
uint64_t hash_of(std::span<const std::byte> bytes, uint64_t hash) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 32;
  }
  return hash;
}
static_assert(sizeof(stat_page_header) % 8 == 0 && sizeof(tnd_gfile_file) % 8 == 0);

uint64_t checksum_of(stat_page_header header, std::span<const std::byte> entries) {
  header.sequence = header.checksum = 0;
  return hash_of(entries, hash_of(std::as_bytes(std::span{&header, 1}), 0xcbf29ce484222325));
}

}  // namespace

std::vector<std::byte> make_stat_page(stat_page_header header, std::span<const tnd_gfile_file> files) {
  files = files.first(std::min<size_t>(files.size(), stat_page_file_count_max));
  auto const entries = std::as_bytes(files);
  header.magic = stat_page_magic;
  header.version = stat_page_version;
  header.header_size = sizeof header;
  header.file_count = uint32_t(files.size());
  header.file_size = sizeof(tnd_gfile_file);
  header.sequence &= ~uint64_t{1};
  header.checksum = checksum_of(header, entries);
  std::vector<std::byte> bytes(sizeof header + entries.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!entries.empty()) std::memcpy(bytes.data() + sizeof header, entries.data(), entries.size());
  return bytes;
}

status parse_stat_page(std::span<const std::byte> bytes, stat_page &to) {
  stat_page_header header;
  if (bytes.size() < offsetof(stat_page_header, checksum)) return bytes.empty() ? status::again : status::corrupt;
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  if (header.magic == 0) return status::again;  // room was made, nothing is written yet
  if (header.magic != stat_page_magic) return status::corrupt;
  if (header.version != stat_page_version) return status::protocol;
  if (bytes.size() < sizeof header || header.header_size != sizeof header || header.file_size != sizeof(tnd_gfile_file) ||
      header.file_count > stat_page_file_count_max || header.file_count > header.file_total)
    return status::corrupt;
  if ((header.sequence & 1) != 0) return status::again;
  size_t const entries_size = header.file_count * sizeof(tnd_gfile_file);
  if (bytes.size() - sizeof header < entries_size) return status::corrupt;
  auto const entries = bytes.subspan(sizeof header, entries_size);
  if (checksum_of(header, entries) != header.checksum) return status::again;
  to.header = header;
  to.header.program[sizeof to.header.program - 1] = 0;
  to.files.resize(header.file_count);
  if (entries_size > 0) std::memcpy(to.files.data(), entries.data(), entries_size);
  for (tnd_gfile_file &each : to.files) each.url[sizeof each.url - 1] = each.reason[sizeof each.reason - 1] = 0;
  return status::ok;
}

}  // namespace tanada::gfile
