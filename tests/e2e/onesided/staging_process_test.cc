// Device memory between processes, over real fabrics: staged, and moved by the fabric itself.
// Random traffic that is verified, and PEs that are killed amid it. The host executor is the
// device.
#include <random>

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "onesided/job/staging.hpp"
#include "e2e/onesided/processes.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::test {
namespace {

using onesided::pe_index;

constexpr uint32_t pe_count = 3;
constexpr size_t part_size = 300'000, heap_size = 64 + pe_count * part_size, area_size = 512 << 10,
                 slot_size = 32 << 10, local_size = 200'000;
constexpr uint64_t timeout_ns = 5'000'000'000;

// What the processes of a run know of one another; in memory that they share.
struct board {
  onesided::stager::contact contacts[pe_count];
  std::atomic<uint32_t> arrived[8] = {};  // by meeting
  std::atomic<uint64_t> tickets = 0;      // given at PE 0
  std::atomic<bool> is_missing{false};    // the provider is
};

bool is_loss(status code) {
  return code == status::peer_lost || code == status::timed_out;
}

// A heap of each: a word that all add to, then a part for each writer.
class pe_process {
 public:
  // `way`: a provider; behind it "+" where the fabric is given the heap.
  pe_process(board &shared, uint32_t me, const std::string &way)
      : board_{shared}, me_{me}, random_{me + 11} {
    bool const is_direct = way.back() == '+';
    std::string const provider = way.substr(0, way.size() - (is_direct ? 1 : 0));
    auto opened = backends::libfabric_endpoint_open({.provider = provider, .node = "127.0.0.1"});
    if (!opened.ok() && opened.error() == status::no_plugin) {
      board_.is_missing = true;
      _exit(0);
    }
    need(opened.error(), "an endpoint");
    heap_ = static_cast<std::byte *>(device_->allocate_shared(heap_size).value().addr);
    // Not symmetric: what the allocation has beyond. Where the fabric has the heap, its part of
    // that.
    local_ = heap_ + heap_size;
    size_t const all_size = is_direct ? heap_size + local_size : heap_size;
    auto const view =
        is_direct ? device_->fabric_view(heap_, all_size).value() : seams::fabric_memory{};
    auto *const area = static_cast<std::byte *>(device_->allocate_host(area_size).value());
    auto made = onesided::stager::create(
        std::move(opened).value(),
        device_->queue_open(timeout_ns).value(),
        pe_index(me),
        {.timeout_ns = timeout_ns,
         .time = &seams::monotonic_clock(),
         .make_progress = {},
         .is_device_memory = [this](const void *addr) { return device_->is_device_memory(addr); },
         .failed_pe = {},
         .on_heap_changed = {},
         .is_oversubscribed = true,
         .heap = {heap_, all_size},
         .staging_buffer = {area, area_size},
         .slot_size = slot_size,
         .heap_view = view,
         .flush_fabric_writes =
             [this] {
               return device_->flush_fabric_writes();
             }});
    need(made.error(), "a stager");
    need(made.value()->is_direct() == is_direct, "the fabric takes the heap");
    staging_ = std::move(made).value();
    board_.contacts[me_] = staging_->own_contact();
    meet(pe_count);
    need(staging_->join(board_.contacts), "join");
    staging_->start();
    where_.base = heap_;
    where_.size = all_size;
    where_.kind = onesided::memory_kind::device;
    context_ = std::make_unique<onesided::staged_context>(*staging_);
    for (auto &each : mirrors_)
      each.resize(part_size);
    meet(pe_count);
  }
  ~pe_process() {
    (void)context_->quiet();
    context_.reset();
    staging_.reset();
  }

  // `count` PEs are here. Nobody serves anything meanwhile but the stagers' own threads.
  void meet(uint32_t count) {
    auto &arrived = board_.arrived[meeting_++];
    for (arrived++; arrived < count;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // One step of random traffic with one of the first `count` PEs.
  void step(uint32_t count) {
    uint32_t const target = (me_ + 1 + uint32_t(random_() % (count - 1))) % count;
    switch (random_() % 4) {
      case 0:
        return take_ticket();
      case 1:
        return check(target);
      default:
        return put_somewhere(target);
    }
  }

  void put_somewhere(uint32_t target) {
    size_t const size = random_() % 3 == 0 ? 1 + random_() % 200'000 : 1 + random_() % 3'000;
    size_t const offset = random_() % (part_size - size);
    std::vector<std::byte> bytes(size);
    for (auto &each : bytes)
      each = std::byte(random_());
    std::copy(bytes.begin(), bytes.end(), mirrors_[target].begin() + ptrdiff_t(offset));
    bool const is_device = random_() % 2 == 0;
    if (is_device)
      std::copy(bytes.begin(), bytes.end(), local_);
    context_->fence();  // what it overlaps with comes before
    need(
        context_->put(pe_index(target), part(me_, offset), is_device ? local_ : bytes.data(), size),
        "put");
    std::fill_n(is_device ? local_ : bytes.data(), size, std::byte{0xEE});
  }

  void check(uint32_t target) {
    need(context_->quiet(), "quiet");
    std::vector<std::byte> bytes(part_size);
    need(context_->get(pe_index(target), bytes.data(), part(me_, 0), part_size), "get");
    need(bytes == mirrors_[target], "what is there is what was put", target);
  }

  void take_ticket() {
    uint64_t before = 0;
    if (me_ == 0)
      return;
    need(context_->update(0,
                          {nullptr, &where_, 0},
                          {.kind = seams::fabric_atomic::add,
                           .element = seams::fabric_element::u64,
                           .operand = 1},
                          &before),
         "a ticket");
    board_.tickets++;
  }

  void finish(uint32_t count) {
    for (uint32_t target = 0; target < count; target++)
      if (target != me_)
        check(target);
    meet(count);
    if (me_ == 0)
      need(__atomic_load_n(reinterpret_cast<uint64_t *>(heap_), __ATOMIC_SEQ_CST) == board_.tickets,
           "tickets at the end");
    meet(count);
  }

  // Ask for, and put, as much as it takes.
  status press(uint32_t target) {
    std::vector<std::byte> bytes(part_size);
    status code = context_->put(pe_index(target), part(me_, 0), bytes.data(), bytes.size());
    status const got = context_->get(pe_index(target), bytes.data(), part(me_, 0), bytes.size());
    status const all = context_->quiet();
    return code != status::ok ? code : got != status::ok ? got : all;
  }

  void expect_loss(uint32_t dead) {
    uint64_t const began_ns = seams::monotonic_clock().now_ns();
    status code = status::ok;
    while (code == status::ok && seams::monotonic_clock().now_ns() - began_ns < 3 * timeout_ns)
      code = press(dead);
    need(is_loss(code), "who presses the dead is told", int64_t(code));
    need(seams::monotonic_clock().now_ns() - began_ns < timeout_ns + 5'000'000'000, "told in time");
    need(is_loss(press(dead)), "and told again");
    (void)context_->quiet();
  }

 private:
  onesided::symmetric_address part(uint32_t writer, size_t offset) {
    return {nullptr, &where_, 64 + writer * part_size + offset};
  }

  board &board_;
  uint32_t const me_;
  uint32_t meeting_ = 0;
  std::mt19937 random_;
  std::unique_ptr<seams::gpu> device_ = seams::host_gpu_open();
  std::byte *heap_, *local_;
  onesided::segment where_{.name = "device heap",
                           .mapped = {},
                           .device_addrs = std::vector<std::byte *>(pe_count),
                           .remote = {}};
  std::unique_ptr<onesided::stager> staging_;
  std::unique_ptr<onesided::staged_context> context_;
  std::array<std::vector<std::byte>, pe_count> mirrors_;
};
static_assert(heap_size + local_size <= 2 << 20, "what is not symmetric lies behind the heap");

class staging_processes : public processes<board> {
 protected:
  // One may be killed after so long.
  void run(const std::function<void(uint32_t)> &work,
           uint32_t dies = nobody,
           uint32_t after_ms = 0) {
    start(pe_count, work, 200);
    if (dies != nobody) {
      while (board_->arrived[1] < pe_count && !board_->is_missing)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      kill(ids_[dies], SIGKILL);
    }
    expect_ends(dies);
  }
};

TEST_P(staging_processes, random_traffic) {
  run([this](uint32_t me) {
    pe_process pe{*board_, me, GetParam()};
    for (uint32_t i = 0; i < 100; i++)
      pe.step(pe_count);
    pe.finish(pe_count);
  });
}

TEST_P(staging_processes, a_target_is_killed) {
  run(
      [this](uint32_t me) {
        pe_process pe{*board_, me, GetParam()};
        if (me == 2)
          pause();
        pe.expect_loss(2);
        for (uint32_t i = 0; i < 50; i++)
          pe.step(2);
        pe.finish(2);
      },
      2,
      100);
}

// Amid what it asks for: what it held at the others is free again.
TEST_P(staging_processes, an_initiator_is_killed) {
  run(
      [this](uint32_t me) {
        pe_process pe{*board_, me, GetParam()};
        while (me == 2) {
          (void)pe.press(0);
          (void)pe.press(1);
        }
        for (uint32_t i = 0; i < 100; i++)
          pe.step(2);
        pe.finish(2);
        pe.expect_loss(2);
      },
      2,
      100);
}

INSTANTIATE_TEST_SUITE_P(pgas,
                         staging_processes,
                         testing::Values("tcp;ofi_rxm", "o2g", "tcp;ofi_rxm+", "o2g+"),
                         [](auto &of) {
                           return std::string{of.param}.substr(0, 3) +
                                  (std::string{of.param}.back() == '+' ? "_direct" : "");
                         });

}  // namespace
}  // namespace tanada::test
