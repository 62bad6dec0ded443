/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeds a fuzz target without libFuzzer: every file of a corpus, then mutations of them.
 *
 *   fuzz_x CORPUS-DIR [COUNT [SEED]]
 *
 * The same COUNT and SEED make the same inputs, so a failure comes back. The last input is kept in a file
 * when the process dies by a signal.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SEED_MAX 512

struct input {
	uint8_t bytes[FUZZ_INPUT_MAX];
	size_t size;
};

static struct {
	struct input corpus[SEED_MAX];
	size_t corpus_count;
	struct input current;
	uint64_t random;
	const char *crash_path;
} driver = { .crash_path = "fuzz-crash" };

/* splitmix64: small, and the same everywhere. */
static uint64_t random_next(void)
{
	uint64_t z = driver.random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static size_t random_below(size_t limit)
{
	return limit == 0 ? 0 : (size_t)(random_next() % limit);
}

static void on_crash(int signal)
{
	int fd = open(driver.crash_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd >= 0)
		(void)!write(fd, driver.current.bytes, driver.current.size);
	(void)!write(STDERR_FILENO, driver.crash_path, strlen(driver.crash_path));
	(void)!write(STDERR_FILENO, ": the input that did it\n", 24);
	raise(signal);
}

static void crashes_catch(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct sigaction action = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

static int corpus_read(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;

	if (dir == NULL) {
		perror(path);
		return -1;
	}
	while ((entry = readdir(dir)) != NULL && driver.corpus_count < SEED_MAX) {
		struct input *input = &driver.corpus[driver.corpus_count];
		int fd = entry->d_name[0] == '.'
				 ? -1
				 : openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, input->bytes, sizeof(input->bytes));

		if (fd >= 0)
			close(fd);
		if (n >= 0) {
			input->size = (size_t)n;
			driver.corpus_count++;
		}
	}
	closedir(dir);
	return 0;
}

/* readdir's order is the file system's: sorted, so that a seed means the same everywhere. */
static int input_compare(const void *a, const void *b)
{
	const struct input *left = a;
	const struct input *right = b;

	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return memcmp(left->bytes, right->bytes, left->size);
}

static void bytes_insert(struct input *input, size_t at, const uint8_t *bytes, size_t count)
{
	if (count > sizeof(input->bytes) - input->size)
		return;
	memmove(input->bytes + at + count, input->bytes + at, input->size - at);
	memcpy(input->bytes + at, bytes, count);
	input->size += count;
}

static void bytes_remove(struct input *input, size_t at, size_t count)
{
	if (count > input->size - at)
		count = input->size - at;
	memmove(input->bytes + at, input->bytes + at + count, input->size - at - count);
	input->size -= count;
}

/* One small change. Bytes come from what parsers take notice of as often as from anywhere. */
static void mutate(struct input *input)
{
	static const uint8_t telling[] = "0123456789.-+%() =,:/\\\nKMGTPiBsmhZSR_ab\0\x7f\xff\x80";
	uint8_t byte =
		random_next() & 1 ? telling[random_below(sizeof(telling))] : (uint8_t)random_next();
	size_t at = random_below(input->size + 1);
	const struct input *other;
	uint8_t piece[64];
	size_t count;

	switch (random_below(6)) {
	case 0: /* one byte more */
		bytes_insert(input, at, &byte, 1);
		break;
	case 1: /* fewer */
		bytes_remove(input, at, 1 + random_below(random_next() & 1 ? 1 : 16));
		break;
	case 2: /* another byte */
		if (at < input->size)
			input->bytes[at] = byte;
		break;
	case 3: /* one bit */
		if (at < input->size)
			input->bytes[at] ^= (uint8_t)(1U << random_below(8));
		break;
	case 4: /* a piece again */
		count = random_below(sizeof(piece));
		if (count > input->size - at)
			count = input->size - at;
		memcpy(piece, input->bytes + at, count);
		bytes_insert(input, random_below(input->size + 1), piece, count);
		break;
	case 5: /* the end of another one */
		other = &driver.corpus[random_below(driver.corpus_count)];
		count = random_below(other->size + 1);
		if (at + count <= sizeof(input->bytes)) {
			memcpy(input->bytes + at, other->bytes + other->size - count, count);
			input->size = at + count;
		}
		break;
	}
}

int main(int argc, char **argv)
{
	size_t count = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : 10000;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;

	if (argc < 2 || argc > 4) {
		fprintf(stderr, "usage: %s CORPUS-DIR [COUNT [SEED]]\n", argv[0]);
		return 2;
	}
	if (corpus_read(argv[1]) < 0)
		return 2;
	if (driver.corpus_count == 0) {
		fprintf(stderr, "%s: no inputs there\n", argv[1]);
		return 2;
	}
	qsort(driver.corpus, driver.corpus_count, sizeof(driver.corpus[0]), input_compare);
	crashes_catch();
	driver.random = seed;
	for (size_t i = 0; i < driver.corpus_count; i++) {
		driver.current = driver.corpus[i];
		LLVMFuzzerTestOneInput(driver.current.bytes, driver.current.size);
	}
	for (size_t i = 0; i < count; i++) {
		driver.current = driver.corpus[random_below(driver.corpus_count)];
		for (size_t changes = 1 + random_below(8); changes > 0; changes--)
			mutate(&driver.current);
		LLVMFuzzerTestOneInput(driver.current.bytes, driver.current.size);
	}
	printf("%zu inputs of the corpus and %zu mutations with seed %llu: none did harm\n",
	       driver.corpus_count, count, (unsigned long long)seed);
	return 0;
}
