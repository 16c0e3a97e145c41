// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

// A layer of small networks, for the examples of training.

/// y = tanh(W x + b) for a batch of samples. Its weights stand elsewhere: `outputs` rows, each of
/// `inputs` weights and a bias.
struct dense_layer {
  std::size_t inputs = 0;
  std::size_t outputs = 0;

  [[nodiscard]] std::size_t weight_count() const { return outputs * (inputs + 1); }

  /// x: rows of `inputs`; returns rows of `outputs`
  [[nodiscard]] std::vector<float> forward(float const* weights,
                                           std::vector<float> const& x) const {
    std::vector<float> y;
    for (std::size_t at = 0; at < x.size(); at += inputs) {
      for (std::size_t out = 0; out < outputs; ++out) {
        float const* const row = weights + out * (inputs + 1);
        float sum = row[inputs];
        for (std::size_t in = 0; in < inputs; ++in) sum += row[in] * x[at + in];
        y.push_back(std::tanh(sum));
      }
    }
    return y;
  }

  /// Adds the gradient of the weights to `gradient`. Returns that of x.
  ///
  /// y, of_y: the output, and the gradient of the loss by it
  std::vector<float> backward(float const* weights, std::vector<float> const& x,
                              std::vector<float> const& y, std::vector<float> const& of_y,
                              float* gradient) const {
    std::vector<float> of_x(x.size(), 0.0F);
    for (std::size_t sample = 0; sample * inputs < x.size(); ++sample) {
      for (std::size_t out = 0; out < outputs; ++out) {
        std::size_t const at = sample * outputs + out;
        float const of_sum = of_y[at] * (1 - y[at] * y[at]);
        float const* const row = weights + out * (inputs + 1);
        float* const of_row = gradient + out * (inputs + 1);
        for (std::size_t in = 0; in < inputs; ++in) {
          of_row[in] += of_sum * x[sample * inputs + in];
          of_x[sample * inputs + in] += of_sum * row[in];
        }
        of_row[inputs] += of_sum;
      }
    }
    return of_x;
  }
};

/// Points of a square, and the classes to learn: 1 inside a circle, -1 outside.
struct labelled_points {
  std::vector<float> points;  ///< rows of x and y, from -1 to 1
  std::vector<float> labels;
};

/// Points `first` to `first + count` of a sequence that fills the square evenly.
[[nodiscard]] inline labelled_points make_points(std::size_t first, std::size_t count) {
  labelled_points result;
  for (std::size_t k = first; k < first + count; ++k) {
    auto const of_sequence = [&](double step) {
      return static_cast<float>(2 * std::fmod(static_cast<double>(k) * step, 1.0) - 1);
    };
    float const x = of_sequence(0.7548776662), y = of_sequence(0.5698402910);
    result.points.insert(result.points.end(), {x, y});
    result.labels.push_back(x * x + y * y < 0.5F ? 1.0F : -1.0F);
  }
  return result;
}

/// First weights of a layer, the same in every run.
///
/// Source: K. He et al., "Delving deep into rectifiers", ICCV 2015 (their range).
inline void write_first_weights(dense_layer const& layer, float* weights) {
  for (std::size_t k = 0; k < layer.weight_count(); ++k) {
    double const even = std::fmod(static_cast<double>(k + 1) * 0.6180339887, 1.0);
    weights[k] =
        static_cast<float>((2 * even - 1) * std::sqrt(6 / static_cast<double>(layer.inputs)));
  }
}
