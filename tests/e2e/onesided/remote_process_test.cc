// PEs in processes of their own, over real fabrics: verified random traffic, also while one process
// is killed.
#include <cstdlib>
#include <random>

#include "backends/libfabric/libfabric_endpoint.hpp"
#include "onesided/job/remote.hpp"
#include "onesided/job/responder.hpp"
#include "e2e/onesided/processes.hpp"

namespace tanada::test {
namespace {

using onesided::pe_index;

constexpr uint32_t pe_count_max = 4, ticket_count_max = 4'096;
constexpr size_t slot_size = 64 << 10, payload_size = 5'000;

// The provider to test, and this machine's address for it. The machine may be an emulated one, 20
// times slower.
const char *const chosen = std::getenv("TND_TEST_FABRIC_PROVIDER"), *const node = std::getenv(
                                                                        "TND_TEST_FABRIC_NODE");
uint64_t const timeout_ns = chosen != nullptr ? 30'000'000'000 : 3'000'000'000;
std::vector<const char *> providers() {
  return chosen != nullptr ? std::vector{chosen} : std::vector{"tcp;ofi_rxm", "o2g"};
}

struct contact {
  seams::fabric_address address;
  seams::fabric_remote heap;
};

// The state that the processes of a run share.
struct board {
  contact contacts[pe_count_max];
  std::atomic<uint32_t> arrived[8] = {};  // number of PEs at each meeting
  std::atomic<uint32_t> ticket_seen[pe_count_max][ticket_count_max] = {};
  std::atomic<uint64_t> ticket_count[pe_count_max] = {};
  std::atomic<bool> is_missing{false};  // the provider is not available
};

struct symmetric {
  uint64_t tickets;
  uint64_t signal, answer;                   // written by the PE before, by the PE after
  std::byte payload[payload_size];           // written before the signal
  std::byte slots[pe_count_max][slot_size];  // each written by only one PE
};

class pe_process {
 public:
  pe_process(board &shared, uint32_t me, uint32_t count, const std::string &provider)
      : board_{shared}, me_{me}, count_{count}, random_{me + 7} {
    auto opened = open(provider);
    auto const *const bytes = reinterpret_cast<const std::byte *>(heap_.get());
    auto region = opened->region_register(
        {.addr = const_cast<std::byte *>(bytes), .size = sizeof(symmetric)}, {true, true});
    need(region.error(), "a region");
    board_.contacts[me_] = {opened->address(), region.value().remote};
    answering_ = std::make_unique<onesided::responder>(std::move(opened), seams::monotonic_clock());
    answering_->set_extra_progress(
        [this] { return lane_ != nullptr && lane_->progress_outstanding(); });
    meet(count_);
    where_.base = const_cast<std::byte *>(bytes);
    where_.size = sizeof(symmetric);
    std::vector<seams::fabric_address> addresses;
    for (uint32_t i = 0; i < count_; i++) {
      addresses.push_back(board_.contacts[i].address);
      where_.remote.push_back(board_.contacts[i].heap);
    }
    lane_ = std::make_unique<onesided::lane>(
        open(provider),
        addresses,
        onesided::lane::options{.timeout_ns = timeout_ns,
                                .time = &seams::monotonic_clock(),
                                .make_progress = [this] { attend(); },
                                .on_first_outstanding = [this] { answering_->wake_thread(); },
                                .is_oversubscribed = count_ > std::thread::hardware_concurrency()});
    for (auto &each : contexts_)
      each = std::make_unique<onesided::remote_context>(*lane_);
    answering_->start();
    for (auto &each : mirrors_)
      each.resize(slot_size);
  }
  ~pe_process() {
    for (auto &each : contexts_) {
      (void)each->quiet();  // an answer to a departed PE may have failed
      each.reset();
    }
    answering_->stop();
  }

  void attend() {
    answering_->progress();
    (void)lane_->progress_outstanding();
  }

  // Waits until `count` PEs have arrived.
  void meet(uint32_t count) {
    auto &arrived = board_.arrived[meeting_++];
    for (arrived++; arrived < count; std::this_thread::yield()) {
      if (lane_ != nullptr) {
        attend();
        answer_signal();
      }
    }
  }

  // One step of random traffic among the PEs below `count`.
  void step(uint32_t count, bool has_signals) {
    auto &context = *contexts_[random_() % 2];
    uint32_t const target = (me_ + 1 + uint32_t(random_() % (count - 1))) % count;
    switch (random_() % 6) {
      case 0:
        return take_ticket(context, target);
      case 1:
        return check_slot(*contexts_[0], target);
      case 2:
        return has_signals ? send_signal(context, (me_ + 1) % count) : take_ticket(context, target);
      default:
        return put_somewhere(*contexts_[0], target);
    }
  }

  void finish(uint32_t count) {
    for (uint32_t target = 0; target < count; target++)
      if (target != me_)
        check_slot(*contexts_[0], target);
    for (auto &each : contexts_)
      need(each->quiet(), "the last quiet");
    meet(count);
    need(heap_->tickets == board_.ticket_count[me_], "tickets at the end", int64_t(heap_->tickets));
    meet(count);
  }

  void expect_loss(uint32_t dead) {
    auto &context = *contexts_[0];
    uint64_t const began_ns = seams::monotonic_clock().now_ns();
    status code = status::ok;
    std::vector<std::byte> bytes(100);
    while (code == status::ok && seams::monotonic_clock().now_ns() - began_ns < 3 * timeout_ns) {
      code = context.put(pe_index(dead), at(&heap_->slots[me_][0]), bytes.data(), bytes.size());
      if (code == status::ok)
        code = context.quiet();
    }
    need(code == status::peer_lost || code == status::timed_out,
         "a put to a failed PE returns an error",
         int64_t(code));
    need(seams::monotonic_clock().now_ns() - began_ns < timeout_ns + 5'000'000'000,
         "the error comes within the timeout");
    uint64_t before = 0;
    code = contexts_[1]->update(
        pe_index(dead),
        at(&heap_->tickets),
        {.kind = seams::fabric_atomic::add, .element = seams::fabric_element::u64, .operand = 1},
        &before);
    need(code == status::peer_lost || code == status::timed_out,
         "an atomic at a failed PE returns an error",
         int64_t(code));
    (void)contexts_[1]->quiet();
  }

 private:
  std::unique_ptr<seams::fabric_endpoint> open(const std::string &provider) {
    auto opened = backends::libfabric_endpoint_open(
        {.provider = provider, .node = node != nullptr ? node : "127.0.0.1"});
    if (!opened.ok() && opened.error() == status::no_plugin) {
      board_.is_missing = true;
      _exit(0);
    }
    need(opened.error(), "an endpoint");
    return std::move(opened).value();
  }

  onesided::symmetric_address at(const void *ours) {
    return {nullptr,
            &where_,
            size_t(static_cast<const std::byte *>(ours) -
                   reinterpret_cast<const std::byte *>(heap_.get()))};
  }

  void put_somewhere(onesided::remote_context &context, uint32_t target) {
    size_t const size = random_() % 4 == 0 ? 1 + random_() % 40'000 : 1 + random_() % 300;
    size_t const offset = random_() % (slot_size - size);
    std::vector<std::byte> bytes(size);
    for (auto &each : bytes)
      each = std::byte(random_());
    std::copy(bytes.begin(), bytes.end(), mirrors_[target].begin() + ptrdiff_t(offset));
    context.fence();  // orders this put after those that it overlaps with
    need(context.put(pe_index(target), at(&heap_->slots[me_][offset]), bytes.data(), size), "put");
    std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
  }

  void check_slot(onesided::remote_context &context, uint32_t target) {
    need(context.quiet(), "quiet");
    std::vector<std::byte> bytes(slot_size);
    need(context.get(pe_index(target), bytes.data(), at(&heap_->slots[me_][0]), slot_size), "get");
    need(bytes == mirrors_[target], "the data read equals the data put", target);
  }

  void take_ticket(onesided::remote_context &context, uint32_t target) {
    uint64_t ticket = ticket_count_max;
    need(context.update(pe_index(target),
                        at(&heap_->tickets),
                        {.kind = seams::fabric_atomic::add,
                         .element = seams::fabric_element::u64,
                         .operand = 1},
                        &ticket),
         "fetch and add");
    need(ticket < ticket_count_max && board_.ticket_seen[target][ticket].exchange(1) == 0,
         "a ticket is given once",
         int64_t(ticket));
    board_.ticket_count[target]++;
  }

  // Signals the next PE, which answers after it has checked the payload.
  void send_signal(onesided::remote_context &context, uint32_t target) {
    if (__atomic_load_n(&heap_->answer, __ATOMIC_ACQUIRE) != sent_) {
      attend();
      return answer_signal();
    }
    sent_++;
    std::vector<std::byte> bytes(payload_size, std::byte(sent_));
    need(context.put_signal(pe_index(target),
                            at(heap_->payload),
                            bytes.data(),
                            bytes.size(),
                            {.location = at(&heap_->signal), .value = sent_}),
         "put with signal");
    std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
  }
  // Not instrumented: ThreadSanitizer sees a provider's memcpy() of the payload, but not its store
  // of the signal, which orders the two.
  [[gnu::no_sanitize_thread]] bool payload_is(std::byte value) const {
    const std::byte *const payload = heap_->payload;
    for (size_t i = 0; i < payload_size; i++)
      if (payload[i] != value)
        return false;
    return true;
  }
  void answer_signal() {
    uint64_t const seen = __atomic_load_n(&heap_->signal, __ATOMIC_ACQUIRE);
    if (seen == answered_)
      return;
    need(seen == answered_ + 1, "signals come one by one", int64_t(seen));
    need(payload_is(std::byte(seen)), "a signal comes after its payload", int64_t(seen));
    answered_ = seen;
    need(contexts_[1]->put_signal(pe_index((me_ + count_ - 1) % count_),
                                  {},
                                  nullptr,
                                  0,
                                  {.location = at(&heap_->answer), .value = seen}),
         "an answer");
  }

 private:
  board &board_;
  uint32_t const me_, count_;
  uint32_t meeting_ = 0;
  std::mt19937 random_;
  std::unique_ptr<symmetric> heap_ = std::make_unique<symmetric>();
  onesided::segment where_{.name = "heap", .mapped = {}, .remote = {}};
  std::unique_ptr<onesided::responder> answering_;
  std::unique_ptr<onesided::lane> lane_;
  std::array<std::unique_ptr<onesided::remote_context>, 2> contexts_;
  std::array<std::vector<std::byte>, pe_count_max> mirrors_;
  uint64_t sent_ = 0, answered_ = 0;
};

class remote_processes : public processes<board> {
 protected:
  void run(uint32_t count, const std::function<void(uint32_t)> &work, uint32_t dies = nobody) {
    start(count, work, chosen != nullptr ? 900 : 200);
    expect_ends(dies);
  }
};

TEST_P(remote_processes, random_traffic) {
  run(4, [this](uint32_t me) {
    pe_process pe{*board_, me, 4, GetParam()};
    for (uint32_t i = 0; i < 300; i++)
      pe.step(4, true);
    pe.finish(4);
  });
}

TEST_P(remote_processes, one_is_killed) {
  run(
      3,
      [this](uint32_t me) {
        pe_process pe{*board_, me, 3, GetParam()};
        for (uint32_t i = 0; i < 40; i++)
          pe.step(me == 2 ? 3 : 2, false);
        pe.meet(3);
        if (me == 2)
          kill(getpid(), SIGKILL);
        pe.expect_loss(2);
        for (uint32_t i = 0; i < 100; i++)
          pe.step(2, false);
        pe.meet(2);
      },
      2);
}

INSTANTIATE_TEST_SUITE_P(pgas, remote_processes, testing::ValuesIn(providers()), [](auto &of) {
  return std::string{of.param}.substr(0, 3);
});

}  // namespace
}  // namespace tanada::test
