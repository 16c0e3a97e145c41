// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Runs step programs on numbers, with blocks in random order. It is slow and plain: the reference
// for the checker.

namespace blink::test {

/// One run of one iteration. Messages wait in unbounded queues, and a step takes no time.
class step_program_runner {
 public:
  step_program_runner(step_program const& program, bool in_place, int root, std::uint64_t seed)
      : program_(&program), in_place_(in_place), root_(root), random_(seed) {
    auto const ranks = program.ranks.size();
    parts_ = program.chunk_count / static_cast<int>(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      auto const here = program.ranks[r];
      auto const sizes = sizes_of(static_cast<int>(r));
      memory_.push_back(
          {numbers(sizes.input), numbers(sizes.output), numbers(here.scratch_chunks)});
      inputs_.push_back(memory_.back()[0]);
    }
    if (in_place) load();
  }

  /// Runs the program; returns the fault, or nothing if every rank has the expected result.
  std::optional<std::string> run() {
    std::vector<std::pair<std::size_t, std::size_t>> blocks;  // rank, block
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> next;
    for (std::size_t r = 0; r < program_->ranks.size(); ++r) {
      for (auto const& [from, to] : program_->ranks[r].copies) {
        auto const* source = find(r, {step_buffer::input, from});
        auto* target = find(r, {step_buffer::output, to});
        if (source == nullptr || target == nullptr) return "a copy outside the buffers";
        *target = *source;
      }
      for (std::size_t b = 0; b < program_->ranks[r].blocks.size(); ++b) blocks.emplace_back(r, b);
    }
    while (!blocks.empty()) {
      bool moved = false;
      std::shuffle(blocks.begin(), blocks.end(), random_);
      for (auto const& [r, b] : blocks) {
        auto const& steps = program_->ranks[r].blocks[b].steps;
        auto& at = next[{r, b}];
        // Some blocks run ahead, some wait.
        for (auto burst = random_() % 4; burst > 0 && at < steps.size(); --burst) {
          if (!is_ready(r, b, steps[at], next)) break;
          if (!step(r, b, steps[at])) return "a chunk outside the buffers";
          ++at;
          moved = true;
        }
      }
      bool can_move = false;
      std::erase_if(blocks, [&](auto const& each) {
        return next[each] == program_->ranks[each.first].blocks[each.second].steps.size();
      });
      for (auto const& [r, b] : blocks) {
        can_move |= is_ready(r, b, program_->ranks[r].blocks[b].steps[next[{r, b}]], next);
      }
      if (!moved && !can_move && !blocks.empty()) return "stuck";
    }
    for (auto const& [key, queue] : queues_) {
      if (!queue.empty()) return "a message without a receive";
    }
    return wrong_result();
  }

 private:
  using chunks = std::vector<std::uint64_t>;

  [[nodiscard]] chunk_counts sizes_of(int rank) const {
    return chunks_of(*program_->collective, program_->chunk_count,
                     static_cast<int>(program_->ranks.size()), rank == root_);
  }
  [[nodiscard]] chunks numbers(int count) {
    chunks result(static_cast<std::size_t>(count));
    for (auto& each : result) each = random_();
    return result;
  }

  /// The number in a chunk. In place, the smaller of input and output is a part of the larger.
  std::uint64_t* find(std::size_t rank, chunk_place place) {
    auto& memory = memory_[rank];
    auto const sizes = sizes_of(static_cast<int>(rank));
    if (place.chunk < 0) return nullptr;
    auto chunk = static_cast<std::size_t>(place.chunk);
    if (chunk >= memory[static_cast<std::size_t>(place.buffer)].size()) return nullptr;
    if (in_place_ && place.buffer == step_buffer::output && sizes.input >= sizes.output) {
      if (sizes.input > sizes.output) chunk += rank * static_cast<std::size_t>(sizes.output);
      return &memory[0][chunk];
    }
    if (in_place_ && place.buffer == step_buffer::input && sizes.input < sizes.output) {
      return &memory[1][chunk + rank * static_cast<std::size_t>(sizes.input)];
    }
    return &memory[static_cast<std::size_t>(place.buffer)][chunk];
  }
  void load() {
    for (std::size_t r = 0; r < memory_.size(); ++r) {
      auto const sizes = sizes_of(static_cast<int>(r));
      if (sizes.input >= sizes.output) continue;
      for (std::size_t i = 0; i < inputs_[r].size(); ++i) {
        memory_[r][1][i + r * inputs_[r].size()] = inputs_[r][i];
      }
    }
  }

  bool is_ready(std::size_t r, std::size_t b, program_step const& s,
                std::map<std::pair<std::size_t, std::size_t>, std::size_t>& next) {
    auto const& block = program_->ranks[r].blocks[b];
    if (s.depends_block >= 0 && next[{r, static_cast<std::size_t>(s.depends_block)}] <=
                                    static_cast<std::size_t>(s.depends_step)) {
      return false;
    }
    return !receives(s.kind) ||
           !queues_[{block.receive_peer, static_cast<int>(r), block.channel}].empty();
  }

  bool step(std::size_t r, std::size_t b, program_step const& s) {
    auto const& block = program_->ranks[r].blocks[b];
    std::vector<std::uint64_t> values(static_cast<std::size_t>(s.count));
    if (receives(s.kind)) {
      auto& queue = queues_[{block.receive_peer, static_cast<int>(r), block.channel}];
      if (queue.front().size() != values.size()) return false;
      values = queue.front();
      queue.pop_front();
    }
    for (int i = 0; i < s.count; ++i) {
      auto& value = values[static_cast<std::size_t>(i)];
      if (reads_source(s.kind)) {
        auto const* source = find(r, {s.source.buffer, s.source.chunk + i});
        if (source == nullptr) return false;
        value += *source;  // begins at zero if nothing is received
      }
      if (!writes_destination(s.kind)) continue;
      auto* target = find(r, {s.destination.buffer, s.destination.chunk + i});
      if (target == nullptr) return false;
      if (s.kind == step_kind::reduce) value += *target;
      *target = value;
    }
    if (sends(s.kind)) {
      queues_[{static_cast<int>(r), block.send_peer, block.channel}].push_back(values);
    }
    return true;
  }

  std::optional<std::string> wrong_result() {
    int const ranks = static_cast<int>(memory_.size());
    for (int r = 0; r < ranks; ++r) {
      for (int c = 0; c < sizes_of(r).output; ++c) {
        auto const wanted = expected(r, c);
        if (!wanted) continue;
        auto const* found = find(static_cast<std::size_t>(r), {step_buffer::output, c});
        if (found == nullptr || *found != *wanted) {
          return "rank " + std::to_string(r) + " has a wrong chunk " + std::to_string(c);
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint64_t> expected(int rank, int chunk) const {
    auto const sum = [&](int at) {
      std::uint64_t result = 0;
      for (auto const& input : inputs_) result += input[static_cast<std::size_t>(at)];
      return result;
    };
    auto const of = [&](int from, int at) {
      return inputs_[static_cast<std::size_t>(from)][static_cast<std::size_t>(at)];
    };
    switch (*program_->collective) {
      case collective::all_reduce:
        return sum(chunk);
      case collective::reduce:
        return rank == root_ ? std::optional(sum(chunk)) : std::nullopt;
      case collective::broadcast:
        return of(root_, chunk);
      case collective::all_gather:
        return of(chunk / parts_, chunk % parts_);
      case collective::reduce_scatter:
        return sum(rank * parts_ + chunk);
      case collective::all_to_all:
        return of(chunk / parts_, rank * parts_ + chunk % parts_);
      default:
        return std::nullopt;
    }
  }

  step_program const* program_;
  bool in_place_;
  int root_;
  std::mt19937_64 random_;
  int parts_ = 0;
  std::vector<std::vector<chunks>> memory_;  // by rank: input, output, scratch
  std::vector<chunks> inputs_;
  std::map<std::tuple<int, int, int>, std::deque<chunks>> queues_;  // by from, to, channel
};

}  // namespace blink::test
