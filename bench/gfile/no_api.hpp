// bench/gfile/no_api.hpp: what the paper calls "no API": the same work by libgfarm's calls and
// copies to the device, in a process of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// The files of string matching: words, the list of the texts, and the file for the counts.
struct string_files {
  std::string dictionary, list, counts;  // URLs
  uint64_t text_size_max = 0;            // bytes of each text that are searched
};

struct match_time {
  double seconds = 0;
  uint64_t counts_hash = 0;  // of the bytes of the file of counts
};

uint64_t hash_of(const std::string &bytes);

// A process that does the work when asked. libgfarm is initialized once in a process, and in the
// measuring process by gfile's plugin. Create it before the first use of a GPU. Calls throw.
class no_api_process {
 public:
  no_api_process();
  ~no_api_process();
  no_api_process(const no_api_process &) = delete;

  // Creates a file on that server, whose words are those of word_at().
  void create(const std::string &url, const std::string &host, uint64_t size);
  // Seconds from the open of such a file until all its bytes are in device memory.
  double read(const std::string &url, uint64_t size);
  // From the open of the list until the counts are published.
  match_time match(const string_files &files);

 private:
  struct task;
  struct outcome;
  outcome request(const task &work);
  static outcome perform(const task &work);
  [[noreturn]] static void serve(int socket);

  int socket_ = -1;
  pid_t child_ = -1;
};

// String matching by kernels on bytes that are copied to the device. Returns the lines of the file
// of counts. The process has a default instance of gfile, only to wait for kernels.
std::string match_in_memory(const std::string &dictionary, const std::vector<std::string> &texts);

// String matching by kernels that read and write the files. `direct`: as in tnd_gfile_config.
match_time match_by_kernels(const string_files &files, uint32_t direct);

}  // namespace bench
