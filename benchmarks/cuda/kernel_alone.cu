// The CUDA kernel without JAX, in both precisions, on cases small enough for compute-sanitizer: `make gpu`.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cnn_launch.cuh"

void Check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "kernel_alone: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

// Freed when the program ends.
template <class T>
T* Upload(const std::vector<T>& values) {
  T* p;
  Check(cudaMalloc(&p, values.size() * sizeof(T)));
  Check(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}

// With an inactive lane and, in the first lane, two indices out of range. Whether every loss is written, and only theirs
// are NaN.
template <int kTerms>
bool IsRight(long lanes, long m, long size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.3f);
  std::vector<float> pairs(lanes * 2 * trajens::kParameters), losses(lanes * 2 * m, -1.0f);
  std::vector<std::uint8_t> images(size * trajens::kSide * trajens::kSide), labels(size), is_active(lanes, 1);
  std::vector<std::int32_t> indices(lanes * m);
  for (auto& x : pairs) x = normal(random);
  for (auto& x : images) x = random() % 256;
  for (auto& x : labels) x = random() % trajens::kClasses;
  for (auto& x : indices) x = random() % size;
  is_active[lanes / 2] = 0;
  indices[0] = -1;
  indices[m - 1] = size;

  trajens::Arguments args{};
  args.pairs = Upload(pairs);
  args.images = Upload(images);
  args.labels = Upload(labels);
  args.indices = Upload(indices);
  args.is_active = reinterpret_cast<const bool*>(Upload(is_active));
  args.losses = Upload(losses);
  args.m = m;
  args.size = size;
  Check(trajens::Launch<kTerms>(args, lanes, nullptr));
  Check(cudaMemcpy(losses.data(), args.losses, losses.size() * sizeof(float), cudaMemcpyDeviceToHost));

  long unwritten = 0, wrong = 0;
  for (long i = 0; i < lanes * 2 * m; ++i) {
    const bool is_out_of_range = i < 2 * m && (i % m == 0 || i % m == m - 1);
    unwritten += losses[i] == -1.0f;
    wrong += std::isnan(losses[i]) != is_out_of_range;
  }
  std::printf("%s precision, %ld lanes of %ld images: %ld losses unwritten, %ld wrongly NaN or not\n",
              kTerms == 2 ? "single" : "half", lanes, m, unwritten, wrong);
  return unwritten == 0 && wrong == 0;
}

int main() {
  bool is_right = true;
  for (const auto& [lanes, m, size] : {std::array<long, 3>{3, 7, 11}, {5, 101, 11}, {40, 50, 50}}) {
    is_right &= IsRight<2>(lanes, m, size);
    is_right &= IsRight<1>(lanes, m, size);
  }
  return is_right ? 0 : 1;
}
