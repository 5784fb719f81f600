// Start and end of a job.
#include "onesided/job/job.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "core/base/log.hpp"
#include "onesided/job/job_impl.hpp"
#include "seams/os/processors.hpp"
#include "seams/os/program_data.hpp"

namespace tanada::onesided {
namespace {

// Checks of a wait before it yields: about 50 us where each PE has a processor.
constexpr uint32_t spin_count_default = 2000, spin_count_oversubscribed = 20;

// PEs of one node with one user and one word share memory.
std::string node_key(const job_options &options, pe_index me) {
  std::string const prefix =
      options.node == "none" ? "pe " + std::to_string(me) : "node " + options.node;
  return prefix + '/' + std::to_string(getuid()) + '/' + seams::machine_identity();
}

result<pe_card> make_card(const job_options &options, pe_index me) {
  pe_card card;
  card.heap_size = options.heap_size;
  card.control_size = options.control_size;
  card.data_size = options.shares_program_data ? seams::program_data().size() : 0;
  if (options.device != nullptr) {
    card.device = options.device->info().is_cuda ? device_kind::cuda : device_kind::host_executor;
    card.device_size = options.device_control_size + options.device_heap_size;
    options.device->info().bus_id.copy(card.gpu.data(), card.gpu.size() - 1);
  }
  card.processors = seams::processors_allowed().words;
  seams::kernel_identity().copy(card.kernel.data(), card.kernel.size() - 1);
  std::string const word = node_key(options, me);
  if (word.size() >= card.node.size())
    return fail(status::invalid, "TND_PGAS_NODE={} is too long", options.node);
  std::memcpy(card.node.data(), word.data(), word.size());
  return card;
}

template <size_t Size>
std::string_view word_of(const std::array<char, Size> &word) noexcept {
  return {word.data(), word.size()};
}

status check_card(const pe_card &own_card, const pe_card &peer_card, pe_index pe) {
  auto const check_equal = [&](const char *quantity, uint64_t own_value, uint64_t peer_value) {
    return own_value == peer_value
               ? status::ok
               : fail(status::invalid,
                      "PE {} has {} bytes of {}, this one has {}: they must be equal",
                      pe,
                      peer_value,
                      quantity,
                      own_value);
  };
  if (own_card.version != peer_card.version)
    return fail(status::protocol, "PE {} runs another version of the library", pe);
  TND_TRY(check_equal("symmetric heap", own_card.heap_size, peer_card.heap_size));
  TND_TRY(check_equal("control memory", own_card.control_size, peer_card.control_size));
  if (own_card.device != peer_card.device) {
    auto const name = [](device_kind kind) {
      return kind == device_kind::cuda            ? "a GPU"
             : kind == device_kind::host_executor ? "the host executor"
                                                  : "no device";
    };
    return fail(status::invalid,
                "PE {} has {}, this one has {}: all must have the same",
                pe,
                name(peer_card.device),
                name(own_card.device));
  }
  TND_TRY(check_equal("device memory", own_card.device_size, peer_card.device_size));
  return check_equal(
      "global variables (is it the same program?)", own_card.data_size, peer_card.data_size);
}

}  // namespace

job::job(seams::bootstrap &launcher, const job_options &options)
    : launcher_{launcher},
      options_{options},
      map_{launcher.rank(), launcher.count()},
      time_{&seams::monotonic_clock()},
      impl_{std::make_unique<impl>()} {}

result<std::unique_ptr<job>> job::start(seams::bootstrap &launcher, const job_options &options) {
  job_options chosen = options;
  chosen.heap_size =
      (std::max<size_t>(options.heap_size, 1) + large_page - 1) / large_page * large_page;
  if (options.device != nullptr) {
    chosen.device_heap_size =
        (std::max<size_t>(options.device_heap_size, 1) + large_page - 1) / large_page * large_page;
    chosen.device_control_size =
        (options.device_control_size + large_page - 1) / large_page * large_page;
  }
  chosen.lane_count_max = std::clamp(options.lane_count_max, 1u, lane_count_cap);
  chosen.control_size = seams::pages_size(sizeof(seams::shared_alarm) + options.control_size);
  std::unique_ptr<job> instance{new job{launcher, chosen}};
  TND_TRY(instance->start_node());
  if (!instance->is_one_node())
    TND_TRY(instance->start_fabric());
  if ((options.device != nullptr || options.message_server != nullptr) && instance->count() > 1)
    TND_TRY(instance->start_staging());
  instance->start_watcher();
  return instance;
}

// A PE whose memory mapped and unmapped peers change. A responder has a thread of its own.
void job::start_watcher() {
  auto *const lane = impl_->serving_lane;
  if (!has_both_wake_sources_ || lane == nullptr)
    return;
  TND_ASSERT(alarm_ != nullptr && impl_->watcher == nullptr);
  access_watcher::callbacks const callbacks{
      .wait_for_access =
          [lane](uint64_t deadline_ns) { return lane->wait_for_access(deadline_ns); },
      .wake =
          [this] {
            alarm_->wake({});
          }};
  impl_->watcher = std::make_unique<access_watcher>(callbacks, *time_);
}

status job::start_node() {
  auto own_card = make_card(options_, me());
  if (!own_card.ok())
    return own_card.error();
  impl_->cards.resize(size_t(count()));
  impl_->cards[size_t(me())] = own_card.value();
  if (count() > 1)
    TND_TRY(exchange_cards());
  find_node_pes();
  std::string const warning = shared_gpu_warning(impl_->cards, me());
  if (!warning.empty())
    log(log_level::warning, "{}", warning);
  TND_TRY(map_node());
  return options_.device == nullptr ? status::ok : map_devices();
}

status job::exchange_cards() {
  auto &cards = impl_->cards;
  auto const own_card = cards[size_t(me())];
  TND_TRY(launcher_.publish("pgas.card", std::as_bytes(std::span{&own_card, 1})));
  TND_TRY(launcher_.exchange(options_.timeout_ns));
  for (pe_index pe = 0; pe < count(); pe++) {
    auto card = launcher_.lookup(pe, "pgas.card");
    if (!card.ok())
      return card.error();
    if (card.value().size() != sizeof(pe_card))
      return fail(status::protocol, "PE {} runs another version of the library", pe);
    std::memcpy(&cards[size_t(pe)], card.value().data(), sizeof(pe_card));
    TND_TRY(check_card(own_card, cards[size_t(pe)], pe));
  }
  return status::ok;
}

// Which PEs share memory with this one, and whether those that share processors have enough.
void job::find_node_pes() {
  TND_ASSERT(node_pes_.empty() && impl_->cards.size() == size_t(count()));
  auto const &own_card = impl_->cards[size_t(me())];
  struct machine {
    seams::processor_set processors;
    size_t pe_count = 0;
  };
  std::unordered_map<std::string_view, machine> machines;    // by the kernel's word
  std::unordered_map<std::string_view, pe_index> first_pes;  // by the node's word
  for (pe_index pe = 0; pe < count(); pe++) {
    auto const &card = impl_->cards[size_t(pe)];
    auto &pe_machine = machines[word_of(card.kernel)];
    pe_machine.processors |= seams::processor_set{card.processors};
    pe_machine.pe_count++;
    if (card.node == own_card.node)
      node_pes_.push_back(pe);
    first_pes_of_nodes_.push_back(first_pes.try_emplace(word_of(card.node), pe).first->second);
  }
  auto const is_crowded = [](const auto &entry) {
    return entry.second.pe_count > entry.second.processors.count();
  };
  is_oversubscribed_ = is_crowded(*machines.find(word_of(own_card.kernel)));
  has_oversubscribed_machine_ = std::ranges::any_of(machines, is_crowded);
  spin_count_ = is_oversubscribed_ ? spin_count_oversubscribed : spin_count_default;
}

status job::finish() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  TND_TRY(launcher_.barrier(options_.timeout_ns));
  impl_->is_finishing.store(true);
  return status::ok;
}

void job::shut_down() noexcept {
  impl_->is_finishing.store(true);
  if (impl_->watcher)
    impl_->watcher->stop();
  close_staging();
  if (impl_->serving_responder)
    impl_->serving_responder->stop();
}

job::~job() {
  impl_->watcher.reset();
  close_staging();
  if (impl_->serving_responder)
    impl_->serving_responder->stop();
  impl_->lanes.clear();
  unmap_devices();
  // The program's data stay mapped: variables are used until the process ends.
}

}  // namespace tanada::onesided
