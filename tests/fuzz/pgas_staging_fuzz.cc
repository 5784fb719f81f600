// Arbitrary messages of a peer to a stager, mixed with operations of the stager's program. The
// stager accesses nothing outside of the device heap, active messages have the announced sizes, all
// operations end, and at the end an honest peer finds all slots free. Steps are one byte each with
// their arguments after it. The heap is an allocation of its own, so that AddressSanitizer detects
// accesses outside of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/hostgpu/host_queue.hpp"
#include "fuzz/input.hpp"
#include "onesided/job/staging.hpp"
#include "onesided/job/staging_wire.hpp"
#include "sim/clock.hpp"
#include "sim/fabric.hpp"

namespace {

const tanada::backends::host_blocks &no_blocks() {
  static const tanada::backends::host_blocks none{false};
  return none;
}

using namespace tanada;
using onesided::staging::record;
using onesided::staging::record_kind;

constexpr size_t heap_size = 6'000, slot_size = 1'024, area_size = 8 * slot_size,
                 message_size = 1'024;
constexpr uint64_t timeout_ns = 1'000'000;

[[noreturn]] void die(const char *why, long long number) {
  std::fprintf(stderr, "pgas_staging_fuzz: %s: %lld\n", why, number);
  std::abort();
}
void need(status code, const char *what) {
  if (code != status::ok)
    die(what, int(code));
}

struct input : test::fuzz_input {
  using fuzz_input::fuzz_input;
  uint64_t size() {
    static constexpr uint64_t listed[] = {0,
                                          1,
                                          4,
                                          8,
                                          100,
                                          1'000,
                                          1'024,
                                          1'025,
                                          5'992,
                                          6'000,
                                          8'192,
                                          1u << 31,
                                          uint64_t{1} << 32,
                                          ~uint64_t{0} - 7,
                                          ~uint64_t{0}};
    return fuzz_input::size(listed, 8);
  }
};

// Reads the whole request and writes the whole reply, so that AddressSanitizer checks both. Refuses
// some requests.
class echo : public onesided::active_message_server {
 public:
  status serve(onesided::pe_index,
               std::span<const std::byte> request,
               std::span<std::byte> reply) noexcept override {
    uint8_t sum = 0;
    for (auto const each : request)
      sum = uint8_t(sum + uint8_t(each));
    bool const has_size =
        !request.empty() && request.size() <= slot_size && reply.size() <= slot_size;
    if (!has_size)
      die("an active message of an invalid size", int64_t(request.size()));
    if (!reply.empty())
      std::memset(reply.data(), sum, reply.size());
    return sum % 5 == 4 ? status::range : status::ok;
  }
};

// Checks that the reply of a fetch arrives in order, and is not longer than requested.
class one_landing : public onesided::fetch_sink {
 public:
  explicit one_landing(size_t size) : size_{size} {}
  void write(uint64_t at, std::span<const std::byte> bytes) noexcept override {
    if (at != landed_ || bytes.size() > size_ - landed_)
      die("fetched bytes at an offset that was not requested", int64_t(at));
    for (auto const each : bytes)
      sum_ = uint8_t(sum_ + uint8_t(each));
    landed_ += bytes.size();
  }

 private:
  size_t const size_;
  size_t landed_ = 0;
  uint8_t volatile sum_ = 0;
};

class attack {
 public:
  explicit attack(input &from) : from_{from} {
    for (size_t i = 0; i < 2; i++) {
      auto &made = honest_[i];
      made.heap.reset(new std::byte[heap_size]());
      made.area.resize(area_size);
      auto opened = fabric_.open("pe" + std::to_string(2 * i), {.message_size_max = message_size});
      // The first PE's heap has a view, so that the fabric transfers it directly.
      seams::fabric_memory const view{.addr = made.heap.get(), .size = heap_size};
      auto staging =
          onesided::stager::create(std::move(opened).value(),
                                   std::make_unique<backends::host_queue>(no_blocks()),
                                   onesided::pe_index(2 * i),
                                   {.timeout_ns = timeout_ns,
                                    .time = &clock_,
                                    .make_progress = [this] { pump(); },
                                    .is_device_memory = [](const void *) { return false; },
                                    .failed_pe = {},
                                    .on_heap_changed = {},
                                    .heap = {made.heap.get(), heap_size},
                                    .staging_buffer = made.area,
                                    .slot_size = slot_size,
                                    .message_server = &server_,
                                    .heap_view = i == 0 ? view : seams::fabric_memory{}});
      made.staging = std::move(staging).value();
    }
    liar_ = fabric_.open("pe1", {.message_size_max = message_size}).value();
    auto const area =
        liar_
            ->region_register({.addr = liars_area_.data(), .size = liars_area_.size()},
                              {.remote_read = true})
            .value();
    std::vector<onesided::stager::contact> const all{honest_[0].staging->own_contact(),
                                                     {liar_->address(), area.remote, area.remote},
                                                     honest_[1].staging->own_contact()};
    for (auto &each : honest_) {
      need(each.staging->join(all), "join");
      each.context = std::make_unique<onesided::staged_context>(*each.staging);
    }
    target_ = liar_->peer_add(all[0].address.span()).value();
    where_.size = heap_size;
  }

  void run() {
    while (!from_.empty())
      step();
    (void)honest_[0].context->quiet();
    world_.advance(3 * timeout_ns);
    for (int i = 0; i < 100; i++)
      pump();
    // A put and a get of the other peer, larger than a slot.
    std::vector<std::byte> sent(heap_size, std::byte{0x5A}), back(heap_size);
    auto &other = *honest_[1].context;
    need(other.put(0, {nullptr, &where_, 0}, sent.data(), sent.size()), "put");
    need(other.quiet(), "quiet");
    need(other.get(0, back.data(), {nullptr, &where_, 0}, back.size()), "get");
    if (sent != back)
      die("the data read is not the data put", 0);
    // Active messages and fetches work, too.
    one_landing landing{2 * slot_size};
    auto const zeros = [](std::span<std::byte> into) {
      std::memset(into.data(), 0, into.size());
    };
    for (size_t i = 0; i < 20; i++)
      need(other.active_message(0, slot_size - i, zeros), "call");
    std::byte const asks[5] = {};
    for (size_t i = 0; i < 2; i++) {
      need(other.fetch(0, asks, slot_size, landing, i * slot_size), "fetch");
      need(other.quiet(), "quiet");
    }
  }

 private:
  struct pe {
    std::unique_ptr<std::byte[]> heap;
    std::vector<std::byte> area;
    std::unique_ptr<onesided::stager> staging;
    std::unique_ptr<onesided::staged_context> context;
  };

  void pump() {
    world_.advance(2'000);
    for (auto &each : honest_)
      each.staging->try_progress();
    listen();
  }

  // Reads the records that the stager has sent; say_record() uses their ids and sizes.
  void listen() {
    seams::fabric_op op{.kind = seams::fabric_op_kind::receive};
    op.addr = heard_bytes_.data();
    op.size = heard_bytes_.size();
    if (!has_receive_)
      has_receive_ = liar_->post(op) == status::ok;
    std::array<seams::fabric_completion, 8> done;
    for (size_t count = liar_->poll(done), i = 0; i < count; i++) {
      if (done[i].op_id != 0)
        continue;
      has_receive_ = false;
      std::span<const std::byte> const frame{heard_bytes_.data(), size_t(done[i].size)};
      if (onesided::staging::frame_check(frame, 3) != status::ok)
        die("the stager sends an invalid frame", int64_t(done[i].size));
      onesided::staging::frame_reader reader{frame};
      record each;
      for (std::span<const std::byte> data; reader.next(each, data);)
        heard_ = each;
    }
  }

  void say(std::vector<std::byte> &bytes) {
    seams::fabric_op op{.kind = seams::fabric_op_kind::send, .op_id = 1, .peer = target_};
    said_.push_back(std::move(bytes));
    op.addr = said_.back().data();
    op.size = said_.back().size();
    (void)liar_->post(op);
    if (said_.size() > 32) {
      for (int i = 0; i < 40; i++)
        pump();
      said_.erase(said_.begin(), said_.begin() + 8);
    }
  }

  void say_record() {
    record what;
    what.kind = record_kind(1 + from_.byte() % 14);
    what.flags = from_.byte() % 5;
    what.atomic = from_.byte() % 8;
    what.element = from_.byte() % 3;
    what.size = from_.size();
    what.offset = from_.size();
    uint8_t const shape = from_.byte();
    bool const answers = (shape & 1) != 0;
    what.id = answers ? ((shape & 2) != 0 ? heard_.second : heard_.id) : from_.size();
    if (answers)
      what.size = heard_.size;
    what.first = (shape & 4) != 0 ? 0 : from_.size();
    what.second = from_.size();
    uint64_t const data = (shape & 8) != 0 ? from_.size() : has_data(what.kind) ? what.size : 0;
    what.data_size = uint32_t(data);
    size_t const whole = sizeof(onesided::staging::frame_header) +
                         onesided::staging::record_size(std::min<uint64_t>(data, 4'096));
    std::vector<std::byte> bytes(std::min(whole, message_size));
    onesided::staging::frame_header head;
    head.pe = (shape & 48) == 48 ? from_.byte() : 1;
    head.size = uint32_t(bytes.size());
    head.count = (shape & 192) == 192 ? from_.byte() : 1;
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &what, sizeof what);
    say(bytes);
  }

  static bool has_data(record_kind kind) {
    return kind == record_kind::put || kind == record_kind::reply ||
           kind == record_kind::active_message || kind == record_kind::fetch;
  }

  void say_bytes() {
    std::vector<std::byte> bytes(1 + from_.byte());
    for (auto &each : bytes)
      each = std::byte(from_.byte());
    say(bytes);
  }

  // An operation of the stager's program at the hostile peer.
  void ask() {
    uint8_t const which = from_.byte();
    size_t const size = 1 + from_.size() % heap_size;
    auto &context = *honest_[0].context;
    onesided::symmetric_address const at{nullptr, &where_, heap_size - size};
    if (memory_.size() > 16) {
      (void)context.quiet();
      memory_.clear();
      landings_.clear();
    }
    auto &bytes = memory_.emplace_back(size);
    std::byte *const local =
        (which & 64) != 0 ? honest_[0].heap.get() + heap_size - size : bytes.data();
    size_t const part = std::min(size, slot_size);
    if (which % 8 == 4) {
      (void)context.active_message(
          1, part, [](std::span<std::byte> into) { std::memset(into.data(), 1, into.size()); });
    } else if (which % 8 == 5) {
      landings_.push_back(std::make_unique<one_landing>(part));
      (void)context.fetch(
          1, std::span{bytes}.first(std::min<size_t>(size, 16)), part, *landings_.back(), 0);
    } else if (which % 4 == 0) {
      (void)context.put_nbi(1, at, local, size);
    } else if (which % 4 == 1) {
      (void)context.get_nbi(1, local, at, size);
    } else if (which % 4 == 2 && size >= 8) {
      (void)context.update_nbi(
          1,
          at,
          {.kind = seams::fabric_atomic::add, .element = seams::fabric_element::u64},
          bytes.data());
    } else {
      context.fence();
    }
  }

  void step() {
    uint8_t const which = from_.byte() % 8;
    if (which < 4)
      say_record();
    else if (which == 4)
      say_bytes();
    else if (which == 5)
      ask();
    else if (which == 6)
      world_.advance(timeout_ns / 8);
    pump();
  }

  input &from_;
  sim::world world_{1};
  sim::clock clock_{world_};
  sim::fabric fabric_{world_};
  std::vector<std::vector<std::byte>> said_, memory_;
  std::vector<std::unique_ptr<one_landing>> landings_;
  echo server_;
  std::array<std::byte, 4'096> heard_bytes_{};
  std::vector<std::byte> liars_area_ = std::vector<std::byte>(4 * slot_size);
  std::array<pe, 2> honest_;
  std::unique_ptr<seams::fabric_endpoint> liar_;
  seams::fabric_peer target_ = 0;
  onesided::segment where_{.name = "heap", .mapped = {}, .remote = {}};
  record heard_{};
  bool has_receive_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  input from{bytes, std::min<size_t>(size, 4'096)};
  attack{from}.run();
  return 0;
}
