// products/comex/mpi/api_memory.cc: allocation of remotely accessible memory, and mutexes.
#include <algorithm>
#include <string_view>

#include "products/comex/mpi/process.hpp"

using namespace tanada::comex;

namespace {

struct allocation {
  void *piece;
  int32_t is_ok;
};

allocation allocate_host(const char *call, engine &engine, size_t bytes) {
  allocation const allocated{engine.allocate(bytes), 1};
  if (allocated.piece != nullptr || bytes == 0)
    return allocated;
  bool const is_by_budget = engine.swapper() != nullptr && engine.free_size() >= bytes;
  if (is_by_budget)
    report_failure(call, "{}", tanada::last_message());
  else
    report_failure(call,
                   "no contiguous {} bytes are free, only {} of the heap's {} (TND_COMEX_HEAP)",
                   bytes,
                   engine.free_size(),
                   engine.heap_size());
  return {nullptr, 0};
}

allocation allocate_device(const char *call, engine &engine, size_t bytes) {
  auto *const device = engine.device();
  if (device == nullptr) {
    report_failure(
        call,
        "there is no device heap: set TND_COMEX_DEVICE_HEAP to the bytes of device memory that "
        "each process may allocate");
    return {nullptr, 0};
  }
  allocation const allocated{device->allocate(bytes), 1};
  if (allocated.piece != nullptr || bytes == 0)
    return allocated;
  report_failure(
      call,
      "no contiguous {} bytes are free, only {} of the {} on the device (TND_COMEX_DEVICE_HEAP)",
      bytes,
      device->free_size(),
      device->size());
  return {nullptr, 0};
}

allocation refuse_device(const char *call, const char *device) {
  report_failure(
      call,
      "there is no memory device \"{}\": use \"dram\" for host and \"gpu\" for GPU memory",
      device);
  return {nullptr, 0};
}

// Allocates on all ranks of the group, or on no rank.
template <class Give>
int allocate(const char *call, void **ptr_arr, comex_group_t handle, Give &&give) {
  return guarded(call, [&](process &self) {
    auto const &among = group_of(self, call, handle);
    allocation const contribution = give(*self.engine);
    std::vector<allocation> allocations(among.world.size());
    gather(self, call, among, &contribution, allocations.data(), sizeof contribution);
    if (std::any_of(allocations.begin(), allocations.end(), [](const allocation &entry) {
          return entry.is_ok == 0;
        })) {
      if (contribution.piece != nullptr)
        self.engine->release(contribution.piece);
      return COMEX_FAILURE;
    }
    for (size_t i = 0; i < allocations.size(); i++)
      ptr_arr[i] = allocations[i].piece;
    return COMEX_SUCCESS;
  });
}

int release(const char *call, void *ptr, comex_group_t handle) {
  return guarded(call, [&](process &self) {
    barrier(self, call, handle);  // wait until no rank uses it any more
    if (ptr != nullptr && !self.engine->release(ptr))
      fatal(call, "{} was not allocated by comex_malloc", ptr);
    return COMEX_SUCCESS;
  });
}

// The mutex, or nullopt after an error message.
std::optional<engine::mutex> find_mutex(process &self, const char *call, int mutex, int proc) {
  auto const &counts = self.mutex_counts;
  if (proc < 0 || size_t(proc) >= counts.size() || mutex < 0 || mutex >= counts[size_t(proc)]) {
    report_failure(call, "there is no mutex {} of process {}", mutex, proc);
    return std::nullopt;
  }
  return engine::mutex{uint32_t(mutex), proc};
}

int with_mutex(const char *call,
               tanada::status (engine::*act)(const engine::mutex &),
               int mutex,
               int proc) {
  return guarded(call, [&](process &self) {
    auto const mutex_id = find_mutex(self, call, mutex, proc);
    if (!mutex_id)
      return COMEX_FAILURE;
    require_ok(call, ((*self.engine).*act)(*mutex_id));
    return COMEX_SUCCESS;
  });
}

}  // namespace

extern "C" {

int comex_malloc(void **ptr_arr, size_t bytes, comex_group_t group) {
  constexpr const char *call = "comex_malloc";
  return allocate(
      call, ptr_arr, group, [&](engine &engine) { return allocate_host(call, engine, bytes); });
}

int comex_malloc_mem_dev(void **ptr_arr, size_t bytes, comex_group_t group, const char *device) {
  constexpr const char *call = "comex_malloc_mem_dev";
  std::string_view const name{device == nullptr ? "" : device};
  return allocate(call, ptr_arr, group, [&](engine &engine) {
    if (name.empty() || name == "dram" || name == "host")
      return allocate_host(call, engine, bytes);
    return name == "gpu" ? allocate_device(call, engine, bytes) : refuse_device(call, device);
  });
}

int comex_free(void *ptr, comex_group_t group) {
  return release("comex_free", ptr, group);
}
int comex_free_dev(void *ptr, comex_group_t group) {
  return release("comex_free_dev", ptr, group);
}

void *comex_malloc_local(size_t bytes) {
  return guarded("comex_malloc_local", [&](process &self) { return self.engine->allocate(bytes); });
}

int comex_free_local(void *ptr) {
  return guarded("comex_free_local", [&](process &self) {
    if (ptr != nullptr && !self.engine->release(ptr))
      fatal("comex_free_local", "{} was not allocated by comex_malloc_local", ptr);
    return COMEX_SUCCESS;
  });
}

int comex_create_mutexes(int num) {
  constexpr const char *call = "comex_create_mutexes";
  return guarded(call, [&](process &self) {
    if (num < 0 || uint32_t(num) > engine::mutex_count_max) {
      fatal(call, "{} mutexes: a process can have 0 to {}", num, engine::mutex_count_max);
    }
    if (!self.mutex_counts.empty())
      fatal(call, "mutexes exist already: call comex_destroy_mutexes first");
    int32_t const own_count = num;
    std::vector<int32_t> counts(size_t(self.engine->count()));
    gather(self,
           call,
           group_of(self, call, COMEX_GROUP_WORLD),
           &own_count,
           counts.data(),
           sizeof own_count);
    self.mutex_counts = std::move(counts);
    return COMEX_SUCCESS;
  });
}

int comex_destroy_mutexes(void) {
  constexpr const char *call = "comex_destroy_mutexes";
  return guarded(call, [&](process &self) {
    if (self.mutex_counts.empty())
      fatal(call, "there are no mutexes");
    if (self.engine->holds_mutexes())
      fatal(call, "this process still holds a mutex");
    barrier(self, call, COMEX_GROUP_WORLD);
    self.mutex_counts.clear();
    return COMEX_SUCCESS;
  });
}

int comex_lock(int mutex, int proc) {
  return with_mutex("comex_lock", &engine::lock, mutex, proc);
}
int comex_unlock(int mutex, int proc) {
  return with_mutex("comex_unlock", &engine::unlock, mutex, proc);
}

}  // extern "C"
