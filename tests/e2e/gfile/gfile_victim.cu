// A program for tests that end it, stall it or remove its plugins (process_faults.py).
//   gfile_victim write URL   writes forever; prints "writing" when bytes are in flight
//   gfile_victim check URL   writes a file, reads it again with a cold cache; prints "right"
//   gfile_victim open URL    prints the status of a gopen
//   gfile_victim stall URL   reads forever; prints "reading"; at a line of input calls gfinalize,
//   and
//   prints its status
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace tanada;

constexpr u64 file_size = 4 << 20;
constexpr u64 chunk_size = 64 << 10;
constexpr u64 second_ns = 1'000'000'000;

template <class Body>
TND_KERNEL void call_body(Body body) {
  body();
}

void must(tnd_status code, const char *what) {
  if (code == TND_OK)
    return;
  std::fprintf(stderr, "gfile_victim: %s: %s\n", what, tnd_status_name(code));
  std::exit(1);
}

void say(const std::string &line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void initialize() {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  config.device_tier_size = 1 << 20;
  config.host_tier_size = 4 << 20;
  config.timeout_ns = 2 * second_ns;
  must(ginitialize(&config), "ginitialize");
}

template <class Body>
void run(Body body) {
  simt::launch({1, 1, 1}, {1, 1, 1}, call_body<Body>, body);
  must(ghandle(), "ghandle");
}

std::vector<u8> chunk(u64 at) {
  std::vector<u8> bytes(chunk_size);
  for (u64 i = 0; i < chunk_size; i++)
    bytes[i] = u8((at + i) * 131 >> 5);
  return bytes;
}

void write_for_ever(const std::string &url) {
  run([&] {
    int fd = -1;
    if (gopen(url.c_str(), O_RDWR | O_CREAT, &fd) != status::ok)
      std::abort();
    for (u64 round = 0;; round++) {
      u64 const at = round * chunk_size % file_size;
      if (gwrite(fd, chunk(at).data(), at, chunk_size).status != status::ok)
        std::abort();
      if (round == 100)
        say("writing");
    }
  });
}

void check(const std::string &url) {
  run([&] {
    int fd = -1;
    must(tnd_status(int(gopen(url.c_str(), O_WRONLY | O_CREAT | O_TRUNC, &fd))), "gopen");
    for (u64 at = 0; at < file_size; at += chunk_size)
      must(tnd_status(int(gwrite(fd, chunk(at).data(), at, chunk_size).status)), "gwrite");
    must(tnd_status(int(gclose(fd))), "gclose");
  });
  must(gfinalize(), "gfinalize");
  initialize();
  bool right = true;
  run([&] {
    int fd = -1;
    must(tnd_status(int(gopen(url.c_str(), O_RDONLY, &fd))), "gopen");
    std::vector<u8> bytes(chunk_size);
    for (u64 at = 0; at < file_size; at += chunk_size)
      right &= gread(fd, bytes.data(), at, chunk_size).size == chunk_size && bytes == chunk(at);
    must(tnd_status(int(gclose(fd))), "gclose");
  });
  say(right ? "right" : "wrong");
}

void open_once(const std::string &url) {
  status code;
  run([&] {
    int fd = -1;
    code = gopen(url.c_str(), O_RDONLY, &fd);
  });
  say(tnd_status_name(int(code)));
}

int stall(const std::string &url) {
  static std::atomic<u64> count{0};
  gfile_ref files;
  tnd_gfile_ref const plain = tnd_gfile_get_ref(tnd_gfile_default());
  files.state = plain.state;
  files.timeout_ns = 600 * second_ns;  // far longer than gfinalize waits
  simt::launch({1, 1, 1}, {1, 1, 1}, call_body<std::function<void()>>, std::function<void()>{[=] {
                 int fd = -1;
                 u8 byte;
                 if (gopen(files, url.c_str(), O_RDONLY, &fd) != status::ok)
                   std::abort();
                 for (u64 at = 0;; at = (at + 999'983) % file_size) {
                   (void)gread(files, fd, &byte, at, 1);
                   count++;
                 }
               }});
  while (count < 20)
    simt::host::pause();
  say("reading");
  if (std::getchar() == EOF)
    return 1;
  auto const begin = std::chrono::steady_clock::now();
  tnd_status const code = gfinalize();
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  char line[100];
  std::snprintf(line, sizeof line, "%s %.3f", tnd_status_name(code), took.count());
  say(line);
  return 0;
}

}  // namespace

int main(int count, char **words) {
  if (count != 3)
    return 2;
  std::string const what = words[1], url = words[2];
  initialize();
  if (what == "stall")
    return stall(url);
  if (what == "write")
    write_for_ever(url);
  else if (what == "check")
    check(url);
  else if (what == "open")
    open_once(url);
  else
    return 2;
  must(gfinalize(), "gfinalize");
  return 0;
}
