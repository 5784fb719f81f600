// examples/string_match/options.hpp: the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace string_match {

struct options {
  std::string dictionary;          // a path; without a store: any URL
  std::vector<std::string> texts;  // likewise
  std::string output = "string_match-output";
  std::string store;        // URL prefix; empty: files are used in place
  uint64_t text_limit = 0;  // bytes of each text; 0: whole
  uint64_t word_limit = 0;  // 0: all
  bool no_api = false, json = false, verify = false, plant = false;
};

/// Returns false if the program should end now with `exit_code`. `default_text_limit`: see
/// options::text_limit.
bool parse_options(
    int count, char **words, uint64_t default_text_limit, options &result, int &exit_code);

/// Sets the dictionary and the texts that the command line did not name; generates a missing text.
/// Throws.
void choose_inputs(options &wanted);

}  // namespace string_match
