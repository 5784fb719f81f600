// Device memory that no queue here reaches, and calls of who is elsewhere: who has some opens a
// stager, and so do all others.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/log.hpp"
#include "onesided/job/job_inside.hpp"

namespace tanada::pgas {
namespace {

// Of the staging area: large enough for the fabric, small enough that its copies and the device's
// go on side by side.
constexpr size_t slot_size =
    size_t{512}
    << 10;  // of less, devices and fabrics wait for one another more often than they work

struct staging_contact {
  std::array<char, 64> provider{};
  stager::contact where{};
};

}  // namespace

// Collective where there are devices, or calls.
status job::start_staging() {
  if (options_.calls != nullptr && !is_one_node())
    return open_staging();
  if (options_.device == nullptr)
    return status::ok;
  auto const &reached = inside_->devices;
  uint32_t const needs =
      std::any_of(reached.begin(), reached.end(), [](auto *each) { return each == nullptr; });
  TND_TRY(launcher_.publish("pgas.reach", std::as_bytes(std::span{&needs, 1})));
  TND_TRY(launcher_.exchange(options_.timeout_ns));
  bool is_needed = false;
  for (pe_index pe = 0; pe < count(); pe++) {
    auto found = launcher_.lookup(pe, "pgas.reach");
    if (!found.ok())
      return found.error();
    is_needed |= !found.value().empty() && found.value()[0] != std::byte{0};
  }
  return is_needed ? open_staging() : status::ok;
}

// The area, of pages that take memory once they are used.
result<std::byte *> job::allocate_staging(size_t size) {
  if (options_.device != nullptr) {
    auto area = options_.device->allocate_host(size);
    if (!area.ok())
      return area.error();
    return static_cast<std::byte *>(area.value());
  }
  void *const area =
      std::aligned_alloc(large_page, (size + large_page - 1) / large_page * large_page);
  if (area == nullptr)
    return fail(status::no_memory,
                "no %zu bytes for what is under way to other nodes (TND_PGAS_STAGING)", size);
  return static_cast<std::byte *>(area);
}

// What the fabric is told of the device's memory; nothing: it is staged.
//
// Of a GPU's memory only a network card is trusted: who copies by a processor (tcp, shm) does so by
// CUDA's default stream, which waits for the program's kernels, and those may wait for what is to
// be copied.
port::fabric_memory job::heap_view(const port::fabric_endpoint &endpoint) const {
  auto const *const device = options_.device;
  if (device == nullptr || options_.devices_by == device_way::staged)
    return {};
  auto const &fabric = endpoint.properties();
  bool const is_asked = options_.devices_by == device_way::direct;
  bool const is_safe = !device->info().is_cuda || fabric.path == port::fabric_path::rdma;
  if (!is_asked && !is_safe)
    return {};
  if (device->info().is_cuda && !fabric.has_cuda) {
    if (is_asked)
      log(log_level::warning, "pgas: fabric %s takes no memory of a GPU: it is staged",
          inside_->provider.c_str());
    return {};
  }
  auto view = device->fabric_view(inside_->device_own.addr,
                                  options_.device_control_size + options_.device_heap_size);
  if (view.ok())
    return view.value();
  if (is_asked)
    log(log_level::warning, "pgas: memory of PE %d's device is staged: %s", me(),
        last_message().c_str());
  return {};
}

status job::open_staging() {
  auto *const device = options_.device;
  bool const is_staged = options_.devices_by == device_way::staged;
  auto opened = open_endpoint(device != nullptr && device->info().is_cuda && !is_staged);
  if (!opened.ok())
    return opened.error();
  auto queue = device_queue_open();
  if (!queue.ok())
    return queue.error();
  size_t const size = std::max(options_.staging_size, 2 * slot_size);
  auto area = allocate_staging(size);
  if (!area.ok())
    return area.error();
  inside_->staging_area = area.value();
  auto const view = heap_view(*opened.value());
  // The segment: the control memory, which kernels signal in, and the heap.
  std::span<std::byte> const memory{
      static_cast<std::byte *>(inside_->device_own.addr),
      device == nullptr ? 0 : options_.device_control_size + options_.device_heap_size};
  stager::options const chosen{
      .timeout_ns = options_.timeout_ns,
      .time = time_,
      .attend = [this] { attend(); },
      .is_device_memory =
          [device](const void *addr) {
            return device != nullptr && device->is_device_memory(addr);
          },
      .lost = [this] { return inside_->is_finishing.load() ? pe_index{-1} : launcher_.lost(); },
      .changed = [this, memory](size_t at, size_t many) { ring(me(), memory.data() + at, many); },
      .is_crowded = is_crowded_,
      .heap = memory,
      .area = {area.value(), size},
      .slot_size = slot_size,
      .calls = options_.calls,
      .heap_view = view,
      .settle =
          [device] {
            return device->fabric_settle();
          }};
  auto made = stager::create(std::move(opened).value(), std::move(queue).value(), me(), chosen);
  if (!made.ok())
    return made.error();
  if (view.addr != nullptr && !made.value()->is_direct()) {
    log(log_level::warning, "pgas: memory of PE %d's device is staged: the fabric has refused it",
        me());
  }
  staging_contact mine{.provider = {}, .where = made.value()->own()};
  inside_->provider.copy(mine.provider.data(), mine.provider.size() - 1);
  TND_TRY(launcher_.publish("pgas.staging", std::as_bytes(std::span{&mine, 1})));
  TND_TRY(launcher_.exchange(options_.timeout_ns));
  std::vector<stager::contact> everybodys;
  for (pe_index pe = 0; pe < count(); pe++) {
    auto found = launcher_.lookup(pe, "pgas.staging");
    if (!found.ok())
      return found.error();
    staging_contact contact;
    if (found.value().size() != sizeof contact)
      return fail(status::protocol, "PE %d runs another version of the library", pe);
    std::memcpy(&contact, found.value().data(), sizeof contact);
    contact.where.address.size =
        std::min(contact.where.address.size, contact.where.address.bytes.size());
    if (contact.provider != mine.provider) {
      return fail(status::invalid, "PE %d has chosen another fabric than %s: set TND_PGAS_FABRIC",
                  pe, inside_->provider.c_str());
    }
    everybodys.push_back(contact.where);
  }
  TND_TRY(made.value()->join(everybodys));
  inside_->staging = std::move(made).value();
  inside_->staging->start();
  answers_ = true;
  if (device != nullptr)
    has_both_ = true;  // who waits is woken by our own thread, too
  return launcher_.barrier(
      options_.timeout_ns);  // nobody says anything to who does not know him yet
}

void job::close_staging() noexcept {
  inside_->is_device_busy = inside_->staging && !inside_->staging->stop();
  inside_->staging.reset();
  if (inside_->is_device_busy) {
    log(log_level::warning,
        "pgas: the device of PE %d may still be at memory of the job, which is kept", me());
  } else if (inside_->staging_area != nullptr && options_.device != nullptr) {
    options_.device->free_host(inside_->staging_area);
  } else {
    std::free(inside_->staging_area);
  }
  inside_->staging_area = nullptr;
}

stager *job::staging() const noexcept {
  return inside_->staging.get();
}

}  // namespace tanada::pgas
