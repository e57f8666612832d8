/**
 * The features of x86-64 CPUs that user space executes or keeps in its registers, as /proc/cpuinfo names them. The
 * names are those of Linux' arch/x86/include/asm/cpufeatures.h@6.12.118 that it shows. An instruction without its
 * feature ends a program with SIGILL. LZCNT and TZCNT (abm, bmi1) return something else instead.
 *
 * Not here: what every x86-64 CPU has (sse2), what only the kernel uses (nx, smep, pti), and what other CPUs ignore or
 * do more slowly (erms, fsrm, hle, cldemote, 3dnowprefetch).
 */
export const userFlags: ReadonlySet<string> = new Set(
  `
  abm adx bmi1 bmi2 cx16 lahf_lm movbe popcnt tbm
  3dnow 3dnowext misalignsse pni sse4_1 sse4_2 sse4a ssse3
  avx avx2 avx_vnni f16c fma fma4 xop
  avx512_4fmaps avx512_4vnniw avx512_bf16 avx512_bitalg avx512_fp16 avx512_vbmi2 avx512_vnni avx512_vp2intersect
  avx512_vpopcntdq avx512bw avx512cd avx512dq avx512er avx512f avx512ifma avx512pf avx512vbmi avx512vl
  amx_bf16 amx_int8 amx_tile
  aes gfni pclmulqdq rdrand rdseed sha_ni vaes vpclmulqdq
  fsgsbase mpx ospke user_shstk xgetbv1 xsave xsavec xsaveopt
  clflushopt clwb clzero enqcmd movdir64b movdiri serialize
  mwaitx rdpid rdpru rdtscp ring3mwait rtm tsxldtrk waitpkg
  `
    .trim()
    .split(/\s+/),
);
