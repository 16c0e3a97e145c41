// SPDX-License-Identifier: Apache-2.0
// Detects planted ordering bugs in sends and receives. Emulated blocks of three threads run under
// ThreadSanitizer. They serve several pieces of each connection, connections in turns, and more
// messages than slots. Every byte is compared, and a sender that has ended overwrites its data.
// Exits with 0 if nothing was noticed.

#include <blink/running/walk/counter.hpp>
#include <blink/transports/cuda/p2p/piece_call.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/emulated_block.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t slot_bytes = 128, stride = slot_bytes + 128;
constexpr std::uint32_t window = 2, connections = 3, connections_per_block = 2, threads = 3;
constexpr std::size_t sizes[] = {1000, 0, 517, 128};

struct connection_memory {
  blink::pair_head head;
  alignas(128) std::byte slots[window * stride];
};

/// The pieces of one device, all to the other one or all from it.
class side {
 public:
  side(std::deque<connection_memory>& memory, bool sends) : sends_(sends), ends_(connections) {
    for (std::uint32_t k = 0; k < connections; ++k) {
      auto& end = ends_[k];
      end.end.peer = sends ? 1 : 0;
      end.end.sends = sends;
      end.judges = true;
      end.head = &memory[k].head;
      end.connection = {nullptr, nullptr, memory[k].slots, nullptr, nullptr,
                        0,       window,  stride,          0,       1};
      end.connection.use(&memory[k].head.counters);
      (sends ? end.work.out : end.work.in) = &end.end;
      (sends ? end.work.out_count : end.work.in_count) = 1;
      end.work.reads_input = sends;
      end.work.writes_output = !sends;
    }
    call_.ends = ends_.data();
    call_.slot_bytes = slot_bytes;
    call_.connections = connections;
    call_.connections_per_block = connections_per_block;
    call_.watch.abort = &abort_;
    call_.watch.failed = &abort_;
    call_.watch.deadline_nanoseconds = 10'000'000'000;
    std::uint32_t next = connections;
    for (std::uint32_t k = 0; k < connections; ++k) {
      std::uint32_t before = k;
      for (std::size_t const& bytes : sizes) {
        auto& data = data_.emplace_back(bytes);
        std::uint32_t const at = &bytes == &sizes[0] ? k : next++;
        if (at != k) call_.parts[before].next = at;
        call_.parts[at] = {data.data(), bytes, bytes, k, 0};
        before = at;
      }
    }
  }

  /// Writes all data to send, or clears the data to receive.
  void fill(std::uint32_t round) {
    std::uint32_t value = round * 7919 + 1;
    for (auto& data : data_) {
      for (auto& byte : data)
        byte = sends_ ? static_cast<std::byte>(value = value * 1664525 + 1013904223) : std::byte{};
    }
  }
  /// Starts the blocks; a sender overwrites its data when they have ended.
  void start() {
    call_thread_ = std::jthread([this] {
      std::deque<blink_test::emulated_team> teams;
      {
        std::vector<std::jthread> all;
        for (std::uint32_t block = 0; block * connections_per_block < connections; ++block) {
          auto& team = teams.emplace_back(threads);
          for (std::uint32_t rank = 0; rank < threads; ++rank) {
            all.emplace_back([this, &team, block, rank] {
              run_pieces(blink_test::emulated_block(team, rank), call_, block);
            });
          }
        }
      }
      for (auto& data : data_) {
        for (auto& byte : data) byte = sends_ ? std::byte{0xee} : byte;
      }
    });
  }
  void wait() { call_thread_.join(); }
  [[nodiscard]] bool has_failed() const { return blink::observe(abort_) != 0; }
  [[nodiscard]] std::vector<std::vector<std::byte>> const& data() const { return data_; }

 private:
  bool sends_;
  std::vector<blink::pair_end> ends_;
  std::vector<std::vector<std::byte>> data_;
  blink::counter abort_ = 0;
  blink::piece_call call_{};
  std::jthread call_thread_;
};

}  // namespace

int main() {
  std::deque<connection_memory> memory(connections);
  side sender(memory, true), receiver(memory, false), expected(memory, true);
  for (std::uint32_t round = 0; round < 20; ++round) {
    sender.fill(round);
    expected.fill(round);
    receiver.fill(round);
    sender.start();
    receiver.start();
    sender.wait();
    receiver.wait();
    if (sender.has_failed() || receiver.has_failed() || receiver.data() != expected.data()) {
      std::printf("round %u is wrong\n", round);
      return 1;
    }
  }
  return 0;
}
