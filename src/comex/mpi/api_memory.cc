// Memory that others reach, and mutexes.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "comex/mpi/process.hpp"

using namespace tanada::comex;

namespace {

struct given {
  void *piece;
  int32_t is_there;
};

// Of all, or of none.
// `is_known`: the memory that was asked for is of a kind that there is.
int allocate(const char *call, void **ptr_arr, size_t bytes, comex_group_t handle, bool is_known = true) {
  return guarded(call, [&](process &self) {
    auto const &among = group_of(self, call, handle);
    given mine{is_known ? self.engine->allocate(bytes) : nullptr, is_known ? 1 : 0};
    if (mine.piece == nullptr && bytes != 0 && is_known) {
      mine.is_there = 0;
      bool const is_by_budget = self.engine->away() != nullptr && self.engine->free_size() >= bytes;
      if (is_by_budget) refuse_call(call, "%s", tanada::last_message().c_str());
      else refuse_call(call, "no piece of %zu bytes is free: %zu of the heap's %zu are (TND_COMEX_HEAP)", bytes, self.engine->free_size(),
                  self.engine->heap_size());
    }
    std::vector<given> everybodys(among.world.size());
    gather(self, call, among, &mine, everybodys.data(), sizeof mine);
    if (std::any_of(everybodys.begin(), everybodys.end(), [](const given &each) { return each.is_there == 0; })) {
      if (mine.piece != nullptr) self.engine->release(mine.piece);
      return COMEX_FAILURE;
    }
    for (size_t i = 0; i < everybodys.size(); i++) ptr_arr[i] = everybodys[i].piece;
    return COMEX_SUCCESS;
  });
}

int release(const char *call, void *ptr, comex_group_t handle) {
  return guarded(call, [&](process &self) {
    barrier(self, call, handle);  // nobody uses it any more
    if (ptr != nullptr && !self.engine->release(ptr)) fatal(call, "%p is no memory that comex_malloc gave", ptr);
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

int with_mutex(const char *call, tanada::status (engine::*act)(const engine::mutex &), int mutex, int proc) {
  return guarded(call, [&](process &self) {
    auto const which = find_mutex(self, call, mutex, proc);
    if (!which) return COMEX_FAILURE;
    must(call, ((*self.engine).*act)(*which));
    return COMEX_SUCCESS;
  });
}

}  // namespace

extern "C" {

int comex_malloc(void **ptr_arr, size_t bytes, comex_group_t group) { return allocate("comex_malloc", ptr_arr, bytes, group); }

// Names of host memory are taken; there is no other yet.
int comex_malloc_mem_dev(void **ptr_arr, size_t bytes, comex_group_t group, const char *device) {
  constexpr const char *call = "comex_malloc_mem_dev";
  bool const is_host = device == nullptr || *device == '\0' || std::strcmp(device, "dram") == 0 || std::strcmp(device, "host") == 0;
  if (!is_host) {
    std::fprintf(stderr, "%s: there is no memory device %s: \"dram\" is the host's\n", call, device);
  }
  return allocate(call, ptr_arr, bytes, group, is_host);
}

int comex_free(void *ptr, comex_group_t group) { return release("comex_free", ptr, group); }
int comex_free_dev(void *ptr, comex_group_t group) { return release("comex_free_dev", ptr, group); }

void *comex_malloc_local(size_t bytes) {
  return guarded("comex_malloc_local", [&](process &self) { return self.engine->allocate(bytes); });
}

int comex_free_local(void *ptr) {
  return guarded("comex_free_local", [&](process &self) {
    if (ptr != nullptr && !self.engine->release(ptr)) fatal("comex_free_local", "%p is no memory that comex_malloc_local gave", ptr);
    return COMEX_SUCCESS;
  });
}

int comex_create_mutexes(int num) {
  constexpr const char *call = "comex_create_mutexes";
  return guarded(call, [&](process &self) {
    if (num < 0 || uint32_t(num) > engine::mutex_count_max) {
      fatal(call, "%d mutexes: a process has up to %u", num, engine::mutex_count_max);
    }
    if (!self.mutex_counts.empty()) fatal(call, "there are mutexes already: comex_destroy_mutexes comes first");
    int32_t const mine = num;
    std::vector<int32_t> everybodys(size_t(self.engine->count()));
    gather(self, call, group_of(self, call, COMEX_GROUP_WORLD), &mine, everybodys.data(), sizeof mine);
    self.mutex_counts = std::move(everybodys);
    return COMEX_SUCCESS;
  });
}

int comex_destroy_mutexes(void) {
  constexpr const char *call = "comex_destroy_mutexes";
  return guarded(call, [&](process &self) {
    if (self.mutex_counts.empty()) fatal(call, "there are no mutexes");
    if (self.engine->holds_mutexes()) fatal(call, "this process holds one");
    barrier(self, call, COMEX_GROUP_WORLD);
    self.mutex_counts.clear();
    return COMEX_SUCCESS;
  });
}

int comex_lock(int mutex, int proc) { return with_mutex("comex_lock", &engine::lock, mutex, proc); }
int comex_unlock(int mutex, int proc) { return with_mutex("comex_unlock", &engine::unlock, mutex, proc); }

}  // extern "C"
