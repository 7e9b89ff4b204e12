// The kernel's arithmetic without XLA, to run what was compiled for another processor under an emulator. Linked with the
// objects of one family of levels; TRAJENS_FAMILY lists them.
// Usage: cnn_alone                        prints the levels that the processor can run
//        cnn_alone LEVEL IMAGES M         stdin: one pair of parameters, then images, labels and indices as the kernel
//                                         takes them; stdout: the losses (2, m)

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cnn_level.h"
#include "cnn_shape.h"

extern "C" const char* trajens_cpu_levels();

namespace {

template <typename T>
std::vector<T> Read(std::size_t count) {
  std::vector<T> values(count);
  if (std::fread(values.data(), sizeof(T), count, stdin) != count) std::exit(1);
  return values;
}

const trajens::Level* Named(const char* name) {
  using namespace trajens::levels;
  for (const trajens::Level* level : {TRAJENS_FAMILY})
    if (std::strcmp(level->name, name) == 0) return level;
  std::exit(2);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 1) return std::puts(trajens_cpu_levels()) < 0;
  const trajens::Level* level = Named(arguments[1]);
  const int size = std::atoi(arguments[2]), m = std::atoi(arguments[3]);
  const auto pair = Read<float>(2 * trajens::kParameters);
  const auto images = Read<std::uint8_t>(static_cast<std::size_t>(size) * trajens::kSide * trajens::kSide);
  const auto labels = Read<std::uint8_t>(size);
  const auto indices = Read<std::int32_t>(m);
  std::vector<float> losses(2 * m);
  level->losses(pair.data(), images.data(), labels.data(), indices.data(), m, m, losses.data());
  return std::fwrite(losses.data(), sizeof(float), losses.size(), stdout) != losses.size();
}
