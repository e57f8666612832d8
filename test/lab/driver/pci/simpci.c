// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A PCI domain with simulated GPUs only; the real amdgpu binds to them. Their BARs (doorbells, registers and VRAM of
 * each) lie in memory of the machine that the kernel leaves alone (memmap=SIZE$BASE).
 */
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

#define GPUS 8
#define DOORBELLS SZ_2M
#define REGISTERS SZ_32M
#define CONFIG_BYTES 256

static ulong base;
module_param(base, ulong, 0444);
MODULE_PARM_DESC(base, "physical address of the reserved memory");
static ulong reserved_mb;
module_param(reserved_mb, ulong, 0444);
MODULE_PARM_DESC(reserved_mb, "MiB that are reserved there");
static uint gpus;
module_param(gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "number of GPUs (default: length of the longest list, or 1)");
static ulong vram_mb[GPUS];
static uint vram_mb_nr;
module_param_array(vram_mb, ulong, &vram_mb_nr, 0444);
MODULE_PARM_DESC(vram_mb, "VRAM of each GPU, one value for all (default: what is reserved, shared out)");
static ushort device_id[GPUS] = { 0x740c };
static uint device_id_nr = 1;
module_param_array(device_id, ushort, &device_id_nr, 0444);
MODULE_PARM_DESC(device_id, "PCI device of each GPU, one value for all: "
			    "0x66a1 gfx906, 0x740c gfx90a (default), 0x74a1 gfx942, "
			    "0x73bf gfx1030");
static int nodes[GPUS];
static uint nodes_nr;
module_param_array_named(numa_node, nodes, int, &nodes_nr, 0444);
MODULE_PARM_DESC(numa_node, "CPU node that each GPU is at (default: none)");
static uint first_slot;
module_param(first_slot, uint, 0444);
MODULE_PARM_DESC(first_slot, "slot of the first GPU: KFD's gpu_id is made of it, among others");

static struct pci_sysdata sysdata = { .domain = 1, .node = NUMA_NO_NODE };
static struct resource window = {
	.name = "simulated GPUs", .flags = IORESOURCE_MEM | IORESOURCE_MEM_64 | IORESOURCE_PREFETCH,
};
static struct resource busn = { .name = "simulated GPUs", .start = 0, .end = 0, .flags = IORESOURCE_BUS };
static struct pci_bus *bus;
static u8 config[GPUS][CONFIG_BYTES];
static int irqs[GPUS] = { [0 ... GPUS - 1] = -1 };

/* The GPU at this place on the bus, or GPUS when there is none. */
static u32 simpci_gpu(unsigned int devfn)
{
	u32 n = PCI_SLOT(devfn) - first_slot;

	return n < gpus && !PCI_FUNC(devfn) ? n : GPUS;
}

static int simpci_read(struct pci_bus *b, unsigned int devfn, int where, int size, u32 *value)
{
	u32 n = simpci_gpu(devfn);

	*value = ~0;
	if (n == GPUS)
		return PCIBIOS_DEVICE_NOT_FOUND;
	*value = 0;
	if (where + size <= CONFIG_BYTES)
		memcpy(value, config[n] + where, size);
	return PCIBIOS_SUCCESSFUL;
}

/* BARs cannot be written. simpci_bar() determines their addresses. */
static int simpci_write(struct pci_bus *b, unsigned int devfn, int where, int size, u32 value)
{
	u32 n = simpci_gpu(devfn);

	if (n == GPUS)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (where == PCI_COMMAND)
		memcpy(config[n] + where, &value, min(size, 2));
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = simpci_read, .write = simpci_write };

static int simpci_bar(struct pci_dev *dev, int bar, resource_size_t *at, resource_size_t size)
{
	struct resource *r = &dev->resource[bar];

	r->name = pci_name(dev);
	r->start = ALIGN(*at, min_t(u64, size, SZ_2M));
	r->end = r->start + size - 1;
	r->flags = IORESOURCE_MEM | IORESOURCE_MEM_64 | (bar == 5 ? 0 : IORESOURCE_PREFETCH);
	*at = r->end + 1;
	return request_resource(&window, r);
}

static int simpci_make(u32 n)
{
	u16 *c = (u16 *)config[n];

	c[PCI_VENDOR_ID / 2] = PCI_VENDOR_ID_ATI;
	c[PCI_DEVICE_ID / 2] = device_id[min(n, device_id_nr - 1)];
	c[PCI_CLASS_DEVICE / 2] = PCI_CLASS_DISPLAY_OTHER;
	c[PCI_SUBSYSTEM_VENDOR_ID / 2] = PCI_VENDOR_ID_ATI;
	c[PCI_SUBSYSTEM_ID / 2] = 0x0b0c;
	irqs[n] = irq_alloc_desc(-1);
	if (irqs[n] < 0)
		return irqs[n];
	irq_set_chip_and_handler(irqs[n], &dummy_irq_chip, handle_simple_irq);
	return 0;
}

static void simpci_free_irqs(void)
{
	u32 n;

	for (n = 0; n < GPUS; n++)
		if (irqs[n] >= 0)
			irq_free_desc(irqs[n]);
}

/* Bytes of VRAM of a GPU, a multiple of 2 MiB. */
static u64 simpci_vram(u32 n)
{
	u64 rest = ((u64)reserved_mb << 20) / gpus - DOORBELLS - REGISTERS - SZ_8M;

	return vram_mb_nr ? (u64)vram_mb[min(n, vram_mb_nr - 1)] << 20 : ALIGN_DOWN(rest, SZ_16M);
}

/* Registers start as 0, so that nothing of an earlier GPU is read. */
static int simpci_reset(struct pci_dev *dev)
{
	void *registers = memremap(dev->resource[5].start, REGISTERS, MEMREMAP_WB);

	if (!registers)
		return -ENOMEM;
	memset(registers, 0, REGISTERS);
	memunmap(registers);
	return 0;
}

static int simpci_place(struct pci_dev *dev, resource_size_t *at)
{
	u32 n = simpci_gpu(dev->devfn);
	int r = simpci_bar(dev, 2, at, DOORBELLS) ?: simpci_bar(dev, 5, at, REGISTERS) ?:
		simpci_bar(dev, 0, at, simpci_vram(n));

	r = r ?: simpci_reset(dev);
	dev->irq = irqs[n];
	dev->no_d3cold = true;
	if (nodes_nr)
		set_dev_node(&dev->dev, nodes[min(n, nodes_nr - 1)]);
	return r;
}

static int simpci_scan(void)
{
	LIST_HEAD(resources);
	struct pci_dev *dev;
	resource_size_t at = base;
	int r = 0;

	pci_add_resource(&resources, &window);
	pci_add_resource(&resources, &busn);
	pci_lock_rescan_remove();
	bus = pci_create_root_bus(NULL, 0, &ops, &sysdata, &resources);
	if (!bus) {
		pci_unlock_rescan_remove();
		return -ENODEV;
	}
	pci_scan_child_bus(bus);
	list_for_each_entry(dev, &bus->devices, bus_list)
		r = r ?: simpci_place(dev, &at);
	if (r)
		pci_remove_root_bus(bus);
	else
		pci_bus_add_devices(bus);
	pci_unlock_rescan_remove();
	return r;
}

static int __init simpci_init(void)
{
	u32 n;
	int r = 0;

	gpus = gpus ?: max3(vram_mb_nr, device_id_nr, max(nodes_nr, 1u));
	if (!base || !reserved_mb || gpus > GPUS || first_slot + gpus > 32)
		return -EINVAL;
	window.start = base;
	window.end = base + ((u64)reserved_mb << 20) - 1;
	for (n = 0; n < gpus; n++)
		r = r ?: simpci_make(n);
	r = r ?: simpci_scan();
	if (r)
		simpci_free_irqs();
	return r;
}

static void __exit simpci_exit(void)
{
	pci_lock_rescan_remove();
	pci_stop_root_bus(bus);
	pci_remove_root_bus(bus);
	pci_unlock_rescan_remove();
	simpci_free_irqs();
}

module_init(simpci_init);
module_exit(simpci_exit);
MODULE_DESCRIPTION("PCI domain of simulated GPUs");
MODULE_LICENSE("Dual MIT/GPL");
