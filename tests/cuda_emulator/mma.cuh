// Takes the place of csrc/mma.cuh where the kernel is compiled for the host: the words of CUDA the kernel uses, and the
// instructions of a warp by their definition. Threads are fibers that run one at a time; at whatever a warp or a block
// does together a thread stops, and emulator.cc goes on with it when the others have arrived.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(...)
#define __shared__ static

using std::max;

struct alignas(8) uint2 {
  std::uint32_t x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct Index {
  unsigned x;
};

inline uint2 make_uint2(std::uint32_t x, std::uint32_t y) { return {x, y}; }

template <class T>
T __ldg(const T* p) {
  return *p;
}

inline int __float_as_int(float x) {
  int bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float __int_as_float(int bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

namespace emulator {

// What a thread has arrived at.
enum class Stop { kStart, kProduct, kMatrices, kShuffle, kWarpBarrier, kBlockBarrier, kEnd };

struct Thread {
  ucontext_t context;
  std::vector<char> stack;
  Stop stop;
  // What the thread brings to an instruction of the warp, and what it takes from it.
  std::uint32_t a[4], b[2];
  float c[4], d[4];
  const void* row;
  int value, source, received;
};

inline std::vector<Thread> threads;
inline int current;
inline ucontext_t scheduler;

inline Thread& Self() { return threads[current]; }

inline void StopAt(Stop stop) {
  Self().stop = stop;
  swapcontext(&Self().context, &scheduler);
}

inline int Shuffle(int value, int source) {
  Self().value = value;
  Self().source = source;
  StopAt(Stop::kShuffle);
  return Self().received;
}

// Half precision in integers, as not every compiler has the type.
inline float FloatOfHalf(std::uint32_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  float size = std::ldexp(exponent == 0 ? fraction : fraction + 1024, std::max(exponent, 1) - 25);
  if (exponent == 31) size = fraction == 0 ? INFINITY : NAN;
  return half & 0x8000 ? -size : size;
}

// To the nearest, ties to even.
inline std::uint32_t HalfOfFloat(float x) {
  if (std::isnan(x)) return 0x7fff;
  const std::uint32_t sign = std::signbit(x) ? 0x8000 : 0;
  const float size = std::fabs(x);
  if (size >= 65520) return sign | 0x7c00;
  const int unit = std::max(std::ilogb(size), -14) - 10;
  return sign | (static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, -unit))) + ((unit + 24) << 10));
}

}  // namespace emulator

#define threadIdx (Index{static_cast<unsigned>(emulator::current)})
inline Index blockIdx;

inline void __syncthreads() { emulator::StopAt(emulator::Stop::kBlockBarrier); }
inline void __syncwarp() { emulator::StopAt(emulator::Stop::kWarpBarrier); }
inline int __shfl_sync(unsigned, int value, int source) { return emulator::Shuffle(value, source); }
inline int __shfl_xor_sync(unsigned, int value, int mask) {
  return emulator::Shuffle(value, emulator::current % 32 ^ mask);
}

namespace trajens {

inline void MultiplyAdd(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const float (&c)[4]) {
  emulator::Thread& self = emulator::Self();
  std::copy_n(a, 4, self.a);
  std::copy_n(b, 2, self.b);
  std::copy_n(c, 4, self.c);
  emulator::StopAt(emulator::Stop::kProduct);
  std::copy_n(self.d, 4, d);
}

inline void LoadMatrices(std::uint32_t (&a)[4], const void* row) {
  emulator::Self().row = row;
  emulator::StopAt(emulator::Stop::kMatrices);
  std::copy_n(emulator::Self().a, 4, a);
}

inline std::uint32_t Halves(float low, float high) {
  return emulator::HalfOfFloat(low) | emulator::HalfOfFloat(high) << 16;
}

inline float HalfRemainder(float x) { return x - emulator::FloatOfHalf(emulator::HalfOfFloat(x)); }

inline std::uint32_t HalvesRelu(float low, float high) { return Halves(low < 0 ? 0 : low, high < 0 ? 0 : high); }

inline std::uint32_t HalvesReluRemainder(float low, float high, std::uint32_t rounded) {
  return Halves(std::fmax(low, 0.0f) - emulator::FloatOfHalf(rounded & 0xffff),
                std::fmax(high, 0.0f) - emulator::FloatOfHalf(rounded >> 16));
}

template <bool kUpper>
std::uint32_t HalvesOfBytes(std::uint32_t bytes) {
  const std::uint32_t both = kUpper ? bytes >> 16 : bytes;
  return Halves((both & 255) / 256.0f, (both >> 8 & 255) / 256.0f);
}

inline int LargestBits(float a, float b, float c, float d) {
  return std::max({__float_as_int(a), __float_as_int(b), __float_as_int(c), __float_as_int(d)});
}

}  // namespace trajens
