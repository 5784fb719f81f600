// bench/gfile/strings_job.cu: the kernels of the example string_match, on files of a store and on
// the same bytes in device memory.
#include "../../examples/common/whole_file.hpp"
#include "../../examples/string_match/match.hpp"
#include "../common/report.hpp"
#include "no_api.hpp"

namespace bench {

using tanada::simt::dim3;
using tanada::u64;
using tanada::u8;

namespace {

using memory_job = string_match::job<string_match::memory_file>;
using stored_job = string_match::job<string_match::stored_file>;

// Indexes the dictionary of the job and counts its words. Returns the number of words.
template <class File>
u64 run_match(const string_match::job<File> *work,
              u64 dictionary_size,
              examples::kernel_outcome &outcome) {
  examples::device_array<u64> starts(dictionary_size / 2 + 1), count(1);
  tanada::simt::launch(dim3{1},
                       dim3{string_match::block_size},
                       string_match::index_words<File>,
                       work,
                       starts.data(),
                       ~0ull,
                       count.data(),
                       outcome.code());
  outcome.await("read the dictionary");
  u64 const word_count = count.to_host()[0];
  if (word_count == 0)
    throw std::runtime_error("the dictionary has no words");
  u64 const block_size = string_match::block_size;
  tanada::simt::launch(dim3{tanada::u32((word_count + block_size - 1) / block_size)},
                       dim3{string_match::block_size},
                       string_match::match_words<File>,
                       work,
                       starts.data(),
                       word_count,
                       outcome.code());
  outcome.await("match");
  return word_count;
}

}  // namespace

std::string match_in_memory(const std::string &dictionary, const std::vector<std::string> &texts) {
  if (texts.size() > string_match::text_count_max)
    throw std::runtime_error("more than 64 texts");
  examples::kernel_outcome outcome;
  std::vector<examples::device_array<u8>> memory;
  auto const place = [&](const std::string &bytes) {
    memory.emplace_back(std::vector<u8>(bytes.begin(), bytes.end()));
    return string_match::sized_file<string_match::memory_file>{{memory.back().data(), bytes.size()},
                                                               bytes.size()};
  };
  memory_job job{};
  job.dictionary = place(dictionary);
  for (const std::string &text : texts)
    job.texts[job.text_count++] = place(text);
  examples::device_array<u8> counts((dictionary.size() / 2 + 1) * string_match::line_size);
  job.counts = {counts.data(), counts.size()};
  examples::device_array<memory_job> const work(std::vector{job});
  std::string lines(run_match(work.data(), dictionary.size(), outcome) * string_match::line_size,
                    '\0');
  examples::copy_to_host(lines.data(), counts.data(), lines.size());
  return lines;
}

match_time match_by_kernels(const string_files &files, uint32_t direct) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  config.direct = direct;
  config.mapping = TND_GFILE_MAPPING_OFF;
  if (ginitialize(&config) != TND_OK)
    throw std::runtime_error(std::string{"ginitialize: "} + tnd_last_message());
  (void)examples::read_file<char>(files.list);  // connects
  examples::kernel_outcome outcome;
  examples::device_array<stored_job> work(1);
  double const start = now_s();
  tanada::simt::launch(dim3{1},
                       dim3{1},
                       string_match::open_files,
                       examples::device_url(files.dictionary),
                       examples::device_url(files.list),
                       examples::device_url(files.counts),
                       files.text_size_max,
                       work.data(),
                       outcome.code());
  outcome.await("open the files");
  (void)run_match(work.data(), work.to_host()[0].dictionary.size, outcome);
  tanada::simt::launch(dim3{1}, dim3{1}, string_match::close_files, work.data(), outcome.code());
  outcome.await("publish the counts");
  double const seconds = now_s() - start;
  std::vector<char> const counts = examples::read_file<char>(files.counts);
  if (gfinalize() != TND_OK)
    throw std::runtime_error(std::string{"gfinalize: "} + tnd_last_message());
  return {seconds, hash_of(std::string(counts.begin(), counts.end()))};
}

}  // namespace bench
