#include "products/gfile/host/session.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include <unistd.h>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"
#include "seams/os/thread.hpp"

#include <tanada/status.h>

namespace tanada::gfile {
namespace {

constexpr uint64_t exit_limit_ns = 10'000'000'000;
constexpr uint32_t open_read_size_max = 64u << 10;

}  // namespace

session::session(const tnd_gfile_config &settings, session_parts parts)
    : settings_{settings},
      parts_{std::move(parts)},
      counters_{*parts_.gpu, settings.file_count_max} {}

session::~session() {
  if (engine_ != nullptr)
    engine_->stop();
  mappings_.reset();  // its thread calls the core
  engine_.reset();
  core_.reset();
  parts_.stores.reset();  // stores may hold handles for the window
  for (void *addr : device_memory_)
    parts_.gpu->free_device(addr);
  for (void *addr : host_memory_)
    parts_.gpu->free_host(addr);
}

result<std::unique_ptr<session>> session::create(const tnd_gfile_config &settings,
                                                 session_parts parts) {
  static constexpr std::string_view choices[] = {"on", "off"};
  uint32_t pinning = 0;
  TND_TRY(environment_choice("TND_GFILE_PINNING", choices, pinning));
  std::unique_ptr<session> made{new session{settings, std::move(parts)}};
  made->node_ = pinning == 0 ? made->parts_.gpu->info().numa_node : -1;
  port::memory_near_node const near{made->node_};  // host tier and mailbox
  if (status const code = made->allocate(); code != status::ok)
    return code;
  made->start();
  return made;
}

void session::start() {
  bool const compatible_too = settings_.direct == TND_GFILE_DIRECT_ON;
  core_options options;
  options.page_size = settings_.page_size;
  options.page_shift = uint32_t(std::countr_zero(settings_.page_size));
  options.file_count_max = settings_.file_count_max;
  options.read_timeout_ns = settings_.timeout_ns;
  options.direct_min = compatible_too ? port::direct_kind::compatible : port::direct_kind::direct;
  options.maps_at_once = !is_cuda();
  options.unsent = unsent_;
  options.closes = closes_;
  options.open_read_size_max = open_read_size_max;
  options.on_recycled = [this](uint32_t file, uint64_t closed, uint64_t now) {
    counters_.rebase(file, closed, now);
  };
  if (settings_.mapping == TND_GFILE_MAPPING_AUTO && settings_.service_threads > 0) {
    uint64_t const memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
    uint64_t const size_max =
        settings_.mapping_size_max == 0 ? memory / 2 : settings_.mapping_size_max;
    mappings_ = std::make_unique<mappings>(
        *parts_.gpu, ranges_, nodes_, size_max,
        [this](const map_request &asked, const map_outcome &made) {
          return engine_->with_core([&](core &held) { return held.on_mapped(asked, made); });
        },
        [this](const map_request &asked, u32 slot) {
          engine_->with_core([&](core &held) { held.on_mapping_lost(asked, slot); });
        });
  }
  core_frames frames;
  frames.host = frame_set{host_table_, host_frames_, options.page_shift, 0};
  if (window_shape_.frame_count() > 0) {
    auto const table = tier::table_over<simt::scope::system>(window_table_.data(), window_shape_,
                                                             tier::replacement::fifo);
    frames.window = frame_set{table, window_frames_, options.page_shift, frames.host.count()};
    bool const is_host_memory = !is_cuda();
    size_t const size = size_t(window_shape_.frame_count()) * settings_.page_size;
    parts_.stores->attach({reinterpret_cast<std::byte *>(window_frames_), size, is_host_memory,
                           &parts_.gpu->direct_files()},
                          compatible_too);
  }
  server_ = std::make_unique<rpc::server>(*mail_);
  core_ = std::make_unique<core>(options, *server_, frames, *parts_.stores, *parts_.clock,
                                 mappings_.get());
  port::signals_blocked const
      blocked;  // a write past RLIMIT_FSIZE must be a status and not the end of the process
  engine_ = std::make_unique<engine>(*core_, *server_, *parts_.stores, *parts_.clock,
                                     engine_options{settings_.service_threads, node_});
}

status session::allocate_device(void *&addr, uint64_t size, const char *what, bool zero) {
  auto made = parts_.gpu->allocate_device(size);
  if (!made.ok())
    return fail(made.error(), "no %llu bytes of device memory for the %s", (unsigned long long)size,
                what);
  addr = made.value();
  device_memory_.push_back(addr);
  return zero ? parts_.gpu->fill_device(addr, 0, size) : status::ok;
}

status session::allocate_host(void *&addr, uint64_t size, const char *what) {
  auto made = parts_.gpu->allocate_host(size);
  if (!made.ok())
    return fail(made.error(), "no %llu bytes of host memory that kernels reach for the %s",
                (unsigned long long)size, what);
  addr = made.value();
  host_memory_.push_back(addr);
  return status::ok;
}

status session::allocate() {
  auto const frames_in = [&](uint64_t size) {
    return uint32_t(
        std::min<uint64_t>(std::max<uint64_t>(size / settings_.page_size, 1), 0x7fffffff));
  };
  TND_TRY(allocate_window());
  auto const policy = tier::replacement(settings_.replacement);
  tier::geometry const device_shape = tier::geometry_of(frames_in(settings_.device_tier_size));
  tier::geometry const host_shape = tier::geometry_of(frames_in(settings_.host_tier_size));
  auto const table_size = [](tier::geometry shape) {
    tier::table_sizes const sizes = tier::sizes_of(shape);
    return sizes.entries + sizes.stamps + sizes.sets;
  };
  void *device_table, *device_frames, *table, *host_frames, *desk, *descriptors, *nodes, *ranges,
      *counts, *waits, *state, *gmap_counts;
  void *buckets;
  void *mail, *fault, *unsent, *closes;
  TND_TRY(allocate_device(device_frames, uint64_t(device_shape.frame_count()) * settings_.page_size,
                          "device tier", false));
  TND_TRY(allocate_device(device_table, table_size(device_shape), "device tier's table", true));
  TND_TRY(allocate_host(host_frames, uint64_t(host_shape.frame_count()) * settings_.page_size,
                        "host tier"));
  TND_TRY(allocate_host(table, table_size(host_shape), "host tier's table"));
  TND_TRY(
      allocate_device(gmap_counts, sizeof(u32) * device_shape.frame_count(), "mapped pages", true));
  TND_TRY(allocate_device(desk, sizeof(rpc::desk), "request slots", true));
  TND_TRY(allocate_device(descriptors, sizeof(descriptor) * settings_.file_count_max, "descriptors",
                          true));
  TND_TRY(allocate_device(buckets, sizeof(descriptor_bucket) * settings_.file_count_max,
                          "descriptors", true));
  TND_TRY(allocate_device(nodes, sizeof(node) * settings_.file_count_max, "files", true));
  TND_TRY(allocate_device(ranges, sizeof(mapped_range) * mapped_range_count, "mapped files", true));
  TND_TRY(allocate_device(counts, counters_.counts_size(), "counters", true));
  TND_TRY(allocate_device(waits, device_counters::waits_size(), "counters", true));
  TND_TRY(allocate_device(state, sizeof(device_state), "state", true));
  TND_TRY(allocate_host(mail, sizeof(rpc::mailbox), "requests"));
  TND_TRY(allocate_host(fault, sizeof(fault_record), "fault record"));
  TND_TRY(allocate_host(unsent, sizeof(unsent_closes) * settings_.file_count_max, "closes"));
  TND_TRY(allocate_host(closes, sizeof(close_list), "closes"));

  mail_ = static_cast<rpc::mailbox *>(mail);
  fault_ = static_cast<fault_record *>(fault);
  unsent_ = static_cast<unsent_closes *>(unsent);
  closes_ = static_cast<close_list *>(closes);
  counters_.place(static_cast<counters *>(counts), static_cast<latencies *>(waits));
  nodes_ = static_cast<node *>(nodes);
  ranges_ = static_cast<mapped_range *>(ranges);
  state_ = static_cast<device_state *>(state);
  host_frames_ = static_cast<u8 *>(host_frames);
  host_table_ = tier::table_over<simt::scope::system>(table, host_shape, policy);
  device_state image{};
  image.page_size = settings_.page_size;
  image.page_shift = uint32_t(std::countr_zero(settings_.page_size));
  image.device_table = tier::table_over<simt::scope::device>(device_table, device_shape, policy);
  image.host_table = host_table_;
  image.device_frames = static_cast<u8 *>(device_frames);
  image.gmap_counts = static_cast<u32 *>(gmap_counts);
  image.host_frames = host_frames_;
  image.ring = {mail_, static_cast<rpc::desk *>(desk)};
  image.descriptors = static_cast<descriptor *>(descriptors);
  image.buckets = static_cast<descriptor_bucket *>(buckets);
  image.nodes = nodes_;
  image.file_count = settings_.file_count_max;
  image.fault = fault_;
  image.unsent = unsent_;
  image.closes = closes_;
  image.counts = static_cast<counters *>(counts);
  image.waits = static_cast<latencies *>(waits);
  image.window_frames = window_frames_;
  image.mapped = ranges_;
  return parts_.gpu->copy_to_device(state_, &image, sizeof image);
}

// The direct window, where there is anybody to fill it.
status session::allocate_window() {
  if (settings_.direct == TND_GFILE_DIRECT_OFF)
    return status::ok;
  direct_offer_ = parts_.gpu->direct_files().prepare(settings_.direct == TND_GFILE_DIRECT_ON);
  if (direct_offer_.kind == port::direct_kind::none)
    return status::ok;
  window_shape_ = tier::geometry_of(
      uint32_t(std::max<uint64_t>(settings_.direct_window_size / settings_.page_size, 1)));
  void *frames = nullptr;
  TND_TRY(allocate_device(frames, uint64_t(window_shape_.frame_count()) * settings_.page_size,
                          "direct window", false));
  window_frames_ = static_cast<u8 *>(frames);
  tier::table_sizes const sizes = tier::sizes_of(window_shape_);
  window_table_.assign((sizes.entries + sizes.stamps + sizes.sets) / sizeof(u64), 0);
  return status::ok;
}

tnd_gfile_ref session::ref() const {
  return {state_, settings_.timeout_ns};
}

status session::wait(uint64_t timeout_ns) {
  std::vector<u32> const retired = mappings_ == nullptr ? std::vector<u32>{} : mappings_->retired();
  uint64_t const limit_ns = std::min(timeout_ns, settings_.timeout_ns);
  TND_TRY(
      parts_.gpu->synchronize(port::deadline_after(port::monotonic_clock().now_ns(), timeout_ns)));
  engine_->finish_closes(limit_ns, limit_ns == settings_.timeout_ns);
  if (mappings_ != nullptr)
    mappings_->collect(retired);
  status const code = report_error(status::ok);
  if (code == status::ok)
    report_fault();
  return code;
}

// Of a kernel that looks at no status nobody would learn that a call failed.
void session::report_fault() {
  static constexpr const char *calls[] = {"a call", "gopen",     "gread",   "gwrite",
                                          "gclose", "gfstat",    "gunlink", "gftruncate",
                                          "gfsync", "gprefetch", "gmap"};
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  get_fault(fault);
  if (fault.status == TND_OK || fault_reported_.exchange(true))
    return;
  char text[sizeof fault.url + 256];
  std::snprintf(
      text, sizeof text,
      "%s of \"%s\" failed in a kernel: %s, first in thread %u of block %llu (tnd_gfile_get_fault)",
      calls[fault.site < std::size(calls) ? fault.site : 0], fault.url,
      tnd_status_name(fault.status), fault.thread, (unsigned long long)fault.block);
  set_last_message(text);
  log(log_level::info, "%s", text);
}

// The first write-back error that nobody was told of; the log had its file and offset when it
// happened. Else `otherwise`, whose words are the last message: what timed out may still come, what
// was not written is lost. A lost device stays one.
status session::report_error(status otherwise) {
  std::string const message =
      otherwise == status::ok ? "; the log names the file" : "; besides, " + last_message();
  status const code = engine_->with_core([](core &held) { return held.take_error(); });
  if (code == status::ok)
    return otherwise;
  set_last_message(std::string("not all that kernels wrote has reached its store: ") +
                   tnd_status_name(tnd_status(code)) + message);
  if (otherwise != status::ok)
    log(log_level::error, "%s", last_message().c_str());
  return otherwise == status::device_lost ? otherwise : code;
}

status session::shut_down() {
  uint64_t const deadline_ns = port::deadline_after(parts_.clock->now_ns(), settings_.timeout_ns);
  status const kernels = parts_.gpu->synchronize(
      port::deadline_after(port::monotonic_clock().now_ns(), settings_.timeout_ns));
  left_behind_ = kernels == status::timed_out || kernels == status::device_lost;
  if (kernels == status::timed_out)
    return report_error(
        fail(kernels, "kernels still run after %.1f s", double(settings_.timeout_ns) / 1e9));
  if (status const flushed = engine_->shut_down(deadline_ns); flushed != status::ok) {
    left_behind_ = true;
    return report_error(
        fail(flushed, "the stores did not take all that was written and close all files in time"));
  }
  return report_error(kernels);
}

void session::flush_at_exit() {
  auto const unwritten = [this] {
    return engine_->with_core([](core &held) { return held.unwritten(); });
  };
  std::vector<unwritten_file> const before = unwritten();
  if (before.empty())
    return;
  uint64_t const limit_ns = std::min(settings_.timeout_ns, exit_limit_ns);
  uint64_t const deadline_ns = port::deadline_after(parts_.clock->now_ns(), limit_ns);
  status code =
      parts_.gpu->synchronize(port::deadline_after(port::monotonic_clock().now_ns(), limit_ns));
  if (status const flushed = engine_->shut_down(deadline_ns); flushed != status::ok)
    code = flushed;
  uint64_t pages = 0;
  for (unwritten_file const &file : unwritten())
    pages += file.page_count;
  status const lost = engine_->with_core([](core &held) { return held.take_error(); });
  if (code == status::ok && lost == status::ok)
    return;
  log(log_level::error,
      "the process ends without gfinalize, and not all that gwrite took is written (%s): of %zu "
      "files, \"%s\" first; "
      "%llu pages of %u bytes are left; call ghandle and gfinalize, and look at what they return",
      tnd_status_name(tnd_status(lost != status::ok ? lost : code)), before.size(),
      before.front().url.c_str(), (unsigned long long)pages, settings_.page_size);
}

status session::get_statistics(tnd_gfile_statistics &to) {
  uint32_t used_count = 0;
  core_statistics const host = engine_->with_core([&](core &held) {
    used_count = held.file_used_count();
    return held.statistics();
  });
  tnd_gfile_statistics all = TND_GFILE_STATISTICS_INIT;
  TND_TRY(counters_.add_to(all, used_count));
  all.is_cuda = is_cuda() ? 1 : 0;
  all.store_reads = host.store_reads;
  all.store_read_size = host.store_read_size;
  all.store_writes = host.store_writes;
  all.store_write_size = host.store_write_size;
  all.requests = host.requests;
  all.evictions = host.evictions;
  all.write_errors = host.write_errors;
  to = all;
  return status::ok;
}

status session::get_files(std::vector<tnd_gfile_file> &to) {
  std::vector<counters> counted;
  TND_TRY(counters_.read(counted,
                         engine_->with_core([](core &held) { return held.file_used_count(); })));
  std::vector<file_description> const files =
      engine_->with_core([](core &held) { return held.describe(); });
  for (file_description const &each : files) {
    counters const seen = each.file < counted.size() ? counted[each.file] : counters{};
    tnd_gfile_file one{};
    one.struct_size = sizeof one;
    one.path = each.path;
    one.opens = each.opens;
    one.write_opens = each.write_opens;
    one.size = each.size;
    one.device_hits = seen.device_hits;
    one.host_hits = seen.host_hits;
    one.mapped_copies = seen.mapped_copies;
    one.direct_copies = seen.direct_copies;
    one.misses = seen.misses;
    one.read_size = seen.read_size;
    one.write_size = seen.write_size;
    each.url.copy(one.url, sizeof one.url - 1);
    each.reason.copy(one.reason, sizeof one.reason - 1);
    to.push_back(one);
  }
  return status::ok;
}

void session::get_fault(tnd_gfile_fault &to) const {
  tnd_gfile_fault seen = TND_GFILE_FAULT_INIT;
  if (simt::system_atomic<u32>(fault_->filled).load_acquire() != 0) {
    seen.status = simt::system_atomic<int>(fault_->code).load_relaxed();
    seen.site = simt::system_atomic<u32>(fault_->site).load_relaxed();
    seen.thread = simt::system_atomic<u32>(fault_->thread).load_relaxed();
    seen.block = simt::system_atomic<u64>(fault_->block).load_relaxed();
    for (int i = 0; i < 2; i++)
      seen.words[i] = simt::system_atomic<u64>(fault_->words[i]).load_relaxed();
    static_assert(sizeof seen.url == sizeof fault_->url);
    std::memcpy(seen.url, fault_->url, sizeof seen.url - 1);
  }
  to = seen;
}

}  // namespace tanada::gfile
