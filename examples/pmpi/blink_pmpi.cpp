// SPDX-License-Identifier: Apache-2.0
// An unmodified MPI program runs its collectives through blink:
//
//   LD_PRELOAD=libblink_pmpi_openmpi.so mpirun -n 4 ./program
//
// Every MPI library has each call under two names, MPI_X for programs and PMPI_X for tools, so that a
// library that is loaded first may stand in between. What this one does not cover goes on to PMPI_X,
// and it is the same decision on every rank: it rests only on what MPI requires to be equal on all of
// them (the communicator, the operation, element type and count of reductions, the bytes of a copy)
// and on what the ranks agree about when a communicator is used first.
//
//   BLINK_PMPI_LEAST=BYTES   shorter messages go to the library; 0 unless set
//   BLINK_PMPI_REPORT=1      at the end, rank 0 says how many calls took which way

#include <blink/collectives.hpp>
#include <blink/transports/mpi.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// A program's elements of any type, as many as fit; the operation is applied to all of them at once.
struct block {
  std::array<std::byte, 1024> bytes;
};

/// Applies an MPI operation to blocks, in the order of the ranks.
struct mpi_operation {
  static constexpr bool is_commutative = false;
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int elements = 0;  ///< of a block
  int* code = nullptr;

  block operator()(block const& a, block const& b) const {
    block result = b;
    int const now = PMPI_Reduce_local(a.bytes.data(), result.bytes.data(), elements, type, op);
    if (now != MPI_SUCCESS) *code = now;
    return result;
  }
};

/// What the ranks of a communicator agreed about when it was used first.
struct agreement {
  bool is_used = false;     ///< through blink at all?
  std::uint64_t least = 0;  ///< bytes
};

/// A communicator's session and the schedules by root.
class attached {
 public:
  attached(MPI_Comm comm, agreement const& agreed) : agreed_(agreed) {
    if (agreed.is_used) me_ = std::make_unique<blink::mpi_session>(comm);
  }
  [[nodiscard]] bool takes(std::uint64_t bytes) const {
    return me_ && bytes > 0 && bytes >= agreed_.least;
  }
  [[nodiscard]] blink::mpi_session& me() { return *me_; }
  [[nodiscard]] blink::prepared_schedule& star() {
    if (star_ == nullptr) star_ = &me_->prepare(blink::star_schedule(me_->rank_count()));
    return *star_;
  }
  [[nodiscard]] blink::prepared_schedule& tree(int root) {
    auto& known = trees_[root];
    if (known == nullptr) {
      constexpr int few = 8;
      int const ranks = me_->rank_count();
      known = &me_->prepare(ranks <= few ? blink::flat_schedule(ranks, root)
                                         : blink::binomial_schedule(ranks, root));
    }
    return *known;
  }
  /// For reductions: the order of the ranks is kept by a star, and by any flat tree.
  [[nodiscard]] blink::prepared_schedule& ordered_tree(int root) {
    auto& known = ordered_[root];
    if (known == nullptr) known = &me_->prepare(blink::flat_schedule(me_->rank_count(), root));
    return *known;
  }

 private:
  agreement agreed_;
  std::unique_ptr<blink::mpi_session> me_;
  blink::prepared_schedule* star_ = nullptr;
  std::map<int, blink::prepared_schedule*> trees_, ordered_;
};

/// Everything that lives as long as MPI.
struct shim {
  int keyval = MPI_KEYVAL_INVALID;
  std::map<MPI_Comm, std::unique_ptr<attached>> of_comm;  // ended at the latest by MPI_Finalize
  std::vector<MPI_Comm> in_order;                         // of creation
  std::map<std::string_view, std::array<std::uint64_t, 2>> calls;  // passed on, taken
  bool is_inside = false;  // our own calls are not to come back here
};
shim& all() {
  static shim the_shim;
  return the_shim;
}

class inside {
 public:
  inside() { all().is_inside = true; }
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
  ~inside() { all().is_inside = false; }
};

void detach(MPI_Comm comm) {
  auto& the = all();
  std::erase(the.in_order, comm);
  the.of_comm.erase(comm);
}

/// Called by the library when the program frees a communicator.
int on_free(MPI_Comm comm, int, void*, void*) {
  inside const guard;
  detach(comm);
  return MPI_SUCCESS;
}

/// The environment of this rank; a value that does not parse keeps blink out of it, on all ranks.
agreement own_wish() {
  agreement result;
  result.is_used = true;
  if (char const* const text = std::getenv("BLINK_PMPI_LEAST"); text != nullptr) {
    std::string_view const all_of_it(text);
    auto const [end, problem] =
        std::from_chars(all_of_it.data(), all_of_it.data() + all_of_it.size(), result.least);
    if (problem != std::errc() || end != all_of_it.data() + all_of_it.size()) {
      std::fprintf(stderr, "blink: BLINK_PMPI_LEAST is '%s', expected a number of bytes\n", text);
      result.is_used = false;
    }
  }
  return result;
}

/// The session of a communicator, made when it is used first: all ranks come here together, as the
/// call that brings them is collective. Null: the library does everything there.
attached* attach(MPI_Comm comm) {
  auto& the = all();
  if (auto const known = the.of_comm.find(comm); known != the.of_comm.end()) {
    return known->second.get();
  }
  int is_inter = 0;
  int ranks = 0;
  if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0) return nullptr;
  PMPI_Comm_size(comm, &ranks);
  if (ranks < 2) return nullptr;
  auto agreed = own_wish();
  std::uint64_t const mine[2] = {agreed.is_used ? 0U : 1U, agreed.least};
  std::uint64_t most[2] = {};
  if (PMPI_Allreduce(mine, most, 2, MPI_UINT64_T, MPI_MAX, comm) != MPI_SUCCESS) return nullptr;
  agreed.is_used = most[0] == 0;
  agreed.least = most[1];
  if (the.keyval == MPI_KEYVAL_INVALID) {
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &the.keyval, nullptr);
  }
  PMPI_Comm_set_attr(comm, the.keyval, nullptr);
  the.in_order.push_back(comm);
  return (the.of_comm[comm] = std::make_unique<attached>(comm, agreed)).get();
}

/// Runs `call(session's attachment)` if blink takes it; returns false if the library is to do it.
template <class Call>
bool take(std::string_view name, MPI_Comm comm, std::uint64_t bytes, int& code, Call const& call) {
  auto& the = all();
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  // Sessions are for one thread; and the library is to say what is wrong with no communicator.
  if (level == MPI_THREAD_MULTIPLE || the.is_inside || comm == MPI_COMM_NULL) return false;
  inside const guard;
  code = MPI_SUCCESS;
  try {
    auto* const here = attach(comm);
    bool const takes = here != nullptr && here->takes(bytes);
    ++the.calls[name][takes ? 1 : 0];
    if (!takes) return false;
    call(*here);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "blink: %.*s: %s\n", static_cast<int>(name.size()), name.data(),
                 problem.what());
    code = MPI_ERR_OTHER;
  }
  if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(comm, code);
  return true;
}

// --- element types ------------------------------------------------------------------------------------

bool is_named(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return false;
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
         combiner == MPI_COMBINER_NAMED;
}
std::uint64_t extent_of(MPI_Datatype type) {
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  PMPI_Type_get_extent(type, &low, &extent);
  return static_cast<std::uint64_t>(extent);
}
/// Bytes of data, without gaps: equal on all ranks of a copy, whatever types they name.
std::uint64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  if (count <= 0 || type == MPI_DATATYPE_NULL) return 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
}

/// A program's buffer as bytes in a row: itself, or a copy where the type has gaps or another order.
class row_of_bytes {
 public:
  row_of_bytes(void* user, std::uint64_t count, MPI_Datatype type, MPI_Comm comm)
      : user_(static_cast<std::byte*>(user)),
        count_(static_cast<int>(count)),
        type_(type),
        comm_(comm),
        bytes_(bytes_of(count_, type)),
        is_packed_(!is_named(type) || extent_of(type) * count != bytes_) {
    if (is_packed_) packed_.resize(bytes_);
  }
  [[nodiscard]] std::byte* data() { return is_packed_ ? packed_.data() : user_; }
  void pack() {
    if (!is_packed_) return;
    int position = 0;
    int const size = static_cast<int>(bytes_);
    PMPI_Pack(user_, count_, type_, packed_.data(), size, &position, comm_);
    blink::expects(position == size, "MPI_Pack: as many bytes as the type has");
  }
  void unpack() {
    if (!is_packed_) return;
    int position = 0;
    PMPI_Unpack(packed_.data(), static_cast<int>(bytes_), &position, user_, count_, type_, comm_);
  }

 private:
  std::byte* user_;
  int count_;
  MPI_Datatype type_;
  MPI_Comm comm_;
  std::uint64_t bytes_;
  bool is_packed_;
  std::vector<std::byte> packed_;
};

void* writable(void const* buffer) {
  return const_cast<void*>(buffer);
}
std::byte* at(void* buffer, std::uint64_t offset) {
  return static_cast<std::byte*>(buffer) + offset;
}

// --- reductions ----------------------------------------------------------------------------------------

bool can_reduce(int count, MPI_Datatype type, MPI_Op op) {
  return count > 0 && op != MPI_OP_NULL && is_named(type) && extent_of(type) > 0 &&
         sizeof(block) % extent_of(type) == 0;
}

/// Does blink combine these itself?
bool is_ours(MPI_Datatype type, MPI_Op op) {
  return op == MPI_SUM && (type == MPI_FLOAT || type == MPI_DOUBLE || type == MPI_INT);
}

/// Calls `run(input, output, count, reducer)` for elements of a C++ type where blink combines them
/// itself, else for blocks; what does not fill a block goes through one that is filled up with zeros.
/// The output may be null where there is none. Returns what the operation returned.
template <class Run>
int reduce_typed(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                 Run const& run) {
  auto const elements = static_cast<std::size_t>(count);
  if (is_ours(type, op)) {
    auto const as = [&](auto example) {
      using T = decltype(example);
      run(static_cast<T const*>(input), static_cast<T*>(output), elements, blink::sum{});
    };
    if (type == MPI_FLOAT) as(0.0F);
    if (type == MPI_DOUBLE) as(0.0);
    if (type == MPI_INT) as(0);
    return MPI_SUCCESS;
  }
  int code = MPI_SUCCESS;
  std::size_t const bytes = elements * extent_of(type);
  std::size_t const blocks = bytes / sizeof(block);
  std::size_t const rest = bytes % sizeof(block);
  mpi_operation const whole{op, type, static_cast<int>(sizeof(block) / extent_of(type)), &code};
  if (blocks > 0) {
    run(static_cast<block const*>(input), static_cast<block*>(output), blocks, whole);
  }
  if (rest > 0) {
    mpi_operation const part{op, type, static_cast<int>(rest / extent_of(type)), &code};
    block in{};
    block out{};
    std::memcpy(in.bytes.data(), static_cast<std::byte const*>(input) + blocks * sizeof(block),
                rest);
    run(static_cast<block const*>(&in), output == nullptr ? nullptr : &out, 1, part);
    if (output != nullptr) {
      std::memcpy(at(output, blocks * sizeof(block)), out.bytes.data(), rest);
    }
  }
  return code;
}

}  // namespace

extern "C" {

int MPI_Allreduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  int code = MPI_SUCCESS;
  auto const bytes = can_reduce(count, type, op) ? bytes_of(count, type) : 0;
  if (take("MPI_Allreduce", comm, bytes, code, [&](attached& here) {
        auto const run = [&](auto const* in, auto* out, std::size_t n, auto const& reducer) {
          blink::all_reduce(here.me(), here.star(), in, out, n, reducer);
        };
        code = reduce_typed(input == MPI_IN_PLACE ? output : input, output, count, type, op, run);
      })) {
    return code;
  }
  return PMPI_Allreduce(input, output, count, type, op, comm);
}

int MPI_Reduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  int code = MPI_SUCCESS;
  auto const bytes = can_reduce(count, type, op) ? bytes_of(count, type) : 0;
  if (take("MPI_Reduce", comm, bytes, code, [&](attached& here) {
        bool const is_root = here.me().rank() == root;
        auto const run = [&](auto const* in, auto* out, std::size_t n, auto const& reducer) {
          blink::reduce(here.me(), here.ordered_tree(root), in, out, n, reducer);
        };
        code = reduce_typed(input == MPI_IN_PLACE ? output : input, is_root ? output : nullptr,
                            count, type, op, run);
      })) {
    return code;
  }
  return PMPI_Reduce(input, output, count, type, op, root, comm);
}

int MPI_Reduce_scatter_block(void const* input, void* output, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  auto const bytes = can_reduce(count, type, op) ? bytes_of(count, type) : 0;
  if (take("MPI_Reduce_scatter_block", comm, bytes, code, [&](attached& here) {
        auto const run = [&](auto const* in, auto* out, std::size_t n, auto const& reducer) {
          blink::reduce_scatter(here.me(), here.star(), in, out, n, reducer);
        };
        auto const* const from = static_cast<std::byte const*>(
            input == MPI_IN_PLACE ? static_cast<void const*>(output) : input);
        auto const ranks = static_cast<std::size_t>(here.me().rank_count());
        std::size_t const part = static_cast<std::size_t>(count) * extent_of(type);
        // Of whole blocks for each rank; and in place MPI wants the result at the beginning.
        std::size_t const whole =
            is_ours(type, op) ? part : (part + sizeof(block) - 1) / sizeof(block) * sizeof(block);
        std::vector<std::byte> padded(whole == part ? 0 : whole * ranks);
        std::vector<std::byte> result(whole == part && input != MPI_IN_PLACE ? 0 : whole);
        for (std::size_t rank = 0; rank < ranks && whole != part; ++rank) {
          std::memcpy(padded.data() + rank * whole, from + rank * part, part);
        }
        auto const elements = static_cast<int>(whole / extent_of(type));
        code = reduce_typed(padded.empty() ? from : padded.data(),
                            result.empty() ? output : result.data(), elements, type, op, run);
        if (!result.empty()) std::memcpy(output, result.data(), part);
      })) {
    return code;
  }
  return PMPI_Reduce_scatter_block(input, output, count, type, op, comm);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  auto const bytes = bytes_of(count, type);
  if (take("MPI_Bcast", comm, bytes, code, [&](attached& here) {
        row_of_bytes row(buffer, static_cast<std::uint64_t>(count), type, comm);
        if (here.me().rank() == root) row.pack();
        blink::broadcast(here.me(), here.tree(root), static_cast<std::byte const*>(row.data()),
                         row.data(), bytes);
        if (here.me().rank() != root) row.unpack();
      })) {
    return code;
  }
  return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Allgather(void const* input, int input_count, MPI_Datatype input_type, void* output,
                  int output_count, MPI_Datatype output_type, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  auto const bytes = bytes_of(output_count, output_type);  // of one block
  if (take("MPI_Allgather", comm, bytes, code, [&](attached& here) {
        auto const ranks = static_cast<std::uint64_t>(here.me().rank_count());
        auto const own = static_cast<std::uint64_t>(here.me().rank());
        row_of_bytes to(output, static_cast<std::uint64_t>(output_count) * ranks, output_type,
                        comm);
        if (input == MPI_IN_PLACE) {
          to.pack();
          blink::all_gather(here.me(), here.star(),
                            static_cast<std::byte const*>(to.data() + own * bytes), to.data(),
                            bytes);
        } else {
          row_of_bytes from(writable(input), static_cast<std::uint64_t>(input_count), input_type,
                            comm);
          from.pack();
          blink::all_gather(here.me(), here.star(), static_cast<std::byte const*>(from.data()),
                            to.data(), bytes);
        }
        to.unpack();
      })) {
    return code;
  }
  return PMPI_Allgather(input, input_count, input_type, output, output_count, output_type, comm);
}

int MPI_Barrier(MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take("MPI_Barrier", comm, 1, code,
           [&](attached& here) { blink::barrier(here.me(), here.tree(0)); })) {
    return code;
  }
  return PMPI_Barrier(comm);
}

int MPI_Finalize() {
  auto& the = all();
  {
    inside const guard;
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char const* const wish = std::getenv("BLINK_PMPI_REPORT");
    if (rank == 0 && wish != nullptr && std::string_view(wish) == "1") {
      for (auto const& [name, counts] : the.calls) {
        std::fprintf(stderr, "blink: %.*s: %llu calls through blink, %llu by the library\n",
                     static_cast<int>(name.size()), name.data(),
                     static_cast<unsigned long long>(counts[1]),
                     static_cast<unsigned long long>(counts[0]));
      }
    }
    while (!the.in_order.empty()) {
      auto const last = the.in_order.back();
      PMPI_Comm_delete_attr(last, the.keyval);  // which ends the session
    }
  }
  return PMPI_Finalize();
}

}  // extern "C"
