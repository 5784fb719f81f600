// The values that one process publishes, and their serialized form.
#include "seams/bootstrap/value_table.hpp"

#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"

namespace tanada::seams {
namespace {

// Precedes each value: the sizes of key and value, which follow. All processes of a job have one
// byte order.
struct value_head {
  uint32_t key_size, value_size;
};
static_assert(sizeof(value_head) == 8);
static_assert(bootstrap_key_size_max <= UINT32_MAX && bootstrap_value_size_max <= UINT32_MAX);

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

void append(std::vector<std::byte> &target, std::span<const std::byte> bytes) {
  target.insert(target.end(), bytes.begin(), bytes.end());
}

}  // namespace

status value_table::publish(std::string_view key, std::span<const std::byte> value) {
  if (key.empty())
    return fail(status::invalid, "a published value needs a key");
  if (key.size() > bootstrap_key_size_max || value.size() > bootstrap_value_size_max) {
    return fail(status::too_big,
                "publish of {} bytes under a key of {} characters: at most {} and {}",
                value.size(),
                key.size(),
                bootstrap_value_size_max,
                bootstrap_key_size_max);
  }
  if (unpublished_.contains(key) || visible_.contains(key)) {
    return fail(status::exists, "this process has published {} before", key);
  }
  unpublished_.emplace(key, std::vector<std::byte>(value.begin(), value.end()));
  return status::ok;
}

std::vector<std::byte> value_table::take_published() {
  std::vector<std::byte> bytes;
  for (auto const &[key, value] : unpublished_) {
    TND_ASSERT(key.size() <= bootstrap_key_size_max && value.size() <= bootstrap_value_size_max);
    value_head const head{uint32_t(key.size()), uint32_t(value.size())};
    append(bytes, std::as_bytes(std::span{&head, 1}));
    append(bytes, bytes_of(key));
    append(bytes, value);
  }
  visible_.merge(unpublished_);
  unpublished_.clear();
  return bytes;
}

status value_table::merge(std::span<const std::byte> bytes) {
  values decoded;
  while (!bytes.empty()) {
    value_head head;
    if (bytes.size() < sizeof head)
      return status::protocol;
    std::memcpy(&head, bytes.data(), sizeof head);
    bytes = bytes.subspan(sizeof head);
    if (head.key_size > bootstrap_key_size_max || head.value_size > bootstrap_value_size_max)
      return status::protocol;
    if (bytes.size() < size_t(head.key_size) + head.value_size)
      return status::protocol;
    std::string key(reinterpret_cast<const char *>(bytes.data()), head.key_size);
    auto const value = bytes.subspan(head.key_size, head.value_size);
    decoded.emplace(std::move(key), std::vector<std::byte>(value.begin(), value.end()));
    bytes = bytes.subspan(size_t(head.key_size) + head.value_size);
  }
  visible_.merge(decoded);
  return status::ok;
}

result<std::vector<std::byte>> value_table::find(std::string_view key) const {
  auto const it = visible_.find(key);
  if (it == visible_.end())
    return status::no_entry;
  return it->second;
}

}  // namespace tanada::seams
