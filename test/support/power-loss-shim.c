// Records what the process that loads this before libc has written below $UNSYNCED_BELOW and not synced, in the file
// $UNSYNCED_RECORDS, so that power-loss.ts can take it back. Each sync lasts $SYNC_MS longer; all after the first
// $SYNCS_THAT_SUCCEED fail, and a sync that fails syncs nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE = 2, CREATE = 3, SYNC = 4 };

// A record: this, the path, the new bytes, the old ones.
struct head {
  int64_t kind, path_length, offset, new_length, old_length, old_size;
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static const char *below, *records_path;
static int records = -1;
static long sync_ms, syncs_left = LONG_MAX;

__attribute__((constructor)) static void begin(void) {
  below = getenv("UNSYNCED_BELOW");
  records_path = getenv("UNSYNCED_RECORDS");
  if (getenv("SYNC_MS")) sync_ms = atol(getenv("SYNC_MS"));
  if (getenv("SYNCS_THAT_SUCCEED")) syncs_left = atol(getenv("SYNCS_THAT_SUCCEED"));
  if (below && records_path)
    records = syscall(SYS_openat, AT_FDCWD, records_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

// The index of the log is made anew after a crash.
static int counts(const char *path) {
  size_t length = strlen(path);
  if (records < 0 || strncmp(path, below, strlen(below)) != 0) return 0;
  return length < 4 || strcmp(path + length - 4, "-shm") != 0;
}

static int path_of(int file, char *path) {
  char link[64];
  if (records < 0) return 0;
  strcpy(link, "/proc/self/fd/");
  char digits[16];
  int n = 0;
  for (int rest = file; rest > 0 || n == 0; rest /= 10) digits[n++] = '0' + rest % 10;
  size_t at = strlen(link);
  while (n > 0) link[at++] = digits[--n];
  link[at] = 0;
  ssize_t size = readlink(link, path, PATH_MAX - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return counts(path);
}

static void record(struct head head, const char *path, const void *new_bytes, const void *old_bytes) {
  head.path_length = strlen(path);
  struct iovec parts[] = {
      {&head, sizeof head},
      {(void *)path, head.path_length},
      {(void *)new_bytes, head.new_length},
      {(void *)old_bytes, head.old_length},
  };
  syscall(SYS_writev, records, parts, 4);
}

// What lies there now. To be freed.
static void *bytes_at(int file, int64_t offset, int64_t length, int64_t *found) {
  char *bytes = malloc(length > 0 ? length : 1);
  *found = 0;
  while (*found < length) {
    ssize_t size = syscall(SYS_pread64, file, bytes + *found, length - *found, offset + *found);
    if (size <= 0) break;
    *found += size;
  }
  return bytes;
}

static int64_t size_of(int file) {
  struct stat found;
  return fstat(file, &found) == 0 ? found.st_size : 0;
}

static ssize_t written(int file, const void *bytes, size_t length, int64_t offset) {
  char path[PATH_MAX];
  if (!path_of(file, path)) return syscall(SYS_pwrite64, file, bytes, length, offset);
  pthread_mutex_lock(&order);
  struct head head = {WRITE, 0, offset, length, 0, size_of(file)};
  void *old = bytes_at(file, offset, length, &head.old_length);
  record(head, path, bytes, old);
  free(old);
  ssize_t size = syscall(SYS_pwrite64, file, bytes, length, offset);
  pthread_mutex_unlock(&order);
  return size;
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset) { return written(file, bytes, length, offset); }
ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) {
  return written(file, bytes, length, offset);
}

ssize_t write(int file, const void *bytes, size_t length) {
  char path[PATH_MAX];
  if (!path_of(file, path)) return syscall(SYS_write, file, bytes, length);
  ssize_t size = written(file, bytes, length, lseek(file, 0, SEEK_CUR));
  if (size > 0) lseek(file, size, SEEK_CUR);
  return size;
}

int ftruncate(int file, off_t length) {
  char path[PATH_MAX];
  if (!path_of(file, path)) return syscall(SYS_ftruncate, file, length);
  pthread_mutex_lock(&order);
  int64_t size = size_of(file);
  struct head head = {TRUNCATE, 0, length, 0, 0, size};
  void *old = bytes_at(file, length, size > length ? size - length : 0, &head.old_length);
  record(head, path, "", old);
  free(old);
  int failed = syscall(SYS_ftruncate, file, length);
  pthread_mutex_unlock(&order);
  return failed;
}
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }

static void created(const char *path) {
  if (!counts(path) || access(path, F_OK) == 0) return;
  struct head head = {CREATE, 0, 0, 0, 0, 0};
  pthread_mutex_lock(&order);
  record(head, path, "", "");
  pthread_mutex_unlock(&order);
}

int mkdir(const char *path, mode_t mode) {
  created(path);
  return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

static int opened(int folder, const char *path, int flags, int mode) {
  if (flags & O_CREAT) created(path);
  return syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE_OF(flags) \
  va_list rest; \
  va_start(rest, flags); \
  int mode = (flags & O_CREAT) ? va_arg(rest, int) : 0; \
  va_end(rest)

int open(const char *path, int flags, ...) {
  MODE_OF(flags);
  return opened(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  MODE_OF(flags);
  return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

static int synced(int file, long call) {
  char path[PATH_MAX];
  if (!path_of(file, path)) return syscall(call, file);
  pthread_mutex_lock(&order);
  struct head head = {SYNC, 0, size_of(records), 0, 0, 0};
  int fails = syncs_left <= 0;
  syncs_left -= 1;
  pthread_mutex_unlock(&order);
  usleep(sync_ms * 1000);
  if (fails) {
    errno = EIO;
    return -1;
  }
  // What is recorded is taken back, whatever the disk of the test has: it need not be waited for.
  pthread_mutex_lock(&order);
  record(head, path, "", "");
  pthread_mutex_unlock(&order);
  return 0;
}

int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }
