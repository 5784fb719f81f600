// tests/sim/o2g_harness.hpp: several engines in one world, driven at random from one seed, against
// a model of matching (o2g_model.hpp) and of memory.
//
// Each engine has a region with a slice for each other engine, and only that engine writes there.
// So each initiator knows the content of its slice, in the order of its own requests. The first 8
// bytes of the region are a counter for all.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "products/o2g/engine.hpp"
#include "sim/clock.hpp"
#include "sim/o2g_model.hpp"
#include "sim/stream_set.hpp"
#include "sim/world.hpp"

namespace tanada::test {

// fair: a bad network, and no engine ends. ending: engines end in between. dying: engines die.
// refusing: some connects are refused. cutting: connections break in the middle of a transfer, and
// some connects are refused; an engine that learns of it tries again.
enum class o2g_weather : uint8_t { fair, ending, dying, refusing, cutting };

// How a program polls for messages. polls: continuously, with little or nothing in between.
// tests_rarely: once after each piece of its own work. blocks: in calls that wait. mixes: all of
// these, in turn.
enum class caller_habit : uint8_t { polls, tests_rarely, blocks, mixes };

class o2g_run {
 public:
  o2g_run(uint64_t seed, o2g_weather kind);
  ~o2g_run();

  // "": no error.
  std::string run(uint32_t step_count);
  uint64_t trace() {
    return world_.trace();
  }

 private:
  static constexpr uint32_t engine_count = 4;
  static constexpr uint64_t slice_size = 2048, region_size = 8 + engine_count * slice_size;

  enum class request_kind : uint8_t { send, receive, peek, put, get, fetch, count_up };
  struct request {
    request_kind kind = request_kind::send;
    uint32_t owner = 0, to = 0;
    bool is_out = true, quiet = false, delivered = false;
    uint64_t message = never, look = never;
    bool claim = false, discard = false;
    std::vector<std::byte> memory{};    // of the caller: sent from, received into
    std::vector<std::byte> expected{};  // get, fetch
    uint64_t offset = 0;                // in the slice
  };
  struct endpoint final : o2g::completion_sink {
    uint64_t unexpected_size_hard = 0;
    o2g_run *run = nullptr;
    uint32_t number = 0;
    caller_habit habit = caller_habit::mixes;
    o2g::regions regions{};  // outlives the engine
    std::unique_ptr<o2g::engine> engine{};
    seams::socket_address address{};
    std::vector<o2g::peer_index> peers{};
    std::vector<std::byte> memory = std::vector<std::byte>(region_size);
    std::vector<std::vector<std::byte>> mirrors{};  // of this endpoint's slices at others
    std::vector<bool> is_unsure{};     // by target: an operation failed, and the mirror may be
                                       // wrong
    std::vector<uint32_t> gets_out{};  // by target
    std::deque<o2g::completion> done{};
    std::set<uint64_t> claims{};     // requests
    std::set<uint32_t> failed_to{};  // whose peers failed, since the last reap
    void complete(const o2g::completion &what) override {
      done.push_back(what);
    }
  };

  void fail(const std::string &why) {
    if (problem_.empty())
      problem_ = why;
  }
  request &make(request_kind kind, uint32_t owner);
  static void *context_of(const request &what) {
    return const_cast<request *>(&what);
  }
  std::vector<iovec> parts_of(std::span<std::byte> memory);
  static std::byte byte_of(uint64_t message, uint64_t at) {
    return std::byte((message * 0x9E3779B97F4A7C15u >> 20) + at * 7);
  }
  uint32_t other_than(uint32_t number) {
    return uint32_t(number + world_.random.between(1, engine_count - 1)) % engine_count;
  }
  bool has_losses() const {
    return kind_ == o2g_weather::refusing || kind_ == o2g_weather::cutting;
  }
  bool may_fail() const {
    return has_losses() || !model_.is_dead.empty() || !model_.is_ended.empty();
  }
  void refused(endpoint &at, uint32_t to, status code);
  bool is_here(uint32_t number) const {
    return ends_[number]->engine != nullptr;
  }

  void act();
  void post_send(endpoint &at);
  void post_receive(endpoint &at);
  void post_peek(endpoint &at);
  void end_claim(endpoint &at);
  void post_cancel(endpoint &at);
  void post_remote(endpoint &at);
  void move();
  void look(endpoint &at);
  size_t poll(endpoint &at);
  void poll_between_work(endpoint &at);
  void block(endpoint &at);
  void go(endpoint &which, bool is_death);

  void reap(endpoint &at);
  void told(endpoint &at, const o2g::completion &what);
  void told_receive(endpoint &at, request &of, const o2g::completion &what);
  void told_peek(endpoint &at, request &of, const o2g::completion &what);
  void take(request &of, const o2g::completion &what);
  void settle();
  void drain();
  void check_end();

  o2g_weather const kind_;
  sim::world world_;
  sim::clock clock_{world_};
  sim::stream_network network_;
  std::vector<std::unique_ptr<endpoint>> ends_;
  std::deque<request> requests_;
  model model_;
  std::string problem_;
  uint64_t time_ = 0;  // counts completions and requests
  std::set<uint64_t> counts_seen_[engine_count];
  uint64_t counts_posted_[engine_count] = {};
};

}  // namespace tanada::test
