// SPDX-License-Identifier: Apache-2.0
#include "../../benchmarks/training/digits.hpp"

#include <blink/collectives.hpp>

#include "../../benchmarks/training/digits_table.hpp"
#include "../../benchmarks/training/train_digits.hpp"
#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace digits_test {

// A line of the file: an image whose row `label % 8` is bright, with noise in the others.
std::string digits_line(int label, std::mt19937& random) {
  std::string line;
  for (int pixel = 0; pixel < 64; ++pixel) {
    bool const is_bright = pixel / 8 == label % 8 && (label < 8 || pixel % 2 == 0);
    line += std::to_string(is_bright ? 16 : static_cast<int>(random() % 4)) + ',';
  }
  return line + std::to_string(label) + '\n';
}

std::string digits_file(int images) {
  std::mt19937 random(7);
  std::string result;
  for (int k = 0; k < images; ++k) result += digits_line(static_cast<int>(random() % 10), random);
  return result;
}

blink_bench::digits_settings small_training() {
  blink_bench::digits_settings result;
  result.hidden = {24, 16};
  result.images = 8;
  result.loss = 0.1;
  return result;
}

// Buckets of a layer each, without waiting for imitated computation.
blink_bench::iteration iteration_of(blink_bench::digits_settings const& how) {
  return blink_bench::make_iteration(blink_bench::digits_network(how), how.images, {1, 1});
}

std::string training_error_of(auto const& call) {
  try {
    call();
  } catch (std::runtime_error const& failure) {
    return failure.what();
  }
  return "no error";
}

TEST(digits_file, gives_pixels_and_labels) {
  std::string text = "16,8,0";
  for (int pixel = 3; pixel < 64; ++pixel) text += ",4";
  auto const two = blink_bench::read_digits(text + ",9\r\n" + text + ",0", "d.csv");
  ASSERT_EQ(two.count(), 2u);
  EXPECT_EQ(two.labels, (std::vector<std::size_t>{9, 0}));
  ASSERT_EQ(two.pixels.size(), 128u);
  EXPECT_EQ(two.pixels[0], 1.0F);
  EXPECT_EQ(two.pixels[65], 0.5F);
  EXPECT_EQ(two.pixels[66], 0.0F);
  EXPECT_EQ(two.pixels[127], 0.25F);
}

TEST(digits_file, may_have_numbers_in_scientific_notation) {
  std::string text;
  for (int pixel = 0; pixel < 64; ++pixel) text += "1.600000000000000000e+01,";
  auto const one = blink_bench::read_digits(text + "3.000000000000000000e+00\n", "d.csv");
  EXPECT_EQ(one.labels, (std::vector<std::size_t>{3}));
  EXPECT_EQ(one.pixels[63], 1.0F);
}

TEST(digits_file, that_is_malformed_is_refused_with_file_and_line) {
  auto const good = digits_file(2);
  auto const expect = [&](std::string const& line, char const* what) {
    EXPECT_ERROR((void)blink_bench::read_digits(good + line + '\n', "d.csv"),
                 std::string("d.csv:3: ") + what);
  };
  std::string pixels;
  for (int pixel = 0; pixel < 64; ++pixel) pixels += "1,";
  expect("1,2,3", "3 values, expected 65");
  expect(pixels + "1,1", "66 values, expected 65");
  expect(pixels, "label '', expected a whole number from 0 to 9");
  expect(pixels + "10", "label '10', expected a whole number from 0 to 9");
  expect(pixels + "seven", "label 'seven', expected a whole number from 0 to 9");
  expect("17" + pixels.substr(1) + "1", "pixel 1 '17', expected a whole number from 0 to 16");
  expect("-1" + pixels.substr(1) + "1", "pixel 1 '-1'");
  expect("nan" + pixels.substr(1) + "1", "pixel 1 'nan'");
  expect("1.5" + pixels.substr(1) + "1", "pixel 1 '1.5'");
  expect("1 " + pixels.substr(1) + "1", "pixel 1 '1 '");
  expect("1\x1b[2J" + pixels.substr(1) + "1", "pixel 1 '1?[2J'");  // not sent to a terminal
  expect("", "pixel 1 ''");                                        // an empty line
}

TEST(digits_file, without_images_is_refused) {
  EXPECT_ERROR((void)blink_bench::read_digits("", "d.csv"), "d.csv: no image");
  EXPECT_ERROR((void)blink_bench::read_digits("\x1f\x8b\x08", "d.csv.gz"),
               "d.csv.gz: compressed by gzip, expected its content");
}

TEST(digits_split, holds_out_every_fifth_image) {
  auto const all = blink_bench::read_digits(digits_file(23), "d.csv");
  auto const two = blink_bench::split(all);
  EXPECT_EQ(two.training.count(), 19u);
  EXPECT_EQ(two.held_out.labels, (std::vector<std::size_t>{all.labels[4], all.labels[9],
                                                           all.labels[14], all.labels[19]}));
  EXPECT_TRUE(std::equal(two.held_out.pixels.begin(), two.held_out.pixels.begin() + 64,
                         all.pixels.begin() + 4 * 64));
}

// The gradient against differences of the loss, in double steps of a weight of each layer.
TEST(digits_model, has_the_gradients_of_its_loss) {
  auto const all = blink_bench::read_digits(digits_file(20), "d.csv");
  auto how = small_training();
  std::vector<std::size_t> chosen(all.count());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  blink_bench::digits_model const start(how);
  std::vector<float> gradients(start.weights().size());
  start.write_gradients(all, chosen, gradients);
  how.momentum = 0;
  how.learning_rate = 1;
  float largest = 0;
  for (float const each : gradients) largest = std::max(largest, std::abs(each));
  int checked = 0;
  for (std::size_t k = 0; k < gradients.size(); k += 97) {
    if (std::abs(gradients[k]) < largest / 20) continue;  // lost in rounding
    auto const loss_at = [&](float step) {
      blink_bench::digits_model moved(how);
      std::vector<float> only(gradients.size());
      only[k] = -step;  // an update subtracts it
      moved.update(only);
      return moved.losses(all, 0, all.count()) / static_cast<double>(all.count());
    };
    double const step = 0.01;
    double const slope = (loss_at(0.01F) - loss_at(-0.01F)) / (2 * step);
    EXPECT_NEAR(slope, static_cast<double>(gradients[k]), 0.02 * static_cast<double>(largest))
        << "weight " << k;
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

TEST(digits_batches, have_each_image_once_in_an_epoch_and_another_order_in_the_next) {
  blink_bench::batch_order order(10, 3, 5), same(10, 3, 5);
  std::vector<std::vector<std::size_t>> epochs(2);
  for (auto& epoch : epochs) {
    for (int k = 0; k < 3; ++k) {
      auto const batch = order.next();
      auto const again = same.next();
      EXPECT_TRUE(std::equal(batch.begin(), batch.end(), again.begin(), again.end()));
      epoch.insert(epoch.end(), batch.begin(), batch.end());
    }
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(std::unique(epoch.begin(), epoch.end()), epoch.end());
    EXPECT_LT(epoch.back(), 10u);
  }
  EXPECT_EQ(training_error_of([] { blink_bench::batch_order(10, 11, 5); }),
            "training: 10 images to train on, expected at least the 11 of an iteration");
}

// Weights are compared bit by bit where they train.
TEST(digits_training, on_ranks_is_that_of_one_rank_but_for_rounding) {
  auto const images = blink_bench::split(blink_bench::read_digits(digits_file(100), "d.csv"));
  auto const how = small_training();
  for (int const count : {1, 3, 4}) {
    SCOPED_TRACE(count);
    auto const alone = blink_bench::train_alone(images, how, count);
    blink::thread_ranks ranks(count);
    auto const course = blink_bench::train_in_parallel(
        ranks, ranks.prepare(blink::star_schedule(count)), iteration_of(how), 1, images, how);
    EXPECT_LT(course.losses.back(), how.loss);
    EXPECT_GT(course.losses.front(), 5 * how.loss);
    EXPECT_EQ(course.losses.size(), alone.losses.size());
    EXPECT_EQ(course.seconds.size(), course.losses.size());
    EXPECT_LT(blink_bench::expect_same_losses(course, alone), 1e-4);
    EXPECT_GT(course.accuracy, 0.9);
    EXPECT_EQ(course.accuracy, alone.accuracy);
    ASSERT_EQ(course.weights.size(), alone.weights.size());
    for (std::size_t k = 0; k < alone.weights.size(); ++k) {
      ASSERT_NEAR(course.weights[k], alone.weights[k], 1e-4F) << "weight " << k;
    }
  }
}

TEST(digits_training, over_the_links_of_a_machine_is_no_faster_than_they_are) {
  auto const images = blink_bench::split(blink_bench::read_digits(digits_file(100), "d.csv"));
  auto how = small_training();
  how.loss = 1;
  blink_bench::replay_scale const scale{1, 500};
  auto const machine = blink_bench::two_servers();
  auto const alone = blink_bench::train_alone(images, how, 8);
  auto const bytes = static_cast<double>(alone.weights.size() * sizeof(float));
  for (auto const& planned : machine.contenders) {
    SCOPED_TRACE(planned.name);
    auto const row = blink_bench::train_contender(planned, scale, images, how, alone);
    EXPECT_EQ(row.iterations, alone.losses.size());
    EXPECT_GE(row.mean(), row.compute);
    EXPECT_GE(row.mean(), bytes / (planned.planned.rate.to_double() * 1e9));
    EXPECT_GE(row.predicted, bytes / (planned.planned.rate.to_double() * 1e9));
    EXPECT_LT(row.loss_difference, 1e-4);
  }
}

TEST(digits_training, with_a_wrong_average_is_refused) {
  auto const images = blink_bench::split(blink_bench::read_digits(digits_file(100), "d.csv"));
  auto how = small_training();
  auto const right = blink_bench::train_alone(images, how, 3);
  // What the ranks would do if the gradients of one of three were lost.
  blink_bench::training_course wrong;
  blink_bench::digits_model model(how);
  blink_bench::batch_order batches(images.training.count(), 24, how.seed);
  std::vector<float> gradients(model.weights().size());
  auto const count = images.training.count();
  for (std::size_t k = 0; k < right.losses.size(); ++k) {
    model.write_gradients(images.training, batches.next().first(16), gradients);
    model.update(gradients);
    wrong.losses.push_back(model.losses(images.training, 0, count) / static_cast<double>(count));
  }
  auto const fault =
      training_error_of([&] { (void)blink_bench::expect_same_losses(wrong, right); });
  EXPECT_SAYS(fault, "after iteration 1, expected that of one rank alone");
}

TEST(digits_training, may_differ_by_rounding_that_grows) {
  blink_bench::training_course const right{std::vector<double>(11, 1.0), {}, 0, {}};
  auto late = right, early = right;
  late.losses[10] = 1.005;
  EXPECT_NEAR(blink_bench::expect_same_losses(late, right), 0.005, 1e-12);
  late.losses[10] = 1.02;
  early.losses[9] = 1.005;
  EXPECT_SAYS(training_error_of([&] { (void)blink_bench::expect_same_losses(late, right); }),
              "the loss is 1.020000 after iteration 11");
  EXPECT_SAYS(training_error_of([&] { (void)blink_bench::expect_same_losses(early, right); }),
              "the loss is 1.005000 after iteration 10");
}

TEST(digits_training, that_takes_other_iterations_is_refused) {
  blink_bench::training_course const two{{1.0, 0.5}, {}, 0, {}};
  blink_bench::training_course const three{{1.0, 0.5, 0.2}, {}, 0, {}};
  blink_bench::training_course const four{{1.0, 0.5, 0.2, 0.1}, {}, 0, {}};
  EXPECT_EQ(blink_bench::expect_same_losses(two, three), 0);
  EXPECT_SAYS(training_error_of([&] { (void)blink_bench::expect_same_losses(two, four); }),
              "2 iterations, expected those of one rank alone, 4");
}

TEST(digits_training, that_leaves_ranks_with_different_weights_is_refused) {
  std::vector<std::vector<float>> weights(3, {1.0F, 0.0F, 2.0F});
  blink_bench::expect_equal_weights(weights);
  auto const fault = [&] {
    return training_error_of([&] { blink_bench::expect_equal_weights(weights); });
  };
  weights[2][1] = -0.0F;  // equal, of other bits
  EXPECT_EQ(fault(), "training: weight 1 is -0 on rank 2 and 0 on rank 0, expected the same bits");
  weights[1][2] = std::nextafter(2.0F, 3.0F);
  EXPECT_EQ(fault(),
            "training: weight 2 is 2.00000024 on rank 1 and 2 on rank 0, expected the same bits");
}

TEST(digits_training, that_never_reaches_the_loss_ends) {
  auto const images = blink_bench::split(blink_bench::read_digits(digits_file(100), "d.csv"));
  auto how = small_training();
  how.most_iterations = 2;
  blink::thread_ranks ranks(3);
  auto const fault = training_error_of([&] {
    (void)blink_bench::train_in_parallel(ranks, ranks.prepare(blink::star_schedule(3)),
                                         iteration_of(how), 1, images, how);
  });
  EXPECT_SAYS(fault, "after 2 iterations, expected less than 0.1");
  how.most_iterations = 2000;
  how.learning_rate = 1e20F;  // the loss is no number then
  EXPECT_SAYS(training_error_of([&] { (void)blink_bench::train_alone(images, how, 3); }),
              "training: the loss is");
}

}  // namespace digits_test
