// Any sequence of gfile's calls by one thread, against the models of the simulation (tests/sim):
// the first bytes choose sizes, policies and faults, the rest are the calls.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>

#include "../sim/gfile_harness.hpp"

namespace {

using namespace gfile_sim;

class reader {
 public:
  reader(const uint8_t *bytes, size_t size) : at_{bytes}, end_{bytes + size} {}
  bool empty() const {
    return at_ == end_;
  }
  u32 byte() {
    return empty() ? 0 : *at_++;
  }
  u32 word() {
    return byte() | byte() << 8;
  }

 private:
  const uint8_t *at_, *end_;
};

constexpr u32 calls_max = 60;

step next_step(reader &from, gfile_run &run, u32 number) {
  static constexpr int flags[] = {O_RDWR | O_CREAT,
                                  O_RDONLY,
                                  O_WRONLY | O_CREAT,
                                  O_RDWR,
                                  O_RDWR | O_CREAT | O_TRUNC,
                                  O_RDWR | O_CREAT | O_EXCL,
                                  O_WRONLY | O_TRUNC,
                                  O_WRONLY};
  actor const &who = run.actor_at(0);
  step made{action(from.byte() % 10),
            u32(from.byte() % who.slots.size()),
            flags[from.byte() % 8],
            0,
            0,
            number + 1};
  made.offset = from.word() % 32768;
  made.size = from.word() % (3 * 4096);
  slot const &on = who.slots[made.slot];
  if (on.kind == file_kind::foreign)
    made.flags = O_RDONLY;
  if (on.kind == file_kind::shared) {
    made.flags &= ~(O_TRUNC | O_EXCL);
    if ((made.flags & 3) != O_RDONLY)
      made.flags |= O_CREAT;
    u64 const limit = run.shared(on.file).size_max();
    if (made.what == action::write) {
      made.offset %= limit;
      if (made.size > limit - made.offset)
        made.size = limit - made.offset;
    }
  }
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  reader from{bytes, size};
  u64 const seed = from.word();
  weather const sky = weather(from.byte() % 3);
  gfile_run run{
      {.seed = seed, .sky = sky, .told = std::getenv("TND_SIM_TELL") != nullptr, .alone = true}};
  std::vector<step> script;
  while (!from.empty() && script.size() < calls_max)
    script.push_back(next_step(from, run, u32(script.size())));
  std::string const why = run.run(std::move(script));
  if (why.empty())
    return 0;
  std::fprintf(stderr, "gfile_calls_fuzz: %s\n", why.c_str());
  std::abort();
}
