#pragma once
#include <ucontext.h>
#include <cstdint>
#include <cstring>
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <vector>
#include <random>
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(...)
#define __shared__ static
using std::max; using std::min;
struct uint2 { uint32_t x, y; } __attribute__((aligned(8)));
struct float4 { float x, y, z, w; } __attribute__((aligned(16)));
inline uint2 make_uint2(uint32_t a, uint32_t b) { return {a, b}; }
template <class T> T __ldg(const T* p) { return *p; }
inline int __float_as_int(float f) { int i; memcpy(&i, &f, 4); return i; }
inline float __int_as_float(int i) { float f; memcpy(&f, &i, 4); return f; }
inline int __vimax3_s32(int a, int b, int c) { return std::max(a, std::max(b, c)); }
struct Dim { unsigned x; };
namespace em {
enum Kind { kNone, kMma, kLdm, kShfl, kWarp, kBlock, kDone };
struct Op { Kind kind; uint32_t a[4], b[2]; float c[4]; const void* p; int v, arg, mode; uint32_t r[4]; float d[4]; };
struct Fiber { ucontext_t ctx; std::vector<char> stack; Op op; };
extern std::vector<Fiber> fibers; extern ucontext_t home; extern int current;
inline void Yield() { int me = current; swapcontext(&fibers[me].ctx, &home); current = me; }
inline float H(uint16_t h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
inline uint16_t U(float f) { _Float16 x = (_Float16)f; uint16_t h; memcpy(&h, &x, 2); return h; }
inline uint32_t Pack(float l, float h) { return U(l) | (uint32_t)U(h) << 16; }
struct Tid { operator Dim() const { return {(unsigned)current}; } };
}
extern Dim blockIdx;
#define threadIdx (Dim{(unsigned)em::current})
inline void __syncthreads() { em::fibers[em::current].op.kind = em::kBlock; em::Yield(); }
inline void __syncwarp() { em::fibers[em::current].op.kind = em::kWarp; em::Yield(); }
inline int Shfl(int v, int arg, int mode) { auto& o = em::fibers[em::current].op; o.kind = em::kShfl; o.v = v; o.arg = arg; o.mode = mode; em::Yield(); return (int)em::fibers[em::current].op.r[0]; }
inline int __shfl_xor_sync(unsigned, int v, int k) { return Shfl(v, k, 1); }
inline int __shfl_sync(unsigned, int v, int k) { return Shfl(v, k, 0); }
namespace trajens {
inline void MultiplyAdd(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const float (&c)[4]) {
  auto& o = em::fibers[em::current].op; o.kind = em::kMma; memcpy(o.a, a, 16); memcpy(o.b, b, 8); memcpy(o.c, c, 16); em::Yield();
  memcpy(d, em::fibers[em::current].op.d, 16);
}
inline void LoadMatrices(std::uint32_t (&a)[4], const void* p) {
  auto& o = em::fibers[em::current].op; o.kind = em::kLdm; o.p = p; if ((uintptr_t)p % 16) abort(); em::Yield(); memcpy(a, em::fibers[em::current].op.r, 16);
}
inline uint32_t Halves(float l, float h) { return em::Pack(l, h); }
inline float HalfRemainder(float x) { return x - em::H(em::U(x)); }
inline uint32_t HalvesRelu(float l, float h) { return em::Pack(l < 0 ? 0 : l, h < 0 ? 0 : h); }
inline uint32_t HalvesReluRemainder(float l, float h, uint32_t r) { return em::Pack((l > 0 ? l : 0) - em::H(r), (h > 0 ? h : 0) - em::H(r >> 16)); }
template <bool kUpper> uint32_t HalvesOfBytes(uint32_t w) { int s = kUpper ? 16 : 0; return em::Pack((w >> s & 255) / 256.0f, (w >> (s + 8) & 255) / 256.0f); }
inline int LargestBits(float a, float b, float c, float d) { return max(__vimax3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c)), __float_as_int(d)); }
}
