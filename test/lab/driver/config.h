/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Force-included after the kernel's autoconf.h: what the build of the driver leaves out. */
#undef CONFIG_DRM_AMD_DC
#undef CONFIG_DRM_AMD_DC_FP
#undef CONFIG_DRM_AMD_DC_SI
#undef CONFIG_DRM_AMDGPU_CIK
#undef CONFIG_DRM_AMDGPU_SI
#undef CONFIG_DRM_AMD_ACP
#undef CONFIG_DRM_AMD_ISP
#undef CONFIG_VGA_SWITCHEROO
#undef CONFIG_VGA_SWITCHEROO_MODULE
