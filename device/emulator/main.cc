#include "cnn.cuh"
namespace em { std::vector<Fiber> fibers(32*trajens::kWarps<TERMS>); ucontext_t home; int current; }
Dim blockIdx;
using namespace em;
static trajens::Arguments g_args;
static void Entry() { trajens::LossesOfPairsKernel<TERMS>(g_args); fibers[current].op.kind = kDone; swapcontext(&fibers[current].ctx, &home); }
static void Collective(int warp) {
  Op* o[32]; for (int i = 0; i < 32; ++i) o[i] = &fibers[32 * warp + i].op;
  for (int i = 1; i < 32; ++i) if (o[i]->kind != o[0]->kind) { fprintf(stderr, "divergent collective %d %d\n", o[0]->kind, o[i]->kind); abort(); }
  switch (o[0]->kind) {
    case kMma: {
      float A[16][16], B[16][8];
      for (int l = 0; l < 32; ++l) { int g = l / 4, t = l % 4;
        for (int r = 0; r < 4; ++r) for (int e = 0; e < 2; ++e) A[g + (r & 1) * 8][2 * t + e + (r >> 1) * 8] = H(o[l]->a[r] >> 16 * e);
        for (int r = 0; r < 2; ++r) for (int e = 0; e < 2; ++e) B[2 * t + e + 8 * r][g] = H(o[l]->b[r] >> 16 * e); }
      for (int l = 0; l < 32; ++l) { int g = l / 4, t = l % 4;
        for (int r = 0; r < 4; ++r) { int row = g + (r >> 1) * 8, col = 2 * t + (r & 1); float s = 0; for (int k = 0; k < 16; ++k) s += A[row][k] * B[k][col]; s += o[l]->c[r]; o[l]->d[r] = s == s ? s : __int_as_float(0x7fffffff); } }
      break; }
    case kLdm:
      for (int l = 0; l < 32; ++l) for (int m = 0; m < 4; ++m) memcpy(&o[l]->r[m], (const char*)o[8 * m + l / 4]->p + 4 * (l % 4), 4);
      break;
    case kShfl: for (int l = 0; l < 32; ++l) o[l]->r[0] = (uint32_t)o[o[l]->mode ? l ^ o[l]->arg : o[l]->arg]->v; break;
    default: break;
  }
}
extern "C" void run(const float* pairs, const uint8_t* images, const uint8_t* labels, const int* indices, const bool* active, float* losses, long lanes, long m, long size, int images_per_block, unsigned seed) {
  std::mt19937 rng(seed);
  g_args = {pairs, images, labels, indices, active, losses, m, size, images_per_block, (int)((m + images_per_block - 1) / images_per_block)};
  for (unsigned b = 0; b < lanes * g_args.blocks_per_lane; ++b) {
    blockIdx.x = b;
    for (auto& f : fibers) { f.stack.resize(1 << 17); getcontext(&f.ctx); f.ctx.uc_stack.ss_sp = f.stack.data(); f.ctx.uc_stack.ss_size = f.stack.size(); f.ctx.uc_link = nullptr; makecontext(&f.ctx, Entry, 0); f.op.kind = kNone; }
    const int warps = trajens::kWarps<TERMS>; std::vector<int> state(warps, 0);  // 0 runnable, 1 at block barrier, 2 done
    while (true) {
      std::vector<int> ready; for (int w = 0; w < warps; ++w) if (state[w] == 0) ready.push_back(w);
      if (ready.empty()) { bool any = false; for (int w = 0; w < warps; ++w) if (state[w] == 1) { state[w] = 0; any = true; } if (!any) break; continue; }
      int w = ready[rng() % ready.size()];
      int order[32]; for (int i = 0; i < 32; ++i) order[i] = i; std::shuffle(order, order + 32, rng);
      int done = 0, block = 0;
      for (int i : order) { int id = 32 * w + i; if (fibers[id].op.kind != kDone) { current = id; swapcontext(&home, &fibers[id].ctx); } done += fibers[id].op.kind == kDone; block += fibers[id].op.kind == kBlock; }
      if (done == 32) state[w] = 2; else if (done) { fprintf(stderr, "some lanes ended\n"); abort(); } else if (block == 32) state[w] = 1; else Collective(w);
    }
  }
}
