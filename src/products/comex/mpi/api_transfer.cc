// products/comex/mpi/api_transfer.cc: put, get, accumulate and atomic updates, and waiting for
// them.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/comex/mpi/process.hpp"

using namespace tanada::comex;

namespace {

static_assert(stride_level_max == COMEX_MAX_STRIDE_LEVEL);
static_assert(sizeof(int) == sizeof(uint32_t) && sizeof(long) == sizeof(uint64_t));

enum class operation : uint8_t { put, get, accumulate };

// A call's arguments; without a `handle` the call blocks.
struct request {
  const char *call;
  operation kind;
  int rank;
  comex_group_t group;
  comex_request_t *handle = nullptr;
  int op = 0;  // of accumulates
  void *scale = nullptr;
};

element element_of(const request &args) {
  switch (args.op) {
    case COMEX_ACC_INT:
      return element::i32;
    case COMEX_ACC_LNG:
      return element::i64;
    case COMEX_ACC_FLT:
      return element::f32;
    case COMEX_ACC_DBL:
      return element::f64;
    case COMEX_ACC_CPL:
      return element::c64;
    case COMEX_ACC_DCP:
      return element::c128;
    default:
      fatal(args.call, "there is no operation {}", args.op);
  }
}

void move(process &self, const request &args, const piece_list &pieces, pe_index pe) {
  auto &engine = *self.engine;
  switch (args.kind) {
    case operation::put:
      return require_ok(args.call, engine.put(pieces, pe, completion_mode::deferred));
    case operation::get:
      return require_ok(args.call, engine.get(pieces, pe, completion_mode::deferred));
    case operation::accumulate:
      return require_ok(args.call, engine.accumulate(element_of(args), args.scale, pieces, pe));
  }
}

void move(process &self,
          const request &args,
          const transfer &sides,
          const strided_shape &shape,
          completion_mode mode) {
  auto &engine = *self.engine;
  switch (args.kind) {
    case operation::put:
      return require_ok(args.call, engine.put(sides, shape, mode));
    case operation::get:
      return require_ok(args.call, engine.get(sides, shape, mode));
    case operation::accumulate:
      return require_ok(args.call, engine.accumulate(element_of(args), args.scale, sides, shape));
  }
}

strided_shape shape_of(const request &args,
                       std::span<const int> count,
                       const int *source,
                       const int *target,
                       int levels) {
  auto shape = strided_shape::from_arguments(count, source, target, levels);
  if (!shape.ok())
    require_ok(args.call, shape.error());
  return std::move(shape).value();
}

// The size without a last partial element, which accumulates leave unchanged. The other ports do
// the same, and programs pass the same sizes for all types.
size_t whole_size(const request &args, size_t bytes) {
  if (args.kind != operation::accumulate)
    return bytes;
  size_t const size = element_size(element_of(args));
  return bytes / size * size;
}

// `run` starts the operation. Handle 0 means that it is complete.
template <class Run>
int perform(const request &args, Run &&run) {
  return guarded(args.call, [&](process &self) {
    TND_ASSERT(self.finished <= self.started);
    run(self, world_rank(self, args.call, args.group, args.rank));
    if (args.handle == nullptr)
      return COMEX_SUCCESS;
    if (self.engine->is_finished()) {
      *args.handle = 0;
    } else {
      if (self.started == INT32_MAX) {  // handles restart when all earlier ones are complete
        require_ok(args.call, self.engine->finish());
        self.started = 0;
        self.finished = 0;
      }
      *args.handle = ++self.started;
    }
    return COMEX_SUCCESS;
  });
}

int strided(const request &args,
            void *source,
            int *source_stride,
            void *target,
            int *target_stride,
            int *count,
            int levels) {
  return perform(args, [&](process &self, pe_index pe) {
    // Read only as many counts as can be valid; a wrong number of levels is refused below.
    std::array<int, stride_level_max + 1> counts{};
    std::copy_n(count, std::clamp(levels, 0, stride_level_max) + 1, counts.begin());
    if (counts[0] > 0)
      counts[0] = int(whole_size(args, size_t(counts[0])));
    auto const shape = shape_of(args, counts, source_stride, target_stride, levels);
    move(self,
         args,
         {source, target, pe},
         shape,
         args.handle == nullptr ? completion_mode::local : completion_mode::deferred);
  });
}

int contiguous(const request &args, void *source, void *target, int bytes) {
  return perform(args, [&](process &self, pe_index pe) {
    if (bytes < 0)
      fatal(args.call, "the size is negative: {} bytes", bytes);
    move(self,
         args,
         {source, target, pe},
         strided_shape{whole_size(args, size_t(bytes))},
         args.handle == nullptr ? completion_mode::local : completion_mode::deferred);
  });
}

int vector(const request &args, comex_giov_t *darr, int len) {
  return perform(args, [&](process &self, pe_index pe) {
    if (len < 0)
      fatal(args.call, "the number of descriptors is negative: {}", len);
    for (auto const &descriptor : std::span{darr, size_t(len)}) {
      if (descriptor.count < 0)
        fatal(args.call, "a descriptor has a negative count: {} pieces", descriptor.count);
      if (descriptor.bytes < 0)
        fatal(args.call, "a descriptor has a negative size: {} bytes", descriptor.bytes);
      move(self,
           args,
           piece_list{descriptor.src,
                      descriptor.dst,
                      size_t(descriptor.count),
                      whole_size(args, size_t(descriptor.bytes))},
           pe);
    }
    if (args.handle == nullptr)
      require_ok(args.call, self.engine->finish());
  });
}

int finish(const char *call, comex_group_t group, std::optional<int> rank = {}) {
  return guarded(call, [&](process &self) {
    if (rank)
      (void)world_rank(self, call, group, *rank);
    else
      (void)group_of(self, call, group);
    require_ok(call, self.engine->finish());
    self.finished = self.started;
    return COMEX_SUCCESS;
  });
}

}  // namespace

extern "C" {

int comex_put(void *src, void *dst, int bytes, int proc, comex_group_t group) {
  return contiguous({"comex_put", operation::put, proc, group}, src, dst, bytes);
}
int comex_nbput(
    void *src, void *dst, int bytes, int proc, comex_group_t group, comex_request_t *nb_handle) {
  return contiguous({"comex_nbput", operation::put, proc, group, nb_handle}, src, dst, bytes);
}
int comex_get(void *src, void *dst, int bytes, int proc, comex_group_t group) {
  return contiguous({"comex_get", operation::get, proc, group}, src, dst, bytes);
}
int comex_nbget(
    void *src, void *dst, int bytes, int proc, comex_group_t group, comex_request_t *nb_handle) {
  return contiguous({"comex_nbget", operation::get, proc, group, nb_handle}, src, dst, bytes);
}
int comex_acc(int op, void *scale, void *src, void *dst, int bytes, int proc, comex_group_t group) {
  return contiguous(
      {"comex_acc", operation::accumulate, proc, group, nullptr, op, scale}, src, dst, bytes);
}
int comex_nbacc(int op,
                void *scale,
                void *src,
                void *dst,
                int bytes,
                int proc,
                comex_group_t group,
                comex_request_t *nb_handle) {
  return contiguous(
      {"comex_nbacc", operation::accumulate, proc, group, nb_handle, op, scale}, src, dst, bytes);
}

int comex_puts(void *src,
               int *src_stride,
               void *dst,
               int *dst_stride,
               int *count,
               int stride_levels,
               int proc,
               comex_group_t group) {
  return strided({"comex_puts", operation::put, proc, group},
                 src,
                 src_stride,
                 dst,
                 dst_stride,
                 count,
                 stride_levels);
}
int comex_nbputs(void *src,
                 int *src_stride,
                 void *dst,
                 int *dst_stride,
                 int *count,
                 int stride_levels,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle) {
  return strided({"comex_nbputs", operation::put, proc, group, nb_handle},
                 src,
                 src_stride,
                 dst,
                 dst_stride,
                 count,
                 stride_levels);
}
int comex_gets(void *src,
               int *src_stride,
               void *dst,
               int *dst_stride,
               int *count,
               int stride_levels,
               int proc,
               comex_group_t group) {
  return strided({"comex_gets", operation::get, proc, group},
                 src,
                 src_stride,
                 dst,
                 dst_stride,
                 count,
                 stride_levels);
}
int comex_nbgets(void *src,
                 int *src_stride,
                 void *dst,
                 int *dst_stride,
                 int *count,
                 int stride_levels,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle) {
  return strided({"comex_nbgets", operation::get, proc, group, nb_handle},
                 src,
                 src_stride,
                 dst,
                 dst_stride,
                 count,
                 stride_levels);
}
int comex_accs(int op,
               void *scale,
               void *src,
               int *src_stride,
               void *dst,
               int *dst_stride,
               int *count,
               int stride_levels,
               int proc,
               comex_group_t group) {
  return strided({"comex_accs", operation::accumulate, proc, group, nullptr, op, scale},
                 src,
                 src_stride,
                 dst,
                 dst_stride,
                 count,
                 stride_levels);
}
int comex_nbaccs(int op,
                 void *scale,
                 void *src,
                 int *src_stride,
                 void *dst,
                 int *dst_stride,
                 int *count,
                 int stride_levels,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle) {
  return strided({"comex_nbaccs", operation::accumulate, proc, group, nb_handle, op, scale},
                 src,
                 src_stride,
                 dst,
                 dst_stride,
                 count,
                 stride_levels);
}

int comex_putv(comex_giov_t *darr, int len, int proc, comex_group_t group) {
  return vector({"comex_putv", operation::put, proc, group}, darr, len);
}
int comex_nbputv(
    comex_giov_t *darr, int len, int proc, comex_group_t group, comex_request_t *nb_handle) {
  return vector({"comex_nbputv", operation::put, proc, group, nb_handle}, darr, len);
}
int comex_getv(comex_giov_t *darr, int len, int proc, comex_group_t group) {
  return vector({"comex_getv", operation::get, proc, group}, darr, len);
}
int comex_nbgetv(
    comex_giov_t *darr, int len, int proc, comex_group_t group, comex_request_t *nb_handle) {
  return vector({"comex_nbgetv", operation::get, proc, group, nb_handle}, darr, len);
}
int comex_accv(int op, void *scale, comex_giov_t *darr, int len, int proc, comex_group_t group) {
  return vector({"comex_accv", operation::accumulate, proc, group, nullptr, op, scale}, darr, len);
}
int comex_nbaccv(int op,
                 void *scale,
                 comex_giov_t *darr,
                 int len,
                 int proc,
                 comex_group_t group,
                 comex_request_t *nb_handle) {
  return vector(
      {"comex_nbaccv", operation::accumulate, proc, group, nb_handle, op, scale}, darr, len);
}

int comex_rmw(int op, void *ploc, void *prem, int extra, int proc, comex_group_t group) {
  constexpr const char *call = "comex_rmw";
  return guarded(call, [&](process &self) {
    auto const pe = world_rank(self, call, group, proc);
    auto &engine = *self.engine;
    switch (op) {
      case COMEX_SWAP:
        require_ok(call, engine.exchange_word(word_kind::i32, ploc, prem, pe));
        break;
      case COMEX_SWAP_LONG:
        require_ok(call, engine.exchange_word(word_kind::i64, ploc, prem, pe));
        break;
      case COMEX_FETCH_AND_ADD:
        require_ok(call, engine.fetch_and_add(word_kind::i32, ploc, prem, extra, pe));
        break;
      case COMEX_FETCH_AND_ADD_LONG:
        require_ok(call, engine.fetch_and_add(word_kind::i64, ploc, prem, extra, pe));
        break;
      default:
        fatal(call, "there is no operation {}", op);
    }
    return COMEX_SUCCESS;
  });
}

int comex_wait(comex_request_t *nb_handle) {
  return guarded("comex_wait", [&](process &self) {
    if (*nb_handle > self.finished) {
      require_ok("comex_wait", self.engine->finish());
      self.finished = self.started;
    }
    *nb_handle = 0;
    return COMEX_SUCCESS;
  });
}

int comex_test(comex_request_t *nb_handle, int *status) {
  return guarded("comex_test", [&](process &self) {
    bool is_over = *nb_handle <= self.finished;
    if (!is_over && self.engine->poll()) {
      require_ok("comex_test",
                 self.engine->finish());  // does not wait any more, but returns errors
      self.finished = self.started;
      is_over = true;
    }
    *status = is_over ? 0 : 1;
    if (is_over)
      *nb_handle = 0;
    return COMEX_SUCCESS;
  });
}

int comex_wait_all(comex_group_t group) {
  return finish("comex_wait_all", group);
}
int comex_wait_proc(int proc, comex_group_t group) {
  return finish("comex_wait_proc", group, proc);
}
int comex_fence_all(comex_group_t group) {
  return finish("comex_fence_all", group);
}
int comex_fence_proc(int proc, comex_group_t group) {
  return finish("comex_fence_proc", group, proc);
}

}  // extern "C"
