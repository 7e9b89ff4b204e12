// The kernel without JAX: rates by events, or (with an argument) a small case for compute-sanitizer.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cnn_launch.cuh"

#define CHECK(x)                                                                          \
  do {                                                                                    \
    cudaError_t e = (x);                                                                  \
    if (e != cudaSuccess) {                                                               \
      std::printf("%s: %s\n", #x, cudaGetErrorString(e));                                 \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (0)

template <class T>
T* Upload(const std::vector<T>& v) {
  T* p;
  CHECK(cudaMalloc(&p, v.size() * sizeof(T)));
  CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}

void Case(long lanes, long m, long size, bool small) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 0.3f);
  std::vector<float> pairs(lanes * 2 * trajens::kParameters);
  for (auto& x : pairs) x = normal(rng);
  static std::vector<std::uint8_t> images;  // a fifth of the pixels is not black
  if (static_cast<long>(images.size()) != size * 784) {
    images.resize(size * 784);
    for (auto& x : images) x = rng() % 5 ? 0 : rng() % 256;
  }
  std::vector<std::uint8_t> labels(size);
  for (auto& x : labels) x = rng() % 10;
  std::vector<std::int32_t> indices(lanes * m);
  for (auto& x : indices) x = rng() % size;
  std::vector<std::uint8_t> active(lanes, 1);
  if (small) {
    active[lanes / 2] = 0;
    indices[0] = -1;
    indices[m - 1] = size;
  }
  std::vector<float> losses(lanes * 2 * m);
  for (auto& x : losses) x = -1.0f;
  trajens::Arguments args{};
  args.pairs = Upload(pairs);
  args.images = Upload(images);
  args.labels = Upload(labels);
  args.indices = Upload(indices);
  args.is_active = reinterpret_cast<const bool*>(Upload(active));
  args.losses = Upload(losses);
  args.m = m;
  args.size = size;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  const long total = lanes * m;
  const int repeats = small ? 1 : static_cast<int>(4000000 / total + 10);
  double best = 0, sum = 0;
  for (int round = 0; round < (small ? 1 : 5); ++round) {
    CHECK(cudaEventRecord(begin));
    for (int i = 0; i < repeats; ++i) CHECK(trajens::Launch<TRAJENS_TERMS>(args, lanes, nullptr));
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (round > 0 || small) best = std::max(best, total * double(repeats) / ms * 1e3);
  }
  CHECK(cudaMemcpy(losses.data(), args.losses, losses.size() * 4, cudaMemcpyDeviceToHost));
  long unwritten = 0, bad = 0;
  for (float x : losses) {
    unwritten += x == -1.0f;
    bad += !(x == x);
    if (x == x) sum += x;
  }
  std::printf("%5ld x %3ld: %.3e pairs/s %8.2f us a launch; mean loss %.6f, unwritten %ld, NaN %ld\n", lanes, m, best,
              total / best * 1e6, sum / losses.size(), unwritten, bad);
  for (const void* p : {(const void*)args.pairs, (const void*)args.images, (const void*)args.labels,
                        (const void*)args.indices, (const void*)args.is_active, (const void*)args.losses})
    CHECK(cudaFree(const_cast<void*>(p)));
}

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] == 'n') {  // for a profiler
    Case(256, 240, 60000, false);
    return 0;
  }
  if (argc > 1) {
    Case(3, 7, 11, true);
    Case(5, 101, 11, true);
    Case(40, 50, 50, true);
    return 0;
  }
  for (long lanes : {8, 16, 48, 256, 1024}) Case(lanes, 240, 60000, false);
}
