// The simulated stream set: connections, segments in flight, and their faults.
#include "sim/stream_set.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "core/base/assert.hpp"

namespace tanada::sim {

namespace {

constexpr uint64_t share_size =
    1 << 20;  // Bytes of one connection handed over before the next connection is served.

using bytes = std::vector<std::byte>;

}  // namespace

// A connection with two ends: end 0 has connected, end 1 has accepted.
struct stream_connection {
  struct end {
    simulated_stream_set *set = nullptr;  // null: not yet accepted, or closed
    seams::stream_id id = seams::no_stream;
    seams::socket_address address{};
    // Events to be reported to the handler, in this order.
    bool is_connecting = false, is_connected = false, is_writable = false;
    bytes arrived{};
    bool has_ended = false;  // no more bytes will arrive
    status end_status = status::peer_lost;
    // The direction towards this end.
    uint64_t in_flight_size = 0;  // bytes
    uint64_t last_arrival_ns = 0;
    uint64_t cut_ns = ~uint64_t{0};
    bool waits_for_space = false;  // the other end waits for free space
    bool is_closed = false;
    bool is_queued = false;  // in the ready list of its set
  };
  end ends[2];
};

class simulated_stream_set final : public seams::stream_set {
 public:
  simulated_stream_set(stream_network &network, const seams::stream_set_options &options)
      : network_{network}, options_{options} {}

  ~simulated_stream_set() override {
    stop_listening();
    for (uint32_t i = 0; i < connections_.size(); i++)
      if (connections_[i].shared)
        release(i);
  }

  const char *name() const noexcept override {
    return "simulated";
  }
  void attach(seams::stream_handler &handler) override {
    handler_ = &handler;
  }
  int descriptor() const noexcept override {
    return -1;
  }
  void wake() noexcept override {
    is_woken_ = !network_.faults.loses_wakes;
  }

  result<seams::socket_address> listen(const seams::socket_address &address) override {
    seams::socket_address bound = address;
    if (bound.port == 0)
      bound.port = ++network_.last_port;
    if (!network_.listeners.emplace(bound, this).second)
      return status::busy;
    address_ = bound;
    return bound;
  }

  result<seams::stream_id> connect(const seams::socket_address &target,
                                   const seams::socket_address &source,
                                   uint64_t word) override {
    if (is_killed_)
      return status::peer_lost;
    auto created = std::make_shared<stream_connection>();
    created->ends[1].address = target;
    created->ends[0].address =
        source.family == seams::socket_address::family_kind::unspecified ? address_ : source;
    created->ends[0].address.port = ++network_.last_port;
    created->ends[0].is_connecting = true;
    auto const id = add(created, 0, word);
    if (!id.ok())
      return id;
    uint64_t const more_ns = network_.owner.random.below(network_.faults.connect_delay_ns_max + 1);
    auto &network = network_;
    schedule(network_.delay_ns() + more_ns,
             [&network, created] { arrive_at_listener(network, created); });
    return id;
  }

  result<seams::stream_id> adopt(int, uint64_t) override {
    return status::not_supported;
  }

  result<size_t> send(seams::stream_id id, std::span<const iovec> parts) override {
    connection *const entry = find(id);
    if (entry == nullptr || is_killed_)
      return status::peer_lost;
    auto &local_end = entry->shared->ends[entry->side],
         &remote_end = entry->shared->ends[1 - entry->side];
    if (local_end.has_ended && local_end.end_status != status::ok)
      return status::peer_lost;
    if (local_end.is_connecting)
      return size_t{0};
    uint64_t size = 0;
    for (iovec const &part : parts)
      size += part.iov_len;
    uint64_t const used = remote_end.in_flight_size + remote_end.arrived.size();
    uint64_t const accepted_size = choose_accepted_size(*entry, size, used);
    TND_ASSERT(accepted_size <= size);
    dispatch_segments(entry->shared, 1 - entry->side, first_bytes(parts, accepted_size));
    if (accepted_size == size)
      return accepted_size;
    remote_end.waits_for_space = true;
    if (used + accepted_size < network_.faults.window_size)
      report_space(entry->shared, 1 - entry->side);
    return accepted_size;
  }

  void close(seams::stream_id id) override {
    if (find(id) != nullptr)
      release(uint32_t(id));
  }

  seams::socket_address peer(seams::stream_id id) const override {
    auto const *const entry = const_cast<simulated_stream_set *>(this)->find(id);
    return entry == nullptr ? seams::socket_address{}
                            : entry->shared->ends[1 - entry->side].address;
  }

  size_t progress() override {
    if (is_killed_)
      return 0;
    size_t count = accept();
    // Connections have no order among each other, so serve them in random order.
    std::vector<seams::stream_id> order;
    order.swap(ready_);
    for (size_t i = order.size(); i > 1; i--) {
      std::swap(order[i - 1], order[network_.owner.random.below(i)]);
    }
    for (auto const id : order) {
      connection *const entry = find(id);
      if (entry == nullptr)
        continue;
      entry->shared->ends[entry->side].is_queued = false;
      count += serve(id);
    }
    return count;
  }

  status wait(uint64_t deadline_ns) override {
    for (;;) {
      if (std::exchange(is_woken_, false) || !pending_accepts_.empty() || !ready_.empty())
        return status::ok;
      uint64_t const now_ns = network_.owner.now_ns(), next_ns = network_.owner.next_ns();
      if (now_ns >= deadline_ns || (next_ns == ~uint64_t{0} && deadline_ns == ~uint64_t{0}))
        return status::timed_out;
      if (next_ns <= deadline_ns)
        network_.owner.step();
      else
        network_.owner.advance(deadline_ns - now_ns);
    }
  }

  void kill() {
    stop_listening();
    is_killed_ = true;
    for (auto const &entry : connections_)
      if (entry.shared)
        cut(entry.shared, 1 - entry.side, network_.delay_ns());
  }

 private:
  friend class stream_network;
  struct connection {
    std::shared_ptr<stream_connection> shared{};
    int side = 0;
    uint32_t generation = 0;
    uint64_t word = 0;
    bool has_sent = false;
  };

  connection *find(seams::stream_id id) {
    uint32_t const index = uint32_t(id);
    if (index >= connections_.size() || !connections_[index].shared)
      return nullptr;
    return connections_[index].generation == id >> 32 ? &connections_[index] : nullptr;
  }

  template <class Action>
  void schedule(uint64_t delay_ns, Action action) {
    network_.owner.schedule(network_.owner.now_ns() + delay_ns, std::move(action));
  }

  static void mark_ready(const std::shared_ptr<stream_connection> &shared, int side) {
    auto &end = shared->ends[side];
    if (end.set == nullptr || std::exchange(end.is_queued, true))
      return;
    end.set->ready_.push_back(end.id);
  }

  result<seams::stream_id> add(std::shared_ptr<stream_connection> shared, int side, uint64_t word) {
    if (free_.empty() && connections_.size() >= options_.connection_count_max)
      return status::too_many_files;
    if (free_.empty()) {
      free_.push_back(uint32_t(connections_.size()));
      connections_.emplace_back();
    }
    uint32_t const index = free_.back();
    free_.pop_back();
    TND_ASSERT(!connections_[index].shared && shared->ends[side].set == nullptr);
    connection &entry = connections_[index];
    seams::stream_id const id = uint64_t{entry.generation} << 32 | index;
    shared->ends[side].set = this;
    shared->ends[side].id = id;
    entry = {std::move(shared), side, entry.generation, word, false};
    return id;
  }

  // A connection request arrives where its listener is, or was. The answer arrives later.
  static void arrive_at_listener(stream_network &network,
                                 const std::shared_ptr<stream_connection> &created) {
    auto const it = network.listeners.find(created->ends[1].address);
    bool const is_refused =
        it == network.listeners.end() || network.owner.random.chance(network.faults.refuse_percent);
    if (!is_refused)
      it->second->pending_accepts_.push_back(created);
    created->ends[is_refused ? 0 : 1].has_ended |= is_refused;
    network.owner.schedule(network.owner.now_ns() + network.delay_ns(), [created] {
      TND_ASSERT(created->ends[0].is_connecting);
      created->ends[0].is_connected = !created->ends[0].has_ended;
      created->ends[0].is_writable = false;
      mark_ready(created, 0);
    });
  }

  // How many of `size` bytes a send takes while `used` bytes fill the window. A new connection has
  // free space, like the smallest socket buffer.
  uint64_t choose_accepted_size(connection &entry, uint64_t size, uint64_t used) {
    auto &random = network_.owner.random;
    auto const &faults = network_.faults;
    uint64_t free_size = used < faults.window_size ? faults.window_size - used : 0;
    bool const is_first = !std::exchange(entry.has_sent, true);
    if (!is_first && random.chance(faults.again_percent))
      free_size = 0;
    if (!is_first && free_size != 0 && size != 0 && random.chance(faults.partial_percent))
      free_size = random.between(1, size);
    return std::min({size, free_size, faults.window_size});
  }

  static bytes first_bytes(std::span<const iovec> parts, uint64_t size) {
    bytes content;
    content.reserve(size);
    for (iovec const &part : parts) {
      auto const *const begin = static_cast<const std::byte *>(part.iov_base);
      content.insert(
          content.end(), begin, begin + std::min<uint64_t>(part.iov_len, size - content.size()));
    }
    TND_ASSERT(content.size() == size);
    return content;
  }

  // Sends bytes to `side` in segments of random sizes.
  void dispatch_segments(const std::shared_ptr<stream_connection> &shared,
                         int side,
                         const bytes &content) {
    for (uint64_t done = 0; done < content.size();) {
      uint64_t const segment =
          std::min(content.size() - done,
                   network_.owner.random.between(1, network_.faults.segment_size_max));
      dispatch(shared,
               side,
               {content.begin() + int64_t(done), content.begin() + int64_t(done + segment)});
      done += segment;
    }
  }

  // Close the connection. The other end receives what is in flight, and then the end.
  void release(uint32_t index) {
    TND_ASSERT(index < connections_.size() && connections_[index].shared);
    connection &entry = connections_[index];
    auto const shared = std::move(entry.shared);
    entry.shared = nullptr;
    entry.generation++;
    free_.push_back(index);
    shared->ends[entry.side].set = nullptr;
    shared->ends[entry.side].is_closed = true;
    if (!shared->ends[entry.side].arrived.empty())
      network_.report_loss(*shared, false);
    shared->ends[entry.side].arrived.clear();
    int const peer_side = 1 - entry.side;
    auto &remote_end = shared->ends[peer_side];
    remote_end.last_arrival_ns =
        std::max(remote_end.last_arrival_ns, network_.owner.now_ns() + network_.delay_ns());
    if (remote_end.cut_ns != ~uint64_t{0})
      return;
    network_.owner.schedule(remote_end.last_arrival_ns, [shared, peer_side] {
      shared->ends[peer_side].has_ended = true;
      mark_ready(shared, peer_side);
    });
  }

  // Send a segment to `side`.
  void dispatch(const std::shared_ptr<stream_connection> &shared, int side, bytes segment) {
    auto &receiving_end = shared->ends[side];
    receiving_end.in_flight_size += segment.size();
    receiving_end.last_arrival_ns =
        std::max(receiving_end.last_arrival_ns, network_.owner.now_ns() + network_.delay_ns());
    auto &network = network_;
    network_.owner.schedule(receiving_end.last_arrival_ns,
                            [&network, shared, side, segment = std::move(segment)] {
                              arrive(network, shared, side, segment);
                            });
  }

  // A segment arrives at `side`, unless a fault loses it or ends the connection.
  static void arrive(stream_network &network,
                     const std::shared_ptr<stream_connection> &shared,
                     int side,
                     const bytes &segment) {
    auto &target_end = shared->ends[side];
    auto &random = network.owner.random;
    TND_ASSERT(target_end.in_flight_size >= segment.size());
    target_end.in_flight_size -= segment.size();
    bool const is_cut = random.below(10'000) < network.faults.cut_permyriad;
    if (target_end.is_closed)
      network.report_loss(*shared, false);
    if (network.owner.now_ns() > target_end.cut_ns || target_end.has_ended)
      return;
    if (random.below(10'000) < network.faults.lose_permyriad)
      return;
    auto const end =
        segment.begin() + int64_t(is_cut ? random.below(segment.size()) : segment.size());
    target_end.arrived.insert(target_end.arrived.end(), segment.begin(), end);
    if (!target_end.arrived.empty() && random.below(10'000) < network.faults.corrupt_permyriad)
      target_end.arrived.back() ^= std::byte{1};
    if (is_cut)
      end_both(network, shared);
    mark_ready(shared, side);
  }

  static void end_both(stream_network &network, const std::shared_ptr<stream_connection> &shared) {
    for (int side : {0, 1}) {
      shared->ends[side].has_ended = true;
      mark_ready(shared, side);
    }
    network.report_loss(*shared, true);
  }

  void cut(const std::shared_ptr<stream_connection> &shared, int side, uint64_t delay_ns) {
    shared->ends[side].cut_ns = network_.owner.now_ns() + delay_ns;
    schedule(delay_ns, [shared, side] {
      shared->ends[side].has_ended = true;
      mark_ready(shared, side);
    });
  }

  // Report free space to the end that sends to `side`.
  void report_space(const std::shared_ptr<stream_connection> &shared, int side) {
    if (!std::exchange(shared->ends[side].waits_for_space, false) || network_.faults.loses_writable)
      return;
    schedule(network_.delay_ns(), [shared, side] {
      shared->ends[1 - side].is_writable = true;
      mark_ready(shared, 1 - side);
    });
  }

  void stop_listening() {
    if (auto const it = network_.listeners.find(address_);
        it != network_.listeners.end() && it->second == this)
      network_.listeners.erase(it);
    for (auto const &pending : pending_accepts_)
      cut(pending, 0, network_.delay_ns());
    pending_accepts_.clear();
  }

  size_t accept() {
    size_t count = 0;
    while (!pending_accepts_.empty()) {
      auto const shared = pending_accepts_.front();
      pending_accepts_.pop_front();
      auto const id = add(shared, 1, 0);
      if (!id.ok()) {
        cut(shared, 0, network_.delay_ns());
        continue;
      }
      auto const number = result<seams::stream_id>{id}.value();
      uint64_t const word = handler_->on_accepted(number);
      count++;
      if (connection *const entry = find(number); entry != nullptr)
        entry->word = word;
      if (find(number) != nullptr)
        mark_ready(shared, 1);
    }
    return count;
  }

  void end(seams::stream_id id, connection &entry) {
    uint64_t const word = entry.word;
    status const end_status = entry.shared->ends[entry.side].end_status;
    release(uint32_t(id));
    handler_->on_closed(word, end_status);
    if (network_.faults.reports_end_twice)
      handler_->on_closed(word, end_status);
  }

  size_t serve(seams::stream_id id) {
    connection *entry = find(id);
    TND_ASSERT(entry != nullptr && handler_ != nullptr);
    auto const shared = entry->shared;
    int const side = entry->side;
    auto &local_end = shared->ends[side];
    size_t count = 0;
    if (local_end.is_connecting && local_end.is_connected) {
      local_end.is_connecting = false;
      handler_->on_connected(entry->word);
      count++;
    }
    entry = find(id);
    if (entry != nullptr && !local_end.is_connecting &&
        std::exchange(local_end.is_writable, false)) {
      handler_->on_writable(entry->word);
      count++;
    }
    if (!local_end.is_connecting)
      count += hand_over(id, shared, side);
    entry = find(id);
    if (entry == nullptr)
      return count;
    if (!local_end.arrived.empty()) {
      mark_ready(shared, side);
    } else if (local_end.has_ended) {
      end(id, *entry);
      count++;
    }
    return count;
  }

  // Copies the first of the arrived bytes to where the handler wants them.
  size_t place_chunk(const connection &entry,
                     std::span<std::byte> target,
                     bytes &arrived,
                     const bytes &chunk) {
    size_t const placed_size = std::min(target.size(), chunk.size());
    TND_ASSERT(placed_size != 0 && placed_size <= arrived.size());
    arrived.erase(arrived.begin(), arrived.begin() + int64_t(placed_size));
    std::copy_n(chunk.begin(), placed_size, target.begin());
    handler_->on_placed(entry.word, placed_size);
    return placed_size;
  }

  // Passes a chunk of the arrived bytes to the handler, which may accept only a part of it and may
  // close the connection.
  size_t deliver_chunk(const connection &entry,
                       seams::stream_id id,
                       bytes &arrived,
                       const bytes &chunk) {
    arrived.erase(arrived.begin(), arrived.begin() + int64_t(chunk.size()));
    size_t const accepted_size = handler_->on_received(entry.word, chunk);
    TND_ASSERT(accepted_size != 0 && accepted_size <= chunk.size());
    if (find(id) != nullptr && !network_.faults.loses_unaccepted)
      arrived.insert(arrived.begin(), chunk.begin() + int64_t(accepted_size), chunk.end());
    return accepted_size;
  }

  size_t hand_over(seams::stream_id id,
                   const std::shared_ptr<stream_connection> &shared,
                   int side) {
    auto &local_end = shared->ends[side];
    size_t count = 0;
    uint64_t handed = 0;
    for (connection *entry = find(id);
         entry != nullptr && !local_end.arrived.empty() && handed < share_size;
         entry = find(id)) {
      uint64_t const chunk_max = std::min<uint64_t>(
          {network_.faults.chunk_size_max, options_.receive_size_max, local_end.arrived.size()});
      bytes const chunk{
          local_end.arrived.begin(),
          local_end.arrived.begin() + int64_t(network_.owner.random.between(1, chunk_max))};
      auto const target = handler_->receive_target(entry->word);
      if (target.empty())
        handed += deliver_chunk(*entry, id, local_end.arrived, chunk);
      else
        handed += place_chunk(*entry, target, local_end.arrived, chunk);
      count++;
    }
    if (handed != 0)
      report_space(shared, side);
    return count;
  }

  stream_network &network_;
  seams::stream_set_options const options_;
  seams::stream_handler *handler_ = nullptr;
  seams::socket_address address_{};
  std::vector<connection> connections_;
  std::vector<uint32_t> free_;
  std::vector<seams::stream_id> ready_;
  std::deque<std::shared_ptr<stream_connection>>
      pending_accepts_;  // connected, and not yet accepted
  bool is_woken_ = false, is_killed_ = false;
};

std::unique_ptr<seams::stream_set> stream_network::open(const seams::stream_set_options &options) {
  return std::make_unique<simulated_stream_set>(*this, options);
}

void stream_network::report_loss(const stream_connection &connection, bool is_cut) const {
  if (on_loss)
    on_loss(connection.ends[0].address, connection.ends[1].address, is_cut);
}

void stream_network::kill(const seams::socket_address &listener) {
  if (auto const it = listeners.find(listener); it != listeners.end())
    it->second->kill();
}

}  // namespace tanada::sim
