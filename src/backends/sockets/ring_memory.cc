// backends/sockets/ring_memory.cc: creating and mapping the rings of a connection.
#include "backends/sockets/ring_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::backends {

result<ring_memory::creation> ring_memory::create() {
  auto file = seams::shared_memory::create("tanada-ring", size);
  if (!file.ok())
    return file.error();
  auto memory = map(file.value().descriptor());
  if (!memory.ok())
    return memory.error();
  return creation{std::move(memory).value(), std::move(file).value()};
}

// Small pages: a huge page would be larger than the rings by far.
result<std::shared_ptr<ring_memory>> ring_memory::map(int descriptor) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0 || about.st_size != off_t(size))
    return fail(status::invalid, "the rings of a connection do not have {} bytes", size);
  if (int const seals = fcntl(descriptor, F_GET_SEALS); seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return fail(status::invalid, "the rings of a connection have no seal against shrinking");
  void *const addr =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (addr == MAP_FAILED)
    return fail(status::no_memory, "the rings of a connection: {}", std::strerror(errno));
  return std::make_shared<ring_memory>(static_cast<std::byte *>(addr));
}

ring_memory::~ring_memory() {
  munmap(addr_, size);
}

}  // namespace tanada::backends
