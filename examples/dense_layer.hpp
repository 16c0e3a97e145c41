// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

// Layers of small networks, for the examples of training and the benchmark of training.

/// The function f of a layer.
enum class activation { tanh, relu, none };

/// Sums products in eight sums side by side, which a compiler may keep in one vector.
[[nodiscard]] inline float sum_of_products(float const* a, float const* b, std::size_t count) {
  std::array<float, 8> sums{};
  std::size_t k = 0;
  for (; k + sums.size() <= count; k += sums.size()) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += a[k + i] * b[k + i];
  }
  for (; k < count; ++k) sums[0] += a[k] * b[k];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// y = f(W x + b) for a batch of samples. Its weights stand elsewhere: `outputs` rows, each of
/// `inputs` weights and a bias.
struct dense_layer {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  activation f = activation::tanh;

  [[nodiscard]] std::size_t weight_count() const { return outputs * (inputs + 1); }

  /// x: rows of `inputs`; returns rows of `outputs`
  [[nodiscard]] std::vector<float> forward(float const* weights,
                                           std::vector<float> const& x) const {
    std::vector<float> y;
    y.reserve(x.size() / inputs * outputs);
    for (std::size_t at = 0; at < x.size(); at += inputs) {
      for (std::size_t out = 0; out < outputs; ++out) {
        float const* const row = weights + out * (inputs + 1);
        y.push_back(applied(row[inputs] + sum_of_products(row, x.data() + at, inputs)));
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
        float const of_sum = of_y[at] * slope(y[at]);
        if (of_sum == 0) continue;
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

 private:
  [[nodiscard]] float applied(float sum) const {
    if (f == activation::tanh) return std::tanh(sum);
    return f == activation::relu && sum < 0 ? 0 : sum;
  }
  /// The derivative of f where it is y.
  [[nodiscard]] float slope(float y) const {
    if (f == activation::tanh) return 1 - y * y;
    return f == activation::relu && y <= 0 ? 0 : 1;
  }
};

/// Layers in a row. The list begins with the last one, where the backward pass begins. Weights and
/// gradients stand in this order in one buffer, so that the gradients of some layers are a range.
struct dense_network {
  std::vector<dense_layer> layers;

  [[nodiscard]] std::size_t weight_count() const {
    std::size_t sum = 0;
    for (auto const& layer : layers) sum += layer.weight_count();
    return sum;
  }

  /// Returns by layer its input at the next position, and its output at its own.
  [[nodiscard]] std::vector<std::vector<float>> forward(std::vector<float> const& weights,
                                                        std::vector<float> const& x) const {
    std::vector<std::vector<float>> result(layers.size() + 1);
    result.back() = x;
    std::size_t at = weights.size();  // of the layer's weights
    for (std::size_t k = layers.size(); k-- > 0;) {
      at -= layers[k].weight_count();
      result[k] = layers[k].forward(weights.data() + at, result[k + 1]);
    }
    return result;
  }

  /// Adds the gradient of the weights to `gradients`.
  ///
  /// values:       of the forward pass
  /// of_output:    gradient of the loss by the last output
  /// on_gradients: called as soon as the first so many gradients are computed
  template <class OnGradients>
  void backward(std::vector<float> const& weights, std::vector<std::vector<float>> const& values,
                std::vector<float> of_output, std::vector<float>& gradients,
                OnGradients const& on_gradients) const {
    std::size_t at = 0;
    for (std::size_t k = 0; k < layers.size(); ++k) {
      of_output = layers[k].backward(weights.data() + at, values[k + 1], values[k], of_output,
                                     gradients.data() + at);
      at += layers[k].weight_count();
      on_gradients(at);
    }
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
