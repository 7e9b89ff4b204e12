// Runs the CUDA kernel on the host. Which warp goes on next, and in which order its threads do, is random: what a missing
// barrier would leave to chance differs from run to run.
#include <random>
#include <stdexcept>
#include <string>

#include "cnn.cuh"

namespace emulator {

// Of the notation in mma.cuh: number i of the words a (or b) of thread 4 g + t.
void Product(Thread* warp) {
  float a[16][16], b[16][8];
  for (int g = 0; g < 8; ++g)
    for (int t = 0; t < 4; ++t) {
      const Thread& thread = warp[4 * g + t];
      for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 4; ++i)
          a[g + i % 2 * 8][2 * t + half + i / 2 * 8] = FloatOfHalf(thread.a[i] >> 16 * half & 0xffff);
        for (int i = 0; i < 2; ++i) b[2 * t + half + 8 * i][g] = FloatOfHalf(thread.b[i] >> 16 * half & 0xffff);
      }
    }
  for (int g = 0; g < 8; ++g)
    for (int t = 0; t < 4; ++t) {
      Thread& thread = warp[4 * g + t];
      for (int i = 0; i < 4; ++i) {
        float sum = 0;
        for (int k = 0; k < 16; ++k) sum += a[g + i / 2 * 8][k] * b[k][2 * t + i % 2];
        sum += thread.c[i];
        // The one NaN of the hardware is positive, on which the comparison of bits relies.
        thread.d[i] = std::isnan(sum) ? __int_as_float(0x7fffffff) : sum;
      }
    }
}

void Matrices(Thread* warp) {
  for (int i = 0; i < 32; ++i)
    if (reinterpret_cast<std::uintptr_t>(warp[i].row) % 16 != 0)
      throw std::runtime_error("a row of a matrix is not aligned to 16 bytes");
  for (int i = 0; i < 32; ++i)
    for (int matrix = 0; matrix < 4; ++matrix)
      std::memcpy(&warp[i].a[matrix], static_cast<const char*>(warp[8 * matrix + i / 4].row) + i % 4 * 4, 4);
}

// Where all threads of the warp are now.
Stop Advance(int number, std::mt19937& random) {
  int order[32];
  for (int i = 0; i < 32; ++i) order[i] = 32 * number + i;
  std::shuffle(order, order + 32, random);
  for (int thread : order) {
    current = thread;
    swapcontext(&scheduler, &threads[thread].context);
  }
  Thread* warp = &threads[32 * number];
  for (int i = 1; i < 32; ++i)
    if (warp[i].stop != warp[0].stop) throw std::runtime_error("the threads of a warp are not at the same place");
  if (warp[0].stop == Stop::kProduct) Product(warp);
  if (warp[0].stop == Stop::kMatrices) Matrices(warp);
  if (warp[0].stop == Stop::kShuffle)
    for (int i = 0; i < 32; ++i) warp[i].received = warp[warp[i].source].value;
  return warp[0].stop;
}

trajens::Arguments arguments;

template <int kTerms>
void RunThread() {
  trajens::LossesOfPairsKernel<kTerms>(arguments);
  Self().stop = Stop::kEnd;
}

template <int kTerms>
void RunBlock(std::mt19937& random) {
  constexpr int kWarps = trajens::kWarps<kTerms>;
  threads.resize(32 * kWarps);
  for (Thread& thread : threads) {
    thread.stack.resize(1 << 17);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = &scheduler;
    makecontext(&thread.context, RunThread<kTerms>, 0);
    thread.stop = Stop::kStart;
  }
  std::vector<int> running(kWarps);
  for (int i = 0; i < kWarps; ++i) running[i] = i;
  std::vector<int> waiting;
  while (!running.empty()) {
    const std::size_t which = random() % running.size();
    const int warp = running[which];
    const Stop stop = Advance(warp, random);
    if (stop == Stop::kEnd || stop == Stop::kBlockBarrier) running.erase(running.begin() + which);
    if (stop == Stop::kBlockBarrier) waiting.push_back(warp);
    if (running.empty()) running.swap(waiting);
  }
}

template <int kTerms>
void Run(std::int64_t lanes, int images_per_warp, unsigned seed) {
  std::mt19937 random(seed);
  arguments.images_per_block = trajens::kWarps<kTerms> * images_per_warp;
  arguments.blocks_per_lane =
      static_cast<int>((arguments.m + arguments.images_per_block - 1) / arguments.images_per_block);
  for (blockIdx.x = 0; blockIdx.x < lanes * arguments.blocks_per_lane; ++blockIdx.x) RunBlock<kTerms>(random);
}

}  // namespace emulator

// Returns what went wrong, or nothing. `terms` is 2 for single and 1 for half precision.
extern "C" const char* losses_of_pairs(int terms, const float* pairs, const std::uint8_t* images,
                                       const std::uint8_t* labels, const std::int32_t* indices, const bool* is_active,
                                       float* losses, std::int64_t lanes, std::int64_t m, std::int64_t size,
                                       int images_per_warp, unsigned seed) {
  static std::string error;
  emulator::arguments = {pairs, images, labels, indices, is_active, losses, m, size, 0, 0};
  try {
    terms == 2 ? emulator::Run<2>(lanes, images_per_warp, seed) : emulator::Run<1>(lanes, images_per_warp, seed);
  } catch (const std::runtime_error& exception) {
    error = exception.what();
    return error.c_str();
  }
  return nullptr;
}
