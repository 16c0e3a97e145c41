// SPDX-License-Identifier: Apache-2.0
// Pipeline-parallel training with two versions of the weights: stages pass activations on and
// gradients back, and the replicas of a stage average their gradients meanwhile.
//
// Source: D. Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021
//         (PipeDream-2BW).
#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/host/thread_messengers.hpp>

#include "dense_layer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <utility>
#include <vector>

namespace {

/// One layer for each stage. The ranks of a stage follow each other.
std::vector<dense_layer> const layers{{2, 32}, {32, 32}, {32, 1}};
int const stages = static_cast<int>(layers.size());
constexpr int replicas = 2;
constexpr int batches = 300;
constexpr int microbatches = 4;      // of a batch; at least as many as stages
constexpr std::size_t samples = 32;  // of a microbatch of a replica
constexpr float learning_rate = 0.1F;

std::vector<float> first_weights(dense_layer const& layer) {
  std::vector<float> result(layer.weight_count());
  write_first_weights(layer, result.data());
  return result;
}

labelled_points points_of(int replica, int microbatch) {
  auto const number = static_cast<std::size_t>(replica * microbatches + microbatch);
  return make_points(number * samples, samples);
}

/// The gradient of the loss, half the mean square of the errors of all samples of a replica.
std::vector<float> gradient_of_loss(std::vector<float> const& output,
                                    std::vector<float> const& labels) {
  std::vector<float> result;
  for (std::size_t k = 0; k < output.size(); ++k) {
    result.push_back((output[k] - labels[k]) / static_cast<float>(microbatches * samples));
  }
  return result;
}

/// One replica of a stage.
///
/// Batch b computes with the weights W(b-1), and W(b+1) = W(b) - rate * gradient of batch b. So the
/// average of its gradients may take as long as the whole next batch. Two versions suffice: that of
/// the batches with even numbers, and that of the others.
template <class Comm, class Group>
class replica_of_stage {
 public:
  /// comm: all ranks; group: the replicas of this rank's stage
  replica_of_stage(Comm& comm, Group& group, blink::prepared_schedule& trees)
      : comm_(comm),
        stage_(comm.rank() / replicas),
        layer_(layers[static_cast<std::size_t>(stage_)]),
        queue_(group, blink::progress::thread) {
    for (std::size_t parity = 0; parity < 2; ++parity) {
      weights_[parity] = first_weights(layer_);
      gradients_[parity].resize(layer_.weight_count());
      float* const data = gradients_[parity].data();
      float const* const input = data;
      averages_[parity] = queue_.make(blink::collective::all_reduce, trees, input, data,
                                      layer_.weight_count(), blink::avg{});
    }
  }

  /// Returns the weights after all batches.
  std::vector<float> train() {
    constexpr int all = batches * microbatches;
    int const ahead = stages - 1 - stage_;  // forward passes before the first backward pass
    for (int step = 0; step < all + ahead; ++step) {
      if (step < all) forward(step);
      if (step >= ahead) backward(step - ahead);
    }
    update(batches);
    update(batches + 1);
    return weights_[(batches + 1) % 2];
  }

 private:
  /// Makes W(batch-1), the weights of a batch, in the place of W(batch-3).
  void update(int batch) {
    if (batch < 2) return;  // W(-1) = W(0), the first weights
    auto const own = static_cast<std::size_t>(batch) % 2;
    averages_[own].wait();  // of batch-2
    for (std::size_t k = 0; k < weights_[own].size(); ++k) {
      weights_[own][k] = weights_[1 - own][k] - learning_rate * gradients_[own][k];
    }
    std::fill(gradients_[own].begin(), gradients_[own].end(), 0.0F);
  }

  void forward(int microbatch) {
    int const batch = microbatch / microbatches;
    if (microbatch % microbatches == 0) update(batch);
    passing now;
    if (stage_ == 0) {
      now.x = points_of(comm_.rank() % replicas, microbatch % microbatches).points;
    } else {
      now.x.resize(samples * layer_.inputs);
      blink::receive(comm_, comm_.rank() - replicas, now.x.data(), now.x.size());
    }
    now.y = layer_.forward(weights_[static_cast<std::size_t>(batch) % 2].data(), now.x);
    if (stage_ + 1 < stages) {
      blink::send(comm_, comm_.rank() + replicas, now.y.data(), now.y.size());
    }
    in_flight_.push_back(std::move(now));
  }

  void backward(int microbatch) {
    auto const own = static_cast<std::size_t>(microbatch / microbatches) % 2;
    auto const then = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<float> of_y(then.y.size());
    if (stage_ + 1 < stages) {
      blink::receive(comm_, comm_.rank() + replicas, of_y.data(), of_y.size());
    } else {
      auto const own_points = points_of(comm_.rank() % replicas, microbatch % microbatches);
      of_y = gradient_of_loss(then.y, own_points.labels);
    }
    auto const of_x =
        layer_.backward(weights_[own].data(), then.x, then.y, of_y, gradients_[own].data());
    if (stage_ > 0) blink::send(comm_, comm_.rank() - replicas, of_x.data(), of_x.size());
    if ((microbatch + 1) % microbatches == 0) averages_[own].start();
  }

  struct passing {
    std::vector<float> x, y;
  };

  Comm& comm_;
  int stage_;
  dense_layer layer_;
  std::array<std::vector<float>, 2> weights_;  // by parity of the batches that use them
  std::array<std::vector<float>, 2> gradients_;
  blink::call_queue<Group> queue_;
  std::array<blink::queued_call, 2> averages_;
  std::deque<passing> in_flight_;  // microbatches between their passes
};

using network_weights = std::vector<std::vector<float>>;  // by layer

/// The outputs of all layers, after the input.
std::vector<std::vector<float>> outputs_of(network_weights const& weights,
                                           std::vector<float> const& x) {
  std::vector<std::vector<float>> result{x};
  for (std::size_t k = 0; k < layers.size(); ++k) {
    result.push_back(layers[k].forward(weights[k].data(), result.back()));
  }
  return result;
}

/// The same rule in one thread: W(b+1) = W(b) - rate * gradient at W(b-1).
network_weights train_alone() {
  network_weights newer;
  for (auto const& layer : layers) newer.push_back(first_weights(layer));
  auto older = newer;
  for (int batch = 0; batch < batches; ++batch) {
    auto next = newer;
    for (int part = 0; part < replicas * microbatches; ++part) {
      auto const of_part = points_of(0, part);
      auto const outputs = outputs_of(older, of_part.points);
      auto of_y = gradient_of_loss(outputs.back(), of_part.labels);
      for (std::size_t k = layers.size(); k-- > 0;) {
        std::vector<float> gradient(layers[k].weight_count());
        of_y =
            layers[k].backward(older[k].data(), outputs[k], outputs[k + 1], of_y, gradient.data());
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          next[k][i] -= learning_rate * gradient[i] / replicas;
        }
      }
    }
    older = std::exchange(newer, std::move(next));
  }
  return newer;
}

/// The part of the points whose class the network finds.
double accuracy(network_weights const& weights) {
  auto const all = make_points(0, replicas * microbatches * samples);
  auto const output = outputs_of(weights, all.points).back();
  std::size_t right = 0;
  for (std::size_t k = 0; k < output.size(); ++k) right += output[k] * all.labels[k] > 0 ? 1U : 0U;
  return static_cast<double>(right) / static_cast<double>(output.size());
}

}  // namespace

int main() {
  std::vector<std::vector<float>> by_rank(static_cast<std::size_t>(stages * replicas));
  blink::thread_ranks threads(stages * replicas);
  threads.run([&](auto& comm) {
    auto group = blink::split(comm, comm.rank() / replicas, 0);
    replica_of_stage own(comm, *group, group->prepare(blink::star_schedule(replicas)));
    by_rank[static_cast<std::size_t>(comm.rank())] = own.train();
  });

  network_weights first, trained;
  bool are_equal = true;
  float difference = 0;
  auto const alone = train_alone();
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    first.push_back(first_weights(layers[stage]));
    trained.push_back(by_rank[stage * replicas]);
    for (std::size_t k = 0; k < replicas; ++k) {
      are_equal = are_equal && by_rank[stage * replicas + k] == trained[stage];
    }
    for (std::size_t k = 0; k < trained[stage].size(); ++k) {
      difference = std::max(difference, std::abs(trained[stage][k] - alone[stage][k]));
    }
  }
  std::printf("%.0f %% right, after %d batches %.0f %%; replicas have %s weights, ",
              100 * accuracy(first), batches, 100 * accuracy(trained),
              are_equal ? "equal" : "DIFFERENT");
  std::printf("%.1g from those of one thread\n", static_cast<double>(difference));
  return accuracy(trained) > 0.9 && are_equal && difference < 1e-3F ? 0 : 1;
}
