// losses_of_pairs for the paper's CNN on CPUs, as an XLA FFI target.
//
// The work is cut into pieces of (lane, some images), which the threads of XLA's own pool and the calling thread take in
// turn. The caller never waits for a piece that no thread has begun, so a busy pool cannot block it.

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cnn_ffi.h"
#include "cnn_level.h"

namespace ffi = xla::ffi;

namespace trajens {

// Levels of this family of processors, the fastest first, and whether the machine at hand can run them.
struct Candidate {
  const Level& level;
  bool is_supported;
};

std::vector<Candidate> Candidates() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return {{levels::avx512, has_avx512}, {levels::avx2, has_avx2}, {levels::sse2, true}};
#elif defined(__aarch64__)
  return {{levels::neon, true}};
#else
  return {{levels::generic, true}};
#endif
}

const std::vector<const Level*>& Supported() {
  static const std::vector<const Level*> supported = [] {
    std::vector<const Level*> found;
    for (const Candidate& candidate : Candidates())
      if (candidate.is_supported) found.push_back(&candidate.level);
    return found;
  }();
  return supported;
}

// The level in use: the fastest, unless another is asked for.
std::atomic<const Level*>& InUse() {
  static std::atomic<const Level*> level{Supported().front()};
  return level;
}

constexpr int kImagesPerPiece = 16;

struct Work {
  const Level* level;
  std::vector<std::int64_t> lanes;  // the active ones
  const float* pairs;
  const std::uint8_t* images;
  const std::uint8_t* labels;
  const std::int32_t* indices;
  std::int64_t m;
  float* losses;
  std::int64_t pieces_per_lane, pieces;
  std::atomic<std::int64_t> next{0}, done{0};
  std::mutex mutex;
  std::condition_variable finished;

  void Run() {
    for (std::int64_t piece = next++; piece < pieces; piece = next++) {
      const std::int64_t lane = lanes[piece / pieces_per_lane];
      const std::int64_t first = piece % pieces_per_lane * kImagesPerPiece;
      const int count = static_cast<int>(m - first < kImagesPerPiece ? m - first : kImagesPerPiece);
      level->losses(pairs + lane * 2 * kParameters, images, labels, indices + lane * m + first, count, m,
                    losses + lane * 2 * m + first);
      if (++done == pieces) {
        std::lock_guard<std::mutex> lock(mutex);
        finished.notify_all();
      }
    }
  }
};

std::int64_t ThreadLimit() {
  const char* text = std::getenv("TRAJENS_NUM_THREADS");
  const std::int64_t limit = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  return limit > 0 ? limit : INT64_MAX;
}

ffi::Error LossesOfPairs(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> pairs, ffi::Buffer<ffi::U8> images,
                         ffi::Buffer<ffi::U8> labels, ffi::Buffer<ffi::S32> indices, ffi::Buffer<ffi::PRED> is_active,
                         ffi::ResultBuffer<ffi::F32> losses) {
  const auto shape = indices.dimensions();
  const auto image_shape = images.dimensions();
  if (ffi::Error error = CheckShapes(pairs, images, labels, indices, is_active); error.failure()) return error;
  auto work = std::make_shared<Work>();
  for (std::int64_t lane = 0; lane < shape[0]; ++lane) {
    float* out = losses->typed_data() + lane * 2 * shape[1];
    if (is_active.typed_data()[lane]) {
      work->lanes.push_back(lane);
      continue;
    }
    for (std::int64_t i = 0; i < 2 * shape[1]; ++i) out[i] = 0.0f;
  }
  for (std::int64_t lane : work->lanes) {
    for (std::int64_t i = 0; i < shape[1]; ++i) {
      const std::int32_t index = indices.typed_data()[lane * shape[1] + i];
      if (index < 0 || index >= image_shape[0] || labels.typed_data()[index] >= kClasses)
        return ffi::Error::InvalidArgument("an index or a label is out of range");
    }
  }
  work->level = InUse().load();
  work->pairs = pairs.typed_data();
  work->images = images.typed_data();
  work->labels = labels.typed_data();
  work->indices = indices.typed_data();
  work->m = shape[1];
  work->losses = losses->typed_data();
  work->pieces_per_lane = (shape[1] + kImagesPerPiece - 1) / kImagesPerPiece;
  work->pieces = work->pieces_per_lane * static_cast<std::int64_t>(work->lanes.size());
  if (work->pieces == 0) return ffi::Error::Success();

  std::int64_t helpers = pool.num_threads() - 1;
  if (helpers > work->pieces - 1) helpers = work->pieces - 1;
  if (helpers > ThreadLimit() - 1) helpers = ThreadLimit() - 1;
  for (std::int64_t i = 0; i < helpers; ++i) pool.Schedule([work] { work->Run(); });
  work->Run();
  std::unique_lock<std::mutex> lock(work->mutex);
  work->finished.wait(lock, [&] { return work->done.load() == work->pieces; });
  return ffi::Error::Success();
}

}  // namespace trajens

XLA_FFI_DEFINE_HANDLER_SYMBOL(trajens_cnn_cpu, trajens::LossesOfPairs,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::U8>>()
                                  .Arg<ffi::Buffer<ffi::U8>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::PRED>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

extern "C" {

// Names of the levels that this machine can run, the fastest first, separated by spaces.
const char* trajens_cpu_levels() {
  static const std::string names = [] {
    std::string text;
    for (const trajens::Level* level : trajens::Supported()) text += (text.empty() ? "" : " ") + std::string(level->name);
    return text;
  }();
  return names.c_str();
}

// Use a level from the next call on; whether there is one of that name.
bool trajens_cpu_use(const char* name) {
  for (const trajens::Level* level : trajens::Supported()) {
    if (std::strcmp(level->name, name) != 0) continue;
    trajens::InUse() = level;
    return true;
  }
  return false;
}

// Whether multiply-adds of the level in use round once.
bool trajens_cpu_is_fused() { return trajens::InUse().load()->tiling.is_fused; }

// Multiply-adds of the level in use that need no memory; how many were done.
double trajens_cpu_multiply_adds(std::int64_t rounds) { return trajens::InUse().load()->multiply_adds(rounds); }

}  // extern "C"
