// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

#include <ucp/api/ucp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The connections of one process to the others of its job: a UCX worker, and an endpoint for each
/// process that it has sent to. All channels of the process share them. One thread at a time: the
/// one that holds `using_it()`. `is_lost` may be asked without.
class ucx_network {
 public:
  /// Collective over the processes of the bootstrap.
  ///
  /// Throws: precondition_error for more than 65536 processes; resource_error if UCX refuses; what
  ///         the bootstrap throws.
  template <process_bootstrap Bootstrap>
  explicit ucx_network(Bootstrap& all)
      : process_(all.process()), peers_(static_cast<std::size_t>(all.process_count())) {
    expects(all.process_count() <= 1 << 16,
            "ucx_communicator: more than 65536 processes, expected at most so many");
    begin();
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    require(ucp_worker_get_address(worker(), &address, &bytes), "ucp_worker_get_address");
    auto const* const first_byte = reinterpret_cast<std::byte const*>(address);
    std::vector<std::byte> own(first_byte, first_byte + bytes);
    ucp_worker_release_address(worker(), address);
    std::vector<std::uint64_t> lengths(peers_.size());
    std::uint64_t const length = bytes;
    all.all_gather(&length, lengths.data(), sizeof length);
    std::size_t const most = *std::max_element(lengths.begin(), lengths.end());
    own.resize(most);
    std::vector<std::byte> everybodys(most * peers_.size());
    all.all_gather(own.data(), everybodys.data(), most);
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      auto const* const first = everybodys.data() + peer * most;
      peers_[peer].address.assign(first, first + lengths[peer]);
    }
    // While all are alive: to connect to a dead host takes long.
    constexpr int few = 64;
    for (int peer = 0; process_count() <= few && peer < process_count(); ++peer) {
      if (peer != process_) static_cast<void>(endpoint_to(peer));
    }
  }
  ucx_network(ucx_network const&) = delete;
  ucx_network& operator=(ucx_network const&) = delete;
  ~ucx_network() { close_endpoints(); }

  [[nodiscard]] std::mutex& using_it() { return mutex_; }

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int process_count() const { return static_cast<int>(peers_.size()); }
  [[nodiscard]] ucp_worker_h worker() const { return worker_.get(); }

  /// Returns the endpoint to a process, which is made at the first call among many processes; null
  /// if the process is lost.
  [[nodiscard]] ucp_ep_h endpoint_to(int process) {
    auto& to = at(process);
    if (to.is_lost) return nullptr;
    if (to.endpoint != nullptr) return to.endpoint;
    ucp_ep_params_t how{};
    how.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                     UCP_EP_PARAM_FIELD_ERR_HANDLER;
    how.address = reinterpret_cast<ucp_address_t const*>(to.address.data());
    how.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    how.err_handler.cb = [](void* peer, ucp_ep_h, ucs_status_t) {
      static_cast<peer_state*>(peer)->is_lost = true;
    };
    how.err_handler.arg = &to;
    if (ucp_ep_create(worker(), &how, &to.endpoint) != UCS_OK) {
      to.endpoint = nullptr;
      to.is_lost = true;
    }
    return to.endpoint;
  }
  /// Advances all operations.
  void progress() {
    while (ucp_worker_progress(worker()) != 0) {
    }
  }
  [[nodiscard]] bool is_lost(int process) const {
    return peers_[static_cast<std::size_t>(process)].is_lost;
  }
  /// Ends the connection to a process at once: operations with it end, and touch no memory
  /// afterwards.
  void lose(int process) {
    auto& to = at(process);
    to.is_lost = true;
    if (to.endpoint == nullptr) return;
    finish(close(to.endpoint, UCP_EP_CLOSE_FLAG_FORCE), std::chrono::seconds(1));
    to.endpoint = nullptr;
  }
  /// The number of a channel that this process is the first rank of. No other channel of the job
  /// has it. 0: there are no more, after 65535.
  [[nodiscard]] std::uint32_t next_channel() {
    constexpr std::uint32_t most = 0xffff;
    if (channels_ == most) return 0;
    return static_cast<std::uint32_t>(process_) << 16 | ++channels_;
  }

 private:
  struct peer_state {
    std::vector<std::byte> address;
    ucp_ep_h endpoint = nullptr;
    std::atomic<bool> is_lost = false;
  };

  [[nodiscard]] peer_state& at(int process) { return peers_[static_cast<std::size_t>(process)]; }

  static void require(ucs_status_t status, char const* call) {
    if (status == UCS_OK) return;
    throw resource_error(std::string("ucx_communicator: ") + call + ": " +
                         ucs_status_string(status));
  }

  /// Settings that failures need: with them the death of a process or a host is noticed. UCX's own
  /// shared memory is left out, because there the death of a process takes long to notice, and
  /// ranks of one host have theirs. A variable that the program has set stays. Transports read
  /// only the environment.
  static void set_environment() {
    struct setting {
      char const* name;
      char const* value;
    };
    for (auto const& one : {setting{"UCX_TLS", "^sm"},
                            {"UCX_KEEPALIVE_INTERVAL", "inf"},
                            {"UCX_TCP_KEEPIDLE", "2s"},
                            {"UCX_TCP_KEEPINTVL", "1s"},
                            {"UCX_TCP_KEEPCNT", "3"}}) {
      setenv(one.name, one.value, 0);
    }
  }
  void begin() {
    set_environment();
    ucp_params_t what{};
    what.field_mask = UCP_PARAM_FIELD_FEATURES;
    what.features = UCP_FEATURE_TAG;
    ucp_context_h context = nullptr;
    require(ucp_init(&what, nullptr, &context), "ucp_init");
    context_.reset(context);
    ucp_worker_params_t how{};
    how.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    how.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucp_worker_h worker = nullptr;
    require(ucp_worker_create(context, &how, &worker), "ucp_worker_create");
    worker_.reset(worker);
  }
  [[nodiscard]] static ucs_status_ptr_t close(ucp_ep_h endpoint, unsigned flags) {
    ucp_request_param_t how{};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    how.flags = flags;
    return ucp_ep_close_nbx(endpoint, &how);
  }
  // Waits for the end of an operation. Returns false if that takes too long.
  bool finish(ucs_status_ptr_t operation, std::chrono::milliseconds longest) {
    if (!UCS_PTR_IS_PTR(operation)) return true;
    auto const end = std::chrono::steady_clock::now() + longest;
    while (ucp_request_check_status(operation) == UCS_INPROGRESS) {
      if (std::chrono::steady_clock::now() > end) return false;
      ucp_worker_progress(worker());
    }
    ucp_request_free(operation);
    return true;
  }
  // What was sent still leaves, but a peer that no longer takes it is not waited for.
  void close_endpoints() {
    std::vector<ucs_status_ptr_t> closing;
    for (auto& peer : peers_) {
      if (peer.endpoint == nullptr) continue;
      closing.push_back(close(peer.endpoint, peer.is_lost ? UCP_EP_CLOSE_FLAG_FORCE : 0));
    }
    for (auto* const one : closing) static_cast<void>(finish(one, std::chrono::seconds(1)));
  }

  std::mutex mutex_;
  int process_;
  std::unique_ptr<ucp_context, decltype(&ucp_cleanup)> context_{nullptr, ucp_cleanup};
  std::unique_ptr<ucp_worker, decltype(&ucp_worker_destroy)> worker_{nullptr, ucp_worker_destroy};
  std::vector<peer_state> peers_;
  std::uint32_t channels_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
