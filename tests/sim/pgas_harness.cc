#include "sim/pgas_harness.hpp"

#include "sim/pgas_endpoint.hpp"

namespace tanada::test {
namespace {

sim::fabric_faults network_of(uint64_t seed, pgas_weather kind, pgas_plant plant, pgas_way way) {
  sim::prng random{seed ^ 0xF417};
  sim::fabric_faults made{
      .delay_ns_min = 200,
      .delay_ns_max = random.between(500, 20'000),
      .drop_percent = uint32_t(random.below(20)),
      .retry_ns = 5'000,
      .retry_count_max = 1'000,
      .again_percent = uint32_t(random.below(kind == pgas_weather::narrow ? 40 : 5))};
  if (kind == pgas_weather::lossy) {
    made.drop_percent = 15;
    made.retry_count_max = 1;
  }
  if (plant == pgas_plant::lost)
    made.loss_percent = 2;
  if (plant == pgas_plant::corrupt)
    made.corrupt_percent = 2;
  if (plant == pgas_plant::overtaken)
    made.overtake_percent = 20;
  if (plant == pgas_plant::overtaken && way != pgas_way::direct)
    made.swap_percent = 20;
  if (plant == pgas_plant::done_twice && way != pgas_way::direct)
    made.duplicate_percent = 3;
  if (plant == pgas_plant::uncopied)
    made.uncopied_percent = 20;
  return made;
}

}  // namespace

pgas_run::pgas_run(uint64_t seed, pgas_weather kind, pgas_plant plant, pgas_way way)
    : kind_{kind},
      plant_{plant},
      way_{way},
      world_{seed},
      fabric_{world_, network_of(seed, kind, plant, way)} {
  auto &random = world_.random;
  static constexpr size_t copied_sizes[] = {0, 8, 64, 1024};
  uint32_t const pe_count = uint32_t(random.between(2, 4)),
                 lane_count = uint32_t(random.between(1, 2));
  uint32_t const context_count = uint32_t(random.between(1, 3));
  bool const is_ordered =
      kind == pgas_weather::ordered || (kind != pgas_weather::unordered && random.chance(50));
  copied_size_max_ = copied_sizes[random.below(4)];
  // If operations fail one by one, an ordered fabric performs the signal of a write that has
  // failed.
  has_guards_ = kind != pgas_weather::lossy || !is_ordered;
  lane_options_ = {.depth = kind == pgas_weather::narrow ? uint32_t(random.between(1, 4)) : 64,
                   .copied_size_max = copied_size_max_,
                   .is_ordered = is_ordered};
  answer_options_ = {.has_auto_progress = random.chance(30)};
  for (uint32_t i = 0; i < pe_count; i++) {
    auto &home = *pes_.emplace_back(std::make_unique<pe>());
    home.number = i;
    for (uint32_t c = 0; c < context_count; c++) {
      uint32_t const sharing = random.chance(15) ? 2 : 1;
      for (uint32_t a = 0; a < sharing; a++) {
        auto &made = *actors_.emplace_back(std::make_unique<actor>());
        made.number = uint32_t(actors_.size() - 1);
        made.home = &home;
        made.context_number = c;
        made.is_sharing = sharing > 1;
        made.slices.resize(pe_count);
        made.bits.assign(pe_count, 1);
        made.given.resize(pe_count);
        made.unsure.resize(pe_count);
      }
    }
  }
  shared_.resize(pe_count);
  for (auto &each : pes_) {
    each->memory.resize(sizeof(shared_words) +
                        actors_.size() * (slice_size + (way == pgas_way::taken ? share_size : 0)));
  }
  if (way == pgas_way::direct)
    pes_open(lane_count, context_count);
  else
    pes_open_staged(context_count);
  for (auto &each : actors_)
    each->context = each->home->contexts[each->context_number].get();
  for (auto &each : actors_)
    fibers_.add([this, &self = *each] { live(self); });
}

void pgas_run::pes_open(uint32_t lane_count, uint32_t context_count) {
  std::vector<seams::fabric_remote> remote;
  std::vector<seams::fabric_address> addresses;
  for (auto &each : pes_) {
    each->answering =
        std::make_unique<onesided::responder>(endpoint_open(*each, "", answer_options_), clock_);
    auto &answers = each->answering->endpoint();
    auto region = answers.region_register(
        {.addr = each->memory.data(), .size = each->memory.size()}, {true, true});
    remote.push_back(region.value().remote);
    addresses.push_back(answers.address());
  }
  for (auto &each : pes_) {
    map_open(*each, remote);
    for (uint32_t i = 0; i < lane_count; i++) {
      each->lanes.push_back(std::make_unique<onesided::lane>(
          endpoint_open(*each, ".lane" + std::to_string(i), lane_options_),
          addresses,
          onesided::lane::options{.timeout_ns = timeout_ns,
                                  .time = &clock_,
                                  .make_progress = [this, home = each.get()] { attend(*home); },
                                  .on_first_outstanding = {}}));
    }
    for (uint32_t i = 0; i < context_count; i++) {
      each->contexts.push_back(
          std::make_unique<sim_context_of<onesided::remote_context>>(*each->lanes[i % lane_count]));
    }
  }
}

void pgas_run::map_open(pe &home, std::vector<seams::fabric_remote> remote) {
  home.map = std::make_unique<onesided::symmetric_map>(onesided::pe_index(home.number),
                                                       onesided::pe_index(pes_.size()));
  home.map->add({.name = "heap",
                 .base = home.memory.data(),
                 .size = home.memory.size(),
                 .mapped = std::vector<std::byte *>(pes_.size()),
                 .remote = std::move(remote)});
}

// Small messages and few small slots, so that puts and gets take several of them and wait for them.
void pgas_run::pes_open_staged(uint32_t context_count) {
  auto &random = world_.random;
  auto options = lane_options_;
  options.message_size_max = random.chance(50) ? 512 : 4096;
  options.depth = kind_ == pgas_weather::narrow ? uint32_t(random.between(4, 9)) : 64;
  size_t const slot_size = size_t{1024} << random.below(4), slot_count = 2 * random.between(4, 8);
  for (auto &each : actors_)
    for (auto &slice : each->slices) {
      slice.pieces_set(std::min(
          slot_size,
          options.message_size_max - 72));  // anything longer than a message, or a slot, is split
      if (gives_up())
        slice.give_up();
    }
  std::vector<onesided::stager::contact> contacts;
  for (auto &each : pes_) {
    map_open(*each, {});
    each->area.resize(slot_size * slot_count);
    auto const is_device = [this](const void *addr) {
      auto const *const at = static_cast<const std::byte *>(addr);
      auto const after = device_ranges_.upper_bound(at);
      return after != device_ranges_.begin() &&
             at < std::prev(after)->first + std::prev(after)->second;
    };
    options.has_cuda = way_ == pgas_way::taken && random.chance(80);
    seams::fabric_memory const view{.addr = way_ == pgas_way::taken ? each->memory.data() : nullptr,
                                    .size = each->memory.size(),
                                    .kind = seams::fabric_memory_kind::cuda};
    auto made =
        onesided::stager::create(endpoint_open(*each, ".stage", options),
                                 std::make_unique<late_queue>(world_),
                                 onesided::pe_index(each->number),
                                 {.timeout_ns = timeout_ns,
                                  .time = &clock_,
                                  .make_progress = [this, home = each.get()] { attend(*home); },
                                  .is_device_memory = is_device,
                                  .failed_pe = {},
                                  .on_heap_changed = {},
                                  .heap = each->memory,
                                  .staging_buffer = each->area,
                                  .slot_size = slot_size,
                                  .heap_view = view});
    each->staging = std::move(made).value();
    contacts.push_back(each->staging->own_contact());
  }
  for (auto &each : pes_) {
    TND_ASSERT(each->staging->join(contacts) == status::ok);
    for (uint32_t i = 0; i < context_count; i++) {
      each->contexts.push_back(
          std::make_unique<sim_context_of<onesided::staged_context>>(*each->staging));
    }
  }
}

pgas_run::~pgas_run() = default;

std::unique_ptr<seams::fabric_endpoint> pgas_run::endpoint_open(
    pe &home, const std::string &suffix, const sim::fabric_options &options) {
  home.names.push_back("pe" + std::to_string(home.number) + suffix);
  return std::make_unique<endpoint>(
      fabric_.open(home.names.back(), options).value(), world_, plant_);
}

std::string pgas_run::run() {
  uint64_t const trouble_step = world_.random.between(500, 20'000),
                 heal_step = trouble_step + world_.random.between(1, 100'000);
  uint64_t step = 0;
  for (size_t left = fibers_.size(); left != 0; step++) {
    if (step == trouble_step)
      trouble();
    if (step == heal_step)
      fabric_.heal();
    if (step == step_count_max)
      fail("the programs do not end");
    uint64_t const what = world_.random.below(100);
    if (what < 45) {
      // Deadlines are far away, so that time does not jump there.
      bool const is_near = world_.next_ns() - world_.now_ns() < 20'000;
      if (!is_near || !world_.step())
        world_.advance(5'000);
    } else if (what < 60) {
      serve(*pes_[world_.random.below(pes_.size())]);
    } else {
      size_t const which = world_.random.below(fibers_.size());
      if (fibers_.is_over(which))
        continue;
      fibers_.resume(which);
      if (fibers_.is_over(which))
        left--;
    }
    if (world_.random.chance(20))
      check_now(world_.random.chance(3));
  }
  fabric_.heal();
  for (uint32_t i = 0; i < 100; i++) {
    world_.advance(100'000);
    for (auto &each : pes_)
      serve(*each);
  }
  if (problem_.empty())
    check_end();
  return problem_;
}

void pgas_run::serve(pe &home) {
  if (home.staging)
    home.staging->try_progress();
  else
    home.answering->progress();
}

// A waiter serves its own PE, and lets the others run.
void pgas_run::attend(pe &home) {
  serve(home);
  for (auto &each : home.lanes)
    (void)each->progress_outstanding();
  if (fibers_.is_inside())
    fibers_.yield();
}

void pgas_run::trouble() {
  auto &random = world_.random;
  uint32_t const one = uint32_t(random.below(pes_.size())), other = other_than(one);
  if (kind_ == pgas_weather::parted) {
    parted_ = {one, other};
    for (auto const &from : pes_[one]->names)
      for (auto const &to : pes_[other]->names)
        fabric_.partition(from, to);
    for (auto &each : actors_) {
      if (way_ == pgas_way::direct)
        break;
      if (each->home->number == one)
        each->slices[other].give_up();
      if (each->home->number == other)
        each->slices[one].give_up();
    }
  }
  if (kind_ != pgas_weather::dying)
    return;
  auto &dead = *pes_[one];
  for (auto const &name : dead.names)
    fabric_.crash(name);
  dead.is_dead = true;
  for (auto &each : actors_) {
    if (each->home != &dead)
      each->slices[one].give_up();
    else
      for (auto &slice : each->slices)
        slice.give_up();
  }
}

bool pgas_run::is_troubled(uint32_t one, uint32_t other) const {
  return gives_up() || pes_[one]->is_dead || pes_[other]->is_dead ||
         std::minmax(one, other) == std::minmax(parted_.first, parted_.second);
}

bool pgas_run::was_trouble() const {
  return gives_up() || parted_.first != parted_.second ||
         std::ranges::any_of(pes_, [](auto &each) { return each->is_dead; });
}

// An operation since its last quiet was for a PE that does not answer.
bool pgas_run::is_in_trouble(const actor &self) const {
  if (self.home->is_dead || gives_up() || (self.is_sharing && was_trouble()))
    return true;
  return std::ranges::any_of(
      self.touched, [&](uint32_t target) { return is_troubled(self.home->number, target); });
}

uint32_t pgas_run::other_than(uint32_t number) {
  return uint32_t(number + world_.random.between(1, pes_.size() - 1)) % uint32_t(pes_.size());
}

std::byte *pgas_run::slice_at(uint32_t target, uint32_t writer) {
  return pes_[target]->memory.data() + sizeof(shared_words) + writer * slice_size;
}

// All memory at one moment.
void pgas_run::check_now(bool is_thorough) {
  if (!problem_.empty())
    return;
  for (auto &each : pes_) {
    if (each->is_dead)
      continue;
    for (auto &writer : actors_) {
      auto const why =
          writer->slices[each->number].check(slice_at(each->number, writer->number), is_thorough);
      if (!why.empty())
        return fail("at PE " + std::to_string(each->number) + ", of " +
                    std::to_string(writer->number) + ": " + why);
    }
  }
}

void pgas_run::check_end() {
  check_now(true);
  for (auto &each : pes_) {
    if (!each->is_dead && problem_.empty())
      check_shared(each->number);
  }
}

// The shared words contain the updates of all contexts without failures, and at most those of all
// contexts together.
void pgas_run::check_shared(uint32_t target) {
  contribution least, most;
  for (auto &each : actors_) {
    most.add(each->given[target]);
    if (is_troubled(each->home->number, target))
      continue;
    auto sure = each->given[target];
    sure.subtract(each->unsure[target]);
    least.add(sure);
  }
  auto const &words = words_at(target);
  auto const &of = shared_[target];
  auto const is_between = [&](uint64_t contribution::*which, uint64_t value, const char *name) {
    if (value < least.*which || value > most.*which) {
      fail("at PE " + std::to_string(target) + ": " + name + " " + std::to_string(value) +
           ", and not " + std::to_string(least.*which) + " to " + std::to_string(most.*which));
    }
  };
  is_between(&contribution::tickets, words.tickets, "tickets");
  is_between(&contribution::small_tickets, words.small_tickets, "small tickets");
  is_between(&contribution::added, words.added, "added");
  is_between(&contribution::guesses_won, words.guess, "guesses");
  for (size_t i = 0; i < 4; i++) {
    is_between(&contribution::sums, words.sums[i], "sums");
    is_between(&contribution::real_sums, uint64_t(words.real_sums[i]), "real sums");
  }
  if ((words.mask & least.mask) != least.mask || (words.mask & ~most.mask) != 0)
    fail("a mask is wrong");
  if (of.tickets.size() > words.tickets || of.small_tickets.size() > words.small_tickets)
    fail("more tickets than were given");
  bool const is_seen_all = of.tokens_given.size() == of.tokens_seen.size();
  if (!was_trouble() && !(is_seen_all && !of.tokens_seen.contains(words.token)))
    fail("a token is lost");
}

}  // namespace tanada::test
