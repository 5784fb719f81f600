// products/comex/armci/domains.cc: queries about the ranks of each node.
#include "products/comex/armci/define.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace {

int node_of(const char *call, int rank) {
  auto const &self = running(call);
  if (rank < 0 || rank >= self.count)
    fatal(call, "there is no rank {}: valid are 0 to {}", rank, self.count - 1);
  return self.nodes.node_of[size_t(rank)];
}

bool is_neighbour(const char *call, int rank) {
  return node_of(call, rank) == node_of(call, running(call).me);
}

const std::vector<int> &ranks_of(const char *call, int node) {
  auto const &nodes = running(call).nodes.ranks_of;
  if (node < 0 || size_t(node) >= nodes.size())
    fatal(call, "there is no node {}: valid are 0 to {}", node, int(nodes.size()) - 1);
  return nodes[size_t(node)];
}

}  // namespace

ARMCI_DEFINE_PLAIN(int, ARMCI_Same_node, (int proc), { return is_neighbour(call, proc); })

ARMCI_DEFINE_PLAIN(int, armci_sameclusnode, (int proc), { return is_neighbour(call, proc); })

ARMCI_DEFINE_PLAIN(int, armci_domain_same_id, ([[maybe_unused]] armci_domain_t domain, int proc), {
  return is_neighbour(call, proc);
})

ARMCI_DEFINE_PLAIN(int, armci_domain_count, ([[maybe_unused]] armci_domain_t domain), {
  return int(running(call).nodes.ranks_of.size());
})

ARMCI_DEFINE_PLAIN(int, armci_domain_my_id, ([[maybe_unused]] armci_domain_t domain), {
  return node_of(call, running(call).me);
})

ARMCI_DEFINE_PLAIN(int,
                   armci_domain_id,
                   ([[maybe_unused]] armci_domain_t domain, int glob_proc_id),
                   { return node_of(call, glob_proc_id); })

ARMCI_DEFINE_PLAIN(int, armci_domain_nprocs, ([[maybe_unused]] armci_domain_t domain, int id), {
  // A negative id means this rank's node, for programs written for the first ARMCI.
  return int(ranks_of(call, id < 0 ? node_of(call, running(call).me) : id).size());
})

ARMCI_DEFINE_PLAIN(int,
                   armci_domain_glob_proc_id,
                   ([[maybe_unused]] armci_domain_t domain, int id, int loc_proc_id),
                   {
                     auto const &ranks = ranks_of(call, id);
                     if (loc_proc_id < 0 || size_t(loc_proc_id) >= ranks.size()) {
                       fatal(call,
                             "there is no rank {} in node {}: valid are 0 to {}",
                             loc_proc_id,
                             id,
                             int(ranks.size()) - 1);
                     }
                     return ranks[size_t(loc_proc_id)];
                   })
