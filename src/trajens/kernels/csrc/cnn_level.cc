// One level of vector instructions. CMakeLists.txt compiles this file once for each level of the processor's family, with
// TRAJENS_LEVEL set to its name and the compiler's flags for its instructions.

#include "cnn_level.h"

#include "cnn.h"

#define TRAJENS_TEXT(name) #name
#define TRAJENS_NAME(name) TRAJENS_TEXT(name)

namespace trajens {
namespace {

void Losses(const float* pair, const std::uint8_t* images, const std::uint8_t* labels, const std::int32_t* indices,
            int count, std::int64_t stride, float* losses) {
  PairOnImages(pair, images, labels, indices, count, stride, losses);
}

double MultiplyAdds(std::int64_t rounds) {
  // Enough independent sums to hide the latency of one, no more than there are registers, nor than compilers unroll.
  constexpr int sums = 8 + kTiling.registers / 4;
  // Read once, so that the compiler can compute nothing beforehand.
  volatile float factor = 0.999f, term = 0.001f;
  const Vector a = factor - Vector{}, b = term - Vector{};
  Vector sum[sums];
  for (int k = 0; k < sums; ++k) sum[k] = static_cast<float>(k) - Vector{};  // all different, or they would be one
  for (std::int64_t i = 0; i < rounds; ++i)
    for (int k = 0; k < sums; ++k) sum[k] = sum[k] * a + b;
  Vector all = {};
  for (int k = 0; k < sums; ++k) all += sum[k];
  term = all[0];
  return static_cast<double>(rounds) * sums * kTiling.width;
}

}  // namespace

const Level levels::TRAJENS_LEVEL = {TRAJENS_NAME(TRAJENS_LEVEL), kTiling, Losses, MultiplyAdds};

}  // namespace trajens
