// Records what the process that loads this before libc writes and syncs below $UNSYNCED_BELOW, and what it says, in the
// file $UNSYNCED_RECORDS: power-loss.ts makes of it what a disk may have after a power loss. Each sync lasts $SYNC_MS longer; all after the first
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

enum { WRITE = 1, TRUNCATE, CREATE, SYNC, UNLINK, SAY, RENAME };

// A record: this, the path, the bytes.
struct head {
  int64_t kind, path_length, offset, length;
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

static void record(struct head head, const char *path, const void *bytes) {
  head.path_length = strlen(path);
  struct iovec parts[] = {
      {&head, sizeof head},
      {(void *)path, head.path_length},
      {(void *)bytes, head.length},
  };
  syscall(SYS_writev, records, parts, 3);
}

static int64_t size_of(int file) {
  struct stat found;
  return fstat(file, &found) == 0 ? found.st_size : 0;
}

static ssize_t written(int file, const void *bytes, size_t length, int64_t offset) {
  char path[PATH_MAX];
  if (!path_of(file, path)) return syscall(SYS_pwrite64, file, bytes, length, offset);
  pthread_mutex_lock(&order);
  record((struct head){WRITE, 0, offset, length}, path, bytes);
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
  if (file == STDOUT_FILENO && records >= 0) {
    pthread_mutex_lock(&order);
    record((struct head){SAY, 0, 0, length}, "", bytes);
    pthread_mutex_unlock(&order);
  }
  if (!path_of(file, path)) return syscall(SYS_write, file, bytes, length);
  ssize_t size = written(file, bytes, length, lseek(file, 0, SEEK_CUR));
  if (size > 0) lseek(file, size, SEEK_CUR);
  return size;
}

int ftruncate(int file, off_t length) {
  char path[PATH_MAX];
  if (!path_of(file, path)) return syscall(SYS_ftruncate, file, length);
  pthread_mutex_lock(&order);
  record((struct head){TRUNCATE, 0, length, 0}, path, "");
  int failed = syscall(SYS_ftruncate, file, length);
  pthread_mutex_unlock(&order);
  return failed;
}
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }

static void created(const char *path) {
  if (!counts(path) || access(path, F_OK) == 0) return;
  pthread_mutex_lock(&order);
  record((struct head){CREATE, 0, 0, 0}, path, "");
  pthread_mutex_unlock(&order);
}

int unlink(const char *path) {
  if (counts(path)) {
    pthread_mutex_lock(&order);
    record((struct head){UNLINK, 0, 0, 0}, path, "");
    pthread_mutex_unlock(&order);
  }
  return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int rename(const char *from, const char *to) {
  if (!counts(from) || !counts(to)) return syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
  pthread_mutex_lock(&order);
  int failed = syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
  if (!failed) record((struct head){RENAME, 0, 0, strlen(to)}, from, to);
  pthread_mutex_unlock(&order);
  return failed;
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
  struct head head = {SYNC, 0, size_of(records), 0};
  int fails = syncs_left <= 0;
  syncs_left -= 1;
  pthread_mutex_unlock(&order);
  usleep(sync_ms * 1000);
  if (fails) {
    errno = EIO;
    return -1;
  }
  // The test asks the records alone, so the disk need not be waited for.
  pthread_mutex_lock(&order);
  record(head, path, "");
  pthread_mutex_unlock(&order);
  return 0;
}

int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }
