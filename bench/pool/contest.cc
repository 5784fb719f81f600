#include "contest.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace bench {
namespace {

// Larger objects are read back into their source buffer, because there may not be enough memory for
// two.
constexpr uint64_t two_buffers_size_max = uint64_t{1} << 30;

// word(offset, value) for each of the pattern's words.
template <class Word>
void each_word(uint64_t size, Word word) {
  uint64_t state = 88172645463325252ull;
  for (uint64_t at = 0; at + 8 <= size; at += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    word(at, state);
  }
}

std::vector<uint8_t> pattern(uint64_t size) {
  std::vector<uint8_t> bytes(size);
  each_word(size, [&](uint64_t at, uint64_t value) { std::memcpy(&bytes[at], &value, 8); });
  return bytes;
}

bool is_pattern(const std::vector<uint8_t> &bytes) {
  bool same = true;
  each_word(bytes.size(), [&](uint64_t at, uint64_t value) {
    same = same && std::memcmp(&bytes[at], &value, 8) == 0;
  });
  return same;
}

void keep(timings &all, const std::vector<double> &round) {
  all.rounds.push_back(median(round));
  all.calls.insert(all.calls.end(), round.begin(), round.end());
}

}  // namespace

void field::add(const std::string &id,
                const std::string &label,
                factory make,
                const rival_options &options) {
  labels_[id] = label;
  try {
    entry made;
    made.store = make(options);
    made.connection = made.store->connect();
    entries_[id] = std::move(made);
  } catch (const std::runtime_error &error) {
    leave(id, error.what());
  }
}

void field::forgo(const std::string &id, const std::string &label) {
  labels_[id] = label;
  leave(id, "not asked for");
}

void field::leave(const std::string &id, const std::string &reason) {
  entries_.erase(id);
  absent_[id] = labels_[id] + " is left out: " + reason;
  std::fprintf(stderr, "bench_pool: %s\n", absent_[id].c_str());
}

std::string field::label(const std::string &id) const {
  auto const left = absent_.find(id);
  return left == absent_.end() ? labels_.at(id) : left->second;
}

std::map<std::string, outcome> contest(field &all,
                                       const std::vector<std::string> &ids,
                                       const contest_size &size) {
  std::vector<uint8_t> source = pattern(size.object), second;
  if (size.object <= two_buffers_size_max)
    second.resize(size.object);
  std::vector<uint8_t> &target = second.empty() ? source : second;
  std::vector<std::string> here;
  for (const std::string &id : ids)
    if (all.has(id))
      here.push_back(id);
  std::map<std::string, outcome> found;
  std::string const key = "bench";  // one key for all sizes, so that stores hold only one object
  for (unsigned round = 0; round <= size.rounds && !here.empty(); round++) {
    std::rotate(here.begin(), here.begin() + 1, here.end());
    for (const std::string &id : std::vector<std::string>(here)) {
      try {
        client &store = all.connection(id);
        std::vector<double> const put = store.put(key, source.data(), size.object, size.count);
        if (round == 0 && store.is_here())
          std::fill(target.begin(), target.end(), 0);
        std::vector<double> const get = store.get(key, target.data(), size.object, size.count);
        if (round == 0) {
          if (store.is_here() && !is_pattern(target))
            throw std::runtime_error("it gave back other bytes");
          continue;
        }
        keep(found[id].put, put);
        keep(found[id].get, get);
      } catch (const std::runtime_error &error) {
        all.leave(id, error.what());
        found.erase(id);
        here.erase(std::find(here.begin(), here.end(), id));
      }
    }
  }
  for (auto &[id, each] : found)
    for (timings *const one : {&each.put, &each.get})
      std::sort(one->calls.begin(), one->calls.end());
  return found;
}

double ratio_of_rounds(const timings &above, const timings &below) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(above.rounds.size(), below.rounds.size()); i++)
    ratios.push_back(above.rounds[i] / below.rounds[i]);
  return median(ratios);
}

}  // namespace bench
