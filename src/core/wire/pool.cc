// Checks of the pool's frames and names, and the names of stripes.
#include "core/wire/pool.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tanada::wire::pool {

status frame_check(const frame &head) {
  bool const good = head.magic == frame_magic && head.reserved == 0 &&
                    head.body_size <= body_size_max && head.data_size <= object_size_max;
  return good ? status::ok : status::protocol;
}

bool is_valid_name(const std::string &name) {
  return !name.empty() && name.size() <= name_size_max && name.find('\0') == std::string::npos;
}

namespace {

bool has_valid_fragments(const stripe_manifest &manifest) {
  uint64_t const count = manifest.layout().fragment_count();
  auto const is_known = [&](uint8_t place) {
    return place < manifest.servers.size();
  };
  return manifest.partitions.empty() && count <= fragment_count_max &&
         manifest.places.size() == count && manifest.sums.size() == count &&
         std::all_of(manifest.places.begin(), manifest.places.end(), is_known);
}

}  // namespace

bool is_valid(const stripe_manifest &manifest) {
  bool const is_sane = manifest.magic == stripe_manifest_magic && manifest.stripe_size > 0 &&
                       manifest.stripe_size <= object_size_max &&
                       manifest.size <= object_size_max && manifest.checksum_kind <= 2 &&
                       is_valid(manifest.erasure);
  if (!is_sane)
    return false;
  if (manifest.erasure.is_on())
    return has_valid_fragments(manifest);
  size_t const count = manifest.partitions.size();
  bool const has_versions = manifest.versions().empty() || (manifest.versions().size() == count &&
                                                            count <= local_stripe_count_max);
  return count <= stripe_count_max && manifest.places.empty() && has_versions &&
         count == manifest.size / manifest.stripe_size +
                      (manifest.size % manifest.stripe_size != 0 ? 1 : 0);
}

std::string to_string(const erasure_scheme &scheme) {
  return std::to_string(scheme.data_count) + "+" + std::to_string(scheme.parity_count);
}

std::string stripe_space_name(const std::string &namespace_name, uint32_t partition) {
  return namespace_name + "/" + std::to_string(partition);
}

std::optional<stripe_space> stripe_space_parse(const std::string &name) {
  size_t const position = name.find('/');
  if (position == std::string::npos || position == 0)
    return std::nullopt;
  stripe_space parsed{name.substr(0, position), 0};
  const char *const end = name.data() + name.size();
  auto const number = std::from_chars(name.data() + position + 1, end, parsed.partition);
  bool const is_good = number.ec == std::errc{} && number.ptr == end &&
                       parsed.partition < stripe_partition_count &&
                       name == stripe_space_name(parsed.namespace_name, parsed.partition);
  return is_good ? std::optional{std::move(parsed)} : std::nullopt;
}

namespace {

constexpr std::string_view fragment_suffix = "/fragments";

}  // namespace

std::string fragment_space_name(const std::string &namespace_name) {
  return namespace_name + std::string{fragment_suffix};
}

bool is_fragment_space(const std::string &name) {
  return name.size() > fragment_suffix.size() && name.ends_with(fragment_suffix) &&
         name.find('/') == name.size() - fragment_suffix.size();
}

std::optional<std::string> hidden_space_owner(const std::string &name) {
  if (is_fragment_space(name))
    return name.substr(0, name.size() - fragment_suffix.size());
  auto stripes = stripe_space_parse(name);
  return stripes ? std::optional{std::move(stripes->namespace_name)} : std::nullopt;
}

std::string stripe_prefix(const striped_id &id) {
  return fmt::format("{:016x}{:016x}.", id.run, id.number);
}

std::string stripe_name(const striped_id &id, size_t index) {
  return stripe_prefix(id) + fmt::format("{:06x}", index);
}

std::optional<striped_id> stripe_name_parse(const std::string &name) {
  constexpr size_t digit_count = 16;
  if (name.size() <= stripe_prefix_size || name[2 * digit_count] != '.')
    return std::nullopt;
  striped_id id;
  const char *const text = name.data();
  auto const run = std::from_chars(text, text + digit_count, id.run, 16);
  auto const number = std::from_chars(text + digit_count, text + 2 * digit_count, id.number, 16);
  bool const is_good = run.ptr == text + digit_count && number.ptr == text + 2 * digit_count;
  return is_good ? std::optional{id} : std::nullopt;
}

std::optional<uint64_t> stripe_index_parse(const std::string &name) {
  if (name.size() <= stripe_prefix_size)
    return std::nullopt;
  uint64_t index = 0;
  const char *const end = name.data() + name.size();
  auto const number = std::from_chars(name.data() + stripe_prefix_size, end, index, 16);
  bool const is_good = number.ec == std::errc{} && number.ptr == end;
  return is_good ? std::optional{index} : std::nullopt;
}

}  // namespace tanada::wire::pool
