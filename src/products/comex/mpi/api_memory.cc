// Memory that others reach, and mutexes.
#include <algorithm>
#include <string_view>

#include "products/comex/mpi/process.hpp"

using namespace tanada::comex;

namespace {

struct given {
  void *piece;
  int32_t is_there;
};

given give_host(const char *call, engine &engine, size_t bytes) {
  given const mine{engine.allocate(bytes), 1};
  if (mine.piece != nullptr || bytes == 0)
    return mine;
  bool const is_by_budget = engine.away() != nullptr && engine.free_size() >= bytes;
  if (is_by_budget)
    refuse_call(call, "%s", tanada::last_message().c_str());
  else
    refuse_call(call, "no piece of %zu bytes is free: %zu of the heap's %zu are (TND_COMEX_HEAP)",
                bytes, engine.free_size(), engine.heap_size());
  return {nullptr, 0};
}

given give_device(const char *call, engine &engine, size_t bytes) {
  auto *const device = engine.device();
  if (device == nullptr) {
    refuse_call(call,
                "no memory of devices was asked for: TND_COMEX_DEVICE_HEAP is to say how much each "
                "process may give");
    return {nullptr, 0};
  }
  given const mine{device->allocate(bytes), 1};
  if (mine.piece != nullptr || bytes == 0)
    return mine;
  refuse_call(
      call,
      "no piece of %zu bytes is free: %zu of the %zu on the device are (TND_COMEX_DEVICE_HEAP)",
      bytes, device->free_size(), device->size());
  return {nullptr, 0};
}

given give_unknown(const char *call, const char *device) {
  refuse_call(call, "there is no memory device \"%s\": \"dram\" is the host's, \"gpu\" a GPU's",
              device);
  return {nullptr, 0};
}

// Of all, or of none.
template <class Give>
int allocate(const char *call, void **ptr_arr, comex_group_t handle, Give &&give) {
  return guarded(call, [&](process &self) {
    auto const &among = group_of(self, call, handle);
    given const mine = give(*self.engine);
    std::vector<given> everybodys(among.world.size());
    gather(self, call, among, &mine, everybodys.data(), sizeof mine);
    if (std::any_of(everybodys.begin(), everybodys.end(),
                    [](const given &each) { return each.is_there == 0; })) {
      if (mine.piece != nullptr)
        self.engine->release(mine.piece);
      return COMEX_FAILURE;
    }
    for (size_t i = 0; i < everybodys.size(); i++)
      ptr_arr[i] = everybodys[i].piece;
    return COMEX_SUCCESS;
  });
}

int release(const char *call, void *ptr, comex_group_t handle) {
  return guarded(call, [&](process &self) {
    barrier(self, call, handle);  // nobody uses it any more
    if (ptr != nullptr && !self.engine->release(ptr))
      fatal(call, "%p is no memory that comex_malloc gave", ptr);
    return COMEX_SUCCESS;
  });
}

// The mutex, or nothing, with a line.
std::optional<engine::mutex> find_mutex(process &self, const char *call, int mutex, int proc) {
  auto const &counts = self.mutex_counts;
  if (proc < 0 || size_t(proc) >= counts.size() || mutex < 0 || mutex >= counts[size_t(proc)]) {
    refuse_call(call, "there is no mutex %d of process %d", mutex, proc);
    return std::nullopt;
  }
  return engine::mutex{uint32_t(mutex), proc};
}

int with_mutex(const char *call, tanada::status (engine::*act)(const engine::mutex &), int mutex,
               int proc) {
  return guarded(call, [&](process &self) {
    auto const which = find_mutex(self, call, mutex, proc);
    if (!which)
      return COMEX_FAILURE;
    must(call, ((*self.engine).*act)(*which));
    return COMEX_SUCCESS;
  });
}

}  // namespace

extern "C" {

int comex_malloc(void **ptr_arr, size_t bytes, comex_group_t group) {
  constexpr const char *call = "comex_malloc";
  return allocate(call, ptr_arr, group,
                  [&](engine &engine) { return give_host(call, engine, bytes); });
}

int comex_malloc_mem_dev(void **ptr_arr, size_t bytes, comex_group_t group, const char *device) {
  constexpr const char *call = "comex_malloc_mem_dev";
  std::string_view const name{device == nullptr ? "" : device};
  return allocate(call, ptr_arr, group, [&](engine &engine) {
    if (name.empty() || name == "dram" || name == "host")
      return give_host(call, engine, bytes);
    return name == "gpu" ? give_device(call, engine, bytes) : give_unknown(call, device);
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
      fatal("comex_free_local", "%p is no memory that comex_malloc_local gave", ptr);
    return COMEX_SUCCESS;
  });
}

int comex_create_mutexes(int num) {
  constexpr const char *call = "comex_create_mutexes";
  return guarded(call, [&](process &self) {
    if (num < 0 || uint32_t(num) > engine::mutex_count_max) {
      fatal(call, "%d mutexes: a process has up to %u", num, engine::mutex_count_max);
    }
    if (!self.mutex_counts.empty())
      fatal(call, "there are mutexes already: comex_destroy_mutexes comes first");
    int32_t const mine = num;
    std::vector<int32_t> everybodys(size_t(self.engine->count()));
    gather(self, call, group_of(self, call, COMEX_GROUP_WORLD), &mine, everybodys.data(),
           sizeof mine);
    self.mutex_counts = std::move(everybodys);
    return COMEX_SUCCESS;
  });
}

int comex_destroy_mutexes(void) {
  constexpr const char *call = "comex_destroy_mutexes";
  return guarded(call, [&](process &self) {
    if (self.mutex_counts.empty())
      fatal(call, "there are no mutexes");
    if (self.engine->holds_mutexes())
      fatal(call, "this process holds one");
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
