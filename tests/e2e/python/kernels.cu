// Kernels that the tests of the Python package launch on the host executor, from a library built
// against the package.
#include <tanada/device/gfile.cuh>

using tanada::u64;

struct outcome {
  u64 status, sum;
};

// A URL by value: the caller's text may be freed when the kernel runs.
struct name {
  char text[tanada::gfile_url_size_max + 1];
};

static name copy_of(const char *url) {
  name made{};
  __builtin_strncpy(made.text, url, sizeof made.text - 1);
  return made;
}

TND_KERNEL void sum_file(tanada::gfile_ref files, name url, outcome *out) {
  tanada::this_block const all;
  using chunk = tanada::u8[1000];
  TND_SHARED(chunk, bytes);
  int fd = -1;
  tanada::status code = gopen(all, files, url.text, tanada::g_rdonly, &fd);
  u64 const size = code == tanada::status::ok ? gfstat(all, files, fd).size : 0;
  for (u64 offset = 0; offset < size && code == tanada::status::ok; offset += sizeof bytes) {
    auto const done = gread(all, files, fd, bytes, offset, sizeof bytes);
    code = done.status;
    if (all.rank() == 0)
      for (u64 i = 0; i < done.size; i++)
        out->sum += bytes[i];
    all.sync();
  }
  if (fd >= 0)
    (void)gclose(all, files, fd);
  if (all.rank() == 0)
    out->status = u64(-int(code));
}

TND_KERNEL void write_file(
    tanada::gfile_ref files, name url, const char *content, u64 size, outcome *out) {
  tanada::this_block const all;
  int fd = -1;
  tanada::status code =
      gopen(all, files, url.text, tanada::g_wronly | tanada::g_creat | tanada::g_trunc, &fd);
  if (code == tanada::status::ok)
    code = gwrite(all, files, fd, content, 0, size).status;
  if (fd >= 0) {
    auto const closed = gclose(all, files, fd);
    if (code == tanada::status::ok)
      code = closed;
  }
  if (all.rank() == 0)
    out->status = u64(-int(code));
}

TND_KERNEL void spin(tanada::u32 *flag) {
  while (tanada::simt::device_atomic<tanada::u32>(*flag).load_acquire() == 0)
    tanada::simt::pause();
}

extern "C" void launch_sum_file(tanada::gfile_ref files, const char *url, outcome *out) {
  tanada::simt::launch({1}, {32}, sum_file, files, copy_of(url), out);
}
extern "C" void launch_write_file(
    tanada::gfile_ref files, const char *url, const char *content, u64 size, outcome *out) {
  tanada::simt::launch({1}, {32}, write_file, files, copy_of(url), content, size, out);
}
extern "C" void launch_spin(tanada::u32 *flag) {
  tanada::simt::launch({1}, {1}, spin, flag);
}
