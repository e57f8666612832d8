/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Random arguments for the fuzzer: words that are likely to mean something to a GPU driver.
 * No word read as a size is between 64 MiB and 32 TiB: such an allocation may succeed and
 * then only costs time.
 */
#ifndef KFDSIM_TEST_FUZZ_H
#define KFDSIM_TEST_FUZZ_H

#include <stdint.h>
#include <string.h>

#define ARENA 0x2000000ull		/* memory arguments point into; also mapped for the GPU */
#define ARENA_BYTES (256 * 1024ull)
#define FUZZ_VA 0x1000000ull		/* buffers at FUZZ_VA + n * FUZZ_VA_STEP */
#define FUZZ_VA_STEP 0x100000ull
#define SMALL_BITS 0x3ffffffull		/* below 64 MiB */
#define LARGE_BITS (~0ull << 45)	/* 32 TiB and more */

static uint64_t fuzz_state;
static uint32_t fuzz_gpu;

/* xorshift64*: small, and the same everywhere for the same seed. */
static inline uint64_t fuzz_next(void)
{
	fuzz_state ^= fuzz_state >> 12;
	fuzz_state ^= fuzz_state << 25;
	fuzz_state ^= fuzz_state >> 27;
	return fuzz_state * 0x2545f4914f6cdd1dull;
}

static inline uint32_t roll(uint32_t sides)
{
	return (fuzz_next() >> 32) % sides;
}

static inline void fuzz_seed(uint64_t seed)
{
	fuzz_state = seed * 0x9e3779b97f4a7c15ull + 1;
	if (!fuzz_state)
		fuzz_state = 1;
	fuzz_next();
}

static inline uint64_t fuzz_word(void)
{
	switch (roll(16)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return roll(8);
	case 3:
		return ~0ull;
	case 4:
		return fuzz_gpu;
	case 5:
		return (uint64_t)fuzz_gpu << 32 | roll(12);
	case 6:
	case 7:
		return ARENA + roll(ARENA_BYTES / 8) * 8;
	case 8:
		return ARENA + roll(ARENA_BYTES / 4096) * 4096;
	case 9:
		return 4096ull << roll(10);
	case 10:
		return FUZZ_VA + roll(16) * FUZZ_VA_STEP + roll(4) * 4096;
	case 11:
		return roll(48);
	case 12:
		return fuzz_next() & LARGE_BITS;
	case 13:
		return 0xffff888000000000ull + roll(1 << 20);
	case 14:
		return 1ull << roll(26);
	default:
		return fuzz_next() & SMALL_BITS;
	}
}

/* Change one aligned word, half or bit of size bytes (at least 4). */
static inline void fuzz_mutate(void *data, uint32_t size)
{
	uint32_t at = roll(size / 4) * 4, small;
	uint64_t word = fuzz_word();

	switch (roll(4)) {
	case 0:
		memcpy(&small, (char *)data + at, 4);
		small ^= 1u << roll(26);
		memcpy((char *)data + at, &small, 4);
		break;
	case 1:
		at &= ~7u;
		memcpy((char *)data + at, &word, at + 8 <= size ? 8 : 4);
		break;
	case 2:
		small = roll(3) ? (uint32_t)word : 1u << roll(32);
		memcpy((char *)data + at, &small, 4);
		break;
	default:
		small = roll(16);
		memcpy((char *)data + at, &small, 4);
	}
}

static inline void fuzz_fill(void *data, uint32_t size)
{
	uint64_t word;

	for (uint32_t at = 0; at < size; at += 8) {
		word = fuzz_word();
		/* Two halves of their own as often as one whole. */
		if (roll(2))
			word = (word & 0xffffffff) | (uint64_t)(roll(3) ? roll(8) : fuzz_gpu) << 32;
		memcpy((char *)data + at, &word, size - at < 8 ? size - at : 8);
	}
}

#endif
