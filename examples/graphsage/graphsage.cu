// examples/graphsage/graphsage.cu: trains a GraphSAGE layer (Hamilton, Ying, Leskovec, NIPS 2017)
// on the features of a graph's nodes, which stay in a file: kernels gather the rows of a batch and
// of its neighbors by gread_rows. The graph is synthetic. The features of a node say little about
// its class, and those of its neighbors together say much. Usage: graphsage [FOLDER [NODES]]: where
// features.f32 is written, a path or a URL; without it, /tmp.
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/device_memory.hpp"

using namespace tanada;

constexpr u32 feature_count = 64, class_count = 8, neighbor_count = 8;
constexpr u32 input_count = 2 * feature_count;  // of the node, and the mean of its neighbors
constexpr u32 batch_count = 16;                 // nodes of a block
constexpr u32 row_count = 1 + neighbor_count;   // rows for each node of a batch
constexpr u32 weight_count = input_count * class_count;
constexpr u64 row_size = feature_count * sizeof(float);
constexpr u32 block_count = 32, thread_count = 128;

struct url {
  char text[gfile_url_size_max + 1];
};

using row = float[feature_count];

// Memory of one block.
struct batch {
  u64 numbers[batch_count * row_count];
  row rows[batch_count * row_count];
  float inputs[batch_count][input_count];
  float errors[batch_count][class_count];  // probability of each class, less 1 for the right one
  float gradient[weight_count];
};

struct graph {
  const u64 *neighbors;  // neighbor_count of each node
  u64 node_count;
};

// Node `number` belongs to this class.
TND_HD inline u32 class_of(u64 number) {
  return u32(number % class_count);
}

TND_KERNEL void write_features(url path, const float *features, u64 node_count) {
  this_block const block;
  int file = -1;
  if (gopen(block, path.text, g_wronly | g_creat | g_trunc, &file) != status::ok)
    return;
  (void)gwrite(block, file, features, 0, node_count * row_size);
  (void)gclose(block, file);
}

// The features of the batch's nodes, and the mean of their neighbors' features.
TND_DEVICE inline bool load_inputs(
    this_block block, int file, batch &work, const graph &of, const u64 *nodes) {
  for (u32 i = block.rank(); i < batch_count * row_count; i += block.size()) {
    u64 const node = nodes[i / row_count];
    u32 const k = i % row_count;
    work.numbers[i] = k == 0 ? node : of.neighbors[node * neighbor_count + k - 1];
  }
  gio_result const read =
      gread_rows(block, file, work.rows, work.numbers, batch_count * row_count, row_size);
  if (read.status != status::ok)
    return false;
  for (u32 i = block.rank(); i < batch_count * feature_count; i += block.size()) {
    u32 const v = i / feature_count, j = i % feature_count;
    float sum = 0;
    for (u32 k = 1; k < row_count; k++)
      sum += work.rows[v * row_count + k][j];
    work.inputs[v][j] = work.rows[v * row_count][j];
    work.inputs[v][feature_count + j] = sum / neighbor_count;
  }
  block.sync();
  return true;
}

// Softmax over the classes. Returns whether the right class is the most probable one.
TND_DEVICE inline bool predict(batch &work, u32 v, const float *weights, u32 right_class) {
  float scores[class_count], largest = -1e30f, sum = 0;
  u32 best = 0;
  for (u32 c = 0; c < class_count; c++) {
    scores[c] = 0;
    for (u32 j = 0; j < input_count; j++)
      scores[c] += work.inputs[v][j] * weights[j * class_count + c];
    best = scores[c] > largest ? c : best;
    largest = scores[c] > largest ? scores[c] : largest;
  }
  for (u32 c = 0; c < class_count; c++)
    sum += expf(scores[c] - largest);
  for (u32 c = 0; c < class_count; c++)
    work.errors[v][c] = expf(scores[c] - largest) / sum - (c == right_class ? 1.0f : 0.0f);
  return best == right_class;
}

// Each block takes batch_count nodes of the list, and leaves the gradient of their loss.
TND_KERNEL void train_batch(
    url path, batch *all, graph of, const u64 *nodes, const float *weights, u32 *right_count) {
  this_block const block;
  batch &work = all[simt::block_rank()];
  const u64 *const part = nodes + simt::block_rank() * batch_count;
  int file = -1;
  if (gopen(block, path.text, g_rdonly, &file) != status::ok)
    return;
  if (load_inputs(block, file, work, of, part)) {
    for (u32 v = block.rank(); v < batch_count; v += block.size())
      if (predict(work, v, weights, class_of(part[v])))
        (void)simt::device_atomic<u32>(*right_count).fetch_add_relaxed(1);
    block.sync();
    for (u32 i = block.rank(); i < weight_count; i += block.size()) {
      float sum = 0;
      for (u32 v = 0; v < batch_count; v++)
        sum += work.inputs[v][i / class_count] * work.errors[v][i % class_count];
      work.gradient[i] = sum;
    }
  }
  (void)gclose(block, file);
}

TND_KERNEL void update_weights(const batch *all, float *weights, float rate) {
  this_block const block;
  for (u32 i = block.rank(); i < weight_count; i += block.size()) {
    float sum = 0;
    for (u32 b = 0; b < block_count; b++)
      sum += all[b].gradient[i];
    weights[i] -= rate * sum / float(block_count * batch_count);
  }
}

// Waits for the kernels. If one failed, or a call in one, throws the reason.
static void wait_for_kernels() {
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  tnd_status code = ghandle();
  if (code == TND_OK)
    code = tnd_gfile_get_fault(tnd_gfile_default(), &fault);
  if (code != TND_OK)
    throw std::runtime_error(std::string(tnd_status_name(code)) + ": " + tnd_last_message());
  if (fault.status != TND_OK)
    throw std::runtime_error(std::string(fault.url) + ": " + tnd_status_name(fault.status));
}

// A weak pattern of the class, and noise.
static std::vector<float> make_features(u64 node_count) {
  std::mt19937 random{1};
  std::normal_distribution<float> noise{0, 1};
  float patterns[class_count][feature_count];
  for (auto &pattern : patterns)
    for (float &value : pattern)
      value = 0.2f * noise(random);
  std::vector<float> features(node_count * feature_count);
  for (u64 i = 0; i < features.size(); i++)
    features[i] = patterns[class_of(i / feature_count)][i % feature_count] + noise(random);
  return features;
}

// Seven of eight neighbors are of the node's class.
static std::vector<u64> make_neighbors(u64 node_count) {
  std::mt19937_64 random{2};
  std::vector<u64> neighbors(node_count * neighbor_count);
  for (u64 i = 0; i < neighbors.size(); i++) {
    u64 const other = random() % (node_count / class_count) * class_count;
    neighbors[i] = other + (random() % 8 != 0 ? class_of(i / neighbor_count) : random() % 8);
  }
  return neighbors;
}

// The share of nodes whose class was predicted.
static double run_epoch(const url &path,
                        const std::vector<u64> &nodes,
                        const graph &of,
                        examples::device_array<batch> &batches,
                        examples::device_array<float> &weights,
                        float rate) {
  constexpr u64 step = u64(block_count) * batch_count;
  u64 const used_count = nodes.size() / step * step;
  examples::device_array<u64> const list(nodes);
  examples::device_array<u32> right_count(std::vector<u32>(1, 0));
  for (u64 first = 0; first < used_count; first += step) {
    simt::launch({block_count},
                 {thread_count},
                 train_batch,
                 path,
                 batches.data(),
                 of,
                 list.data() + first,
                 weights.data(),
                 right_count.data());
    if (rate > 0)
      simt::launch({1}, {256}, update_weights, batches.data(), weights.data(), rate);
  }
  wait_for_kernels();
  return double(right_count.to_host()[0]) / double(used_count);
}

static void train(const url &path, u64 node_count) {
  {
    examples::device_array<float> const features(make_features(node_count));
    simt::launch({1}, {thread_count}, write_features, path, features.data(), node_count);
    wait_for_kernels();
  }
  examples::device_array<u64> const neighbors(make_neighbors(node_count));
  examples::device_array<batch> batches(block_count);
  examples::device_array<float> weights(std::vector<float>(weight_count, 0));
  graph const of{neighbors.data(), node_count};
  std::vector<u64> nodes(node_count);
  for (u64 i = 0; i < node_count; i++)
    nodes[i] = i;
  std::mt19937_64 random{3};
  std::shuffle(nodes.begin(), nodes.end(), random);
  u64 const test_count = node_count / 4;
  std::vector<u64> const test_nodes(nodes.begin(), nodes.begin() + long(test_count));
  std::vector<u64> training_nodes(nodes.begin() + long(test_count), nodes.end());
  for (u32 epoch = 1; epoch <= 3; epoch++) {
    std::shuffle(training_nodes.begin(), training_nodes.end(), random);
    (void)run_epoch(path, training_nodes, of, batches, weights, 0.5f);
    double const accuracy = run_epoch(path, test_nodes, of, batches, weights, 0);
    std::printf(
        "epoch %u: %.1f %% of the other nodes are classified correctly\n", epoch, 100 * accuracy);
  }
}

int main(int count, char **words) try {
  std::string const name = std::string(count > 1 ? words[1] : "/tmp") + "/features.f32";
  u64 const node_count = count > 2 ? std::strtoull(words[2], nullptr, 10) : 8192;
  if (name.size() > gfile_url_size_max || node_count < 4096)
    throw std::runtime_error("graphsage [FOLDER [NODES]], 4096 nodes at least");
  url path{};
  std::strcpy(path.text, name.c_str());
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.page_size = 4096;  // rows have 256 bytes
  if (tnd_status const code = ginitialize(&config); code != TND_OK)
    throw std::runtime_error(std::string(tnd_status_name(code)) + ": " + tnd_last_message());
  examples::print_device();
  train(path, node_count);
  if (tnd_status const code = gfinalize(); code != TND_OK)
    throw std::runtime_error(std::string(tnd_status_name(code)) + ": " + tnd_last_message());
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "graphsage: %s\n", error.what());
  return 1;
}
