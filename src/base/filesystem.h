/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file system can be trusted with. Decides how to wait for a lock, and whether a mapping
 * pins an open file description.
 */
#ifndef BERTH_BASE_FILESYSTEM_H
#define BERTH_BASE_FILESYSTEM_H

#include "base/attributes.h"

enum berth_fs_class {
	BERTH_FS_UNKNOWN = 0, /* and everything remote: never block in the kernel */
	BERTH_FS_LOCAL,       /* ext2/3/4, xfs, btrfs, f2fs, zfs, tmpfs, ramfs */
	BERTH_FS_OVERLAY,     /* local, but a mapping pins the file below, not ours */
	BERTH_FS_NFS,
	BERTH_FS_FUSE,
	BERTH_FS_REMOTE, /* 9p, cifs, smb2, ceph, … */
};

/* From statfs's f_type; the types stand in one table. */
enum berth_fs_class berth_fs_class_of_type(unsigned long f_type);
BERTH_MUST_CHECK int berth_fs_class_of_fd(int fd, enum berth_fs_class *ret_class);
const char *berth_fs_class_name(enum berth_fs_class fs_class);

#endif
