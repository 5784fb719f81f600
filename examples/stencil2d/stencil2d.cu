// stencil2d: a nine-point stencil on a grid shared by PEs with a GPU each. Edges move directly
// between the memories of the GPUs. They are put by the host, by a stream between kernels, or by
// the kernels themselves.
#include <cstdio>

#include "../common/pes.hpp"
#include "check.hpp"
#include "simulation.hpp"

namespace stencil2d {
namespace {

int simulate(const options &wanted, int me, int count) {
  places const all(count);
  simulation part(wanted, all, me);
  part.begin();
  double const fastest = examples::fastest_round(part, wanted.steps, wanted.rounds);
  int failed = 0;
  if (wanted.check) {
    double const difference = largest_difference(
        all, part.shape(), part.with(), wanted.steps * wanted.rounds, me, part.cells());
    failed = difference < 1e-12 ? 0 : 1;
    if (failed != 0)
      std::fprintf(
          stderr, "stencil2d: PE %d: off by %.3g of the whole grid's values\n", me, difference);
  }
  if (me == 0) {
    double const cells = double(wanted.rows) * wanted.columns * count;
    std::printf(
        "{\"program\": \"stencil2d\", \"exchange\": \"%s\", \"pes\": %d, \"across\": %d, \"rows\": "
        "%u, \"columns\": %u, "
        "\"step_us\": %.3f, \"cells_per_s\": %.4g}\n",
        wanted.exchange.c_str(),
        count,
        all.across,
        wanted.rows,
        wanted.columns,
        fastest / wanted.steps * 1e6,
        cells * wanted.steps / fastest);
  }
  return failed;
}

}  // namespace
}  // namespace stencil2d

int main(int count, char **words) {
  stencil2d::options wanted;
  int exit_code = 0;
  if (!stencil2d::parse_options(count, words, wanted, exit_code))
    return exit_code;
  return examples::run_pe("stencil2d",
                          [&](int me, int pes) { return stencil2d::simulate(wanted, me, pes); });
}
