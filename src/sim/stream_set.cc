#include "sim/stream_set.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "core/base/assert.hpp"

namespace tanada::sim {

namespace {

constexpr uint64_t share_size =
    1 << 20;  // bytes handed over of one connection before the next has its turn

using bytes = std::vector<std::byte>;

}  // namespace

// Two ends: 0 has connected, 1 was connected to.
struct stream_connection {
  struct end {
    simulated_stream_set *set = nullptr;  // null: not accepted yet, or closed
    port::stream_id id = port::no_stream;
    port::socket_address address{};
    // What is to be told, in this order.
    bool is_connecting = false, is_up = false, has_room = false;
    bytes arrived{};
    bool is_over = false;  // no more comes
    status why = status::peer_lost;
    // To this end.
    uint64_t on_the_way = 0;  // bytes
    uint64_t last_arrival_ns = 0;
    uint64_t cut_ns = ~uint64_t{0};
    bool wants_room = false;  // of the other
    bool is_closed = false;
    bool is_ready = false;  // in its set's list
  };
  end ends[2];
};

class simulated_stream_set final : public port::stream_set {
 public:
  simulated_stream_set(stream_network &network, const port::stream_set_options &options)
      : network_{network}, options_{options} {}

  ~simulated_stream_set() override {
    stop_listening();
    for (uint32_t i = 0; i < connections_.size(); i++)
      if (connections_[i].of)
        leave(i);
  }

  const char *name() const noexcept override {
    return "simulated";
  }
  void attach(port::stream_handler &handler) override {
    handler_ = &handler;
  }
  int descriptor() const noexcept override {
    return -1;
  }
  void wake() noexcept override {
    is_woken_ = !network_.faults.loses_wakes;
  }

  result<port::socket_address> listen(const port::socket_address &at) override {
    port::socket_address bound = at;
    if (bound.port == 0)
      bound.port = ++network_.last_port;
    if (!network_.listeners.emplace(bound, this).second)
      return status::busy;
    at_ = bound;
    return bound;
  }

  result<port::stream_id> connect(const port::socket_address &to, const port::socket_address &from,
                                  uint64_t word) override {
    if (is_dead_)
      return status::peer_lost;
    auto made = std::make_shared<stream_connection>();
    made->ends[1].address = to;
    made->ends[0].address = from.family == port::socket_address::family_kind::none ? at_ : from;
    made->ends[0].address.port = ++network_.last_port;
    made->ends[0].is_connecting = true;
    auto const id = add(made, 0, word);
    if (!id.ok())
      return id;
    uint64_t const more_ns = network_.owner.random.below(network_.faults.connect_delay_ns_max + 1);
    auto &network = network_;
    later(network_.delay_ns() + more_ns, [&network, made] {
      auto const found = network.listeners.find(made->ends[1].address);
      bool const is_refused = found == network.listeners.end() ||
                              network.owner.random.chance(network.faults.refuse_percent);
      if (!is_refused)
        found->second->offered_.push_back(made);
      made->ends[is_refused ? 0 : 1].is_over |= is_refused;
      network.owner.at(network.owner.now_ns() + network.delay_ns(), [made] {
        made->ends[0].is_up = !made->ends[0].is_over;
        made->ends[0].has_room = false;
        ready(made, 0);
      });
    });
    return id;
  }

  result<port::stream_id> adopt(int, uint64_t) override {
    return status::not_supported;
  }

  result<size_t> send(port::stream_id id, std::span<const iovec> parts) override {
    connection *const found = find(id);
    if (found == nullptr || is_dead_)
      return status::peer_lost;
    auto &mine = found->of->ends[found->side], &theirs = found->of->ends[1 - found->side];
    if (mine.is_over && mine.why != status::ok)
      return status::peer_lost;
    if (mine.is_connecting)
      return size_t{0};
    auto &random = network_.owner.random;
    uint64_t size = 0;
    for (iovec const &part : parts)
      size += part.iov_len;
    uint64_t const used = theirs.on_the_way + theirs.arrived.size();
    uint64_t room = used < network_.faults.window_size ? network_.faults.window_size - used : 0;
    bool const is_first = !std::exchange(
        found->has_sent, true);  // a fresh connection has room, as a socket's least buffer has
    if (!is_first && random.chance(network_.faults.again_percent))
      room = 0;
    if (!is_first && room != 0 && size != 0 && random.chance(network_.faults.partial_percent))
      room = random.between(1, size);
    uint64_t const taken = std::min({size, room, network_.faults.window_size});
    bytes all;
    all.reserve(taken);
    for (iovec const &part : parts) {
      auto const *const from = static_cast<const std::byte *>(part.iov_base);
      all.insert(all.end(), from, from + std::min<uint64_t>(part.iov_len, taken - all.size()));
    }
    for (uint64_t done = 0; done < taken;) {
      uint64_t const segment =
          std::min(taken - done, random.between(1, network_.faults.segment_size_max));
      dispatch(found->of, 1 - found->side,
               {all.begin() + int64_t(done), all.begin() + int64_t(done + segment)});
      done += segment;
    }
    if (taken == size)
      return taken;
    theirs.wants_room = true;
    if (used + taken < network_.faults.window_size)
      tell_room(found->of, 1 - found->side);
    return taken;
  }

  void close(port::stream_id id) override {
    if (find(id) != nullptr)
      leave(uint32_t(id));
  }

  port::socket_address peer(port::stream_id id) const override {
    auto const *const found = const_cast<simulated_stream_set *>(this)->find(id);
    return found == nullptr ? port::socket_address{} : found->of->ends[1 - found->side].address;
  }

  size_t drive() override {
    if (is_dead_)
      return 0;
    size_t count = accept();
    // Between connections there is no order.
    std::vector<port::stream_id> turns;
    turns.swap(ready_);
    for (size_t i = turns.size(); i > 1; i--)
      std::swap(turns[i - 1], turns[network_.owner.random.below(i)]);
    for (auto const id : turns) {
      connection *const found = find(id);
      if (found == nullptr)
        continue;
      found->of->ends[found->side].is_ready = false;
      count += serve(id);
    }
    return count;
  }

  status wait(uint64_t deadline_ns) override {
    for (;;) {
      if (std::exchange(is_woken_, false) || !offered_.empty() || !ready_.empty())
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
    is_dead_ = true;
    for (auto const &each : connections_)
      if (each.of)
        cut(each.of, 1 - each.side, network_.delay_ns());
  }

 private:
  friend class stream_network;
  struct connection {
    std::shared_ptr<stream_connection> of{};
    int side = 0;
    uint32_t generation = 0;
    uint64_t word = 0;
    bool has_sent = false;
  };

  connection *find(port::stream_id id) {
    uint32_t const index = uint32_t(id);
    if (index >= connections_.size() || !connections_[index].of)
      return nullptr;
    return connections_[index].generation == id >> 32 ? &connections_[index] : nullptr;
  }

  template <class Action>
  void later(uint64_t delay_ns, Action action) {
    network_.owner.at(network_.owner.now_ns() + delay_ns, std::move(action));
  }

  static void ready(const std::shared_ptr<stream_connection> &of, int side) {
    auto &end = of->ends[side];
    if (end.set == nullptr || std::exchange(end.is_ready, true))
      return;
    end.set->ready_.push_back(end.id);
  }

  result<port::stream_id> add(std::shared_ptr<stream_connection> of, int side, uint64_t word) {
    if (free_.empty() && connections_.size() >= options_.connection_count_max)
      return status::too_many_files;
    if (free_.empty()) {
      free_.push_back(uint32_t(connections_.size()));
      connections_.emplace_back();
    }
    uint32_t const index = free_.back();
    free_.pop_back();
    connection &made = connections_[index];
    port::stream_id const id = uint64_t{made.generation} << 32 | index;
    of->ends[side].set = this;
    of->ends[side].id = id;
    made = {std::move(of), side, made.generation, word, false};
    return id;
  }

  // The other end gets what is on its way, and then the end.
  void leave(uint32_t index) {
    connection &what = connections_[index];
    auto const of = std::move(what.of);
    what.of = nullptr;
    what.generation++;
    free_.push_back(index);
    of->ends[what.side].set = nullptr;
    of->ends[what.side].is_closed = true;
    if (!of->ends[what.side].arrived.empty())
      network_.lost(*of, false);
    of->ends[what.side].arrived.clear();
    int const other = 1 - what.side;
    auto &theirs = of->ends[other];
    theirs.last_arrival_ns =
        std::max(theirs.last_arrival_ns, network_.owner.now_ns() + network_.delay_ns());
    if (theirs.cut_ns != ~uint64_t{0})
      return;
    network_.owner.at(theirs.last_arrival_ns, [of, other] {
      of->ends[other].is_over = true;
      ready(of, other);
    });
  }

  // A segment on its way to `side`.
  void dispatch(const std::shared_ptr<stream_connection> &of, int side, bytes segment) {
    auto &to = of->ends[side];
    to.on_the_way += segment.size();
    to.last_arrival_ns =
        std::max(to.last_arrival_ns, network_.owner.now_ns() + network_.delay_ns());
    auto &network = network_;
    network_.owner.at(to.last_arrival_ns, [&network, of, side, segment = std::move(segment)] {
      auto &here = of->ends[side];
      auto &random = network.owner.random;
      here.on_the_way -= segment.size();
      bool const is_cut = random.below(10'000) < network.faults.cut_permyriad;
      if (here.is_closed)
        network.lost(*of, false);
      if (network.owner.now_ns() > here.cut_ns || here.is_over)
        return;
      if (random.below(10'000) < network.faults.lose_permyriad)
        return;
      auto const end =
          segment.begin() + int64_t(is_cut ? random.below(segment.size()) : segment.size());
      here.arrived.insert(here.arrived.end(), segment.begin(), end);
      if (!here.arrived.empty() && random.below(10'000) < network.faults.corrupt_permyriad)
        here.arrived.back() ^= std::byte{1};
      if (is_cut) {
        for (int each : {0, 1}) {
          of->ends[each].is_over = true;
          ready(of, each);
        }
        network.lost(*of, true);
      }
      ready(of, side);
    });
  }

  void cut(const std::shared_ptr<stream_connection> &of, int side, uint64_t delay_ns) {
    of->ends[side].cut_ns = network_.owner.now_ns() + delay_ns;
    later(delay_ns, [of, side] {
      of->ends[side].is_over = true;
      ready(of, side);
    });
  }

  // Whoever sends to `side` may go on.
  void tell_room(const std::shared_ptr<stream_connection> &of, int side) {
    if (!std::exchange(of->ends[side].wants_room, false) || network_.faults.tells_no_room)
      return;
    later(network_.delay_ns(), [of, side] {
      of->ends[1 - side].has_room = true;
      ready(of, 1 - side);
    });
  }

  void stop_listening() {
    if (auto const found = network_.listeners.find(at_);
        found != network_.listeners.end() && found->second == this)
      network_.listeners.erase(found);
    for (auto const &each : offered_)
      cut(each, 0, network_.delay_ns());
    offered_.clear();
  }

  size_t accept() {
    size_t count = 0;
    while (!offered_.empty()) {
      auto const of = offered_.front();
      offered_.pop_front();
      auto const id = add(of, 1, 0);
      if (!id.ok()) {
        cut(of, 0, network_.delay_ns());
        continue;
      }
      auto const number = result<port::stream_id>{id}.value();
      uint64_t const word = handler_->accepted(number);
      count++;
      if (connection *const made = find(number); made != nullptr)
        made->word = word;
      if (find(number) != nullptr)
        ready(of, 1);
    }
    return count;
  }

  void end(port::stream_id id, connection &what) {
    uint64_t const word = what.word;
    status const why = what.of->ends[what.side].why;
    leave(uint32_t(id));
    handler_->ended(word, why);
    if (network_.faults.ends_twice)
      handler_->ended(word, why);
  }

  size_t serve(port::stream_id id) {
    connection *at = find(id);
    auto const of = at->of;
    int const side = at->side;
    auto &mine = of->ends[side];
    size_t count = 0;
    if (mine.is_connecting && mine.is_up) {
      mine.is_connecting = false;
      handler_->connected(at->word);
      count++;
    }
    at = find(id);
    if (at != nullptr && !mine.is_connecting && std::exchange(mine.has_room, false)) {
      handler_->writable(at->word);
      count++;
    }
    if (!mine.is_connecting)
      count += hand_over(id, of, side);
    at = find(id);
    if (at == nullptr)
      return count;
    if (!mine.arrived.empty()) {
      ready(of, side);
    } else if (mine.is_over) {
      end(id, *at);
      count++;
    }
    return count;
  }

  size_t hand_over(port::stream_id id, const std::shared_ptr<stream_connection> &of, int side) {
    auto &mine = of->ends[side];
    size_t count = 0;
    uint64_t handed = 0;
    for (connection *at = find(id); at != nullptr && !mine.arrived.empty() && handed < share_size;
         at = find(id)) {
      uint64_t const chunk_max = std::min<uint64_t>(
          {network_.faults.chunk_size_max, options_.shown_size, mine.arrived.size()});
      bytes const chunk{
          mine.arrived.begin(),
          mine.arrived.begin() + int64_t(network_.owner.random.between(1, chunk_max))};
      auto const target = handler_->landing(at->word);
      size_t taken = std::min(target.size(), chunk.size());
      mine.arrived.erase(mine.arrived.begin(),
                         mine.arrived.begin() + int64_t(target.empty() ? chunk.size() : taken));
      if (taken != 0) {
        std::copy_n(chunk.begin(), taken, target.begin());
        handler_->landed(at->word, taken);
      } else {
        taken = handler_->shown(at->word, chunk);
        TND_ASSERT(taken != 0 && taken <= chunk.size());
        bool const goes_on = find(id) != nullptr && !network_.faults.forgets_rest;
        if (goes_on)
          mine.arrived.insert(mine.arrived.begin(), chunk.begin() + int64_t(taken), chunk.end());
      }
      handed += taken;
      count++;
    }
    if (handed != 0)
      tell_room(of, side);
    return count;
  }

  stream_network &network_;
  port::stream_set_options const options_;
  port::stream_handler *handler_ = nullptr;
  port::socket_address at_{};
  std::vector<connection> connections_;
  std::vector<uint32_t> free_;
  std::vector<port::stream_id> ready_;
  std::deque<std::shared_ptr<stream_connection>>
      offered_;  // connected by the network, not accepted
  bool is_woken_ = false, is_dead_ = false;
};

std::unique_ptr<port::stream_set> stream_network::open(const port::stream_set_options &options) {
  return std::make_unique<simulated_stream_set>(*this, options);
}

void stream_network::lost(const stream_connection &of, bool is_cut) const {
  if (on_loss)
    on_loss(of.ends[0].address, of.ends[1].address, is_cut);
}

void stream_network::kill(const port::socket_address &listener) {
  if (auto const found = listeners.find(listener); found != listeners.end())
    found->second->kill();
}

}  // namespace tanada::sim
