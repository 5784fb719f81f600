// examples/twice/twice.cu: doubles the first 4096 numbers of a file in place. It uses only
// installed files.
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <cstdio>
#include <cstring>

using namespace tanada;

struct url {
  char text[256];
};
using numbers = float[1024];

// Each block doubles 1024 numbers of the file.
TND_KERNEL void twice(url file) {
  TND_SHARED(numbers, part);
  this_block const block;
  int fd = -1;
  if (gopen(block, file.text, g_rdwr, &fd) != status::ok)
    return;
  u64 const offset = simt::block_rank() * sizeof part;
  gio_result const read = gread(block, fd, part, offset, sizeof part);
  if (read.status == status::ok && read.size > 0) {  // shorter at the end of the file
    for (u32 i = block.rank(); i < read.size / sizeof(float); i += block.size())
      part[i] *= 2;
    block.sync();
    (void)gwrite(block, fd, part, offset, read.size);
  }
  (void)gclose(block, fd);
}

int main(int count, char **words) {
  if (count != 2 || std::strlen(words[1]) >= sizeof(url))
    return 2;
  url file{};
  std::strcpy(file.text, words[1]);
  tnd_status code = ginitialize(nullptr);
  if (code == TND_OK) {
    simt::launch({4}, {64}, twice, file);  // 4 blocks of 64 threads
    code = ghandle();
    // A call that fails in a kernel returns a status there; the first one is kept for the host.
    tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
    if (code == TND_OK)
      code = tnd_gfile_get_fault(tnd_gfile_default(), &fault);
    if (code == TND_OK && fault.status != TND_OK) {
      std::fprintf(stderr, "twice: %s: %s\n", fault.url, tnd_status_name(fault.status));
      code = fault.status;
    }
    tnd_status const ended = gfinalize();
    if (code == TND_OK)
      code = ended;
  }
  if (code == TND_OK)
    return 0;
  std::fprintf(stderr, "twice: %s: %s\n", tnd_status_name(code), tnd_last_message());
  return 1;
}
