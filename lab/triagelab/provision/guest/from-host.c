// SPDX-License-Identifier: GPL-2.0-only
/*
 * from-host NAME: print the content of a file that the host provides for the guest.
 * NAME is the file's name in QEMU's fw_cfg device (docs/specs/fw_cfg in QEMU's documentation).
 *
 * The device copies the file into the guest's memory (DMA), which takes no virtual time.
 * If the guest read a megabyte from the device's port, byte by byte, it would take the host
 * a second.
 */
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	PORT_DMA = 0x514, PORTS = 8,
	ITEM_DIRECTORY = 0x19,
	DMA_ERROR = 1, DMA_READ = 2, DMA_SELECT = 8,
	PAGE = 4096,
};

/* An entry of the device's directory, with big-endian numbers. */
struct entry {
	uint32_t size;
	uint16_t item, reserved;
	char name[56];
};

/* A command to the device, with big-endian numbers. */
struct transfer {
	uint32_t control, length;
	uint64_t address;
};

/* A page with commands for the device, and a page for its data.  mlock() keeps both in memory. */
static struct {
	struct transfer transfer __attribute__((aligned(PAGE)));
	char data[PAGE] __attribute__((aligned(PAGE)));
} shared;
static uint64_t transfer_address, data_address;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/*
 * Return the physical address of `address`.  The low 55 bits of an entry in pagemap are
 * the page's frame number.
 */
static uint64_t physical(const void *address)
{
	uint64_t entry, virtual = (uintptr_t)address;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd < 0 || pread(fd, &entry, sizeof(entry), virtual / PAGE * sizeof(entry)) < 0)
		fail("/proc/self/pagemap");
	close(fd);
	return (entry & ((1ULL << 55) - 1)) * PAGE + virtual % PAGE;
}

/* Have the device copy the next `length` bytes of the selected item to shared.data. */
static void transfer(uint32_t control, uint32_t length)
{
	volatile struct transfer *to = &shared.transfer;

	to->length = htobe32(length);
	to->address = htobe64(data_address);
	to->control = htobe32(control | DMA_READ);
	outl(htobe32(transfer_address >> 32), PORT_DMA);
	outl(htobe32(transfer_address), PORT_DMA + 4);	/* starts the copy, and returns after it */
	__asm__ volatile("" : : : "memory");	/* read `shared` again from memory */
	if (be32toh(to->control) & DMA_ERROR) {
		fprintf(stderr, "the device could not copy\n");
		exit(1);
	}
}

static void select_item(uint16_t item)
{
	transfer((uint32_t)item << 16 | DMA_SELECT, 0);
}

/* Return the directory's entry for `name`.  Exit if there is none. */
static struct entry find(const char *name)
{
	struct entry entry;
	uint32_t count;

	select_item(ITEM_DIRECTORY);
	transfer(0, sizeof(count));
	memcpy(&count, shared.data, sizeof(count));
	for (count = be32toh(count); count; count--) {
		transfer(0, sizeof(entry));
		memcpy(&entry, shared.data, sizeof(entry));
		if (!strncmp(entry.name, name, sizeof(entry.name)))
			return entry;
	}
	fprintf(stderr, "the host has no %s\n", name);
	exit(1);
}

int main(int argc, char **argv)
{
	struct entry entry;
	uint32_t left;

	if (argc != 2) {
		fprintf(stderr, "usage: from-host NAME\n");
		return 2;
	}
	if (ioperm(PORT_DMA, PORTS, 1))
		fail("ioperm");
	if (mlock(&shared, sizeof(shared)))
		fail("mlock");
	transfer_address = physical(&shared.transfer);
	data_address = physical(shared.data);
	entry = find(argv[1]);
	select_item(be16toh(entry.item));
	for (left = be32toh(entry.size); left;) {
		uint32_t length = left < PAGE ? left : PAGE;

		transfer(0, length);
		if (fwrite(shared.data, 1, length, stdout) != length)
			fail("standard output");
		left -= length;
	}
	if (fflush(stdout))
		fail("standard output");
	return 0;
}
