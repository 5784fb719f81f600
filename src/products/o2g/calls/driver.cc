// products/o2g/calls/driver.cc: the calls of tanada/o2g.h by the module o2g of the kernel.
#include "products/o2g/calls/driver.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "backends/sockets/shared_socket.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::o2g::calls {

static_assert(sizeof(o2g_slot) == 64 && offsetof(o2g_slot, message_size) == 24 &&
              offsetof(o2g_slot, dump_offset) == 48);
static_assert(sizeof(o2g_shared) == 56 && offsetof(o2g_shared, event_count) == 8 &&
              offsetof(o2g_shared, unclaimed_count) == 24);

namespace {

constexpr size_t shared_size = 4096;

// The words of queue_entry::reserved while the entry is in the driver, or describes a message of
// its dump area.
enum reserved_word { word_mark, word_slot_address, word_slot };

template <class T>
T load_acquire(T &word) noexcept {
  return std::atomic_ref{word}.load(std::memory_order_acquire);
}

uint64_t load_word(const queue_entry &entry, reserved_word word) noexcept {
  return std::atomic_ref{const_cast<queue_entry &>(entry).reserved[word]}.load(
      std::memory_order_relaxed);
}

void store_word(queue_entry &entry, reserved_word word, uint64_t value) noexcept {
  std::atomic_ref{entry.reserved[word]}.store(value, std::memory_order_relaxed);
}

void store_flags(queue_entry &entry, uint32_t flags) noexcept {
  std::atomic_ref{entry.flags}.store(flags, std::memory_order_release);
}

o2g_slot &slot_state(const queue_entry &entry) noexcept {
  return *reinterpret_cast<o2g_slot *>(uintptr_t(load_word(entry, word_slot_address)));
}

// Whether the driver may still change the flags of such an entry.
bool can_change(uint32_t flags) noexcept {
  if ((flags & O2G_UNEXPECTED) != 0)
    return !is_done(flags) || (flags & O2G_CLAIMED) == 0;
  return (flags & (O2G_QUEUED | O2G_MATCHED)) != 0 && !is_done(flags);
}

status end_status(int error) noexcept {
  switch (error) {
    case EPROTO:
      return status::protocol;
    case EFAULT:
      return status::fault;
    default:
      return status::peer_lost;
  }
}

// Different for each driver of this process, also after o2g_fini(), and for bytes of other origin.
uint64_t new_mark() noexcept {
  static std::atomic<uint64_t> count = 0;
  return 0x6F32'672E'6B6F'0000u + (count.fetch_add(1) + 1) * 0x9E37'79B9'7F4A'7C15u;
}

}  // namespace

driver::driver(uint32_t socket_count_max, seams::o2g_device device, o2g_shared *shared) noexcept
    : socket_count_max_{socket_count_max},
      device_{std::move(device)},
      shared_{shared},
      mark_{new_mark()} {}

result<std::unique_ptr<driver>> driver::create(uint32_t socket_count_max, const char *path) {
  uint32_t driver_abi = 0;
  TND_ASSIGN(seams::o2g_device device,
             seams::o2g_device::open(path, socket_count_max, 0, driver_abi));
  TND_ASSIGN(std::byte *const shared, device.map(0, shared_size));
  return std::unique_ptr<driver>{
      new driver{socket_count_max, std::move(device), reinterpret_cast<o2g_shared *>(shared)}};
}

driver::~driver() {
  int const error = device_.call(O2G_IOC_FINI, 0ul);
  if (error != 0)
    log(log_level::error, "o2g: the driver does not detach its sockets: {}", std::strerror(error));
  for (std::thread &thread : threads_)
    thread.join();
  lock_guard lock{mutex_};
  for (auto const &group : chunks_) {
    if (group == nullptr)
      continue;
    for (owner const &slot : group->owners) {
      queue_entry *const entry = slot.entry;
      if (entry != nullptr && !is_done(refresh(*entry))) {
        store_word(*entry, word_mark, 0);
        store_flags(*entry, load_flags(*entry) & ~uint32_t{O2G_QUEUED});
      }
    }
  }
}

// The status of an error that the caller of the driver does not expect.
status driver::failure(const char *call, int error) const {
  switch (error) {
    case EPERM:
      return fail(status::bad_state,
                  "{}: o2g_init() was called by another process, from which fork() made this one",
                  call);
    case ENOMEM:
      return fail(status::no_memory, "{}: insufficient memory", call);
    default:
      return fail(status{-error}, "{}: the driver: {}", call, std::strerror(error));
  }
}

status driver::add_socket(int socket, int rank) {
  if (rank < 0)
    return fail(status::invalid, "invalid rank {}", rank);
  lock_guard lock{setup_mutex_};
  if (ranks_.contains(rank))
    return fail(status::exists, "rank {} already has a socket", rank);
  if (ranks_.size() == socket_count_max_)
    return fail(status::too_many_files, "cannot register more than {} sockets", socket_count_max_);
  TND_TRY(backends::prepare_shared(socket));
  auto const position = ranks_.insert(rank).first;
  o2g_register request{};
  request.socket = socket;
  request.rank = rank;
  int const error = device_.call(O2G_IOC_REGISTER, &request);
  if (error == 0)
    return status::ok;
  ranks_.erase(position);
  switch (error) {
    case EOPNOTSUPP:
      return fail(status::not_supported,
                  "descriptor {} of rank {} is not a plain TCP socket, and the driver reads no "
                  "other: set TND_O2G_DRIVER=off",
                  socket,
                  rank);
    case EBUSY:
      return fail(status::busy,
                  "another part of the kernel or another process reads descriptor {} of rank {}",
                  socket,
                  rank);
    case EBADF:
      return fail(status::bad_file, "socket {}: {}", socket, std::strerror(error));
    case EINVAL:
      return fail(status::invalid, "descriptor {} is not a connected stream socket", socket);
    default:
      return failure("o2g_register_socket", error);
  }
}

status driver::set_dump_area(std::span<std::byte> memory) {
  lock_guard lock{setup_mutex_};
  {
    lock_guard entry_lock{mutex_};
    if (!dump_area_.empty())
      return fail(status::busy, "a dump area is already set");
    dump_area_ = memory;  // unexpected messages may exist before the call of the driver returns
  }
  o2g_dump_area request{};
  request.address = reinterpret_cast<uintptr_t>(memory.data());
  request.size = memory.size();
  int const error = device_.call(O2G_IOC_SET_DUMP_AREA, &request);
  if (error == 0)
    return status::ok;
  lock_guard entry_lock{mutex_};
  dump_area_ = {};
  if (error == EINVAL)
    return fail(
        status::invalid, "a dump area of {} bytes: at least 1 KiB is needed", memory.size());
  return failure("o2g_set_dump_area", error);
}

status driver::start_threads(uint32_t count) {
  lock_guard lock{setup_mutex_};
  if (threads_.size() + count > O2G_THREAD_COUNT_MAX)
    return fail(status::invalid, "cannot start more than {} threads", O2G_THREAD_COUNT_MAX);
  seams::signals_blocked const blocked;
  for (uint32_t i = 0; i < count; i++) {
    try {
      threads_.emplace_back([this] { receive_for_driver(); });
    } catch (const std::system_error &error) {
      return fail(status::no_memory, "cannot start a thread: {}", error.code().message().c_str());
    }
  }
  return status::ok;
}

// Returns when the driver is stopped.
void driver::receive_for_driver() const noexcept {
  int error = EINTR;
  while (error == EINTR)
    error = device_.call(O2G_IOC_DUMP, 0ul);
  if (error != 0)
    log(log_level::error, "o2g: the driver refuses a dumper thread: {}", std::strerror(error));
}

bool driver::is_here(const queue_entry &entry) const noexcept {
  return load_word(entry, word_mark) == mark_;
}

void driver::bind(queue_entry &entry, uint32_t slot, o2g_slot &state) const noexcept {
  store_word(entry, word_mark, mark_);
  store_word(entry, word_slot_address, reinterpret_cast<uintptr_t>(&state));
  store_word(entry, word_slot, slot);
}

// An entry that is done has left its slot, which another entry may use. Therefore a thread that
// reads the slot without the lock only learns that something may have changed.
uint32_t driver::flags(queue_entry &entry) noexcept {
  uint32_t const stored = load_flags(entry);
  if (!can_change(stored) || !is_here(entry))
    return stored;
  uint32_t const current = load_acquire(slot_state(entry).flags);
  if (current == stored || current == 0)
    return stored;
  lock_guard lock{mutex_};
  return refresh(entry);
}

// Copies the state of the slot into the entry, and returns the flags. The fields that a flag
// announces are written once, before the flag.
uint32_t driver::refresh(queue_entry &entry) {
  TND_ASSERT(mutex_.is_held());
  uint32_t const stored = load_flags(entry);
  if (!can_change(stored) || !is_here(entry))
    return stored;
  o2g_slot &state = slot_state(entry);
  uint32_t const current = load_acquire(state.flags);
  if (current == stored || current == 0)  // 0: o2g_put_entry() has not reached the driver
    return stored;
  if ((current & ~stored & O2G_MATCHED) != 0) {
    entry.source = state.source;
    entry.tag = state.tag;
    entry.message_size = state.message_size;
  }
  if (is_done(current) && !is_done(stored)) {
    entry.received_size = state.received_size;
    if ((current & O2G_FAILED) != 0)
      entry.status = tnd_status(end_status(-state.error));
  }
  uint32_t const slot = uint32_t(load_word(entry, word_slot));
  store_flags(entry, current);  // the caller may free its entry from now on
  if (is_done(current) && (current & O2G_UNEXPECTED) == 0)
    release_slot(slot);
  return current;
}

result<driver::chunk *> driver::map_chunk(uint32_t index) {
  TND_ASSERT(mutex_.is_held() && index < O2G_CHUNK_COUNT_MAX);
  auto &group = chunks_[index];
  if (group != nullptr)
    return group.get();
  auto created = std::make_unique<chunk>();
  TND_ASSIGN(std::byte *const memory,
             device_.map(uint64_t(index + 1) * O2G_CHUNK_SIZE, O2G_CHUNK_SIZE));
  created->slots = reinterpret_cast<o2g_slot *>(memory);
  group = std::move(created);
  return group.get();
}

result<uint32_t> driver::acquire_slot() {
  TND_ASSERT(mutex_.is_held());
  if (free_slots_.empty()) {
    o2g_grow request{O2G_CHUNK_EXPECTED, 0};
    int const error = device_.call(O2G_IOC_GROW, &request);
    if (error != 0)
      return failure("o2g_put_entry", error);
    TND_ASSIGN(chunk *const group, map_chunk(request.chunk));
    group->owners.resize(O2G_CHUNK_SLOT_COUNT);
    // All slots fit later, when release_slot() cannot fail.
    free_slots_.reserve(size_t{O2G_CHUNK_SLOT_COUNT} * (request.chunk + 1));
    for (uint32_t i = O2G_CHUNK_SLOT_COUNT; i-- != 0;)
      free_slots_.push_back(request.chunk * O2G_CHUNK_SLOT_COUNT + i);
  }
  uint32_t const slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void driver::release_slot(uint32_t slot) {
  TND_ASSERT(mutex_.is_held());
  chunk &group = *chunks_[slot / O2G_CHUNK_SLOT_COUNT];
  uint32_t const index = slot % O2G_CHUNK_SLOT_COUNT;
  TND_ASSERT(group.owners[index].entry != nullptr);
  group.owners[index] = {};
  // A slot keeps its last flags until the driver puts the next entry into it.
  std::atomic_ref{group.slots[index].flags}.store(0, std::memory_order_release);
  free_slots_.push_back(slot);
}

// Gives the entry a slot, and returns the number of the put. The flags are O2G_QUEUED before the
// driver has the entry: another thread that its message wakes must find the slot.
result<uint64_t> driver::occupy_slot(queue_entry &entry, uint32_t &slot) {
  lock_guard lock{mutex_};
  TND_ASSIGN(slot, acquire_slot());
  chunk &group = *chunks_[slot / O2G_CHUNK_SLOT_COUNT];
  uint32_t const index = slot % O2G_CHUNK_SLOT_COUNT;
  group.owners[index] = {&entry, ++put_count_};
  bind(entry, slot, group.slots[index]);
  entry.status = TND_OK;
  store_flags(entry, O2G_QUEUED);
  return put_count_;
}

status driver::put(queue_entry &entry) {
  uint32_t const previous_flags = flags(entry);
  TND_TRY(check_expected(entry, previous_flags));
  tnd_status const previous_status = entry.status;
  o2g_put request{};
  request.source = entry.source;
  request.tag = entry.tag;
  request.context = entry.context;
  request.address = reinterpret_cast<uintptr_t>(entry.data);
  request.size = entry.size;
  request.sequence = entry.sequence;
  TND_ASSIGN(uint64_t const put_number, occupy_slot(entry, request.slot));
  int error = EINTR;
  while (error == EINTR)
    error = device_.call(O2G_IOC_PUT, &request);
  switch (error) {
    case 0:
      refresh_put(entry, request.slot, put_number);
      return status::ok;
    case EAGAIN:
      withdraw(entry, previous_flags, previous_status);
      return status::again;
    case EPIPE:
    case EPROTO:
      withdraw(entry, 0, TND_OK);
      return fail(end_status(error), "the connection to rank {} has ended", request.source);
    default:
      withdraw(entry, previous_flags, previous_status);
      return failure("o2g_put_entry", error);
  }
}

// Undoes a put that the driver refused.
void driver::withdraw(queue_entry &entry, uint32_t flags, tnd_status code) {
  lock_guard lock{mutex_};
  uint32_t const slot = uint32_t(load_word(entry, word_slot));
  store_word(entry, word_mark, 0);
  entry.status = code;
  store_flags(entry, flags);
  release_slot(slot);
}

// A put that matches a waiting message may receive all of it. The caller then finds the result in
// the entry, unless another thread has read the flags: the entry may no longer exist.
void driver::refresh_put(queue_entry &entry, uint32_t slot, uint64_t put_number) {
  lock_guard lock{mutex_};
  owner const &current = chunks_[slot / O2G_CHUNK_SLOT_COUNT]->owners[slot % O2G_CHUNK_SLOT_COUNT];
  if (current.entry == &entry && current.put_number == put_number)
    refresh(entry);
}

status driver::cancel(queue_entry &entry) {
  lock_guard lock{mutex_};
  uint32_t const state = refresh(entry);
  if ((state & O2G_UNEXPECTED) == 0 && (state & (O2G_MATCHED | O2G_FAILED)) != 0) {
    race_count_.fetch_add(1, std::memory_order_relaxed);
    return status::again;
  }
  if ((state & O2G_QUEUED) == 0 || !is_here(entry))
    return fail(status::invalid, "the entry is not in the queue");
  uint32_t const slot = uint32_t(load_word(entry, word_slot));
  int const error = device_.call(O2G_IOC_CANCEL, uint64_t{slot});
  switch (error) {
    case 0:
      store_word(entry, word_mark, 0);
      store_flags(entry, 0);
      release_slot(slot);
      return status::ok;
    case EAGAIN:
      refresh(entry);
      return status::again;
    case EINVAL:
      return fail(status::invalid, "the entry is not in the queue");
    default:
      return failure("o2g_cancel_entry", error);
  }
}

std::vector<queue_entry *> driver::take_queue() {
  std::vector<owner> queue;
  lock_guard lock{mutex_};
  for (auto const &group : chunks_) {
    if (group != nullptr)
      std::ranges::copy_if(group->owners, std::back_inserter(queue), [](const owner &slot) {
        return slot.entry != nullptr;
      });
  }
  std::ranges::sort(queue, {}, &owner::put_number);
  std::vector<queue_entry *> entries;
  for (auto const [entry, put_number] : queue) {
    uint32_t const slot = uint32_t(load_word(*entry, word_slot));
    if (device_.call(O2G_IOC_CANCEL, uint64_t{slot}) != 0)
      continue;
    store_word(*entry, word_mark, 0);
    store_flags(*entry, 0);
    release_slot(slot);
    entries.push_back(entry);
  }
  return entries;
}

status driver::free(queue_entry &entry) {
  uint32_t const state = flags(entry);
  if ((state & O2G_UNEXPECTED) == 0 || !is_here(entry))
    return fail(status::invalid, "the entry is not in the dump area");
  if (!is_done(state))
    return fail(status::busy, "the message is still being received");
  uint32_t const slot = uint32_t(load_word(entry, word_slot));
  store_flags(entry, 0);  // before the slot can be that of another message
  int const error = device_.call(O2G_IOC_FREE, uint64_t{slot});
  switch (error) {
    case 0:
      return status::ok;
    case EINVAL:
      return fail(status::invalid, "the entry is not in the dump area");
    case EBUSY:
      store_flags(entry, state);
      return fail(status::busy, "the message is still being received");
    default:
      return failure("o2g_free_entry", error);
  }
}

// The entry that describes the unexpected message of a slot.
result<queue_entry *> driver::unexpected_entry(uint32_t slot) {
  lock_guard lock{mutex_};
  TND_ASSIGN(chunk *const group, map_chunk(slot / O2G_CHUNK_SLOT_COUNT));
  if (group->entries.empty())
    group->entries.resize(O2G_CHUNK_SLOT_COUNT);
  o2g_slot &state = group->slots[slot % O2G_CHUNK_SLOT_COUNT];
  queue_entry &entry = group->entries[slot % O2G_CHUNK_SLOT_COUNT];
  bool const is_known = load_flags(entry) != 0 && entry.sequence == state.sequence;
  if (!is_known) {
    TND_ASSERT(state.dump_offset <= dump_area_.size() &&
               state.message_size <= dump_area_.size() - state.dump_offset);
    entry = {};
    entry.struct_size = sizeof entry;
    entry.context = state.context;
    entry.data = dump_area_.data() + state.dump_offset;
    entry.size = state.message_size;
    entry.sequence = state.sequence;
    bind(entry, slot, state);
    store_flags(entry, O2G_UNEXPECTED);
  }
  refresh(entry);
  return &entry;
}

// Any message up to `sequence` was counted in `unclaimed_count` before `sequence` was stored.
status driver::find(queue_entry &request, queue_entry *&match) {
  TND_TRY(check_pattern(request));
  uint64_t const newest = sequence();
  if (load_acquire(shared_->unclaimed_count) == 0 && load_acquire(shared_->pending_count) == 0) {
    request.sequence = newest;
    return status::no_entry;
  }
  o2g_find search{};
  search.source = request.source;
  search.tag = request.tag;
  search.context = request.context;
  int error = EINTR;
  while (error == EINTR)
    error = device_.call(O2G_IOC_FIND, &search);
  if (error == ENOENT) {
    request.sequence = search.sequence;
    return status::no_entry;
  }
  if (error != 0)
    return failure("o2g_find_entry", error);
  TND_ASSIGN(match, unexpected_entry(search.slot));
  return status::ok;
}

queue_entry *driver::next(const queue_entry *after) {
  if (sequence() == 0)
    return nullptr;
  if (after != nullptr && !is_here(*after))
    return nullptr;
  o2g_next request{};
  request.after = after == nullptr ? O2G_SLOT_NONE : uint32_t(load_word(*after, word_slot));
  int const error = device_.call(O2G_IOC_NEXT, &request);
  if (error != 0) {
    (void)failure("o2g_next_entry", error);
    return nullptr;
  }
  if (request.slot == O2G_SLOT_NONE)
    return nullptr;
  auto entry = unexpected_entry(request.slot);
  return entry.ok() ? entry.value() : nullptr;
}

uint64_t driver::sequence() const noexcept {
  return load_acquire(shared_->sequence);
}

// Whether there are events that the caller, or o2g_poll() (null), has not seen: then it has seen
// them. Of the threads in o2g_poll() that see an event, one takes it.
bool driver::take_events(uint64_t *event_count) noexcept {
  uint64_t const current = load_acquire(shared_->event_count);
  if (event_count != nullptr)
    return std::exchange(*event_count, current) != current;
  uint64_t previous = polled_event_count_.load(std::memory_order_acquire);
  return previous != current && polled_event_count_.compare_exchange_strong(previous, current);
}

status driver::poll(uint64_t *event_count, uint64_t timeout_ns) {
  uint64_t deadline_ns = 0;  // 0: not yet needed
  for (;;) {
    bool const is_open = load_acquire(shared_->open_count) != 0;  // before the count of events
    if (take_events(event_count))
      return status::ok;
    if (!is_open)
      return fail(status::peer_lost, "every connection has ended");
    if (timeout_ns == 0 && load_acquire(shared_->pending_count) == 0)
      return status::timed_out;
    uint64_t const now_ns = seams::monotonic_clock().now_ns();
    if (deadline_ns == 0)
      deadline_ns = seams::deadline_after(now_ns, timeout_ns);
    else if (now_ns >= deadline_ns)
      return status::timed_out;
    o2g_wait request{};
    request.event_count =
        event_count != nullptr ? *event_count : polled_event_count_.load(std::memory_order_acquire);
    request.timeout_ns = deadline_ns == TND_NO_DEADLINE ? ~uint64_t{0} : deadline_ns - now_ns;
    int const error = device_.call(O2G_IOC_WAIT, &request);
    bool const is_expected = error == 0 || error == EINTR || error == ETIMEDOUT || error == EPIPE;
    if (!is_expected)
      return failure("o2g_poll", error);
  }
}

status driver::rank_status(int rank) {
  int const error = rank < 0 ? ENOENT : device_.call(O2G_IOC_RANK_STATUS, uint64_t(rank));
  switch (error) {
    case 0:
      return status::ok;
    case ENOENT:
      return fail(status::no_entry, "no socket is registered for rank {}", rank);
    case EPIPE:
    case EPROTO:
    case EFAULT:
      return end_status(error);
    default:
      return failure("o2g_rank_status", error);
  }
}

void driver::count(o2g_statistics &statistics) {
  o2g_counters counters{};
  if (int const error = device_.call(O2G_IOC_COUNTERS, &counters); error != 0) {
    (void)failure("o2g_get_statistics", error);
  }
  lock_guard lock{setup_mutex_};
  statistics.socket_count = counters.socket_count;
  statistics.blocked_count = counters.blocked_count;
  statistics.thread_count = uint32_t(threads_.size());
  statistics.expected_count = counters.expected_count;
  statistics.unexpected_count = counters.unexpected_count;
  statistics.dump_free_size = counters.dump_free_size;
  statistics.received_count = counters.received_count;
  statistics.race_count = counters.race_count + race_count_.load(std::memory_order_relaxed);
}

}  // namespace tanada::o2g::calls
