// Arbitrary messages of a peer to an endpoint, mixed with requests of the endpoint's program. Each
// request has exactly one completion, and the endpoint holds no message or connection at the end.
// The first byte of the input selects whether the peer begins with a handshake. The rest are steps,
// one byte each with its arguments after it. Each request has its own allocation, so that
// AddressSanitizer detects accesses outside of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <string>

#include "core/wire/o2g.hpp"
#include "fuzz/input.hpp"
#include "e2e/o2g/scripted_stream_set.hpp"
#include "products/o2g/engine.hpp"

namespace {

using namespace tanada;
using wire::o2g::envelope;
using wire::o2g::kind;

constexpr uint64_t region_key = 3, region_size = 20'000;
constexpr size_t said_count_max = 8;

[[noreturn]] void die(const char *why, unsigned long long a, unsigned long long b) {
  std::fprintf(stderr, "o2g_envelope_fuzz: %s: %llu, %llu\n", why, a, b);
  std::abort();
}

struct input : test::fuzz_input {
  using fuzz_input::fuzz_input;
  uint64_t size() {
    static constexpr uint64_t listed[] = {0,
                                          1,
                                          8,
                                          16,
                                          100,
                                          256,
                                          257,
                                          1024,
                                          8191,
                                          8192,
                                          20'000,
                                          70'000,
                                          uint64_t{1} << 46,
                                          uint64_t{1} << 63};
    return fuzz_input::size(listed, 1);
  }
};

struct counting_sink final : o2g::completion_sink {
  void complete(const o2g::completion &what) override {
    if (what.kind != o2g::completion_kind::remote_put && what.buffer_done)
      count++;
  }
  uint64_t count = 0;
};

class attack {
 public:
  explicit attack(input &from) : from_{from} {
    auto made = std::make_unique<test::scripted_stream_set>();
    set_ = made.get();
    o2g::engine_options options;
    options.listen_address = address(1);
    options.unexpected_size_soft = 64 << 10;
    options.unexpected_size_hard = 256 << 10;
    options.has_thread = false;
    options.sleep_ns_max = 0;
    auto speaker = o2g::engine::create(std::move(made), options, sink_, memory_);
    if (!speaker.ok())
      die("no engine", 0, 0);
    speaker_ = std::move(speaker).value();
    peer_ = result<o2g::peer_index>{speaker_->register_peer(address(2))}.value();
    offer();
  }

  void run() {
    bool const greets = (from_.byte() & 1) != 0;
    connect(greets);
    while (!from_.empty())
      step();
    end();
  }

 private:
  static seams::socket_address address(uint16_t port) {
    seams::socket_address at;
    at.family = seams::socket_address::family_kind::ipv4;
    at.bytes = {127, 0, 0, 1};
    at.port = port;
    return at;
  }

  std::span<std::byte> room(uint64_t size) {
    kept_.emplace_back(size);
    return kept_.back();
  }
  void offer() {
    auto const at = room(region_size);
    (void)memory_.add(
        region_key, at.data(), at.size(), 0, {.remote_read = true, .remote_write = true});
  }

  void say(const void *bytes, size_t size) {
    auto const found = set_->all.find(stream_);
    if (found == set_->all.end())
      return;
    auto const *const at = static_cast<const std::byte *>(bytes);
    found->second.coming.insert(found->second.coming.end(), at, at + size);
  }

  void greet(kind what) {
    wire::o2g::hello_message mine;
    mine.port = from_.byte() % 4 == 3 ? 1 : 2;
    mine.family = 4;
    mine.bytes = {127, 0, 0, 1};
    mine.endpoint = {uint8_t(from_.byte() % 2)};
    mine.credit = from_.byte() % 2 == 0 ? 1 << 20 : 0;
    std::vector<std::byte> body;
    wire::encode(mine, body);
    envelope head;
    head.kind = uint8_t(what);
    head.size = body.size();
    say(&head, sizeof head);
    say(body.data(), body.size());
  }

  void connect(bool greets) {
    if (set_->all.size() < 16)
      stream_ = set_->accept();
    if (greets)
      greet(kind::hello);
    speaker_->poll(false);
  }

  // Reads the envelopes that the endpoint has sent; number() returns their ids and addresses.
  void listen() {
    auto const found = set_->all.find(stream_);
    if (found == set_->all.end())
      return;
    auto &said = found->second.said;
    size_t at = 0;
    for (envelope head; said.size() - at >= sizeof head;
         at += sizeof head + wire::o2g::following_size(head)) {
      std::memcpy(&head, said.data() + at, sizeof head);
      if (envelope_check(head) != status::ok)
        die("the endpoint sends an invalid envelope", head.kind, head.size);
      if (said.size() - at - sizeof head < wire::o2g::following_size(head))
        break;
      heard_.push_front(head);
    }
    said.erase(said.begin(), said.begin() + ptrdiff_t(at));
    if (heard_.size() > said_count_max)
      heard_.resize(said_count_max);
  }

  uint64_t number() {
    uint8_t const which = from_.byte();
    if (which >= 64 || heard_.empty())
      return which;
    envelope const &head = heard_[which % heard_.size()];
    return kind(head.kind) == kind::pull ? head.address : head.id;
  }

  void say_envelope() {
    envelope head;
    head.kind = uint8_t(1 + from_.byte() % wire::o2g::kind_last);
    uint8_t const shape = from_.byte();
    head.flags = shape & 15;
    bool const answers = (shape & 16) != 0 && !heard_.empty();
    head.type = from_.byte();
    head.operation = from_.byte();
    head.size = answers ? heard_.front().size : from_.size();
    head.tag = (shape & 32) != 0 ? region_key : from_.byte() % 4;
    head.data = from_.size();
    head.id = number();
    head.address = from_.size();
    say(&head, sizeof head);
    uint64_t const rest = wire::o2g::following_size(head);
    std::vector<std::byte> const body(
        std::min<uint64_t>(rest, 20'000) / ((shape & 64) != 0 ? 2 : 1), std::byte{shape});
    say(body.data(), body.size());
  }

  void count(status posted, bool is_quiet = false) {
    posted_ += posted == status::ok && !is_quiet;
  }

  void request() {
    uint8_t const which = from_.byte();
    uint64_t const size = std::min<uint64_t>(from_.size(), 80'000);
    uint64_t const tag = from_.byte() % 4;
    auto const bytes = room(size);
    iovec const part{bytes.data(), bytes.size()};
    void *const context = &contexts_[tag];
    bool const more = (which & 64) != 0, tagged = (which & 32) != 0;
    o2g::match_pattern const pattern{
        tag, (which & 128) != 0 ? ~uint64_t{0} : 0, more ? peer_ : o2g::any_peer};
    switch (which % 10) {
      case 0:
      case 1:
        return count(speaker_->post_receive(
            {.parts = {&part, 1}, .pattern = pattern, .tagged = tagged, .context = context}));
      case 2:
        return count(speaker_->post_receive({.parts = {&part, 1},
                                             .pattern = pattern,
                                             .tagged = tagged,
                                             .multi_receive_min = 1 + size / 2}));
      case 3:
        return count(speaker_->post_send({.target = peer_,
                                          .parts = {&part, 1},
                                          .tag = tag,
                                          .tagged = tagged,
                                          .inject = size < 512,
                                          .delivery_complete = more}));
      case 4:
        return count(speaker_->post_peek(
            {.pattern = pattern, .tagged = tagged, .claim = true, .context = context}));
      case 5:
        return count(speaker_->post_peek({.pattern = pattern, .tagged = tagged, .discard = true}));
      case 6:
        return count(more ? speaker_->discard_claimed(context, false, nullptr)
                          : speaker_->post_receive_claimed(
                                {.parts = {&part, 1}, .tagged = tagged, .context = context}));
      case 7:
        return (void)speaker_->cancel(context);
      case 8:
        if (more)
          return count(
              speaker_->post_get({.target = peer_, .parts = {&part, 1}, .remote = {0, size, 1}}));
        return count(speaker_->post_put({.target = peer_,
                                         .parts = {&part, 1},
                                         .remote = {0, size, 1},
                                         .delivery_complete = tagged}));
      default:
        return count(speaker_->post_atomic({.target = peer_,
                                            .operands = bytes,
                                            .fetched = more ? bytes : std::span<std::byte>{},
                                            .remote = {0, size, 1},
                                            .delivery_complete = tagged}));
    }
  }

  void step() {
    switch (from_.byte() % 12) {
      case 0: {
        uint8_t const size = from_.byte();
        for (uint8_t i = 0; i < size && !from_.empty(); i++) {
          uint8_t const byte = from_.byte();
          say(&byte, 1);
        }
        break;
      }
      case 1:
        connect(true);
        break;
      case 2:
        connect(false);
        break;
      case 3:
        greet(kind(1 + from_.byte() % 3));
        break;
      case 4:
        if (auto const found = set_->all.find(stream_); found != set_->all.end())
          found->second.is_ending = true;
        break;
      case 5:
        set_->room = from_.size();
        break;
      case 6:
        set_->piece_size = size_t{16} << from_.byte() % 13;
        break;
      case 7:
        stream_ = set_->last;
        break;  // also a connection that the endpoint has initiated
      case 8:
        (void)memory_.remove(region_key, 0);
        offer();
        break;
      case 9:
      case 10:
        say_envelope();
        break;
      default:
        request();
        break;
    }
    speaker_->poll(false);
    listen();
  }

  void end() {
    set_->room = ~size_t{0};
    for (int rounds = 0; rounds < 4; rounds++) {
      for (auto &each : set_->all)
        each.second.is_ending = true;
      speaker_->poll(false);
    }
    if (!set_->all.empty())
      die("connections are left", set_->all.size(), 0);
    for (void *const context : {(void *)&contexts_[0],
                                (void *)&contexts_[1],
                                (void *)&contexts_[2],
                                (void *)&contexts_[3],
                                (void *)nullptr}) {
      while (speaker_->cancel(context) == status::ok)
        continue;
      while (speaker_->discard_claimed(context, true, nullptr) == status::ok)
        continue;
    }
    uint64_t const completed = sink_.count;
    for (bool const tagged : {true, false})
      for (uint64_t before = 1; before != speaker_->statistics().unexpected_size;) {
        before = speaker_->statistics().unexpected_size;
        (void)speaker_->post_peek(
            {.pattern = {0, ~uint64_t{0}, o2g::any_peer}, .tagged = tagged, .discard = true});
      }
    if (completed != posted_)
      die("numbers of completions and of requests differ", completed, posted_);
    if (speaker_->statistics().unexpected_size != 0)
      die("bytes remain in the unexpected buffer", speaker_->statistics().unexpected_size, 0);
    if (memory_.remove(region_key, 0) != status::ok)
      die("the region is in use", 0, 0);
  }

  input &from_;
  counting_sink sink_;
  o2g::regions memory_;
  std::list<std::vector<std::byte>> kept_;
  test::scripted_stream_set *set_ = nullptr;
  std::unique_ptr<o2g::engine> speaker_;
  o2g::peer_index peer_ = 0;
  seams::stream_id stream_ = 0;
  std::deque<envelope> heard_;
  uint64_t posted_ = 0;
  char contexts_[4] = {};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  input from{bytes, size};
  attack{from}.run();
  return 0;
}
