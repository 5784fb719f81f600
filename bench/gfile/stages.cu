// bench/gfile/stages: the time of one warp's call, stage by stage, on the instance's own
// structures. For tuning the device side: the stages call internals and are not an interface.
// Prints microseconds for each stage.
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <fcntl.h>

#include <cstdio>

#include "../../examples/common/device_memory.hpp"

namespace {

using namespace tanada;
namespace d = tanada::gfile::device;

constexpr u32 stage_count = 18, rounds = 512;
const char *const names[stage_count] = {"check the range",
                                        "find a page that is there, release",
                                        "find a page that is not",
                                        "begin and abandon",
                                        "fence_system",
                                        "fence_loads",
                                        "look in the host table",
                                        "copy 4 KiB from the host tier",
                                        "claim and give back a slot",
                                        "request and answer",
                                        "finish a slot",
                                        "read the clock",
                                        "borrow a page that comes",
                                        "gread of a page that comes",
                                        "view of the file",
                                        "find a resident page by lanes",
                                        "check a resident page",
                                        "gread of a resident page"};

struct arguments {
  gfile_ref files;
  u8 *buffer;
  u64 *ns;
};

template <class Action>
TND_DEVICE void measure(arguments to, u32 stage, Action action) {
  this_warp const warp{};
  warp.sync();
  u64 const start = simt::now_ns();
  for (u32 i = 0; i < rounds; i++)
    action(i);
  warp.sync();
  if (warp.rank() == 0)
    to.ns[stage] = simt::now_ns() - start;
}

TND_KERNEL void stages(arguments to) {
  this_warp const warp{};
  gfile::device_state &state = *static_cast<gfile::device_state *>(to.files.state);
  auto const table = simt::constant(state.device_table);
  auto const ring = simt::constant(state.ring);
  bool const leads = warp.rank() == 0;
  d::any_group const any{simt::kind_of(warp)};
  int fd = -1;
  if (gopen(warp, to.files, "mem://stages", O_RDWR | O_CREAT, &fd) != status::ok)
    return;
  (void)gwrite(warp, to.files, fd, to.buffer, 0, 4096);
  (void)gftruncate(warp, to.files, fd, 64u << 20);
  (void)gread(warp, to.files, fd, to.buffer, 0, 4096);
  u32 const node = d::check_range(state, fd, 0, 1, d::direction::read).node;
  u32 const key_of_file = d::check_range(state, fd, 0, 1, d::direction::read).file_key;
  u64 const key = tier::page_key(key_of_file, 0), absent = tier::page_key(key_of_file, 99);
  measure(to, 0, [&](u32) {
    if (leads)
      (void)d::check_range(state, fd, 0, 1, d::direction::read);
  });
  measure(to, 1, [&](u32) {
    if (leads)
      table.release(table.find(key).frame);
  });
  measure(to, 2, [&](u32) {
    if (leads)
      (void)table.find(absent);
  });
  measure(to, 3, [&](u32) {
    if (leads)
      table.abandon(table.begin(absent).frame);
  });
  measure(to, 4, [&](u32) { simt::fence_system(); });
  measure(to, 5, [&](u32) { simt::fence_loads(); });
  measure(to, 6, [&](u32) {
    d::host_lookup look;
    look.begin(any, simt::constant(state.host_table), key);
    (void)look.finish(any, simt::constant(state.host_table), key);
  });
  measure(to, 7, [&](u32) {
    simt::copy_from_host(warp, to.buffer, simt::constant(state.host_frames), 4096);
    warp.sync();
  });
  measure(to, 8, [&](u32) {
    if (leads)
      ring.finish(ring.claim(~u64{0}), false);
  });
  u64 finish_ns = 0;
  auto const ask = [&](u64 page) {
    rpc::ticket const mine = ring.claim(~u64{0});
    ring.post_short(mine,
                    page == 0 ? 99 : u32(gfile::op::read),
                    node,
                    page,
                    1);  // 99: an unknown request, which is answered immediately
    (void)ring.wait(mine, ~u64{0});
    u64 const start = simt::now_ns();
    ring.finish(mine, false);
    finish_ns += simt::now_ns() - start;
  };
  measure(to, 9, [&](u32) {
    if (leads)
      ask(0);
  });
  if (leads)
    to.ns[10] = finish_ns;
  measure(to, 11, [&](u32) { (void)simt::now_ns(); });
  measure(to, 12, [&](u32 i) {
    if (leads)
      ask(1 + i * 7);
  });
  measure(to, 13, [&](u32 i) {
    (void)gread(warp, to.files, fd, to.buffer, (4096 + u64(i) * 7) * 4096, 4096);
  });
  measure(to, 14, [&](u32) {
    d::read_view view;
    if (leads)
      view = d::view_of(d::tables_of(state), fd);
    view.words = warp.broadcast_pair(view.words);
  });
  (void)gread(warp, to.files, fd, to.buffer, 0, 4096);
  simt::whole_warp const lanes{};
  d::resident_page page{};
  measure(to, 15, [&](u32) { page = d::find_resident(lanes, table, key); });
  measure(to, 16, [&](u32) { (void)d::is_still_resident(lanes, page, key); });
  measure(to, 17, [&](u32) { (void)gread(warp, to.files, fd, to.buffer, 0, 4096); });
  (void)gclose(warp, to.files, fd);
}

}  // namespace

int main() {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  config.page_size = 4096;
  config.service_threads = 1;
  tnd_gfile *gfile = nullptr;
  if (tnd_gfile_create(&config, &gfile) != TND_OK) {
    std::fprintf(stderr, "%s\n", tnd_last_message());
    return 1;
  }
  tnd_gfile_ref const ref = tnd_gfile_get_ref(gfile);
  examples::device_array<u8> buffer(4096);
  examples::device_array<u64> ns(stage_count);
  for (int i = 0; i < 2; i++)
    simt::launch(simt::dim3(1),
                 simt::dim3(32),
                 stages,
                 arguments{{ref.state, ref.timeout_ns}, buffer.data(), ns.data()});
  if (tnd_gfile_wait(gfile, 60'000'000'000ull) != TND_OK) {
    std::fprintf(stderr, "%s\n", tnd_last_message());
    return 1;
  }
  auto const all = ns.to_host();
  for (u32 i = 0; i < stage_count; i++)
    std::printf("%-40s %8.3f us\n", names[i], double(all[i]) / rounds / 1000);
  return tnd_gfile_destroy(gfile) == TND_OK ? 0 : 1;
}
