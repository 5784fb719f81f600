// string_match/verify.hpp: the same counts, made another way: every run of a text that is as long
// as some word is looked up in a hash table of the words.
#pragma once

#include <string>
#include <vector>

namespace string_match {

/// The lines that the program should have written for these words and texts.
std::string reference_lines(const std::string &dictionary, const std::vector<std::string> &texts,
                            std::size_t word_limit);

/// Empty if they are equal; else what the first difference is.
std::string first_difference(const std::string &expected, const std::string &written);

}  // namespace string_match
