/* SPDX-License-Identifier: Apache-2.0
 *
 * File-system classes. The numbers are the kernel's (linux/magic.h and the file systems' own); they
 * stand here because the header lacks some of them.
 */
#include "base/filesystem.h"

#include <errno.h>
#include <stddef.h>
#include <sys/vfs.h>

static const struct {
	unsigned long f_type;
	enum berth_fs_class fs_class;
} fs_types[] = {
	{ 0xef53, BERTH_FS_LOCAL },       /* ext2, ext3, ext4 */
	{ 0x58465342, BERTH_FS_LOCAL },   /* xfs */
	{ 0x9123683e, BERTH_FS_LOCAL },   /* btrfs */
	{ 0xf2f52010, BERTH_FS_LOCAL },   /* f2fs */
	{ 0x2fc12fc1, BERTH_FS_LOCAL },   /* zfs */
	{ 0x01021994, BERTH_FS_LOCAL },   /* tmpfs */
	{ 0x858458f6, BERTH_FS_LOCAL },   /* ramfs */
	{ 0x794c7630, BERTH_FS_OVERLAY }, /* overlay */
	{ 0x6969, BERTH_FS_NFS },         /* nfs */
	{ 0x65735546, BERTH_FS_FUSE },    /* fuse */
	{ 0x01021997, BERTH_FS_REMOTE },  /* 9p */
	{ 0xff534d42, BERTH_FS_REMOTE },  /* cifs */
	{ 0xfe534d42, BERTH_FS_REMOTE },  /* smb2 */
	{ 0x517b, BERTH_FS_REMOTE },      /* smb */
	{ 0x00c36400, BERTH_FS_REMOTE },  /* ceph */
	{ 0x01161970, BERTH_FS_REMOTE },  /* gfs2 */
	{ 0x7461636f, BERTH_FS_REMOTE },  /* ocfs2 */
	{ 0x5346414f, BERTH_FS_REMOTE },  /* afs */
	{ 0x73757245, BERTH_FS_REMOTE },  /* coda */
	{ 0x0bd00bd0, BERTH_FS_REMOTE },  /* lustre */
	{ 0x47504653, BERTH_FS_REMOTE },  /* gpfs */
	{ 0x786f4256, BERTH_FS_REMOTE },  /* vboxsf */
};

enum berth_fs_class berth_fs_class_of_type(unsigned long f_type)
{
	/* Some kernels sign-extend the 32-bit number. */
	f_type &= 0xffffffffUL;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(fs_types); i++) {
		if (fs_types[i].f_type == f_type)
			return fs_types[i].fs_class;
	}
	return BERTH_FS_UNKNOWN;
}

int berth_fs_class_of_fd(int fd, enum berth_fs_class *ret_class)
{
	struct statfs fs;

	while (fstatfs(fd, &fs) != 0) {
		if (errno != EINTR)
			return -errno;
	}
	*ret_class = berth_fs_class_of_type((unsigned long)fs.f_type);
	return 0;
}

const char *berth_fs_class_name(enum berth_fs_class fs_class)
{
	switch (fs_class) {
	case BERTH_FS_LOCAL:
		return "local";
	case BERTH_FS_OVERLAY:
		return "overlay";
	case BERTH_FS_NFS:
		return "nfs";
	case BERTH_FS_FUSE:
		return "fuse";
	case BERTH_FS_REMOTE:
		return "remote";
	case BERTH_FS_UNKNOWN:
		break;
	}
	return "unknown";
}
