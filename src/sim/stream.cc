#include "sim/stream.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace tanada::sim {
namespace {

struct connection {
  world &owner;
  stream_faults faults;
  std::function<bool()> pump;
  std::string on_the_way[2];  // to end 0, to end 1
  bool closed[2] = {false, false};
  bool cut = false;

  bool is_cut() {
    if (!cut && owner.random.below(10'000) < faults.cut_permyriad)
      cut = true;
    return cut;
  }
};

class simulated_stream final : public port::stream {
 public:
  simulated_stream(std::shared_ptr<connection> of, int end) : of_{std::move(of)}, end_{end} {}
  ~simulated_stream() override {
    of_->closed[end_] = true;
  }

  result<size_t> receive(std::span<const iovec> parts) override {
    if (of_->is_cut())
      return status::peer_lost;
    std::string &in = of_->on_the_way[end_];
    if (in.empty())
      return of_->closed[1 - end_] ? status::peer_lost : status::again;
    size_t const size = allowed(parts, in.size());
    if (size == 0)
      return status::again;
    size_t done = 0;
    for (const iovec &part : parts) {
      size_t const taken = std::min(part.iov_len, size - done);
      if (taken > 0)
        std::memcpy(part.iov_base, in.data() + done, taken);
      done += taken;
    }
    in.erase(0, size);
    return size;
  }

  result<size_t> send(std::span<const iovec> parts, int descriptor) override {
    if (descriptor >= 0)
      return status::not_supported;
    if (of_->is_cut() || of_->closed[1 - end_])
      return status::peer_lost;
    std::string &out = of_->on_the_way[1 - end_];
    size_t const room =
        out.size() < of_->faults.window_size ? of_->faults.window_size - out.size() : 0;
    size_t const size = allowed(parts, room);
    if (size == 0)
      return status::again;
    size_t done = 0;
    for (const iovec &part : parts) {
      size_t const taken = std::min(part.iov_len, size - done);
      out.append(static_cast<const char *>(part.iov_base), taken);
      done += taken;
    }
    return size;
  }

  status wait(bool to_receive, bool to_send, uint64_t) override {
    for (;;) {
      bool const ended = of_->cut || of_->closed[1 - end_];
      bool const readable = to_receive && !of_->on_the_way[end_].empty();
      bool const writable = to_send && of_->on_the_way[1 - end_].size() < of_->faults.window_size;
      if (ended || readable || writable)
        return status::ok;
      if (!of_->pump())
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
    if (size == 0 || of_->owner.random.chance(of_->faults.again_percent))
      return 0;
    return std::min<size_t>(size, of_->owner.random.between(1, of_->faults.chunk_size_max));
  }

  std::shared_ptr<connection> const of_;
  int const end_;
};

}  // namespace

std::pair<std::unique_ptr<port::stream>, std::unique_ptr<port::stream>> stream_pair_create(
    world &owner, const stream_faults &faults, std::function<bool()> pump) {
  auto of = std::make_shared<connection>(connection{owner, faults, std::move(pump), {}, {}, false});
  return {std::make_unique<simulated_stream>(of, 0), std::make_unique<simulated_stream>(of, 1)};
}

}  // namespace tanada::sim
