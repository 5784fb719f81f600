// products/o2g/kernel_driver.cc: the message_driver on /dev/o2g.
#include <tanada/o2g.h>
#include <tanada/o2g_driver.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "core/base/message.hpp"
#include "products/o2g/message_driver.hpp"
#include "seams/os/o2g_device.hpp"

namespace tanada::o2g {

namespace {

constexpr size_t shared_size = 4096;

template <class T>
T load_acquire(T &word) noexcept {
  return std::atomic_ref{word}.load(std::memory_order_acquire);
}

class kernel_driver final : public message_driver {
 public:
  kernel_driver(seams::o2g_device device, o2g_shared *shared, uint32_t *ring) noexcept
      : device_{std::move(device)}, shared_{shared}, ring_{ring} {}

  ~kernel_driver() override {
    int const error = device_.call(O2G_IOC_FINI, 0ul);
    if (error != 0 && error != EPERM)  // EPERM: a child after fork()
      log(log_level::error,
          "o2g: the driver does not detach its sockets: {}",
          std::strerror(error));
  }

  status attach(int socket, uint32_t connection, peer_index source) override {
    o2g_register request{};
    request.socket = socket;
    request.rank = int32_t(connection);
    request.peer = source;
    int const error = device_.call(O2G_IOC_REGISTER, &request);
    return error == 0 ? status::ok : status{-error};
  }

  void detach(uint32_t connection) noexcept override {
    (void)device_.call(O2G_IOC_DETACH, uint64_t{connection});
  }

  result<uint32_t> put(const receive_entry &entry) override {
    TND_ASSERT(entry.owner != nullptr);
    TND_ASSIGN(uint32_t const slot, acquire_slot());
    // Receives that only match need no place in the ring.
    bool const is_match_only = entry.is_match_only || stored_count_ == O2G_RING_COUNT;
    o2g_put_message request{};
    request.slot = slot;
    request.flags = is_match_only ? O2G_PUT_MATCH_ONLY : 0;
    request.tag = entry.pattern.tag;
    request.ignore = entry.pattern.ignore;
    request.source = entry.pattern.source;
    request.address = reinterpret_cast<uintptr_t>(entry.buffer.data());
    request.size = entry.buffer.size();
    slot_owner(slot) = {entry.owner, is_match_only};
    int const error = device_.call(O2G_IOC_PUT_MESSAGE, &request);
    if (error != 0) {
      slot_owner(slot) = {};
      free_slots_.push_back(slot);
      return error == EFAULT || error == EINVAL ? status::fault : status::no_memory;
    }
    stored_count_ += !is_match_only;
    return slot;
  }

  bool cancel(uint32_t slot) noexcept override {
    TND_ASSERT(slot_owner(slot).owner != nullptr);
    int const error = device_.call(O2G_IOC_CANCEL, uint64_t{slot});
    if (error != 0 && !slot_owner(slot).is_match_only)
      return false;
    release_slot(slot);
    return true;
  }

  bool next(driver_completion &done) noexcept override {
    uint64_t const index = taken_count_.load(std::memory_order_relaxed);
    if (load_acquire(shared_->completed_count) == index)
      return false;
    uint32_t const slot = ring_[index % O2G_RING_COUNT];
    describe(slot, done);
    release_slot(slot);
    taken_count_.store(index + 1, std::memory_order_relaxed);
    return true;
  }

  bool has_readable() const noexcept override {
    return load_acquire(shared_->readable_count) != 0 || load_acquire(shared_->pending_count) != 0;
  }

  size_t readable(std::span<uint32_t> connections) noexcept override {
    o2g_readable request{};
    request.address = reinterpret_cast<uintptr_t>(connections.data());
    request.count = uint32_t(connections.size());
    return device_.call(O2G_IOC_READABLE, &request) == 0 ? request.count : 0;
  }

  result<size_t> read(uint32_t connection, std::span<const iovec> parts) noexcept override {
    TND_ASSERT(!parts.empty() && parts.size() <= 2);
    o2g_read request{};
    request.rank = int32_t(connection);
    request.part_count = uint32_t(parts.size());
    for (size_t i = 0; i < parts.size(); i++) {
      request.parts[i].address = reinterpret_cast<uintptr_t>(parts[i].iov_base);
      request.parts[i].size = parts[i].iov_len;
    }
    int const error = device_.call(O2G_IOC_READ, &request);
    if (error == 0)
      return size_t(request.read_size);
    return error == EAGAIN || error == EINTR ? status::again : status{-error};
  }

  void arm(uint64_t quiet_size) noexcept override {
    uint64_t const event_count = load_acquire(shared_->event_count);
    bool const has_completion =
        load_acquire(shared_->completed_count) != taken_count_.load(std::memory_order_relaxed);
    o2g_arm const request{has_completion ? event_count - 1 : event_count, quiet_size};
    if (request.event_count == armed_.event_count && request.quiet_size == armed_.quiet_size)
      return;
    armed_ = request;
    (void)device_.call(O2G_IOC_ARM, &armed_);
  }

  int descriptor() const noexcept override {
    return device_.descriptor();
  }

 private:
  struct owner_entry {
    void *owner = nullptr;  // null: the slot is free
    bool is_match_only = false;
  };
  struct chunk {
    o2g_slot *slots = nullptr;
    std::array<owner_entry, O2G_CHUNK_SLOT_COUNT> owners{};
  };

  owner_entry &slot_owner(uint32_t slot) noexcept {
    return chunks_[slot / O2G_CHUNK_SLOT_COUNT]->owners[slot % O2G_CHUNK_SLOT_COUNT];
  }

  void release_slot(uint32_t slot) noexcept {
    owner_entry &entry = slot_owner(slot);
    TND_ASSERT(entry.owner != nullptr && (entry.is_match_only || stored_count_ != 0));
    stored_count_ -= !entry.is_match_only;
    entry = {};
    free_slots_.push_back(slot);  // grow() has reserved its place
  }

  void describe(uint32_t slot, driver_completion &done) noexcept {
    o2g_slot &state = chunks_[slot / O2G_CHUNK_SLOT_COUNT]->slots[slot % O2G_CHUNK_SLOT_COUNT];
    uint32_t const flags = load_acquire(state.flags);
    done.owner = slot_owner(slot).owner;
    done.code = status::ok;
    if ((flags & O2G_FAILED) != 0)
      done.code = state.error == -EFAULT ? status::fault : status::peer_lost;
    done.tag = uint64_t{state.context} << 32 | uint32_t(state.tag);
    done.data = state.o2g_slot_envelope_data;
    done.id = state.o2g_slot_envelope_id;
    done.size = state.message_size;
    done.received_size = state.received_size;
    done.flags = uint8_t(state.o2g_slot_envelope_flags);
    done.source = peer_index(state.source);
    done.connection = uint32_t(state.connection);
  }

  result<uint32_t> acquire_slot() {
    if (free_slots_.empty())
      TND_TRY(grow());
    uint32_t const slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  status grow() {
    o2g_grow request{O2G_CHUNK_EXPECTED, 0};
    if (device_.call(O2G_IOC_GROW, &request) != 0)
      return status::no_memory;
    TND_ASSERT(request.chunk == chunks_.size());
    auto created = std::make_unique<chunk>();
    TND_ASSIGN(std::byte *const memory,
               device_.map(uint64_t(request.chunk + 1) * O2G_CHUNK_SIZE, O2G_CHUNK_SIZE));
    created->slots = reinterpret_cast<o2g_slot *>(memory);
    free_slots_.reserve(size_t{O2G_CHUNK_SLOT_COUNT} * (request.chunk + 1));
    chunks_.push_back(std::move(created));
    for (uint32_t i = O2G_CHUNK_SLOT_COUNT; i-- != 0;)
      free_slots_.push_back(request.chunk * O2G_CHUNK_SLOT_COUNT + i);
    return status::ok;
  }

  seams::o2g_device device_;
  o2g_shared *const shared_;
  uint32_t *const ring_;
  std::vector<std::unique_ptr<chunk>> chunks_;
  std::vector<uint32_t> free_slots_;
  uint32_t stored_count_ = 0;  // entries that are not match-only
  std::atomic<uint64_t> taken_count_ = 0;
  o2g_arm armed_{};
};

}  // namespace

result<std::unique_ptr<message_driver>> kernel_driver_create(uint32_t socket_count_max,
                                                             const char *path) {
  uint32_t abi = 0;
  TND_ASSIGN(seams::o2g_device device,
             seams::o2g_device::open(path, socket_count_max, O2G_BIND_ENVELOPES, abi));
  TND_ASSIGN(std::byte *const shared, device.map(0, shared_size));
  TND_ASSIGN(std::byte *const ring, device.map(O2G_RING_OFFSET, O2G_RING_SIZE));
  return std::unique_ptr<message_driver>{new kernel_driver{std::move(device),
                                                           reinterpret_cast<o2g_shared *>(shared),
                                                           reinterpret_cast<uint32_t *>(ring)}};
}

result<message_driver_choice> message_driver_create(uint32_t socket_count_max,
                                                    const char *setting,
                                                    const char *path) {
  std::string_view const choice = setting == nullptr || *setting == '\0' ? "auto" : setting;
  if (choice == "off")
    return message_driver_choice{nullptr, "TND_O2G_DRIVER=off"};
  message_deferral deferral;
  auto created = kernel_driver_create(socket_count_max, path);
  if (created.ok())
    return message_driver_choice{std::move(created).value(), {}};
  std::string const reason = deferral.take(created.error());
  if (choice == "required")
    return fail(created.error(), "TND_O2G_DRIVER=required: {}", reason);
  return message_driver_choice{nullptr, reason};
}

}  // namespace tanada::o2g
