// The pool as a store: URLs are mapped to connections and files.
#include "products/pool/store/pool_engine.hpp"

#include <tanada/pool.h>

#include <algorithm>
#include <string_view>

#include "core/base/assert.hpp"

namespace tanada::pool {

using seams::store_buffer;
using seams::store_file;
using seams::store_stat;

namespace {

constexpr size_t prefix_size = 7;  // of "pool://"
static_assert(std::string_view{"pool://"}.size() == prefix_size);

struct list_context {
  std::string base;
  std::vector<std::string> &names;
};

int add_entry(void *context, const char *object_name, const tnd_pool_info *) {
  TND_ASSERT(context != nullptr && object_name != nullptr);
  auto &listing = *static_cast<list_context *>(context);
  listing.names.push_back(listing.base + object_name);
  return 0;
}

}  // namespace

// The object's name may be empty; callers that need one check it.
status pool_engine::target_of(const std::string &url,
                              std::shared_ptr<pool_target> &target,
                              std::string &name) {
  size_t const host_end = url.find('/', prefix_size);
  size_t const space_end = host_end == std::string::npos ? host_end : url.find('/', host_end + 1);
  if (space_end == std::string::npos) {
    host_.log(2, (url + ": give pool://host[:port]/namespace/object").c_str());
    return status::invalid;
  }
  std::string const base = url.substr(0, space_end);
  name = url.substr(space_end + 1);
  lock_guard const lock{mutex_};
  auto &entry = targets_[base];
  if (entry == nullptr)
    entry = std::make_shared<pool_target>(base, window_);
  target = entry;
  return status::ok;
}

status pool_engine::open(const std::string &url,
                         seams::store_open_flags flags,
                         store_file &file,
                         store_stat &stat) {
  std::shared_ptr<pool_target> target;
  std::string name;
  TND_TRY(target_of(url, target, name));
  if (name.empty())
    return status::is_directory;
  auto opened = std::make_shared<pool_file>(std::move(target), std::move(name), flags);
  TND_TRY(opened->open(stat));
  file = files_.insert(std::move(opened));
  return status::ok;
}

status pool_engine::close(store_file file, store_stat &stat) {
  auto const closed = files_.remove(file);
  return closed != nullptr ? closed->close(stat) : status::bad_file;
}

status pool_engine::read(store_file file,
                         uint64_t offset,
                         std::span<const store_buffer> buffers,
                         uint64_t &size) {
  auto const opened = files_.find(file);
  return opened != nullptr ? opened->read(offset, buffers, size) : status::bad_file;
}

status pool_engine::write(store_file file,
                          uint64_t offset,
                          std::span<const store_buffer> buffers,
                          uint64_t &size) {
  auto const opened = files_.find(file);
  return opened != nullptr ? opened->write(offset, buffers, size) : status::bad_file;
}

status pool_engine::stat(store_file file, store_stat &stat) {
  auto const opened = files_.find(file);
  return opened != nullptr ? opened->stat(stat) : status::bad_file;
}

status pool_engine::truncate(store_file file, uint64_t size) {
  auto const opened = files_.find(file);
  return opened != nullptr ? opened->truncate(size) : status::bad_file;
}

status pool_engine::sync(store_file file) {
  auto const opened = files_.find(file);
  return opened != nullptr ? opened->sync() : status::bad_file;
}

seams::store_memory pool_engine::memory(store_file file, std::string &reason) {
  auto const opened = files_.find(file);
  return opened != nullptr ? opened->memory(reason) : seams::store_memory{};
}

void pool_engine::attach(const seams::device_window &window, bool) {
  window_ = std::make_shared<const seams::device_window>(window);
}

std::optional<seams::direct_offer> pool_engine::direct(store_file file) const {
  auto const opened = files_.find(file);
  return opened != nullptr && window_ != nullptr ? std::optional{opened->direct()} : std::nullopt;
}

status pool_engine::unlink(const std::string &url) {
  std::shared_ptr<pool_target> target;
  std::string name;
  TND_TRY(target_of(url, target, name));
  tnd_pool *pool = nullptr;
  TND_TRY(target->connection(pool_target::write_connection, pool));
  return status(tnd_pool_remove(pool, name.c_str(), 0));
}

// Lists one level.
status pool_engine::list(const std::string &prefix, std::vector<std::string> &names) {
  std::shared_ptr<pool_target> target;
  std::string name;
  TND_TRY(target_of(prefix, target, name));
  tnd_pool *pool = nullptr;
  TND_TRY(target->connection(pool_target::write_connection, pool));
  TND_ASSERT(name.size() <= prefix.size());
  list_context listing{prefix.substr(0, prefix.size() - name.size()), names};
  TND_TRY(status(tnd_pool_list_delimited(pool, name.c_str(), "/", add_entry, &listing)));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return status::ok;
}

}  // namespace tanada::pool
