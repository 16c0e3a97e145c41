// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only file that distinguishes compilers.

#include <blink/core/version.hpp>

// A file that is missing ends compilation with one sentence, where `#error` would not end it.
#if __cplusplus < 202002L && !defined(_MSC_VER)
#include "blink needs C++20: compile with -std=c++20"
#elif !defined(__cpp_exceptions) && !defined(__CUDA_ARCH__)
#include "blink needs exceptions: compile without -fno-exceptions"
#endif

// clang on devices does not inline functions that it considers large, and passes their arguments
// through local memory. So inlining is forced.
#if defined(__clang__) && defined(__CUDA_ARCH__)
#define BLINK_HOST_DEVICE __host__ __device__ __attribute__((always_inline))
#elif defined(__CUDACC__)
#define BLINK_HOST_DEVICE __host__ __device__
#else
#define BLINK_HOST_DEVICE
#endif

/// Marks a template that both devices and hosts instantiate, each with its own transports and
/// groups. It keeps nvcc from warning that the host's cannot be called on devices. Device code that
/// does call them is still an error.
#if defined(__NVCC__)
#define BLINK_EITHER_SIDE _Pragma("nv_exec_check_disable")
#else
#define BLINK_EITHER_SIDE
#endif

/// Marks a read-only argument of a kernel. Taking its address makes no copy.
#if defined(__NVCC__)
#define BLINK_KERNEL_CONSTANT __grid_constant__
#else
#define BLINK_KERNEL_CONSTANT
#endif

/// 1 while code for a GPU is generated, otherwise 0.
#if defined(__CUDA_ARCH__)
#define BLINK_DEVICE_PASS 1
#else
#define BLINK_DEVICE_PASS 0
#endif

/// Unroll the next loop, or keep it from being unrolled, in device code. Host compilers decide for
/// themselves.
#if BLINK_DEVICE_PASS
#define BLINK_UNROLL _Pragma("unroll")
#define BLINK_ROLLED _Pragma("unroll 1")
#else
#define BLINK_UNROLL
#define BLINK_ROLLED
#endif

/// Bytes of results that one device thread holds in registers. clang's code needs more of them for
/// addresses.
#if defined(__clang__)
#define BLINK_ROW_BYTES 64
#else
#define BLINK_ROW_BYTES 128
#endif

/// Marks a function that runs once or only after a failure. Host compilers make it small instead of
/// fast, which also takes them less time.
#if defined(__GNUC__) && !defined(__CUDACC__)
#define BLINK_COLD [[gnu::cold]]
#else
#define BLINK_COLD
#endif

/// Asserts that the iterations of the next loop are independent, even where they seem to depend on
/// each other. clang checks this at run time. With a pragma, it would warn users about each loop
/// that it cannot vectorize because of its reducer.
#if defined(__GNUC__) && !defined(__clang__) && !BLINK_DEVICE_PASS
#define BLINK_INDEPENDENT _Pragma("GCC ivdep")
#else
#define BLINK_INDEPENDENT
#endif

/// 1 where stores can bypass the caches. All of x86-64 has such stores; ThreadSanitizer does not
/// see them. Compiler builtins replace the intrinsics header because that header is large.
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !BLINK_DEVICE_PASS
#define BLINK_HAS_STREAMING_STORES 1
#if defined(__clang__)
#if __has_feature(thread_sanitizer)
#undef BLINK_HAS_STREAMING_STORES
#define BLINK_HAS_STREAMING_STORES 0
#endif
#define BLINK_STREAMING_STORE(to, word) __builtin_nontemporal_store(word, to)
#else
#define BLINK_STREAMING_STORE(to, word) __builtin_ia32_movntdq(to, word)
#endif
#else
#define BLINK_HAS_STREAMING_STORES 0
#endif

/// Asserts that a type models a concept whose check takes long. It is checked only where
/// BLINK_CHECK_MODELS is defined, as in blink's own tests. The result is the same for every
/// includer, so users need not wait for it.
#if defined(BLINK_CHECK_MODELS)
#define BLINK_MODELS(...) static_assert(__VA_ARGS__)
#else
#define BLINK_MODELS(...) static_assert(true)
#endif

namespace blink { inline namespace BLINK_ABI {

/// The default of an unused template parameter: `template <class = when_used>`. It turns a function
/// into a template, which only units that call it compile. Other units are spared the standard
/// templates that its body instantiates.
struct when_used;

}}  // namespace blink::BLINK_ABI
