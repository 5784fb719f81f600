// lbm: a fluid driven between two plates, by the lattice Boltzmann method on the lattice D3Q19. The
// PEs, with a GPU each, have slabs of a ring. Populations that cross to a neighbour move directly
// between the memories of the GPUs.
#include <cmath>
#include <cstdio>

#include "../common/pes.hpp"
#include "simulation.hpp"

namespace lbm {
namespace {

/// The largest difference from the steady flow between two plates half a cell outside the grid, as
/// a fraction of its highest speed.
double off_poiseuille(const simulation &part) {
  slab const &s = part.shape();
  fluid const of;
  auto const field = part.field();
  double const height = s.height, fastest = of.force / of.viscosity() / 8 * height * height;
  double largest = 0;
  for (u32 z = 0; z < s.depth; z++) {
    for (u32 y = 0; y < s.height; y++) {
      double const theory = of.force / (2 * of.viscosity()) * (y + 0.5) * (height - 0.5 - y);
      double const difference =
          std::abs(flow_along_x(s, field.data(), s.width / 2, y, z) - theory) / fastest;
      largest = difference <= largest ? largest : difference;  // NaN counts
    }
  }
  return largest;
}

int check(options wanted, int me, int count) {
  wanted.width = 8;
  wanted.height = 16;
  wanted.depth = 4;
  simulation part(wanted, me, count);
  part.run(6000);
  shmem_barrier_all();
  double const off = off_poiseuille(part);
  double const cells = double(wanted.width) * wanted.height * wanted.depth * count,
               lost = std::abs(part.mass() - cells) / cells;
  bool const good = off < 0.01 && lost < 1e-10;
  if (me == 0 || !good) {
    std::fprintf(good ? stdout : stderr,
                 "lbm: PE %d of %d, %s: %.3f %% off Poiseuille's parabola, %.0e of the mass lost\n",
                 me,
                 count,
                 wanted.exchange.c_str(),
                 100 * off,
                 lost);
  }
  return good ? 0 : 1;
}

int measure(const options &wanted, int me, int count) {
  simulation part(wanted, me, count);
  double const fastest = examples::fastest_round(part, wanted.steps, wanted.rounds);
  if (me == 0) {
    double const cells = double(wanted.width) * wanted.height * wanted.depth * count;
    std::printf(
        "{\"program\": \"lbm\", \"exchange\": \"%s\", \"pes\": %d, \"width\": %u, \"height\": %u, "
        "\"depth\": %u, "
        "\"step_us\": %.3f, \"cells_per_s\": %.4g}\n",
        wanted.exchange.c_str(),
        count,
        wanted.width,
        wanted.height,
        wanted.depth,
        fastest / wanted.steps * 1e6,
        cells * wanted.steps / fastest);
  }
  return 0;
}

}  // namespace
}  // namespace lbm

int main(int count, char **words) {
  lbm::options wanted;
  int exit_code = 0;
  if (!lbm::parse_options(count, words, wanted, exit_code))
    return exit_code;
  return examples::run_pe("lbm", [&](int me, int pes) {
    return wanted.check ? lbm::check(wanted, me, pes) : lbm::measure(wanted, me, pes);
  });
}
