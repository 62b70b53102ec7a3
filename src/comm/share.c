/* Memory between processes of a host: a memfd that the others open through /proc. Unlike files in
 * /dev/shm it has no size limit of its own (containers give /dev/shm 64 MB) and leaves nothing
 * behind when a rank is killed. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "comm_impl.h"

size_t mt_share_round(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), up;
  return mt_size_add(bytes, page - 1, &up) ? up / page * page : 0;
}

/* One page more than asked for, which holds the cookie. */
static bool map_bytes(size_t bytes, size_t *total) {
  size_t rounded = mt_share_round(bytes);
  return (rounded || !bytes) && mt_size_add(rounded, (size_t)sysconf(_SC_PAGESIZE), total) &&
         *total < SIZE_MAX / 2;
}

static int map_shared(void **map, int fd, size_t total, mt_err *e) {
  void *p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    return mt_err_set(e, MT_ENOMEM, "cannot map %zu bytes of shared memory: %s", total,
                      strerror(errno));
  *map = p;
  return MT_OK;
}

int mt_share_create(void **map, size_t bytes, mt_offer *offer, mt_err *e) {
  size_t total;
  *offer = (mt_offer){.pid = (int32_t)getpid(), .fd = -1, .bytes = bytes};
  if (!map_bytes(bytes, &total))
    return mt_err_set(e, MT_ENOMEM, "%zu bytes of shared memory are too many", bytes);
  if (getrandom(offer->cookie, COOKIE_BYTES, 0) != COOKIE_BYTES)
    return mt_err_set(e, MT_EUNSUPPORTED, "no random numbers: %s", strerror(errno));
  int fd = memfd_create("mutirao", MFD_CLOEXEC);
  if (fd < 0) return mt_err_set(e, MT_EUNSUPPORTED, "memfd_create: %s", strerror(errno));
  int rc = MT_OK;
  if (ftruncate(fd, (off_t)total))
    rc = mt_err_set(e, MT_ENOMEM, "no %zu bytes of shared memory: %s", total, strerror(errno));
  if (!rc) rc = map_shared(map, fd, total, e);
  if (rc) {
    close(fd);
    return rc;
  }
  memcpy((char *)*map + mt_share_round(bytes), offer->cookie, COOKIE_BYTES);
  offer->fd = fd;
  return MT_OK;
}

int mt_share_attach(void **map, const mt_offer *offer, mt_err *e) {
  size_t total;
  if (offer->fd < 0 || !map_bytes(offer->bytes, &total))
    return mt_err_set(e, MT_ENOMEM, "the first rank of the node has no shared memory to offer");
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)offer->pid, (int)offer->fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return mt_err_set(e, MT_EUNSUPPORTED, "%s: %s", path, strerror(errno));
  off_t size = lseek(fd, 0, SEEK_END); /* what is shorter is not ours, and reading it would trap */
  int rc = size == (off_t)total ? map_shared(map, fd, total, e)
                                : mt_err_set(e, MT_EUNSUPPORTED, "%s is another file", path);
  close(fd);
  if (rc) return rc;
  if (memcmp((char *)*map + mt_share_round(offer->bytes), offer->cookie, COOKIE_BYTES)) {
    mt_share_detach(*map, offer->bytes);
    return mt_err_set(e, MT_EUNSUPPORTED, "%s is another process's", path);
  }
  return MT_OK;
}

void mt_share_detach(void *map, size_t bytes) {
  size_t total;
  if (map && map_bytes(bytes, &total)) munmap(map, total);
}
