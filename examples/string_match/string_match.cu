// string_match: the experiment in section 4.3 of the paper. A dictionary, a list of texts and the
// texts are read inside kernels. For every word a thread counts how often the texts contain it, and
// writes its line of the result.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>

#include "../common/whole_file.hpp"
#include "match.hpp"
#include "options.hpp"
#include "verify.hpp"

namespace string_match {
namespace {

constexpr u64 default_text_limit =
    examples::on_gpu ? 0 : 256 * 1024;  // keeps the host executor's time at a second instead of
                                        // half a minute

struct phase {
  const char *what;
  double seconds;
};

/// The results of a run.
struct result {
  u64 word_count = 0, text_size = 0;
  std::vector<phase> phases;
  std::string lines;  // filled for --verify and by --no-api
  tnd_gfile_statistics statistics = TND_GFILE_STATISTICS_INIT;

  void measure(const char *what, const std::function<void()> &work) {
    auto const start = std::chrono::steady_clock::now();
    work();
    phases.push_back(
        {what, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }
  double total() const {
    double sum = 0;
    for (const phase &p : phases)
      sum += p.seconds;
    return sum;
  }
};

// Local files, by system calls.
std::vector<u8> read_local(const std::string &path, u64 limit) {
  int const fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw std::runtime_error("cannot open " + path);
  std::vector<u8> bytes;
  for (ssize_t moved = 1; moved > 0 && bytes.size() < limit;) {
    std::size_t const before = bytes.size(),
                      wanted = std::size_t(std::min<u64>(1 << 20, limit - before));
    bytes.resize(before + wanted);
    moved = read(fd, bytes.data() + before, wanted);
    bytes.resize(before + std::size_t(moved > 0 ? moved : 0));
    if (moved < 0) {
      close(fd);
      throw std::runtime_error("cannot read " + path);
    }
  }
  close(fd);
  return bytes;
}

void write_local(const std::string &path, const std::string &bytes) {
  int const fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  ssize_t moved = fd < 0 ? -1 : 0;
  for (std::size_t done = 0; fd >= 0 && done < bytes.size(); done += std::size_t(moved)) {
    moved = write(fd, bytes.data() + done, bytes.size() - done);
    if (moved <= 0)
      break;
  }
  if (fd >= 0 && close(fd) != 0)
    moved = -1;
  if (moved < 0)
    throw std::runtime_error("cannot write " + path);
}

/// Indexes the dictionary and counts, for any kind of files. The words' starts and number stay on
/// the device and here.
template <class File>
void run_kernels(const job<File> *work,
                 u64 dictionary_size,
                 u64 word_limit,
                 examples::kernel_outcome &outcome,
                 result &told) {
  examples::device_array<u64> starts(dictionary_size / 2 + 1), count(1);
  told.measure("index", [&] {
    tanada::simt::launch({1},
                         {block_size},
                         index_words<File>,
                         work,
                         starts.data(),
                         word_limit,
                         count.data(),
                         outcome.code());
    outcome.await("read the dictionary");
    told.word_count = count.to_host()[0];
  });
  if (told.word_count == 0)
    throw std::runtime_error("the dictionary holds no words");
  told.measure("match", [&] {
    u32 const blocks = u32((told.word_count + block_size - 1) / block_size);
    tanada::simt::launch({blocks},
                         {block_size},
                         match_words<File>,
                         work,
                         starts.data(),
                         told.word_count,
                         outcome.code());
    outcome.await("match (words are at most 31 bytes)");
  });
}

u64 or_all(u64 limit) {
  return limit != 0 ? limit : ~0ull;
}

// The names by which kernels open the inputs; with a store, the inputs are copied there.
struct placed_inputs {
  std::string dictionary, list, counts;
};
placed_inputs place_inputs(const options &wanted) {
  std::string const prefix = wanted.store.empty() ? wanted.output : wanted.store;
  placed_inputs placed{wanted.dictionary,
                       examples::join_url(prefix, "list.txt"),
                       examples::join_url(prefix, "counts.txt")};
  std::string names;
  for (std::size_t i = 0; i < wanted.texts.size(); i++) {
    std::string url = wanted.texts[i];
    if (!wanted.store.empty()) {
      url = examples::join_url(prefix, "text-" + std::to_string(i) + ".txt");
      examples::write_file(url, read_local(wanted.texts[i], ~0ull));
    }
    names += url + "\n";
  }
  if (!wanted.store.empty()) {
    placed.dictionary = examples::join_url(prefix, "dictionary.txt");
    examples::write_file(placed.dictionary, read_local(wanted.dictionary, ~0ull));
  }
  examples::write_file(placed.list, std::vector<char>(names.begin(), names.end()));
  return placed;
}

result run_with_gfile(const options &wanted) {
  result told;
  examples::gfile_session session;
  examples::print_device();
  placed_inputs const placed = place_inputs(wanted);
  examples::kernel_outcome outcome;
  examples::device_array<job<stored_file>> work(1);
  job<stored_file> opened{};
  told.measure("open", [&] {
    tanada::simt::launch({1},
                         {1},
                         open_files,
                         examples::device_url(placed.dictionary),
                         examples::device_url(placed.list),
                         examples::device_url(placed.counts),
                         or_all(wanted.text_limit),
                         work.data(),
                         outcome.code());
    outcome.await("open " + placed.dictionary + ", the texts and " + placed.counts);
    opened = work.to_host()[0];
  });
  for (u32 i = 0; i < opened.text_count; i++)
    told.text_size += opened.texts[i].size;
  run_kernels(work.data(), opened.dictionary.size, or_all(wanted.word_limit), outcome, told);
  told.measure("publish", [&] {
    tanada::simt::launch({1}, {1}, close_files, work.data(), outcome.code());
    outcome.await("publish " + placed.counts);
  });
  if (wanted.verify) {
    std::vector<char> const lines = examples::read_file<char>(placed.counts);
    told.lines.assign(lines.begin(), lines.end());
  }
  told.statistics = session.statistics();
  session.finish();
  return told;
}

examples::device_array<u8> to_device(const std::vector<u8> &bytes) {
  return examples::device_array<u8>(bytes);
}

// The program without gfile: whole files by read(2), a copy to the device, a copy back, write(2).
result run_without_gfile(const options &wanted) {
  result told;
  examples::gfile_session session;  // only to wait: no file goes through it
  examples::print_device();
  std::vector<u8> dictionary;
  std::vector<std::vector<u8>> texts;
  told.measure("read files", [&] {
    dictionary = read_local(wanted.dictionary, ~0ull);
    for (const std::string &path : wanted.texts)
      texts.push_back(read_local(path, or_all(wanted.text_limit)));
  });
  std::vector<examples::device_array<u8>> memory;
  examples::device_array<u8> counts((dictionary.size() / 2 + 1) * line_size);
  examples::device_array<job<memory_file>> work;
  examples::kernel_outcome outcome;
  told.measure("copy in", [&] {
    job<memory_file> here{};
    auto const place = [&](const std::vector<u8> &bytes) {
      memory.push_back(to_device(bytes));
      return sized_file<memory_file>{{memory.back().data(), bytes.size()}, bytes.size()};
    };
    here.dictionary = place(dictionary);
    here.counts = {counts.data(), counts.size()};
    for (const std::vector<u8> &text : texts)
      here.texts[here.text_count++] = place(text);
    work = examples::device_array<job<memory_file>>(std::vector{here});
  });
  for (const std::vector<u8> &text : texts)
    told.text_size += text.size();
  run_kernels(work.data(), dictionary.size(), or_all(wanted.word_limit), outcome, told);
  told.measure("copy out", [&] {
    told.lines.resize(told.word_count * line_size);
    examples::copy_to_host(told.lines.data(), counts.data(), told.lines.size());
  });
  told.measure("write file", [&] { write_local(wanted.output + "/counts.txt", told.lines); });
  told.statistics = session.statistics();
  session.finish();
  return told;
}

void verify(const options &wanted, result &told) {
  if (wanted.plant)
    told.lines[told.lines.size() - 2] ^= 1;
  std::vector<u8> const words = read_local(wanted.dictionary, ~0ull);
  std::vector<std::string> texts;
  for (const std::string &path : wanted.texts) {
    std::vector<u8> const text = read_local(path, or_all(wanted.text_limit));
    texts.emplace_back(text.begin(), text.end());
  }
  std::string const expected =
      reference_lines(std::string(words.begin(), words.end()), texts, or_all(wanted.word_limit));
  std::string const difference = first_difference(expected, told.lines);
  if (!difference.empty())
    throw std::runtime_error("wrong counts: " + difference);
}

void print(const options &wanted, const result &told) {
  const char *const mode = wanted.no_api ? "no API" : "gfile";
  if (!wanted.json) {
    std::printf("%llu words, %.2f MB of text, %s on the %s\n",
                told.word_count,
                double(told.text_size) / 1e6,
                mode,
                examples::on_gpu ? "GPU" : "host executor");
    for (const phase &p : told.phases)
      std::printf("  %-12s %9.4f s\n", p.what, p.seconds);
    std::printf("  %-12s %9.4f s\n", "total", told.total());
    if (wanted.verify)
      std::printf("every count equals the reference's\n");
    return;
  }
  std::printf(
      "{\"program\": \"string_match\", \"mode\": \"%s\", \"is_cuda\": %d, \"words\": %llu, "
      "\"text_bytes\": %llu, "
      "\"seconds\": {",
      mode,
      examples::on_gpu ? 1 : 0,
      told.word_count,
      told.text_size);
  for (const phase &p : told.phases)
    std::printf("\"%s\": %.6f, ", p.what, p.seconds);
  std::printf(
      "\"total\": %.6f}, \"verified\": %s, \"device_hits\": %llu, \"misses\": %llu, "
      "\"store_read_size\": %llu}\n",
      told.total(),
      wanted.verify ? "true" : "false",
      (unsigned long long)told.statistics.device_hits,
      (unsigned long long)told.statistics.misses,
      (unsigned long long)told.statistics.store_read_size);
}

}  // namespace
}  // namespace string_match

int main(int count, char **words) {
  string_match::options wanted;
  int exit_code = 0;
  if (!string_match::parse_options(
          count, words, string_match::default_text_limit, wanted, exit_code))
    return exit_code;
  try {
    string_match::choose_inputs(wanted);
    if (wanted.texts.size() > string_match::text_count_max)
      throw std::runtime_error("more than 64 texts");
    auto told = wanted.no_api ? string_match::run_without_gfile(wanted)
                              : string_match::run_with_gfile(wanted);
    if (wanted.verify)
      string_match::verify(wanted, told);
    string_match::print(wanted, told);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "string_match: %s\n", error.what());
    return 1;
  }
}
