// C++ containers whose memory is swapped out while their process waits. They must hold the same as
// without swapping. Rank 0 prints a checksum. Usage: containers SEED ROUNDS
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

extern "C" {
#include "armci.h"
#include "message.h"
}

namespace {

using words = std::vector<uint64_t>;

uint64_t sum_of(const words &all) {
  return std::accumulate(
      all.begin(), all.end(), uint64_t{14695981039346656037u}, [](uint64_t sum, uint64_t each) {
        return (sum ^ each) * 1099511628211u;
      });
}

struct alignas(4096) page {
  uint64_t numbers[512];
};

// The containers of one rank, for some rounds: they grow, move and shrink.
struct everything {
  std::mt19937_64 random;
  words sorted;
  std::map<std::string, words> by_name;
  std::unordered_map<uint64_t, std::string> texts;
  std::deque<words> queue;
  std::vector<std::unique_ptr<page[]>> pages;
  words left;  // removed values

  explicit everything(uint64_t seed) : random{seed} {}

  void change() {
    for (int i = 0; i < 20000; i++)
      sorted.push_back(random());
    std::sort(sorted.begin(), sorted.end());
    auto const name = "name " + std::to_string(random() % 12) + std::string(40, 'x');
    auto &named = by_name[name];
    named.insert(named.end(), 30000 + random() % 20000, random());
    if (by_name.size() > 6) {
      left.push_back(sum_of(by_name.begin()->second));
      by_name.erase(by_name.begin());
    }
    texts[random() % 20].append(50000 + random() % 100000, char('a' + random() % 26));
    if (texts.size() > 8)
      texts.erase(texts.begin());
    queue.emplace_back(40000, random());
    if (queue.size() > 4) {
      left.push_back(sum_of(queue.front()));
      queue.pop_front();
    }
    pages.emplace_back(new page[64]());
    for (int i = 0; i < 64; i++)
      pages.back()[i].numbers[i] = random();
    if (pages.size() > 5)
      pages.erase(pages.begin());
    auto const by_threads = [](uint64_t seed) {
      words mine(50000, seed);
      return sum_of(mine);
    };
    uint64_t sums[2] = {};
    std::thread one{[&] {
      sums[0] = by_threads(1);
    }},
        two{[&] {
          sums[1] = by_threads(2);
        }};
    one.join();
    two.join();
    left.push_back(sums[0] ^ sums[1]);
    std::shuffle(queue.back().begin(), queue.back().end(), random);
    queue.back().shrink_to_fit();
  }

  uint64_t sum() const {
    uint64_t all = sum_of(sorted) ^ sum_of(left);
    for (auto const &[name, named] : by_name)
      all = all * 31 + sum_of(named) + std::hash<std::string>{}(name);
    for (auto const &each : queue)
      all = all * 31 + sum_of(each);
    for (auto const &each : pages) {
      if (reinterpret_cast<uintptr_t>(each.get()) % alignof(page) != 0)
        return 0;
      for (int i = 0; i < 64; i++)
        all = all * 31 + each[i].numbers[i] + each[i].numbers[511 - i];
    }
    uint64_t of_texts = 0;
    for (auto const &[key, text] : texts)
      of_texts += key * text.size() + uint64_t(std::count(text.begin(), text.end(), 'q'));
    return all ^ of_texts;
  }
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  MPI_Init(&argc, &argv);
  ARMCI_Init();
  int const me = armci_msg_me();
  auto mine = std::make_unique<everything>(uint64_t(std::atol(argv[1])) * 1000 + uint64_t(me));
  for (int round = 0; round < std::atoi(argv[2]); round++) {
    mine->change();
    armci_msg_barrier();
    // More memory than there is: the allocation is refused, and the program continues.
    auto *const too_much = new (std::nothrow) char[size_t{1} << 40];
    delete[] too_much;
    if (too_much != nullptr)
      MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  long sum = long(mine->sum() >> 8);
  armci_msg_lgop(&sum, 1, const_cast<char *>("+"));
  ARMCI_Finalize();
  long const after = long(mine->sum() >> 8);  // the data must still be valid
  long total = 0;
  MPI_Allreduce(&after, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (total != sum)
    MPI_Abort(MPI_COMM_WORLD, 4);
  mine.reset();
  MPI_Finalize();
  if (me == 0)
    std::printf("sum %lx\npassed\n", static_cast<unsigned long>(sum));
  return 0;
}
