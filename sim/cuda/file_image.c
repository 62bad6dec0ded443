/* SPDX-License-Identifier: Apache-2.0
 *
 * See file_image.h.
 */
#include "sim/cuda/file_image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static CUresult read_all(int fd, char *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = read(fd, data + done, bytes - done);

		if (got <= 0)
			return CUDA_ERROR_INVALID_IMAGE;
		done += (size_t)got;
	}
	data[bytes] = '\0';
	return CUDA_SUCCESS;
}

static CUresult read_open(int fd, void **ret_data, size_t *ret_bytes)
{
	struct stat st;
	char *data;
	CUresult err;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return CUDA_ERROR_INVALID_IMAGE;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = read_all(fd, data, (size_t)st.st_size);
	if (err != CUDA_SUCCESS) {
		free(data);
		return err;
	}
	*ret_data = data;
	*ret_bytes = (size_t)st.st_size;
	return CUDA_SUCCESS;
}

CUresult sim_file_image_read(const char *path, void **ret_data, size_t *ret_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	CUresult err;

	if (fd < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	err = read_open(fd, ret_data, ret_bytes);
	close(fd);
	return err;
}
