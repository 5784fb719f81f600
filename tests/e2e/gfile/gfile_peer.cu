// One of two processes that share a file; two_processes.py controls it by lines on standard input:
//   write URL VERSION   write the file's words, all of that version, and close it       ->
//   "written" read URL VERSION    open the file, read it all, and look for another version in it ->
//   "right", or what was seen Kernels run on the host executor; one instance serves all lines, so
//   that caches are warm.
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace tanada;

template <class Body>
TND_KERNEL void call_body(Body body) {
  body();
}

constexpr u64 word_count = 40'000;  // several pages, and a part of one

struct answer {
  status code = status::ok;
  u64 size = 0;  // bytes moved
};

answer write_version(const std::string &url, std::vector<u64> &words, u64 version) {
  for (u64 &word : words)
    word = version;
  answer told;
  auto body = [&] {
    int fd = -1;
    told.code = gopen(url.c_str(), g_wronly | g_creat, &fd);
    if (told.code != status::ok)
      return;
    gio_result const done = gwrite(fd, words.data(), 0, words.size() * 8);
    status const closed = gclose(fd);
    told = {done.status != status::ok ? done.status : closed, done.size};
  };
  simt::launch(simt::dim3(1), simt::dim3(1), call_body<decltype(body)>, body);
  (void)!ghandle();
  return told;
}

answer read_all(const std::string &url, std::vector<u64> &words) {
  answer told;
  auto body = [&] {
    int fd = -1;
    told.code = gopen(url.c_str(), g_rdonly, &fd);
    if (told.code != status::ok)
      return;
    gio_result const done = gread(fd, words.data(), 0, words.size() * 8);
    (void)gclose(fd);
    told = {done.status, done.size};
  };
  simt::launch(simt::dim3(1), simt::dim3(1), call_body<decltype(body)>, body);
  (void)!ghandle();
  return told;
}

}  // namespace

int main() {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  config.page_size = 16384;
  if (ginitialize(&config) != TND_OK)
    return 2;
  std::vector<u64> words(word_count);
  std::string verb, url;
  for (u64 version; std::cin >> verb >> url >> version;) {
    answer const told = verb == "write" ? write_version(url, words, version) : read_all(url, words);
    if (told.code != status::ok || told.size != word_count * 8) {
      std::cout << tnd_status_name(tnd_status(told.code)) << " after " << told.size << " bytes"
                << std::endl;
      continue;
    }
    u64 wrong = 0;
    for (u64 word : words)
      wrong += word != version ? 1 : 0;
    if (verb == "write")
      std::cout << "written" << std::endl;
    else if (wrong == 0)
      std::cout << "right" << std::endl;
    else
      std::cout << wrong << " words of another version, the first " << words[0] << std::endl;
  }
  return gfinalize() == TND_OK ? 0 : 1;
}
