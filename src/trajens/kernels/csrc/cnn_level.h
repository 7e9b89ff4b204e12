// Levels of vector instructions: what each can hold in its registers, and what it offers to the rest of the library.
#pragma once

#include <cstdint>

namespace trajens {

// How the work is cut for one level. Accumulators, the weights they share and one pixel must fit into the registers:
// vectors1 * 4 * cells1 accumulators in the first convolution, 8 / width * positions2 in the second.
struct Tiling {
  int width;       // floats in a vector
  int registers;   // vectors that the processor holds
  bool is_fused;   // whether a multiply-add rounds once
  int vectors1;    // vectors of channels at a time in the first convolution
  int cells1;      // pooled outputs at a time in the first convolution
  int positions2;  // positions of a row at a time in the second convolution
};

namespace tilings {
constexpr Tiling avx512{16, 32, true, 1, 2, 8};
constexpr Tiling avx2{8, 16, true, 2, 1, 8};
constexpr Tiling sse2{4, 16, false, 2, 1, 4};
constexpr Tiling neon{4, 32, true, 4, 1, 8};
constexpr Tiling generic{4, 16, false, 2, 1, 4};
}  // namespace tilings

struct Level {
  const char* name;
  Tiling tiling;
  // Losses of a pair of models on `count` images, see PairOnImages.
  void (*losses)(const float* pair, const std::uint8_t* images, const std::uint8_t* labels,
                 const std::int32_t* indices, int count, std::int64_t stride, float* losses);
  // Multiply-adds that need no memory, to measure how many the processor can do; returns how many were done.
  double (*multiply_adds)(std::int64_t rounds);
};

// Each is defined by cnn_level.cc, compiled for it.
namespace levels {
extern const Level avx512, avx2, sse2, neon, generic;
}  // namespace levels

}  // namespace trajens
