#include "sim/o2g_harness.hpp"

#include <algorithm>
#include <cstring>

#include "core/wire/o2g.hpp"

namespace tanada::test {

using o2g::completion_kind;

namespace {

constexpr uint64_t region_key = 77;
constexpr std::byte untouched{0xA5};

sim::stream_set_faults network_of(uint64_t seed, o2g_weather kind) {
  sim::prng random{seed ^ 0xF417};
  return {.delay_ns_max = random.between(200, 20'000),
          .connect_delay_ns_max = random.between(1, 100'000),
          .segment_size_max =
              random.below(4) == 0 ? random.between(10, 200) : random.between(50, 20'000),
          .chunk_size_max =
              random.below(4) == 0 ? random.between(10, 200) : random.between(100, 20'000),
          .window_size = random.between(4'000, 100'000),
          .partial_percent = uint32_t(random.below(40)),
          .again_percent = uint32_t(random.below(20)),
          .refuse_percent = kind == o2g_weather::refusing || kind == o2g_weather::cutting
                                ? uint32_t(random.between(5, 50))
                                : 0,
          .cut_permyriad = kind == o2g_weather::cutting ? uint32_t(random.between(5, 200)) : 0};
}

}  // namespace

o2g_run::o2g_run(uint64_t seed, o2g_weather kind)
    : kind_{kind}, world_{seed}, network_{world_, network_of(seed, kind)} {
  for (uint32_t i = 0; i < engine_count; i++) {
    auto &made = *ends_.emplace_back(std::make_unique<endpoint>());
    made.run = this;
    made.number = i;
    made.habit = caller_habit(world_.random.below(4));
    made.mirrors.assign(engine_count, std::vector<std::byte>(slice_size));
    made.gets_out.assign(engine_count, 0);
    made.is_unsure.assign(engine_count, false);
    o2g::engine_options options{.has_thread = false, .clock = &clock_};
    options.listen_address = {.family = seams::socket_address::family_kind::ipv4,
                              .bytes = {10, 0, 0, uint8_t(1 + i)}};
    // The first messages fit nowhere, or everything does, or something in between.
    options.unexpected_size_soft =
        world_.random.below(3) == 0 ? 1'000 : world_.random.between(2'000, 400'000);
    if (world_.random.below(2) == 0)
      options.unexpected_size_hard = options.unexpected_size_soft;
    made.unexpected_size_hard = options.unexpected_size_hard;
    if (made.regions.add(region_key, made.memory.data(), region_size, 0, {true, true}) !=
        status::ok)
      fail("no region");
    auto engine = o2g::engine::create(network_.open(), options, made, made.regions);
    if (!engine.ok()) {
      fail("no engine");
      return;
    }
    made.engine = std::move(engine).value();
    made.address = made.engine->address();
  }
  // A cut loses data in flight, even if their send has completed.
  network_.on_loss =
      [this](const seams::socket_address &one, const seams::socket_address &other, bool is_cut) {
        uint32_t const a = one.bytes[3] - 1u, b = other.bytes[3] - 1u;
        if (!is_cut && !model_.last_loss.contains(std::minmax(a, b)))
          return;
        model_.last_loss[std::minmax(a, b)] = ++time_;
        ends_[a]->is_unsure[b] = true;
        ends_[b]->is_unsure[a] = true;
      };
  for (auto &each : ends_)
    for (auto &other : ends_)
      each->peers.push_back(each->engine->register_peer(other->address).value());
}

// Engines close in order, and may receive into the requests' memory meanwhile.
o2g_run::~o2g_run() {
  for (auto const &each : ends_)
    each->engine = nullptr;
}

// A caller that learns of a failed peer may add it again and retry.
void o2g_run::refused(endpoint &at, uint32_t to, status code) {
  if (!may_fail())
    return fail("a request was refused");
  if (has_losses() && code != status::peer_lost)
    return fail("a request was refused strangely");
  if (has_losses() && world_.random.chance(70))
    (void)at.engine->register_peer(ends_[to]->address);
}

o2g_run::request &o2g_run::make(request_kind kind, uint32_t owner) {
  auto &made = requests_.emplace_back();
  made.kind = kind;
  made.owner = owner;
  return made;
}

std::vector<iovec> o2g_run::parts_of(std::span<std::byte> memory) {
  std::vector<iovec> parts;
  while (!memory.empty()) {
    size_t const size = parts.size() == 3 || world_.random.chance(60)
                            ? memory.size()
                            : world_.random.between(1, memory.size());
    parts.push_back({memory.data(), size});
    memory = memory.subspan(size);
  }
  return parts;
}

std::string o2g_run::run(uint32_t step_count) {
  uint32_t gone = 0;
  for (uint32_t step = 0; step < step_count && problem_.empty(); step++) {
    if (world_.random.chance(30))
      act();
    else
      move();
    bool const is_time = (kind_ == o2g_weather::ending || kind_ == o2g_weather::dying) &&
                         gone < engine_count - 2 && step > step_count / 4;
    if (is_time && world_.random.below(step_count / 2) == 0) {
      auto &which = *ends_[world_.random.below(engine_count)];
      if (which.engine != nullptr) {
        go(which, kind_ == o2g_weather::dying);
        gone++;
      }
    }
  }
  network_.faults.refuse_percent = 0;
  network_.faults.cut_permyriad = 0;
  settle();
  drain();
  check_end();
  return problem_;
}

void o2g_run::act() {
  auto &at = *ends_[world_.random.below(engine_count)];
  if (at.engine == nullptr)
    return;
  uint64_t const what = world_.random.below(100);
  uint64_t const before_ns = world_.now_ns();
  if (what < 38)
    post_send(at);
  else if (what < 68)
    post_receive(at);
  else if (what < 75)
    post_peek(at);
  else if (what < 79)
    end_claim(at);
  else if (what < 83)
    post_cancel(at);
  else
    post_remote(at);
  if (world_.now_ns() != before_ns)
    fail("a request waited");
  reap(at);
}

// Something happens in the network, or a program polls.
void o2g_run::move() {
  if (world_.random.chance(50)) {
    if (!world_.step())
      world_.advance(1'000);
  } else {
    auto &at = *ends_[world_.random.below(engine_count)];
    if (at.engine == nullptr)
      return;
    look(at);
  }
}

void o2g_run::look(endpoint &at) {
  auto &random = world_.random;
  caller_habit const habit =
      at.habit == caller_habit::mixes ? caller_habit(random.below(3)) : at.habit;
  switch (habit) {
    case caller_habit::tests_rarely:
      if (random.chance(5))
        world_.advance(random.between(1'000'000, 10'000'000));
      (void)poll(at);
      break;
    case caller_habit::blocks:
      block(at);
      break;
    default:
      poll_between_work(at);
  }
}

// As for a program that has not enabled sleeping polls: no time may pass.
size_t o2g_run::poll(endpoint &at) {
  uint64_t const before_ns = world_.now_ns();
  size_t const count = at.engine->poll();
  auto const counts = at.engine->statistics();
  if (counts.unexpected_size >
      at.unexpected_size_hard + counts.announced_count * wire::o2g::message_overhead)
    fail("unexpected messages exceed their limit");
  if (world_.now_ns() != before_ns)
    fail("a poll slept for " + std::to_string(world_.now_ns() - before_ns) + " ns");
  reap(at);
  return count;
}

// Until something arrives, or for a while; now and then for as long as a library would spin before
// it treats the caller as idle.
void o2g_run::poll_between_work(endpoint &at) {
  auto &random = world_.random;
  uint64_t const piece_ns = random.between(1, 4'000);
  uint64_t const duration_ns = random.below(1'000) == 0 ? 15'000'000
                               : random.chance(10)      ? 100'000
                                                        : 0;
  uint64_t const end_ns = world_.now_ns() + duration_ns;
  while (poll(at) == 0 && world_.now_ns() < end_ns && problem_.empty())
    world_.advance(piece_ns);
}

// A wait ends by its deadline at the latest, and received data are available afterwards.
void o2g_run::block(endpoint &at) {
  uint64_t const deadline_ns = world_.now_ns() + world_.random.below(50'000);
  auto const has_completion = [](void *argument) {
    return !static_cast<endpoint *>(argument)->done.empty();
  };
  status const code = at.engine->wait(deadline_ns, has_completion, &at);
  if (world_.now_ns() > deadline_ns)
    fail("a wait went on after its deadline");
  if (code != status::ok && code != status::timed_out)
    fail("a wait failed");
  (void)poll(at);
}

void o2g_run::go(endpoint &which, bool is_death) {
  reap(which);
  if (is_death)
    network_.kill(which.address);
  (is_death ? model_.is_dead : model_.is_ended)[which.number] = true;
  which.engine.reset();
  if (!which.done.empty())
    fail("told from its destructor");
}

void o2g_run::post_send(endpoint &at) {
  auto &random = world_.random;
  auto &what = make(request_kind::send, at.number);
  what.to = random.chance(5) ? at.number : other_than(at.number);
  uint64_t const kind = random.below(10);
  uint64_t const size = kind == 0  ? 0
                        : kind < 6 ? random.between(1, 300)
                        : kind < 9 ? random.between(300, 20'000)
                                   : random.between(20'000, 120'000);
  what.memory.resize(size);
  what.message = model_.messages.size();
  uint64_t const number = what.message;
  for (uint64_t i = 0; i < size; i++)
    what.memory[i] = byte_of(number, i);
  what.quiet = random.chance(10);
  what.delivered = random.chance(20);
  bool const tagged = random.chance(80), inject = size <= o2g::inject_size_max && random.chance(30);
  uint64_t const tag = random.below(4) | random.below(3) << 32;
  auto const parts = parts_of(what.memory);
  // Known before the call: a message to oneself arrives immediately.
  model_.messages.push_back({.from = at.number,
                             .to = what.to,
                             .tagged = tagged,
                             .tag = tag,
                             .size = size,
                             .quiet = what.quiet,
                             .delivered = what.delivered,
                             .post_time = ++time_});
  status const code = at.engine->post_send({.target = at.peers[what.to],
                                            .parts = parts,
                                            .tag = tag,
                                            .data = number,
                                            .tagged = tagged,
                                            .has_data = true,
                                            .inject = inject,
                                            .errors_only = what.quiet,
                                            .delivery_complete = what.delivered,
                                            .context = context_of(what)});
  if (inject)
    std::fill(what.memory.begin(), what.memory.end(), std::byte{0});
  if (code == status::ok)
    return;
  refused(at, what.to, code);
  requests_.pop_back();
  model_.messages.pop_back();
}

void o2g_run::post_receive(endpoint &at) {
  auto &random = world_.random;
  auto &what = make(request_kind::receive, at.number);
  model_look look{.at = at.number, .tagged = random.chance(80), .many = random.chance(15)};
  static constexpr uint64_t ignores[] = {0,
                                         0,
                                         3,
                                         ~uint64_t{0},
                                         uint64_t{0xF} << 32,
                                         1,
                                         2,
                                         uint64_t{1} << 32,
                                         uint64_t{2} << 32,
                                         7,
                                         15};
  if (look.tagged)
    look.pattern = {random.below(4) | random.below(3) << 32,
                    ignores[random.below(std::size(ignores))],
                    o2g::any_peer};
  look.pattern.source = random.chance(50) ? o2g::any_peer : uint32_t(random.below(engine_count));
  uint64_t const size = look.many           ? random.between(1, 60'000)
                        : random.chance(40) ? random.between(0, 300)
                                            : random.between(300, 120'000);
  what.memory.assign(size, untouched);
  what.quiet = false;
  what.look = model_.looks.size();
  auto const parts =
      look.many ? std::vector<iovec>{{what.memory.data(), size}} : parts_of(what.memory);
  auto pattern = look.pattern;
  if (pattern.source != o2g::any_peer)
    pattern.source = at.peers[pattern.source];
  uint64_t const many_size = look.many ? random.between(1, size) : 0;
  model_.looks.push_back(look);
  if (at.engine->post_receive({.parts = parts,
                               .pattern = pattern,
                               .tagged = look.tagged,
                               .multi_receive_min = many_size,
                               .context = context_of(what)}) != status::ok)
    fail("a receive was refused");
}

void o2g_run::post_peek(endpoint &at) {
  auto &random = world_.random;
  auto &what = make(request_kind::peek, at.number);
  uint64_t const then = random.below(3);
  what.claim = then == 1;
  what.discard = then == 2;
  model_look look{
      .at = at.number, .tagged = random.chance(80), .waits = false, .consumes = then != 0};
  if (look.tagged)
    look.pattern = {random.below(4), random.chance(70) ? ~uint64_t{0} : 3, o2g::any_peer};
  look.pattern.source = random.chance(60) ? o2g::any_peer : uint32_t(random.below(engine_count));
  what.look = model_.looks.size();
  model_.looks.push_back(look);
  auto pattern = look.pattern;
  if (pattern.source != o2g::any_peer)
    pattern.source = at.peers[pattern.source];
  status const code = at.engine->post_peek({.pattern = pattern,
                                            .tagged = look.tagged,
                                            .claim = what.claim,
                                            .discard = what.discard,
                                            .context = context_of(what)});
  if (code != status::ok || at.done.empty())
    fail("a peek was refused, or has no answer");
}

void o2g_run::end_claim(endpoint &at) {
  if (at.claims.empty())
    return;
  auto chosen = at.claims.begin();
  std::advance(chosen, int64_t(world_.random.below(at.claims.size())));
  auto &what = requests_[*chosen];
  at.claims.erase(chosen);
  what.is_out = true;
  what.kind = request_kind::receive;
  bool const tagged = model_.looks[what.look].tagged;
  status code = status::ok;
  if (world_.random.chance(30)) {
    code = at.engine->discard_claimed(context_of(what), true, nullptr);
    what.is_out = code != status::ok;
    if (code == status::ok)
      model_.messages[what.message].discarded = true;
  } else {
    what.memory.assign(world_.random.chance(30) ? world_.random.below(200) : 120'000, untouched);
    auto const parts = parts_of(what.memory);
    code = at.engine->post_receive_claimed(
        {.parts = parts, .tagged = tagged, .context = context_of(what)});
  }
  if (code == status::ok)
    return;
  what.is_out = false;
  // Messages that a dead peer had not sent completely are lost, claimed or not.
  auto &message = model_.messages[what.message];
  if (code != status::no_entry || !model_.may_be_lost(message))
    fail("what was claimed is not there: " + model_.text(what.message));
}

void o2g_run::post_cancel(endpoint &at) {
  std::vector<request *> open;
  for (auto &each : requests_)
    if (each.owner == at.number && each.is_out && each.kind == request_kind::receive &&
        model_.looks[each.look].waits)
      open.push_back(&each);
  if (open.empty())
    return;
  auto &what = *open[world_.random.below(open.size())];
  status const code = at.engine->cancel(context_of(what));
  if (code == status::ok)
    model_.looks[what.look].end_time = ++time_;
  if (code != status::ok && code != status::no_entry)
    fail("a strange answer to a cancel");
}

void o2g_run::post_remote(endpoint &at) {
  auto &random = world_.random;
  uint32_t const to = other_than(at.number);
  uint64_t const what = random.below(4), slice = 8 + at.number * slice_size;
  auto &mirror = at.mirrors[to];
  if (what != 0 && at.gets_out[to] != 0 && what != 1)
    return;  // the source of a get must not change
  request_kind const kind = what == 0   ? request_kind::count_up
                            : what == 1 ? request_kind::get
                            : what == 2 ? request_kind::put
                                        : request_kind::fetch;
  auto &made = make(kind, at.number);
  made.to = to;
  status code = status::ok;
  bool const is_unsure = at.is_unsure[to];
  if (kind == request_kind::put || kind == request_kind::get) {
    uint64_t const size = random.between(1, slice_size),
                   offset = random.below(slice_size - size + 1);
    made.memory.resize(size);
    made.delivered = random.chance(50);
    bool const is_put = kind == request_kind::put,
               inject = is_put && size <= o2g::inject_size_max && random.chance(30);
    for (auto &each : made.memory)
      each = std::byte(random.next());
    auto const before = made.memory;
    auto const parts = parts_of(made.memory);
    o2g::remote_request const asked{.target = at.peers[to],
                                    .parts = parts,
                                    .remote = {slice + offset, size, region_key},
                                    .inject = inject,
                                    .delivery_complete = made.delivered,
                                    .context = context_of(made)};
    code = is_put ? at.engine->post_put(asked) : at.engine->post_get(asked);
    if (inject)
      std::fill(made.memory.begin(), made.memory.end(), std::byte{0});
    if (!is_put)
      made.expected = {mirror.begin() + int64_t(offset), mirror.begin() + int64_t(offset + size)};
    if (!is_put && code == status::ok)
      at.gets_out[to]++;
    if (is_put && code == status::ok)
      std::copy(before.begin(), before.end(), mirror.begin() + int64_t(offset));
  } else {
    bool const is_counter = kind == request_kind::count_up;
    uint64_t const offset = 8 * random.below(slice_size / 8);
    uint64_t const operand = is_counter ? 1 : random.next();
    made.memory.resize(8);
    if (!is_counter)
      made.expected = {mirror.begin() + int64_t(offset), mirror.begin() + int64_t(offset + 8)};
    code = at.engine->post_atomic({.target = at.peers[to],
                                   .operands = std::as_bytes(std::span{&operand, 1}),
                                   .fetched = made.memory,
                                   .remote = {is_counter ? 0 : slice + offset, 8, region_key},
                                   .inject = true,
                                   .context = context_of(made)});
    uint64_t sum = 0;
    std::memcpy(&sum, mirror.data() + offset, 8);
    sum += operand;
    if (!is_counter && code == status::ok)
      std::memcpy(mirror.data() + offset, &sum, 8);
  }
  if (is_unsure)
    made.expected.clear();
  if (code == status::ok && kind == request_kind::count_up)
    counts_posted_[to]++;
  if (code == status::ok)
    return;
  refused(at, to, code);
  requests_.pop_back();
}

}  // namespace tanada::test
