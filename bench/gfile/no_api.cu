// bench/gfile/no_api.cu: the process that reads files and matches strings without gfile.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "../../examples/common/outcome.hpp"
#include "gfarm_client.hpp"
#include "no_api.hpp"
#include "support.cuh"

namespace bench {
namespace {

constexpr size_t url_size_max = 256, piece_size = 1u << 20;

enum class work_kind : u32 { create, read, match };

std::string read_all(const std::string &url, u64 size_max) {
  std::string content;
  (void)gfarm_read(url, piece_size, [&](const u8 *bytes, size_t size) {
    content.append(reinterpret_cast<const char *>(bytes), size);
  });
  if (content.size() > size_max)
    content.resize(size_max);
  return content;
}

void create_file(const std::string &url, const std::string &host, u64 size) {
  gfarm_create(url, host, size, [](u64 offset, u8 *bytes, size_t count) {
    for (size_t i = 0; i < count; i += 8) {
      u64 const word = word_at(offset + i);
      std::memcpy(bytes + i, &word, std::min<size_t>(8, count - i));
    }
  });
}

double read_to_device(const std::string &url, u64 size) {
  examples::device_array<u8> target(size);
  double const start = now_s();
  u64 position = 0;
  (void)gfarm_read(url, piece_size, [&](const u8 *bytes, size_t count) {
    if (position + count > size)
      throw std::runtime_error(url + " is larger than it was");
    examples::copy_to_device(target.data() + position, bytes, count);
    position += count;
  });
  double const seconds = now_s() - start;
  if (position != size)
    throw std::runtime_error(url + " is smaller than it was");
  check_words(target.data(), size);
  return seconds;
}

std::vector<std::string> lines_of(const std::string &list) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < list.size();) {
    size_t const end = std::min(list.find('\n', begin), list.size());
    if (end > begin)
      lines.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

match_time match_by_hand(const string_files &files) {
  examples::gfile_session session;  // only to wait: no file is read through it
  double const start = now_s();
  std::string const dictionary = read_all(files.dictionary, ~u64{0});
  std::vector<std::string> texts;
  for (const std::string &url : lines_of(read_all(files.list, ~u64{0})))
    texts.push_back(read_all(url, files.text_size_max));
  std::string const counts = match_in_memory(dictionary, texts);
  gfarm_write(files.counts, counts);
  double const seconds = now_s() - start;
  session.finish();
  return {seconds, hash_of(counts)};
}

bool send_all(int socket, const void *bytes, size_t size) {
  return send(socket, bytes, size, MSG_NOSIGNAL) == ssize_t(size);
}

bool receive_all(int socket, void *bytes, size_t size) {
  return recv(socket, bytes, size, MSG_WAITALL) == ssize_t(size);
}

void store_url(char (&target)[url_size_max], const std::string &url) {
  if (url.size() >= url_size_max)
    throw std::runtime_error("a URL of more than 255 bytes: " + url);
  std::memcpy(target, url.c_str(), url.size() + 1);
}

}  // namespace

uint64_t hash_of(const std::string &bytes) {
  u64 hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (char const byte : bytes)
    hash = (hash ^ u8(byte)) * 0x100000001b3ull;
  return hash;
}

struct no_api_process::task {
  work_kind kind;
  u64 size;  // bytes: of the file, or of each text at most
  char urls[3][url_size_max];
};

struct no_api_process::outcome {
  match_time time;
  char error[512];  // empty: ok
};

no_api_process::no_api_process() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    throw std::runtime_error("socketpair failed");
  child_ = fork();
  if (child_ < 0)
    throw std::runtime_error("fork failed");
  if (child_ == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(sockets[0]);
    serve(sockets[1]);
  }
  close(sockets[1]);
  socket_ = sockets[0];
}

no_api_process::~no_api_process() {
  close(socket_);
  (void)kill(child_, SIGTERM);
  (void)waitpid(child_, nullptr, 0);
}

no_api_process::outcome no_api_process::perform(const task &work) {
  static bool const is_connected = [] {
    gfarm_connect();
    return true;
  }();
  (void)is_connected;
  outcome result{};
  if (work.kind == work_kind::create)
    create_file(work.urls[0], work.urls[1], work.size);
  else if (work.kind == work_kind::read)
    result.time.seconds = read_to_device(work.urls[0], work.size);
  else
    result.time = match_by_hand({work.urls[0], work.urls[1], work.urls[2], work.size});
  return result;
}

void no_api_process::serve(int socket) {
  task work{};
  while (receive_all(socket, &work, sizeof work)) {
    outcome result{};
    try {
      result = perform(work);
    } catch (const std::exception &error) {
      std::snprintf(result.error, sizeof result.error, "%s", error.what());
    }
    if (!send_all(socket, &result, sizeof result))
      break;
  }
  _exit(0);
}

no_api_process::outcome no_api_process::request(const task &work) {
  outcome result{};
  if (!send_all(socket_, &work, sizeof work) || !receive_all(socket_, &result, sizeof result))
    throw std::runtime_error("the process without gfile has ended");
  if (result.error[0] != 0)
    throw std::runtime_error(std::string{"without gfile: "} + result.error);
  return result;
}

void no_api_process::create(const std::string &url, const std::string &host, uint64_t size) {
  task work{work_kind::create, size, {}};
  store_url(work.urls[0], url);
  store_url(work.urls[1], host);
  (void)request(work);
}

double no_api_process::read(const std::string &url, uint64_t size) {
  task work{work_kind::read, size, {}};
  store_url(work.urls[0], url);
  return request(work).time.seconds;
}

match_time no_api_process::match(const string_files &files) {
  task work{work_kind::match, files.text_size_max, {}};
  store_url(work.urls[0], files.dictionary);
  store_url(work.urls[1], files.list);
  store_url(work.urls[2], files.counts);
  return request(work).time;
}

}  // namespace bench
