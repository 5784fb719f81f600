// Stagers whose device queue is late, or fails. Memory that the queue may still access is not
// reused, and no incomplete operation is reported complete. Two PEs on a simulated network, in one
// thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/hostgpu/host_queue.hpp"
#include "onesided/job/staging.hpp"
#include "sim/clock.hpp"
#include "sim/fabric.hpp"

namespace tanada::test {
namespace {

using onesided::pe_index;

constexpr size_t slot_size = 2'048, slot_count = 2, heap_size = 32 << 10;
constexpr uint64_t timeout_ns = 50'000'000;  // of the world's time

// A decorator. While it stalls, no request is carried out, and waits end at their deadline. When it
// continues, requests are carried out in order.
class stalling_queue final : public seams::device_queue {
 public:
  explicit stalling_queue(std::unique_ptr<seams::device_queue> below) : below_{std::move(below)} {}

  void stall(size_t due_max = ~size_t{0}) {
    is_stalled_ = true;
    due_max_ = due_max;
  }  // continues at the next request
  void fail() {
    has_failed_ = true;
  }
  // Later requests are carried out after this many polls, or when they are waited for.
  void delay(uint32_t looks) {
    looks_ = looks;
  }
  void go_on() {
    is_stalled_ = false;
    has_failed_ = false;
    for (auto const &each : std::exchange(due_, {}))
      std::memmove(each.target, each.source, each.size);
  }
  uint32_t waited() const {
    return waited_;
  }  // number of waits for the delayed requests
  size_t asked() const {
    return asked_;
  }

  // Source and target belong to the queue, as with copies that run later.
  status put(void *target, const void *source, size_t size) override {
    return move(target, source, size, true);
  }
  status get(void *target, const void *source, size_t size) override {
    return move(target, source, size, true);
  }
  status copy(void *target, const void *source, size_t size) override {
    return move(target, source, size, false);
  }
  status copy_rows(void *, const void *, const seams::row_shape &) override {
    return status::not_supported;
  }
  status update(void *target, const seams::word_update &what, uint64_t *before) override {
    asked_++;
    if (has_failed_)
      return status::device_lost;
    return is_stalled_ ? status::timed_out : below_->update(target, what, before);
  }
  status order() override {
    return has_failed_ ? status::device_lost : status::ok;
  }
  status wait(uint64_t deadline_ns) override {
    if (deadline_ns == 0 && looks_ > 0 && looks_-- > 1)
      return status::timed_out;
    if (deadline_ns != 0 && !delayed_.empty())
      waited_++;
    perform_delayed();
    return has_failed_ ? status::device_lost : is_stalled_ ? status::timed_out : below_->wait(0);
  }

 private:
  struct due {
    void *target;
    const void *source;
    size_t size;
  };

  status move(void *target, const void *source, size_t size, bool waits) {
    asked_++;
    if (looks_ > 0) {
      auto const *const from = static_cast<const std::byte *>(source);
      delayed_.push_back({target, {from, from + size}});
      return status::ok;
    }
    if (is_stalled_ && due_.size() >= due_max_)
      go_on();
    if (is_stalled_) {
      due_.push_back({target, source, size});
      return has_failed_ ? status::device_lost : waits ? status::timed_out : status::ok;
    }
    return has_failed_ ? status::device_lost : below_->put(target, source, size);
  }

  void perform_delayed() {
    looks_ = 0;
    for (auto const &each : std::exchange(delayed_, {}))
      std::memcpy(each.target, each.bytes.data(), each.bytes.size());
  }

  struct delayed {
    void *target;
    std::vector<std::byte> bytes;
  };

  std::unique_ptr<seams::device_queue> const below_;
  uint32_t looks_ = 0, waited_ = 0;
  std::vector<delayed> delayed_;
  bool is_stalled_ = false, has_failed_ = false;
  size_t due_max_ = 0, asked_ = 0;
  std::vector<due> due_;
};

struct one_pe {
  std::vector<std::byte> heap = std::vector<std::byte>(heap_size),
                         area = std::vector<std::byte>(2 * slot_count * slot_size);
  std::vector<std::byte> device = std::vector<std::byte>(heap_size);  // not symmetric
  std::vector<std::byte> shadow = std::vector<std::byte>(
      heap_size);  // a fabric that accesses the heap may write to it until it is settled
  uint32_t settled = 0;
  stalling_queue *queue = nullptr;
  std::unique_ptr<onesided::stager> staging;
  std::unique_ptr<onesided::staged_context> context;
};

class pgas_staged_queue : public testing::Test {
 protected:
  void SetUp() override {
    open(false);
  }
  // `is_taken`: the fabric has access to PE 1's heap.
  void open(bool is_taken) {
    std::vector<onesided::stager::contact> contacts;
    for (pe_index i = 0; i < 2; i++) {
      auto &at = pes[size_t(i)];
      auto queue = std::make_unique<stalling_queue>(std::make_unique<backends::host_queue>(blocks));
      at.queue = queue.get();
      seams::fabric_memory const view{.addr = is_taken && i == 1 ? at.shadow.data() : nullptr,
                                      .size = heap_size};
      auto const settle = [&at] {
        at.heap = at.shadow;
        at.settled++;
        return status::ok;
      };
      auto made = onesided::stager::create(
          fabric.open("pe" + std::to_string(i), {.depth = 32, .message_size_max = 512}).value(),
          std::move(queue),
          i,
          {.timeout_ns = timeout_ns,
           .time = &clock,
           .make_progress = [this] { turn(); },
           .is_device_memory =
               [&at](const void *addr) { return is_in(at.heap, addr) || is_in(at.device, addr); },
           .failed_pe = {},
           .on_heap_changed = {},
           .heap = at.heap,
           .staging_buffer = at.area,
           .slot_size = slot_size,
           .heap_view = view,
           .flush_fabric_writes = settle});
      at.staging = std::move(made).value();
      contacts.push_back(at.staging->own_contact());
    }
    for (auto &each : pes) {
      ASSERT_EQ(each.staging->join(contacts), status::ok);
      each.context = std::make_unique<onesided::staged_context>(*each.staging);
    }
    where.size = heap_size;
  }
  void TearDown() override {
    for (auto &each : pes) {
      if (each.context)
        (void)each.context->quiet();
    }
  }

  static bool is_in(const std::vector<std::byte> &memory, const void *addr) {
    auto const *const at = static_cast<const std::byte *>(addr);
    return at >= memory.data() && at < memory.data() + memory.size();
  }
  void turn() {
    world.advance(1'000);
    for (auto &each : pes)
      each.staging->try_progress();
  }
  void turns(uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
      turn();
  }
  onesided::symmetric_address at(size_t offset) {
    return {nullptr, &where, offset};
  }

  // Of PE 0, at PE 1; complete when it is reported so.
  status put(size_t offset, const void *source, size_t size) {
    status const code = pes[0].context->put(1, at(offset), source, size);
    status const done = pes[0].context->quiet();
    return code == status::ok ? done : code;
  }
  bool has(size_t offset, size_t size, std::byte value) const {
    auto const first = pes[1].heap.begin() + ptrdiff_t(offset);
    return std::all_of(
        first, first + ptrdiff_t(size), [&](std::byte each) { return each == value; });
  }

  sim::world world{1};
  sim::clock clock{world};
  sim::fabric fabric{world, {.delay_ns_min = 200, .delay_ns_max = 3'000}};
  backends::host_blocks const blocks{false};
  onesided::segment where{.name = "heap", .mapped = {}, .remote = {}};
  std::array<one_pe, 2> pes;
};

// A transfer through one slot.
constexpr size_t large = slot_size;
std::vector<std::byte> bytes_of(size_t size, int value) {
  return std::vector<std::byte>(size, std::byte(value));
}

TEST_F(pgas_staged_queue, a_slot_that_the_device_still_fills_is_not_used_again) {
  auto &self = pes[0];
  std::fill(self.device.begin(), self.device.end(), std::byte{1});
  auto const own = bytes_of(2 * large, 2);
  self.queue->stall();
  EXPECT_EQ(put(0, self.device.data(), large), status::timed_out);
  EXPECT_EQ(self.staging->quarantined_slot_count(), 1u);
  // The network has yet to read the slot when the device continues.
  EXPECT_EQ(self.context->put(1, at(large), own.data(), large), status::ok);
  self.queue->go_on();
  EXPECT_EQ(self.context->quiet(), status::ok);
  EXPECT_TRUE(has(large, large, std::byte{2}));
  turns(3'000);
  EXPECT_EQ(self.staging->quarantined_slot_count(), 0u);
  for (uint32_t i = 0; i < 3; i++) {
    EXPECT_EQ(put(0, self.device.data(), 2 * large), status::ok);
    EXPECT_TRUE(has(0, 2 * large, std::byte{1}));
    EXPECT_EQ(put(0, own.data(), 2 * large), status::ok);
    EXPECT_TRUE(has(0, 2 * large, std::byte{2}));
  }
}

TEST_F(pgas_staged_queue, who_needs_a_slot_that_is_out_of_use_waits_no_longer_than_allowed) {
  auto &self = pes[0];
  auto const own = bytes_of(large, 2);
  self.queue->stall();
  EXPECT_EQ(put(0, self.device.data(), 2 * large), status::timed_out);
  EXPECT_EQ(self.staging->quarantined_slot_count(), 2u);
  uint64_t const start_ns = world.now_ns();
  EXPECT_EQ(put(0, own.data(), large), status::timed_out);
  EXPECT_LE(world.now_ns() - start_ns, 2 * timeout_ns);
  self.queue->go_on();
  EXPECT_EQ(put(0, own.data(), large), status::ok);
  EXPECT_TRUE(has(0, large, std::byte{2}));
}

TEST_F(pgas_staged_queue, a_slot_that_serves_is_not_used_again_either) {
  auto &other = pes[1];
  std::fill_n(other.heap.begin(), large, std::byte{7});
  auto const own = bytes_of(large, 2);
  auto back = bytes_of(large, 0);
  other.queue->stall(1);
  EXPECT_EQ(pes[0].context->get(1, back.data(), at(0), large), status::timed_out);
  EXPECT_EQ(other.staging->quarantined_slot_count(), 1u);
  if (put(2 * large, own.data(), large) == status::ok) {
    EXPECT_TRUE(has(2 * large, large, std::byte{2}));
  }
  other.queue->go_on();
  turns(3'000);
  EXPECT_EQ(other.staging->quarantined_slot_count(), 0u);
  EXPECT_EQ(put(2 * large, own.data(), large), status::ok);
  EXPECT_TRUE(has(2 * large, large, std::byte{2}));
  EXPECT_EQ(pes[0].context->get(1, back.data(), at(0), large), status::ok);
  EXPECT_EQ(back.back(), std::byte{7});
}

TEST_F(pgas_staged_queue, what_comes_meanwhile_is_refused_at_once) {
  auto &self = pes[0];
  std::fill_n(pes[1].heap.begin(), large, std::byte{7});
  self.queue->stall();
  EXPECT_EQ(self.context->get(1, self.device.data(), at(0), large), status::timed_out);
  EXPECT_EQ(self.staging->quarantined_slot_count(), 1u);
  size_t const asked = self.queue->asked();
  uint64_t const start_ns = world.now_ns();
  for (uint32_t i = 0; i < 20; i++) {
    EXPECT_EQ(self.context->get(1, self.device.data(), at(0), i % 2 == 0 ? large : 8),
              status::timed_out);
    EXPECT_EQ(self.context->put(1, at(0), self.device.data(), i % 2 == 0 ? large : 8),
              status::timed_out);
  }
  EXPECT_LE(world.now_ns() - start_ns, timeout_ns);
  EXPECT_EQ(self.queue->asked(), asked);
  EXPECT_EQ(self.staging->quarantined_slot_count(), 1u);
  self.queue->go_on();
  turns(3'000);
  std::fill(self.device.begin(), self.device.end(), std::byte{0});
  EXPECT_EQ(self.context->get(1, self.device.data(), at(0), large), status::ok);
  EXPECT_EQ(self.device[large - 1], std::byte{7});
}

TEST_F(pgas_staged_queue, messages_that_the_device_still_takes_are_not_used_again) {
  auto const own = bytes_of(64, 2), others = bytes_of(64, 3);
  pes[1].queue->stall();
  EXPECT_EQ(put(0, own.data(), own.size()), status::timed_out);
  for (uint32_t i = 0; i < 300; i++)
    EXPECT_EQ(put(64, others.data(), others.size()), status::timed_out);
  pes[1].queue->go_on();
  EXPECT_TRUE(has(0, own.size(), std::byte{2}));
  turns(3'000);
  EXPECT_EQ(put(64, others.data(), others.size()), status::ok);
  EXPECT_TRUE(has(64, others.size(), std::byte{3}));
  // The same for our slot.
  std::fill(pes[0].device.begin(), pes[0].device.end(), std::byte{5});
  pes[0].queue->stall();
  EXPECT_EQ(put(0, pes[0].device.data(), 64), status::timed_out);
  EXPECT_EQ(put(128, others.data(), others.size()), status::ok);
  pes[0].queue->go_on();
  turns(3'000);
  EXPECT_EQ(put(0, pes[0].device.data(), 64), status::ok);
  EXPECT_TRUE(has(0, 64, std::byte{5}));
}

TEST_F(pgas_staged_queue, one_that_has_failed_is_not_asked_again) {
  auto &other = pes[1];
  auto const own = bytes_of(large, 2);
  auto back = bytes_of(large, 0);
  other.queue->stall();
  other.queue->fail();
  EXPECT_EQ(put(0, own.data(), large), status::device_lost);
  size_t const asked = other.queue->asked();
  EXPECT_EQ(other.staging->quarantined_slot_count(), 1u);
  uint64_t const start_ns = world.now_ns();
  for (uint32_t i = 0; i < 20; i++) {
    size_t const size = i % 2 == 0 ? large : 8;
    uint64_t before = 0;
    EXPECT_EQ(put(0, own.data(), size), status::device_lost);
    EXPECT_EQ(pes[0].context->get(1, back.data(), at(0), size), status::device_lost);
    EXPECT_EQ(pes[0].context->update(1,
                                     at(0),
                                     {.kind = seams::fabric_atomic::add,
                                      .element = seams::fabric_element::u64,
                                      .operand = 1},
                                     &before),
              status::device_lost);
  }
  EXPECT_LE(world.now_ns() - start_ns, timeout_ns);
  EXPECT_EQ(other.queue->asked(), asked);
  EXPECT_EQ(other.staging->quarantined_slot_count(), 1u);
  // Host memory is still transferred.
  EXPECT_EQ(other.context->put(0, at(0), own.data(), large), status::ok);
  EXPECT_EQ(other.context->quiet(), status::ok);
  EXPECT_EQ(pes[0].heap[large - 1], std::byte{2});
  for (auto &each : pes)
    each.context.reset();
  EXPECT_FALSE(other.staging->stop());
  EXPECT_TRUE(pes[0].staging->stop());
}

class pgas_taken_heap : public pgas_staged_queue {
 protected:
  void SetUp() override {
    open(true);
  }
};

// Data written by the fabric are visible after the device was notified: before the completion of
// the put, and before the signal.
TEST_F(pgas_taken_heap, what_the_fabric_has_written_is_settled_before_it_is_told) {
  auto const own = bytes_of(2 * large, 2);
  EXPECT_EQ(put(0, own.data(), 2 * large), status::ok);
  EXPECT_TRUE(has(0, 2 * large, std::byte{2}));
  EXPECT_GE(pes[1].settled, 1u);
  uint32_t const before = pes[1].settled;
  auto const more = bytes_of(large, 3);
  onesided::staged_context::signal const then{
      .location = at(heap_size - 8), .kind = onesided::signal_kind::set, .value = 7};
  ASSERT_EQ(pes[0].context->put_signal(1, at(0), more.data(), large, then), status::ok);
  uint64_t seen = 0;
  for (uint32_t i = 0; i < 10'000 && seen == 0; i++) {
    turn();
    std::memcpy(&seen, pes[1].heap.data() + heap_size - 8, sizeof seen);
  }
  EXPECT_EQ(seen, 7u);
  EXPECT_TRUE(has(0, large, std::byte{3}));
  EXPECT_GT(pes[1].settled, before);
}

TEST_F(pgas_taken_heap, what_the_device_has_yet_to_write_is_not_older_than_what_the_fabric_writes) {
  auto const early = bytes_of(64, 2), late = bytes_of(large, 3);
  pes[1].queue->delay(20);
  ASSERT_EQ(pes[0].context->put_nbi(1, at(0), early.data(), early.size()), status::ok);
  pes[0].context->fence();
  ASSERT_EQ(pes[0].context->put_nbi(1, at(0), late.data(), late.size()), status::ok);
  auto back = bytes_of(large, 0);
  for (uint32_t i = 0; i < 20; i++)
    ASSERT_EQ(pes[1].context->get(0, back.data(), at(0), large), status::ok);
  ASSERT_EQ(pes[0].context->quiet(), status::ok);
  EXPECT_TRUE(has(0, large, std::byte{3}));
}

// While the device copies, operations that need no device continue.
TEST_F(pgas_staged_queue, who_waits_for_the_device_serves_others) {
  auto const own = bytes_of(large, 2);
  pes[1].queue->delay(5);
  ASSERT_EQ(pes[0].context->put_nbi(1, at(0), own.data(), large), status::ok);
  auto back = bytes_of(8 * large, 0);
  ASSERT_EQ(pes[1].context->get(0, back.data(), at(0), back.size()), status::ok);
  EXPECT_EQ(pes[1].queue->waited(), 0u);
  ASSERT_EQ(pes[0].context->quiet(), status::ok);
  EXPECT_TRUE(has(0, large, std::byte{2}));
}

// Transfers that each end well in time, but together take many times the timeout: PE 0 gets by
// reading PE 1's heap, PE 1 puts what PE 0 reads there.
class pgas_long_queue : public pgas_taken_heap {
 protected:
  static constexpr size_t piece = 1'024, count = 200;
  static constexpr uint64_t way_ns = timeout_ns / 10;

  void SetUp() override {
    pgas_taken_heap::SetUp();
    fabric.faults_set({.delay_ns_min = way_ns, .delay_ns_max = way_ns});
    for (size_t i = 0; i < heap_size; i++) {
      pes[1].heap[i] = std::byte(i / piece + 1);
      pes[1].shadow[i] = pes[1].heap[i];
    }
  }
  void get_all() {
    for (size_t i = 0; i < count; i++) {
      size_t const offset = i * piece % heap_size;
      ASSERT_EQ(pes[0].context->get_nbi(1, back.data() + offset, at(offset), piece), status::ok);
    }
  }
  void put_all() {
    for (size_t i = 0; i < count; i++) {
      size_t const offset = i * piece % heap_size;
      ASSERT_EQ(pes[1].context->put_nbi(0, at(offset), pes[1].heap.data() + offset, piece),
                status::ok);
    }
    onesided::staged_context::signal const then{
        .location = at(heap_size - 8), .kind = onesided::signal_kind::set, .value = 7};
    ASSERT_EQ(pes[1].context->put_signal_nbi(0, at(0), pes[1].heap.data(), piece, then),
              status::ok);
  }
  // How long it takes, in the world's time.
  uint64_t quiet_ns(pe_index pe, bool is_ok) {
    uint64_t const start_ns = world.now_ns();
    EXPECT_EQ(pes[size_t(pe)].context->quiet() == status::ok, is_ok);
    return world.now_ns() - start_ns;
  }

  std::vector<std::byte> back = bytes_of(heap_size, 0);
};

TEST_F(pgas_long_queue, gets_have_their_time_from_when_the_fabric_has_them) {
  get_all();
  EXPECT_GT(quiet_ns(0, true), 2 * timeout_ns);
  EXPECT_EQ(back, pes[1].heap);
}

TEST_F(pgas_long_queue, puts_and_signals_have_their_time_from_when_those_before_them_are_over) {
  put_all();
  EXPECT_GT(quiet_ns(1, true), 2 * timeout_ns);
  uint64_t seen = 0;
  std::memcpy(&seen, pes[0].heap.data() + heap_size - 8, sizeof seen);
  EXPECT_EQ(seen, 7u);
  EXPECT_TRUE(
      std::equal(pes[0].heap.begin(), pes[0].heap.end() - ptrdiff_t(piece), pes[1].heap.begin()));
}

// Unanswered operations end in time, however many there are.
TEST_F(pgas_long_queue, what_is_asked_of_who_is_gone_ends) {
  get_all();
  turns(uint32_t(way_ns / 1'000) * 5);
  fabric.partition("pe0", "pe1");
  EXPECT_LE(quiet_ns(0, false), 2 * timeout_ns);
  put_all();
  EXPECT_LE(quiet_ns(1, false), 2 * timeout_ns);
}

TEST_F(pgas_long_queue, puts_to_who_is_gone_end) {
  put_all();
  turns(uint32_t(way_ns / 1'000) * 5);
  fabric.partition("pe0", "pe1");
  EXPECT_LE(quiet_ns(1, false), 2 * timeout_ns);
}

TEST_F(pgas_long_queue, what_the_fabric_does_not_take_ends) {
  fabric.faults_set({.again_percent = 100});
  get_all();
  EXPECT_LE(quiet_ns(0, false), 3 * timeout_ns);
}

}  // namespace
}  // namespace tanada::test
