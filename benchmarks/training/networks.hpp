// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

// Networks for images of 224 by 224 pixels, as lists of their layers. Parameters and work follow
// from the shapes of the layers, which are those of torchvision's models.

namespace blink_bench {

/// A layer with parameters. Their gradients are ready at the same time.
struct layer {
  std::size_t parameters = 0;
  double multiply_adds = 0;  ///< of the forward pass of one image
};

/// A network, and the speed of one V100 at training it.
struct network {
  std::string name;
  std::vector<layer> layers;   ///< in the order of the forward pass
  double training_images = 0;  ///< images per second: forward and backward pass
  double forward_images = 0;   ///< images per second of the forward pass alone

  [[nodiscard]] std::size_t parameters() const {
    std::size_t sum = 0;
    for (auto const& each : layers) sum += each.parameters;
    return sum;
  }
  [[nodiscard]] double multiply_adds() const {
    double sum = 0;
    for (auto const& each : layers) sum += each.multiply_adds;
    return sum;
  }
};

namespace detail {

/// A convolution. Beside its weights each output channel has `more` parameters: 1 for a bias, 2 for
/// the scale and shift of a batch normalisation.
///
/// side: of the output, in pixels
[[nodiscard]] inline layer convolution(std::size_t in, std::size_t out, std::size_t kernel,
                                       std::size_t side, std::size_t more) {
  auto const weights = in * out * kernel * kernel;
  return {weights + more * out, static_cast<double>(weights * side * side)};
}

[[nodiscard]] inline layer biased(std::size_t in, std::size_t out, std::size_t kernel,
                                  std::size_t side) {
  return convolution(in, out, kernel, side, 1);
}

[[nodiscard]] inline layer normalised(std::size_t in, std::size_t out, std::size_t kernel,
                                      std::size_t side) {
  return convolution(in, out, kernel, side, 2);
}

[[nodiscard]] inline layer fully_connected(std::size_t in, std::size_t out) {
  return biased(in, out, 1, 1);
}

/// A residual network: four stages of blocks, whose sides are 56, 28, 14 and 7 pixels.
///
/// blocks:   by stage
/// widening: output channels of a block for each channel inside it
/// add:      adds the layers of a block: (layers, channels in, channels inside, side of its input,
///           side of its output)
template <class AddBlock>
[[nodiscard]] std::vector<layer> residual_layers(std::vector<int> const& blocks,
                                                 std::size_t widening, AddBlock const& add) {
  std::vector<layer> result{normalised(3, 64, 7, 112)};
  std::size_t in = 64, inside = 64, side = 56;
  for (auto const count : blocks) {
    std::size_t const out = inside * widening;
    for (int block = 0; block < count; ++block) {
      bool const halves = block == 0 && inside != 64;
      std::size_t const next = halves ? side / 2 : side;
      add(result, in, inside, side, next);
      if (in != out) result.push_back(normalised(in, out, 1, next));  // around the block
      in = out;
      side = next;
    }
    inside *= 2;
  }
  result.push_back(fully_connected(in, 1000));
  return result;
}

}  // namespace detail

// Images per second of one V100 in single precision. AlexNet, ResNet-50 and VGG-16 are throughputs
// of training and of the forward pass that Lambda published for a V100-SXM3-32GB with TensorFlow
// 2.2 (github.com/lambdal/lambda-tensorflow-benchmark, commit c17619d, logs/Platinum-Tesla_V100-
// SXM3-32GB_HP16_TF2_2.logs, batches of 1536, 192 and 192 images). ResNet-18 is not among them. Its
// times are those of ResNet-50, times the ratio of both on a Titan V, a GPU with the same chip
// (github.com/ryujaehun/pytorch-gpu-benchmark, commit 3f47a9e: training 16.69 and 50.54 ms, forward
// 4.827 and 14.27 ms). The replay uses the same throughputs for smaller batches.

/// Source: A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014.
[[nodiscard]] inline network alexnet() {
  using detail::biased;
  using detail::fully_connected;
  return {"AlexNet",
          {biased(3, 64, 11, 55), biased(64, 192, 5, 27), biased(192, 384, 3, 13),
           biased(384, 256, 3, 13), biased(256, 256, 3, 13), fully_connected(256 * 6 * 6, 4096),
           fully_connected(4096, 4096), fully_connected(4096, 1000)},
          5132.32,
          14426.54};
}

/// Source: K. He et al., "Deep residual learning for image recognition", CVPR 2016.
[[nodiscard]] inline network resnet18() {
  auto const block = [](std::vector<layer>& layers, std::size_t in, std::size_t inside, std::size_t,
                        std::size_t side) {
    layers.push_back(detail::normalised(in, inside, 3, side));
    layers.push_back(detail::normalised(inside, inside, 3, side));
  };
  return {"ResNet-18", detail::residual_layers({2, 2, 2, 2}, 1, block), 432.16 * 50.54 / 16.69,
          1712.43 * 14.27 / 4.827};
}

/// Source: as `resnet18`. The second convolution of a block halves the side, not the first.
[[nodiscard]] inline network resnet50() {
  auto const block = [](std::vector<layer>& layers, std::size_t in, std::size_t inside,
                        std::size_t side, std::size_t next) {
    layers.push_back(detail::normalised(in, inside, 1, side));
    layers.push_back(detail::normalised(inside, inside, 3, next));
    layers.push_back(detail::normalised(inside, 4 * inside, 1, next));
  };
  return {"ResNet-50", detail::residual_layers({3, 4, 6, 3}, 4, block), 432.16, 1712.43};
}

/// Source: K. Simonyan, A. Zisserman, "Very deep convolutional networks for large-scale image
///         recognition", ICLR 2015.
[[nodiscard]] inline network vgg16() {
  network result{"VGG-16", {}, 249.19, 805.10};
  std::size_t in = 3, side = 224;
  struct stage {
    int convolutions;
    std::size_t channels;
  };
  for (auto const& [convolutions, channels] :
       {stage{2, 64}, stage{2, 128}, stage{3, 256}, stage{3, 512}, stage{3, 512}}) {
    for (int k = 0; k < convolutions; ++k) {
      result.layers.push_back(detail::biased(in, channels, 3, side));
      in = channels;
    }
    side /= 2;
  }
  for (auto const& [from, to] :
       {std::pair<std::size_t, std::size_t>{512 * 7 * 7, 4096}, {4096, 4096}, {4096, 1000}}) {
    result.layers.push_back(detail::fully_connected(from, to));
  }
  return result;
}

[[nodiscard]] inline std::vector<network> all_networks() {
  return {alexnet(), resnet18(), resnet50(), vgg16()};
}

}  // namespace blink_bench
