// An object of the pool as a file: reading versions, and writing new ones.
#include <tanada/pool.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "products/pool/store/pool_engine.hpp"
#include "seams/store/version_hash.hpp"

namespace tanada::pool {

using seams::store_buffer;
using seams::store_stat;

namespace {

// A pool in memory that is created anew counts its versions from the beginning.
uint64_t identity_of(const tnd_pool_info &info) {
  return seams::version_hash({info.version, info.created_ns, info.size});
}

}  // namespace

pool_target::~pool_target() {
  for (tnd_pool *const pool : pools_)
    tnd_pool_disconnect(pool);
}

status pool_target::connection(size_t index, tnd_pool *&pool) {
  TND_ASSERT(index < connection_count);
  lock_guard const lock{mutex_};
  if (pools_[index] == nullptr) {
    // Kernels may be waiting for this connection. They read mapped pages, or the window.
    tnd_pool_config config = TND_POOL_CONFIG_INIT;
    config.flags = TND_POOL_NO_PREPARATION;
    TND_TRY(status(tnd_pool_connect(url_.c_str(), &config, &pools_[index])));
    register_window(pools_[index]);
  }
  pool = pools_[index];
  TND_ASSERT(pool != nullptr);
  return status::ok;
}

// Without the registration, each read has one of its own.
void pool_target::register_window(tnd_pool *pool) const {
  tnd_pool_connection about{};
  about.struct_size = sizeof about;
  if (window_ == nullptr || tnd_pool_get_connection(pool, &about) != TND_OK)
    return;
  // Without a fabric nothing needs the device, whose calls may wait for running kernels.
  if (about.path != TND_POOL_PATH_RDMA && about.path != TND_POOL_PATH_FABRIC)
    return;
  uint32_t const kind = window_->is_host_memory ? TND_POOL_MEMORY_HOST : TND_POOL_MEMORY_DEVICE;
  (void)!tnd_pool_register(pool, window_->addr, window_->size, kind);
}

seams::direct_offer pool_target::direct(tnd_pool *pool) const {
  tnd_pool_connection about{};
  about.struct_size = sizeof about;
  if (window_ == nullptr || tnd_pool_get_connection(pool, &about) != TND_OK)
    return {seams::direct_kind::unavailable, "direct reads are turned off"};
  bool const is_rdma = about.path == TND_POOL_PATH_RDMA;
  if (is_rdma && (window_->is_host_memory || about.device_path == TND_POOL_PATH_GPU_DIRECT))
    return {seams::direct_kind::direct, {}};
  // A GPU's own copies are left to kernels: gfile stages the bytes.
  if (!window_->is_host_memory)
    return {seams::direct_kind::unavailable,
            is_rdma ? "the fabric does not reach the device's memory"
                    : "there is no RDMA between the pool and this node"};
  return {seams::direct_kind::compatible,
          about.path == TND_POOL_PATH_FABRIC
              ? "the fabric copies in software: a processor copies"
              : "there is no fabric to the pool: a processor copies"};
}

pool_file::~pool_file() {
  lock_guard const lock{mutex_};
  close_readers();
  tnd_pool_close(writer_);
}

void pool_file::close_readers() {
  TND_ASSERT(mutex_.is_held());
  for (reader &reader_entry : readers_)
    reader_entry.object.reset();
}

pool_file::object_ptr pool_file::make_object_ptr(tnd_pool_object *object) const {
  return {object, [target = target_](tnd_pool_object *closed) {
            tnd_pool_close(closed);
          }};
}

// The connection of a reader. Without `write`, the first reader uses the connection that only the
// daemon's end can break.
size_t pool_file::connection_of(size_t index) const {
  return index == 0 && !flags_.write && !flags_.create ? pool_target::read_connection : index;
}

status pool_file::open_reader(size_t index) {
  TND_ASSERT(mutex_.is_held() && index < readers_.size());
  tnd_pool *pool = nullptr;
  TND_TRY(target_->connection(connection_of(index), pool));
  tnd_pool_object *opened = nullptr;
  status code = status(tnd_pool_open(pool, name_.c_str(), version_, &opened));
  // The second call reconnects to a daemon that was restarted.
  if (code == status::peer_lost)
    code = status(tnd_pool_open(pool, name_.c_str(), version_, &opened));
  TND_TRY(code);
  object_ptr object = make_object_ptr(opened);
  tnd_pool_info info;
  TND_TRY(status(tnd_pool_get_info(opened, &info)));
  if (version_ != 0 && identity_of(info) != identity_)
    return status::stale;
  readers_[index].object = std::move(object);
  version_ = info.version;
  size_ = info.size;
  identity_ = identity_of(info);
  return status::ok;
}

status pool_file::open(store_stat &stat) {
  lock_guard const lock{mutex_};
  tnd_pool *pool = nullptr;
  TND_TRY(target_->connection(pool_target::write_connection, pool));
  bool const exclusive = flags_.create && flags_.exclusive;
  if (exclusive)
    TND_TRY(status(tnd_pool_put(pool, name_.c_str(), nullptr, 0, TND_POOL_EXCLUSIVE, nullptr)));
  status code = open_reader(0);
  if (code == status::no_entry && flags_.create) {
    // As with a file, the name exists from now on. It does not matter if another process created it
    // first.
    code = status(tnd_pool_put(pool, name_.c_str(), nullptr, 0, TND_POOL_EXCLUSIVE, nullptr));
    if (code == status::ok || code == status::exists)
      code = open_reader(0);
  }
  if (code == status::ok && flags_.truncate && size_ > 0)
    code = begin_writing(false);
  if (code != status::ok)
    return code;
  stat = {size_, identity_, true};
  if (!flags_.read)
    return status::ok;
  tnd_pool *reading = nullptr;
  TND_TRY(target_->connection(connection_of(0), reading));
  direct_ = target_->direct(reading);
  return status::ok;
}

// From here on, this file's bytes are those of a new version.
status pool_file::begin_writing(bool keeps_bytes) {
  TND_ASSERT(mutex_.is_held());
  if (writer_ != nullptr)
    return status::ok;
  tnd_pool *pool = nullptr;
  TND_TRY(target_->connection(pool_target::write_connection, pool));
  TND_TRY(status(
      tnd_pool_create(pool, name_.c_str(), 0, keeps_bytes ? TND_POOL_KEEP : 0, nullptr, &writer_)));
  tnd_pool_info info{};
  TND_TRY(status(tnd_pool_get_info(writer_, &info)));
  size_ = info.size;
  return status::ok;
}

// Durable if the pool is.
status pool_file::commit() {
  TND_ASSERT(mutex_.is_held());
  if (writer_ == nullptr)
    return status::ok;
  tnd_pool *pool = nullptr;
  TND_TRY(target_->connection(pool_target::write_connection, pool));
  tnd_pool_connection about{};
  about.struct_size = sizeof about;
  TND_TRY(status(tnd_pool_get_connection(pool, &about)));
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.flags = about.is_durable ? uint32_t(TND_POOL_DURABLE) : 0u;
  TND_TRY(status(tnd_pool_commit(writer_, &options, &version_)));
  close_readers();
  // After the commit it is a reader's handle.
  readers_[0].object = make_object_ptr(std::exchange(writer_, nullptr));
  tnd_pool_info info;
  TND_TRY(status(tnd_pool_get_info(readers_[0].object.get(), &info)));
  identity_ = identity_of(info);
  return status::ok;
}

status pool_file::close(store_stat &stat) {
  unique_lock lock{mutex_};
  status const code = commit();
  stat = {size_, identity_, true};
  return code;
}

status pool_file::sync() {
  unique_lock lock{mutex_};
  free_.wait(lock, [this] {
    mutex_.assert_held();
    return !are_readers_busy();
  });
  return commit();
}

seams::store_memory pool_file::memory(std::string &reason) {
  lock_guard const lock{mutex_};
  if (writer_ != nullptr || readers_[0].object == nullptr)
    return {};
  const void *addr = nullptr;
  uint64_t size = 0;
  if (tnd_pool_map(readers_[0].object.get(), &addr, &size) != TND_OK) {
    reason = tnd_last_message();
    return {};
  }
  return {{static_cast<const std::byte *>(addr), size}, readers_[0].object};
}

status pool_file::stat(store_stat &stat) {
  lock_guard const lock{mutex_};
  stat = {size_, identity_, writer_ == nullptr};
  return status::ok;
}

status pool_file::truncate(uint64_t size) {
  if (!flags_.write)
    return status::bad_file;
  lock_guard const lock{mutex_};
  TND_TRY(begin_writing(true));
  TND_TRY(status(tnd_pool_resize(writer_, size)));
  size_ = size;
  return status::ok;
}

status pool_file::write(uint64_t offset, std::span<const store_buffer> buffers, uint64_t &size) {
  size = 0;
  if (!flags_.write)
    return status::bad_file;
  lock_guard const lock{mutex_};
  TND_TRY(begin_writing(true));
  for (const store_buffer &buffer : buffers) {
    TND_TRY(status(
        tnd_pool_write(writer_, offset + size, buffer.addr, buffer.size, TND_POOL_MEMORY_HOST)));
    size += buffer.size;
    size_ = std::max(size_, offset + size);
  }
  return status::ok;
}

status pool_file::read_from(tnd_pool_object *object,
                            uint64_t offset,
                            std::span<const store_buffer> buffers,
                            uint64_t &size) {
  for (size_t i = 0; i < buffers.size();) {
    store_buffer const run = seams::take_adjacent(buffers, i);
    uint32_t const kind =
        target_->is_on_device(run) ? TND_POOL_MEMORY_DEVICE : TND_POOL_MEMORY_HOST;
    uint64_t part_size = 0;
    TND_TRY(status(tnd_pool_read(object, offset + size, run.addr, run.size, kind, &part_size)));
    size += part_size;
    if (part_size < run.size)
      break;
  }
  return status::ok;
}

bool pool_file::are_readers_busy() const {
  return std::any_of(readers_.begin(), readers_.end(), [](auto &entry) { return entry.busy; });
}

status pool_file::acquire_reader(unique_lock<mutex> &lock, size_t &index) {
  free_.wait(lock, [this, &index] {
    mutex_.assert_held();
    for (index = 0; index < readers_.size(); index++)
      if (!readers_[index].busy)
        return true;
    return false;
  });
  status const code = readers_[index].object != nullptr ? status::ok : open_reader(index);
  // Without another connection, all readers share one.
  if (code == status::ok || index == 0 || readers_[0].object == nullptr)
    return code;
  free_.wait(lock, [this] {
    mutex_.assert_held();
    return !readers_[0].busy;
  });
  index = 0;
  return status::ok;
}

status pool_file::read(uint64_t offset, std::span<const store_buffer> buffers, uint64_t &size) {
  size = 0;
  if (!flags_.read)
    return status::bad_file;
  unique_lock lock{mutex_};
  if (writer_ != nullptr)
    return read_from(writer_, offset, buffers, size);
  size_t index = 0;
  status code = acquire_reader(lock, index);
  for (int tries = 0; code == status::ok; tries++) {
    reader &active = readers_[index];
    TND_ASSERT(!active.busy);
    active.busy = true;
    lock.unlock();
    size = 0;
    code = read_from(active.object.get(), offset, buffers, size);
    lock.lock();
    active.busy = false;
    free_.notify_one();
    bool const is_lost = code == status::stale || code == status::peer_lost;
    if (!is_lost || tries > 0)
      return code;
    // A restarted daemon that kept the object still has the version.
    active.object.reset();
    code = open_reader(index);
    tnd_pool *pool = nullptr;
    if (code == status::ok && target_->connection(connection_of(index), pool) == status::ok)
      target_->register_window(pool);
  }
  return code == status::no_entry ? status::stale : code;
}

}  // namespace tanada::pool
