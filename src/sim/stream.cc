// The simulated stream: two ends with a buffer for each direction.
#include "sim/stream.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/assert.hpp"

namespace tanada::sim {
namespace {

struct connection {
  world &owner;
  stream_faults faults;
  std::function<bool()> pump;
  std::string in_flight[2];  // to end 0, to end 1
  bool closed[2] = {false, false};
  bool cut = false;

  bool is_cut() {
    if (!cut && owner.random.below(10'000) < faults.cut_permyriad)
      cut = true;
    return cut;
  }
};

class simulated_stream final : public seams::stream {
 public:
  simulated_stream(std::shared_ptr<connection> shared, int end)
      : connection_{std::move(shared)}, end_{end} {
    TND_ASSERT(end_ == 0 || end_ == 1);
  }
  ~simulated_stream() override {
    connection_->closed[end_] = true;
  }

  result<size_t> receive(std::span<const iovec> parts) override {
    if (connection_->is_cut())
      return status::peer_lost;
    TND_ASSERT(!connection_->closed[end_]);
    std::string &incoming = connection_->in_flight[end_];
    if (incoming.empty())
      return connection_->closed[1 - end_] ? status::peer_lost : status::again;
    size_t const size = allowed(parts, incoming.size());
    if (size == 0)
      return status::again;
    size_t done = 0;
    for (const iovec &part : parts) {
      size_t const copied_size = std::min(part.iov_len, size - done);
      if (copied_size > 0)
        std::memcpy(part.iov_base, incoming.data() + done, copied_size);
      done += copied_size;
    }
    TND_ASSERT(done == size);
    incoming.erase(0, size);
    return size;
  }

  result<size_t> send(std::span<const iovec> parts, int descriptor) override {
    if (descriptor >= 0)
      return status::not_supported;
    if (connection_->is_cut() || connection_->closed[1 - end_])
      return status::peer_lost;
    std::string &outgoing = connection_->in_flight[1 - end_];
    size_t const free_size = outgoing.size() < connection_->faults.window_size
                                 ? connection_->faults.window_size - outgoing.size()
                                 : 0;
    size_t const size = allowed(parts, free_size);
    if (size == 0)
      return status::again;
    size_t done = 0;
    for (const iovec &part : parts) {
      size_t const copied_size = std::min(part.iov_len, size - done);
      outgoing.append(static_cast<const char *>(part.iov_base), copied_size);
      done += copied_size;
    }
    return size;
  }

  status wait(bool to_receive, bool to_send, uint64_t) override {
    for (;;) {
      bool const has_ended = connection_->cut || connection_->closed[1 - end_];
      bool const readable = to_receive && !connection_->in_flight[end_].empty();
      bool const writable =
          to_send && connection_->in_flight[1 - end_].size() < connection_->faults.window_size;
      if (has_ended || readable || writable)
        return status::ok;
      if (!connection_->pump())
        return status::timed_out;
    }
  }

  std::string peer() const override {
    return "simulated";
  }

 private:
  size_t allowed(std::span<const iovec> parts, size_t limit) {
    size_t size = 0;
    for (const iovec &part : parts)
      size += part.iov_len;
    size = std::min(size, limit);
    if (size == 0 || connection_->owner.random.chance(connection_->faults.again_percent))
      return 0;
    return std::min<size_t>(
        size, connection_->owner.random.between(1, connection_->faults.chunk_size_max));
  }

  std::shared_ptr<connection> const connection_;
  int const end_;
};

}  // namespace

std::pair<std::unique_ptr<seams::stream>, std::unique_ptr<seams::stream>> stream_pair_create(
    world &owner, const stream_faults &faults, std::function<bool()> pump) {
  auto shared =
      std::make_shared<connection>(connection{owner, faults, std::move(pump), {}, {}, false});
  return {std::make_unique<simulated_stream>(shared, 0),
          std::make_unique<simulated_stream>(shared, 1)};
}

}  // namespace tanada::sim
