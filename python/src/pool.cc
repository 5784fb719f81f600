#include "pool.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "pool_call.hpp"
#include "records.hpp"

namespace nb = nanobind;

namespace tanada::python {
namespace {

// Up to this size a get is one round trip. For a larger object the size must be known first.
constexpr size_t small_object_size = 64 * 1024;
// An object may grow between the size query and the read, but not forever.
constexpr int get_tries_max = 8;
constexpr uint32_t commit_flags = TND_POOL_DURABLE | TND_POOL_VERIFY;

struct listed {
  std::vector<std::pair<std::string, std::optional<tnd_pool_info>>> entries;
  uint64_t count_max = 0;
};

int take_entry(void *context, const char *name, const tnd_pool_info *info) {
  auto &list = *static_cast<listed *>(context);
  list.entries.emplace_back(name, info == nullptr ? std::nullopt : std::optional{*info});
  return list.entries.size() == list.count_max ? 1 : 0;
}

}  // namespace

connection::~connection() {
  // After a fork the socket belongs to the parent: a goodbye message over it would end the parent's
  // connection.
  if (is_foreign(*this))
    return;
  closed = true;
  end_if_unused();
}

void connection::end_if_unused() {
  if (!closed || mapping_count != 0 || handle == nullptr)
    return;
  tnd_pool_disconnect(handle);
  handle = nullptr;
}

tnd_pool_commit_options commit_choice::options() const {
  tnd_pool_commit_options made = TND_POOL_COMMIT_OPTIONS_INIT;
  made.flags = flags & commit_flags;
  made.checksum_kind = checksum_kind;
  made.has_checksum = checksum.has_value() ? 1 : 0;
  made.checksum = checksum.value_or(0);
  return made;
}

pool::pool(const nb::bytes &url, const pool_settings &settings)
    : over_{std::make_shared<connection>()} {
  tnd_pool_config config = TND_POOL_CONFIG_INIT;
  config.timeout_ns = settings.timeout_ns.value_or(config.timeout_ns);
  if (settings.key_file)
    config.key_file = settings.key_file->c_str();
  if (settings.fabric)
    config.fabric = settings.fabric->c_str();
  if (settings.shared_memory)
    config.shared_memory = *settings.shared_memory ? 1 : 0;
  config.device_index = settings.device_index.value_or(config.device_index);
  over_->process = getpid();
  call_without_gil(
      [&] { return outcome_of(tnd_pool_connect(url.c_str(), &config, &over_->handle)); });
}

pool::~pool() {
  close();
}

void pool::close() {
  if (is_foreign(*over_))
    return;
  bool ended = false;
  {
    nb::gil_scoped_release const released;
    std::lock_guard const lock{over_->mutex};
    over_->closed = true;
    over_->end_if_unused();
    ended = over_->handle == nullptr;
  }
  // A connection kept by a mapping is over shared memory, so only this process accesses posted
  // memory.
  if (ended)
    pending_.clear();
}

bool pool::is_closed() const {
  if (is_foreign(*over_))
    return true;
  nb::gil_scoped_release const released;
  std::lock_guard const lock{over_->mutex};
  return over_->closed;
}

namespace {

// The result of a call that fills a struct.
template <class Record>
nb::dict told(connection &over, tnd_status (*ask)(tnd_pool *, Record *)) {
  Record now{};
  now.struct_size = sizeof now;
  call_over(over, [&](tnd_pool *handle) { return outcome_of(ask(handle, &now)); });
  return record_of(now);
}

}  // namespace

nb::dict pool::connection_info() {
  return told(*over_, tnd_pool_get_connection);
}
nb::dict pool::statistics() {
  return told(*over_, tnd_pool_get_statistics);
}
nb::dict pool::traffic() {
  return told(*over_, tnd_pool_get_traffic);
}

std::unique_ptr<object> pool::create(const nb::bytes &name,
                                     uint64_t size,
                                     uint32_t flags,
                                     const std::optional<nb::bytes> &set) {
  auto const made = std::make_shared<opened>();
  made->over = over_;
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(tnd_pool_create(
        handle, name.c_str(), size, flags, set ? set->c_str() : nullptr, &made->handle));
  });
  return std::make_unique<object>(made);
}

std::unique_ptr<object> pool::open(const nb::bytes &name, uint64_t version) {
  auto const made = std::make_shared<opened>();
  made->over = over_;
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(tnd_pool_open(handle, name.c_str(), version, &made->handle));
  });
  return std::make_unique<object>(made);
}

void pool::put(const nb::bytes &name, nb::handle source, const commit_choice &choice) {
  region const bytes = region::contiguous(source, access::read);
  if (bytes.memory() != TND_POOL_MEMORY_HOST) {
    auto const made = create(name, bytes.size(), choice.flags & ~commit_flags, std::nullopt);
    made->write_region(0, bytes);
    made->commit(choice);
    return made->close();
  }
  tnd_pool_commit_options const options = choice.options();
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(
        tnd_pool_put(handle, name.c_str(), bytes.addr(), bytes.size(), choice.flags, &options));
  });
}

nb::bytes pool::get(const nb::bytes &name, uint32_t flags) {
  auto const small = std::make_unique_for_overwrite<char[]>(small_object_size);
  char *target = small.get();
  uint64_t capacity = small_object_size, size = 0;
  nb::object made;
  for (int tries = 0;; tries++) {
    bool again = false;
    call_over(*over_, [&](tnd_pool *handle) {
      tnd_status const status = tnd_pool_get(handle, name.c_str(), target, capacity, &size, flags);
      again = status == -ERANGE && size > capacity && tries < get_tries_max;
      return again ? outcome{} : outcome_of(status);
    });
    if (!again)
      break;
    made = nb::steal(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(size)));
    if (!made.is_valid())
      throw nb::python_error();
    target = PyBytes_AsString(made.ptr());
    capacity = size;
  }
  if (made.is_valid() && size == capacity)
    return nb::borrow<nb::bytes>(made);
  return nb::bytes(target, size);
}

uint64_t pool::get_into(const nb::bytes &name, nb::handle target, uint32_t flags) {
  region const bytes = region::contiguous(target, access::write);
  uint64_t size = 0;
  if (bytes.memory() == TND_POOL_MEMORY_HOST) {
    call_over(*over_, [&](tnd_pool *handle) {
      return outcome_of(
          tnd_pool_get(handle, name.c_str(), bytes.addr(), bytes.size(), &size, flags));
    });
    return size;
  }
  if (flags != 0)
    throw nb::value_error("contents are verified in host memory only");
  auto const found = open(name, 0);
  size = found->size();
  if (size > bytes.size())
    check({-ERANGE,
           "the object has " + std::to_string(size) + " bytes, the target " +
               std::to_string(bytes.size())});
  found->read_region(0, bytes);
  found->close();
  return size;
}

nb::tuple pool::stat(const nb::bytes &name, uint64_t version) {
  tnd_pool_info info{};
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(tnd_pool_stat(handle, name.c_str(), version, &info));
  });
  return record_of(info);
}

nb::list pool::entries(const nb::bytes &prefix, const nb::bytes &delimiter, uint64_t count_max) {
  listed found;
  found.count_max = count_max;
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(
        tnd_pool_list_delimited(handle, prefix.c_str(), delimiter.c_str(), &take_entry, &found));
  });
  nb::list made;
  for (auto const &[name, info] : found.entries) {
    nb::object const record = info ? nb::object{record_of(*info)} : nb::none();
    made.append(nb::make_tuple(nb::bytes(name.data(), name.size()), record));
  }
  return made;
}

void pool::rename(const nb::bytes &name, const nb::bytes &new_name, uint32_t flags) {
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(tnd_pool_rename(handle, name.c_str(), new_name.c_str(), flags));
  });
}

void pool::remove(const nb::bytes &name, uint32_t flags) {
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(tnd_pool_remove(handle, name.c_str(), flags));
  });
}

void pool::set_flags(const nb::bytes &name, uint32_t flags) {
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(tnd_pool_set_flags(handle, name.c_str(), flags));
  });
}

void pool::set_commit(const nb::bytes &set, uint64_t count, uint32_t flags) {
  call_over(*over_, [&](tnd_pool *handle) {
    return outcome_of(tnd_pool_set_commit(handle, set.c_str(), count, flags));
  });
}

uint64_t pool::post(const posted &request) {
  bool const reads = request.kind == TND_POOL_REQUEST_GET || request.kind == TND_POOL_REQUEST_READ;
  pending kept;
  if (request.kind != TND_POOL_REQUEST_COMMIT)
    kept.memory = region::contiguous(request.memory, reads ? access::write : access::read);
  if (kept.memory.memory() != TND_POOL_MEMORY_HOST)
    throw nb::type_error("what is posted has to lie in host memory");
  if (request.target != nullptr)
    kept.target = request.target->of();

  tnd_pool_request made{};
  made.struct_size = sizeof made;
  made.kind = request.kind;
  made.flags = request.flags;
  made.checksum_kind = request.checksum_kind;
  made.name = request.name ? request.name->c_str() : nullptr;
  made.offset = request.offset;
  made.memory = kept.memory.addr();
  made.size = kept.memory.size();
  made.context = next_number_++;
  opened *const target = kept.target.get();
  pending_.emplace(made.context, std::move(kept));
  try {
    call_over(*over_, [&](tnd_pool *handle) {
      if (target != nullptr && target->closed)
        return outcome{-TND_ESTATE, "the object is closed"};
      made.object = target != nullptr ? target->handle : nullptr;
      return outcome_of(tnd_pool_post(handle, &made));
    });
  } catch (...) {
    pending_.erase(made.context);
    throw;
  }
  return made.context;
}

nb::list pool::poll(uint64_t timeout_ns) {
  constexpr uint64_t signal_check_interval_ns = 100'000'000;
  nb::list made;
  std::array<tnd_pool_completion, 64> completions{};
  uint32_t count = 0;
  while (!pending_.empty()) {
    uint64_t const slice = std::min(timeout_ns, signal_check_interval_ns);
    call_over(*over_, [&](tnd_pool *handle) {
      return outcome_of(
          tnd_pool_poll(handle, completions.data(), uint32_t(completions.size()), slice, &count));
    });
    if (timeout_ns != TND_NO_DEADLINE)
      timeout_ns -= slice;
    if (count != 0 || timeout_ns == 0)
      break;
    if (PyErr_CheckSignals() != 0)
      throw nb::python_error();
  }
  for (uint32_t i = 0; i < count; i++) {
    auto const &each = completions[i];
    pending_.erase(each.context);
    made.append(
        nb::make_tuple(each.context, each.status, each.kind, each.size, each.version, each.path));
  }
  return made;
}

}  // namespace tanada::python
