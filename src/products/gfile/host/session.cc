// products/gfile/host/session.cc: creates an instance's parts, waits for kernels, shuts down.
#include "products/gfile/host/session.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include <unistd.h>

#include "core/base/assert.hpp"
#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "seams/os/signals_blocked.hpp"
#include "seams/os/thread.hpp"

#include <tanada/status.h>

namespace tanada::gfile {
namespace {

constexpr uint64_t exit_limit_ns = 10'000'000'000;
constexpr uint32_t open_read_size_max = 64u << 10;
constexpr uint64_t list_area_size = 128u << 10;
constexpr uint64_t list_areas_size_max = 32u << 20;
constexpr uint64_t list_tier_divisor =
    4;  // the areas have at most this part of the host tier's size

// Bytes of the table of a tier.
uint64_t table_size(tier::geometry shape) {
  tier::table_sizes const sizes = tier::sizes_of(shape);
  return sizes.entries + sizes.stamps + sizes.sets;
}

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
  std::unique_ptr<session> created{new session{settings, std::move(parts)}};
  created->node_ = pinning == 0 ? created->parts_.gpu->info().numa_node : -1;
  seams::memory_node_preference const node_binding{created->node_};  // host tier and mailbox
  if (status const code = created->allocate(); code != status::ok)
    return code;
  created->start();
  return created;
}

void session::start() {
  core_options const options = make_options();
  start_mappings();
  core_frames const frames = make_frames();
  server_ = std::make_unique<rpc::server>(*mail_, !is_cuda());
  core_ = std::make_unique<core>(
      options, *server_, frames, *parts_.stores, *parts_.clock, mappings_.get());
  seams::signals_blocked const
      blocked;  // a write past RLIMIT_FSIZE must return a status, not end the process
  engine_ = std::make_unique<engine>(*core_,
                                     *server_,
                                     *parts_.stores,
                                     *parts_.clock,
                                     engine_options{settings_.service_threads, node_, !is_cuda()});
}

core_options session::make_options() {
  core_options options;
  options.page_size = settings_.page_size;
  options.page_shift = page_shift();
  options.file_count_max = settings_.file_count_max;
  options.read_timeout_ns = settings_.timeout_ns;
  options.direct_min =
      is_compatible_direct_wanted() ? seams::direct_kind::compatible : seams::direct_kind::direct;
  options.maps_immediately = !is_cuda();
  options.unsent = unsent_;
  options.closes = closes_;
  options.open_read_size_max = open_read_size_max;
  options.list_areas = list_areas_;
  options.list_area_count = list_area_count_;
  options.list_page_count = list_page_count_;
  options.on_recycled = [this](uint32_t file, uint64_t closed_use, uint64_t current_use) {
    counters_.rebase(file, closed_use, current_use);
  };
  return options;
}

// Files are mapped by a thread, so not in simulations, which have no threads.
void session::start_mappings() {
  TND_ASSERT(mappings_ == nullptr && engine_ == nullptr);
  if (settings_.mapping != TND_GFILE_MAPPING_AUTO || settings_.service_threads == 0)
    return;
  uint64_t const memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t const size_max =
      settings_.mapping_size_max == 0 ? memory / 2 : settings_.mapping_size_max;
  mappings_ = std::make_unique<mappings>(
      *parts_.gpu,
      ranges_,
      nodes_,
      size_max,
      [this](const map_request &request, const map_outcome &outcome) {
        return engine_->with_core([&](core &locked) { return locked.on_mapped(request, outcome); });
      },
      [this](const map_request &request, u32 slot) {
        engine_->with_core([&](core &locked) { locked.on_mapping_lost(request, slot); });
      });
}

// The host tier and, if there is one, the direct window, into which stores may read from now on.
core_frames session::make_frames() {
  TND_ASSERT(host_frames_ != nullptr);
  core_frames frames;
  frames.host = frame_set{host_table_, host_frames_, page_shift(), 0};
  if (window_shape_.frame_count() == 0)
    return frames;
  TND_ASSERT(window_frames_ != nullptr && !window_table_.empty());
  auto const table = tier::table_over<simt::scope::system>(
      window_table_.data(), window_shape_, tier::replacement::fifo);
  frames.window = frame_set{table, window_frames_, page_shift(), frames.host.count()};
  bool const is_host_memory = !is_cuda();
  size_t const size = size_t(window_shape_.frame_count()) * settings_.page_size;
  parts_.stores->attach({reinterpret_cast<std::byte *>(window_frames_),
                         size,
                         is_host_memory,
                         &parts_.gpu->direct_files()},
                        is_compatible_direct_wanted());
  return frames;
}

uint32_t session::page_shift() const {
  return uint32_t(std::countr_zero(settings_.page_size));
}

bool session::is_compatible_direct_wanted() const {
  return settings_.direct == TND_GFILE_DIRECT_ON;
}

status session::allocate_device(void *&addr, uint64_t size, const char *purpose, bool zero) {
  auto allocated = parts_.gpu->allocate_device(size);
  if (!allocated.ok())
    return fail(
        allocated.error(), "cannot allocate {} bytes of device memory for the {}", size, purpose);
  addr = allocated.value();
  device_memory_.push_back(addr);
  return zero ? parts_.gpu->fill_device(addr, 0, size) : status::ok;
}

status session::allocate_host(void *&addr, uint64_t size, const char *purpose) {
  auto allocated = parts_.gpu->allocate_host(size);
  if (!allocated.ok())
    return fail(allocated.error(),
                "cannot allocate {} bytes of mapped host memory for the {}",
                size,
                purpose);
  addr = allocated.value();
  host_memory_.push_back(addr);
  return status::ok;
}

// `array`: `count` elements of zeroed device memory.
template <class Element>
status session::allocate_array(Element *&array, uint64_t count, const char *purpose) {
  void *memory = nullptr;
  TND_TRY(allocate_device(memory, sizeof(Element) * count, purpose, true));
  array = static_cast<Element *>(memory);
  return status::ok;
}

// `record`: a structure or array of `size` bytes in mapped host memory.
template <class Record>
status session::allocate_mapped(Record *&record, uint64_t size, const char *purpose) {
  void *memory = nullptr;
  TND_TRY(allocate_host(memory, size, purpose));
  record = static_cast<Record *>(memory);
  return status::ok;
}

// Kernels load them together: see tables_of().
static_assert(offsetof(device_state, nodes) % 16 == 0 &&
              offsetof(device_state, file_count) == offsetof(device_state, nodes) + sizeof(u64));

// Allocate all memory, and copy the addresses to the device.
status session::allocate() {
  device_state image{};
  image.page_size = settings_.page_size;
  image.page_shift = page_shift();
  image.file_count = settings_.file_count_max;
  TND_TRY(allocate_window());
  TND_TRY(allocate_tiers(image));
  TND_TRY(allocate_device_arrays(image));
  TND_TRY(allocate_host_records(image));
  TND_TRY(allocate_list_areas(image));
  image.window_frames = window_frames_;
  TND_TRY(allocate_array(state_, 1, "state"));
  return parts_.gpu->copy_to_device(state_, &image, sizeof image);
}

status session::allocate_tiers(device_state &image) {
  auto const policy = tier::replacement(settings_.replacement);
  tier::geometry const device_shape = shape_of(settings_.device_tier_size);
  tier::geometry const host_shape = shape_of(settings_.host_tier_size);
  void *device_frames = nullptr;
  void *device_table = nullptr;
  void *table = nullptr;
  TND_TRY(allocate_device(device_frames,
                          uint64_t(device_shape.frame_count()) * settings_.page_size,
                          "device tier",
                          false));
  TND_TRY(allocate_device(device_table, table_size(device_shape), "device tier's table", true));
  TND_TRY(allocate_mapped(
      host_frames_, uint64_t(host_shape.frame_count()) * settings_.page_size, "host tier"));
  TND_TRY(allocate_host(table, table_size(host_shape), "host tier's table"));
  TND_TRY(allocate_array(image.gmap_counts, device_shape.frame_count(), "mapped pages"));
  host_table_ = tier::table_over<simt::scope::system>(table, host_shape, policy);
  image.device_table = tier::table_over<simt::scope::device>(device_table, device_shape, policy);
  image.device_frames = static_cast<u8 *>(device_frames);
  image.host_table = host_table_;
  image.host_frames = host_frames_;
  return status::ok;
}

status session::allocate_device_arrays(device_state &image) {
  uint32_t const file_count = settings_.file_count_max;
  TND_TRY(allocate_array(image.ring.slots, 1, "request slots"));
  TND_TRY(allocate_array(image.descriptors, file_count, "descriptors"));
  TND_TRY(allocate_array(image.buckets, file_count, "descriptors"));
  TND_TRY(allocate_array(nodes_, file_count, "files"));
  TND_TRY(allocate_array(ranges_, mapped_range_count, "mapped files"));
  TND_TRY(allocate_array(image.counts, counters_.counts_size() / sizeof(counters), "counters"));
  TND_TRY(
      allocate_array(image.waits, device_counters::waits_size() / sizeof(latencies), "counters"));
  static_assert(device_counters::waits_size() % sizeof(latencies) == 0);
  counters_.set_arrays(image.counts, image.waits);
  image.nodes = nodes_;
  image.mapped_ranges = ranges_;
  return status::ok;
}

status session::allocate_host_records(device_state &image) {
  TND_TRY(allocate_mapped(mail_, sizeof(rpc::mailbox), "requests"));
  TND_TRY(allocate_mapped(fault_, sizeof(fault_record), "fault record"));
  TND_TRY(allocate_mapped(unsent_, sizeof(unsent_closes) * settings_.file_count_max, "closes"));
  TND_TRY(allocate_mapped(closes_, sizeof(close_list), "closes"));
  image.ring.mail = mail_;
  image.fault = fault_;
  image.unsent = unsent_;
  image.closes = closes_;
  return status::ok;
}

// The areas into which the pages of lists are read. Lists of fewer than two pages are of no use.
status session::allocate_list_areas(device_state &image) {
  uint64_t const page_count =
      std::min<uint64_t>(list_area_size / settings_.page_size, list_page_count_max);
  if (page_count < 2)
    return status::ok;
  uint64_t const area_size = page_count * settings_.page_size;
  uint64_t const size_max =
      std::min(list_areas_size_max, settings_.host_tier_size / list_tier_divisor);
  list_page_count_ = uint32_t(page_count);
  list_area_count_ = uint32_t(std::max<uint64_t>(size_max / area_size, 1));
  TND_TRY(allocate_mapped(list_areas_, list_area_count_ * area_size, "lists of pages"));
  image.list_areas = list_areas_;
  image.list_page_count = list_page_count_;
  return status::ok;
}

// The frames of a tier of `size` bytes: one at least.
tier::geometry session::shape_of(uint64_t size) const {
  uint64_t const count = std::max<uint64_t>(size / settings_.page_size, 1);
  return tier::geometry_of(uint32_t(std::min<uint64_t>(count, 0x7fffffff)));
}

// Allocate the direct window, which stores may fill. Some of them can where the device's own direct
// reads are not available.
status session::allocate_window() {
  if (settings_.direct == TND_GFILE_DIRECT_OFF)
    return status::ok;
  // While kernels run, the first preparation would wait for their end.
  (void)parts_.gpu->direct_files().prepare(is_compatible_direct_wanted());
  window_shape_ = tier::geometry_of(
      uint32_t(std::max<uint64_t>(settings_.direct_window_size / settings_.page_size, 1)));
  void *frames = nullptr;
  TND_TRY(allocate_device(
      frames, uint64_t(window_shape_.frame_count()) * settings_.page_size, "direct window", false));
  window_frames_ = static_cast<u8 *>(frames);
  window_table_.assign(table_size(window_shape_) / sizeof(u64), 0);
  return status::ok;
}

tnd_gfile_ref session::ref() const {
  return {state_, settings_.timeout_ns};
}

status session::wait(uint64_t timeout_ns) {
  std::vector<mappings::retired_slot> retired;
  if (mappings_ != nullptr)
    retired = mappings_->retired_slots();
  uint64_t const limit_ns = std::min(timeout_ns, settings_.timeout_ns);
  TND_TRY(parts_.gpu->synchronize(
      seams::deadline_after(seams::monotonic_clock().now_ns(), timeout_ns)));
  engine_->finish_closes(limit_ns, limit_ns == settings_.timeout_ns);
  if (mappings_ != nullptr)
    mappings_->collect(retired);
  status const code = report_error(status::ok);
  if (code == status::ok)
    report_fault();
  return code;
}

// Report the first failed call, because a kernel may ignore its status.
void session::report_fault() {
  static constexpr const char *calls[] = {"a call",
                                          "gopen",
                                          "gread",
                                          "gwrite",
                                          "gclose",
                                          "gfstat",
                                          "gunlink",
                                          "gftruncate",
                                          "gfsync",
                                          "gprefetch",
                                          "gmap"};
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  get_fault(fault);
  if (fault.status == TND_OK || fault_reported_.exchange(true))
    return;
  char text[sizeof fault.url + 256];
  std::snprintf(
      text,
      sizeof text,
      "%s of \"%s\" failed in a kernel: %s, first in thread %u of block %llu (tnd_gfile_get_fault)",
      calls[fault.site < std::size(calls) ? fault.site : 0],
      fault.url,
      tnd_status_name(fault.status),
      fault.thread,
      (unsigned long long)fault.block);
  set_last_message(text);
  log(log_level::info, "{}", text);
}

// Return the first write-back error that no call has returned; the log already has its file and
// offset. Otherwise return `fallback`, whose text is the last message. A write-back error comes
// first: a timed-out operation may still complete, but unwritten data are lost. device_lost always
// stays the status.
status session::report_error(status fallback) {
  std::string const message =
      fallback == status::ok ? "; the log names the file" : "; also: " + last_message();
  status const code = engine_->with_core([](core &locked) { return locked.take_error(); });
  if (code == status::ok)
    return fallback;
  set_last_message(std::string("data that kernels wrote did not reach its store: ") +
                   tnd_status_name(tnd_status(code)) + message);
  if (fallback != status::ok)
    log(log_level::error, "{}", last_message());
  return fallback == status::device_lost ? fallback : code;
}

status session::shut_down() {
  uint64_t const deadline_ns = seams::deadline_after(parts_.clock->now_ns(), settings_.timeout_ns);
  status const kernels = parts_.gpu->synchronize(
      seams::deadline_after(seams::monotonic_clock().now_ns(), settings_.timeout_ns));
  must_leak_ = kernels == status::timed_out || kernels == status::device_lost;
  if (kernels == status::timed_out)
    return report_error(
        fail(kernels, "kernels still running after {:.1f} s", double(settings_.timeout_ns) / 1e9));
  if (status const flushed = engine_->shut_down(deadline_ns); flushed != status::ok) {
    must_leak_ = true;
    return report_error(
        fail(flushed, "write-back and close of all files did not finish within the timeout"));
  }
  return report_error(kernels);
}

void session::flush_at_exit() {
  auto const unwritten = [this] {
    return engine_->with_core([](core &locked) { return locked.unwritten(); });
  };
  std::vector<unwritten_file> const unwritten_files = unwritten();
  if (unwritten_files.empty())
    return;
  uint64_t const limit_ns = std::min(settings_.timeout_ns, exit_limit_ns);
  uint64_t const deadline_ns = seams::deadline_after(parts_.clock->now_ns(), limit_ns);
  status code =
      parts_.gpu->synchronize(seams::deadline_after(seams::monotonic_clock().now_ns(), limit_ns));
  if (status const flushed = engine_->shut_down(deadline_ns); flushed != status::ok)
    code = flushed;
  uint64_t pages = 0;
  for (unwritten_file const &file : unwritten())
    pages += file.page_count;
  status const lost = engine_->with_core([](core &locked) { return locked.take_error(); });
  if (code == status::ok && lost == status::ok)
    return;
  log(log_level::error,
      "the process ends without gfinalize, and data of gwrite are lost ({}): {} files, the first "
      "is \"{}\"; {} pages of {} bytes were not written; call ghandle and gfinalize, and check "
      "their status",
      tnd_status_name(tnd_status(lost != status::ok ? lost : code)),
      unwritten_files.size(),
      unwritten_files.front().url,
      pages,
      settings_.page_size);
}

status session::get_statistics(tnd_gfile_statistics &statistics) {
  uint32_t used_count = 0;
  core_statistics const host = engine_->with_core([&](core &locked) {
    used_count = locked.file_used_count();
    return locked.statistics();
  });
  tnd_gfile_statistics result = TND_GFILE_STATISTICS_INIT;
  TND_TRY(counters_.add_to(result, used_count));
  result.is_cuda = is_cuda() ? 1 : 0;
  result.store_reads = host.store_reads;
  result.store_read_size = host.store_read_size;
  result.store_writes = host.store_writes;
  result.store_write_size = host.store_write_size;
  result.requests = host.requests;
  result.evictions = host.evictions;
  result.write_errors = host.write_errors;
  statistics = result;
  return status::ok;
}

status session::get_files(std::vector<tnd_gfile_file> &listing) {
  std::vector<counters> counted;
  TND_TRY(counters_.read(counted,
                         engine_->with_core([](core &held) { return held.file_used_count(); })));
  std::vector<file_description> const files =
      engine_->with_core([](core &locked) { return locked.describe(); });
  for (file_description const &description : files) {
    counters const counts =
        description.file < counted.size() ? counted[description.file] : counters{};
    tnd_gfile_file entry{};
    entry.struct_size = sizeof entry;
    entry.path = description.path;
    entry.opens = description.opens;
    entry.write_opens = description.write_opens;
    entry.size = description.size;
    entry.device_hits = counts.device_hits;
    entry.host_hits = counts.host_hits;
    entry.mapped_copies = counts.mapped_copies;
    entry.direct_copies = counts.direct_copies;
    entry.misses = counts.misses;
    entry.read_size = counts.read_size;
    entry.write_size = counts.write_size;
    description.url.copy(entry.url, sizeof entry.url - 1);
    description.reason.copy(entry.reason, sizeof entry.reason - 1);
    listing.push_back(entry);
  }
  return status::ok;
}

void session::get_fault(tnd_gfile_fault &fault) const {
  tnd_gfile_fault recorded = TND_GFILE_FAULT_INIT;
  if (simt::system_atomic<u32>(fault_->filled).load_acquire() != 0) {
    recorded.status = simt::system_atomic<int>(fault_->code).load_relaxed();
    recorded.site = simt::system_atomic<u32>(fault_->site).load_relaxed();
    recorded.thread = simt::system_atomic<u32>(fault_->thread).load_relaxed();
    recorded.block = simt::system_atomic<u64>(fault_->block).load_relaxed();
    for (int i = 0; i < 2; i++)
      recorded.words[i] = simt::system_atomic<u64>(fault_->words[i]).load_relaxed();
    static_assert(sizeof recorded.url == sizeof fault_->url);
    std::memcpy(recorded.url, fault_->url, sizeof recorded.url - 1);
  }
  fault = recorded;
}

}  // namespace tanada::gfile
