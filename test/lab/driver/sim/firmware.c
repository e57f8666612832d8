// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Replaces the VBIOS and firmware files (amdgpu_bios.c, amdgpu_atombios.c, amdgpu_psp.c), which do not exist here. */
#include <linux/vmalloc.h>

#include "sim.h"

#include "amdgpu_atombios.h"
#include "atom.h"

bool amdgpu_get_bios(struct amdgpu_device *adev)
{
	return true;
}

void amdgpu_bios_release(struct amdgpu_device *adev)
{
}

int amdgpu_atombios_init(struct amdgpu_device *adev)
{
	adev->mode_info.atom_context = kzalloc(sizeof(struct atom_context), GFP_KERNEL);
	return adev->mode_info.atom_context ? 0 : -ENOMEM;
}

void amdgpu_atombios_fini(struct amdgpu_device *adev)
{
	kfree(adev->mode_info.atom_context);
	adev->mode_info.atom_context = NULL;
}

/* Replaces a group of amdgpu_psp.c. It needs a list, because sysfs refuses a group without one. */
static struct attribute *sim_no_attributes[] = { NULL };
const struct attribute_group amdgpu_flash_attr_group = { .attrs = sim_no_attributes };

/* Hook of amdgpu_sdma.c: an empty image with a valid header. */
int sim_ucode_request(struct amdgpu_device *adev, const struct firmware **fw, const char *fmt, ...);
int sim_ucode_request(struct amdgpu_device *adev, const struct firmware **fw, const char *fmt, ...)
{
	struct sdma_firmware_header_v1_0 *h = vzalloc(sizeof(*h));
	struct firmware *f = kzalloc(sizeof(*f), GFP_KERNEL);

	if (!h || !f) {
		vfree(h);
		kfree(f);
		return -ENOMEM;
	}
	h->header.size_bytes = cpu_to_le32(sizeof(*h));
	h->header.header_size_bytes = cpu_to_le32(sizeof(*h));
	h->header.header_version_major = cpu_to_le16(1);
	h->header.ucode_version = cpu_to_le32(8);
	h->header.ucode_array_offset_bytes = cpu_to_le32(sizeof(*h));
	f->data = (void *)h;
	f->size = sizeof(*h);
	*fw = f;
	return 0;
}
