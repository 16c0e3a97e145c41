// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>

#include "../../examples/dense_layer.hpp"
#include "digits.hpp"
#include "iteration.hpp"
#include "networks.hpp"
#include "replay.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <numeric>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace blink_bench {

/// A network for digits and its training, by stochastic gradient descent with momentum.
struct digits_settings {
  std::vector<std::size_t> hidden{512, 512, 512};  ///< outputs of the layers before the last one
  int images = 32;                                 ///< of one rank in an iteration
  double loss = 0.05;  ///< training ends when that of all training images is below
  float learning_rate = 0.05F;
  float momentum = 0.9F;
  unsigned seed = 1;  ///< of the first weights and the order of the images
  int most_iterations = 2000;
};

/// The layers that train.
[[nodiscard]] inline dense_network digits_layers(digits_settings const& how) {
  dense_network result;
  std::size_t in = labelled_images::pixels_of_each;
  for (auto const out : how.hidden) {
    result.layers.push_back({in, out, activation::relu});
    in = out;
  }
  result.layers.push_back({in, labelled_images::classes, activation::none});
  std::reverse(result.layers.begin(), result.layers.end());
  return result;
}

/// The same layers as a replay sees them. Their speed is stated: as many multiply-adds a second as
/// AlexNet on a V100. Starting kernels takes no time.
[[nodiscard]] inline network digits_network(digits_settings const& how) {
  network result{"digits", {}, 0, 0};
  auto const trained = digits_layers(how);
  for (auto each = trained.layers.rbegin(); each != trained.layers.rend(); ++each) {
    result.layers.push_back(detail::fully_connected(each->inputs, each->outputs));
  }
  auto const known = alexnet();
  double const times = known.multiply_adds() / result.multiply_adds();
  result.training_images = known.training_images * times;
  result.forward_images = known.forward_images * times;
  return result;
}

/// The loss of one image, the cross entropy of softmax. Its outputs become the gradient by them.
[[nodiscard]] inline double softmax_loss(std::span<float> outputs, std::size_t label) {
  float const largest = *std::max_element(outputs.begin(), outputs.end());
  float const of_label = outputs[label] - largest;
  float sum = 0;
  for (float& each : outputs) sum += each = std::exp(each - largest);
  for (float& each : outputs) each /= sum;
  outputs[label] -= 1;
  return std::log(static_cast<double>(sum)) - static_cast<double>(of_label);
}

/// A network in training. It is equal on all ranks.
class digits_model {
 public:
  explicit digits_model(digits_settings const& how)
      : network_(digits_layers(how)),
        learning_rate_(how.learning_rate),
        momentum_(how.momentum),
        velocity_(network_.weight_count()) {
    // K. He et al., "Delving deep into rectifiers", ICCV 2015 (the range). Biases begin with 0.
    std::mt19937 random(how.seed);
    for (auto const& layer : network_.layers) {
      float const range = std::sqrt(6 / static_cast<float>(layer.inputs));
      std::uniform_real_distribution<float> weight(-range, range);
      for (std::size_t k = 0; k < layer.weight_count(); ++k) {
        weights_.push_back(k % (layer.inputs + 1) == layer.inputs ? 0 : weight(random));
      }
    }
  }

  /// Writes the gradients of the mean loss of some images.
  void write_gradients(labelled_images const& all, std::span<std::size_t const> chosen,
                       std::vector<float>& gradients) const {
    labelled_images batch;
    for (auto const image : chosen) batch.add(all, image);
    auto const values = network_.forward(weights_, batch.pixels);
    auto of_output = values[0];
    for (std::size_t k = 0; k < batch.count(); ++k) {
      auto const of_image =
          std::span(of_output).subspan(k * labelled_images::classes, labelled_images::classes);
      (void)softmax_loss(of_image, batch.labels[k]);
      for (float& each : of_image) each /= static_cast<float>(batch.count());
    }
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    network_.backward(weights_, values, std::move(of_output), gradients, [](std::size_t) {});
  }
  void update(std::vector<float> const& gradients) {
    for (std::size_t k = 0; k < weights_.size(); ++k) {
      velocity_[k] = momentum_ * velocity_[k] - learning_rate_ * gradients[k];
      weights_[k] += velocity_[k];
    }
  }

  /// The losses of the images [first, last), as a sum.
  [[nodiscard]] double losses(labelled_images const& all, std::size_t first,
                              std::size_t last) const {
    auto outputs = outputs_of(all, first, last);
    double sum = 0;
    for (std::size_t k = first; k < last; ++k) {
      sum += softmax_loss(std::span(outputs).subspan((k - first) * labelled_images::classes,
                                                     labelled_images::classes),
                          all.labels[k]);
    }
    return sum;
  }
  /// The part of the images whose largest output is that of their label.
  [[nodiscard]] double accuracy(labelled_images const& all) const {
    auto const outputs = outputs_of(all, 0, all.count());
    std::size_t right = 0;
    for (std::size_t k = 0; k < all.count(); ++k) {
      auto const* const own = outputs.data() + k * labelled_images::classes;
      right += std::max_element(own, own + labelled_images::classes) == own + all.labels[k];
    }
    return static_cast<double>(right) / static_cast<double>(all.count());
  }
  [[nodiscard]] std::vector<float> const& weights() const { return weights_; }

 private:
  [[nodiscard]] std::vector<float> outputs_of(labelled_images const& all, std::size_t first,
                                              std::size_t last) const {
    auto const* const pixels = all.pixels.data();
    std::vector<float> const own(pixels + first * labelled_images::pixels_of_each,
                                 pixels + last * labelled_images::pixels_of_each);
    return std::move(network_.forward(weights_, own)[0]);
  }

  dense_network network_;
  float learning_rate_;
  float momentum_;
  std::vector<float> weights_;
  std::vector<float> velocity_;
};

/// The images of each iteration, the same in every run. Each epoch has another order, and leaves
/// out the last images, which fill no batch.
class batch_order {
 public:
  /// Throws: std::runtime_error if there are less images than a batch has.
  batch_order(std::size_t images, std::size_t batch, unsigned seed)
      : order_(images), batch_(batch), at_(images), random_(seed) {
    if (batch > images) {
      throw std::runtime_error("training: " + std::to_string(images) +
                               " images to train on, expected at least the " +
                               std::to_string(batch) + " of an iteration");
    }
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  /// Valid until the next call.
  [[nodiscard]] std::span<std::size_t const> next() {
    if (at_ + batch_ > order_.size()) {
      std::shuffle(order_.begin(), order_.end(), random_);
      at_ = 0;
    }
    at_ += batch_;
    return std::span<std::size_t const>(order_).subspan(at_ - batch_, batch_);
  }

 private:
  std::vector<std::size_t> order_;
  std::size_t batch_;
  std::size_t at_;
  std::mt19937 random_;
};

/// The course of a training, up to the wanted loss.
struct training_course {
  std::vector<double> losses;   ///< of all training images, after each iteration
  std::vector<double> seconds;  ///< of each iteration, where ranks train
  double accuracy = 0;          ///< of the images that are held out
  std::vector<float> weights;
};

namespace detail {

/// Returns whether training goes on.
///
/// Throws: std::runtime_error if it does not reach the loss.
inline bool expects_iteration(training_course const& course, digits_settings const& how) {
  if (course.losses.empty()) return true;
  double const loss = course.losses.back();
  auto const iterations = course.losses.size();
  if (loss < how.loss) return false;
  if (std::isfinite(loss) && iterations < static_cast<std::size_t>(how.most_iterations)) {
    return true;
  }
  throw std::runtime_error("training: the loss is " + std::to_string(loss) + " after " +
                           std::to_string(iterations) + " iterations, expected less than " +
                           std::to_string(how.loss));
}

}  // namespace detail

/// weights: by rank, as many on each
/// Throws:  std::runtime_error if ranks have different ones.
inline void expect_equal_weights(std::vector<std::vector<float>> const& weights) {
  for (std::size_t rank = 1; rank < weights.size(); ++rank) {
    for (std::size_t k = 0; k < weights[0].size(); ++k) {
      if (std::bit_cast<std::uint32_t>(weights[rank][k]) ==
          std::bit_cast<std::uint32_t>(weights[0][k])) {
        continue;
      }
      std::ostringstream message;
      message << "training: weight " << k << " is " << std::setprecision(9) << weights[rank][k]
              << " on rank " << rank << " and " << weights[0][k]
              << " on rank 0, expected the same bits";
      throw std::runtime_error(message.str());
    }
  }
}

/// Trains without other ranks, on as many images in each iteration as these ranks together.
[[nodiscard]] inline training_course train_alone(split_images const& images,
                                                 digits_settings const& how, int ranks) {
  auto const& data = images.training;
  training_course result;
  digits_model model(how);
  batch_order batches(data.count(), static_cast<std::size_t>(how.images * ranks), how.seed);
  std::vector<float> gradients(model.weights().size());
  while (detail::expects_iteration(result, how)) {
    model.write_gradients(data, batches.next(), gradients);
    model.update(gradients);
    result.losses.push_back(model.losses(data, 0, data.count()) /
                            static_cast<double>(data.count()));
  }
  result.accuracy = model.accuracy(images.held_out);
  result.weights = model.weights();
  return result;
}

/// Trains on all ranks: each takes its part of each batch, and gradients are averaged.
///
/// Ranks outnumber cores. So each computes its gradients before the clock of the iteration starts.
/// During the iteration it waits for the stated times of the computation, as in a replay. It starts
/// the all-reduce of each bucket when the bucket would be ready.
///
/// prepared: trees over the links of `ranks`
/// one:      buckets and times of an iteration of this network
/// Throws:   what the calls throw; std::runtime_error if ranks end with different weights, or
///           without the loss.
template <class Ranks>
[[nodiscard]] training_course train_in_parallel(Ranks& ranks, blink::prepared_schedule& prepared,
                                                iteration const& one, double time_scale,
                                                split_images const& images,
                                                digits_settings const& how) {
  auto const& data = images.training;
  auto const count = static_cast<std::size_t>(ranks.rank_count());
  iteration_clock clock(ranks.rank_count());
  training_course result;
  std::vector<double> losses(count);  // by rank, of its part of the images
  std::vector<std::vector<float>> weights(count);
  ranks.run([&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    auto const own = static_cast<std::size_t>(how.images);
    training_course course;  // of this rank, equal on all
    digits_model model(how);
    batch_order batches(data.count(), own * count, how.seed);
    replaying_rank mine(comm, prepared, one, {1, time_scale});
    while (detail::expects_iteration(course, how)) {
      model.write_gradients(data, batches.next().subspan(rank * own, own), mine.gradients());
      course.seconds.push_back(clock.run(comm, mine));
      model.update(mine.gradients());
      losses[rank] =
          model.losses(data, data.count() * rank / count, data.count() * (rank + 1) / count);
      blink::barrier(comm);
      course.losses.push_back(std::accumulate(losses.begin(), losses.end(), 0.0) /
                              static_cast<double>(data.count()));
    }
    weights[rank] = model.weights();
    if (rank != 0) return;
    result = std::move(course);
    result.accuracy = model.accuracy(images.held_out);
  });
  expect_equal_weights(weights);
  result.weights = std::move(weights[0]);
  return result;
}

/// The largest relative difference of two courses' losses that is rounding, after so many
/// iterations. Rounding grows with them. A wrong average changes the first losses by thousandths.
[[nodiscard]] inline double loss_rounding(std::size_t iterations) {
  return iterations <= 10 ? 1e-4 : 1e-2;
}

/// Returns the largest relative difference of the losses of a course from those of training alone.
///
/// Throws: std::runtime_error if it exceeds rounding, or if one takes two iterations more.
inline double expect_same_losses(training_course const& course, training_course const& alone) {
  double most = 0;
  auto const iterations = std::min(course.losses.size(), alone.losses.size());
  for (std::size_t k = 0; k < iterations; ++k) {
    double const difference = std::abs(course.losses[k] / alone.losses[k] - 1);
    most = std::max(most, difference);
    if (difference <= loss_rounding(k + 1)) continue;
    throw std::runtime_error("training: the loss is " + std::to_string(course.losses[k]) +
                             " after iteration " + std::to_string(k + 1) +
                             ", expected that of one rank alone, " +
                             std::to_string(alone.losses[k]));
  }
  if (course.losses.size() > iterations + 1 || alone.losses.size() > iterations + 1) {
    throw std::runtime_error("training: " + std::to_string(course.losses.size()) +
                             " iterations, expected those of one rank alone, " +
                             std::to_string(alone.losses.size()));
  }
  return most;
}

}  // namespace blink_bench
