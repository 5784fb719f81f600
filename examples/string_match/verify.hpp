// examples/string_match/verify.hpp: the same counts by another algorithm: every substring of a text
// that is as long as some word is looked up in a hash table of the words.
#pragma once

#include <string>
#include <vector>

namespace string_match {

/// The lines that the program should have written for these words and texts.
std::string reference_lines(const std::string &dictionary,
                            const std::vector<std::string> &texts,
                            std::size_t word_limit);

/// Empty if both are equal, and otherwise the first difference.
std::string first_difference(const std::string &expected, const std::string &written);

}  // namespace string_match
