// SPDX-License-Identifier: Apache-2.0
// Data-parallel training: while a rank computes the gradients of one layer, those of the layers
// behind it are averaged over all ranks.
#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>

#include "dense_layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

namespace {

constexpr int ranks = 4;
constexpr std::size_t samples = 256;  // of all ranks
constexpr int steps = 300;
constexpr float learning_rate = 0.1F;
constexpr std::size_t bucket_elements = 1000;  // at least, but for the last bucket

/// A bucket is a range of its gradients.
dense_network const network{{{32, 1}, {32, 32}, {2, 32}}};

struct trained {
  std::vector<float> weights;
  std::vector<float> losses;  // by step
};

std::vector<float> first_weights() {
  std::vector<float> result;
  for (auto const& layer : network.layers) {
    result.resize(result.size() + layer.weight_count());
    write_first_weights(layer, result.data() + result.size() - layer.weight_count());
  }
  return result;
}

/// Trains on some points.
///
/// on_gradients: called as soon as the first so many gradients of a step are computed
/// on_step:      called before the gradients of a step are used
template <class OnGradients, class OnStep>
trained train(labelled_points const& own, std::vector<float>& gradients,
              OnGradients const& on_gradients, OnStep const& on_step) {
  trained result{first_weights(), {}};
  auto const count = static_cast<float>(own.labels.size());
  for (int step = 0; step < steps; ++step) {
    auto const values = network.forward(result.weights, own.points);
    // The loss is the mean square of the errors, halved.
    auto of_output = values[0];
    float loss = 0;
    for (std::size_t k = 0; k < of_output.size(); ++k) {
      of_output[k] = (values[0][k] - own.labels[k]) / count;
      loss += of_output[k] * of_output[k] * count / 2;
    }
    result.losses.push_back(loss);
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    network.backward(result.weights, values, std::move(of_output), gradients, on_gradients);
    on_step();
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      result.weights[k] -= learning_rate * gradients[k];
    }
  }
  return result;
}

/// Trains a rank's share of the points, with gradients that are averaged over all ranks.
template <class Comm>
trained train_in_parallel(Comm& comm, blink::prepared_schedule& trees) {
  struct bucket {
    std::size_t end;
    blink::queued_call average;
  };
  std::vector<float> gradients(network.weight_count());
  blink::call_queue queue(comm, blink::progress::thread);
  std::vector<bucket> buckets;
  std::size_t begin = 0, end = 0;
  for (auto const& layer : network.layers) {
    end += layer.weight_count();
    if (end - begin < bucket_elements && end < gradients.size()) continue;
    float* const data = gradients.data() + begin;
    float const* const input = data;
    buckets.push_back({end, queue.make(blink::collective::all_reduce, trees, input, data,
                                       end - begin, blink::avg{})});
    begin = end;
  }
  constexpr std::size_t share = samples / ranks;
  return train(
      make_points(static_cast<std::size_t>(comm.rank()) * share, share), gradients,
      [&](std::size_t computed) {
        for (auto& each : buckets) {
          if (each.end == computed) each.average.start();
        }
      },
      [&] {
        for (auto& each : buckets) each.average.wait();
      });
}

}  // namespace

int main() {
  blink::thread_ranks threads(ranks);
  auto& trees = threads.prepare(blink::star_schedule(ranks));
  std::vector<trained> by_rank(ranks);
  threads.run([&](auto& comm) {
    by_rank[static_cast<std::size_t>(comm.rank())] = train_in_parallel(comm, trees);
  });

  std::vector<float> gradients(network.weight_count());
  auto const alone = train(make_points(0, samples), gradients, [](std::size_t) {}, [] {});
  bool are_equal = true;
  for (auto const& each : by_rank) are_equal = are_equal && each.weights == by_rank[0].weights;
  float difference = 0;
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    difference = std::max(difference, std::abs(alone.weights[k] - by_rank[0].weights[k]));
  }
  auto const mean_loss = [&](std::size_t step) {
    float sum = 0;
    for (auto const& each : by_rank) sum += each.losses[step];
    return sum / ranks;
  };
  float const first = mean_loss(0), last = mean_loss(steps - 1);
  std::printf("loss %.3f, after %d steps %.3f; ", static_cast<double>(first), steps,
              static_cast<double>(last));
  std::printf("ranks have %s weights, %.1g from those of one rank alone\n",
              are_equal ? "equal" : "DIFFERENT", static_cast<double>(difference));
  return last < first / 5 && are_equal && difference < 1e-3F ? 0 : 1;
}
