#include "options.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "../common/command_line.hpp"

namespace string_match {

bool parse_options(
    int count, char **words, uint64_t default_text_limit, options &result, int &exit_code) {
  result.text_limit = default_text_limit;
  CLI::App app{
      "How often each word of a dictionary is contained in texts; a thread a word, files read and "
      "written in kernels."};
  app.add_option(
      "--dictionary", result.dictionary, "file of words, one a line, at most 31 bytes each");
  app.add_option("--text", result.texts, "file to search; may be given 64 times");
  app.add_option("--output", result.output, "local folder for counts.txt and the list of the texts")
      ->capture_default_str();
  app.add_option(
      "--store",
      result.store,
      "URL prefix, such as gfarm:///demo or mem://demo: the inputs are copied there first, "
      "and the counts go there");
  app.add_option(
         "--text-limit", result.text_limit, "search only so many bytes of each text; 0: all")
      ->capture_default_str();
  app.add_option("--word-limit", result.word_limit, "search only so many words; 0: all")
      ->capture_default_str();
  app.add_flag("--no-api",
               result.no_api,
               "without gfile: read(2), copies to the device, the same kernels, write(2)");
  app.add_flag(
      "--verify", result.verify, "compare every count with one made another way on the host");
  app.add_flag("--json", result.json, "print times as JSON");
  app.add_flag("--plant", result.plant, "spoil a count, for the test of --verify")->group("");
  return examples::parse(app, count, words, exit_code);
}

namespace {

// Words of the dictionary in the order of a linear congruence, ten on a line.
void generate_text(const std::string &dictionary, const std::string &path) {
  std::ifstream source(dictionary);
  std::vector<std::string> words;
  for (std::string word; source >> word;)
    words.push_back(word);
  if (words.empty())
    throw std::runtime_error("cannot make a text: no words in " + dictionary);
  std::ofstream text(path);
  uint64_t state = 1;
  for (int i = 1; i <= 100000; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text << words[(state >> 33) % words.size()] << (i % 10 == 0 ? '\n' : ' ');
  }
  text.close();
  if (!text)
    throw std::runtime_error("cannot write " + path);
}

}  // namespace

void choose_inputs(options &wanted) {
  std::filesystem::create_directories(wanted.output);
  auto const is_file = [](const char *path) {
    return std::filesystem::is_regular_file(path);
  };
  if (wanted.dictionary.empty()) {
    for (const char *path : {"../shared/data/words-corncob.txt", "/usr/share/dict/words"})
      if (wanted.dictionary.empty() && is_file(path))
        wanted.dictionary = path;
    if (wanted.dictionary.empty())
      throw std::runtime_error("no dictionary: give --dictionary, or install wamerican");
  }
  if (!wanted.texts.empty())
    return;
  const char *const text = "../shared/data/shakespeare.txt";
  if (is_file(text)) {
    wanted.texts = {text};
    return;
  }
  wanted.texts = {wanted.output + "/generated.txt"};
  generate_text(wanted.dictionary, wanted.texts[0]);
}

}  // namespace string_match
