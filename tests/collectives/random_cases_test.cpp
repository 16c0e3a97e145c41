// SPDX-License-Identifier: Apache-2.0
// Random trees, weights, collectives, counts, types, reducers, chunkings, windows and orders, exact
// against a loop.
//
// BLINK_CASES=10000 runs about as many calls instead of the default 2,400.

#include <blink/collectives.hpp>
#include <blink/running/walk/team_group.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

// A folder may be compiled as one source.
namespace random_cases_test { namespace {

using blink::order_promise;
using blink_test::below;
using blink_test::collective_case;
using blink_test::run_case;

std::size_t random_count(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return random() % 4;
    case 1:
      return random() % 70;
    case 2:
      return 64 * (random() % 20);
    default:
      return random() % 3000;
  }
}

blink::communicator_options random_options(std::mt19937_64& random) {
  blink::communicator_options options;
  options.window = 1 + static_cast<std::uint32_t>(random() % 5);
  options.slot_bytes = 12 + random() % 3000;
  if (random() % 4 == 0) options.streaming_bytes = 0;
  if (random() % 2 == 0) options.measured_bytes = 0;
  if (random() % 2 == 0) options.eager_payload = 0;
  return options;
}

/// Reducers and orders differ between ranks with and without access to each other's buffers,
/// because each instance takes seconds to compile.
template <class Ranks, class Chunks>
std::string run_types(Ranks& threads, blink::schedule const& source, collective_case const& what,
                      std::uint64_t type) {
  auto const run = [&]<class T>(auto const& reduce) {
    return run_case<T, Chunks>(threads, source, what, reduce, 2);
  };
  if constexpr (Ranks::communicator_type::transport_type::reaches) {
    switch (type % 4) {
      case 0:
        return run.template operator()<float>(blink::sum{});
      case 1:
        return run.template operator()<std::int32_t>(blink::avg{});
      case 2:
        return run.template operator()<std::uint8_t>(
            blink::with_order<order_promise::any>(blink::bit_xor{}));
      default:
        return run.template operator()<blink_test::triple>(
            blink::with_order<order_promise::shape>(blink_test::triple_reducer{}));
    }
  } else {
    switch (type % 4) {
      case 0:
        return run.template operator()<float>(
            blink::with_order<order_promise::shape>(blink::avg{}));
      case 1:
        return run.template operator()<std::int32_t>(
            blink::with_order<order_promise::any>(blink::max{}));
      case 2:
        return run.template operator()<std::uint8_t>(blink::sum{});
      default:
        return run.template operator()<blink_test::triple>(blink_test::triple_reducer{});
    }
  }
}

/// The number of communicators, with nine calls in each, that the environment asks for.
int communicators_for(int of_every_day) {
  char const* const text = std::getenv("BLINK_CASES");
  return text == nullptr ? of_every_day : std::max(1, of_every_day * std::atoi(text) / 2430);
}

template <class Ranks>
void run_random_cases(std::uint64_t first_seed, int of_every_day, int most_ranks,
                      std::uint32_t team_size) {
  int const cases = communicators_for(of_every_day);
  for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(cases);
       ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, most_ranks);
    auto options = random_options(random);
    options.team_size = team_size;
    Ranks threads(ranks, options);
    for (int call = 0; call < 3; ++call) {  // different collectives and types in turn
      auto const kind = static_cast<blink::collective>(
          below(random, static_cast<int>(blink::collective_names.size())));
      if (kind == blink::collective::send_to_next && ranks == 1) continue;
      auto const source = blink_test::random_schedule(random, ranks, kind);
      // A call, another one along the same trees, and the first again: a repeated call finds its
      // tasks as it left them, unless another one has changed them.
      struct drawn {
        collective_case what;
        std::uint64_t type;
        bool has_fixed_chunks;
      };
      auto const draw = [&] {
        return drawn{{kind, random_count(random), random() % 2 == 0, random() % 5, seed},
                     random(),
                     random() % 2 == 0};
      };
      auto const first = draw(), second = draw();
      for (auto const& now : {first, second, first}) {
        SCOPED_TRACE(std::string(to_text(kind)) + ", ranks " + std::to_string(ranks) + ", count " +
                     std::to_string(now.what.count) + (now.what.is_in_place ? ", in place" : ""));
        auto const wrong =
            now.has_fixed_chunks
                ? run_types<Ranks, blink::fixed_chunks<37>>(threads, source, now.what, now.type)
                : run_types<Ranks, blink::scheduled_chunks>(threads, source, now.what, now.type);
        ASSERT_EQ(wrong, "");
      }
    }
  }
}

TEST(random_cases, threads_reach_each_others_buffers) {
  run_random_cases<blink::thread_ranks>(1000, 120, 8, 1);
}
TEST(random_cases, slots) {
  run_random_cases<blink::basic_thread_ranks<blink::slot_transport>>(2000, 80, 8, 1);
}
TEST(random_cases, shaped_without_rates) {
  run_random_cases<blink::shaped_thread_ranks>(3000, 30, 6, 1);
}
TEST(random_cases, teams_of_three_reach_each_others_buffers) {
  run_random_cases<blink::basic_thread_ranks<blink::threads_link, blink::team_group>>(4000, 20, 4,
                                                                                      3);
}
TEST(random_cases, teams_of_three_with_slots) {
  run_random_cases<blink::basic_thread_ranks<blink::slot_transport, blink::team_group>>(5000, 20, 4,
                                                                                        3);
}

}}  // namespace random_cases_test
