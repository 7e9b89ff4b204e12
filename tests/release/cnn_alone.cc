// The kernel's arithmetic without XLA, to run what was compiled for another processor under an emulator.
// stdin: one pair of parameters, then images, labels and indices as the kernel takes them; stdout: the losses (2, m).
// Usage: cnn_alone IMAGES M

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../src/trajens/kernels/csrc/cnn.h"

namespace {

template <typename T>
std::vector<T> Read(std::size_t count) {
  std::vector<T> values(count);
  if (std::fread(values.data(), sizeof(T), count, stdin) != count) std::exit(1);
  return values;
}

}  // namespace

int main(int, char** arguments) {
  const int size = std::atoi(arguments[1]), m = std::atoi(arguments[2]);
  const auto pair = Read<float>(2 * trajens::kParameters);
  const auto images = Read<std::uint8_t>(static_cast<std::size_t>(size) * trajens::kSide * trajens::kSide);
  const auto labels = Read<std::uint8_t>(size);
  const auto indices = Read<std::int32_t>(m);
  std::vector<float> losses(2 * m);
  trajens::PairOnImages(pair.data(), images.data(), labels.data(), indices.data(), m, m, losses.data());
  return std::fwrite(losses.data(), sizeof(float), losses.size(), stdout) != losses.size();
}
