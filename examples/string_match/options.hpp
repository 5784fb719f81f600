// string_match/options.hpp: the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace string_match {

struct options {
  std::string dictionary;          // a path; with no store: any URL
  std::vector<std::string> texts;  // likewise
  std::string output = "string_match-output";
  std::string store;        // URL prefix; empty: files are used where they are
  uint64_t text_limit = 0;  // bytes of each text; 0: whole
  uint64_t word_limit = 0;  // 0: all
  bool no_api = false, json = false, verify = false, plant = false;
};

/// Returns false when the program should end now with `exit_code`. `default_text_limit`: as
/// options::text_limit.
bool parse_options(int count, char **words, uint64_t default_text_limit, options &result,
                   int &exit_code);

/// Fill in the dictionary and the texts that the line did not name; a text is generated if there is
/// none. Throws.
void choose_inputs(options &wanted);

}  // namespace string_match
