// put, get, accumulate, words, and what completes them.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/log.hpp"
#include "products/comex/mpi/process.hpp"

using namespace tanada::comex;

namespace {

enum class what : uint8_t { put, get, accumulate };

// What a call asks for; `handle` null: it blocks.
struct request {
  const char *call;
  what kind;
  int rank;
  comex_group_t group;
  comex_request_t *handle = nullptr;
  int op = 0;  // of accumulates
  void *scale = nullptr;
};

element element_of(const request &asked) {
  switch (asked.op) {
    case COMEX_ACC_INT: return element::i32;
    case COMEX_ACC_LNG: return element::i64;
    case COMEX_ACC_FLT: return element::f32;
    case COMEX_ACC_DBL: return element::f64;
    case COMEX_ACC_CPL: return element::c64;
    case COMEX_ACC_DCP: return element::c128;
    default: fatal(asked.call, "there is no operation %d", asked.op);
  }
}

void move(process &self, const request &asked, const piece_list &pieces, pe_index pe) {
  auto &engine = *self.engine;
  switch (asked.kind) {
    case what::put: return must(asked.call, engine.put(pieces, pe, until::later));
    case what::get: return must(asked.call, engine.get(pieces, pe, until::later));
    case what::accumulate:
      return must(asked.call, engine.accumulate(element_of(asked), asked.scale, pieces, pe));
  }
}

void move(process &self, const request &asked, const transfer &sides, const strided_shape &shape,
          until end) {
  auto &engine = *self.engine;
  switch (asked.kind) {
    case what::put: return must(asked.call, engine.put(sides, shape, end));
    case what::get: return must(asked.call, engine.get(sides, shape, end));
    case what::accumulate:
      return must(asked.call, engine.accumulate(element_of(asked), asked.scale, sides, shape));
  }
}

strided_shape shape_of(const request &asked, std::span<const int> count, const int *source,
                       const int *target, int levels) {
  auto made = strided_shape::of(count, source, target, levels);
  if (!made.ok())
    must(asked.call, made.error());
  return std::move(made).value();
}

// Accumulates add whole elements. What is left of a piece stays as it is: so do the other ports,
// and programs take sizes for all types alike.
size_t whole_size(const request &asked, size_t bytes) {
  if (asked.kind != what::accumulate)
    return bytes;
  size_t const size = element_size(element_of(asked));
  return bytes / size * size;
}

// `run` starts everything. What is over is told by handle 0.
template <class Run>
int perform(const request &asked, Run &&run) {
  return guarded(asked.call, [&](process &self) {
    run(self, world_rank(self, asked.call, asked.group, asked.rank));
    if (asked.handle == nullptr)
      return COMEX_SUCCESS;
    if (self.engine->is_finished()) {
      *asked.handle = 0;
    } else {
      if (self.started == INT32_MAX) {  // handles begin anew when all that had one are over
        must(asked.call, self.engine->finish());
        self.started = 0;
        self.finished = 0;
      }
      *asked.handle = ++self.started;
    }
    return COMEX_SUCCESS;
  });
}

int strided(const request &asked, void *source, int *source_stride, void *target,
            int *target_stride, int *count, int levels) {
  return perform(asked, [&](process &self, pe_index pe) {
    // A wrong number of levels is refused below: no more is read than there can be.
    std::array<int, stride_level_max + 1> counts{};
    std::copy_n(count, std::clamp(levels, 0, stride_level_max) + 1, counts.begin());
    if (counts[0] > 0)
      counts[0] = int(whole_size(asked, size_t(counts[0])));
    auto const shape = shape_of(asked, counts, source_stride, target_stride, levels);
    move(self, asked, {source, target, pe}, shape,
         asked.handle == nullptr ? until::source_is_free : until::later);
  });
}

int contiguous(const request &asked, void *source, void *target, int bytes) {
  return perform(asked, [&](process &self, pe_index pe) {
    if (bytes < 0)
      fatal(asked.call, "%d bytes", bytes);
    move(self, asked, {source, target, pe}, strided_shape{whole_size(asked, size_t(bytes))},
         asked.handle == nullptr ? until::source_is_free : until::later);
  });
}

int vector(const request &asked, comex_giov_t *darr, int len) {
  return perform(asked, [&](process &self, pe_index pe) {
    if (len < 0)
      fatal(asked.call, "%d descriptors", len);
    for (auto const &each : std::span{darr, size_t(len)}) {
      if (each.count < 0)
        fatal(asked.call, "a descriptor of %d pieces", each.count);
      if (each.bytes < 0)
        fatal(asked.call, "pieces of %d bytes", each.bytes);
      move(
          self, asked,
          piece_list{each.src, each.dst, size_t(each.count), whole_size(asked, size_t(each.bytes))},
          pe);
    }
    if (asked.handle == nullptr)
      must(asked.call, self.engine->finish());
  });
}

int finish(const char *call, comex_group_t group, std::optional<int> rank = {}) {
  return guarded(call, [&](process &self) {
    if (rank)
      (void)world_rank(self, call, group, *rank);
    else
      (void)group_of(self, call, group);
    must(call, self.engine->finish());
    self.finished = self.started;
    return COMEX_SUCCESS;
  });
}

}  // namespace

extern "C" {

int comex_put(void *src, void *dst, int bytes, int proc, comex_group_t group) {
  return contiguous({"comex_put", what::put, proc, group}, src, dst, bytes);
}
int comex_nbput(void *src, void *dst, int bytes, int proc, comex_group_t group,
                comex_request_t *nb_handle) {
  return contiguous({"comex_nbput", what::put, proc, group, nb_handle}, src, dst, bytes);
}
int comex_get(void *src, void *dst, int bytes, int proc, comex_group_t group) {
  return contiguous({"comex_get", what::get, proc, group}, src, dst, bytes);
}
int comex_nbget(void *src, void *dst, int bytes, int proc, comex_group_t group,
                comex_request_t *nb_handle) {
  return contiguous({"comex_nbget", what::get, proc, group, nb_handle}, src, dst, bytes);
}
int comex_acc(int op, void *scale, void *src, void *dst, int bytes, int proc, comex_group_t group) {
  return contiguous({"comex_acc", what::accumulate, proc, group, nullptr, op, scale}, src, dst,
                    bytes);
}
int comex_nbacc(int op, void *scale, void *src, void *dst, int bytes, int proc, comex_group_t group,
                comex_request_t *nb_handle) {
  return contiguous({"comex_nbacc", what::accumulate, proc, group, nb_handle, op, scale}, src, dst,
                    bytes);
}

int comex_puts(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
               int stride_levels, int proc, comex_group_t group) {
  return strided({"comex_puts", what::put, proc, group}, src, src_stride, dst, dst_stride, count,
                 stride_levels);
}
int comex_nbputs(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
                 int stride_levels, int proc, comex_group_t group, comex_request_t *nb_handle) {
  return strided({"comex_nbputs", what::put, proc, group, nb_handle}, src, src_stride, dst,
                 dst_stride, count, stride_levels);
}
int comex_gets(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
               int stride_levels, int proc, comex_group_t group) {
  return strided({"comex_gets", what::get, proc, group}, src, src_stride, dst, dst_stride, count,
                 stride_levels);
}
int comex_nbgets(void *src, int *src_stride, void *dst, int *dst_stride, int *count,
                 int stride_levels, int proc, comex_group_t group, comex_request_t *nb_handle) {
  return strided({"comex_nbgets", what::get, proc, group, nb_handle}, src, src_stride, dst,
                 dst_stride, count, stride_levels);
}
int comex_accs(int op, void *scale, void *src, int *src_stride, void *dst, int *dst_stride,
               int *count, int stride_levels, int proc, comex_group_t group) {
  return strided({"comex_accs", what::accumulate, proc, group, nullptr, op, scale}, src, src_stride,
                 dst, dst_stride, count, stride_levels);
}
int comex_nbaccs(int op, void *scale, void *src, int *src_stride, void *dst, int *dst_stride,
                 int *count, int stride_levels, int proc, comex_group_t group,
                 comex_request_t *nb_handle) {
  return strided({"comex_nbaccs", what::accumulate, proc, group, nb_handle, op, scale}, src,
                 src_stride, dst, dst_stride, count, stride_levels);
}

int comex_putv(comex_giov_t *darr, int len, int proc, comex_group_t group) {
  return vector({"comex_putv", what::put, proc, group}, darr, len);
}
int comex_nbputv(comex_giov_t *darr, int len, int proc, comex_group_t group,
                 comex_request_t *nb_handle) {
  return vector({"comex_nbputv", what::put, proc, group, nb_handle}, darr, len);
}
int comex_getv(comex_giov_t *darr, int len, int proc, comex_group_t group) {
  return vector({"comex_getv", what::get, proc, group}, darr, len);
}
int comex_nbgetv(comex_giov_t *darr, int len, int proc, comex_group_t group,
                 comex_request_t *nb_handle) {
  return vector({"comex_nbgetv", what::get, proc, group, nb_handle}, darr, len);
}
int comex_accv(int op, void *scale, comex_giov_t *darr, int len, int proc, comex_group_t group) {
  return vector({"comex_accv", what::accumulate, proc, group, nullptr, op, scale}, darr, len);
}
int comex_nbaccv(int op, void *scale, comex_giov_t *darr, int len, int proc, comex_group_t group,
                 comex_request_t *nb_handle) {
  return vector({"comex_nbaccv", what::accumulate, proc, group, nb_handle, op, scale}, darr, len);
}

int comex_rmw(int op, void *ploc, void *prem, int extra, int proc, comex_group_t group) {
  constexpr const char *call = "comex_rmw";
  return guarded(call, [&](process &self) {
    auto const pe = world_rank(self, call, group, proc);
    auto &engine = *self.engine;
    switch (op) {
      case COMEX_SWAP: must(call, engine.swap(word_kind::i32, ploc, prem, pe)); break;
      case COMEX_SWAP_LONG: must(call, engine.swap(word_kind::i64, ploc, prem, pe)); break;
      case COMEX_FETCH_AND_ADD:
        must(call, engine.fetch_and_add(word_kind::i32, ploc, prem, extra, pe));
        break;
      case COMEX_FETCH_AND_ADD_LONG:
        must(call, engine.fetch_and_add(word_kind::i64, ploc, prem, extra, pe));
        break;
      default: fatal(call, "there is no operation %d", op);
    }
    return COMEX_SUCCESS;
  });
}

int comex_wait(comex_request_t *nb_handle) {
  return guarded("comex_wait", [&](process &self) {
    if (*nb_handle > self.finished) {
      must("comex_wait", self.engine->finish());
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
      must("comex_test",
           self.engine->finish());  // nothing is under way any more; what has failed is told
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
