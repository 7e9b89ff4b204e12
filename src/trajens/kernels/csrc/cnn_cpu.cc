// losses_of_pairs for the paper's CNN on CPUs, as an XLA FFI target.
//
// The work is cut into pieces of (lane, some images), which the threads of XLA's own pool and the calling thread take in
// turn. The caller never waits for a piece that no thread has begun, so a busy pool cannot block it.

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "cnn.h"
#include "cnn_ffi.h"

namespace ffi = xla::ffi;

namespace trajens {

// One binary, the fastest code the machine can run.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(TRAJENS_NO_CLONES)
#define TRAJENS_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAJENS_CLONES
#endif

TRAJENS_CLONES void Piece(const float* pair, const std::uint8_t* images, const std::uint8_t* labels,
                          const std::int32_t* indices, int count, std::int64_t stride, float* losses) {
  PairOnImages(pair, images, labels, indices, count, stride, losses);
}

constexpr int kImagesPerPiece = 16;

struct Work {
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
      Piece(pairs + lane * 2 * kParameters, images, labels, indices + lane * m + first, count, m,
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
