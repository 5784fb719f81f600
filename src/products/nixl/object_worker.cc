#include "products/nixl/object_worker.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>

namespace tanada::nixl {
namespace {

constexpr size_t batch_count_max = 256;      // of the 1024 requests of a connection
constexpr uint64_t posted_size_max = 65536;  // larger objects are copied, if the pool is local
constexpr size_t read_count_max = 16384;     // names that are remembered
constexpr std::chrono::microseconds cancel_interval{50};
constexpr uint64_t poll_timeout_ns = 1'000'000'000;  // the connection has the deadline
constexpr uint32_t commit_flags = TND_POOL_DURABLE;

struct object_closer {
  void operator()(tnd_pool_object *object) const {
    tnd_pool_close(object);
  }
};
using object_handle = std::unique_ptr<tnd_pool_object, object_closer>;

uint32_t memory_kind(const task &requested) {
  return requested.device == host_memory ? TND_POOL_MEMORY_HOST : TND_POOL_MEMORY_DEVICE;
}

tnd_status write_pieces(tnd_pool *pool, const task &requested, uint32_t flags) {
  uint64_t size = 0;
  for (const piece &part : requested.pieces)
    size = std::max(size, part.offset + part.size);
  tnd_pool_object *created = nullptr;
  uint32_t const keep = requested.is_whole() ? 0 : TND_POOL_KEEP;
  tnd_status status = tnd_pool_create(
      pool, requested.name.c_str(), size, (flags & ~commit_flags) | keep, nullptr, &created);
  if (status != TND_OK)
    return status;
  object_handle const object{created};
  for (const piece &part : requested.pieces) {
    status = tnd_pool_write(created, part.offset, part.memory, part.size, memory_kind(requested));
    if (status != TND_OK)
      return status;
  }
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.flags = flags & commit_flags;
  return tnd_pool_commit(created, &options, nullptr);
}

tnd_status read_pieces(tnd_pool *pool, const task &requested) {
  tnd_pool_object *opened = nullptr;
  tnd_status status = tnd_pool_open(pool, requested.name.c_str(), 0, &opened);
  if (status != TND_OK)
    return status;
  object_handle const object{opened};
  for (const piece &part : requested.pieces) {
    status =
        tnd_pool_read(opened, part.offset, part.memory, part.size, memory_kind(requested), nullptr);
    if (status != TND_OK)
      return status;
  }
  return TND_OK;
}

bool is_postable(const task &requested, const worker_config &config, connection_table &table) {
  if (!requested.is_whole_in_host_memory())
    return false;
  if (!config.is_local)
    return true;
  return requested.pieces[0].size <= posted_size_max &&
         (requested.is_write || !table.was_read(requested.name));
}

// Whether a get of `size` bytes filled the memory of the task. A longer object is read by its
// beginning.
tnd_status check_get(tnd_pool *pool, const task &requested, tnd_status status, uint64_t size) {
  if (status == -ERANGE)
    return read_pieces(pool, requested);
  if (status == TND_OK && size < requested.pieces[0].size)
    return -ERANGE;
  return status;
}

tnd_status post_whole(tnd_pool *pool, const task &requested, uint32_t flags, uint64_t context) {
  tnd_pool_request request{};
  request.struct_size = sizeof(request);
  request.kind = requested.is_write ? TND_POOL_REQUEST_PUT : TND_POOL_REQUEST_GET;
  request.flags = requested.is_write ? flags : 0;
  request.name = requested.name.c_str();
  request.memory = requested.pieces[0].memory;
  request.size = requested.pieces[0].size;
  request.context = context;
  return tnd_pool_post(pool, &request);
}

tnd_status carry_out_task(tnd_pool *pool, const task &requested, uint32_t flags) {
  if (!requested.is_whole_in_host_memory())
    return requested.is_write ? write_pieces(pool, requested, flags) : read_pieces(pool, requested);
  const piece &part = requested.pieces[0];
  if (requested.is_write)
    return tnd_pool_put(pool, requested.name.c_str(), part.memory, part.size, flags, nullptr);
  uint64_t size = 0;
  tnd_status const status =
      tnd_pool_get(pool, requested.name.c_str(), part.memory, part.size, &size, 0);
  return check_get(pool, requested, status, size);
}

// Post all tasks of a batch, and wait for them. Each of them is finished.
void carry_out_posted(tnd_pool *pool, std::span<const posted_task> batch, uint32_t flags) {
  std::vector<uint64_t> longer;  // gets of objects that are longer than the memory
  size_t pending = 0;
  for (size_t index = 0; index < batch.size(); ++index) {
    tnd_status const status = post_whole(pool, batch[index].get(), flags, index);
    if (status == TND_OK)
      ++pending;
    else
      batch[index].finish(status);
  }
  tnd_pool_completion completions[64];
  while (pending > 0) {
    uint32_t count = 0;
    tnd_status const status =
        tnd_pool_poll(pool, completions, std::size(completions), poll_timeout_ns, &count);
    TND_ASSERT(status == TND_OK && count <= pending);
    for (const tnd_pool_completion &completion : std::span{completions, count}) {
      const posted_task &done = batch[completion.context];
      if (done.get().is_write)
        done.finish(completion.status);
      else if (completion.status == -ERANGE)
        longer.push_back(completion.context);
      else
        done.finish(check_get(pool, done.get(), completion.status, completion.size));
    }
    pending -= count;
  }
  for (uint64_t const index : longer)
    batch[index].finish(read_pieces(pool, batch[index].get()));
}

// How many of the first tasks are carried out together.
size_t run_length(std::span<const posted_task> batch,
                  const worker_config &config,
                  connection_table &table) {
  size_t end = 0;
  while (end < batch.size() && is_postable(batch[end].get(), config, table))
    ++end;
  return std::max<size_t>(end, 1);
}

}  // namespace

void request::start() {
  TND_ASSERT(is_done());
  for (task &entry : tasks)
    std::atomic_ref{entry.is_claimed}.store(false, std::memory_order_relaxed);
  status.store(TND_OK, std::memory_order_relaxed);
  pending.store(static_cast<uint32_t>(tasks.size()), std::memory_order_release);
}

bool request::claim(size_t index) {
  return !std::atomic_ref{tasks[index].is_claimed}.exchange(true, std::memory_order_acq_rel);
}

void request::finish(tnd_status result) {
  tnd_status expected = TND_OK;
  if (result != TND_OK)
    status.compare_exchange_strong(expected, result, std::memory_order_relaxed);
  pending.fetch_sub(1, std::memory_order_release);
}

uint64_t request::byte_count() const noexcept {
  uint64_t total = 0;
  for (const task &entry : tasks)
    total += entry.byte_count();
  return total;
}

uint64_t task::byte_count() const noexcept {
  uint64_t total = 0;
  for (const piece &part : pieces)
    total += part.size;
  return total;
}

connection_table::~connection_table() {
  for (const auto &[device, pool] : pools_)
    tnd_pool_disconnect(pool);
}

tnd_status connection_table::connect(uint32_t device, tnd_pool **pool) {
  lock_guard const lock{mutex_};
  if (auto const known = pools_.find(device); known != pools_.end()) {
    *pool = known->second;
    return TND_OK;
  }
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  config.key_file = config_.key_file.empty() ? nullptr : config_.key_file.c_str();
  if (device == host_memory)
    config.flags |= TND_POOL_NO_PREPARATION;
  else
    config.device_index = device;
  tnd_pool *created = nullptr;
  tnd_status const status = tnd_pool_connect(config_.url.c_str(), &config, &created);
  if (status != TND_OK)
    return status;
  pools_.emplace(device, created);
  *pool = created;
  return TND_OK;
}

bool connection_table::was_read(const std::string &name) {
  if (read_names_.size() >= read_count_max)
    read_names_.clear();
  return !read_names_.insert(name).second;
}

object_worker::object_worker(const worker_config &config)
    : config_{config}, connections_{config}, thread_{[this] {
        run();
      }} {}

object_worker::~object_worker() {
  std::deque<posted_task> dropped;
  {
    lock_guard const lock{mutex_};
    is_stopping_ = true;
    dropped.swap(queue_);
  }
  for (const posted_task &entry : dropped) {
    if (entry.owner->claim(entry.index))
      entry.finish(-ECANCELED);
  }
  posted_.notify_one();
  thread_.join();
}

void object_worker::post(posted_task posted) {
  {
    lock_guard const lock{mutex_};
    queue_.push_back(std::move(posted));
  }
  posted_.notify_one();
}

void object_worker::run() {
  std::vector<posted_task> batch;
  for (;;) {
    batch.clear();
    {
      unique_lock lock{mutex_};
      posted_.wait(lock, [this] {
        mutex_.assert_held();
        return is_stopping_ || !queue_.empty();
      });
      if (is_stopping_)
        return;
      while (!queue_.empty() && batch.size() < batch_count_max) {
        if (queue_.front().owner->claim(queue_.front().index))
          batch.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    carry_out(connections_, config_, batch);
  }
}

// Runs of tasks that can be posted are in flight together. Tasks of one object stay in order, since
// a connection carries out puts and gets in the order of their posts.
void carry_out(connection_table &connections,
               const worker_config &config,
               std::span<const posted_task> batch) {
  while (!batch.empty()) {
    size_t const count = run_length(batch, config, connections);
    tnd_pool *pool = nullptr;
    tnd_status const status = connections.connect(batch[0].get().device, &pool);
    if (status != TND_OK) {
      for (const posted_task &entry : batch.first(count))
        entry.finish(status);
    } else if (count == 1) {
      batch[0].finish(carry_out_task(pool, batch[0].get(), config.flags));
    } else {
      carry_out_posted(pool, batch.first(count), config.flags);
    }
    batch = batch.subspan(count);
  }
}

void cancel(request &posted) {
  for (size_t index = 0; index < posted.tasks.size() && !posted.is_done(); ++index) {
    if (posted.claim(index))
      posted.finish(-ECANCELED);
  }
  while (!posted.is_done())
    std::this_thread::sleep_for(cancel_interval);
}

}  // namespace tanada::nixl
