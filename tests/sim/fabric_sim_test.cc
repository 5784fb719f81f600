// Goal: the completions of a simulated network agree with what happened, whatever the network does:
// drops, delays, overtaking, bursts of again, partitions, slow peers, crashes with memory lost or
// kept, late cancels. Method: random operations among a few nodes, checked against a reference.
// Each operation settles exactly once. One that returns ok has moved the right bytes to the right
// place, and nothing else has changed. Messages arrive in order and at most once. 1,000 seeds. One
// seed twice gives the same trace. Planted faults that no network may have prove that the checker
// can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "sim/clock.hpp"
#include "sim/fabric.hpp"

namespace tanada::sim {
namespace {

using seams::fabric_completion;
using seams::fabric_op;
using seams::fabric_op_kind;

enum class plant { none, corrupt, duplicate, swap, lost };

constexpr uint32_t node_count = 3, words = 64, rounds = 120;

struct running {
  fabric_op op;
  std::vector<uint64_t> buffer;
  uint32_t target = 0, life = 0;  // of the target when it was posted
  bool noticed = false;
  bool overlapped = false;  // a write while another one of this node to the same target was in
                            // flight
};

struct member {
  std::unique_ptr<seams::fabric_endpoint> endpoint;
  std::vector<uint64_t> memory =
      std::vector<uint64_t>(words * node_count);  // `words` for each writer
  seams::fabric_remote remote{};
  std::array<seams::fabric_peer, node_count> peers{};
  std::map<uint64_t, running> out;
  uint64_t last_id = 0, next_value = 1;
  uint32_t life = 0;
  std::array<uint64_t, node_count> last_told{};  // by sender: the number in its last message
  // By writer and word: the possible values: the last one that completed with ok, and those not
  // settled or failed since.
  std::vector<std::vector<uint64_t>> possible =
      std::vector<std::vector<uint64_t>>(words * node_count, {0});
};

class fabric_run {
 public:
  fabric_run(uint64_t seed, plant what) : world_{seed}, fabric_{world_, draw(what)} {
    for (uint32_t i = 0; i < node_count; i++)
      open(i);
  }

  // False: the network has contradicted itself; why() has the details.
  bool run() {
    for (uint32_t round = 0; round < rounds && why_.empty(); round++) {
      for (uint32_t i = 0; i < node_count; i++)
        begin(i);
      disturb();
      for (uint64_t steps = world_.random.below(8); steps > 0; steps--)
        world_.step();
      for (uint32_t i = 0; i < node_count; i++)
        reap(i);
    }
    fabric_.heal();
    for (uint32_t steps = 0; steps < 100'000 && why_.empty() && busy(); steps++) {
      if (!world_.step())
        break;
      for (uint32_t i = 0; i < node_count; i++)
        reap(i);
    }
    if (why_.empty() && busy())
      fail("operations never settled");
    for (uint32_t i = 0; i < node_count && why_.empty(); i++)
      check_memory(i);
    return why_.empty();
  }
  uint64_t trace() {
    return world_.trace();
  }
  const std::string &why() const {
    return why_;
  }

 private:
  fabric_faults draw(plant what) {
    auto &random = world_.random;
    fabric_faults faults;
    faults.delay_ns_max = 1'000 + random.below(100'000);
    faults.reorder = random.chance(70);
    if (random.chance(60))
      faults.drop_percent = uint32_t(random.below(40));
    faults.retry_count_max = uint32_t(1 + random.below(8));
    if (random.chance(40))
      faults.again_percent = uint32_t(random.below(20));
    if (random.chance(40))
      faults.late_cancel_percent = 50;
    crashes_ = random.chance(40);
    cuts_ = random.chance(40);
    if (what == plant::corrupt)
      faults.corrupt_percent = 10;
    if (what == plant::duplicate)
      faults.duplicate_percent = 20;
    if (what == plant::swap)
      faults.swap_percent = 40;
    if (what == plant::lost)
      faults.loss_percent = 10;
    return faults;
  }

  static std::string name(uint32_t index) {
    return "node" + std::to_string(index);
  }
  void fail(const std::string &text) {
    if (why_.empty())
      why_ = text;
  }

  void open(uint32_t index) {
    auto &me = members_[index];
    me.endpoint = std::move(fabric_.open(name(index), {.depth = 16})).value();
    if (me.remote.key == 0) {
      auto *const addr = reinterpret_cast<std::byte *>(me.memory.data());
      auto region =
          me.endpoint->region_register({.addr = addr, .size = me.memory.size() * 8}, {true, true});
      me.remote = region.value().remote;
    }
    for (uint32_t other = 0; other < node_count; other++) {
      std::string const address = "sim:" + name(other);
      me.peers[other] =
          me.endpoint->peer_add(std::as_bytes(std::span{address.c_str(), address.size() + 1}))
              .value();
    }
  }

  // One operation of a random kind.
  void begin(uint32_t index) {
    auto &me = members_[index];
    auto &random = world_.random;
    running made;
    made.target = uint32_t(random.below(node_count));
    auto &target = members_[made.target];
    made.life = target.life;
    auto &op = made.op;
    op.kind = std::array{fabric_op_kind::send,
                         fabric_op_kind::receive,
                         fabric_op_kind::write,
                         fabric_op_kind::read}[random.below(4)];
    op.op_id = ++me.last_id;
    op.deadline_ns = world_.now_ns() + 1'000 + random.below(600'000);
    op.peer = me.peers[made.target];
    op.remote = target.remote;
    uint64_t const word = random.below(words), count = 1 + random.below(words - word);
    bool const message = op.kind == fabric_op_kind::send || op.kind == fabric_op_kind::receive;
    made.buffer.assign(message ? 4 : count, me.next_value++ * node_count + index);
    op.offset = (index * words + word) * 8;
    op.addr = reinterpret_cast<std::byte *>(made.buffer.data());
    op.size = made.buffer.size() * 8;
    auto &kept = me.out.emplace(op.op_id, std::move(made)).first->second;
    auto const code = me.endpoint->post(kept.op);
    if (code == status::again) {
      me.out.erase(kept.op.op_id);
    } else if (code != status::ok) {
      fail("a post was refused");
    } else if (kept.op.kind == fabric_op_kind::write) {
      for (uint64_t i = 0; i < count; i++)
        target.possible[kept.op.offset / 8 + i].push_back(kept.buffer[i]);
      for (auto &[id, other] : me.out) {
        if (&other == &kept || other.op.kind != fabric_op_kind::write ||
            other.target != kept.target)
          continue;
        other.overlapped = true;
        kept.overlapped = true;
      }
    }
  }

  void disturb() {
    auto &random = world_.random;
    if (cuts_ && random.chance(5))
      fabric_.partition(name(uint32_t(random.below(node_count))),
                        name(uint32_t(random.below(node_count))));
    if (cuts_ && random.chance(10))
      fabric_.heal();
    if (random.chance(3))
      fabric_.slow(name(uint32_t(random.below(node_count))), random.below(200'000));
    if (!crashes_ || !random.chance(3))
      return;
    auto const index = uint32_t(random.below(node_count));
    auto &me = members_[index];
    bool const kept = random.chance(50);
    fabric_.crash(name(index), kept);
    me.endpoint.reset();
    me.out.clear();
    me.last_told = {};
    me.life++;
    if (!kept) {
      // New memory under a new key: operations in flight with the old key must not arrive.
      me.remote = {};
      std::fill(me.memory.begin(), me.memory.end(), 0);
      for (auto &each : me.possible)
        each = {0};
    }
    open(index);
  }

  void reap(uint32_t index) {
    auto &me = members_[index];
    std::array<fabric_completion, 8> done;
    size_t const count = me.endpoint->poll(done);
    for (size_t i = 0; i < count; i++)
      complete(me, done[i]);
  }

  void complete(member &me, const fabric_completion &done) {
    auto const at = me.out.find(done.op_id);
    if (at == me.out.end())
      return fail("an operation settled twice, or was never posted");
    auto &which = at->second;
    if (!done.settled) {
      if (which.noticed || done.code != status::timed_out)
        fail("a notice that is none");
      if (world_.now_ns() < which.op.deadline_ns)
        fail("a deadline that has not passed");
      which.noticed = true;
      return;
    }
    if (done.code == status::ok)
      happened(me, which, done);
    me.out.erase(at);
  }

  void happened(member &me, const running &which, const fabric_completion &done) {
    auto const &op = which.op;
    auto &target = members_[which.target];
    bool const whole = std::all_of(which.buffer.begin(), which.buffer.end(), [&](auto each) {
      return each == which.buffer[0];
    });
    if (op.kind == fabric_op_kind::receive) {
      auto const sender = uint32_t(which.buffer[0] % node_count);
      if (!whole || done.size != 32)
        return fail("a message is not whole");
      if (which.buffer[0] <= me.last_told[sender])
        return fail("a message came twice or out of order");
      me.last_told[sender] = which.buffer[0];
    } else if (op.kind == fabric_op_kind::write && which.life == target.life && !which.overlapped) {
      // Only this value is possible now.
      for (uint64_t i = 0; i < which.buffer.size(); i++)
        target.possible[op.offset / 8 + i] = {which.buffer[i]};
    } else if (op.kind == fabric_op_kind::read && which.life == target.life) {
      for (uint64_t i = 0; i < which.buffer.size(); i++) {
        if (which.buffer[i] % node_count != 0 && which.buffer[i] / node_count >= me.next_value)
          fail("a read of what nobody wrote");
      }
    }
  }

  void check_memory(uint32_t index) {
    auto const &me = members_[index];
    for (size_t i = 0; i < me.memory.size(); i++) {
      auto const &values = me.possible[i];
      if (std::find(values.begin(), values.end(), me.memory[i]) == values.end())
        fail("memory holds what nobody wrote");
    }
  }

  bool busy() const {
    return std::any_of(
        members_.begin(), members_.end(), [](auto &each) { return !each.out.empty(); });
  }

  world world_;
  fabric fabric_;
  std::array<member, node_count> members_;
  bool crashes_ = false, cuts_ = false;
  std::string why_;
};

uint32_t found(plant what, uint64_t seeds) {
  uint32_t count = 0;
  for (uint64_t seed = 1; seed <= seeds; seed++)
    count += !fabric_run{seed, what}.run();
  return count;
}

TEST(fabric_sim, what_it_says_is_what_happened) {
  for (uint64_t seed = 1; seed <= 1'000; seed++) {
    fabric_run run{seed, plant::none};
    ASSERT_TRUE(run.run()) << run.why() << "; seed " << seed;
  }
}

TEST(fabric_sim, a_seed_is_a_run) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    fabric_run first{seed, plant::none}, second{seed, plant::none};
    ASSERT_TRUE(first.run() && second.run());
    EXPECT_EQ(first.trace(), second.trace());
  }
}

TEST(fabric_sim, the_checker_can_fail) {
  EXPECT_GT(found(plant::corrupt, 50), 25u);
  EXPECT_GT(found(plant::duplicate, 50), 25u);
  EXPECT_GT(found(plant::swap, 50), 25u);
  EXPECT_GT(found(plant::lost, 50), 5u);
}

}  // namespace
}  // namespace tanada::sim
