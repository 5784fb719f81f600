// The thread that carries out kernels' requests and reports failed PEs to them.
#include "products/shmem/device_service.hpp"

#include <chrono>
#include <string_view>

#include "core/base/config.hpp"
#include "core/base/log.hpp"
#include "seams/os/thread.hpp"
#include "seams/os/yield.hpp"

namespace tanada::shmem {
namespace {

constexpr uint64_t watch_interval_ns = 10'000'000;  // between two checks for failed PEs
constexpr auto watch_interval = std::chrono::nanoseconds{watch_interval_ns};
// Time of polling the ring after a request before the thread sleeps. A program's steps are seldom
// longer where processors are idle.
constexpr uint64_t busy_ns_dedicated = 2'000'000, busy_ns_oversubscribed = 200'000;
// Of the thread, where kernels cannot wake it.
constexpr uint64_t rest_ns = 50'000;

static_assert(device_team_slots + 2 == device::team_count_max &&
              device_context_count_max == device::context_count);
static_assert(device_team_first == device::team_first &&
              device_context_first == device::context_first);
static_assert(int(device::update_kind::add) == int(seams::fabric_atomic::add) &&
              int(device::update_kind::bit_and) == int(seams::fabric_atomic::bit_and) &&
              int(device::update_kind::bit_or) == int(seams::fabric_atomic::bit_or) &&
              int(device::update_kind::bit_xor) == int(seams::fabric_atomic::bit_xor) &&
              int(device::update_kind::swap) == int(seams::fabric_atomic::swap) &&
              int(device::update_kind::compare_swap) == int(seams::fabric_atomic::compare_swap) &&
              int(device::update_kind::fetch) == int(seams::fabric_atomic::fetch));

status read_switch(const char *name, bool &value) {
  constexpr std::string_view names[] = {"off", "on"};
  uint32_t choice = value ? 1 : 0;
  TND_TRY(environment_choice(name, names, choice));
  value = choice == 1;
  return status::ok;
}

}  // namespace

status device_options::read_environment() {
  TND_TRY(environment_duration_ns("TND_SHMEM_DEVICE_TIMEOUT", timeout_ns));
  TND_TRY(read_switch("TND_SHMEM_DEVICE_DIRECT", is_direct));
  TND_TRY(read_switch("TND_SHMEM_DEVICE_STRICT", is_strict));
  return read_switch("TND_SHMEM_DEVICE_PRIVATE", takes_private);
}

device_service::device_service(onesided::job &job,
                               seams::gpu &device,
                               const device_options &options)
    : job_{job},
      gpu_{device},
      options_{options},
      context_used_(device::context_count, false),
      do_kernels_wake_{!device.info().is_cuda} {}

result<std::unique_ptr<device_service>> device_service::start(onesided::job &job,
                                                              seams::gpu &device,
                                                              const device_options &options) {
  std::unique_ptr<device_service> instance{new device_service{job, device, options}};
  TND_TRY(instance->allocate());
  TND_TRY(instance->set_view());
  TND_TRY(instance->set_first_teams());
  auto const lane = job.lane_acquire(true);
  if (!lane.ok())
    return lane.error();
  instance->lane_ = result{lane}.value();
  auto queue = job.device_queue_open();
  if (!queue.ok())
    return queue.error();
  instance->context_.emplace(
      job.map(), instance->lane_, std::move(queue).value(), false, job.staging());
  instance->server_ = std::make_unique<rpc::server>(*instance->mail_);
  instance->thread_ = std::thread{[service = instance.get()] {
    service->run();
  }};
  return instance;
}

device_service::~device_service() {
  is_ending_.store(true, std::memory_order_relaxed);
  wake_.signal();
  if (thread_.joinable())
    thread_.join();
  // Completes what kernels did not. There is nothing left to which a failure could be reported.
  if (posts_)
    static_cast<void>(perform_posts());
  if (context_)
    static_cast<void>(context_->quiet());
  context_.reset();
  if (lane_ != nullptr)
    job_.lane_release(lane_);
  for (void *const memory : device_memory_)
    gpu_.free_device(memory);
  for (void *const memory : host_memory_)
    gpu_.free_host(memory);
}

template <class T>
status device_service::allocate_zeros(T *&target, size_t count) {
  auto memory = gpu_.allocate_device(count * sizeof(T));
  if (!memory.ok())
    return memory.error();
  device_memory_.push_back(memory.value());
  target = static_cast<T *>(memory.value());
  TND_ASSERT(target != nullptr);
  return gpu_.fill_device(target, 0, count * sizeof(T));
}

// Host memory that kernels access, zeroed.
template <class T>
status device_service::allocate_mapped(T *&target) {
  auto memory = gpu_.allocate_host(sizeof(T));
  if (!memory.ok())
    return memory.error();
  host_memory_.push_back(memory.value());
  target = static_cast<T *>(memory.value());
  TND_ASSERT(target != nullptr);
  return status::ok;
}

status device_service::allocate() {
  size_t const count = size_t(job_.count());
  TND_TRY(allocate_zeros(view_.live, 1));
  TND_TRY(allocate_zeros(teams_, device::team_count_max));
  TND_TRY(allocate_zeros(contexts_, device::context_count));
  TND_TRY(allocate_zeros(team_pes_, device::team_count_max * count));
  TND_TRY(allocate_zeros(context_pes_, device::context_count * count));
  TND_TRY(allocate_zeros(view_.ring.slots, 1));
  TND_TRY(allocate_mapped(view_.fault));
  fault_ = view_.fault;
  TND_TRY(allocate_mapped(view_.ring.mail));
  mail_ = view_.ring.mail;
  TND_TRY(allocate_zeros(view_.posts.state, 1));
  TND_TRY(allocate_mapped(view_.posts.box));
  posts_.emplace(*view_.posts.box);
  return status::ok;
}

status device_service::set_view() {
  TND_TRY(set_distances());
  auto const heap = job_.device_heap();
  view_.heap = reinterpret_cast<u8 *>(heap.data());
  view_.heap_size = heap.size();
  TND_ASSERT(reinterpret_cast<u64>(heap.data()) % 16 == 0 && heap.size() % 16 == 0);
  view_.control = reinterpret_cast<u8 *>(job_.device_control(job_.me()));
  view_.box_size = device::control_shape::box_size_for(u32(job_.count()));
  view_.me = job_.me();
  view_.count = job_.count();
  view_.timeout_ns = options_.timeout_ns;
  view_.takes_private = options_.takes_private ? 1 : 0;
  view_.teams = teams_;
  view_.contexts = contexts_;
  return status::ok;
}

// Sets how far each PE's device memory, as this process maps it, is from this PE's own.
status device_service::set_distances() {
  auto *const own_control = job_.device_control(job_.me());
  std::vector<u64> distances;
  std::fill(std::begin(view_.distances),
            std::end(view_.distances),
            device::unreached);  // including numbers that no PE has
  for (onesided::pe_index pe = 0; pe < job_.count(); pe++) {
    auto *const peer_control = job_.device_control(pe);
    bool const is_mapped = peer_control != nullptr && (options_.is_direct || pe == job_.me());
    distances.push_back(is_mapped ? reinterpret_cast<u64>(peer_control) -
                                        reinterpret_cast<u64>(own_control)
                                  : device::unreached);
    if (!is_mapped)
      view_.has_unmapped = 1;
    if (size_t(pe) < device::view_pe_count)
      view_.distances[pe] = distances.back();
  }
  u64 *device_distances = nullptr;
  TND_TRY(allocate_zeros(device_distances, distances.size()));
  TND_TRY(gpu_.copy_to_device(device_distances, distances.data(), distances.size() * sizeof(u64)));
  view_.all_distances = device_distances;
  return status::ok;
}

status device_service::set_first_teams() {
  TND_ASSERT(teams_ != nullptr && contexts_ != nullptr);
  std::vector<onesided::pe_index> pes;
  for (onesided::pe_index pe = 0; pe < job_.count(); pe++)
    pes.push_back(pe);
  TND_TRY(team_set(0, {pes, int(job_.me())}));
  auto const first = context_set({pes, int(job_.me())});
  return first.ok() ? status::ok : first.error();
}

// ---- tables

status device_service::team_set(size_t index, const device_members &members) {
  TND_ASSERT(index < device::team_count_max && members.pes.size() <= size_t(job_.count()));
  int *const pes = team_pes_ + index * size_t(job_.count());
  TND_TRY(gpu_.copy_to_device(pes, members.pes.data(), members.pes.size_bytes()));
  device::team_entry entry{pes, int(members.pes.size()), members.me, 0, 0};
  bool is_identity = true;
  for (size_t i = 0; i < members.pes.size(); i++) {
    auto const pe = members.pes[i];
    if (size_t(pe) != i)
      is_identity = false;
    if (pe != job_.me() && (!options_.is_direct || job_.device_control(pe) == nullptr))
      entry.has_unmapped = 1;
  }
  if (is_identity)
    entry.world_pes = nullptr;
  if (index < device::first_team_count)
    view_.first_teams[index] = entry;
  return gpu_.copy_to_device(teams_ + index, &entry, sizeof entry);
}

// When the slot is free again, the team's words and boxes are as at the start.
status device_service::team_clear(size_t index) {
  TND_ASSERT(index >= device::first_team_count && index < device::team_count_max);
  device::control_shape const shape{u32(job_.count()), view_.box_size};
  auto const team = u32(index);
  TND_TRY(gpu_.fill_device(teams_ + index, 0, sizeof(device::team_entry)));
  TND_TRY(gpu_.fill_device(
      view_.control + shape.arrivals(team), 0, shape.arrivals(team + 1) - shape.arrivals(team)));
  TND_TRY(gpu_.fill_device(
      view_.control + shape.box(team, 0, 0), 0, shape.box(team + 1, 0, 0) - shape.box(team, 0, 0)));
  TND_TRY(gpu_.fill_device(&view_.live->blocks[index], 0, sizeof(device::block_progress)));
  return gpu_.fill_device(&view_.live->teams[index], 0, sizeof(device::team_progress));
}

result<size_t> device_service::context_set(const device_members &members) {
  TND_ASSERT(members.pes.size() <= size_t(job_.count()));
  size_t index = 0;
  while (index < context_used_.size() && context_used_[index])
    index++;
  if (index == context_used_.size()) {
    return fail(status::no_space,
                "all device contexts are in use: there can be {} at a time",
                context_used_.size() - 1);
  }
  int *const pes = context_pes_ + index * size_t(job_.count());
  TND_TRY(gpu_.copy_to_device(pes, members.pes.data(), members.pes.size_bytes()));
  device::context_entry const entry{pes, int(members.pes.size()), 0};
  TND_TRY(gpu_.copy_to_device(contexts_ + index, &entry, sizeof entry));
  context_used_[index] = true;
  return index;
}

status device_service::context_clear(size_t index) {
  TND_ASSERT(index < context_used_.size() && context_used_[index]);
  context_used_[index] = false;
  return gpu_.fill_device(contexts_ + index, 0, sizeof(device::context_entry));
}

// ---- the thread

void device_service::run() {
  using clock = std::chrono::steady_clock;
  seams::thread_leave_single_core();
  seams::thread_set_precise_sleep();
  auto const busy = std::chrono::nanoseconds{job_.is_oversubscribed() ? busy_ns_oversubscribed
                                                                      : busy_ns_dedicated};
  auto watched = clock::now(), served = watched;
  while (!is_ending_.load(std::memory_order_relaxed)) {
    auto const time = clock::now();
    if (time - watched >= watch_interval) {
      watch();
      watched = time;
    }
    u32 const ticket = wake_.ticket();
    if (view_.has_unmapped != 0 && serve())
      served = time;
    if (view_.has_unmapped != 0 && time - served < busy && seams::thread_yield())
      continue;
    wake_.wait(ticket, view_.has_unmapped != 0 && !do_kernels_wake_ ? rest_ns : watch_interval_ns);
  }
}

bool device_service::serve() {
  TND_ASSERT(server_ != nullptr);
  job_.progress();
  uint32_t handled_count = perform_posts();
  for (uint32_t share = server_->next_active_share(0); share < rpc::share_count;
       share = server_->next_active_share(share + 1)) {
    handled_count += server_->poll(share, *this);
  }
  answer_fetches();
  if (handled_count != 0)
    wake_kernels();
  return handled_count != 0;
}

// Stores a failed PE in a word of device memory that waiting kernels poll. After a fault of a
// kernel what others wait for may never come, and the host's next wait ends the job: this PE counts
// as failed then.
void device_service::watch() {
  if (has_ended_waits_)
    return;
  onesided::pe_index failed_pe = job_.failed_pe();
  if (failed_pe < 0 && __atomic_load_n(&fault().filled, __ATOMIC_ACQUIRE) != 0)
    failed_pe = job_.me();
  if (failed_pe >= 0)
    has_ended_waits_ =
        gpu_.store_word(&view_.live->failed_pe, uint64_t(failed_pe) + 1) == status::ok;
}

}  // namespace tanada::shmem
