// c = a + b over three files of any store, with no staging code: figure 4 of the paper.
// Usage: vector_add [URLPREFIX]
#include "../common/whole_file.hpp"
#include <cstdio>
using namespace tanada;
using numbers = float[1024];

TND_KERNEL void plus(examples::device_url url_a, examples::device_url url_b,
                     examples::device_url url_c, int *outcome) {
  TND_SHARED(numbers, a);
  TND_SHARED(numbers, b);
  this_block const all;
  int fd_a, fd_b, fd_c;
  auto const ok = [=](status code) {
    return examples::succeeded(code, outcome);
  };  // the first failure is kept
  if (!ok(gopen(all, url_a.text, g_rdonly, &fd_a)) ||
      !ok(gopen(all, url_b.text, g_rdonly, &fd_b)) ||
      !ok(gopen(all, url_c.text, g_wronly | g_creat | g_trunc, &fd_c)))
    return;
  if (!ok(gread(all, fd_a, a, 0, sizeof a).status) || !ok(gread(all, fd_b, b, 0, sizeof b).status))
    return;
  for (u32 i = all.rank(); i < 1024; i += all.size())
    a[i] += b[i];
  all.sync();
  ok(gwrite(all, fd_c, a, 0, sizeof a).status);
  ok(gclose(all, fd_a));
  ok(gclose(all, fd_b));
  ok(gclose(all, fd_c));
}
int main(int count, char **words) try {
  std::string const prefix = count > 1 ? words[1] : "/tmp", a = prefix + "/a.f32",
                    b = prefix + "/b.f32", c = prefix + "/c.f32";
  std::vector<float> x(1024), y(1024), sum(1024);
  for (u32 i = 0; i < 1024; i++) {
    x[i] = float(i);
    y[i] = 0.5f * float(i);
    sum[i] = x[i] + y[i];
  }
  examples::gfile_session gfile;  // ginitialize ... gfinalize
  examples::print_device();
  examples::write_file(a, x);
  examples::write_file(b, y);
  examples::kernel_outcome outcome;
  simt::launch({1}, {64}, plus, examples::device_url(a), examples::device_url(b),
               examples::device_url(c), outcome.code());
  outcome.await("add " + a + " and " + b);  // ghandle
  bool const right = examples::read_file<float>(c) == sum;
  gfile.finish();
  std::puts(right ? "c = a + b" : "wrong sum");
  return right ? 0 : 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "vector_add: %s\n", error.what());
  return 1;
}
