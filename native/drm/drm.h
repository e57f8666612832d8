// linux/kfd_ioctl.h includes <drm/drm.h>, which Debian 12 ships only with libdrm, elsewhere.
#pragma once
#include <libdrm/drm.h>
