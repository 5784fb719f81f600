#include "onesided/job/job.hpp"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "core/base/log.hpp"
#include "onesided/job/job_inside.hpp"
#include "seams/os/processors.hpp"
#include "seams/os/program_data.hpp"

namespace tanada::pgas {
namespace {

// Of a waiter, before it lets others run: some 50 us where each PE has a processor.
constexpr uint32_t looks_roomy = 2000, looks_crowded = 20;

// PEs of one machine with one user and one word share memory.
std::string node_word(const job_options &options, pe_index me) {
  std::string const own =
      options.node == "none" ? "pe " + std::to_string(me) : "node " + options.node;
  return own + '/' + std::to_string(getuid()) + '/' + port::machine_identity();
}

result<pe_card> card_of(const job_options &options, pe_index me) {
  pe_card made;
  made.heap_size = options.heap_size;
  made.control_size = options.control_size;
  made.data_size = options.shares_program_data ? port::program_data().size() : 0;
  if (options.device != nullptr) {
    made.device = options.device->info().is_cuda ? device_kind::cuda : device_kind::host_executor;
    made.device_size = options.device_control_size + options.device_heap_size;
    options.device->info().bus_id.copy(made.gpu.data(), made.gpu.size() - 1);
  }
  made.processors = port::processors_allowed().words;
  port::kernel_identity().copy(made.kernel.data(), made.kernel.size() - 1);
  std::string const word = node_word(options, me);
  if (word.size() >= made.node.size())
    return fail(status::invalid, "TND_PGAS_NODE=%s is too long", options.node.c_str());
  std::memcpy(made.node.data(), word.data(), word.size());
  return made;
}

status compare(const pe_card &mine, const pe_card &other, pe_index pe) {
  auto const same = [&](const char *what, uint64_t one, uint64_t two) {
    return one == two ? status::ok
                      : fail(status::invalid,
                             "PE %d has %" PRIu64 " bytes of %s, this one has %" PRIu64
                             ": they must be equal",
                             pe, two, what, one);
  };
  if (mine.version != other.version)
    return fail(status::protocol, "PE %d runs another version of the library", pe);
  TND_TRY(same("symmetric heap", mine.heap_size, other.heap_size));
  TND_TRY(same("control memory", mine.control_size, other.control_size));
  if (mine.device != other.device) {
    auto const name = [](device_kind kind) {
      return kind == device_kind::cuda            ? "a GPU"
             : kind == device_kind::host_executor ? "the host executor"
                                                  : "no device";
    };
    return fail(status::invalid, "PE %d has %s, this one has %s: all must have the same", pe,
                name(other.device), name(mine.device));
  }
  TND_TRY(same("device memory", mine.device_size, other.device_size));
  return same("global variables (is it the same program?)", mine.data_size, other.data_size);
}

}  // namespace

job::job(port::bootstrap &launcher, const job_options &options)
    : launcher_{launcher},
      options_{options},
      map_{launcher.rank(), launcher.count()},
      time_{&port::monotonic_clock()},
      inside_{std::make_unique<inside>()} {}

result<std::unique_ptr<job>> job::start(port::bootstrap &launcher, const job_options &options) {
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
  chosen.control_size = port::pages_size(sizeof(port::shared_alarm) + options.control_size);
  std::unique_ptr<job> made{new job{launcher, chosen}};
  TND_TRY(made->start_node());
  if (!made->is_one_node())
    TND_TRY(made->start_fabric());
  if ((options.device != nullptr || options.calls != nullptr) && made->count() > 1)
    TND_TRY(made->start_staging());
  return made;
}

status job::start_node() {
  auto mine = card_of(options_, me());
  if (!mine.ok())
    return mine.error();
  auto &cards = inside_->cards;
  cards.resize(size_t(count()));
  cards[size_t(me())] = mine.value();
  if (count() > 1) {
    TND_TRY(launcher_.publish("pgas.card", std::as_bytes(std::span{&mine.value(), 1})));
    TND_TRY(launcher_.exchange(options_.timeout_ns));
    for (pe_index pe = 0; pe < count(); pe++) {
      auto card = launcher_.lookup(pe, "pgas.card");
      if (!card.ok())
        return card.error();
      if (card.value().size() != sizeof(pe_card))
        return fail(status::protocol, "PE %d runs another version of the library", pe);
      std::memcpy(&cards[size_t(pe)], card.value().data(), sizeof(pe_card));
      TND_TRY(compare(mine.value(), cards[size_t(pe)], pe));
    }
  }
  port::processor_set processors;
  size_t pes_here = 0;
  for (pe_index pe = 0; pe < count(); pe++) {
    auto const &card = cards[size_t(pe)];
    if (card.kernel == mine.value().kernel) {
      processors |= port::processor_set{card.processors};
      pes_here++;
    }
    if (card.node == mine.value().node)
      node_pes_.push_back(pe);
  }
  is_crowded_ = pes_here > processors.count();
  looks_ = is_crowded_ ? looks_crowded : looks_roomy;
  std::string const warning = shared_gpu_warning(cards, me());
  if (!warning.empty())
    log(log_level::warning, "%s", warning.c_str());
  TND_TRY(map_node());
  return options_.device == nullptr ? status::ok : map_devices();
}

status job::finish() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  TND_TRY(launcher_.barrier(options_.timeout_ns));
  inside_->is_finishing.store(true);
  return status::ok;
}

void job::retire() noexcept {
  inside_->is_finishing.store(true);
  close_staging();
  if (inside_->answering)
    inside_->answering->stop();
}

job::~job() {
  close_staging();
  if (inside_->answering)
    inside_->answering->stop();
  inside_->lanes.clear();
  unmap_devices();
  // The program's data stay where they are: variables are used until the very end.
}

}  // namespace tanada::pgas
