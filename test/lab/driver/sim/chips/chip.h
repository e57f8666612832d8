/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The differences between kinds of GPUs. */
#ifndef SIM_CHIP_H
#define SIM_CHIP_H

#include "amdgpu.h"

struct kfd2kgd_calls;

/* Where the GPU sees VRAM, its own or that of its hive, in units of 16 MiB. */
#define SIM_FB		0x8000
/* Size of the VRAM that GPUs of a hive see of each other, for each of them. */
#define SIM_HIVE_SEGMENT (64ULL << 30)

/* Properties of all chips of a generation, as the files of the driver for it have them. */
struct sim_generation {
	u32 family;
	const struct amdgpu_ip_block_version *common, *gmc, *ih, *gfx;

	u32 cus;			/* compute units of each array, all in one row */
	u32 simds_per_cu, wave_size;

	/* Differences of MQDs. Every other member that is read here has the same place in all of them. */
	u32 aql;			/* bits of CP_HQD_PQ_CONTROL that are set in a queue of AQL packets */
	u32 sdma_place;			/* byte of an SDMA queue's engine; its number there follows */
	bool stack_in_save_area;	/* whether the control stack is there, not behind the MQD */
};

extern const struct sim_generation sim_gfx9, sim_gfx10;

struct sim_chip {
	const char *name;
	const struct sim_generation *generation;
	enum amd_asic_type asic;
	u16 device;			/* PCI device; 0: any that the driver takes for asic */

	struct kfd2kgd_calls *calls;	/* the table that a hook of kfd_device.c gives KFD */
	const struct kfd2kgd_calls *drivers_calls;
	const struct amdgpu_ip_block_version *sdma;
	const u8 *sdma_clients;		/* interrupt clients of each engine; NULL: the numbers of most chips */

	u32 mec_firmware;
	u32 shader_engines;		/* of an XCC; each has one array with few compute units: ROCr allocates save areas for all */
	u32 waves_per_simd;
	u32 gb_addr_config;

	/* Versions, functions and register addresses of the blocks. */
	int (*blocks)(struct amdgpu_device *adev);
	/* Sets registers that need a value before the driver reads them. fb_top is the last unit of VRAM. */
	void (*preset)(struct amdgpu_device *adev, u32 vram_mb, u32 fb_top);
	/* Sets the number of XCCs of a partition. NULL: the chip has one XCC. */
	void (*partition)(struct amdgpu_device *adev, u32 xccs);
};

extern const struct sim_chip sim_gfx906, sim_gfx90a, sim_gfx942, sim_gfx1030;

/* chip.c */
const struct sim_chip *sim_chip(struct amdgpu_device *adev);
void sim_preset(struct amdgpu_device *adev, u32 reg, u32 value);
bool sim_in_hive(unsigned int gpu);
u32 sim_hive_place(struct amdgpu_device *adev);
void sim_sdma_engines(struct amdgpu_device *adev, u32 engines, u32 version);

/* gfx942_hive.c */
void sim_gfx942_hive(struct amdgpu_device *adev);

#endif
