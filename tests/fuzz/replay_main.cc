// A fuzzer without libFuzzer: run every input of the folders and files given, then some that a seed
// makes up.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

namespace {

int run_file(const std::filesystem::path &path) {
  std::ifstream in{path, std::ios::binary};
  std::vector<char> const bytes{std::istreambuf_iterator<char>{in}, {}};
  std::fprintf(stderr, "%s\n", path.filename().c_str());
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argument_count, char **arguments) {
  int input_count = 0;
  for (int i = 1; i < argument_count; i++) {
    if (!std::filesystem::is_directory(arguments[i])) {
      (void)run_file(arguments[i]);
      input_count++;
      continue;
    }
    for (auto const &entry : std::filesystem::directory_iterator{arguments[i]}) {
      (void)run_file(entry.path());
      input_count++;
    }
  }
  if (input_count == 0) {
    std::fprintf(stderr, "usage: %s FILE|FOLDER...; no input was found\n", arguments[0]);
    return 2;
  }
  std::mt19937 random{1};
  for (int i = 0; i < 100; i++) {
    std::vector<uint8_t> bytes(random() % 600);
    for (uint8_t &each : bytes)
      each = uint8_t(random());
    (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::fprintf(stderr, "%d inputs of the corpus and 100 others\n", input_count);
  return 0;
}
