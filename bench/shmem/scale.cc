// The cost of collective operations by the number of PEs, from the steps that the operations take
// (products/shmem/collectives/schedule.hpp) and the costs of a machine.
//
// usage: shmem_scale_model [COST=VALUE ...]
// Reads lines "OPERATION BYTES PES NODES HOSTS REPEATS" and prints for each the microseconds until
// the last PE has finished one operation, and the mean time of a PE in a call among REPEATS calls
// with barriers between them. OPERATION is barrier, reduce (of longs) or alltoall. PEs of a node
// map one another's memory; NODES = PES: none does. The line "memory PES" prints the bytes of
// control memory of a PE: of a team, and in all.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "products/shmem/collectives/group.hpp"
#include "products/shmem/collectives/schedule.hpp"
#include "products/shmem/teams.hpp"
#include "scale_model.hpp"

namespace {

namespace schedule = tanada::shmem::schedule;
using tanada::bench::action;
using tanada::bench::action_kind;
using tanada::bench::costs;
using tanada::bench::placement;
using tanada::bench::program;
using tanada::shmem::control_layout;
using tanada::shmem::mapped_exchange_area;

constexpr size_t element_size = sizeof(long);
constexpr int32_t words_per_operation = 64;
constexpr schedule::reduction_memory team_memory{control_layout::gather_size,
                                                 control_layout::slices_size};

// Appends the steps of one PE in operations of all PEs, in the order in which all call them.
class pe_steps {
 public:
  pe_steps(const placement &where, const costs &cost, int32_t pe, program &steps)
      : where_{where},
        cost_{cost},
        is_oversubscribed_{where.is_oversubscribed(cost)},
        pe_{pe},
        steps_{steps},
        node_{where.node_of(pe)},
        first_{where.first_of_node(node_)},
        local_count_{where.first_of_node(node_ + 1) - first_} {}

  void barrier() {
    begin();
    sync_all();
  }
  void reduce(size_t size) {
    begin();
    if (where_.nodes == 1)
      return reduce_in_node(size);
    if (has_levels() && can_gather_by_nodes(size))
      return reduce_by_gather_of_nodes(size);
    if (has_levels())
      return reduce_by_leaders(size);
    reduce_fabric(size, all());
  }
  void alltoall(size_t size) {
    begin();
    if (where_.nodes == 1)
      return alltoall_mapped(size);
    for (int32_t distance = 1; distance < where_.pes; distance++)
      send(next(all(), distance), 0, double(size));
    copy(double(size));
    await(0, where_.pes - 1, where_.pes - local_count_);
  }
  void stamp() {
    steps_.push_back({.kind = action_kind::stamp});
  }

 private:
  // Members that are `step` PEs apart, or the first PEs of all nodes.
  struct team {
    int32_t me, count;
    bool is_leaders;
  };

  team all() const {
    return {pe_, where_.pes, false};
  }
  team leaders() const {
    return {node_, where_.nodes, true};
  }
  team team_of_node() const {
    return {pe_ - first_, local_count_, false};
  }
  bool has_levels() const {
    return where_.nodes > 1 && where_.nodes < where_.pes;
  }
  bool is_leader() const {
    return pe_ == first_;
  }
  int32_t pe_of(const team &members, int32_t member) const {
    return members.is_leaders ? where_.first_of_node(member) : member;
  }
  int32_t next(const team &members, int32_t distance) const {
    return pe_of(members, (members.me + distance) % members.count);
  }
  int32_t prev(const team &members, int32_t distance) const {
    return pe_of(members, (members.me - distance + members.count) % members.count);
  }
  schedule::node_counts counts() const {
    return {where_.nodes, (where_.pes + where_.nodes - 1) / where_.nodes};
  }
  bool can_gather_by_nodes(size_t size) const {
    return schedule::can_gather_by_nodes(
        size, counts(), control_layout::gather_size, control_layout::shared_size);
  }

  void begin() {
    word_ += words_per_operation;
    work(cost_.call);
  }
  void work(double time) {
    steps_.push_back({.kind = action_kind::work, .time = time});
  }
  void copy(double bytes) {
    work(bytes * cost_.copy);
  }
  void send(int32_t peer, int32_t word, double bytes) {
    steps_.push_back(
        {.kind = action_kind::send, .peer = peer, .word = word_ + word, .bytes = bytes});
  }
  // `remote_count` of the messages come by the network.
  void await(int32_t word, int32_t count, int32_t remote_count, double bytes = 0) {
    steps_.push_back({.kind = action_kind::await,
                      .word = word_ + word,
                      .count = count,
                      .time = remote_count * (cost_.receive + bytes * cost_.byte_work),
                      .is_remote = remote_count > 0});
  }
  void await_from(int32_t peer, int32_t word, double bytes = 0) {
    await(word, 1, where_.are_mapped(pe_, peer) ? 0 : 1, bytes);
  }
  void publish(int32_t first, int32_t count, int32_t word) {
    steps_.push_back(
        {.kind = action_kind::publish, .peer = first, .word = word_ + word, .count = count});
  }
  void fetch(int32_t peer, int32_t word, double bytes) {
    steps_.push_back(
        {.kind = action_kind::fetch, .peer = peer, .word = word_ + word, .bytes = bytes});
  }

  void sync_all() {
    if (where_.nodes == 1)
      return sync_mapped();
    if (!has_levels())
      return sync_fabric(all());
    if (local_count_ == 1)
      return sync_fabric(leaders());
    if (!is_leader()) {
      send(first_, 20, 0);
      return await(21, 1, 0);
    }
    await(20, local_count_ - 1, 0);
    sync_fabric(leaders());
    publish(first_, local_count_, 21);
  }
  schedule::crowding load() const {
    return is_oversubscribed_ ? schedule::crowding::oversubscribed : schedule::crowding::dedicated;
  }
  void sync_fabric(const team &members) {
    if (schedule::syncs_by_tree(members.count, team_memory.area_size, load()))
      return pass_by_tree(0, members);
    for (int32_t round = 0; round < schedule::round_count(members.count); round++) {
      int32_t const distance = schedule::distance(round);
      send(next(members, distance), round, 0);
      await_from(prev(members, distance), round);
    }
  }
  void sync_mapped(int32_t word = 22) {
    if (!is_oversubscribed_)
      return sync_fabric(team_of_node());
    steps_.push_back(
        {.kind = action_kind::meet, .peer = first_, .word = word_ + word, .count = local_count_});
    await(word, 1, 0);
  }

  // Each member reads the entries of all, once all have been published.
  void exchange_entries(size_t size, int32_t word) {
    copy(double(size));
    if (is_oversubscribed_) {
      sync_mapped(word);
    } else {
      publish(first_, local_count_, word);
      await(word, local_count_ - 1, 0);
    }
    work(local_count_ * (cost_.read + double(size) * cost_.copy));
  }
  void reduce_in_node(size_t size) {
    if (size <= mapped_exchange_area::data_size_max)
      return exchange_entries(size, 23);
    sync_mapped(23);
    double const share = double(size) / local_count_;
    work(local_count_ * 2 * (cost_.read + share * cost_.copy));
    sync_mapped(24);
  }
  void alltoall_mapped(size_t size) {
    if (size * size_t(where_.pes) <= mapped_exchange_area::data_size_max)
      return exchange_entries(size, 23);
    work(where_.pes * (cost_.read + double(size) * cost_.copy));
    sync_mapped(23);
  }
  void broadcast_in_node(size_t size, int32_t word) {
    if (local_count_ == 1)
      return;
    if (is_leader()) {
      publish(first_, local_count_, word);
      if (size > mapped_exchange_area::data_size_max)
        await(word + 1, local_count_ - 1, 0);
      return;
    }
    await(word, 1, 0);
    work(cost_.read + double(size) * cost_.copy);
    if (size > mapped_exchange_area::data_size_max)
      send(first_, word + 1, 0);
  }

  void gather(size_t size, const team &members) {
    for (int32_t round = 0; round < schedule::round_count(members.count); round++) {
      auto const step = schedule::gather_round(round, members.count);
      double const bytes = double(size) * step.block_count;
      send(prev(members, step.distance), round, bytes);
      await_from(next(members, step.distance), round, bytes);
    }
    copy(double(size) * members.count);
  }
  void reduce_fabric(size_t size, const team &members) {
    switch (schedule::path_of_reduction(size, members.count, memory_of(members), load())) {
      case schedule::reduction_path::gathered:
        return gather(size, members);
      case schedule::reduction_path::doubling:
        return reduce_by_doubling(size, members);
      case schedule::reduction_path::tree:
        return reduce_by_tree(size, members);
      case schedule::reduction_path::slices:
        return reduce_slices(size, members);
      case schedule::reduction_path::fetched:
        return reduce_fetched(size, members);
    }
  }
  static schedule::reduction_memory memory_of(const team &members) {
    return {team_memory.area_size, members.is_leaders ? 0 : team_memory.slices_size};
  }
  template <class Pass>
  void reduce_pieces(size_t size, const team &members, Pass &&pass) {
    size_t const piece = schedule::area_piece(team_memory.area_size, members.count);
    for (size_t done = 0; done < size; done += piece) {
      pass(double(std::min(piece, size - done)));
      word_ += words_per_operation;
    }
  }
  void reduce_by_tree(size_t size, const team &members) {
    reduce_pieces(size, members, [&](double bytes) { pass_by_tree(bytes, members); });
  }
  void reduce_by_doubling(size_t size, const team &members) {
    reduce_pieces(size, members, [&](double bytes) { pass_by_doubling(bytes, members); });
  }
  void pass_by_tree(double bytes, const team &members) {
    auto const place = schedule::place_in_tree(members.me, members.count);
    for (int32_t round = 0; round < place.child_count; round++) {
      await_from(next(members, schedule::distance(round)), round, bytes);
      copy(bytes);
    }
    if (place.round >= 0) {
      int32_t const parent = prev(members, schedule::distance(place.round));
      send(parent, place.round, bytes);
      await_from(parent, 30, bytes);
    }
    for (int32_t round = place.child_count - 1; round >= 0; round--)
      send(next(members, schedule::distance(round)), 30, bytes);
  }
  void pass_by_doubling(double bytes, const team &members) {
    auto const place = schedule::place_in_doubling(members.me, members.count);
    int32_t const companion = place.companion < 0 ? -1 : pe_of(members, place.companion);
    if (place.position < 0) {
      send(companion, place.rounds, bytes);
      return await_from(companion, place.rounds, bytes);
    }
    if (companion >= 0)
      await_from(companion, place.rounds, bytes);
    for (int32_t round = 0; round < place.rounds; round++) {
      int32_t const member = schedule::doubling_partner(place.position, round, members.count);
      send(pe_of(members, member), round, bytes);
      await_from(pe_of(members, member), round, bytes);
      copy(bytes);
    }
    if (companion >= 0)
      send(companion, place.rounds, bytes);
  }
  double slice_bytes(size_t size, int32_t member, int32_t members) const {
    auto const slice = tanada::shmem::part::for_member(
        size / element_size, tanada::shmem::cache_line / element_size, member, members);
    return double(slice.count * element_size);
  }
  int32_t remote_count(const team &members) const {
    return members.is_leaders ? members.count - 1 : where_.pes - local_count_;
  }
  void spread(double bytes, int32_t word, const team &members) {
    for (int32_t distance = 1; distance < members.count; distance++)
      send(next(members, distance), word, bytes);
    copy(bytes);
    await(word, members.count - 1, remote_count(members), bytes);
  }
  void reduce_slices(size_t size, const team &members) {
    double const own = slice_bytes(size, members.me, members.count);
    for (int32_t distance = 1; distance < members.count; distance++) {
      int32_t const member = (members.me + distance) % members.count;
      send(pe_of(members, member), 31, slice_bytes(size, member, members.count));
    }
    await(31, members.count - 1, remote_count(members), own);
    copy(own * members.count);
    spread(own, 32, members);
  }
  void reduce_fetched(size_t size, const team &members) {
    double const own = slice_bytes(size, members.me, members.count);
    sync_fabric(members);
    for (int32_t distance = 0; distance < members.count; distance++)
      fetch(next(members, distance), 33, own);
    await(33, members.count, remote_count(members), own);
    copy(own * members.count);
    spread(own, 34, members);
  }
  void reduce_by_gather_of_nodes(size_t size) {
    size_t const block = size * size_t(counts().members_max);
    if (local_count_ > 1)
      exchange_entries(size, 25);
    if (is_leader())
      gather(block, leaders());
    broadcast_in_node(block * size_t(where_.nodes), 26);
    copy(double(size) * where_.pes);
  }
  void reduce_by_leaders(size_t size) {
    if (local_count_ > 1)
      reduce_in_node(size);
    int32_t const word = word_;
    if (is_leader())
      reduce_fabric(size, leaders());
    word_ = word + 64 * words_per_operation;  // the same in all members
    broadcast_in_node(size, 26);
  }

  placement where_;
  costs cost_;
  bool is_oversubscribed_;
  int32_t pe_;
  program &steps_;
  int32_t node_, first_, local_count_;
  int32_t word_ = 0;
};

struct question {
  std::string operation;
  size_t size = 0;
  placement where{};
  int repeats = 0;
};

void call(pe_steps &steps, const question &asked) {
  if (asked.operation == "barrier")
    steps.barrier();
  else if (asked.operation == "reduce")
    steps.reduce(asked.size);
  else
    steps.alltoall(asked.size);
}

tanada::bench::simulation::outcome simulate(const question &asked, const costs &cost) {
  std::vector<program> programs(size_t(asked.where.pes));
  for (int32_t pe = 0; pe < asked.where.pes; pe++) {
    pe_steps steps{asked.where, cost, pe, programs[size_t(pe)]};
    if (asked.repeats == 0)
      call(steps, asked);
    for (int i = 0; i < asked.repeats; i++) {
      if (asked.operation != "barrier")
        steps.barrier();
      steps.stamp();
      call(steps, asked);
      steps.stamp();
    }
  }
  return tanada::bench::simulation{asked.where, cost, std::move(programs)}.run();
}

// An alltoall of many PEs has too many messages to simulate. All PEs do the same at the same time,
// so a host's processors or its network interface are busy until the last message.
double alltoall_of_many(const question &asked, const costs &cost) {
  double const pes = asked.where.pes, local = pes / asked.where.nodes;
  double const on_host = pes / asked.where.hosts, bytes = double(asked.size);
  double const remote = pes - local;
  double const work = remote * (cost.send + cost.receive + 2 * bytes * cost.byte_work) +
                      local * (cost.read + bytes * cost.copy);
  double const busy = work * std::max(1.0, on_host / cost.processors);
  double const wire = on_host * remote * bytes * cost.byte;
  return std::max(busy, wire) + cost.latency;
}

constexpr double messages_max = 8e6;

bool answer(const std::string &line, const costs &cost) {
  std::istringstream words{line};
  question asked;
  words >> asked.operation;
  if (asked.operation == "memory") {
    int32_t pes = 0;
    if (!(words >> pes) || pes < 1)
      return false;
    std::printf(
        "%zu %zu\n", control_layout::slot_size(), tanada::shmem::team_set::control_size(pes));
    return true;
  }
  auto &where = asked.where;
  words >> asked.size >> where.pes >> where.nodes >> where.hosts >> asked.repeats;
  bool const is_known = asked.operation == "barrier" || asked.operation == "reduce" ||
                        asked.operation == "alltoall" || asked.operation == "alltoall_of_many";
  if (!words || !is_known || where.pes < 2 || where.nodes < 1 || where.nodes > where.pes ||
      where.hosts < 1 || where.hosts > where.pes || asked.size % element_size != 0)
    return false;
  if (asked.operation == "alltoall_of_many" ||
      (asked.operation == "alltoall" && double(where.pes) * where.pes > messages_max)) {
    std::printf("%.6g 0\n", alltoall_of_many(asked, cost));
    return true;
  }
  auto const outcome = simulate(asked, cost);
  std::printf("%.6g %.6g\n", outcome.last_us, outcome.mean_call_us);
  return true;
}

}  // namespace

int main(int words_count, char **words) {
  costs cost;
  for (int i = 1; i < words_count; i++) {
    std::string const word = words[i];
    size_t const sign = word.find('=');
    if (sign == std::string::npos ||
        !cost.set(word.substr(0, sign), std::strtod(word.c_str() + sign + 1, nullptr))) {
      std::fprintf(stderr, "shmem_scale_model: unknown cost \"%s\"\n", word.c_str());
      return 2;
    }
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (!answer(line, cost)) {
      std::fprintf(stderr, "shmem_scale_model: cannot read \"%s\"\n", line.c_str());
      return 2;
    }
  }
}
